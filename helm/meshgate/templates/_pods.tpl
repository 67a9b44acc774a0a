{{/* What Pod Security `restricted` asks for, and a group that may read mounted Secrets. 10001 is the images' user. */}}
{{- define "meshgate.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "meshgate.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* (list "started" 9640) */}}
{{- define "meshgate.probe" -}}
httpGet: {path: /healthz/{{ index . 0 }}, port: {{ index . 1 }}}
timeoutSeconds: 5
{{- end }}

{{/* Metadata of a pod. Its own labels win: selectors depend on them. (list $ VALUES COMPONENT ANNOTATIONS) */}}
{{- define "meshgate.podMetadata" -}}
{{- $values := index . 1 -}}
labels: {{- merge (include "meshgate.podLabels" (list (index . 0) (index . 2)) | fromYaml) $values.podLabels | toYaml | nindent 2 }}
{{- with merge (index . 3) $values.podAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Volumes, mounts and containers that the values add to a pod: (list VALUES "extraVolumes" INDENTATION). */}}
{{- define "meshgate.extra" -}}
{{- with index (index . 0) (index . 1) }}
{{- toYaml . | nindent (index $ 2) }}
{{- end }}
{{- end }}

{{/* Environment of a container: (list $ VALUES PART); a part of "" has no business with Kafka. Only edges get the secrets
     of listeners, links and tokens. */}}
{{- define "meshgate.environment" -}}
{{- $root := index . 0 -}}
{{- $values := index . 1 -}}
{{- $part := index . 2 -}}
{{- $own := list -}}
{{- if and $part (hasPrefix "SASL" (include "meshgate.kafkaAccess" $root | fromYaml).protocol) -}}
{{- $user := include "meshgate.kafkaUser" (list $root $part) | fromYaml -}}
{{- $own = list (dict "name" "MESHGATE_KAFKA_USER" "value" $user.username) -}}
{{- end -}}
{{- if and $part (ne $part "edge") -}}
{{- $own = append $own (dict "name" "MESHGATE_PART" "value" $part) -}}
{{- end -}}
{{- with concat $own $root.Values.env $values.extraEnv }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{/* Who judges packets and signs for the gateway reads the trust store: the router and its executors, and no other part. */}}
{{- define "meshgate.trustVolume" -}}
- name: trust
  secret: {secretName: {{ .Values.trust.secret }}, defaultMode: 0440}
{{- end }}

{{- define "meshgate.trustMount" -}}
- {name: trust, mountPath: /etc/meshgate/trust, readOnly: true}
{{- end }}

{{/* What every part needs to read the configuration: the file, access to Kafka, files it refers to.
     (list $ CONFIGMAP PART) */}}
{{- define "meshgate.configurationVolumes" -}}
{{- $root := index . 0 -}}
{{- $part := index . 2 -}}
{{- $access := include "meshgate.kafkaAccess" $root | fromYaml -}}
- name: config
  configMap: {name: {{ index . 1 }}}
{{- if hasPrefix "SASL" $access.protocol }}
{{- $user := include "meshgate.kafkaUser" (list $root $part) | fromYaml }}
- name: kafka-password
  secret:
    secretName: {{ $user.passwordSecret.name }}
    defaultMode: 0440
    items: [{key: {{ $user.passwordSecret.key }}, path: password}]
{{- end }}
{{- if hasSuffix "SSL" $access.protocol }}
{{- with $access.caSecret }}
{{- if .name }}
- name: kafka-ca
  secret:
    secretName: {{ .name }}
    defaultMode: 0440
    items: [{key: {{ .key }}, path: ca.crt}]
{{- end }}
{{- end }}
{{- with $access.clientSecret }}
{{- if .name }}
- name: kafka-client
  secret:
    secretName: {{ .name }}
    defaultMode: 0440
    items: [{key: {{ .certKey }}, path: tls.crt}, {key: {{ .keyKey }}, path: tls.key}]
{{- end }}
{{- end }}
{{- end }}
{{- range $root.Values.secretFiles }}
{{- if has $part (default (list "edge") .parts) }}
- name: secret-{{ .name }}
  secret: {secretName: {{ .secret }}, defaultMode: 0440}
{{- end }}
{{- end }}
{{- end }}

{{/* (list $ PART) */}}
{{- define "meshgate.configurationMounts" -}}
{{- $root := index . 0 -}}
{{- $part := index . 1 -}}
{{- $access := include "meshgate.kafkaAccess" $root | fromYaml -}}
- {name: config, mountPath: /etc/meshgate/config, readOnly: true}
{{- if hasPrefix "SASL" $access.protocol }}
- {name: kafka-password, mountPath: /etc/meshgate/kafka-password, readOnly: true}
{{- end }}
{{- if hasSuffix "SSL" $access.protocol }}
{{- if $access.caSecret.name }}
- {name: kafka-ca, mountPath: /etc/meshgate/kafka-ca, readOnly: true}
{{- end }}
{{- if $access.clientSecret.name }}
- {name: kafka-client, mountPath: /etc/meshgate/kafka-client, readOnly: true}
{{- end }}
{{- end }}
{{- range $root.Values.secretFiles }}
{{- if has $part (default (list "edge") .parts) }}
- {name: secret-{{ .name }}, mountPath: /etc/meshgate/secrets/{{ .name }}, readOnly: true}
{{- end }}
{{- end }}
{{- end }}

{{/* Certificates stay with the edges: nobody else has a socket for them. */}}
{{- define "meshgate.listenerVolumes" -}}
{{- range .Values.listeners }}
{{- if include "meshgate.hasTls" .transport }}
- name: tls-{{ .name }}
  secret: {secretName: {{ include "meshgate.tlsSecret" (list $ .) }}, defaultMode: 0440}
{{- if (.tls).clientCa }}
- name: client-ca-{{ .name }}
  secret:
    secretName: {{ .tls.clientCa.secret }}
    defaultMode: 0440
    items:
      - {key: {{ .tls.clientCa.key }}, path: ca.crt}
      {{- with .tls.clientCa.crlKey }}
      - {key: {{ . }}, path: ca.crl}
      {{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "meshgate.listenerMounts" -}}
{{- range .Values.listeners }}
{{- if include "meshgate.hasTls" .transport }}
- {name: tls-{{ .name }}, mountPath: /etc/meshgate/tls/{{ .name }}, readOnly: true}
{{- if (.tls).clientCa }}
- {name: client-ca-{{ .name }}, mountPath: /etc/meshgate/client-ca/{{ .name }}, readOnly: true}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Places a pod as the values say, spread among the pods of a component: (list $ VALUES "executor"). */}}
{{- define "meshgate.placement" -}}
{{- $root := index . 0 -}}
{{- $part := index . 1 -}}
{{- $selector := include "meshgate.selector" (list $root (index . 2)) | fromYaml -}}
{{- with $part.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $part.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $part.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $part.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $part.topologySpreadConstraints }}
topologySpreadConstraints:
{{- range . }}
  - {{- merge (dict "labelSelector" (dict "matchLabels" $selector)) . | toYaml | nindent 4 }}
{{- end }}
{{- end }}
{{- with $root.Values.images.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end }}
