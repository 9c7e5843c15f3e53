{{/* Rules of _requirements.tpl: the Service of the head, which the operator makes and adds Ray's ports to, and the NetworkPolicy. */}}

{{- define "ray-train-dlc.check.network" -}}
{{- $head := .Values.head -}}
{{- $spec := dig "spec" dict $head.service -}}
{{- if ne .Values.mode "jobOnCluster" }}
{{- include "ray-train-dlc.check.network.type" (dict "spec" $spec "type" ($spec.type | default $head.serviceType | default "ClusterIP")) }}
{{- include "ray-train-dlc.check.network.ports" (dict "ports" $spec.ports "own" (include "ray-train-dlc.headFields" . | fromJson).ports) }}
{{- end }}
{{- include "ray-train-dlc.check.network.ranges" (dict "at" "head.service.spec.loadBalancerSourceRanges" "value" $spec.loadBalancerSourceRanges) }}
{{- $policy := .Values.networkPolicy }}
{{- if and $policy.extraIngress (not $policy.enabled) }}
ERROR: networkPolicy.extraIngress: without effect, as networkPolicy.enabled is false; set it to true, or remove these rules
{{- end }}
{{- if and $policy.extraEgress (not (and $policy.enabled $policy.limitEgress)) }}
ERROR: networkPolicy.extraEgress: without effect, as nothing limits where the pods reach; set networkPolicy.enabled and limitEgress to true, or remove these rules
{{- end }}
{{- range $side, $rules := dict "extraIngress.%d.from" $policy.extraIngress "extraEgress.%d.to" $policy.extraEgress }}
{{- range $i, $rule := $rules }}
{{- $at := printf (printf "networkPolicy.%s" $side) $i }}
{{- range $n, $peer := get $rule (splitList "." $side | last) | default list }}
{{- with $peer.ipBlock }}
{{- include "ray-train-dlc.check.network.ranges" (dict "at" (printf "%s.%d.ipBlock" $at $n) "value" (prepend (.except | default list) .cidr) "within" .cidr) }}
{{- end }}
{{- end }}
{{- range $rule.ports }}
{{- if and .endPort (or (not (regexMatch "^[0-9]+$" (.port | default "" | toString))) (lt (int64 .endPort) (int64 .port))) }}
ERROR: {{ $at | trimSuffix ".from" | trimSuffix ".to" }}.ports: endPort {{ .endPort }} after port {{ toJson .port }}; give the lowest port as a number, and as endPort one that is not below it
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Fields of some types of Services only: dict "spec" {…} "type" "ClusterIP". */}}
{{- define "ray-train-dlc.check.network.type" -}}
{{- $spec := .spec -}}
{{- $balanced := eq .type "LoadBalancer" -}}
{{- $outside := ne .type "ClusterIP" -}}
{{- $local := eq ($spec.externalTrafficPolicy | default "") "Local" -}}
{{- if not $balanced }}
{{- with pick $spec "allocateLoadBalancerNodePorts" "loadBalancerClass" "loadBalancerIP" "loadBalancerSourceRanges" }}
ERROR: head.service.spec: {{ keys . | sortAlpha | join ", " }} for type LoadBalancer only, and it is {{ $.type }}; set head.serviceType, or remove this
{{- end }}
{{- end }}
{{- if and $spec.healthCheckNodePort (not (and $balanced $local)) }}
ERROR: head.service.spec: healthCheckNodePort for type LoadBalancer with externalTrafficPolicy Local only; set these, or remove it
{{- end }}
{{- if and $spec.externalTrafficPolicy (not (or $outside $spec.externalIPs)) }}
ERROR: head.service.spec: externalTrafficPolicy of a Service that nothing outside reaches (type {{ .type }}); set head.serviceType, or remove it
{{- end }}
{{- if and $outside (eq ($spec.clusterIP | default "") "None") }}
ERROR: head.service.spec: clusterIP None with type {{ .type }}, which needs an address; remove one of them
{{- end }}
{{- range $spec.ports }}
{{- if and .nodePort (not $outside) }}
ERROR: head.service.spec.ports: {{ .name }} has a nodePort, and the type is {{ $.type }}; set head.serviceType to NodePort or LoadBalancer, or remove it
{{- end }}
{{- end }}
{{- if and $spec.sessionAffinityConfig (ne ($spec.sessionAffinity | default "") "ClientIP") }}
ERROR: head.service.spec: sessionAffinityConfig without sessionAffinity ClientIP; set it, or remove this
{{- end }}
{{- range $spec.externalIPs }}
{{- if regexMatch "^(127\\.|169\\.254\\.|0\\.0\\.0\\.0|22[4-9]\\.|23[0-9]\\.|::1?$|(?i:fe[89ab].:|ff))" . }}
ERROR: head.service.spec.externalIPs: {{ . }} is no address that others could reach; remove it
{{- end }}
{{- end }}
{{- end -}}

{{/*
The operator appends a port for each of the head's container, all of them TCP and by their names, and the API server takes each name
and each number once: dict "ports" […] "own" […], those of the Service and of the container.
*/}}
{{- define "ray-train-dlc.check.network.ports" -}}
{{- $names := include "ray-train-dlc.rayPorts" "head" | fromJson -}}
{{- range .own }}{{ $_ := set $names (.name | default (printf "%d-port" (int64 .containerPort))) (int64 .containerPort) }}{{ end -}}
{{- $numbers := dict -}}
{{- range $name, $number := $names }}{{ $_ := set $numbers (toString $number) $name }}{{ end -}}
{{- $seen := dict -}}
{{- range .ports }}
{{- $port := printf "%d/%s" (int64 .port) (.protocol | default "TCP") }}
{{- if hasKey $names .name }}
ERROR: head.service.spec.ports: {{ .name }} ({{ get $names .name }}) is there already, as the operator adds the ports of the head; remove it, or use another name
{{- else if hasKey $numbers (trimSuffix "/TCP" $port) }}
ERROR: head.service.spec.ports: {{ .name }} has the number of {{ get $numbers (trimSuffix "/TCP" $port) }}, which the operator adds; remove it, or use another number
{{- else if or (hasKey $seen .name) (hasKey $seen $port) }}
ERROR: head.service.spec.ports: {{ .name }} ({{ $port }}) has the name or the number of another; use others
{{- end }}
{{- with .nodePort }}
{{- $node := printf "nodePort %d/%s" (int64 .) (trimPrefix "/" (splitList "/" $port | last)) }}
{{- if hasKey $seen $node }}
ERROR: head.service.spec.ports: {{ $node }} is there twice; use another
{{- end }}
{{- $_ := set $seen $node true }}
{{- end }}
{{- $_ := set $seen .name true }}
{{- $_ := set $seen $port true }}
{{- end }}
{{- end -}}

{{/* Ranges of IPv4 addresses: dict "at" "…" "value" ["10.0.0.0/8", …]; "within": the range that all lie in. */}}
{{- define "ray-train-dlc.check.network.ranges" -}}
{{- $outer := dict -}}
{{- with .within }}{{ $outer = include "ray-train-dlc.check.network.range" . | fromJson }}{{ end -}}
{{- range .value }}
{{- $range := include "ray-train-dlc.check.network.range" . | fromJson }}
{{- if $range }}
{{- if ne (toString $range.right) . }}
ERROR: {{ $.at }}: {{ . }} has digits beyond its first {{ splitList "/" . | last }} bits; write {{ $range.right }}
{{- end }}
{{- if and $outer (ne . $.within) (or (lt $range.first $outer.first) (gt $range.last $outer.last)) }}
ERROR: {{ $.at }}: except {{ . }} is outside {{ $.within }}; remove it
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* First and last address of a range of IPv4 addresses as numbers, and how it is written, as JSON; {} of anything else. */}}
{{- define "ray-train-dlc.check.network.range" -}}
{{- if regexMatch "^[0-9.]+/[0-9]+$" . -}}
{{- $octets := splitList "/" . | first | splitList "." -}}
{{- $bits := splitList "/" . | last -}}
{{- $address := 0 -}}
{{- range $octets }}{{ $address = add (mul $address 256) (int64 .) }}{{ end -}}
{{- $size := 1 -}}
{{- range until (sub 32 (int $bits) | int) }}{{ $size = mul $size 2 }}{{ end -}}
{{- $first := sub $address (mod $address $size) -}}
{{- $right := printf "%d.%d.%d.%d/%s" (div $first 16777216) (mod (div $first 65536) 256) (mod (div $first 256) 256) (mod $first 256) $bits -}}
{{- dict "first" $first "last" (sub (add $first $size) 1) "right" $right | toJson -}}
{{- else -}}
{}
{{- end -}}
{{- end -}}
