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

{{/* Where a field of a pod comes from: dict "place" "head" "own" {…} "field" "volumes"; "key": of a map, the key that it is about. */}}
{{- define "ray-train-dlc.check.from" -}}
{{- $own := get .own .field -}}
{{- if and $own .key (kindIs "map" $own) -}}{{ hasKey $own .key | ternary .place "common" }}{{- else -}}{{ empty $own | ternary "common" .place }}{{- end -}}.{{ .field }}
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
{{- $known := list -}}
{{- $role := empty $chart | ternary "submitter" "worker" -}}
{{- range include "ray-train-dlc.allVolumes" (dict "root" .root "role" $role "fields" $fields) | fromJsonArray }}{{ $known = append $known .name }}{{ end -}}
{{- $devices := list -}}
{{- $general := list -}}
{{- if ne .place "job.submitter" }}{{ range .root.Values.common.volumes }}{{ $general = append $general .name }}{{ end }}{{ end -}}
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
{{- if or .persistentVolumeClaim .ephemeral }}{{ $devices = append $devices .name }}{{ end }}
{{- end }}
{{- $names := list }}{{ range $fields.volumes }}{{ $names = append $names .name }}{{ end }}
{{- include "ray-train-dlc.check.twice" (dict "key" $key "what" "the name" "values" $names) }}
{{- $ray := dict "volumeMounts" $fields.volumeMounts "volumeDevices" (dig "volumeDevices" list ($fields.extraContainer | default dict)) "securityContext" $fields.securityContext }}
{{- $mounted := list (list "volumeMounts" "" $ray) }}
{{- range $field := list "sidecarContainers" "initContainers" }}
{{- range $container := get $fields $field | default list }}
{{- $mounted = append $mounted (list $field $container.name $container) }}
{{- end }}
{{- end }}
{{- range $mounted }}
{{- $field := first . }}
{{- $container := last . }}
{{- $from := include "ray-train-dlc.check.from" (merge (dict "field" $field) $given) }}
{{- $key := $from }}
{{- with index . 1 }}{{ $key = printf "%s: volumeMounts of %s" $from . }}{{ end }}
{{- $paths := list }}
{{- range $container.volumeDevices }}
{{- $paths = append $paths (clean .devicePath) }}
{{- if not (has .name $devices) }}
ERROR: {{ eq $field "volumeMounts" | ternary (include "ray-train-dlc.check.from" (merge (dict "field" "extraContainer" "key" "volumeDevices") $given)) $from }}: volumeDevices: {{ .name }} is no claim of the pod, and only one is a device; add it to `volumes`, as persistentVolumeClaim or ephemeral
{{- end }}
{{- end }}
{{- $device := list }}{{ range $container.volumeDevices }}{{ $device = append $device .name }}{{ end }}
{{- range $container.volumeMounts }}
{{- if has .name $device }}
ERROR: {{ $key }}: {{ .name }} is in volumeDevices too, and a claim is a device or holds files; remove it from one of them
{{- end }}
{{- $path := clean .mountPath }}
{{- $paths = append $paths $path }}
{{- if and (not (has .name $known)) (has .name $general) }}
ERROR: {{ $key }}: {{ .name }} is no volume of {{ $given.place }}, as {{ $given.place }}.volumes takes the place of common.volumes; add it there too
{{- else if not (has .name $known) }}
ERROR: {{ $key }}: {{ .name }} is no volume of the pod; {{ has .name $chart | ternary "it is the chart's, for `training.code` and `training.storage`, of which there is none here" "add it to `volumes`" }}
{{- end }}
{{- if and (eq (.mountPropagation | default "") "Bidirectional") (not (dig "privileged" false ($container.securityContext | default dict))) }}
ERROR: {{ $key }}: mountPropagation Bidirectional of {{ .name }} is for a privileged container only; use HostToContainer, or remove it
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
{{- include "ray-train-dlc.check.twice" (dict "key" $key "what" "the path" "values" $paths) }}
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

{{/* The operator gives the head's Service a port for each of its container, all of them TCP, and each container the port for metrics. */}}
{{- define "ray-train-dlc.check.containers.ports" -}}
{{- $head := eq .place "head" -}}
{{- $own := include "ray-train-dlc.rayPorts" .place | fromJson -}}
{{- $key := include "ray-train-dlc.check.from" (merge (dict "field" "ports") .) -}}
{{- $names := list -}}
{{- $numbers := list -}}
{{- range .fields.ports }}
{{- $port := . }}
{{- $number := int64 .containerPort }}
{{- $expected := get $own (.name | default "") | default 0 | int64 }}
{{- if and $expected (or (ne $expected $number) (ne (.protocol | default "TCP") "TCP")) }}
ERROR: {{ $key }}: {{ .name }} is {{ $number }}/{{ .protocol | default "TCP" }}, and Ray listens on {{ $expected }}/TCP, which Services and the operator rely on; remove it, or use another name
{{- else if not $expected }}
{{- range $name, $taken := $own }}
{{- if and (eq (int64 $taken) $number) (or $head (eq ($port.protocol | default "TCP") "TCP")) }}
ERROR: {{ $key }}: {{ $number }} is Ray's own port {{ $name }}; call it so, or use another number
{{- end }}
{{- end }}
{{- end }}
{{- with .name }}{{ $names = append $names . }}{{ end }}
{{- $written := printf "%d/%s" $number (.protocol | default "TCP") }}
{{- range $seen := $numbers }}
{{- if and $head (hasPrefix (printf "%d/" $number) $seen) (ne $seen $written) }}
ERROR: {{ $key }}: {{ $seen }} and {{ $written }}: the operator gives the head's Service a TCP port for each, and there is one of each number; remove one of them
{{- end }}
{{- end }}
{{- $numbers = append $numbers $written }}
{{- end }}
{{- include "ray-train-dlc.check.twice" (dict "key" $key "what" "the name" "values" $names) }}
{{- include "ray-train-dlc.check.twice" (dict "key" $key "what" "the port" "values" $numbers) }}
{{- include "ray-train-dlc.check.containers.hostPorts" (merge (dict "names" $own) .) }}
{{- end -}}

{{/* Ports of the node, of which all containers of a pod share each number: on its network all ports are. */}}
{{- define "ray-train-dlc.check.containers.hostPorts" -}}
{{- $node := dig "hostNetwork" false (.fields.extraPodSpec | default dict) -}}
{{- $seen := dict -}}
{{- if and $node (ne .place "job.submitter") }}{{ range $name, $number := .names }}{{ $_ := set $seen (printf "%d/TCP" (int64 $number)) (printf "Ray's %s" $name) }}{{ end }}{{ end -}}
{{- $containers := list (list "ports" "Ray's container" .fields.ports) -}}
{{- range .fields.sidecarContainers }}{{ $containers = append $containers (list "sidecarContainers" .name .ports) }}{{ end -}}
{{- range $containers }}
{{- $container := . }}
{{- range last . }}
{{- $number := int64 .hostPort }}
{{- if and $node (not $number) }}{{ $number = int64 .containerPort }}{{ end }}
{{- $port := printf "%d/%s" $number (.protocol | default "TCP") }}
{{- $owner := get $seen $port }}
{{- if and $number $owner (not (and (eq (first $container) "ports") (hasPrefix "Ray's" $owner))) }}
ERROR: {{ include "ray-train-dlc.check.from" (merge (dict "field" (first $container)) $) }}: {{ $port }} of {{ index $container 1 }} is on the node, and taken by {{ $owner }}; use another
{{- end }}
{{- if $number }}{{ $_ := set $seen $port (index $container 1) }}{{ end }}
{{- end }}
{{- end }}
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
