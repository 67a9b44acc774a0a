{{/* Ports of a driver with executors; fixed, for its Service and its network policy. */}}
{{- define "meshgate.driverPort" -}}7078{{- end }}
{{- define "meshgate.blockManagerPort" -}}7079{{- end }}

{{/* Arguments of `meshgate router`, as a JSON list. */}}
{{- define "meshgate.routerArguments" -}}
{{- $router := .Values.router -}}
{{- $arguments := list "router" "-c" "/etc/meshgate/config/meshgate.yaml" "-v" "--log-format" "json" -}}
{{- if eq $router.kind "statefulset" -}}
{{- if $router.executors.count -}}
{{- $arguments = concat $arguments (list "--master" "k8s://https://kubernetes.default.svc:443") -}}
{{- else if $router.taskSlots -}}
{{- $arguments = concat $arguments (list "--master" (printf "local[%d]" (int $router.taskSlots))) -}}
{{- end -}}
{{- range $name, $value := include "meshgate.sparkSettings" . | fromYaml -}}
{{- $arguments = concat $arguments (list "--conf" (printf "%s=%v" $name $value)) -}}
{{- end -}}
{{- end -}}
{{- toJson $arguments -}}
{{- end }}

{{/* Spark settings, all of them text. What the values say wins. */}}
{{- define "meshgate.sparkSettings" -}}
{{- $router := .Values.router -}}
{{- $settings := dict -}}
{{- if $router.executors.count -}}
{{- $settings = include "meshgate.executorSettings" . | fromYaml -}}
{{- end -}}
{{- range $name, $value := $router.spark -}}
{{- $_ := set $settings $name (toString $value) -}}
{{- end -}}
{{- toYaml $settings -}}
{{- end }}

{{- define "meshgate.executorSettings" -}}
{{- $full := include "meshgate.fullname" . -}}
{{- $executors := .Values.router.executors -}}
spark.executor.instances: {{ $executors.count | quote }}
spark.executor.cores: {{ $executors.taskSlots | quote }}
spark.executor.memory: {{ $executors.memory }}
spark.executor.memoryOverhead: {{ $executors.memoryOverhead }}
spark.kubernetes.namespace: {{ .Release.Namespace }}
spark.kubernetes.container.image: {{ include "meshgate.image" (list . "router") }}
spark.kubernetes.container.image.pullPolicy: {{ .Values.images.pullPolicy }}
spark.kubernetes.executor.request.cores: {{ $executors.cpu | quote }}
spark.kubernetes.executor.podNamePrefix: {{ $full }}-router
# A pod that was lost is made anew at once. (By default Spark looks once a second.)
spark.kubernetes.allocation.batch.delay: 200ms
# Nobody else joins as an executor, and what driver and executors tell each other (Kafka's password too) is not in clear.
# Spark makes the secret anew for each start.
spark.authenticate: "true"
spark.network.crypto.enabled: "true"
{{- if eq .Values.router.kind "statefulset" }}
# Executors find the driver by its pod's own name, end when it ends, and are made after the template below. (By default
# Spark tells them the address that the driver binds instead, which is every address here, and none to connect to.)
spark.kubernetes.executor.useDriverPodIP: "false"
spark.driver.host: {{ $full }}-router-0.{{ $full }}-router.{{ .Release.Namespace }}.svc
spark.driver.bindAddress: {{ .Values.bindHost | quote }}
spark.driver.port: {{ include "meshgate.driverPort" . | quote }}
spark.driver.blockManager.port: {{ include "meshgate.blockManagerPort" . | quote }}
spark.kubernetes.driver.pod.name: {{ $full }}-router-0
spark.kubernetes.executor.podTemplateFile: /etc/meshgate/spark/executor.yaml
spark.kubernetes.executor.podTemplateContainerName: executor
{{- else }}
spark.driver.port: {{ include "meshgate.driverPort" . | quote }}
spark.driver.blockManager.port: {{ include "meshgate.blockManagerPort" . | quote }}
spark.kubernetes.authenticate.driver.serviceAccountName: {{ $full }}-router
spark.kubernetes.driver.podTemplateContainerName: router
spark.kubernetes.executor.podTemplateContainerName: executor
{{- end }}
{{- end }}

{{/* The router's values, in which a standby is on the node of the other: a lock and a ReadWriteOnce volume hold there. */}}
{{- define "meshgate.driverPlacement" -}}
{{- $router := deepCopy .Values.router -}}
{{- if $router.standby -}}
{{- $affinity := default dict $router.affinity -}}
{{- $selector := dict "matchLabels" (include "meshgate.selector" (list . "router") | fromYaml) -}}
{{- $together := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" $selector -}}
{{- $pods := default dict $affinity.podAffinity -}}
{{- $required := append (default list $pods.requiredDuringSchedulingIgnoredDuringExecution) $together -}}
{{- $pods = merge (dict "requiredDuringSchedulingIgnoredDuringExecution" $required) $pods -}}
{{- $_ := set $router "affinity" (merge (dict "podAffinity" $pods) $affinity) -}}
{{- end -}}
{{- toYaml $router -}}
{{- end }}

{{/* A pod with the driver, without what only a StatefulSet or only an operator says. */}}
{{- define "meshgate.driverPod" -}}
serviceAccountName: {{ include "meshgate.fullname" . }}-router
automountServiceAccountToken: {{ not (empty .Values.router.executors.count) }}
enableServiceLinks: false
# The pod's first process takes in what Spark's Python workers leave behind.
shareProcessNamespace: true
terminationGracePeriodSeconds: {{ .Values.router.terminationGraceSeconds }}
securityContext: {{- include "meshgate.podSecurity" . | nindent 2 }}
{{- include "meshgate.placement" (list . (include "meshgate.driverPlacement" . | fromYaml) "router") }}
volumes:
  - name: tmp
    emptyDir: {sizeLimit: {{ .Values.router.scratchSize }}}
  - name: checkpoint
    persistentVolumeClaim: {claimName: {{ include "meshgate.checkpointClaim" . }}}
  {{- if and .Values.router.executors.count (eq .Values.router.kind "statefulset") }}
  - name: spark
    configMap: {name: {{ include "meshgate.fullname" . }}-executor}
  {{- end }}
  {{- include "meshgate.trustVolume" . | nindent 2 }}
  {{- include "meshgate.configurationVolumes" (list . (include "meshgate.fullname" .) "router") | nindent 2 }}
  {{- include "meshgate.extra" (list .Values.router "extraVolumes" 2) }}
{{- end }}

{{/* (list $ "router") */}}
{{- define "meshgate.driverContainer" -}}
{{- $root := index . 0 -}}
name: {{ index . 1 }}
image: {{ include "meshgate.image" (list $root "router") }}
imagePullPolicy: {{ $root.Values.images.pullPolicy }}
{{- with include "meshgate.environment" (list $root $root.Values.router "router") }}
env: {{- . | nindent 2 }}
{{- end }}
startupProbe: {{- include "meshgate.probe" (list "started" $root.Values.router.managementPort) | nindent 2 }}
  periodSeconds: 5
  failureThreshold: 60
readinessProbe: {{- include "meshgate.probe" (list "ready" $root.Values.router.managementPort) | nindent 2 }}
  periodSeconds: 10
livenessProbe: {{- include "meshgate.probe" (list "live" $root.Values.router.managementPort) | nindent 2 }}
  periodSeconds: 20
resources: {{- toYaml $root.Values.router.resources | nindent 2 }}
securityContext: {{- include "meshgate.containerSecurity" $root | nindent 2 }}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
  - {name: checkpoint, mountPath: /var/lib/meshgate}
  {{- if and $root.Values.router.executors.count (eq $root.Values.router.kind "statefulset") }}
  - {name: spark, mountPath: /etc/meshgate/spark, readOnly: true}
  {{- end }}
  {{- include "meshgate.trustMount" $root | nindent 2 }}
  {{- include "meshgate.configurationMounts" (list $root "router") | nindent 2 }}
  {{- include "meshgate.extra" (list $root.Values.router "extraVolumeMounts" 2) }}
{{- end }}

{{/* After which Spark makes executors: they read the same configuration, and write their state beside the driver's. */}}
{{- define "meshgate.executorPod" -}}
metadata:
  {{- include "meshgate.podMetadata" (list . .Values.router "executor" dict) | nindent 2 }}
spec:
  serviceAccountName: {{ include "meshgate.fullname" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  securityContext: {{- include "meshgate.podSecurity" . | nindent 4 }}
  {{- include "meshgate.placement" (list . .Values.router "executor") | nindent 2 }}
  containers:
    - name: executor
      {{- with include "meshgate.environment" (list . .Values.router "router") }}
      env: {{- . | nindent 8 }}
      {{- end }}
      securityContext: {{- include "meshgate.containerSecurity" . | nindent 8 }}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
        - {name: checkpoint, mountPath: /var/lib/meshgate}
        {{- include "meshgate.trustMount" . | nindent 8 }}
        {{- include "meshgate.configurationMounts" (list . "router") | nindent 8 }}
        {{- include "meshgate.extra" (list .Values.router "extraVolumeMounts" 8) }}
  volumes:
    - name: tmp
      emptyDir: {sizeLimit: {{ .Values.router.scratchSize }}}
    - name: checkpoint
      persistentVolumeClaim: {claimName: {{ include "meshgate.checkpointClaim" . }}}
    {{- include "meshgate.trustVolume" . | nindent 4 }}
    {{- include "meshgate.configurationVolumes" (list . (include "meshgate.fullname" .) "router") | nindent 4 }}
    {{- include "meshgate.extra" (list .Values.router "extraVolumes" 4) }}
{{- end }}
