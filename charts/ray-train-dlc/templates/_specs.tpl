{{/*
RayCluster spec: dict "root" $ "runName" "…". Sizes are fixed (replicas = min = max, no autoscaler): a training has a set number of ranks.
*/}}
{{- define "ray-train-dlc.rayClusterSpec" -}}
{{- $root := .root -}}
{{- $runName := .runName -}}
{{- $head := merge (dict "gpus" 0 "efa" 0) (deepCopy $root.Values.head) -}}
rayVersion: {{ $root.Values.rayVersion | quote }}
{{- /* `mode` must stand here: without it KubeRay 1.6 leaves the dashboard, and so the execution of any code, open, whatever else is set. */}}
authOptions:
  mode: token
enableInTreeAutoscaling: false
headGroupSpec:
  {{- /* No CPUs and no GPUs to offer: ranks run on the workers only. */}}
  rayStartParams:
    {{- include "ray-train-dlc.rayStartParams" (dict "own" (dict "num-cpus" "0" "num-gpus" "0") "given" $head.rayStartParams) | nindent 4 }}
  template:
    {{- include "ray-train-dlc.podTemplate" (dict "root" $root "runName" $runName "role" "head" "group" $head) | nindent 4 }}
workerGroupSpecs:
  {{- range $name, $group := include "ray-train-dlc.groups" $root | fromJson }}
  - groupName: {{ $name | quote }}
    replicas: {{ int64 $group.replicas }}
    minReplicas: {{ int64 $group.replicas }}
    maxReplicas: {{ int64 $group.replicas }}
    {{- /* These two the operator would write back, and own the list: the next server-side apply (Helm 4, Flux, Argo CD) would conflict. */}}
    numOfHosts: 1
    scaleStrategy: {}
    rayStartParams:
      {{- $own := dict "num-gpus" (int64 $group.gpus | toString) }}
      {{- include "ray-train-dlc.rayStartParams" (dict "own" $own "given" $group.rayStartParams) | nindent 6 }}
    template:
      {{- include "ray-train-dlc.podTemplate" (dict "root" $root "runName" $runName "role" "worker" "group" $group) | nindent 6 }}
  {{- end }}
{{- end -}}

{{/*
RayJob spec: dict "root" $ "runName" "…". Rendered twice: once without the name, to be hashed, and once with it.
HTTPMode: the operator submits by itself. With a submitter pod, a dropped log connection ends the job, and each submitter pulls the image.
There is no upgradeStrategy (the operator refuses it in a RayJob's cluster) and no `suspend` (queues set it; two owners would fight).
*/}}
{{- define "ray-train-dlc.rayJobSpec" -}}
{{- $job := .root.Values.job -}}
entrypoint: {{ include "ray-train-dlc.entrypoint" .root | quote }}
submissionMode: HTTPMode
shutdownAfterJobFinishes: true
{{- /* The operator writes a 0 back as nothing. */}}
{{- if gt (int64 $job.ttlSecondsAfterFinished) 0 }}
ttlSecondsAfterFinished: {{ toJson $job.ttlSecondsAfterFinished }}
{{- end }}
backoffLimit: {{ toJson $job.backoffLimit }}
preRunningDeadlineSeconds: {{ toJson $job.preRunningDeadlineSeconds }}
{{- if $job.activeDeadlineSeconds }}
activeDeadlineSeconds: {{ toJson $job.activeDeadlineSeconds }}
{{- end }}
rayClusterSpec:
  {{- include "ray-train-dlc.rayClusterSpec" . | nindent 2 }}
{{- end -}}

{{/* Command of the driver. Ray gives it to a shell, so each word is quoted for one. */}}
{{- define "ray-train-dlc.entrypoint" -}}
{{- $words := list "python" "-m" "training.train" (printf "--preset=%s" .Values.training.preset) -}}
{{- range $name, $value := .Values.training.args -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $words = append $words (printf "--%s=%s" (replace "_" "-" $name) (include "ray-train-dlc.scalar" $value)) -}}
{{- end -}}
{{- end -}}
{{- $quoted := list -}}
{{- range $words -}}
{{- $quoted = append $quoted (include "ray-train-dlc.shellQuote" .) -}}
{{- end -}}
{{- join " " $quoted -}}
{{- end -}}

{{- define "ray-train-dlc.shellQuote" -}}
{{- if regexMatch "^[A-Za-z0-9_@%+=:,./-]+$" . -}}{{ . }}{{- else -}}'{{ replace "'" "'\\''" . }}'{{- end -}}
{{- end -}}
