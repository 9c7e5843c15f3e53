{{/* Rules of _requirements.tpl: worker groups, each alone and all together. */}}

{{- define "ray-train-dlc.check.groups" -}}
{{- $groups := include "ray-train-dlc.groups" . | fromJson -}}
{{- if and .Values.workerGroups (not (values .Values.workerGroups | compact)) }}
ERROR: workerGroups: every group is null ({{ keys .Values.workerGroups | sortAlpha | join ", " }}), which leaves none to train; keep one, or give an empty map for the default group
{{- end }}
{{- range $name, $group := $groups }}
{{- $key := printf "workerGroups.%s" $name }}
{{- $gpus := int64 $group.gpus }}
{{- $processes := int64 $group.processesPerNode }}
{{- if or (not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name)) (gt (len $name) 30) }}
ERROR: workerGroups: {{ toJson $name }} is not a name for a group; use at most 30 lower-case letters, digits and dashes, first a letter
{{- end }}
{{- if eq $name "head" }}
ERROR: {{ $key }}: "head" is the name of the head's own group in Kueue; use another
{{- end }}
{{- if lt (int64 $group.replicas) 1 }}
ERROR: {{ $key }}.replicas: {{ $group.replicas }} nodes train nothing; set it to 1 or more, or the group to null{{ $.Values.cluster.autoscaling.enabled | ternary " (the autoscaler begins with minReplicas, which may be 0)" "" }}
{{- end }}
{{- if and (gt $gpus 0) (gt $processes 0) }}
ERROR: {{ $key }}.processesPerNode: {{ $processes }} next to {{ $gpus }} GPUs; one rank runs on each GPU, so remove it or set gpus to 0
{{- end }}
{{- if and (eq $gpus 0) (gt (int64 $group.efa) 0) }}
ERROR: {{ $key }}.efa: {{ $group.efa }} without GPUs; only NCCL, which needs GPUs, uses EFA here, so set it to 0
{{- end }}
{{- end }}
{{- $ranked := dict }}
{{- $serving := list }}
{{- range $name, $group := $groups }}
{{- if gt (include "ray-train-dlc.ranksPerNode" $group | int64) 0 }}
{{- $_ := set $ranked $name $group }}
{{- else }}
{{- $serving = append $serving $name }}
{{- end }}
{{- end }}
{{- if and $groups (not $ranked) }}
ERROR: workerGroups: no group has ranks ({{ join ", " $serving }}); set gpus, or processesPerNode of a group without GPUs, to 1 or more
{{- end }}
{{- range $name, $group := $ranked }}
{{- if and $serving (eq (int64 $group.gpus) 0) }}
ERROR: workerGroups.{{ $name }}: ranks on CPUs next to a group without ranks ({{ join ", " $serving }}), where Ray would place some of them; give that group processesPerNode, or remove it
{{- end }}
{{- end }}
{{- include "ray-train-dlc.check.groupsAgree" (dict "groups" $ranked) }}
{{- end -}}

{{/* All ranks are of one kind: a training has one number of ranks per node, one backend and one transport. */}}
{{- define "ray-train-dlc.check.groupsAgree" -}}
{{- $ranks := dict -}}
{{- $gpus := dict -}}
{{- $efa := dict -}}
{{- $protocols := dict -}}
{{- range $name, $group := .groups -}}
{{- $_ := set $ranks (include "ray-train-dlc.ranksPerNode" $group) $name -}}
{{- $_ := set $gpus (gt (int64 $group.gpus) 0 | ternary "with GPUs" "without GPUs") $name -}}
{{- $_ := set $efa (gt (int64 $group.efa) 0 | ternary "with EFA" "without EFA") $name -}}
{{- with $group.transport.protocol }}{{ $_ := set $protocols . $name }}{{ end -}}
{{- end -}}
{{- range list (list "ranks per node" $ranks) (list "GPUs" $gpus) (list "EFA" $efa) (list "the transport protocol" $protocols) }}
{{- $seen := index . 1 }}
{{- if gt (len $seen) 1 }}
{{- $parts := list }}
{{- range $value, $name := $seen }}
{{- $parts = append $parts (printf "%s has %s" $name $value) }}
{{- end }}
ERROR: workerGroups: groups differ in {{ index . 0 }} ({{ join ", " $parts | replace "has with" "is with" }}); make them equal, or install one group
{{- end }}
{{- end }}
{{- end -}}
