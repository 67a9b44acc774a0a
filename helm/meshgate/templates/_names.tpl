{{/* The longest suffix is 11 characters, and a StatefulSet's name must leave 11 for its pods' revision label: 63 - 22. */}}
{{- define "meshgate.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $whole := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- default $whole .Values.fullnameOverride | replace "." "-" | trunc 41 | trimSuffix "-" -}}
{{- end }}

{{/* Selects the pods of a part: (list $ "edge"). */}}
{{- define "meshgate.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ default $root.Chart.Name $root.Values.nameOverride }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* Of pods: without versions, so that a new chart restarts none by itself. (list $ "edge") */}}
{{- define "meshgate.podLabels" -}}
{{ include "meshgate.selector" . }}
app.kubernetes.io/part-of: meshgate
{{- end }}

{{- define "meshgate.labels" -}}
{{- $root := index . 0 -}}
{{ include "meshgate.podLabels" . }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* (list $ "edge") */}}
{{- define "meshgate.image" -}}
{{- $root := index . 0 -}}
{{- $image := index $root.Values.images (index . 1) -}}
{{- $name := empty $root.Values.images.registry | ternary $image.repository (printf "%s/%s" $root.Values.images.registry $image.repository) -}}
{{- if $image.digest -}}
{{ $name }}@{{ $image.digest }}
{{- else -}}
{{ $name }}:{{ default $root.Chart.AppVersion $image.tag }}
{{- end -}}
{{- end }}

{{/* The public Service that carries a transport: (list $ "udp"). */}}
{{- define "meshgate.service" -}}
{{- $root := index . 0 -}}
{{- $split := and $root.Values.service.split (printf "-%s" (include "meshgate.ipProtocol" (index . 1) | lower)) -}}
{{ include "meshgate.fullname" $root }}{{ default "" $split }}
{{- end }}

{{/* TCP or UDP, of a listener's transport. */}}
{{- define "meshgate.ipProtocol" -}}
{{- has . (list "udp" "quic") | ternary "UDP" "TCP" -}}
{{- end }}

{{- define "meshgate.hasTls" -}}
{{- if has . (list "tls" "wss" "quic") }}yes{{ end -}}
{{- end }}

{{/* Secret with a listener's certificate: (list $ listener). */}}
{{- define "meshgate.tlsSecret" -}}
{{- $root := index . 0 -}}
{{- $listener := index . 1 -}}
{{- default (printf "%s-%s-tls" (include "meshgate.fullname" $root) $listener.name) ($listener.tls).secret -}}
{{- end }}

{{/* What peers may do that prove nothing, by the first permission that names them all; empty if nothing. */}}
{{- define "meshgate.strangersMay" -}}
{{- $may := list "publish" "subscribe" "serve" -}}
{{- $decided := false -}}
{{- range .Values.permissions -}}
{{- $nodes := default (list "*") .nodes -}}
{{- if and (not $decided) (or (has "*" $nodes) (has "anon:*" $nodes)) (not .listeners) (ne (toString .exposed) "false") -}}
{{- $decided = true -}}
{{- $rule := . -}}
{{- $may = list -}}
{{- range $verb := list "publish" "subscribe" "serve" -}}
{{- $grant := index $rule $verb -}}
{{- if or (not $grant) (not (hasKey $grant "allow")) (index $grant "allow") -}}
{{- $may = append $may $verb -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- join ", " $may -}}
{{- end }}

{{- define "meshgate.kafkaCluster" -}}
{{- default (include "meshgate.fullname" .) .Values.kafka.strimzi.cluster -}}
{{- end }}

{{- define "meshgate.checkpointClaim" -}}
{{- default (printf "%s-checkpoint" (include "meshgate.fullname" .)) .Values.router.checkpoint.existingClaim -}}
{{- end }}
