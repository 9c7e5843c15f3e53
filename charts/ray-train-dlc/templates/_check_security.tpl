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
{{- $contexts := list (dict "from" (merge (dict "field" "securityContext") $pod) "context" (include "ray-train-dlc.securityContext" (dict "root" $root "fields" $fields) | fromJson) "ports" $fields.ports "portsKey" (include "ray-train-dlc.check.from" (merge (dict "field" "ports") $pod))) -}}
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
{{- include "ray-train-dlc.check.security.line" (list $level (include "ray-train-dlc.check.from" (merge (dict "field" "extraPodSpec" "key" $key) $)) $key) -}}
{{- end -}}
{{- end -}}
{{- $from := merge (dict "field" "podSecurityContext") . -}}
{{- $context := include "ray-train-dlc.podSecurityContext" . | fromJson -}}
{{- include "ray-train-dlc.check.security.context" (dict "level" $level "from" $from "context" $context) -}}
{{- if eq $level "restricted" -}}
{{- range $name, $right := dict "runAsNonRoot" "runAsNonRoot: true" "seccompProfile" "seccompProfile: {type: RuntimeDefault}" -}}
{{- if not (hasKey $context $name) }}
{{- /* Of nulls only the values as they are given tell whose they are. */}}
ERROR: {{ hasKey ($.root.Values.common.podSecurityContext | default dict) $name | ternary "common" $.place }}.podSecurityContext: {{ $right }} is taken away, without which podSecurity restricted admits no pod; remove the null
{{- end -}}
{{- end -}}
{{- end -}}
{{- range dig "sysctls" list $context -}}
{{- if not (has .name (list "kernel.shm_rmid_forced" "net.ipv4.ip_local_port_range" "net.ipv4.ip_local_reserved_ports" "net.ipv4.ip_unprivileged_port_start" "net.ipv4.ping_group_range" "net.ipv4.tcp_fin_timeout" "net.ipv4.tcp_keepalive_intvl" "net.ipv4.tcp_keepalive_probes" "net.ipv4.tcp_keepalive_time" "net.ipv4.tcp_rmem" "net.ipv4.tcp_syncookies" "net.ipv4.tcp_wmem")) -}}
{{- include "ray-train-dlc.check.security.line" (list $level (include "ray-train-dlc.check.from" (merge (dict "key" "sysctls") $from)) (printf "the sysctl %s" .name)) -}}
{{- end -}}
{{- end -}}
{{- range $field := list "initContainers" "lifecycle" "livenessProbe" "readinessProbe" "sidecarContainers" "startupProbe" -}}
{{- $at := include "ray-train-dlc.check.from" (merge (dict "field" $field) $) -}}
{{- include "ray-train-dlc.check.security.hosts" (dict "level" $level "at" $at "value" (get $fields $field)) -}}
{{- end -}}
{{- if eq $level "restricted" -}}
{{- range $fields.volumes -}}
{{- $kind := omit . "name" | keys | first -}}
{{- if not (has $kind (list "configMap" "csi" "downwardAPI" "emptyDir" "ephemeral" "hostPath" "image" "persistentVolumeClaim" "projected" "secret")) -}}
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

{{/* The place of a field of a security context: dict "key" "…", or "from" with what "ray-train-dlc.check.from" takes, and "name" "runAsUser". */}}
{{- define "ray-train-dlc.check.security.at" -}}
{{- if .from }}{{ include "ray-train-dlc.check.from" (merge (dict "key" .name) .from) }}{{ else }}{{ .key }}{{ end -}}
{{- end -}}

{{/* What holds for the security context of a pod and of a container: dict "level" "…" "context" {…} "key" "…", or "from" {…}. */}}
{{- define "ray-train-dlc.check.security.context" -}}
{{- $context := .context -}}
{{- $wrong := dict -}}
{{- if eq (dig "seccompProfile" "type" "" $context) "Unconfined" }}{{ $_ := set $wrong "seccompProfile" "seccompProfile Unconfined" }}{{ end -}}
{{- if eq (dig "appArmorProfile" "type" "" $context) "Unconfined" }}{{ $_ := set $wrong "appArmorProfile" "appArmorProfile Unconfined" }}{{ end -}}
{{- with $context.seLinuxOptions -}}
{{- if or .user .role (not (has (.type | default "") (list "" "container_t" "container_init_t" "container_kvm_t" "container_engine_t"))) }}{{ $_ := set $wrong "seLinuxOptions" "seLinuxOptions" }}{{ end -}}
{{- end -}}
{{- if eq .level "restricted" -}}
{{- if and (hasKey $context "runAsUser") (eq (int64 $context.runAsUser) 0) }}{{ $_ := set $wrong "runAsUser" "runAsUser 0" }}{{ end -}}
{{- if and (hasKey $context "runAsNonRoot") (not $context.runAsNonRoot) }}{{ $_ := set $wrong "runAsNonRoot" "runAsNonRoot false" }}{{ end -}}
{{- end -}}
{{- range $name, $what := $wrong -}}
{{- include "ray-train-dlc.check.security.line" (list $.level (include "ray-train-dlc.check.security.at" (merge (dict "name" $name) $)) $what) -}}
{{- end -}}
{{- end -}}

{{/* dict "level" "…" "context" {…} "key" "…", or "from" {…}, "ports" […] "portsKey" "…". */}}
{{- define "ray-train-dlc.check.security.container" -}}
{{- include "ray-train-dlc.check.security.context" . -}}
{{- $context := .context -}}
{{- $wrong := list -}}
{{- if $context.privileged }}{{ $wrong = append $wrong (list "privileged" "privileged") }}{{ end -}}
{{- if ne ($context.procMount | default "Default") "Default" }}{{ $wrong = append $wrong (list "procMount" "procMount") }}{{ end -}}
{{- range .ports }}
{{- if .hostPort }}{{ include "ray-train-dlc.check.security.line" (list $.level $.portsKey (printf "hostPort %d" (int64 .hostPort))) }}{{ end }}
{{- end }}
{{- $allowed := eq .level "restricted" | ternary (list "NET_BIND_SERVICE") (list "AUDIT_WRITE" "CHOWN" "DAC_OVERRIDE" "FOWNER" "FSETID" "KILL" "MKNOD" "NET_BIND_SERVICE" "SETFCAP" "SETGID" "SETPCAP" "SETUID" "SYS_CHROOT") -}}
{{- range dig "capabilities" "add" list $context }}{{ if not (has . $allowed) }}{{ $wrong = append $wrong (list "capabilities" (printf "the capability %s" .)) }}{{ end }}{{ end -}}
{{- if eq .level "restricted" -}}
{{- $missing := dict -}}
{{- if ne (toJson $context.allowPrivilegeEscalation) "false" }}{{ $_ := set $missing "allowPrivilegeEscalation" "allowPrivilegeEscalation: false" }}{{ end -}}
{{- if not (has "ALL" (dig "capabilities" "drop" list $context)) }}{{ $_ := set $missing "capabilities" "capabilities: {drop: [ALL]}" }}{{ end -}}
{{- $places := dict -}}
{{- range $name, $what := $missing -}}
{{- $at := include "ray-train-dlc.check.security.at" (merge (dict "name" $name) $) -}}
{{- $_ := set $places $at (append (get $places $at | default list) $what) -}}
{{- end -}}
{{- range $at, $what := $places }}
ERROR: {{ $at }}: {{ join " and " $what }} is missing, without which podSecurity restricted admits no container; set it
{{- end }}
{{- end -}}
{{- range $wrong -}}
{{- include "ray-train-dlc.check.security.line" (list $.level (include "ray-train-dlc.check.security.at" (merge (dict "name" (first .)) $)) (last .)) -}}
{{- end -}}
{{- end -}}
