{{/*
RayCluster spec: dict "root" $ "runName" "…". Sizes are fixed (replicas = min = max) unless a standing cluster has the autoscaler: a
training has a set number of ranks.
*/}}
{{- define "ray-train-dlc.rayClusterSpec" -}}
{{- $cluster := .root.Values.cluster -}}
{{- $spec := include "ray-train-dlc.rayClusterOwn" . | fromYaml -}}
{{- with $cluster.gcsFaultToleranceOptions }}{{ $_ := set $spec "gcsFaultToleranceOptions" . }}{{ end -}}
{{- with $cluster.autoscaling.options }}{{ $_ := set $spec "autoscalerOptions" . }}{{ end -}}
{{- $spec = merge $spec (deepCopy $cluster.extraSpec) -}}
{{- include "ray-train-dlc.yaml" $spec -}}
{{- end -}}

{{- define "ray-train-dlc.rayClusterOwn" -}}
{{- $root := .root -}}
{{- $runName := .runName -}}
{{- $auth := $root.Values.auth -}}
{{- $head := include "ray-train-dlc.headFields" $root | fromJson -}}
rayVersion: {{ $root.Values.rayVersion | quote }}
{{- /* `mode` must stand here: without it KubeRay 1.6 leaves the dashboard, and so the execution of any code, open, whatever else is set. */}}
authOptions:
  mode: {{ $auth.mode }}
  {{- with $auth.secretName }}
  secretName: {{ . | quote }}
  {{- end }}
  {{- if $auth.enableK8sTokenAuth }}
  enableK8sTokenAuth: true
  {{- end }}
enableInTreeAutoscaling: {{ $root.Values.cluster.autoscaling.enabled }}
{{- with include "ray-train-dlc.stringMap" $root.Values.head.serviceAnnotations }}
headServiceAnnotations:
  {{- . | nindent 2 }}
{{- end }}
headGroupSpec:
  {{- with $root.Values.head.serviceType }}
  serviceType: {{ . }}
  {{- end }}
  {{- with $root.Values.head.service }}
  headService:
    {{- /* With the fields that the operator would write back. */}}
    {{- merge (deepCopy .) (dict "metadata" dict "spec" dict "status" (dict "loadBalancer" dict)) | toYaml | nindent 4 }}
  {{- end }}
  {{- /* No CPUs and no GPUs to offer: ranks run on the workers only. */}}
  {{- include "ray-train-dlc.offers" (dict "fields" $head "cpus" "0" "gpus" "0") | nindent 2 }}
  template:
    {{- include "ray-train-dlc.podTemplate" (dict "root" $root "runName" $runName "role" "head" "fields" $head) | nindent 4 }}
workerGroupSpecs:
  {{- range $name, $group := include "ray-train-dlc.groups" $root | fromJson }}
  {{- $fields := include "ray-train-dlc.podFields" (dict "root" $root "role" "worker" "own" $group) | fromJson }}
  - groupName: {{ $name | quote }}
    {{- if $root.Values.cluster.autoscaling.enabled }}
    {{- /* No `replicas`: the autoscaler owns it. */}}
    minReplicas: {{ include "ray-train-dlc.minReplicas" $group }}
    maxReplicas: {{ include "ray-train-dlc.maxReplicas" $group }}
    {{- if not (kindIs "invalid" $group.idleTimeoutSeconds) }}
    idleTimeoutSeconds: {{ int64 $group.idleTimeoutSeconds }}
    {{- end }}
    {{- else }}
    replicas: {{ int64 $group.replicas }}
    minReplicas: {{ int64 $group.replicas }}
    maxReplicas: {{ int64 $group.replicas }}
    {{- end }}
    {{- /* These two the operator would write back, and own the list: the next server-side apply (Helm 4, Flux, Argo CD) would conflict. */}}
    numOfHosts: {{ $group.numOfHosts | default 1 | int64 }}
    scaleStrategy: {}
    {{- include "ray-train-dlc.offers" (dict "fields" $fields "cpus" "" "gpus" (int64 $group.gpus | toString)) | nindent 4 }}
    template:
      {{- include "ray-train-dlc.podTemplate" (dict "root" $root "runName" $runName "role" "worker" "fields" $fields) | nindent 6 }}
  {{- end }}
{{- end -}}

{{/*
What the nodes of a group offer to Ray: dict "fields" {…} "cpus" "0" "gpus" "4"; empty cpus: what the container has. As rayStartParams or,
when there are rayResources, as `resources`: the operator refuses both at once. Values are strings.
*/}}
{{- define "ray-train-dlc.offers" -}}
{{- $params := dict -}}
{{- range $name, $value := .fields.rayStartParams -}}
{{- if not (kindIs "invalid" $value) }}{{ $_ := set $params $name (include "ray-train-dlc.scalar" $value) }}{{ end -}}
{{- end -}}
{{- $resources := dict -}}
{{- range $name, $value := .fields.rayResources -}}
{{- if not (kindIs "invalid" $value) }}{{ $_ := set $resources $name (include "ray-train-dlc.scalar" $value) }}{{ end -}}
{{- end -}}
{{- if $resources -}}
{{- $_ := set $resources "GPU" .gpus -}}
{{- with .cpus }}{{ $_ := set $resources "CPU" . }}{{ end -}}
{{- else -}}
{{- $_ := set $params "num-gpus" .gpus -}}
{{- with .cpus }}{{ $_ := set $params "num-cpus" . }}{{ end -}}
{{- end -}}
rayStartParams:
  {{- toYaml $params | nindent 2 }}
{{- with $resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "ray-train-dlc.stringMap" .fields.rayLabels }}
labels:
  {{- . | nindent 2 }}
{{- end }}
{{- end -}}
