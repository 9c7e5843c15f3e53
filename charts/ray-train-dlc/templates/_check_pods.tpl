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
{{- range $place, $fields := include "ray-train-dlc.places" . | fromJson }}
{{- range $key, $value := $fields.extraPodSpec }}
{{- if has $key $spec }}
ERROR: {{ $place }}.extraPodSpec: {{ $key }} has a value of its own, or is the chart's; use that
{{- else if has $key (list "ephemeralContainers" "serviceAccount") }}
ERROR: {{ $place }}.extraPodSpec: {{ $key }} is not for a pod that is made anew; remove it (serviceAccountName names the account)
{{- else if has $key (list "preemptionPolicy" "priority") }}
ERROR: {{ $place }}.extraPodSpec: {{ $key }} is what the cluster takes from a PriorityClass, and it refuses another; set priorityClassName
{{- else if eq $key "overhead" }}
ERROR: {{ $place }}.extraPodSpec: overhead is what the cluster takes from a RuntimeClass, and it refuses another; set runtimeClassName
{{- else if eq $key "resources" }}
ERROR: {{ $place }}.extraPodSpec: resources of a pod as a whole must hold all of its containers, the operator's too, and Ray does not read them; set those of the containers
{{- else if eq (dig "name" "linux" (eq $key "os" | ternary $value dict)) "windows" }}
ERROR: {{ $place }}.extraPodSpec: os.name is windows, and Ray's image is for linux; remove it
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
{{- range $name, $value := $fields.annotations }}
{{- if regexMatch "^(container\\.apparmor\\.security\\.beta|seccomp\\.security\\.alpha)\\.kubernetes\\.io/" $name }}
ERROR: {{ $place }}.annotations: {{ $name }} has given way to a field; use appArmorProfile or seccompProfile of `securityContext`
{{- end }}
{{- end }}
{{- with $fields.lifecycle }}
{{- if regexMatch `(^|[^A-Za-z0-9_.-])ray[ \t"',\\n]+stop($|[^A-Za-z0-9_-])` (toJson .) }}
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
{{- range $name, $amount := $fields.rayResources }}
{{- if not $name }}
ERROR: {{ $place }}.rayResources: a resource without a name; give it one
{{- else if not (regexMatch (eq $name "memory" | ternary "^[1-9][0-9]*([KMGTPE]i|[kMGTPE])?$" "^[0-9]+([.][0-9]+)?$") (include "ray-train-dlc.scalar" $amount)) }}
ERROR: {{ $place }}.rayResources: {{ $name }} is {{ toJson $amount }}, which is no number that Ray could offer; write one, such as 1 or 0.5
{{- end }}
{{- end }}
{{- range $name := list "CPU" "GPU" }}
{{- if hasKey ($fields.rayResources | default dict) $name }}
ERROR: {{ $place }}.rayResources: {{ $name }} is set by the chart from `resources` and `gpus`; remove it
{{- end }}
{{- end }}
{{- end }}
{{- $type := (.Values.head.service.spec | default dict).type }}
{{- if and $type .Values.head.serviceType (ne $type .Values.head.serviceType) }}
ERROR: head.service.spec.type: {{ $type }} next to head.serviceType {{ .Values.head.serviceType }}, which the operator then ignores; give one of them
{{- end }}
{{- end -}}
