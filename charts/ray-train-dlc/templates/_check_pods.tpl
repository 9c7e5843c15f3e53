{{/* Rules of _requirements.tpl: fields of pods, where they are given. */}}

{{/* Every place that takes the fields of a pod, and what is given there, as JSON: path to fields. */}}
{{- define "ray-train-dlc.places" -}}
{{- $places := dict "common" .Values.common "head" .Values.head "job.submitter" .Values.job.submitter -}}
{{- range $name, $group := include "ray-train-dlc.groups" . | fromJson -}}
{{- $_ := set $places (printf "workerGroups.%s" $name) $group -}}
{{- end -}}
{{- include "ray-train-dlc.pruned" $places | fromJsonArray | first | toJson -}}
{{- end -}}

{{- define "ray-train-dlc.check.pods" -}}
{{- $spec := list "automountServiceAccountToken" "affinity" "containers" "dnsConfig" "dnsPolicy" "enableServiceLinks" "hostAliases" "imagePullSecrets" "initContainers" "nodeSelector" "priorityClassName" "resourceClaims" "restartPolicy" "runtimeClassName" "schedulerName" "securityContext" "serviceAccountName" "terminationGracePeriodSeconds" "tolerations" "topologySpreadConstraints" "volumes" -}}
{{- $container := list "args" "command" "env" "envFrom" "image" "imagePullPolicy" "lifecycle" "livenessProbe" "name" "ports" "readinessProbe" "securityContext" "startupProbe" "volumeMounts" -}}
{{- $handlers := list "exec" "grpc" "httpGet" "sleep" "tcpSocket" -}}
{{- range $place, $fields := include "ray-train-dlc.places" . | fromJson }}
{{- range $key, $value := $fields.extraPodSpec }}
{{- if has $key $spec }}
ERROR: {{ $place }}.extraPodSpec: {{ $key }} has a value of its own, or is the chart's; use that
{{- end }}
{{- end }}
{{- range $key, $value := $fields.extraContainer }}
{{- if has $key $container }}
ERROR: {{ $place }}.extraContainer: {{ $key }} has a value of its own, or is the chart's; use that
{{- else if eq $key "resources" }}
{{- if omit $value "claims" }}
ERROR: {{ $place }}.extraContainer: resources but for claims have values of their own; use `resources` and `extraResources`
{{- end }}
{{- end }}
{{- end }}
{{- range $name, $value := $fields.labels }}
{{- if include "ray-train-dlc.check.reservedLabel" $name }}
ERROR: {{ $place }}.labels: {{ $name }} belongs to Helm, to the operator, to a queue or to this chart; use a key with a prefix of your own
{{- end }}
{{- end }}
{{- range $fields.envFrom }}
{{- $refs := list }}
{{- range $ref := list .configMapRef .secretRef }}{{ if kindIs "map" $ref }}{{ $refs = append $refs ($ref.name | default "") }}{{ end }}{{ end }}
{{- if or (ne (len $refs) 1) (has "" $refs) }}
ERROR: {{ $place }}.envFrom: {{ toJson . }} is not one source with a name; give configMapRef or secretRef, and its name
{{- end }}
{{- end }}
{{- range $hook := list "livenessProbe" "readinessProbe" "startupProbe" }}
{{- with get $fields $hook }}
{{- if ne (len (pick . "exec" "grpc" "httpGet" "tcpSocket")) 1 }}
ERROR: {{ $place }}.{{ $hook }}: {{ toJson . }} is without one way to probe; give exactly one of exec, grpc, httpGet, tcpSocket
{{- end }}
{{- end }}
{{- end }}
{{- range $hook, $handler := omit ($fields.lifecycle | default dict) "stopSignal" }}
{{- if or (not (kindIs "map" $handler)) (ne (len (keys $handler)) 1) }}
ERROR: {{ $place }}.lifecycle.{{ $hook }}: {{ toJson $handler }} is without one way to act; give exactly one of exec, httpGet, sleep, tcpSocket
{{- end }}
{{- end }}
{{- with $fields.lifecycle }}
{{- if regexMatch "ray[^a-z]+stop" (toJson .) }}
ERROR: {{ $place }}.lifecycle: `ray stop` ends the ranks before their checkpoint; remove it
{{- end }}
{{- end }}
{{- with $fields.scratch }}
{{- if and .storageClassName (not .size) }}
ERROR: {{ $place }}.scratch.size: "" with a storage class; set the size of the volume
{{- else if and .size (not .storageClassName) }}
ERROR: {{ $place }}.scratch.storageClassName: "" with a size; set it, or use sizeLimit
{{- else if and .sizeLimit .storageClassName }}
ERROR: {{ $place }}.scratch.sizeLimit: {{ .sizeLimit }} is for an emptyDir and there is a storage class; remove one of them
{{- end }}
{{- end }}
{{- range $name := list "CPU" "GPU" }}
{{- if hasKey ($fields.rayResources | default dict) $name }}
ERROR: {{ $place }}.rayResources: {{ $name }} is set by the chart from `resources` and `gpus`; remove it
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
