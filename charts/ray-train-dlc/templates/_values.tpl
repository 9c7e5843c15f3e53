{{/*
A scalar as text. Numbers of values files are floats in templates, which would print 1000000 as 1e+06; JSON prints
1000000, 0.00002 and 1e-7.
*/}}
{{- define "ray-train-dlc.scalar" -}}
{{- if kindIs "string" . -}}{{ . }}{{- else -}}{{ toJson . }}{{- end -}}
{{- end -}}

{{/*
Puts the values in order, in place, once for all templates; every file that renders something begins with it. After it each value is there
(null, or a key without a value, is its default), no list holds nulls or what the operator would leave out when it writes back, and the
values have passed all rules.
*/}}
{{- define "ray-train-dlc.settle" -}}
{{- if not (hasKey . "Settled") -}}
{{- $_ := set . "Settled" true -}}
{{- $values := .Values -}}
{{- $defaults := include "ray-train-dlc.defaults" . | fromJson -}}
{{- include "ray-train-dlc.fill" (list $values $defaults.values) -}}
{{- if not $values.workerGroups -}}
{{- $taint := dict "key" "nvidia.com/gpu" "operator" "Exists" "effect" "NoSchedule" -}}
{{- $resources := dict "cpu" "3" "memory" "12Gi" -}}
{{- $_ := set $values "workerGroups" (dict "gpu" (dict "replicas" 1 "gpus" 1 "resources" $resources "tolerations" (list $taint))) -}}
{{- end -}}
{{- range $group := $values.workerGroups -}}
{{- if $group }}{{ include "ray-train-dlc.fill" (list $group $defaults.group) }}{{ end -}}
{{- end -}}
{{- range $place := concat (list $values.common $values.head $values.job.submitter) (values $values.workerGroups | compact) -}}
{{- range $field, $value := $place -}}
{{- if or (kindIs "slice" $value) (has $field (list "lifecycle" "livenessProbe" "readinessProbe" "startupProbe")) -}}
{{- $_ := set $place $field (include "ray-train-dlc.tidy" $value | fromJsonArray | first) -}}
{{- end -}}
{{- end -}}
{{- range $name, $source := $place.env -}}
{{- if kindIs "map" $source }}{{ $_ := set $place.env $name (include "ray-train-dlc.pruned" $source | fromJsonArray | first) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- range $part := list (list $values.job "extraSpec" "runtimeEnv") (list $values.cluster "extraSpec" "gcsFaultToleranceOptions") (list $values.cluster.autoscaling "options") (list $values.head "service") (list $values.networkPolicy "extraEgress" "extraIngress") (list $values "extraObjects") -}}
{{- range $key := rest $part -}}
{{- $_ := set (first $part) $key (include "ray-train-dlc.pruned" (get (first $part) $key) | fromJsonArray | first) -}}
{{- end -}}
{{- end -}}
{{- include "ray-train-dlc.requirements" . -}}
{{- end -}}
{{- end -}}

{{/* Defaults for the keys that a map lacks or has as null, at every depth and in place: list map defaults. */}}
{{- define "ray-train-dlc.fill" -}}
{{- $map := first . -}}
{{- range $key, $default := index . 1 -}}
{{- $given := get $map $key -}}
{{- if or (not (hasKey $map $key)) (kindIs "invalid" $given) -}}
{{- $_ := set $map $key (kindIs "map" $default | ternary (deepCopy $default) $default) -}}
{{- else if and (kindIs "map" $given) (kindIs "map" $default) -}}
{{- include "ray-train-dlc.fill" (list $given $default) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
A value of any depth without nulls and empty lists, as a JSON array of one: they would be a difference to what the API keeps. `tidy` also
leaves out zeros of the fields that Kubernetes does not keep; only for its own types, in whose maps nothing else has these names.
*/}}
{{- define "ray-train-dlc.pruned" -}}
{{- include "ray-train-dlc.without" (list . list) -}}
{{- end -}}

{{- define "ray-train-dlc.tidy" -}}
{{- include "ray-train-dlc.without" (list . (list "effect" "failureThreshold" "fsType" "hostIP" "hostPort" "initialDelaySeconds" "key" "medium" "operator" "periodSeconds" "readOnly" "stdin" "stdinOnce" "subPath" "subPathExpr" "successThreshold" "timeoutSeconds" "tty" "value" "workingDir")) -}}
{{- end -}}

{{- define "ray-train-dlc.without" -}}
{{- $zeros := index . 1 -}}
{{- $value := first . -}}
{{- if kindIs "map" $value -}}
{{- $kept := dict -}}
{{- range $key, $item := $value -}}
{{- if not (or (kindIs "invalid" $item) (and (empty $item) (or (kindIs "slice" $item) (has $key $zeros)))) -}}
{{- $_ := set $kept $key (include "ray-train-dlc.without" (list $item $zeros) | fromJsonArray | first) -}}
{{- end -}}
{{- end -}}
{{- list $kept | toJson -}}
{{- else if kindIs "slice" $value -}}
{{- $kept := list -}}
{{- range $item := $value -}}
{{- if not (kindIs "invalid" $item) -}}
{{- $kept = append $kept (include "ray-train-dlc.without" (list $item $zeros) | fromJsonArray | first) -}}
{{- end -}}
{{- end -}}
{{- list $kept | toJson -}}
{{- else -}}
{{- list $value | toJson -}}
{{- end -}}
{{- end -}}

{{/*
A more special map over a more general one, as JSON: list general special. Maps in them merge at every depth, all else the special one has.
A null stays, so that it also takes away what lies further below; printing leaves it out.
*/}}
{{- define "ray-train-dlc.overlay" -}}
{{- $result := deepCopy (first .) -}}
{{- range $key, $value := index . 1 -}}
{{- $below := get $result $key -}}
{{- if and (kindIs "map" $value) (kindIs "map" $below) -}}
{{- $_ := set $result $key (include "ray-train-dlc.overlay" (list $below $value) | fromJson) -}}
{{- else -}}
{{- $_ := set $result $key $value -}}
{{- end -}}
{{- end -}}
{{- toJson $result -}}
{{- end -}}

{{/* A string map of values without the keys that are null, as YAML; nothing when empty. */}}
{{- define "ray-train-dlc.stringMap" -}}
{{- with include "ray-train-dlc.pruned" . | fromJsonArray | first -}}
{{- include "ray-train-dlc.yaml" . -}}
{{- end -}}
{{- end -}}

{{/* YAML of a map without its nulls. Helm's own toYaml prints nothing at all for a text that YAML cannot hold. */}}
{{- define "ray-train-dlc.yaml" -}}
{{- $text := include "ray-train-dlc.pruned" . | fromJsonArray | first | toYaml -}}
{{- if or (not $text) (hasKey . "Error") -}}
{{- fail "\n\nERROR: a value holds a control character or a byte order mark, which no manifest can carry; look for it in env, training and the extra… values\n" -}}
{{- end -}}
{{- $text -}}
{{- end -}}
