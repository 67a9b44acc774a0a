{{/* Sums that more than one template or guard needs. */}}

{{- define "meshgate.mostEdges" -}}
{{- $scaling := .Values.edge.autoscaling -}}
{{- eq $scaling.kind "none" | ternary .Values.edge.replicas $scaling.maxReplicas | int -}}
{{- end }}

{{- define "meshgate.egressPartitions" -}}
{{- default .Values.kafka.partitions (.Values.kafka.topics.egress).partitions | int -}}
{{- end }}

{{/* Tasks that the router can run at once. */}}
{{- define "meshgate.taskSlots" -}}
{{- $router := .Values.router -}}
{{- if $router.executors.count -}}
{{ mul $router.executors.count $router.executors.taskSlots }}
{{- else -}}
{{ default (include "meshgate.neededTaskSlots" .) $router.taskSlots | int }}
{{- end -}}
{{- end }}

{{/* Tasks that run at once in real time: one for each raw partition, and one for what a lane reads when it starts again. */}}
{{- define "meshgate.neededTaskSlots" -}}
{{- add1 .Values.kafka.partitions -}}
{{- end }}

{{/* After the sessions are drained an edge closes its consumer and producer, which may take this long. */}}
{{- define "meshgate.closingSeconds" -}}15{{- end }}
