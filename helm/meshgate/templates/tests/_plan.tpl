{{/* What files/check.py is to check of this release. */}}
{{- define "meshgate.testPlan" -}}
{{- $full := include "meshgate.fullname" . -}}
{{- $leastEdges := eq .Values.edge.autoscaling.kind "none" | ternary .Values.edge.replicas .Values.edge.autoscaling.minReplicas | int -}}
{{- $management := list (list "router" (printf "http://%s-router:%d" $full (int .Values.router.managementPort))) -}}
{{- $policed := list (list (printf "%s-router" $full) (int .Values.router.managementPort)) -}}
{{- range $ordinal := until $leastEdges -}}
{{- $host := printf "%s-edge-%d.%s-edge.%s.svc" $full $ordinal $full $.Release.Namespace -}}
{{- $management = append $management (list (printf "edge %d" $ordinal) (printf "http://%s:%d" $host (int $.Values.edge.managementPort))) -}}
{{- if not $.Values.edge.hostNetwork -}}{{/* No policy holds on a node's network. */}}
{{- $policed = append $policed (list $host (int $.Values.edge.managementPort)) -}}
{{- end -}}
{{- end -}}
{{- $listeners := list -}}
{{- $closed := list -}}
{{- range .Values.listeners -}}
{{- if ne .expose false -}}
{{- $host := include "meshgate.service" (list $ .transport) -}}
{{- $listeners = append $listeners (dict "name" .name "transport" .transport "host" $host "port" (default .port .servicePort) "client_ca" (not (empty (.tls).clientCa))) -}}
{{- $closed = append $closed (list $host (int $.Values.edge.managementPort)) -}}
{{- end -}}
{{- end -}}
{{- $plan := dict "mesh" .Values.mesh "timeout_seconds" .Values.tests.timeoutSeconds "management" $management "listeners" $listeners "closed" (uniq $closed) "policed" (and .Values.networkPolicy.enabled .Values.tests.networkPolicyEnforced | ternary $policed list) "signed" (not (empty (include "meshgate.signedListener" .))) -}}
{{- toPrettyJson $plan -}}
{{- end }}

{{/* The first listener that a signed packet can be sent to through the Service; it becomes the address of the test's. */}}
{{- define "meshgate.signedListener" -}}
{{- range .Values.listeners -}}
{{- if and (eq .protocol "emm") (eq .transport "udp") (ne .expose false) -}}
{{ printf "udp://%s:%d" (include "meshgate.service" (list $ "udp")) (int (default .port .servicePort)) }} {{ end -}}
{{- end -}}
{{- end }}
