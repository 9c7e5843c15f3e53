{{/*
`helm test`: a pod that asks the Kubernetes API whether the job or the cluster is up (files/tests/check.py), and what it needs for that.
All of it are hooks, made when a test begins and gone when it ends.
*/}}

{{/* With a dot, which no base name has: `<base>-test` may be the base of another release, whose objects Helm would remove. */}}
{{- define "ray-train-dlc.test.name" -}}
{{- printf "%s.test" (include "ray-train-dlc.base" .) -}}
{{- end -}}

{{/* Labels that the Ray pods have, as JSON; in mode jobOnCluster they are those of another release. */}}
{{- define "ray-train-dlc.test.selector" -}}
{{- if eq .Values.mode "jobOnCluster" -}}
{{- dict "ray.io/cluster" .Values.job.clusterName | toJson -}}
{{- else -}}
{{- dict "ray-train-dlc/run" (include "ray-train-dlc.runName" .) | toJson -}}
{{- end -}}
{{- end -}}

{{/* Workers that there must be; with the autoscaler there may be more. */}}
{{- define "ray-train-dlc.test.workers" -}}
{{- $workers := 0 -}}
{{- range include "ray-train-dlc.groups" . | fromJson -}}
{{- $replicas := int64 .replicas -}}
{{- if and $.Values.cluster.autoscaling.enabled (not (kindIs "invalid" .minReplicas)) }}{{ $replicas = int64 .minReplicas }}{{ end -}}
{{- $workers = add $workers (mul $replicas (.numOfHosts | default 1 | int64)) -}}
{{- end -}}
{{- $workers -}}
{{- end -}}

{{/*
Metadata of a hook: dict "root" $ "weight" "0" and, optionally, "name" "…", "labels" {…}, "annotations" {…}. Without the release's label: the
NetworkPolicy goes by it, and would keep the pod from the API server. Without the annotations of onChange keep, but with one by which Flux
leaves hooks alone that somebody has rendered into Git (Argo CD knows them by their own annotation).
*/}}
{{- define "ray-train-dlc.test.metadata" -}}
{{- $own := omit (include "ray-train-dlc.labels" .root | fromJson) "ray-train-dlc/release" | merge (dict "ray-train-dlc/role" "test") (.labels | default dict) -}}
{{- $labels := include "ray-train-dlc.overlay" (list .root.Values.commonLabels $own) | fromJson -}}
{{- $hook := dict "helm.sh/hook" "test" "helm.sh/hook-weight" .weight "helm.sh/hook-delete-policy" "before-hook-creation,hook-succeeded,hook-failed" -}}
{{- $_ := set $hook "kustomize.toolkit.fluxcd.io/reconcile" "disabled" -}}
name: {{ .name | default (include "ray-train-dlc.test.name" .root) | quote }}
namespace: {{ .root.Release.Namespace | quote }}
labels:
  {{- include "ray-train-dlc.stringMap" $labels | nindent 2 }}
annotations:
  {{- include "ray-train-dlc.overlay" (list .root.Values.commonAnnotations (merge $hook (.annotations | default dict))) | fromJson | include "ray-train-dlc.stringMap" | nindent 2 }}
{{- end -}}

{{/* Beside the head when that is up, whose node has the image: as JSON. */}}
{{- define "ray-train-dlc.test.affinity" -}}
{{- $affinity := deepCopy (.head.affinity | default dict) -}}
{{- $labels := include "ray-train-dlc.test.selector" .root | fromJson | merge (dict "ray.io/node-type" "head") -}}
{{- $term := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" $labels) -}}
{{- $preferred := "preferredDuringSchedulingIgnoredDuringExecution" -}}
{{- $together := get $affinity "podAffinity" | default dict -}}
{{- $_ := set $together $preferred (prepend (get $together $preferred | default list) (dict "weight" 100 "podAffinityTerm" $term)) -}}
{{- $_ := set $affinity "podAffinity" $together -}}
{{- toJson $affinity -}}
{{- end -}}
