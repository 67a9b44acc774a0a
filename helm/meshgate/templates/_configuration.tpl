{{/* meshgate.yaml, the same for every pod. Files are named relative to it, so it can be read wherever it is mounted. */}}
{{- define "meshgate.configuration" -}}
{{- $values := .Values -}}
{{- $host := contains ":" $values.bindHost | ternary (printf "[%s]" $values.bindHost) $values.bindHost -}}
{{- $edge := dict "id" "${MESHGATE_EDGE_ID:-edge-0}" "management" (printf "%s:%d" $host (int $values.edge.managementPort)) "notice_seconds" $values.edge.noticeSeconds "graceful_shutdown_limit_seconds" $values.edge.gracefulShutdownSeconds -}}
{{- if $values.edge.managementHosts -}}
{{- $_ := set $edge "management_hosts" $values.edge.managementHosts -}}
{{- end -}}
{{- if $values.edge.redirectUrl -}}
{{- $_ := set $edge "redirect_url" $values.edge.redirectUrl -}}
{{- end -}}
{{- if $values.edge.operators -}}
{{- $_ := set $edge "operators" $values.edge.operators -}}
{{- end -}}
{{- if $values.edge.record -}}
{{- $_ := set $edge "record" $values.edge.record -}}
{{- end -}}
{{- $router := dict "management" (printf "%s:%d" $host (int $values.router.managementPort)) "checkpoint" "/var/lib/meshgate/router" "mode" $values.router.mode "standby" $values.router.standby -}}
{{- if $values.router.managementHosts -}}
{{- $_ := set $router "management_hosts" $values.router.managementHosts -}}
{{- end -}}
{{- $config := dict "mesh" $values.mesh "kafka" (include "meshgate.kafkaConfiguration" . | fromYaml) "edge" $edge "router" $router -}}
{{- $_ := set $config "listeners" (include "meshgate.listenersConfiguration" (list . $host) | fromYamlArray) -}}
{{- $_ := set $config "trust" (printf "../trust/%s" $values.trust.key) -}}
{{- range $name := list "peers" "permissions" "rules" "limits" -}}
{{- if index $values $name -}}
{{- $_ := set $config $name (index $values $name) -}}
{{- end -}}
{{- end -}}
{{- toYaml (merge $config $values.settings) -}}
{{- end }}

{{- define "meshgate.kafkaConfiguration" -}}
{{- $kafka := .Values.kafka -}}
{{- $config := dict "bootstrap" (include "meshgate.kafkaBootstrap" .) "partitions" $kafka.partitions "replication" $kafka.replication "min_insync_replicas" $kafka.minInsyncReplicas "message_bytes" $kafka.messageBytes "cluster_bytes" $kafka.clusterBytes "security" (include "meshgate.kafkaSecurity" . | fromYaml) -}}
{{- if $kafka.topics -}}
{{- $_ := set $config "topics" $kafka.topics -}}
{{- end -}}
{{- if $kafka.producer -}}
{{- $_ := set $config "producer" $kafka.producer -}}
{{- end -}}
{{- toYaml $config -}}
{{- end }}

{{- define "meshgate.kafkaBootstrap" -}}
{{- if .Values.kafka.strimzi.enabled -}}
{{ include "meshgate.kafkaCluster" . }}-kafka-bootstrap.{{ .Release.Namespace }}.svc:9093
{{- else -}}
{{ .Values.kafka.bootstrap }}
{{- end -}}
{{- end }}

{{/* As the values say; for a Kafka of our own, the certificate that its operator makes. */}}
{{- define "meshgate.kafkaAccess" -}}
{{- if .Values.kafka.strimzi.enabled -}}
protocol: SASL_SSL
mechanism: SCRAM-SHA-512
caSecret: {name: {{ include "meshgate.kafkaCluster" . }}-cluster-ca-cert, key: ca.crt}
clientSecret: {name: ""}
checkHostname: true
{{- else -}}
{{ toYaml .Values.kafka.security }}
{{- end -}}
{{- end }}

{{/* Who a part is to Kafka: for a Kafka of our own, the user that its operator makes; else the part's own in
     kafka.security.users, or the one for all. (list $ "edge") */}}
{{- define "meshgate.kafkaUser" -}}
{{- $root := index . 0 -}}
{{- $security := $root.Values.kafka.security -}}
{{- if $root.Values.kafka.strimzi.enabled -}}
{{- $name := printf "%s-%s" (include "meshgate.fullname" $root) (index . 1) -}}
{{- toYaml (dict "username" $name "passwordSecret" (dict "name" $name "key" "password")) -}}
{{- else -}}
{{- $all := dict "username" $security.username "passwordSecret" $security.passwordSecret -}}
{{- toYaml (default $all (index $security.users (index . 1))) -}}
{{- end -}}
{{- end }}

{{/* Parts that are users of a Kafka of our own: its operator makes the topics. */}}
{{- define "meshgate.kafkaParts" -}}
{{- toYaml (concat (list "edge" "router") (empty .Values.rules | ternary (list) (list "rules"))) -}}
{{- end }}

{{/* What a part may do in Kafka, and no more: the mesh's own topics and groups, for other meshes may share the brokers.
     Whoever writes `raw` can say to be anybody, and only edges, the router and rules do. (list $ "edge") */}}
{{- define "meshgate.kafkaRights" -}}
{{- $mesh := (index . 0).Values.mesh -}}
{{- $part := index . 1 -}}
# All read what there is: for verbs in a pod, and for the edges' page.
- {resource: {type: topic, name: "{{ $mesh }}.", patternType: prefix}, operations: [Read, Describe]}
{{- $writes := dict "edge" (list "raw" "rejected" "deliveries") "router" (list "raw" "events" "rejected" "egress" "deliveries" "interests") "rules" (list "raw") }}
{{- range $topic := index $writes $part }}
- {resource: {type: topic, name: {{ $mesh }}.{{ $topic }}, patternType: literal}, operations: [Write]}
{{- end }}
{{- if eq $part "edge" }}
- {resource: {type: group, name: {{ $mesh }}.edge., patternType: prefix}, operations: [Read, Describe]}
{{- else }}
# Spark names its sources' groups itself.
- {resource: {type: group, name: spark-kafka-, patternType: prefix}, operations: [Read, Describe]}
{{- end }}
{{- end }}

{{/* Pods have one configuration; which user they are stands in their environment. */}}
{{- define "meshgate.kafkaSecurity" -}}
{{- $access := include "meshgate.kafkaAccess" . | fromYaml -}}
protocol: {{ $access.protocol }}
{{- if hasPrefix "SASL" $access.protocol }}
mechanism: {{ $access.mechanism }}
username: ${MESHGATE_KAFKA_USER}
password: ${file:../kafka-password/password}
{{- end }}
{{- if hasSuffix "SSL" $access.protocol }}
check_hostname: {{ $access.checkHostname }}
{{- if $access.caSecret.name }}
ca: ../kafka-ca/ca.crt
{{- end }}
{{- if $access.clientSecret.name }}
cert: ../kafka-client/tls.crt
key: ../kafka-client/tls.key
{{- end }}
{{- end }}
{{- end }}

{{- define "meshgate.listenersConfiguration" -}}
{{- $root := index . 0 -}}
{{- $host := index . 1 -}}
{{- $listeners := list -}}
{{- range $root.Values.listeners -}}
{{- $listener := dict "name" .name "protocol" .protocol "listen" (printf "%s://%s:%d%s" .transport $host (int .port) (default "" .path)) -}}
{{- if include "meshgate.hasTls" .transport -}}
{{- $tls := dict "cert" (printf "../tls/%s/tls.crt" .name) "key" (printf "../tls/%s/tls.key" .name) -}}
{{- if (.tls).clientCa -}}
{{- $_ := set $tls "client_ca" (printf "../client-ca/%s/ca.crt" .name) -}}
{{- if .tls.clientCa.crlKey -}}
{{- $_ := set $tls "crl" (printf "../client-ca/%s/ca.crl" .name) -}}
{{- end -}}
{{- end -}}
{{- if (.tls).nodeFrom -}}
{{- $_ := set $tls "node_from" .tls.nodeFrom -}}
{{- end -}}
{{- $_ := set $listener "tls" $tls -}}
{{- end -}}
{{- $listeners = append $listeners (merge $listener (default dict .options)) -}}
{{- end -}}
{{- toYaml $listeners -}}
{{- end }}

{{/* Of all that running pods do not take over by themselves. A change of anything else restarts nobody. */}}
{{- define "meshgate.restartChecksum" -}}
{{- $config := include "meshgate.configuration" . | fromYaml -}}
{{- $fixed := omit $config "peers" "permissions" "auth" "rules" "limits" "request_timeout_seconds" -}}
{{- $_ := set $fixed "edge" (omit $config.edge "redirect_url" "notice_seconds" "graceful_shutdown_limit_seconds" "operators") -}}
{{- $bound := list -}}
{{- range $config.listeners -}}
{{- $bound = append $bound (pick . "name" "protocol" "listen" "proxy_protocol") -}}
{{- end -}}
{{- $_ := set $fixed "listeners" $bound -}}
{{- toJson $fixed | sha256sum -}}
{{- end }}
