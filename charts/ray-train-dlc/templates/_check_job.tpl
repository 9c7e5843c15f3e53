{{/* Rules of _requirements.tpl: what fits to a mode, and to a queue. */}}

{{- define "ray-train-dlc.check.job" -}}
{{- $job := .Values.job -}}
{{- $cluster := .Values.cluster -}}
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
{{- if and (eq $job.submissionMode "SidecarMode") (include "ray-train-dlc.headFields" . | fromJson).restartPolicy }}
ERROR: job.submissionMode: SidecarMode needs the restart policy Never of the head; remove head.restartPolicy and common.restartPolicy, or set HTTPMode
{{- end }}
{{- if ne $mode "cluster" }}
{{- if $cluster.autoscaling.enabled }}
ERROR: cluster.autoscaling.enabled: true in mode {{ $mode }}; a training has a set number of ranks, so set it to false
{{- end }}
{{- if $cluster.gcsFaultToleranceOptions }}
ERROR: cluster.gcsFaultToleranceOptions: only for mode cluster; a training resumes from its checkpoint, so remove it
{{- end }}
{{- if $auth.enableK8sTokenAuth }}
ERROR: auth.enableK8sTokenAuth: the operator refuses it for a RayJob; set it to false
{{- end }}
{{- end }}
{{- range $name, $value := $cluster.autoscaling.options }}
{{- if not (has $name (list "env" "envFrom" "idleTimeoutSeconds" "image" "imagePullPolicy" "resources" "securityContext" "upscalingMode" "version" "volumeMounts")) }}
ERROR: cluster.autoscaling.options: {{ $name }} is no field of KubeRay's autoscalerOptions; remove it
{{- else if and (eq $name "upscalingMode") (not (has $value (list "Default" "Aggressive" "Conservative"))) }}
ERROR: cluster.autoscaling.options.upscalingMode: {{ toJson $value }} is not a mode; set Default, Aggressive or Conservative
{{- else if and (eq $name "version") (not (has $value (list "v1" "v2"))) }}
ERROR: cluster.autoscaling.options.version: {{ toJson $value }} is no autoscaler; set v1 or v2
{{- end }}
{{- end }}
{{- with $cluster.gcsFaultToleranceOptions }}
{{- range $name, $value := . }}
{{- if not (has $name (list "externalStorageNamespace" "redisAddress" "redisPassword" "redisUsername")) }}
ERROR: cluster.gcsFaultToleranceOptions: {{ $name }} is no field of KubeRay's; remove it (the options themselves turn it on)
{{- end }}
{{- end }}
{{- if not .redisAddress }}
ERROR: cluster.gcsFaultToleranceOptions.redisAddress: not set, and there is no other store; set it, or remove the options
{{- end }}
{{- end }}
{{- if and $cluster.autoscaling.options (not $cluster.autoscaling.enabled) }}
ERROR: cluster.autoscaling.options: without effect, as autoscaling is not enabled; set cluster.autoscaling.enabled, or remove them
{{- end }}
{{- if and $auth.enableK8sTokenAuth (or $auth.secretName (ne $auth.mode "token") (not (semverCompare ">=2.55.0" .Values.rayVersion))) }}
ERROR: auth.enableK8sTokenAuth: needs mode token, no secretName, and Ray 2.55.0 or later; set these
{{- end }}
{{- if and $auth.secretName (ne $auth.mode "token") }}
ERROR: auth.secretName: {{ toJson $auth.secretName }} without mode token; set auth.mode to token, or remove it
{{- end }}
{{- range $name, $group := include "ray-train-dlc.groups" . | fromJson }}
{{- $low := kindIs "invalid" $group.minReplicas | ternary $group.replicas $group.minReplicas | int64 }}
{{- $high := $group.maxReplicas | default $group.replicas | int64 }}
{{- if not $cluster.autoscaling.enabled }}
{{- range $key := list "minReplicas" "maxReplicas" "idleTimeoutSeconds" }}
{{- if not (kindIs "invalid" (index $group $key)) }}
ERROR: workerGroups.{{ $name }}.{{ $key }}: without effect, as cluster.autoscaling is not enabled; remove it
{{- end }}
{{- end }}
{{- else if gt $low $high }}
ERROR: workerGroups.{{ $name }}: minReplicas {{ $low }} is above maxReplicas {{ $high }}; raise maxReplicas
{{- end }}
{{- if and $cluster.autoscaling.enabled (not (kindIs "invalid" $group.idleTimeoutSeconds)) (ne (get $cluster.autoscaling.options "version" | toString) "v2") }}
ERROR: workerGroups.{{ $name }}.idleTimeoutSeconds: the operator takes it for autoscaler v2 only; set cluster.autoscaling.options.version to v2
{{- end }}
{{- end }}
{{- if and $cluster.autoscaling.enabled (eq (get $cluster.autoscaling.options "version" | toString) "v2") }}
{{- range $place, $fields := include "ray-train-dlc.places" . | fromJson }}
{{- if and (ne $place "job.submitter") $fields.restartPolicy (ne ($fields.restartPolicy | toString) "Never") }}
ERROR: {{ $place }}.restartPolicy: {{ $fields.restartPolicy }} is not possible with autoscaler v2, which replaces pods itself; remove it
{{- end }}
{{- end }}
{{- end }}
{{- include "ray-train-dlc.check.extra" (dict "key" "job.extraSpec" "given" $job.extraSpec "own" (list "activeDeadlineSeconds" "backoffLimit" "clusterSelector" "deletionStrategy" "entrypoint" "managedBy" "metadata" "preRunningDeadlineSeconds" "rayClusterSpec" "runtimeEnvYAML" "shutdownAfterJobFinishes" "submissionMode" "submitterConfig" "submitterPodTemplate" "suspend" "ttlSecondsAfterFinished")) }}
{{- include "ray-train-dlc.check.extra" (dict "key" "cluster.extraSpec" "given" $cluster.extraSpec "own" (list "authOptions" "autoscalerOptions" "enableInTreeAutoscaling" "gcsFaultToleranceOptions" "headGroupSpec" "headServiceAnnotations" "managedBy" "rayVersion" "suspend" "upgradeStrategy" "workerGroupSpecs")) }}
{{- include "ray-train-dlc.check.scheduler" . }}
{{- end -}}

{{/* Fields of a spec that have values of their own, or that would strand a job: dict "key" "…" "given" {…} "own" […]. */}}
{{- define "ray-train-dlc.check.extra" -}}
{{- $own := .own -}}
{{- $key := .key -}}
{{- range $name, $value := .given }}
{{- if has $name $own }}
ERROR: {{ $key }}: {{ $name }} has a value of its own, or is the chart's alone; remove it
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
