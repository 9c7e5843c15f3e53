{{/* Rules of _requirements.tpl: variables and parameters that the chart or the operator sets. */}}

{{- define "ray-train-dlc.check.env" -}}
{{- $envs := dict -}}
{{- $params := dict -}}
{{- $operators := list "address" "block" "dashboard-agent-listen-port" "dashboard-host" "dashboard-port" "head" "include-dashboard" "metrics-export-port" "node-ip-address" "port" -}}
{{- range $place, $fields := include "ray-train-dlc.places" . | fromJson -}}
{{- $_ := set $envs (printf "%s.env" $place) $fields.env -}}
{{- $_ := set $params (printf "%s.rayStartParams" $place) $fields.rayStartParams -}}
{{- end -}}
{{- $tokens := include "ray-train-dlc.tokenEnv" . | fromJson -}}
{{- range ternary (list (get .Values.job.runtimeEnv "env_vars")) list (hasKey .Values.job.runtimeEnv "env_vars") -}}
{{- if not (kindIs "map" .) }}
ERROR: job.runtimeEnv.env_vars: {{ toJson . }} is not a map; write names to texts
{{- else }}
{{- $_ := set $envs "job.runtimeEnv.env_vars" . }}
{{- range $name, $value := . }}
{{- if or (kindIs "map" $value) (kindIs "slice" $value) }}
ERROR: job.runtimeEnv.env_vars: {{ $name }} is {{ toJson $value }}, and Ray takes texts only; write a text, or give it to the pods by common.env
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- range $key, $env := $envs }}
{{- range $name, $value := $env }}
{{- with include "ray-train-dlc.check.envOwner" $name }}
ERROR: {{ $key }}: {{ $name }} is {{ . }}
{{- end }}
{{- if and (eq $name "HF_TOKEN") $tokens }}
ERROR: {{ $key }}: HF_TOKEN is set by training.model.secretRef or training.data.secretRef; remove one of the two
{{- end }}
{{- if and (kindIs "map" $value) (ne (len $value) 1) }}
ERROR: {{ $key }}: {{ $name }} has {{ len $value }} sources ({{ keys $value | sortAlpha | join ", " }}); give exactly one of secretKeyRef, configMapKeyRef, fieldRef, resourceFieldRef
{{- end }}
{{- end }}
{{- end }}
{{- range $key, $map := $params }}
{{- range $name, $value := $map }}
{{- if or (eq $name "num-gpus") (and (eq $name "num-cpus") (has $key (list "head.rayStartParams" "common.rayStartParams"))) }}
ERROR: {{ $key }}: {{ $name }} is set by the chart (the head offers none, a worker has `gpus`); remove it
{{- else if eq $name "resources" }}
ERROR: {{ $key }}: {{ $name }} is what `rayResources` is for; move it there
{{- else if has $name $operators }}
ERROR: {{ $key }}: {{ $name }} is chosen by the operator, whose Services, probes and job submission rely on it; remove it
{{- else if has $name (list "redis-password" "redis-username") }}
ERROR: {{ $key }}: {{ $name }} is for a store that the chart names itself; use cluster.gcsFaultToleranceOptions
{{- else if eq $name "labels" }}
ERROR: {{ $key }}: {{ $name }} is refused by the operator; remove it
{{- else if and (has $name (list "num-cpus" "memory" "object-store-memory")) (not (regexMatch "^[0-9]+$" (include "ray-train-dlc.scalar" $value))) }}
ERROR: {{ $key }}: {{ $name }} is {{ toJson $value }} and not a whole number, so Ray would not start; write CPUs, or bytes
{{- else if not (regexMatch `^([A-Za-z0-9_./:,=@%+-]*|'[^']*'|"([^"\\$\x60]|\\.)*")$` (include "ray-train-dlc.scalar" $value)) }}
ERROR: {{ $key }}: {{ $name }} is {{ toJson $value }}, of which a shell would read a part as its own; put it in single quotes inside the text
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Who sets the variable of this name, and what to do instead; nothing when it is free. */}}
{{- define "ray-train-dlc.check.envOwner" -}}
{{- if regexMatch "^RTD_" . -}}
the contract between chart and training; set the value that it comes from (docs/contract.md)
{{- else if has . (list "NCCL_NET" "NCCL_NET_PLUGIN" "FI_PROVIDER" "NCCL_SOCKET_IFNAME") -}}
set from nodes and `efa`, and checked at start; change workerGroups.<name>.efa instead
{{- else if has . (list "NCCL_DEBUG" "NCCL_DEBUG_FILE") -}}
set by the chart, as the check of the transport reads that log; remove it
{{- else if regexMatch "^RAY_AUTH_" . -}}
set by the operator for token authentication; remove it
{{- else if has . (list "RAY_ADDRESS" "RAY_IP" "RAY_PORT" "FQ_RAY_IP" "RAY_CLUSTER_NAME" "RAY_CLOUD_INSTANCE_ID" "RAY_NODE_TYPE_NAME" "KUBERAY_GEN_RAY_START_CMD") -}}
set by the operator, for this cluster and its head; remove it
{{- else if eq . "RAY_enable_autoscaler_v2" -}}
refused by the operator without its autoscaler; remove it
{{- else if has . (list "RAY_JOB_STOP_WAIT_TIME_S" "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S") -}}
derived, so that a checkpoint fits; set terminationGracePeriodSeconds instead
{{- else if has . (list "RAY_REDIS_ADDRESS" "REDIS_PASSWORD" "REDIS_USERNAME") -}}
what turns fault tolerance of the GCS on; use cluster.gcsFaultToleranceOptions of a standing cluster instead
{{- else if has . (list "PYTHONPATH" "NVIDIA_VISIBLE_DEVICES") -}}
set by the chart; remove it
{{- end -}}
{{- end -}}
