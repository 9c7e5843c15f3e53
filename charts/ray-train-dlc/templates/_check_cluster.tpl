{{/* Rules of _requirements.tpl: the RayCluster. Its autoscaler, the store of its GCS, and other fields of its spec. */}}

{{- define "ray-train-dlc.check.cluster" -}}
{{- $cluster := .Values.cluster -}}
{{- $scaling := $cluster.autoscaling -}}
{{- $mode := .Values.mode -}}
{{- if ne $mode "cluster" }}
{{- if $scaling.enabled }}
ERROR: cluster.autoscaling.enabled: true in mode {{ $mode }}; a training has a set number of ranks, so set it to false
{{- end }}
{{- if $cluster.gcsFaultToleranceOptions }}
ERROR: cluster.gcsFaultToleranceOptions: only for mode cluster; a training resumes from its checkpoint, so remove it
{{- end }}
{{- end }}
{{- if and $scaling.options (not $scaling.enabled) }}
ERROR: cluster.autoscaling.options: without effect, as autoscaling is not enabled; set cluster.autoscaling.enabled, or remove them
{{- end }}
{{- range $name, $group := include "ray-train-dlc.groups" . | fromJson }}
{{- $low := include "ray-train-dlc.minReplicas" $group | int64 }}
{{- $high := include "ray-train-dlc.maxReplicas" $group | int64 }}
{{- if not $scaling.enabled }}
{{- range $key := list "minReplicas" "maxReplicas" "idleTimeoutSeconds" }}
{{- if not (kindIs "invalid" (index $group $key)) }}
ERROR: workerGroups.{{ $name }}.{{ $key }}: without effect, as cluster.autoscaling is not enabled; remove it
{{- end }}
{{- end }}
{{- else if gt $low $high }}
ERROR: workerGroups.{{ $name }}: minReplicas {{ $low }} is above maxReplicas {{ $high }}; raise maxReplicas
{{- end }}
{{- if and $scaling.enabled (not (kindIs "invalid" $group.idleTimeoutSeconds)) (ne ($scaling.options.version | toString) "v2") }}
ERROR: workerGroups.{{ $name }}.idleTimeoutSeconds: the operator takes it for autoscaler v2 only; set cluster.autoscaling.options.version to v2
{{- end }}
{{- end }}
{{- if and $scaling.enabled (eq ($scaling.options.version | toString) "v2") }}
{{- range $place, $fields := include "ray-train-dlc.places" . | fromJson }}
{{- if and (ne $place "job.submitter") $fields.restartPolicy (ne ($fields.restartPolicy | toString) "Never") }}
ERROR: {{ $place }}.restartPolicy: {{ $fields.restartPolicy }} is not possible with autoscaler v2, which replaces pods itself; remove it
{{- end }}
{{- end }}
{{- end }}
{{- if and $scaling.enabled (ne $mode "jobOnCluster") }}
{{- $fields := include "ray-train-dlc.headFields" . | fromJson }}
{{- if eq (toJson $fields.automountServiceAccountToken) "false" }}
{{- $own := include "ray-train-dlc.places" . | fromJson }}
ERROR: {{ hasKey $own.head "automountServiceAccountToken" | ternary "head" "common" }}.automountServiceAccountToken: false, and Ray's autoscaler, beside the head, calls the Kubernetes API; set head.automountServiceAccountToken to true
{{- end }}
{{- end }}
{{- include "ray-train-dlc.check.cluster.autoscaler" . }}
{{- include "ray-train-dlc.check.cluster.redis" . }}
{{- include "ray-train-dlc.check.extra" (dict "key" "cluster.extraSpec" "given" $cluster.extraSpec "more" (list "historyServerOptions" "networkPolicy" "tlsOptions") "own" (list "authOptions" "autoscalerOptions" "enableInTreeAutoscaling" "gcsFaultToleranceOptions" "headGroupSpec" "headServiceAnnotations" "managedBy" "rayVersion" "suspend" "upgradeStrategy" "workerGroupSpecs")) }}
{{- end -}}

{{/* The autoscaler's container, which stands in the pod of the head; _check_api.tpl and _check_security.tpl have more. */}}
{{- define "ray-train-dlc.check.cluster.autoscaler" -}}
{{- $options := .Values.cluster.autoscaling.options -}}
{{- $head := include "ray-train-dlc.headFields" . | fromJson -}}
{{- $volumes := list -}}
{{- range include "ray-train-dlc.allVolumes" (dict "root" . "role" "head" "fields" $head) | fromJsonArray }}{{ $volumes = append $volumes .name }}{{ end -}}
{{- $paths := list -}}
{{- range $options.volumeMounts }}
{{- $path := clean .mountPath }}
{{- $paths = append $paths $path }}
{{- if not (has .name $volumes) }}
ERROR: cluster.autoscaling.options.volumeMounts: {{ .name }} is no volume of the head; add it to head.volumes
{{- end }}
{{- if has $path (list "/tmp/ray" "/var/run/secrets/ray.io/serviceaccount") }}
ERROR: cluster.autoscaling.options.volumeMounts: {{ $path }} is the operator's; use another path
{{- end }}
{{- end }}
{{- include "ray-train-dlc.check.twice" (dict "key" "cluster.autoscaling.options.volumeMounts" "what" "the mount path" "values" $paths) }}
{{- range $options.env }}
{{- if regexMatch "^(RAY_AUTH_.*|RAY_CLUSTER_NAME(SPACE)?|RAY_HEAD_POD_NAME|KUBERAY_.*)$" .name }}
ERROR: cluster.autoscaling.options.env: {{ .name }} is set by the operator, for this cluster and its token; remove it
{{- end }}
{{- end }}
{{- $claims := list }}
{{- range $head.resourceClaims }}{{ $claims = append $claims .name }}{{ end }}
{{- range ($options.resources | default dict).claims }}
{{- if not (has .name $claims) }}
ERROR: cluster.autoscaling.options.resources.claims: {{ .name }} is no claim of the head; add it to head.resourceClaims
{{- end }}
{{- end }}
{{- end -}}

{{- define "ray-train-dlc.check.cluster.redis" -}}
{{- $options := .Values.cluster.gcsFaultToleranceOptions -}}
{{- if and $options (not $options.redisAddress) }}
ERROR: cluster.gcsFaultToleranceOptions.redisAddress: not set, and there is no other store; set it, or remove the options
{{- end }}
{{- with $options.redisAddress }}
{{- range splitList "," . }}
{{- $port := regexFind "[0-9]+$" . | int64 }}
{{- /* As Ray reads it: no user, no path. */}}
{{- if or (lt $port 1) (gt $port 65535) (not (regexMatch `^(rediss?://)?([A-Za-z0-9_]([-A-Za-z0-9_.]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$` .)) }}
ERROR: cluster.gcsFaultToleranceOptions.redisAddress: {{ toJson . }} is not host:port, which is all that Ray reads; write it like redis:6379, with rediss:// before it for TLS
{{- end }}
{{- end }}
{{- end }}
{{- range $key := list "redisPassword" "redisUsername" }}
{{- with pick $options $key }}
{{- $given := get . $key | default dict }}
{{- if or (ne (len $given) 1) (and (hasKey $given "valueFrom") (ne (len ($given.valueFrom | default dict)) 1)) }}
ERROR: cluster.gcsFaultToleranceOptions.{{ $key }}: {{ keys $given | sortAlpha | toJson }} is not one source; give value, or valueFrom.secretKeyRef with the name and the key of a Secret
{{- end }}
{{- end }}
{{- end }}
{{- range $name := list "ray.io/external-storage-namespace" "ray.io/ft-enabled" }}
{{- if hasKey $.Values.commonAnnotations $name }}
ERROR: commonAnnotations: {{ $name }} is the older way to have the GCS keep its state; use cluster.gcsFaultToleranceOptions
{{- end }}
{{- end }}
{{- end -}}
