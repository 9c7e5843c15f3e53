{{/*
Rules of _requirements.tpl: what the fields of a pod are together, those of `common` included. The API server would refuse such a pod each
time the operator makes it.
*/}}

{{- define "ray-train-dlc.check.containers" -}}
{{- $root := . -}}
{{- $places := include "ray-train-dlc.places" . | fromJson -}}
{{- $lines := list -}}
{{- range $place, $fields := include "ray-train-dlc.pods" . | fromJson -}}
{{- $given := dict "root" $root "place" $place "fields" $fields "own" (get $places $place) -}}
{{- range $check := list "volumes" "names" "ports" "params" -}}
{{- $lines = concat $lines (include (printf "ray-train-dlc.check.containers.%s" $check) $given | splitList "\n") -}}
{{- end -}}
{{- end -}}
{{- /* What `common` has is seen once for each pod. */ -}}
{{- compact $lines | uniq | join "\n" -}}
{{- end -}}

{{/* Where a list of a pod comes from: dict "place" "head" "own" {…} "field" "volumes". */}}
{{- define "ray-train-dlc.check.from" -}}
{{- if get .own .field -}}{{ .place }}{{- else -}}common{{- end -}}.{{ .field }}
{{- end -}}

{{/* A value that stands twice in a list: dict "key" "…" "what" "the name" "values" […]. */}}
{{- define "ray-train-dlc.check.twice" -}}
{{- $seen := list -}}
{{- range .values }}
{{- if has . $seen }}
ERROR: {{ $.key }}: {{ $.what }} {{ . }} is there twice; use another
{{- end }}
{{- $seen = append $seen . }}
{{- end }}
{{- end -}}

{{- define "ray-train-dlc.check.containers.volumes" -}}
{{- $given := . -}}
{{- $fields := .fields -}}
{{- $chart := ternary list (list "code" "scratch" "storage" "training") (eq .place "job.submitter") -}}
{{- $key := include "ray-train-dlc.check.from" (merge (dict "field" "volumes") .) -}}
{{- $known := $chart -}}
{{- range $fields.volumes }}
{{- if has .name $chart }}
ERROR: {{ $key }}: {{ .name }} is the chart's; use another name
{{- end }}
{{- if and .hostPath (ne $given.root.Values.podSecurity "privileged") }}
ERROR: {{ $key }}: {{ .name }} is a folder of the node (hostPath), which Pod Security `baseline` refuses; use a claim, or `scratch` for local disk
{{- end }}
{{- if ne (len (omit . "name")) 1 }}
ERROR: {{ $key }}: {{ .name }} has {{ len (omit . "name") }} kinds ({{ omit . "name" | keys | sortAlpha | join ", " }}); give exactly one, such as persistentVolumeClaim
{{- end }}
{{- $known = append $known .name }}
{{- end }}
{{- $names := list }}{{ range $fields.volumes }}{{ $names = append $names .name }}{{ end }}
{{- include "ray-train-dlc.check.twice" (dict "key" $key "what" "the name" "values" $names) }}
{{- $mounted := list (list "volumeMounts" "" $fields.volumeMounts) }}
{{- range $field := list "sidecarContainers" "initContainers" }}
{{- range $container := get $fields $field | default list }}
{{- $mounted = append $mounted (list $field $container.name $container.volumeMounts) }}
{{- end }}
{{- end }}
{{- range $mounted }}
{{- $field := first . }}
{{- $key := include "ray-train-dlc.check.from" (merge (dict "field" $field) $given) }}
{{- with index . 1 }}{{ $key = printf "%s: volumeMounts of %s" $key . }}{{ end }}
{{- $paths := list }}
{{- range last . }}
{{- $path := clean .mountPath }}
{{- $paths = append $paths $path }}
{{- if not (has .name $known) }}
ERROR: {{ $key }}: {{ .name }} is no volume of the pod; add it to `volumes`
{{- end }}
{{- if and (eq $field "volumeMounts") (ne $given.place "job.submitter") }}
{{- if eq $path "/dev/shm" }}
ERROR: {{ $key }}: /dev/shm is the operator's, of the size of the memory limit; remove it
{{- end }}
{{- $covered := list }}
{{- range $own := list "/opt/ray-train" "/opt/ray-train-code" "/var/tmp/ray-train" "/mnt/ray-train" }}
{{- if or (eq $path $own) (hasPrefix (printf "%s/" $own) $path) }}
ERROR: {{ $key }}: {{ $path }} is the chart's; use another path
{{- else if or (eq $path "/") (hasPrefix (printf "%s/" $path) $own) }}
{{- $covered = append $covered $own }}
{{- end }}
{{- end }}
{{- with $covered }}
ERROR: {{ $key }}: {{ $path }} covers {{ join ", " . }}, which is the chart's; mount further below
{{- end }}
{{- end }}
{{- end }}
{{- include "ray-train-dlc.check.twice" (dict "key" $key "what" "the mount path" "values" $paths) }}
{{- end }}
{{- end -}}

{{/* Names of containers, those that the chart and the operator add included. */}}
{{- define "ray-train-dlc.check.containers.names" -}}
{{- $taken := eq .place "head" | ternary (list "ray-head" "autoscaler" "code" "ray-job-submitter") (eq .place "job.submitter" | ternary (list "ray-job-submitter") (list "ray-worker" "wait-gcs-ready" "code")) -}}
{{- $fields := .fields -}}
{{- range $field := list "sidecarContainers" "initContainers" -}}
{{- $key := include "ray-train-dlc.check.from" (merge (dict "field" $field) $) }}
{{- range get $fields $field | default list }}
{{- if has .name $taken }}
ERROR: {{ $key }}: the name {{ .name }} is there already; use another
{{- end }}
{{- if not .image }}
ERROR: {{ $key }}: {{ .name }} has no image; set it
{{- end }}
{{- $taken = append $taken .name }}
{{- end }}
{{- end -}}
{{- with $fields.dnsPolicy }}
{{- if and (eq . "None") (not (dig "nameservers" list ($fields.dnsConfig | default dict))) }}
ERROR: {{ include "ray-train-dlc.check.from" (merge (dict "field" "dnsPolicy") $) }}: None without dnsConfig.nameservers, which leaves no DNS at all; set these
{{- end }}
{{- end }}
{{- end -}}

{{- define "ray-train-dlc.check.containers.ports" -}}
{{- $own := eq .place "head" | ternary (dict "gcs-server" 6379 "dashboard" 8265 "client" 10001 "metrics" 8080) (dict "metrics" 8080) -}}
{{- $key := include "ray-train-dlc.check.from" (merge (dict "field" "ports") .) -}}
{{- $names := list -}}
{{- $numbers := list -}}
{{- range .fields.ports }}
{{- $number := int64 .containerPort }}
{{- $expected := get $own (.name | default "") | default 0 | int64 }}
{{- if and $expected (ne $expected $number) }}
ERROR: {{ $key }}: {{ .name }} is {{ $number }}, and Ray listens on {{ $expected }}, which Services and the operator rely on; remove it, or use another name
{{- end }}
{{- with .name }}{{ $names = append $names . }}{{ end }}
{{- $numbers = append $numbers (printf "%d/%s" $number (.protocol | default "TCP")) }}
{{- end }}
{{- include "ray-train-dlc.check.twice" (dict "key" $key "what" "the name" "values" $names) }}
{{- include "ray-train-dlc.check.twice" (dict "key" $key "what" "the port" "values" $numbers) }}
{{- end -}}

{{/* The operator takes either parameters of CPUs and memory or `resources`. */}}
{{- define "ray-train-dlc.check.containers.params" -}}
{{- $given := . -}}
{{- if include "ray-train-dlc.stringMap" .fields.rayResources }}
{{- range $name := list "memory" "num-cpus" }}
{{- if not (kindIs "invalid" (get ($given.fields.rayStartParams | default dict) $name | default nil)) }}
ERROR: {{ $given.place }}.rayStartParams: {{ $name }} next to rayResources is refused by the operator; {{ eq $name "memory" | ternary "move it to rayResources.memory" "remove it (`resources.cpu` decides)" }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
