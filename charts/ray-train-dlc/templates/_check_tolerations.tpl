{{/* Rules of _requirements.tpl: tolerations that the API server would refuse, each pod anew, long after the install. */}}

{{- define "ray-train-dlc.check.tolerations" -}}
{{- $lists := dict -}}
{{- range $place, $fields := include "ray-train-dlc.places" . | fromJson -}}
{{- $_ := set $lists (printf "%s.tolerations" $place) $fields.tolerations -}}
{{- end -}}
{{- $label := "([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)" -}}
{{- range $path, $tolerations := $lists }}
{{- range $tolerations }}
{{- $exists := eq (.operator | default "Equal") "Exists" }}
{{- if not (has (.operator | default "Equal") (list "Exists" "Equal")) }}
ERROR: {{ $path }}: {{ toJson . }} is with an operator that is neither Exists nor Equal; use one of them
{{- end }}
{{- if not (has (.effect | default "NoSchedule") (list "NoSchedule" "PreferNoSchedule" "NoExecute")) }}
ERROR: {{ $path }}: {{ toJson . }} is with an effect that no taint has; use NoSchedule, PreferNoSchedule or NoExecute, or none for all
{{- end }}
{{- if and (not .key) (not $exists) }}
ERROR: {{ $path }}: {{ toJson . }} is without a key, which only operator Exists allows (it then stands for every taint); add a key, or operator Exists
{{- else if and .key (not (regexMatch (printf "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?%s$" $label) .key)) }}
ERROR: {{ $path }}: {{ toJson . }} is with a key that no taint can have; write it as `kubectl describe node` shows it
{{- end }}
{{- if and $exists .value }}
ERROR: {{ $path }}: {{ toJson . }} is with operator Exists and a value, which compares nothing; remove the value, or set operator to Equal
{{- else if and .value (not (regexMatch (printf "^%s$" $label) .value)) }}
ERROR: {{ $path }}: {{ toJson . }} is with a value that no taint can have; write it as `kubectl describe node` shows it
{{- end }}
{{- if and (hasKey . "tolerationSeconds") (ne (.effect | default "") "NoExecute") }}
ERROR: {{ $path }}: {{ toJson . }} is with tolerationSeconds, which only effect NoExecute has; remove it, or set effect to NoExecute
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
