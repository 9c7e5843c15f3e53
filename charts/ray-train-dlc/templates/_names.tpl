{{/*
Names of all objects. KubeRay takes DNS-1035 labels only: a RayCluster of at most 53 characters, a RayJob of at most 47, because
the operator appends six to name the job's cluster. The API server accepts longer ones; the operator then refuses them.
*/}}

{{/* Base name, at most 53 characters, DNS-1035 whatever the release is called: "1.Llama" gives "r-1-llama". */}}
{{- define "ray-train-dlc.base" -}}
{{- $name := .Values.nameOverride | default .Release.Name | lower -}}
{{- $name = regexReplaceAll "[^a-z0-9-]+" $name "-" | trimAll "-" -}}
{{- if not (regexMatch "^[a-z]" $name) -}}
{{- $name = printf "r-%s" $name -}}
{{- end -}}
{{- $name | trunc 53 | trimAll "-" -}}
{{- end -}}

{{- define "ray-train-dlc.cluster" -}}
{{- .Values.clusterName | default "cluster" -}}
{{- end -}}

{{- define "ray-train-dlc.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "ray-train-dlc.base" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* What a ConfigMap takes, in bytes of text: what `kubectl apply` keeps of an object in an annotation may have 256 KiB, as JSON, with escapes. */}}
{{- define "ray-train-dlc.codeMapBytes" -}}204800{{- end -}}

{{/*
The training files and the ConfigMaps that hold them, as JSON: [{"name": "demo-code-1a2b3c4d", "files": {"train.py": "…"}}]. In the order of
their names they fill one after the other, and each is named by its own content: pods of an old job and of a new one each mount the code that
they were made for. Made once for all templates, which share the map that they are given.
*/}}
{{- define "ray-train-dlc.codeMaps" -}}
{{- if not (hasKey . "CodeMaps") -}}
{{- $limit := include "ray-train-dlc.codeMapBytes" . | int -}}
{{- $parts := list -}}
{{- $part := dict -}}
{{- $bytes := 0 -}}
{{- range $path, $content := .Files.Glob "files/training/*.py" -}}
{{- if and $part (gt (add $bytes (len $content) | int) $limit) -}}
{{- $parts = append $parts $part -}}
{{- $part = dict -}}
{{- $bytes = 0 -}}
{{- end -}}
{{- $_ := set $part (base $path) (toString $content) -}}
{{- $bytes = add $bytes (len $content) -}}
{{- end -}}
{{- $maps := list -}}
{{- range $files := append $parts $part -}}
{{- $name := printf "%s-code-%s" (include "ray-train-dlc.base" $) (toJson $files | sha256sum | trunc 8) -}}
{{- $maps = append $maps (dict "name" $name "files" $files) -}}
{{- end -}}
{{- $_ := set $ "CodeMaps" (toJson $maps) -}}
{{- $names := list -}}
{{- range $maps }}{{ $names = append $names .name }}{{ end -}}
{{- $_ := set $ "CodeMapNames" $names -}}
{{- end -}}
{{- .CodeMaps -}}
{{- end -}}

{{/* The names of those ConfigMaps, as a JSON list. */}}
{{- define "ray-train-dlc.codeMapNames" -}}
{{- $_ := include "ray-train-dlc.codeMaps" . -}}
{{- toJson .CodeMapNames -}}
{{- end -}}

{{/* Files, as JSON {"train.py": "…"}, as the data of a ConfigMap. Blank lines stay blank: indented ones would trip linters that read the rendered manifest. */}}
{{- define "ray-train-dlc.fileData" -}}
{{- regexReplaceAll "(?m)^ +$" (fromJson . | toYaml | nindent 2) "" -}}
{{- end -}}

{{/*
SHA-256 over what a job is: its rendered spec, the text of the training files, job.runId and the base of its name. Left out, and nothing else:
  * labels and annotations of the pod templates, so that commonLabels never start a training; the labels of a queue do, because a queue
    does not let them change while the job runs
  * labels and annotations of the head's Service, for the same reason
  * the job's own name and namespace, that is the values of RTD_RUN_NAME and the end of RTD_RUN_PATH
The chart's version is in none of these. The parsed spec is hashed, not its text: spacing, comments and key order do not count.
*/}}
{{- define "ray-train-dlc.contentHash" -}}
{{- if not (hasKey . "ContentHash") -}}
{{- $spec := include "ray-train-dlc.rayJobSpec" (dict "root" . "runName" "") | fromYaml -}}
{{- $content := dict "spec" $spec "runId" .Values.job.runId "base" (include "ray-train-dlc.base" .) -}}
{{- with $spec.rayClusterSpec -}}
{{- $_ := unset . "headServiceAnnotations" -}}
{{- with .headGroupSpec.headService -}}
{{- $_ := set . "metadata" (omit .metadata "annotations" "labels") -}}
{{- if not (or .metadata .spec) }}{{ $_ := unset $spec.rayClusterSpec.headGroupSpec "headService" }}{{ end -}}
{{- end -}}
{{- $_ := unset .headGroupSpec.template "metadata" -}}
{{- range .workerGroupSpecs -}}
{{- $_ := unset .template "metadata" -}}
{{- end -}}
{{- /* On a cluster that is there already, the code is that cluster's. */ -}}
{{- $_ := set $content "files" (include "ray-train-dlc.codeMaps" $) -}}
{{- end -}}
{{- with $spec.submitterPodTemplate }}{{ $_ := unset . "metadata" }}{{ end -}}
{{- with include "ray-train-dlc.queueLabels" (dict "root" . "name" "") | fromJson }}{{ $_ := set $content "queue" . }}{{ end -}}
{{- $_ := set $ "ContentHash" (toJson $content | sha256sum) -}}
{{- end -}}
{{- .ContentHash -}}
{{- end -}}

{{- define "ray-train-dlc.jobName" -}}
{{- if .Values.job.name -}}
{{- .Values.job.name -}}
{{- else -}}
{{- $base := include "ray-train-dlc.base" . | trunc 38 | trimAll "-" -}}
{{- printf "%s-%s" $base (include "ray-train-dlc.contentHash" . | trunc 8) -}}
{{- end -}}
{{- end -}}

{{/* The run that the pods are made for: the RayJob, or the RayCluster itself. */}}
{{- define "ray-train-dlc.runName" -}}
{{- if eq .Values.mode "cluster" -}}
{{- include "ray-train-dlc.base" . -}}
{{- else -}}
{{- include "ray-train-dlc.jobName" . -}}
{{- end -}}
{{- end -}}
