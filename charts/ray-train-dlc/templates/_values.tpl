{{/*
A scalar as text. Numbers of values files are floats in templates, which would print 1000000 as 1e+06; JSON prints
1000000, 0.00002 and 1e-7.
*/}}
{{- define "ray-train-dlc.scalar" -}}
{{- if kindIs "string" . -}}{{ . }}{{- else -}}{{ toJson . }}{{- end -}}
{{- end -}}

{{/* With a digest the tag is only a comment: it is not in the reference, so a change of it starts no training. */}}
{{- define "ray-train-dlc.image" -}}
{{- $image := .Values.image -}}
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
{{- $zero := dict "processesPerNode" 0 "efa" 0 "transport" (dict) "tolerations" (list) -}}
{{- $maps := dict "nodeSelector" (dict) "env" (dict) "rayStartParams" (dict) -}}
{{- $_ := set $groups $name (merge $group $zero $maps) -}}
{{- end -}}
{{- toJson $groups -}}
{{- end -}}

{{/*
What all ranks share, as JSON: nodes, gpusPerNode, processesPerNode. requirements.yaml sees to it that the groups agree, so
one of them can speak for all.
*/}}
{{- define "ray-train-dlc.topology" -}}
{{- $nodes := 0 -}}
{{- $gpus := 0 -}}
{{- $processes := 0 -}}
{{- range include "ray-train-dlc.groups" . | fromJson -}}
{{- $nodes = add $nodes .replicas -}}
{{- $gpus = int64 .gpus -}}
{{- $processes = include "ray-train-dlc.ranksPerNode" . | int64 -}}
{{- end -}}
{{- dict "nodes" $nodes "gpusPerNode" $gpus "processesPerNode" $processes | toJson -}}
{{- end -}}

{{/* Ranks on each node of one group: one per GPU, else processesPerNode. */}}
{{- define "ray-train-dlc.ranksPerNode" -}}
{{- if gt (int64 .gpus) 0 -}}{{ int64 .gpus }}{{- else -}}{{ int64 .processesPerNode }}{{- end -}}
{{- end -}}

{{/* Requests and limits, one map for both: dict "resources" {…} "gpus" 4 "efa" 1. */}}
{{- define "ray-train-dlc.resources" -}}
{{- $all := dict -}}
{{- range $name, $quantity := .resources -}}
{{- $_ := set $all $name (include "ray-train-dlc.scalar" $quantity) -}}
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

{{/* rayStartParams, whose values KubeRay wants as strings: dict "own" {…} "given" {…}. */}}
{{- define "ray-train-dlc.rayStartParams" -}}
{{- $params := .own -}}
{{- range $name, $value := .given -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $_ := set $params $name (include "ray-train-dlc.scalar" $value) -}}
{{- end -}}
{{- end -}}
{{- toYaml $params -}}
{{- end -}}

{{/* A string map of values without the keys that a later values file has removed with null, as YAML; nothing when empty. */}}
{{- define "ray-train-dlc.stringMap" -}}
{{- $map := dict -}}
{{- range $key, $value := . -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $_ := set $map $key $value -}}
{{- end -}}
{{- end -}}
{{- if $map -}}{{ toYaml $map }}{{- end -}}
{{- end -}}
