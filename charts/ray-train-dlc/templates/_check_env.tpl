{{/* Rules of requirements.yaml: variables and parameters that the chart or the operator sets. */}}

{{- define "ray-train-dlc.check.env" -}}
{{- $envs := dict "env" .Values.env "head.env" .Values.head.env -}}
{{- $params := dict "head.rayStartParams" .Values.head.rayStartParams -}}
{{- $operators := list "address" "block" "dashboard-agent-listen-port" "dashboard-host" "dashboard-port" "head" "include-dashboard" "metrics-export-port" "node-ip-address" "port" -}}
{{- range $name, $group := include "ray-train-dlc.groups" . | fromJson -}}
{{- $_ := set $envs (printf "workerGroups.%s.env" $name) $group.env -}}
{{- $_ := set $params (printf "workerGroups.%s.rayStartParams" $name) $group.rayStartParams -}}
{{- end -}}
{{- range $key, $env := $envs }}
{{- range $name, $value := $env }}
{{- if not (kindIs "invalid" $value) }}
{{- with include "ray-train-dlc.check.envOwner" $name }}
ERROR: {{ $key }}: {{ $name }} is {{ . }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- range $key, $map := $params }}
{{- range $name, $value := $map }}
{{- if not (kindIs "invalid" $value) }}
{{- if or (eq $name "num-gpus") (and (eq $name "num-cpus") (eq $key "head.rayStartParams")) }}
ERROR: {{ $key }}: {{ $name }} is set by the chart (the head offers none, a worker has `gpus`); remove it
{{- else if has $name $operators }}
ERROR: {{ $key }}: {{ $name }} is chosen by the operator, whose Services, probes and job submission rely on it; remove it
{{- else if eq $name "labels" }}
ERROR: {{ $key }}: {{ $name }} is refused by the operator; remove it
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Who sets the variable of this name, and what to do instead; nothing when it is free. */}}
{{- define "ray-train-dlc.check.envOwner" -}}
{{- if regexMatch "^RTD_" . -}}
the contract between chart and training; set the value that it comes from (docs/contract.md)
{{- else if has . (list "NCCL_NET" "NCCL_NET_PLUGIN" "FI_PROVIDER" "NCCL_DEBUG" "NCCL_DEBUG_FILE" "NCCL_SOCKET_IFNAME") -}}
set from nodes and `efa`, and checked at start; change workerGroups.<name>.efa instead
{{- else if regexMatch "^RAY_AUTH_" . -}}
set by the operator for token authentication; remove it
{{- else if has . (list "RAY_ADDRESS" "RAY_IP" "RAY_PORT" "FQ_RAY_IP" "RAY_CLUSTER_NAME" "RAY_CLOUD_INSTANCE_ID" "RAY_NODE_TYPE_NAME" "KUBERAY_GEN_RAY_START_CMD") -}}
set by the operator, for this cluster and its head; remove it
{{- else if eq . "RAY_enable_autoscaler_v2" -}}
refused by the operator without its autoscaler; remove it
{{- else if has . (list "RAY_JOB_STOP_WAIT_TIME_S" "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S") -}}
derived, so that a checkpoint fits; set terminationGracePeriodSeconds instead
{{- else if has . (list "PYTHONPATH" "NVIDIA_VISIBLE_DEVICES") -}}
set by the chart; remove it
{{- end -}}
{{- end -}}
