{{/*
Rules of _requirements.tpl: the Pod Security Standard of `podSecurity`, of which a namespace that enforces it would refuse the pods.
https://kubernetes.io/docs/concepts/security/pod-security-standards/
*/}}

{{- define "ray-train-dlc.check.security" -}}
{{- $root := . -}}
{{- $level := .Values.podSecurity -}}
{{- $lines := list -}}
{{- if ne $level "privileged" -}}
{{- $places := include "ray-train-dlc.places" . | fromJson -}}
{{- range $place, $fields := include "ray-train-dlc.pods" . | fromJson -}}
{{- $own := get $places $place -}}
{{- $pod := dict "root" $root "level" $level "place" $place "own" $own "fields" $fields -}}
{{- $lines = concat $lines (include "ray-train-dlc.check.security.pod" $pod | splitList "\n") -}}
{{- $contexts := list (dict "key" (include "ray-train-dlc.check.from" (merge (dict "field" "securityContext") $pod)) "context" (include "ray-train-dlc.securityContext" (dict "root" $root "fields" $fields) | fromJson) "ports" $fields.ports "portsKey" (include "ray-train-dlc.check.from" (merge (dict "field" "ports") $pod))) -}}
{{- range $field := list "sidecarContainers" "initContainers" -}}
{{- range $container := (get $fields $field | default list) -}}
{{- $key := include "ray-train-dlc.check.from" (merge (dict "field" $field) $pod) -}}
{{- $contexts = append $contexts (dict "key" (printf "%s: securityContext of %s" $key $container.name) "context" ($container.securityContext | default dict) "ports" $container.ports "portsKey" (printf "%s: ports of %s" $key $container.name)) -}}
{{- end -}}
{{- end -}}
{{- range $contexts -}}
{{- $lines = concat $lines (include "ray-train-dlc.check.security.container" (merge (dict "level" $level) .) | splitList "\n") -}}
{{- end -}}
{{- end -}}
{{- $lines = concat $lines (include "ray-train-dlc.check.security.autoscaler" . | splitList "\n") -}}
{{- end -}}
{{- compact $lines | uniq | join "\n" -}}
{{- end -}}

{{- define "ray-train-dlc.check.security.autoscaler" -}}
{{- $scaling := .Values.cluster.autoscaling -}}
{{- $given := get $scaling.options "securityContext" | default dict }}
{{- if and $scaling.enabled $given }}
{{- include "ray-train-dlc.check.security.container" (dict "level" .Values.podSecurity "key" "cluster.autoscaling.options.securityContext" "context" $given "ports" list "portsKey" "") }}
{{- end }}
{{- end -}}

{{/* One line of a rule: list level key what. */}}
{{- define "ray-train-dlc.check.security.line" -}}
{{- $level := first . }}
ERROR: {{ index . 1 }}: {{ index . 2 }} is not admitted under podSecurity {{ $level }}; remove it, or set podSecurity to {{ eq $level "restricted" | ternary "baseline or privileged" "privileged" }}
{{- end -}}

{{- define "ray-train-dlc.check.security.pod" -}}
{{- $level := .level -}}
{{- $fields := .fields -}}
{{- $spec := $fields.extraPodSpec | default dict -}}
{{- range $key := list "hostIPC" "hostNetwork" "hostPID" -}}
{{- if get $spec $key -}}
{{- include "ray-train-dlc.check.security.line" (list $level (include "ray-train-dlc.check.from" (merge (dict "field" "extraPodSpec") $)) $key) -}}
{{- end -}}
{{- end -}}
{{- $key := include "ray-train-dlc.check.from" (merge (dict "field" "podSecurityContext") .) -}}
{{- include "ray-train-dlc.check.security.context" (dict "level" $level "key" $key "context" (include "ray-train-dlc.podSecurityContext" . | fromJson)) -}}
{{- range dig "sysctls" list (include "ray-train-dlc.podSecurityContext" . | fromJson) -}}
{{- if not (has .name (list "kernel.shm_rmid_forced" "net.ipv4.ip_local_port_range" "net.ipv4.ip_local_reserved_ports" "net.ipv4.ip_unprivileged_port_start" "net.ipv4.ping_group_range" "net.ipv4.tcp_fin_timeout" "net.ipv4.tcp_keepalive_intvl" "net.ipv4.tcp_keepalive_probes" "net.ipv4.tcp_keepalive_time" "net.ipv4.tcp_rmem" "net.ipv4.tcp_syncookies" "net.ipv4.tcp_wmem")) -}}
{{- include "ray-train-dlc.check.security.line" (list $level $key (printf "the sysctl %s" .name)) -}}
{{- end -}}
{{- end -}}
{{- range $name, $value := $fields.annotations -}}
{{- if and (hasPrefix "container.apparmor.security.beta.kubernetes.io/" $name) (not (regexMatch "^(runtime/default|localhost/.*)?$" $value)) -}}
{{- include "ray-train-dlc.check.security.line" (list $level (include "ray-train-dlc.check.from" (merge (dict "field" "annotations") $)) (printf "%s: %s" $name $value)) -}}
{{- end -}}
{{- end -}}
{{- range $field := list "initContainers" "lifecycle" "livenessProbe" "readinessProbe" "sidecarContainers" "startupProbe" -}}
{{- $at := include "ray-train-dlc.check.from" (merge (dict "field" $field) $) -}}
{{- include "ray-train-dlc.check.security.hosts" (dict "level" $level "at" $at "value" (get $fields $field)) -}}
{{- end -}}
{{- if eq $level "restricted" -}}
{{- range $fields.volumes -}}
{{- $kind := omit . "name" | keys | first -}}
{{- if not (has $kind (list "configMap" "csi" "downwardAPI" "emptyDir" "ephemeral" "hostPath" "persistentVolumeClaim" "projected" "secret")) -}}
{{- include "ray-train-dlc.check.security.line" (list $level (include "ray-train-dlc.check.from" (merge (dict "field" "volumes") $)) (printf "%s, a volume of kind %s," .name $kind)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Probes and hooks that reach for another host than the pod: dict "level" "…" "at" "…" "value" {…}. */}}
{{- define "ray-train-dlc.check.security.hosts" -}}
{{- $given := . -}}
{{- if kindIs "map" .value -}}
{{- range $key, $item := .value -}}
{{- if and (has $key (list "httpGet" "tcpSocket")) (kindIs "map" $item) -}}
{{- with $item.host }}{{ include "ray-train-dlc.check.security.line" (list $given.level (printf "%s.%s" $given.at $key) (printf "host %s" .)) }}{{ end -}}
{{- else -}}
{{- include "ray-train-dlc.check.security.hosts" (dict "level" $given.level "at" (printf "%s.%s" $given.at $key) "value" $item) -}}
{{- end -}}
{{- end -}}
{{- else if kindIs "slice" .value -}}
{{- range $i, $item := .value -}}
{{- include "ray-train-dlc.check.security.hosts" (dict "level" $given.level "at" (printf "%s.%d" $given.at $i) "value" $item) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What holds for the security context of a pod and of a container: dict "level" "…" "key" "…" "context" {…}. */}}
{{- define "ray-train-dlc.check.security.context" -}}
{{- $context := .context -}}
{{- $level := .level -}}
{{- $wrong := list -}}
{{- if eq (dig "seccompProfile" "type" "" $context) "Unconfined" }}{{ $wrong = append $wrong "seccompProfile Unconfined" }}{{ end -}}
{{- if eq (dig "appArmorProfile" "type" "" $context) "Unconfined" }}{{ $wrong = append $wrong "appArmorProfile Unconfined" }}{{ end -}}
{{- if dig "windowsOptions" "hostProcess" false $context }}{{ $wrong = append $wrong "windowsOptions.hostProcess" }}{{ end -}}
{{- with $context.seLinuxOptions -}}
{{- if or .user .role (not (has (.type | default "") (list "" "container_t" "container_init_t" "container_kvm_t" "container_engine_t"))) }}{{ $wrong = append $wrong "seLinuxOptions" }}{{ end -}}
{{- end -}}
{{- if eq $level "restricted" -}}
{{- if and (hasKey $context "runAsUser") (eq (int64 $context.runAsUser) 0) }}{{ $wrong = append $wrong "runAsUser 0" }}{{ end -}}
{{- if and (hasKey $context "runAsNonRoot") (not $context.runAsNonRoot) }}{{ $wrong = append $wrong "runAsNonRoot false" }}{{ end -}}
{{- end -}}
{{- range $wrong }}{{ include "ray-train-dlc.check.security.line" (list $level $.key .) }}{{ end -}}
{{- end -}}

{{/* dict "level" "…" "key" "…" "context" {…} "ports" […] "portsKey" "…". */}}
{{- define "ray-train-dlc.check.security.container" -}}
{{- include "ray-train-dlc.check.security.context" . -}}
{{- $context := .context -}}
{{- $wrong := list -}}
{{- $added := dig "capabilities" "add" list $context -}}
{{- if $context.privileged }}{{ $wrong = append $wrong "privileged" }}{{ end -}}
{{- if not (has ($context.procMount | default "Default") (list "Default")) }}{{ $wrong = append $wrong "procMount" }}{{ end -}}
{{- range .ports }}
{{- if .hostPort }}{{ include "ray-train-dlc.check.security.line" (list $.level $.portsKey (printf "hostPort %d" (int64 .hostPort))) }}{{ end }}
{{- end }}
{{- $allowed := eq .level "restricted" | ternary (list "NET_BIND_SERVICE") (list "AUDIT_WRITE" "CHOWN" "DAC_OVERRIDE" "FOWNER" "FSETID" "KILL" "MKNOD" "NET_BIND_SERVICE" "SETFCAP" "SETGID" "SETPCAP" "SETUID" "SYS_CHROOT") -}}
{{- range $added }}{{ if not (has . $allowed) }}{{ $wrong = append $wrong (printf "the capability %s" .) }}{{ end }}{{ end -}}
{{- if eq .level "restricted" -}}
{{- $missing := list -}}
{{- if ne (toJson $context.allowPrivilegeEscalation) "false" }}{{ $missing = append $missing "allowPrivilegeEscalation: false" }}{{ end -}}
{{- if not (has "ALL" (dig "capabilities" "drop" list $context)) }}{{ $missing = append $missing "capabilities: {drop: [ALL]}" }}{{ end -}}
{{- with $missing }}
ERROR: {{ $.key }}: {{ join " and " . }} is missing, without which podSecurity restricted admits no container; set it
{{- end }}
{{- end -}}
{{- range $wrong }}{{ include "ray-train-dlc.check.security.line" (list $.level $.key .) }}{{ end -}}
{{- end -}}
