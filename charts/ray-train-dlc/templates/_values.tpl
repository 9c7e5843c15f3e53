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
{{- include "ray-train-dlc.characters" . -}}
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
{{- $_ := set $place $field (include "ray-train-dlc.tidy" (list $field $value) | fromJsonArray | first) -}}
{{- end -}}
{{- end -}}
{{- range $name, $source := $place.env -}}
{{- if kindIs "map" $source }}{{ $_ := set $place.env $name (include "ray-train-dlc.tidy" (list "valueFrom" $source) | fromJsonArray | first) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $_ := set $values.head "service" (include "ray-train-dlc.tidy" (list "service" $values.head.service) | fromJsonArray | first) -}}
{{- range dig "spec" "ports" list $values.head.service }}{{ if and (kindIs "map" .) .port (not .targetPort) }}{{ $_ := set . "targetPort" .port }}{{ end }}{{ end -}}
{{- range $part := list (list $values.job "extraSpec" "runtimeEnv") (list $values.cluster "extraSpec") (list $values.cluster.autoscaling "options") -}}
{{- range $key := rest $part -}}
{{- $_ := set (first $part) $key (include "ray-train-dlc.pruned" (get (first $part) $key) | fromJsonArray | first) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $values.cluster "gcsFaultToleranceOptions" (include "ray-train-dlc.tidy" (list "" $values.cluster.gcsFaultToleranceOptions) | fromJsonArray | first) -}}
{{- $scaling := $values.cluster.autoscaling -}}
{{- $_ := set $scaling "options" (include "ray-train-dlc.tidy" (list "sidecarContainers" $scaling.options) | fromJsonArray | first) -}}
{{- if and $scaling.enabled (eq $values.podSecurity "restricted") (not $scaling.options.securityContext) -}}
{{- $_ := set $scaling.options "securityContext" (dict "allowPrivilegeEscalation" false "capabilities" (dict "drop" (list "ALL"))) -}}
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

{{/* A value of any depth without nulls and empty lists, as a JSON array of one: they would be a difference to what the API keeps. */}}
{{- define "ray-train-dlc.pruned" -}}
{{- $value := . -}}
{{- if kindIs "map" $value -}}
{{- $kept := dict -}}
{{- range $key, $item := $value -}}
{{- if not (or (kindIs "invalid" $item) (and (kindIs "slice" $item) (empty $item))) -}}
{{- $_ := set $kept $key (include "ray-train-dlc.pruned" $item | fromJsonArray | first) -}}
{{- end -}}
{{- end -}}
{{- list $kept | toJson -}}
{{- else if kindIs "slice" $value -}}
{{- $kept := list -}}
{{- range $item := $value -}}
{{- if not (kindIs "invalid" $item) }}{{ $kept = append $kept (include "ray-train-dlc.pruned" $item | fromJsonArray | first) }}{{ end -}}
{{- end -}}
{{- list $kept | toJson -}}
{{- else -}}
{{- list $value | toJson -}}
{{- end -}}
{{- end -}}

{{/*
A value as Kubernetes writes it, without what the API would not keep, as a JSON array of one: list "tolerations" […]. Beside nulls and empty
lists those are the empty maps, "", 0 and false of some fields; the others tell them from nothing. What is free, such as labels, keeps them.
*/}}
{{- define "ray-train-dlc.tidy" -}}
{{- include "ray-train-dlc.tidied" (list (first .) (include "ray-train-dlc.pruned" (last .) | fromJsonArray | first)) -}}
{{- end -}}

{{- define "ray-train-dlc.tidied" -}}
{{- $field := first . -}}
{{- $value := last . -}}
{{- $probe := list "failureThreshold" "initialDelaySeconds" "periodSeconds" "successThreshold" "timeoutSeconds" -}}
{{- $container := list "workingDir" -}}
{{- $zeros := dict "env" (list "value") "extraContainer" $container "initContainers" $container "livenessProbe" $probe "ports" (list "hostIP" "hostPort") "readinessProbe" $probe "sidecarContainers" $container "startupProbe" $probe "tolerations" (list "effect" "key" "operator" "value") "volumeMounts" (list "subPath" "subPathExpr") -}}
{{- $own := get $zeros $field | default list -}}
{{- $switches := list "hostIPC" "hostNetwork" "hostPID" "publishNotReadyAddresses" "readOnly" "stdin" "stdinOnce" "tty" -}}
{{- /* Two kinds of volumes of which Kubernetes keeps the false. */ -}}
{{- if has $field (list "azureDisk" "csi") }}{{ $switches = without $switches "readOnly" }}{{ end -}}
{{- $maps := list "annotations" "labels" "limits" "matchLabels" "nodeSelector" "options" "requests" "volumeAttributes" -}}
{{- if kindIs "map" $value -}}
{{- /* What the operator would write back. */ -}}
{{- if and (eq $field "resourceFieldRef") (not $value.divisor) }}{{ $_ := set $value "divisor" "0" }}{{ end -}}
{{- if and (eq $field "volumeClaimTemplate") (not $value.metadata) }}{{ $_ := set $value "metadata" dict }}{{ end -}}
{{- range $key := keys $value -}}
{{- $item := include "ray-train-dlc.tidied" (list $key (get $value $key)) | fromJsonArray | first -}}
{{- $_ := set $value $key $item -}}
{{- if empty $item -}}
{{- if or (has $key $own) (and (kindIs "bool" $item) (has $key $switches)) (and (kindIs "map" $item) (has $key $maps)) -}}
{{- $_ := unset $value $key -}}
{{- end -}}
{{- else if and (has $key (list "limits" "requests")) (eq $field "resources") -}}
{{- range $name, $quantity := $item }}{{ $_ := set $item $name (include "ray-train-dlc.scalar" $quantity) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- else if kindIs "slice" $value -}}
{{- $items := list -}}
{{- range $value }}{{ $items = append $items (include "ray-train-dlc.tidied" (list $field .) | fromJsonArray | first) }}{{ end -}}
{{- $value = $items -}}
{{- end -}}
{{- list $value | toJson -}}
{{- end -}}

{{/*
A more special map over a more general one, as JSON: list general special. Maps in them merge at every depth, but for those whose keys depend
on one of them; all else the special one has.
A null stays, so that it also takes away what lies further below; printing leaves it out.
*/}}
{{- define "ray-train-dlc.overlay" -}}
{{- $result := deepCopy (first .) -}}
{{- range $key, $value := index . 1 -}}
{{- $below := get $result $key -}}
{{- $union := has $key (list "appArmorProfile" "seccompProfile") -}}
{{- if and (kindIs "map" $value) (kindIs "map" $below) (not $union) -}}
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

{{/* YAML of a map without its nulls. Helm's own toYaml prints nothing at all when it cannot. */}}
{{- define "ray-train-dlc.yaml" -}}
{{- $text := include "ray-train-dlc.pruned" . | fromJsonArray | first | toYaml -}}
{{- if not $text }}{{ fail "\n\nERROR: the values: a part of them cannot be written as YAML; please report it with your values\n" }}{{ end -}}
{{- $text -}}
{{- end -}}

{{/*
Characters that no manifest can carry, wherever they stand: for some of them Helm would print nothing at all in place of what holds them.
*/}}
{{- define "ray-train-dlc.characters" -}}
{{- if regexMatch "\\\\u(00[01]|202[89])|[\\x7f-\\x9f\\x{fffe}\\x{ffff}]" (toJson .Values) -}}
{{- with include "ray-train-dlc.characters.in" (dict "path" "" "value" .Values) | trim -}}
{{- printf "\n\n%s\n" . | fail -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "ray-train-dlc.characters.in" -}}
{{- $path := .path -}}
{{- $wrong := "[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\x{fffe}\\x{ffff}]" -}}
{{- if and (kindIs "string" .value) (contains "\n" (toString .value)) -}}
{{- /* In a text of several lines these would be read as its ends. */ -}}
{{- $wrong = replace "]" "\\x{2028}\\x{2029}]" $wrong -}}
{{- end -}}
{{- if kindIs "map" .value -}}
{{- range $key, $item := .value -}}
{{- if regexMatch $wrong $key }}
ERROR: {{ $path | default "the values" }}: the key {{ regexReplaceAll $wrong $key "?" }} holds a control character or a line break of Unicode (shown as ?), which no manifest can carry; remove it
{{- end }}
{{- include "ray-train-dlc.characters.in" (dict "path" (printf "%s.%s" $path $key | trimPrefix ".") "value" $item) -}}
{{- end -}}
{{- else if kindIs "slice" .value -}}
{{- range $index, $item := .value -}}
{{- include "ray-train-dlc.characters.in" (dict "path" (printf "%s.%d" $path $index) "value" $item) -}}
{{- end -}}
{{- else if kindIs "string" .value -}}
{{- if regexMatch $wrong .value }}
ERROR: {{ $path }}: a control character or a line break of Unicode stands after {{ regexSplit $wrong .value 2 | first | trunc -30 | quote }}, which no manifest can carry; remove it
{{- end }}
{{- end -}}
{{- end -}}
