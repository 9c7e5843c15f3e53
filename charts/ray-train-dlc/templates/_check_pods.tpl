{{/* Rules of requirements.yaml: fields of pods, wherever they may be given. */}}

{{/* Every place that takes the fields of a pod, and what is given there, as JSON: path to fields. */}}
{{- define "ray-train-dlc.places" -}}
{{- $places := dict "common" .Values.common "head" .Values.head "job.submitter" .Values.job.submitter -}}
{{- range $name, $group := include "ray-train-dlc.groups" . | fromJson -}}
{{- $_ := set $places (printf "workerGroups.%s" $name) $group -}}
{{- end -}}
{{- toJson $places -}}
{{- end -}}

{{- define "ray-train-dlc.check.pods" -}}
{{- $spec := list "automountServiceAccountToken" "affinity" "containers" "dnsConfig" "dnsPolicy" "enableServiceLinks" "hostAliases" "imagePullSecrets" "initContainers" "nodeSelector" "priorityClassName" "resourceClaims" "restartPolicy" "runtimeClassName" "schedulerName" "securityContext" "serviceAccountName" "terminationGracePeriodSeconds" "tolerations" "topologySpreadConstraints" "volumes" -}}
{{- $container := list "args" "command" "env" "envFrom" "image" "imagePullPolicy" "lifecycle" "livenessProbe" "name" "ports" "readinessProbe" "securityContext" "startupProbe" "volumeMounts" -}}
{{- range $place, $fields := include "ray-train-dlc.places" . | fromJson }}
{{- range $key, $value := $fields.extraPodSpec }}
{{- if has $key $spec }}
ERROR: {{ $place }}.extraPodSpec: {{ $key }} has a value of its own, or is the chart's; use that
{{- end }}
{{- end }}
{{- range $key, $value := $fields.extraContainer }}
{{- if has $key $container }}
ERROR: {{ $place }}.extraContainer: {{ $key }} has a value of its own, or is the chart's; use that
{{- else if and (eq $key "resources") (omit $value "claims") }}
ERROR: {{ $place }}.extraContainer: resources but for claims have values of their own; use `resources` and `extraResources`
{{- end }}
{{- end }}
{{- range $name, $value := $fields.labels }}
{{- if include "ray-train-dlc.check.reservedLabel" $name }}
ERROR: {{ $place }}.labels: {{ $name }} belongs to Helm, to the operator or to this chart; use a key with a prefix of your own
{{- end }}
{{- end }}
{{- range $fields.volumes }}
{{- if has .name (list "code" "scratch" "storage" "training") }}
ERROR: {{ $place }}.volumes: {{ .name }} is the chart's; use another name
{{- end }}
{{- if .hostPath }}
ERROR: {{ $place }}.volumes: {{ .name }} is a folder of the node (hostPath), which Pod Security `baseline` refuses; use a claim, or `scratch` for local disk
{{- end }}
{{- end }}
{{- range $fields.volumeMounts }}
{{- if eq (trimSuffix "/" .mountPath) "/dev/shm" }}
ERROR: {{ $place }}.volumeMounts: /dev/shm is the operator's, of the size of the memory limit; remove it
{{- else if regexMatch "^/(opt/ray-train|opt/ray-train-code|var/tmp/ray-train|mnt/ray-train)(/|$)" .mountPath }}
ERROR: {{ $place }}.volumeMounts: {{ .mountPath }} is the chart's; use another path
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
{{- if and (eq $place "head") (or $fields.gpus $fields.efa) }}
ERROR: head: it runs no ranks and takes no GPUs or EFA interfaces; remove gpus and efa
{{- end }}
{{- end }}
{{- end -}}
