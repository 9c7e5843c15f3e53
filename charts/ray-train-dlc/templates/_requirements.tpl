{{/*
All rules that need more than one value, or a better message than a schema gives. They are in _check_*.tpl; each prints its problems, one a
line, and all of them are reported at once, before anything is rendered ("ray-train-dlc.settle"). `helm lint` does not fail on
`fail`: use `helm template`.
*/}}
{{- define "ray-train-dlc.requirements" -}}
{{- $problems := list -}}
{{- range $check := list "names" "image" "groups" "pods" "containers" "api" "network" "security" "resources" "tolerations" "env" "training" "cluster" "job" -}}
{{- $problems = concat $problems (include (printf "ray-train-dlc.check.%s" $check) $ | trim | splitList "\n") -}}
{{- end -}}
{{- with compact $problems -}}
{{- join "\n" . | printf "\n\n%s\n" | fail -}}
{{- end -}}
{{- end -}}
