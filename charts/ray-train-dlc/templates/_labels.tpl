{{/* The chart's own labels of every object, as JSON. */}}
{{- define "ray-train-dlc.labels" -}}
{{- dict
  "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-")
  "app.kubernetes.io/name" .Chart.Name
  "app.kubernetes.io/instance" .Release.Name
  "app.kubernetes.io/version" .Chart.AppVersion
  "app.kubernetes.io/managed-by" .Release.Service
  "ray-train-dlc/cluster" (include "ray-train-dlc.cluster" .)
  "ray-train-dlc/release" (include "ray-train-dlc.base" .)
| toJson -}}
{{- end -}}

{{/*
Labels of the pods, as YAML: dict "root" $ "runName" "…" "role" "head|worker|submitter" "fields" {…}. Without app.kubernetes.io/name, which
the operator sets and uses as a selector, and without versions. In mode `cluster` also without commonLabels: the operator would see another
RayCluster and start it anew.
*/}}
{{- define "ray-train-dlc.podLabels" -}}
{{- $labels := dict "ray-train-dlc/role" .role -}}
{{- with .runName }}{{ $_ := set $labels "ray-train-dlc/run" . }}{{ end -}}
{{- $labels = include "ray-train-dlc.releaseSelector" .root | fromYaml | merge $labels -}}
{{- $given := .fields.labels | default dict -}}
{{- if ne .root.Values.mode "cluster" -}}
{{- $given = include "ray-train-dlc.overlay" (list .root.Values.commonLabels $given) | fromJson -}}
{{- end -}}
{{- include "ray-train-dlc.overlay" (list $given $labels) | fromJson | include "ray-train-dlc.stringMap" -}}
{{- end -}}

{{/* What a queue or batch scheduler reads on the RayJob or RayCluster, as JSON: dict "root" $ "name" "…". */}}
{{- define "ray-train-dlc.queueLabels" -}}
{{- $scheduler := .root.Values.scheduler -}}
{{- $labels := dict -}}
{{- if eq $scheduler.kind "kueue" -}}
{{- $labels = dict "kueue.x-k8s.io/queue-name" $scheduler.queue "kueue.x-k8s.io/priority-class" $scheduler.priorityClass -}}
{{- else if eq $scheduler.kind "volcano" -}}
{{- $labels = dict "volcano.sh/queue-name" $scheduler.queue "ray.io/priority-class-name" $scheduler.priorityClass -}}
{{- else if eq $scheduler.kind "yunikorn" -}}
{{- $labels = dict "yunikorn.apache.org/queue" $scheduler.queue "yunikorn.apache.org/app-id" .name "ray.io/gang-scheduling-enabled" "true" -}}
{{- else if eq $scheduler.kind "kai" -}}
{{- $labels = dict "kai.scheduler/queue" $scheduler.queue -}}
{{- end -}}
{{- range $key, $value := $labels -}}
{{- if not $value }}{{ $_ := unset $labels $key }}{{ end -}}
{{- end -}}
{{- toJson $labels -}}
{{- end -}}

{{/*
Selects all pods of a release. KubeRay's own ray.io/cluster is the name of the job plus a random part, so nothing written
beforehand can select on it.
*/}}
{{- define "ray-train-dlc.releaseSelector" -}}
ray-train-dlc/release: {{ include "ray-train-dlc.base" . | quote }}
{{- end -}}

{{/*
onChange keep, as JSON: a job outlives the change that replaces it. It then needs its code and, for the pods of a retry, its ServiceAccount
and its NetworkPolicy even after `helm uninstall`; so all objects carry these.
*/}}
{{- define "ray-train-dlc.keepAnnotations" -}}
{{- if include "ray-train-dlc.keeps" . -}}
{{- dict
  "helm.sh/resource-policy" "keep"
  "kustomize.toolkit.fluxcd.io/prune" "disabled"
  "argocd.argoproj.io/sync-options" "Prune=false"
  "argocd.argoproj.io/compare-options" "IgnoreExtraneous"
| toJson -}}
{{- else -}}
{}
{{- end -}}
{{- end -}}

{{- define "ray-train-dlc.keeps" -}}
{{- if and (ne .Values.mode "cluster") (eq .Values.job.onChange "keep") -}}true{{- end -}}
{{- end -}}

{{/*
Metadata of an object: dict "root" $ "name" "…" and, optionally, "annotations" {…} and "labels" {…}, which go over the common ones and under
the chart's own. In maps, so that no key is printed twice.
*/}}
{{- define "ray-train-dlc.metadata" -}}
{{- $labels := .root.Values.commonLabels -}}
{{- range $more := list (.labels | default dict) (include "ray-train-dlc.labels" .root | fromJson) -}}
{{- $labels = include "ray-train-dlc.overlay" (list $labels $more) | fromJson -}}
{{- end -}}
{{- $annotations := .root.Values.commonAnnotations -}}
{{- range $more := list (.annotations | default dict) (include "ray-train-dlc.keepAnnotations" .root | fromJson) -}}
{{- $annotations = include "ray-train-dlc.overlay" (list $annotations $more) | fromJson -}}
{{- end -}}
name: {{ .name | quote }}
namespace: {{ .root.Release.Namespace | quote }}
labels:
  {{- include "ray-train-dlc.stringMap" $labels | nindent 2 }}
{{- with include "ray-train-dlc.stringMap" $annotations }}
annotations:
  {{- . | nindent 2 }}
{{- end }}
{{- end -}}
