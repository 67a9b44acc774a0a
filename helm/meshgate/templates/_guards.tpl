{{/* Combinations that cannot work, all told at once. Each says what to change. */}}
{{- define "meshgate.guards" -}}
{{- $faults := list -}}
{{- $edge := .Values.edge -}}
{{- $router := .Values.router -}}
{{- $kafka := .Values.kafka -}}

{{- if not .Values.trust.secret -}}
{{- $faults = append $faults "trust.secret: name the Secret with the trust store (`meshgate init` writes one to begin with)" -}}
{{- end -}}
{{- if and (not $kafka.bootstrap) (not $kafka.strimzi.enabled) -}}
{{- $faults = append $faults "kafka.bootstrap: say where Kafka is, or set kafka.strimzi.enabled" -}}
{{- end -}}
{{- if and $kafka.bootstrap $kafka.strimzi.enabled -}}
{{- $faults = append $faults "kafka.bootstrap: leave it empty with kafka.strimzi.enabled" -}}
{{- end -}}
{{- if and $kafka.strimzi.enabled (eq $kafka.manageTopics "job") -}}
{{- $faults = append $faults "kafka.manageTopics: `job` runs before anything else is there; with kafka.strimzi.enabled use `strimzi`" -}}
{{- end -}}
{{- if gt (int $kafka.minInsyncReplicas) (int $kafka.replication) -}}
{{- $faults = append $faults (printf "kafka.minInsyncReplicas: %d copies of %d can never be had" (int $kafka.minInsyncReplicas) (int $kafka.replication)) -}}
{{- end -}}
{{- if and $kafka.strimzi.enabled (gt (int $kafka.replication) (int $kafka.strimzi.brokers)) -}}
{{- $faults = append $faults (printf "kafka.replication: %d copies need as many brokers, and there are %d" (int $kafka.replication) (int $kafka.strimzi.brokers)) -}}
{{- end -}}
{{- range $part := list "edge" "router" "rules" "topics" -}}
{{- if and (hasPrefix "SASL" $kafka.security.protocol) (not (hasKey $kafka.security.users $part)) (not (and $kafka.security.username $kafka.security.passwordSecret.name)) -}}
{{- $faults = append $faults (printf "kafka.security: %s needs username and passwordSecret.name, or users.%s" $kafka.security.protocol $part) -}}
{{- end -}}
{{- end -}}

{{- $leastEdges := eq $edge.autoscaling.kind "none" | ternary $edge.replicas $edge.autoscaling.minReplicas | int -}}
{{- if lt $leastEdges 1 -}}
{{- $faults = append $faults "edge.replicas: never zero: a Service without endpoints leaves UDP flows in a hole that outlives the gap" -}}
{{- end -}}
{{- if and $edge.podDisruptionBudget.enabled (gt $leastEdges 1) (ge (int $edge.podDisruptionBudget.maxUnavailable) $leastEdges) -}}
{{- $faults = append $faults (printf "edge.podDisruptionBudget.maxUnavailable: %d of %d edges away at once would leave none" (int $edge.podDisruptionBudget.maxUnavailable) $leastEdges) -}}
{{- end -}}
{{- if and (ne $edge.autoscaling.kind "none") (gt (int $edge.autoscaling.minReplicas) (int $edge.autoscaling.maxReplicas)) -}}
{{- $faults = append $faults "edge.autoscaling: minReplicas is more than maxReplicas" -}}
{{- end -}}
{{- if and (eq $edge.autoscaling.kind "keda") (not $edge.autoscaling.keda.prometheusUrl) -}}
{{- $faults = append $faults "edge.autoscaling.keda.prometheusUrl: say which Prometheus has the edges' lag" -}}
{{- end -}}
{{- if not (has $edge.updateStrategy.type (list "RollingUpdate" "OnDelete")) -}}
{{- $faults = append $faults (printf "edge.updateStrategy.type: %s would end all edges at once; use RollingUpdate" $edge.updateStrategy.type) -}}
{{- end -}}
{{- $mostEdges := include "meshgate.mostEdges" . | int -}}
{{- $egressPartitions := include "meshgate.egressPartitions" . | int -}}
{{- if gt $mostEdges $egressPartitions -}}
{{- $faults = append $faults (printf "kafka.topics.egress.partitions: %d edges need as many, and there are %d" $mostEdges $egressPartitions) -}}
{{- end -}}
{{- $needed := add $edge.noticeSeconds $edge.gracefulShutdownSeconds (include "meshgate.closingSeconds" .) | int -}}
{{- if lt (int $edge.terminationGraceSeconds) $needed -}}
{{- $faults = append $faults (printf "edge.terminationGraceSeconds: %d s would kill an edge that still drains; noticeSeconds + gracefulShutdownSeconds + %s is %d" (int $edge.terminationGraceSeconds) (include "meshgate.closingSeconds" .) $needed) -}}
{{- end -}}

{{- $slots := include "meshgate.taskSlots" . | int -}}
{{- $neededSlots := include "meshgate.neededTaskSlots" . | int -}}
{{- if and (ne $router.mode "microbatch") (lt $slots $neededSlots) -}}
{{- $faults = append $faults (printf "router: real time needs %d task slots (one for each raw partition, and one more) and there are %d: raise router.taskSlots or router.executors, or use mode microbatch" $neededSlots $slots) -}}
{{- end -}}
{{- if and $router.executors.count (ne $router.checkpoint.accessMode "ReadWriteMany") -}}
{{- $faults = append $faults "router.checkpoint.accessMode: executors keep their state beside the driver's; this needs ReadWriteMany" -}}
{{- end -}}
{{- if and (eq $router.kind "sparkapplication") (not $router.executors.count) -}}
{{- $faults = append $faults "router.executors.count: a SparkApplication needs executors" -}}
{{- end -}}
{{- if and $router.standby (or $router.executors.count (eq $router.kind "sparkapplication")) -}}
{{- $faults = append $faults "router.standby: a second pod that waits; not with executors or a SparkApplication" -}}
{{- end -}}
{{- if and $router.standby (eq $router.checkpoint.accessMode "ReadWriteOncePod") -}}
{{- $faults = append $faults "router.standby: both pods mount the checkpoint; accessMode ReadWriteOncePod lets only one" -}}
{{- end -}}

{{- if and .Values.certManager.enabled (not .Values.certManager.issuer.name) -}}
{{- $faults = append $faults "certManager.issuer.name: say who signs" -}}
{{- end -}}
{{- if and .Values.certManager.enabled (ge (int .Values.certManager.renewBeforeHours) (int .Values.certManager.durationHours)) -}}
{{- $faults = append $faults (printf "certManager.renewBeforeHours: %d before the end of %d would be at once, and again" (int .Values.certManager.renewBeforeHours) (int .Values.certManager.durationHours)) -}}
{{- end -}}
{{- if and .Values.metrics.podMonitor.enabled .Values.metrics.serviceMonitor.enabled -}}
{{- $faults = append $faults "metrics: podMonitor and serviceMonitor would count everything twice; choose one" -}}
{{- end -}}
{{- if and .Values.routes.enabled (not .Values.routes.parentRefs) -}}
{{- $faults = append $faults "routes.parentRefs: say which Gateway the routes attach to" -}}
{{- end -}}
{{- $faults = concat $faults (include "meshgate.listenerGuards" . | fromJsonArray) -}}

{{- if $faults -}}
{{- fail (printf "\n\nThese values cannot work:\n  - %s\n" (join "\n  - " $faults)) -}}
{{- end -}}
{{- end }}

{{- define "meshgate.listenerGuards" -}}
{{- $faults := list -}}
{{- $names := list -}}
{{- $ports := list -}}
{{- $servicePorts := list -}}
{{- range .Values.listeners -}}
{{- $ip := include "meshgate.ipProtocol" .transport -}}
{{- $port := printf "%s %d" $ip (int .port) -}}
{{- $servicePort := printf "%s %d" $ip (int (default .port .servicePort)) -}}
{{- if has .name $names -}}
{{- $faults = append $faults (printf "listeners: %s stands there twice" .name) -}}
{{- end -}}
{{- if or (has $port $ports) (and (eq $ip "TCP") (eq (int .port) (int $.Values.edge.managementPort))) -}}
{{- $faults = append $faults (printf "listeners: %s wants port %s, which is taken" .name $port) -}}
{{- end -}}
{{- if and (ne .expose false) (has $servicePort $servicePorts) -}}
{{- $faults = append $faults (printf "listeners: %s wants port %s of the Service, which is taken" .name $servicePort) -}}
{{- end -}}
{{- if and (include "meshgate.hasTls" .transport) (not (.tls).secret) (not $.Values.certManager.enabled) -}}
{{- $faults = append $faults (printf "listeners: %s needs a certificate: tls.secret, or certManager.enabled" .name) -}}
{{- end -}}
{{- if and .tls (not (include "meshgate.hasTls" .transport)) -}}
{{- $faults = append $faults (printf "listeners: %s has no TLS over %s: drop tls, or use another transport" .name .transport) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- $ports = append $ports $port -}}
{{- if ne .expose false -}}
{{- $servicePorts = append $servicePorts $servicePort -}}
{{- end -}}
{{- end -}}
{{- toJson $faults -}}
{{- end }}
