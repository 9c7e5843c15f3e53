{{/*
A scalar as text. Numbers of values files are floats in templates, which would print 1000000 as 1e+06; JSON prints
1000000, 0.00002 and 1e-7.
*/}}
{{- define "ray-train-dlc.scalar" -}}
{{- if kindIs "string" . -}}{{ . }}{{- else -}}{{ toJson . }}{{- end -}}
{{- end -}}

{{/*
What a more special place gives over a more general one, as JSON: list general special. Maps merge and null drops a key of them; of
other fields the special one wins when it is not empty.
*/}}
{{- define "ray-train-dlc.overlay" -}}
{{- $result := deepCopy (index . 0) -}}
{{- range $field, $value := index . 1 -}}
{{- if kindIs "map" $value -}}
{{- $inner := get $result $field | default dict -}}
{{- range $key, $item := $value -}}
{{- if kindIs "invalid" $item -}}
{{- $_ := unset $inner $key -}}
{{- else -}}
{{- $_ := set $inner $key $item -}}
{{- end -}}
{{- end -}}
{{- $_ := set $result $field $inner -}}
{{- else if not (empty $value) -}}
{{- $_ := set $result $field $value -}}
{{- end -}}
{{- end -}}
{{- toJson $result -}}
{{- end -}}

{{/* Fields of a pod, those of `common` included, as JSON: dict "root" $ "own" {…}. */}}
{{- define "ray-train-dlc.podFields" -}}
{{- $common := include "ray-train-dlc.overlay" (list dict .root.Values.common) | fromJson -}}
{{- include "ray-train-dlc.overlay" (list $common .own) -}}
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

{{/*
Worker groups with their defaults, as JSON. Groups set to null (removed by a later values file) are left out. The defaults are all
zero values, so that a merge cannot take a given 0 or false for "not given".
*/}}
{{- define "ray-train-dlc.groups" -}}
{{- $groups := dict -}}
{{- range $name, $group := .Values.workerGroups -}}
{{- if $group -}}
{{- $_ := set $groups $name (deepCopy $group) -}}
{{- end -}}
{{- end -}}
{{- if not $groups -}}
{{- $taint := dict "key" "nvidia.com/gpu" "operator" "Exists" "effect" "NoSchedule" -}}
{{- $resources := dict "cpu" "3" "memory" "12Gi" -}}
{{- $_ := set $groups "gpu" (dict "replicas" 1 "gpus" 1 "resources" $resources "tolerations" (list $taint)) -}}
{{- end -}}
{{- range $name, $group := $groups -}}
{{- $_ := set $groups $name (merge $group (dict "processesPerNode" 0 "efa" 0 "transport" (dict))) -}}
{{- end -}}
{{- toJson $groups -}}
{{- end -}}

{{/*
What all ranks share, as JSON: nodes, gpusPerNode, processesPerNode. requirements.yaml sees to it that the groups with ranks agree, so
one of them can speak for all. Groups without ranks only serve (Ray Data on CPU nodes).
*/}}
{{- define "ray-train-dlc.topology" -}}
{{- $nodes := 0 -}}
{{- $gpus := 0 -}}
{{- $processes := 0 -}}
{{- range include "ray-train-dlc.groups" . | fromJson -}}
{{- $ranks := include "ray-train-dlc.ranksPerNode" . | int64 -}}
{{- if gt $ranks 0 -}}
{{- $nodes = add $nodes .replicas -}}
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

{{/* A value of any depth without the keys that are null, as a JSON array of one; nulls would be a difference to what the API keeps. */}}
{{- define "ray-train-dlc.pruned" -}}
{{- if kindIs "map" . -}}
{{- $kept := dict -}}
{{- range $key, $value := . -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $_ := set $kept $key (index (include "ray-train-dlc.pruned" $value | fromJsonArray) 0) -}}
{{- end -}}
{{- end -}}
{{- list $kept | toJson -}}
{{- else if kindIs "slice" . -}}
{{- $kept := list -}}
{{- range . -}}
{{- $kept = append $kept (index (include "ray-train-dlc.pruned" . | fromJsonArray) 0) -}}
{{- end -}}
{{- list $kept | toJson -}}
{{- else -}}
{{- list . | toJson -}}
{{- end -}}
{{- end -}}

{{/* A string map of values without the keys that a later values file has removed with null, as YAML; nothing when empty. */}}
{{- define "ray-train-dlc.stringMap" -}}
{{- $map := dict -}}
{{- range $key, $value := . -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $_ := set $map $key $value -}}
{{- end -}}
{{- end -}}
{{- if $map -}}{{ include "ray-train-dlc.yaml" $map }}{{- end -}}
{{- end -}}

{{/* YAML of a map without its nulls. Helm's own toYaml prints nothing at all for a text that YAML cannot hold. */}}
{{- define "ray-train-dlc.yaml" -}}
{{- $text := index (include "ray-train-dlc.pruned" . | fromJsonArray) 0 | toYaml -}}
{{- if or (not $text) (hasKey . "Error") -}}
{{- fail "\n\nERROR: a value holds a control character or a byte order mark, which no manifest can carry; look for it in env, training and the extra… values\n" -}}
{{- end -}}
{{- $text -}}
{{- end -}}
