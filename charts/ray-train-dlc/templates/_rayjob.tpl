{{/*
RayJob spec: dict "root" $ "runName" "…". Rendered twice: once without the name, to be hashed, and once with it.
HTTPMode: the operator submits by itself. With a submitter pod, a dropped log connection ends the job, and each submitter pulls the image.
There is no upgradeStrategy (the operator refuses it in a RayJob's cluster) and no `suspend` (queues set it; two owners would fight).
*/}}
{{- define "ray-train-dlc.rayJobSpec" -}}
{{- $spec := merge (include "ray-train-dlc.rayJobOwn" . | fromYaml) (deepCopy .root.Values.job.extraSpec) -}}
{{- include "ray-train-dlc.yaml" $spec -}}
{{- end -}}

{{- define "ray-train-dlc.rayJobOwn" -}}
{{- $job := .root.Values.job -}}
entrypoint: {{ include "ray-train-dlc.entrypoint" .root | quote }}
submissionMode: {{ $job.submissionMode }}
preRunningDeadlineSeconds: {{ toJson $job.preRunningDeadlineSeconds }}
{{- with $job.activeDeadlineSeconds }}
activeDeadlineSeconds: {{ toJson . }}
{{- end }}
{{- with include "ray-train-dlc.runtimeEnv" . | fromJson }}
runtimeEnvYAML: {{ toYaml . | quote }}
{{- end }}
{{- with include "ray-train-dlc.stringMap" $job.metadata }}
metadata:
  {{- . | nindent 2 }}
{{- end }}
{{- with $job.managedBy }}
managedBy: {{ . }}
{{- end }}
{{- if eq .root.Values.mode "jobOnCluster" }}
clusterSelector:
  ray.io/cluster: {{ $job.clusterName | quote }}
{{- else }}
{{- /* Whatever the end: deletion rules would leave the cluster of a job that somebody stopped. */}}
shutdownAfterJobFinishes: true
{{- /* The operator writes a 0 back as nothing. */}}
{{- with include "ray-train-dlc.ttl" .root | int64 }}
ttlSecondsAfterFinished: {{ . }}
{{- end }}
backoffLimit: {{ toJson $job.backoffLimit }}
{{- if eq $job.submissionMode "K8sJobMode" }}
submitterConfig:
  backoffLimit: {{ toJson $job.submitter.backoffLimit }}
submitterPodTemplate:
  {{- include "ray-train-dlc.submitter" . | nindent 2 }}
{{- end }}
rayClusterSpec:
  {{- include "ray-train-dlc.rayClusterSpec" . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "ray-train-dlc.submitter" -}}
{{- $fields := include "ray-train-dlc.submitterFields" .root | fromJson -}}
{{- include "ray-train-dlc.podTemplate" (dict "root" .root "runName" .runName "role" "submitter" "fields" $fields) -}}
{{- end -}}

{{/* As JSON. On a cluster that is there already, the job brings along what its own pods would have told it. */}}
{{- define "ray-train-dlc.runtimeEnv" -}}
{{- $env := deepCopy .root.Values.job.runtimeEnv -}}
{{- if eq .root.Values.mode "jobOnCluster" -}}
{{- $own := include "ray-train-dlc.runEnv" . | fromJson -}}
{{- $_ := set $env "env_vars" (merge $own (get $env "env_vars" | default dict)) -}}
{{- end -}}
{{- /* Ray takes texts only. */ -}}
{{- range $name, $value := get $env "env_vars" | default dict -}}
{{- $_ := set $env.env_vars $name (include "ray-train-dlc.scalar" $value) -}}
{{- end -}}
{{- toJson $env -}}
{{- end -}}

{{/*
Seconds that the cluster stays after the job: long enough to read the logs where they are kept nowhere else. The bundled training copies
them to the storage; what code of the user's own does is not known.
*/}}
{{- define "ray-train-dlc.ttl" -}}
{{- $given := .Values.job.ttlSecondsAfterFinished -}}
{{- if kindIs "invalid" $given -}}
{{- and (ne .Values.training.storage.kind "none") (hasPrefix "training." .Values.training.code.module) | ternary 0 600 -}}
{{- else -}}
{{- int64 $given -}}
{{- end -}}
{{- end -}}

{{/* Command of the driver. Ray gives it to a shell, so each word is quoted for one. */}}
{{- define "ray-train-dlc.entrypoint" -}}
{{- $words := list "python" "-m" .Values.training.code.module (printf "--preset=%s" .Values.training.preset) -}}
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
