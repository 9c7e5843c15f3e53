{{/* Rules of _requirements.tpl: what fits to a mode, and to a queue. */}}

{{- define "ray-train-dlc.check.job" -}}
{{- $job := .Values.job -}}
{{- $auth := .Values.auth -}}
{{- $mode := .Values.mode -}}
{{- $label := "^[a-z]([-a-z0-9]*[a-z0-9])?$" -}}
{{- if eq $mode "jobOnCluster" }}
{{- if or (not (regexMatch $label $job.clusterName)) (gt (len $job.clusterName) 53) }}
ERROR: job.clusterName: {{ toJson $job.clusterName }} is not the name of a RayCluster; set it for mode jobOnCluster
{{- end }}
{{- if ne $job.submissionMode "HTTPMode" }}
ERROR: job.submissionMode: {{ $job.submissionMode }} is not possible on a cluster of another release, whose pods only the operator reaches; set HTTPMode
{{- end }}
{{- range $source := list "model" "data" }}
{{- if (get $.Values.training $source).secretRef.name }}
ERROR: training.{{ $source }}.secretRef: a job on a cluster that is there already brings no Secrets along; give it to the release that holds the cluster
{{- end }}
{{- end }}
{{- else if $job.clusterName }}
ERROR: job.clusterName: {{ toJson $job.clusterName }} has no effect in mode {{ $mode }}; set mode to jobOnCluster, or remove it
{{- end }}
{{- $unset := (include "ray-train-dlc.defaults" . | fromJson).values.job.submitter }}
{{- if and (ne $job.submissionMode "K8sJobMode") (ne (toJson $unset) (toJson $job.submitter)) }}
ERROR: job.submitter: without effect, as there is no such pod in {{ $job.submissionMode }}; set job.submissionMode to K8sJobMode, or remove it
{{- end }}
{{- if eq $job.submitter.restartPolicy "Always" }}
ERROR: job.submitter.restartPolicy: Always is not possible for the pod of a Job; set Never or OnFailure
{{- end }}
{{- with .Values.placement }}
{{- if and .required (not .topologyKey) }}
ERROR: placement.required: without effect, as there is no topologyKey; set it, or remove this
{{- else if and .topologyKey (or (not (regexMatch "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$" .topologyKey)) (contains ".." .topologyKey)) }}
ERROR: placement.topologyKey: {{ toJson .topologyKey }} is not the key of a label; use one that `kubectl get nodes --show-labels` shows
{{- else if eq .topologyKey "kubernetes.io/hostname" }}
ERROR: placement.topologyKey: {{ .topologyKey }} is one node, and each worker has a node of its own; use a zone or a layer of the network
{{- end }}
{{- end }}
{{- if and (eq $job.submissionMode "SidecarMode") (eq .Values.podSecurity "restricted") }}
ERROR: job.submissionMode: SidecarMode adds a container that podSecurity restricted does not admit; set HTTPMode
{{- end }}
{{- if and (eq $job.submissionMode "SidecarMode") (ne ((include "ray-train-dlc.headFields" . | fromJson).restartPolicy | default "Never") "Never") }}
ERROR: job.submissionMode: SidecarMode needs the restart policy Never of the head; remove head.restartPolicy and common.restartPolicy, or set HTTPMode
{{- end }}
{{- if ne $mode "cluster" }}
{{- if $auth.enableK8sTokenAuth }}
ERROR: auth.enableK8sTokenAuth: the operator refuses it for a RayJob; set it to false
{{- end }}
{{- end }}
{{- if and $auth.enableK8sTokenAuth (or $auth.secretName (ne $auth.mode "token") (not (semverCompare ">=2.55.0" .Values.rayVersion))) }}
ERROR: auth.enableK8sTokenAuth: needs mode token, no secretName, and Ray 2.55.0 or later; set these
{{- end }}
{{- if and $auth.secretName (ne $auth.mode "token") }}
ERROR: auth.secretName: {{ toJson $auth.secretName }} without mode token; set auth.mode to token, or remove it
{{- end }}
{{- include "ray-train-dlc.check.extra" (dict "key" "job.extraSpec" "given" $job.extraSpec "more" (list "entrypointNumCpus" "entrypointNumGpus" "entrypointResources" "jobId") "own" (list "activeDeadlineSeconds" "backoffLimit" "clusterSelector" "deletionStrategy" "entrypoint" "managedBy" "metadata" "preRunningDeadlineSeconds" "rayClusterSpec" "runtimeEnvYAML" "shutdownAfterJobFinishes" "submissionMode" "submitterConfig" "submitterPodTemplate" "suspend" "ttlSecondsAfterFinished")) }}
{{- range $name := list "entrypointNumCpus" "entrypointNumGpus" }}
{{- with get $job.extraSpec $name }}
{{- if gt (regexReplaceAll "[^0-9]" (toJson .) "" | len) 6 }}
ERROR: job.extraSpec.{{ $name }}: {{ toJson . }} has more digits than the operator keeps, a lasting difference to Git; write six at most
{{- end }}
{{- end }}
{{- end }}
{{- with $job.extraSpec.entrypointResources }}
{{- $wrong := not (regexMatch "^\\s*\\{" .) }}
{{- range $amount := fromJson . }}{{ if not (kindIs "float64" $amount) }}{{ $wrong = true }}{{ end }}{{ end }}
{{- if $wrong }}
ERROR: job.extraSpec.entrypointResources: {{ toJson . }} is no JSON of names and numbers; write a text such as '{"fast-disk": 1}'
{{- end }}
{{- end }}
{{- include "ray-train-dlc.check.scheduler" . }}
{{- end -}}

{{/*
Fields of a spec that have values of their own, or that would strand a job, and what the API server drops in silence, as it knows it in other
letters: dict "key" "…" "given" {…} "own" […] "more" […].
*/}}
{{- define "ray-train-dlc.check.extra" -}}
{{- $given := . -}}
{{- $key := .key -}}
{{- $known := dict -}}
{{- range concat .own .more }}{{ $_ := set $known (lower .) . }}{{ end -}}
{{- range $name, $value := .given }}
{{- $right := get $known (lower $name) }}
{{- if has $right $given.own }}
ERROR: {{ $key }}: {{ $name }} has a value of its own, or is the chart's alone; remove it
{{- else if and $right (ne $right $name) }}
ERROR: {{ $key }}: {{ $name }} is no field of KubeRay, and would be dropped in silence; write {{ $right }}
{{- else if and (empty $value) (not (kindIs "bool" $value)) }}
ERROR: {{ $key }}: {{ $name }} is {{ toJson $value }}, which the operator leaves out when it writes back, a lasting difference to Git; remove it
{{- end }}
{{- end }}
{{- end -}}

{{- define "ray-train-dlc.check.scheduler" -}}
{{- $scheduler := .Values.scheduler -}}
{{- $kind := $scheduler.kind -}}
{{- $label := "^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$" -}}
{{- if and (not $kind) (or $scheduler.queue $scheduler.priorityClass) }}
ERROR: scheduler.kind: "" next to a queue or priority class; set it, or remove them
{{- end }}
{{- if $kind }}
{{- if and (has $kind (list "kueue" "kai" "yunikorn")) (not $scheduler.queue) }}
ERROR: scheduler.queue: "" with kind {{ $kind }}, which then does not look at the job, or leaves it pending; set it
{{- end }}
{{- if and $scheduler.priorityClass (not (has $kind (list "kueue" "volcano"))) }}
ERROR: scheduler.priorityClass: {{ toJson $scheduler.priorityClass }} is not read by {{ $kind }}; use common.priorityClassName
{{- end }}
{{- range $key := list "queue" "priorityClass" }}
{{- with get $scheduler $key }}
{{- if not (regexMatch $label .) }}
ERROR: scheduler.{{ $key }}: {{ toJson . }} is not the value of a label; use letters, digits, dashes, dots and underscores
{{- end }}
{{- end }}
{{- end }}
{{- if and (eq $.Values.mode "jobOnCluster") (has $kind (list "kueue" "volcano")) }}
ERROR: scheduler.kind: {{ $kind }} does not take jobs on a cluster that is there already; give the queue to the release that holds the cluster
{{- end }}
{{- if and (eq $kind "kai") (eq $.Values.job.submissionMode "K8sJobMode") }}
ERROR: job.submissionMode: K8sJobMode is refused with kai; set HTTPMode
{{- end }}
{{- if eq $kind "kueue" }}
{{- $groups := include "ray-train-dlc.groups" $ | fromJson }}
{{- if gt (len $groups) 17 }}
ERROR: workerGroups: {{ len $groups }} groups, and Kueue takes 17 besides the head; merge some
{{- end }}
{{- if $.Values.cluster.autoscaling.enabled }}
ERROR: cluster.autoscaling.enabled: true with kueue, which reserves a set number of nodes; set it to false
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
