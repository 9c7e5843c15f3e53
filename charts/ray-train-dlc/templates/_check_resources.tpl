{{/*
Rules of _requirements.tpl: quantities. KubeRay writes each RayJob back once, with quantities in their canonical form; any other form would be a
difference to Git for ever, and another name for the same job.
*/}}

{{- define "ray-train-dlc.check.resources" -}}
{{- $maps := dict -}}
{{- range $place, $fields := include "ray-train-dlc.places" . | fromJson -}}
{{- $_ := set $maps (printf "%s.resources" $place) $fields.resources -}}
{{- $_ := set $maps (printf "%s.extraResources" $place) $fields.extraResources -}}
{{- with $fields.scratch -}}
{{- $quantities := dict -}}
{{- range $key := list "size" "sizeLimit" }}{{ with get $fields.scratch $key }}{{ $_ := set $quantities $key . }}{{ end }}{{ end -}}
{{- $_ := set $maps (printf "%s.scratch" $place) $quantities -}}
{{- end -}}
{{- range $field := list "extraPodSpec" "initContainers" "sidecarContainers" "volumes" -}}
{{- with get $fields $field -}}
{{- $maps = merge $maps (include "ray-train-dlc.quantities" (dict "at" (printf "%s.%s" $place $field) "value" .) | fromJson) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $maps = merge $maps (include "ray-train-dlc.quantities" (dict "at" "cluster.autoscaling.options" "value" .Values.cluster.autoscaling.options) | fromJson) -}}
{{- range $key, $map := $maps }}
{{- range $resource, $value := $map }}
{{- if has $resource (list "nvidia.com/gpu" "vpc.amazonaws.com/efa") }}
ERROR: {{ $key }}: {{ $resource }} is set from `gpus` and `efa` of a worker group; remove it
{{- else }}
{{- $given := include "ray-train-dlc.scalar" $value }}
{{- $canonical := include "ray-train-dlc.canonical" (dict "resource" $resource "value" $given) }}
{{- $number := and (not (kindIs "string" $value)) (or (eq $resource "sizeLimit") (regexMatch "\\.(limits|overhead|requests)$" $key)) }}
{{- if and (eq $given "0") (hasSuffix ".requests" $key) }}
{{- /* Nothing is reserved: right for a container beside Ray's. */}}
{{- else if not $canonical }}
{{- if eq $resource "cpu" }}
ERROR: {{ $key }}.cpu: {{ toJson $given }} is not a whole number of CPUs or millicpus above 0; write {{ regexMatch "^[0-9]*[.][0-9]{1,3}$" $given | ternary (printf "%q" (printf "%.0fm" (mulf 1000 (float64 $given)))) "\"46\", or \"1500m\" for one and a half" }}
{{- else }}
ERROR: {{ $key }}.{{ $resource }}: {{ toJson $given }} is not a whole number above 0 with a unit; write 160Gi, or 1536Mi for one and a half Gi
{{- end }}
{{- else if or $number (ne $canonical $given) }}
ERROR: {{ $key }}.{{ $resource }}: {{ $number | ternary $given (toJson $given) }} is rewritten by the operator, a lasting difference to Git; write {{ toJson $canonical }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The canonical form of a whole quantity ("1024Mi": "1Gi", "1000m": "1"), or nothing when it is not one. */}}
{{- define "ray-train-dlc.canonical" -}}
{{- $pattern := eq .resource "cpu" | ternary "^0*[1-9][0-9]*m?$" "^0*[1-9][0-9]*([KMGTPE]i|[kMGTPE])?$" -}}
{{- if and (regexMatch $pattern .value) (le (len .value) 18) (lt (include "ray-train-dlc.amount" .value | float64) 9.2e18) -}}
{{- $number := regexReplaceAll "^0+" (regexFind "^[0-9]+" .value) "" | int64 -}}
{{- $unit := regexFind "[A-Za-z]*$" .value -}}
{{- $step := hasSuffix "i" $unit | ternary 1024 1000 -}}
{{- $units := hasSuffix "i" $unit | ternary (list "Ki" "Mi" "Gi" "Ti" "Pi" "Ei") (list "m" "" "k" "M" "G" "T" "P" "E") -}}
{{- range $i, $next := rest $units -}}
{{- if and (eq $unit (index $units $i)) (eq (mod $number $step) 0) -}}
{{- $number = div $number $step -}}
{{- $unit = $next -}}
{{- end -}}
{{- end -}}
{{- printf "%d%s" $number $unit -}}
{{- end -}}
{{- end -}}

{{/* A whole quantity as a number: "500m" is 0.5. */}}
{{- define "ray-train-dlc.amount" -}}
{{- $text := include "ray-train-dlc.scalar" . -}}
{{- $units := dict "m" 0.001 "" 1.0 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 "Pi" 1125899906842624.0 "Ei" 1152921504606846976.0 -}}
{{- mulf (regexFind "^[0-9]+" $text | default "0" | float64) (get $units (regexFind "[A-Za-z]*$" $text) | default 1.0) -}}
{{- end -}}

{{/* Maps of quantities in a value as Kubernetes writes it, as JSON, by their paths: dict "at" "head.volumes" "value" […]. */}}
{{- define "ray-train-dlc.quantities" -}}
{{- $at := .at -}}
{{- $found := dict -}}
{{- if kindIs "map" .value -}}
{{- range $key, $item := .value -}}
{{- $path := printf "%s.%s" $at $key -}}
{{- if eq $key "sizeLimit" -}}
{{- $_ := set $found $at (dict $key $item) -}}
{{- else if and (kindIs "map" $item) (has $key (list "limits" "overhead" "requests")) -}}
{{- $_ := set $found $path $item -}}
{{- else -}}
{{- $found = merge $found (include "ray-train-dlc.quantities" (dict "at" $path "value" $item) | fromJson) -}}
{{- end -}}
{{- end -}}
{{- else if kindIs "slice" .value -}}
{{- range $i, $item := .value -}}
{{- $found = merge $found (include "ray-train-dlc.quantities" (dict "at" (printf "%s.%d" $at $i) "value" $item) | fromJson) -}}
{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}
