{{/*
Environment of the Ray containers: the contract with training/, and what Ray and NCCL need. An EnvVar list, sorted by name, for
dict "root" $ "runName" "…" "role" "head|worker|submitter" "fields" {…}. The submitter has only what is given.

A variable with an empty value is left out, or printed without `value`: the operator writes the RayJob back once, without empty
fields, and GitOps tools would see a difference for ever.
*/}}
{{- define "ray-train-dlc.env" -}}
{{- $values := .root.Values -}}
{{- $topology := include "ray-train-dlc.topology" .root | fromJson -}}
{{- $grace := int64 .fields.terminationGracePeriodSeconds -}}
{{- $own := dict -}}
{{- if ne .role "submitter" -}}
{{- $own = merge (include "ray-train-dlc.runEnv" . | fromJson) (include "ray-train-dlc.tokenEnv" .root | fromJson) (dict
  "PYTHONPATH" (eq (include "ray-train-dlc.hasUserCode" .root) "true" | ternary "/opt/ray-train:/opt/ray-train-code" "/opt/ray-train")
  "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S" (div (mul $grace 3) 4 | toString)
  "RTD_NODES" (int64 $topology.nodes | toString)
  "RTD_GPUS_PER_NODE" (int64 $topology.gpusPerNode | toString)
  "RTD_PROCESSES_PER_NODE" (int64 $topology.processesPerNode | toString)
  "RTD_SCRATCH" "/var/tmp/ray-train"
) -}}
{{- end -}}
{{- if eq $values.podSecurity "restricted" -}}
{{- /* The user is in no passwd file of the image: without these, Python cannot tell its name or home. */ -}}
{{- $own = merge $own (dict "HOME" "/tmp" "USER" "ray" "LOGNAME" "ray") -}}
{{- end -}}
{{- if and (eq (int64 .fields.gpus) 0) (ne .role "submitter") -}}
{{- /* The default container runtime of GPU nodes shows all GPUs to a pod that has asked for none. */ -}}
{{- $_ := set $own "NVIDIA_VISIBLE_DEVICES" "void" -}}
{{- end -}}
{{- if eq .role "head" -}}
{{- /* Ray kills the driver 3 s after its end signal unless told otherwise: too soon for a checkpoint. */ -}}
{{- $_ := set $own "RAY_JOB_STOP_WAIT_TIME_S" (sub $grace 10 | toString) -}}
{{- else if and (eq .role "worker") (gt (int64 $topology.nodes) 1) (gt (include "ray-train-dlc.ranksPerNode" .fields | int64) 0) -}}
{{- $own = include "ray-train-dlc.transportEnv" .fields | fromJson | merge $own -}}
{{- end -}}
{{- range $name, $value := $own -}}
{{- if not $value -}}
{{- $_ := unset $own $name -}}
{{- end -}}
{{- end -}}
{{- $env := dict -}}
{{- range $layer := list .fields.env $own -}}
{{- range $name, $value := $layer -}}
{{- if kindIs "invalid" $value -}}
{{- $_ := unset $env $name -}}
{{- else -}}
{{- $_ := set $env $name $value -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- /* Kubernetes replaces $(NAME) by a variable that stands before: those that refer to others come after them. */ -}}
{{- $order := list -}}
{{- range until (add 1 (len $env) | int) -}}
{{- range $name, $value := $env -}}
{{- $waits := has $name $order -}}
{{- range ternary (regexFindAll "\\$\\([^)]+\\)" (toString $value) -1) list (kindIs "string" $value) -}}
{{- $other := trimPrefix "$(" . | trimSuffix ")" -}}
{{- if and (hasKey $env $other) (not (has $other $order)) }}{{ $waits = true }}{{ end -}}
{{- end -}}
{{- if not $waits }}{{ $order = append $order $name }}{{ end -}}
{{- end -}}
{{- if eq (len $order) (len $env) }}{{ break }}{{ end -}}
{{- end -}}
{{- range $name := keys $env | sortAlpha }}{{ if not (has $name $order) }}{{ $order = append $order $name }}{{ end }}{{ end -}}
{{- range $name := $order }}
{{- $value := get $env $name }}
- name: {{ $name | quote }}
  {{- if kindIs "map" $value }}
  valueFrom:
    {{- toYaml $value | nindent 4 }}
  {{- else }}
  {{- with include "ray-train-dlc.scalar" $value }}
  value: {{ . | quote }}
  {{- end }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* What tells a run from another, as JSON: its name, its place, where it starts. */}}
{{- define "ray-train-dlc.runEnv" -}}
{{- $values := .root.Values -}}
{{- $env := dict "RTD_RUN_PATH" (include "ray-train-dlc.runPath" .) "RTD_STORAGE_KIND" $values.training.storage.kind -}}
{{- with .runName }}{{ $_ := set $env "RTD_RUN_NAME" . }}{{ end -}}
{{- with $values.job.resumeFrom }}{{ $_ := set $env "RTD_RESUME_FROM" . }}{{ end -}}
{{- range $name, $source := dict "RTD_MODEL" $values.training.model "RTD_DATA" $values.training.data -}}
{{- with $source.uri }}{{ $_ := set $env $name . }}{{ end -}}
{{- with $source.revision }}{{ $_ := set $env (printf "%s_REVISION" $name) . }}{{ end -}}
{{- end -}}
{{- toJson $env -}}
{{- end -}}

{{/*
Tokens of the hub for model and data, as JSON. HF_TOKEN is what the hub's library reads by itself; with two tokens it is the model's, and code
that loads the data takes the other by its name.
*/}}
{{- define "ray-train-dlc.tokenEnv" -}}
{{- $env := dict -}}
{{- range $source := list (list "RTD_DATA_TOKEN" .Values.training.data.secretRef) (list "RTD_MODEL_TOKEN" .Values.training.model.secretRef) -}}
{{- $ref := last $source -}}
{{- if $ref.name -}}
{{- range $name := list (first $source) "HF_TOKEN" -}}
{{- $_ := set $env $name (dict "secretKeyRef" (pick $ref "name" "key")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $env -}}
{{- end -}}

{{/*
Transport of a worker group when there is more than one node, as JSON. With EFA, NCCL_NET names the one network that NCCL may use: it
refuses to start on anything else, where it would fall back to TCP in silence. Without EFA, and on a single node, NCCL_NET would
make a working start fail, so it is not set.
*/}}
{{- define "ray-train-dlc.transportEnv" -}}
{{- $env := dict "NCCL_SOCKET_IFNAME" "eth0" -}}
{{- if gt (int64 .efa) 0 -}}
{{- $env = merge $env (dict
  "FI_PROVIDER" "efa"
  "NCCL_NET_PLUGIN" "ofi"
  "NCCL_NET" "Libfabric"
  "NCCL_DEBUG" "INFO"
  "NCCL_DEBUG_FILE" "/var/tmp/ray-train/nccl.%h.%p.log"
  "RTD_TRANSPORT_PROVIDER" "efa"
  "RTD_TRANSPORT_PROTOCOL" (.transport.protocol | default "")
  "RTD_TRANSPORT_INTERFACES" (int64 .efa | toString)
  "RTD_TRANSPORT_GDRDMA" (.transport.gdrdma | default false | toString)
) -}}
{{- end -}}
{{- toJson $env -}}
{{- end -}}

{{/*
Where the run's checkpoints and record are. An empty runName, for the content hash, leaves out what names the object
(namespace and name) and keeps what decides where the data is.
*/}}
{{- define "ray-train-dlc.runPath" -}}
{{- $storage := .root.Values.training.storage -}}
{{- if eq $storage.kind "s3" -}}
{{- trimSuffix "/" $storage.uri -}}
{{- else if eq $storage.kind "none" -}}
/var/tmp/ray-train/runs
{{- else -}}
/mnt/ray-train
{{- end -}}
/{{ include "ray-train-dlc.cluster" .root }}
{{- with .runName }}/{{ $.root.Release.Namespace }}/{{ . }}{{ end -}}
{{- end -}}
