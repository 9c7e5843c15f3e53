{{/* Rules of _requirements.tpl: names, labels and the path of a run. */}}

{{- define "ray-train-dlc.check.names" -}}
{{- $label := "^[a-z]([-a-z0-9]*[a-z0-9])?$" -}}
{{- $v := .Values -}}
{{- with $v.nameOverride }}
{{- if or (not (regexMatch $label .)) (gt (len .) 53) }}
ERROR: nameOverride: {{ toJson . }} is not a name for a RayCluster; use at most 53 lower-case letters, digits and dashes, first a letter
{{- end }}
{{- end }}
{{- with $v.job.name }}
{{- if or (not (regexMatch $label .)) (gt (len .) 47) }}
ERROR: job.name: {{ toJson . }} has {{ len . }} characters and KubeRay takes 47 lower-case letters, digits and dashes, first a letter; shorten it, or leave it empty
{{- end }}
{{- end }}
{{- with $v.clusterName }}
{{- if or (not (regexMatch "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$" .)) (gt (len .) 63) }}
ERROR: clusterName: {{ toJson . }} is not a path segment and label; use at most 63 letters, digits, dots, dashes and underscores
{{- end }}
{{- end }}
{{- with $v.serviceAccount.name }}
{{- if not (include "ray-train-dlc.check.isName" .) }}
ERROR: serviceAccount.name: {{ toJson . }} is not a name of a ServiceAccount; use lower-case letters, digits, dashes and dots
{{- end }}
{{- end }}
{{- range $place, $labels := dict "commonLabels" $v.commonLabels "monitoring.podMonitor.labels" $v.monitoring.podMonitor.labels "monitoring.grafanaDashboard.labels" $v.monitoring.grafanaDashboard.labels }}
{{- range $key, $value := $labels }}
{{- if include "ray-train-dlc.check.reservedLabel" $key }}
ERROR: {{ $place }}: {{ $key }} belongs to Helm, to the operator, to a queue or to this chart; use a key with a prefix of your own
{{- end }}
{{- end }}
{{- end }}
{{- range $place, $annotations := dict "commonAnnotations" $v.commonAnnotations "serviceAccount.annotations" $v.serviceAccount.annotations "monitoring.grafanaDashboard.annotations" $v.monitoring.grafanaDashboard.annotations }}
{{- range $key, $value := $annotations }}
{{- if regexMatch "^(meta\\.helm\\.sh|ray-train-dlc)/" $key }}
ERROR: {{ $place }}: {{ $key }} belongs to Helm or to this chart; remove it
{{- else if hasKey (include "ray-train-dlc.keepAnnotations" $ | fromJson) $key }}
ERROR: {{ $place }}: {{ $key }} is set by job.onChange: keep; remove it
{{- end }}
{{- end }}
{{- end }}
{{- range $i, $object := $v.extraObjects }}
{{- if not (and $object.apiVersion $object.kind ($object.metadata | default dict).name) }}
ERROR: extraObjects.{{ $i }}: {{ toJson $object | trunc 60 }} is no object; give apiVersion, kind and metadata.name
{{- end }}
{{- end }}
{{- with $v.job.resumeFrom }}
{{- if not (regexMatch "^[A-Za-z0-9/][A-Za-z0-9_.:/=-]*$" .) }}
ERROR: job.resumeFrom: {{ toJson . }} is neither a run's name nor its path; give the name of its RayJob
{{- end }}
{{- end }}
{{- end -}}

{{/* Whether a text is a name that most kinds of objects can have (a DNS-1123 subdomain). */}}
{{- define "ray-train-dlc.check.isName" -}}
{{- if and (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$" .) (le (len .) 253) -}}true{{- end -}}
{{- end -}}

{{/* Whether a label belongs to Helm, to the operator, to a queue (`scheduler` sets those) or to this chart. */}}
{{- define "ray-train-dlc.check.reservedLabel" -}}
{{- if regexMatch "^(helm\\.sh/chart|app\\.kubernetes\\.io/(name|instance|version|managed-by|component|created-by)|ray\\.io/.*|kueue\\.x-k8s\\.io/(queue-name|priority-class)|volcano\\.sh/queue-name|yunikorn\\.apache\\.org/(queue|app-id)|kai\\.scheduler/queue|ray-train-dlc/.*)$" . -}}true{{- end -}}
{{- end -}}
