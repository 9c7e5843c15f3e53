{{/* Fields of the pods: what `common` and a more special place give together, their image, and the worker groups. */}}

{{/*
Fields of a pod, as JSON: dict "root" $ "role" "head|worker|submitter" "own" {…}. Over those of `common` go those of its place that are not
empty: maps merge at every depth (null takes a key away) and all else replaces. A probe or hook has one handler, a variable one source,
a scratch one kind and a digest one repository, so these replace as a whole.
*/}}
{{- define "ray-train-dlc.podFields" -}}
{{- $common := deepCopy .root.Values.common -}}
{{- if eq .role "submitter" -}}
{{- /* What is about Ray, its data and its nodes is no business of the pod that submits. */ -}}
{{- $common = omit $common "affinity" "args" "command" "extraContainer" "extraPodSpec" "extraResources" "initContainers" "lifecycle" "livenessProbe" "ports" "rayLabels" "rayResources" "rayStartParams" "readinessProbe" "resourceClaims" "restartPolicy" "scratch" "sidecarContainers" "startupProbe" "topologySpreadConstraints" "volumeMounts" "volumes" -}}
{{- end -}}
{{- $own := dict -}}
{{- range $field, $value := .own -}}
{{- $given := $value -}}
{{- if has $field (list "image" "scratch") -}}
{{- $given = dict -}}
{{- range $key, $item := $value }}{{ if $item }}{{ $_ := set $given $key $item }}{{ end }}{{ end -}}
{{- end -}}
{{- if or (not (empty $given)) (kindIs "bool" $given) (kindIs "float64" $given) (kindIs "int" $given) (kindIs "int64" $given) -}}
{{- $_ := set $own $field $given -}}
{{- if has $field (list "lifecycle" "livenessProbe" "readinessProbe" "scratch" "startupProbe") -}}
{{- $_ := unset $common $field -}}
{{- else if and (eq $field "env") $common.env -}}
{{- range $name := keys $given }}{{ $_ := unset $common.env $name }}{{ end -}}
{{- else if and (eq $field "image") $common.image -}}
{{- $_ := unset $common.image "digest" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $fields := include "ray-train-dlc.overlay" (list $common $own) | fromJson -}}
{{- /* Only now, as until here a null or a false may take away what `common` has. */ -}}
{{- range $field := list "affinity" "extraContainer" "extraPodSpec" -}}
{{- with get $fields $field }}{{ $_ := set $fields $field (include "ray-train-dlc.tidy" (list $field .) | fromJsonArray | first) }}{{ end -}}
{{- end -}}
{{- toJson $fields -}}
{{- end -}}

{{/* Fields of all pods of the release, as JSON: a place of the values to its fields. */}}
{{- define "ray-train-dlc.pods" -}}
{{- $root := . -}}
{{- $pods := dict -}}
{{- if ne .Values.mode "jobOnCluster" -}}
{{- $_ := set $pods "head" (include "ray-train-dlc.headFields" . | fromJson) -}}
{{- range $name, $group := include "ray-train-dlc.groups" . | fromJson -}}
{{- $_ := set $pods (printf "workerGroups.%s" $name) (include "ray-train-dlc.podFields" (dict "root" $root "role" "worker" "own" $group) | fromJson) -}}
{{- end -}}
{{- if and (eq .Values.mode "job") (eq .Values.job.submissionMode "K8sJobMode") -}}
{{- $_ := set $pods "job.submitter" (include "ray-train-dlc.submitterFields" . | fromJson) -}}
{{- end -}}
{{- end -}}
{{- toJson $pods -}}
{{- end -}}

{{- define "ray-train-dlc.headFields" -}}
{{- include "ray-train-dlc.podFields" (dict "root" . "role" "head" "own" .Values.head) -}}
{{- end -}}

{{- define "ray-train-dlc.submitterFields" -}}
{{- $own := deepCopy .Values.job.submitter -}}
{{- include "ray-train-dlc.fill" (list $own.resources (dict "cpu" "500m" "memory" "1Gi")) -}}
{{- include "ray-train-dlc.podFields" (dict "root" . "role" "submitter" "own" $own) -}}
{{- end -}}

{{/* With a digest the tag is only a comment: it is not in the reference, so a change of it starts no training. */}}
{{- define "ray-train-dlc.image" -}}
{{- include "ray-train-dlc.imageOf" .Values.image -}}
{{- end -}}

{{/* Image of some pods: dict "root" $ "fields" {…}. */}}
{{- define "ray-train-dlc.podImage" -}}
{{- include "ray-train-dlc.imageParts" (dict "root" .root "own" .fields.image) | fromJson | include "ray-train-dlc.imageOf" -}}
{{- end -}}

{{/* Its repository, tag and digest, as JSON: dict "root" $ "own" {…}. What is given leaves the digest of `image` behind. */}}
{{- define "ray-train-dlc.imageParts" -}}
{{- $own := .own | default dict -}}
{{- $image := pick .root.Values.image "repository" "tag" "digest" -}}
{{- if or $own.repository $own.tag $own.digest -}}
{{- $_ := set $image "digest" ($own.digest | default "") -}}
{{- end -}}
{{- range $key := list "repository" "tag" -}}
{{- with get $own $key }}{{ $_ := set $image $key . }}{{ end -}}
{{- end -}}
{{- toJson $image -}}
{{- end -}}

{{- define "ray-train-dlc.imageOf" -}}
{{- $image := . -}}
{{- $image.repository -}}
{{- if $image.digest -}}@{{ $image.digest }}{{- else -}}:{{ $image.tag }}{{- end -}}
{{- end -}}

{{/* Worker groups, as JSON, without those that a later values file has set to null. */}}
{{- define "ray-train-dlc.groups" -}}
{{- $groups := dict -}}
{{- range $name, $group := .Values.workerGroups -}}
{{- if $group }}{{ $_ := set $groups $name $group }}{{ end -}}
{{- end -}}
{{- toJson $groups -}}
{{- end -}}

{{/*
What all ranks share, as JSON: nodes, gpusPerNode, processesPerNode. _requirements.tpl sees to it that the groups with ranks agree, so
one of them can speak for all. Groups without ranks only serve (Ray Data on CPU nodes).
*/}}
{{- define "ray-train-dlc.topology" -}}
{{- $nodes := 0 -}}
{{- $gpus := 0 -}}
{{- $processes := 0 -}}
{{- range include "ray-train-dlc.groups" . | fromJson -}}
{{- $ranks := include "ray-train-dlc.ranksPerNode" . | int64 -}}
{{- if gt $ranks 0 -}}
{{- $nodes = add $nodes (mul (int64 .replicas) (int64 .numOfHosts | default 1)) -}}
{{- $gpus = int64 .gpus -}}
{{- $processes = $ranks -}}
{{- end -}}
{{- end -}}
{{- dict "nodes" $nodes "gpusPerNode" $gpus "processesPerNode" $processes | toJson -}}
{{- end -}}

{{/* Ranks on each node of one group: one per GPU, else processesPerNode. */}}
{{- define "ray-train-dlc.ranksPerNode" -}}
{{- if gt (int64 .gpus) 0 -}}{{ int64 .gpus }}{{- else -}}{{ int64 .processesPerNode }}{{- end -}}
{{- end -}}

{{/* Fewest and most nodes of a group where the autoscaler runs: what is given, else `replicas`. */}}
{{- define "ray-train-dlc.minReplicas" -}}
{{- kindIs "invalid" .minReplicas | ternary .replicas .minReplicas | int64 -}}
{{- end -}}

{{- define "ray-train-dlc.maxReplicas" -}}
{{- .maxReplicas | default .replicas | int64 -}}
{{- end -}}

{{/* Requests and limits, one map for both: dict "resources" {…} "extraResources" {…} "gpus" 4 "efa" 1. */}}
{{- define "ray-train-dlc.resources" -}}
{{- $all := dict -}}
{{- range $map := list .resources .extraResources -}}
{{- range $name, $quantity := $map -}}
{{- if not (kindIs "invalid" $quantity) -}}
{{- $_ := set $all $name (include "ray-train-dlc.scalar" $quantity) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if gt (int64 .gpus) 0 -}}
{{- $_ := set $all "nvidia.com/gpu" (int64 .gpus | toString) -}}
{{- end -}}
{{- if gt (int64 .efa) 0 -}}
{{- $_ := set $all "vpc.amazonaws.com/efa" (int64 .efa | toString) -}}
{{- end -}}
requests:
  {{- toYaml $all | nindent 2 }}
limits:
  {{- toYaml $all | nindent 2 }}
{{- end -}}
