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
{{- range $field := list "sidecarContainers" "initContainers" -}}
{{- range $container := (get $fields $field | default list) -}}
{{- range $kind := list "limits" "requests" -}}
{{- $_ := set $maps (printf "%s.%s: %s of %s" $place $field $kind $container.name) (dig "resources" $kind dict $container) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $key, $map := $maps }}
{{- range $resource, $value := $map }}
{{- if has $resource (list "nvidia.com/gpu" "vpc.amazonaws.com/efa") }}
ERROR: {{ $key }}: {{ $resource }} is set from `gpus` and `efa` of a worker group; remove it
{{- else }}
{{- $given := include "ray-train-dlc.scalar" $value }}
{{- $canonical := include "ray-train-dlc.canonical" (dict "resource" $resource "value" $given) }}
{{- if not $canonical }}
{{- if eq $resource "cpu" }}
ERROR: {{ $key }}.cpu: {{ toJson $given }} is not a whole number of CPUs or millicpus above 0; write "46" or "500m"
{{- else }}
ERROR: {{ $key }}.{{ $resource }}: {{ toJson $given }} is not a whole number above 0 with a unit; write 160Gi, or 1536Mi for one and a half Gi
{{- end }}
{{- else if ne $canonical $given }}
ERROR: {{ $key }}.{{ $resource }}: {{ toJson $given }} is rewritten by the operator, a lasting difference to Git; write {{ toJson $canonical }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The canonical form of a whole quantity ("1024Mi": "1Gi", "1000m": "1"), or nothing when it is not one. */}}
{{- define "ray-train-dlc.canonical" -}}
{{- $pattern := eq .resource "cpu" | ternary "^0*[1-9][0-9]*m?$" "^0*[1-9][0-9]*([KMGTPE]i|[kMGTPE])?$" -}}
{{- if and (regexMatch $pattern .value) (le (len .value) 18) -}}
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
