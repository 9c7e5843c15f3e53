{{/*
Pod template of the head, of a worker group or of the submitter: dict "root" $ "runName" "…" "role" "head|worker|submitter" "fields" {…},
with the fields of `common` among them.

KubeRay adds the `ray start` command, ports for metrics, probes, and a /dev/shm of the size of the memory limit; so there is no command
here unless one is given, which it would run before, and no volume at /dev/shm. There is no preStop hook: `ray stop` would end the ranks
before their checkpoint.
*/}}
{{- define "ray-train-dlc.podTemplate" -}}
metadata:
  labels:
    {{- include "ray-train-dlc.podLabels" . | nindent 4 }}
  {{- with include "ray-train-dlc.stringMap" .fields.annotations }}
  annotations:
    {{- . | nindent 4 }}
  {{- end }}
spec:
  {{- $container := include "ray-train-dlc.container" . | fromYaml }}
  {{- $sidecars := include "ray-train-dlc.containers" .fields.sidecarContainers | fromJsonArray }}
  {{- $containers := concat (list (merge $container (.fields.extraContainer | default dict))) $sidecars }}
  {{- $spec := merge (include "ray-train-dlc.podSpec" . | fromYaml) (dict "containers" $containers) (.fields.extraPodSpec | default dict) }}
  {{- include "ray-train-dlc.yaml" $spec | nindent 2 }}
{{- end -}}

{{/* Given containers with the empty `resources` that the operator would write back, as JSON. */}}
{{- define "ray-train-dlc.containers" -}}
{{- $containers := list -}}
{{- range . -}}
{{- $containers = append $containers (merge (deepCopy .) (dict "resources" dict)) -}}
{{- end -}}
{{- toJson $containers -}}
{{- end -}}

{{/* Spec of the pod but for its containers. */}}
{{- define "ray-train-dlc.podSpec" -}}
{{- $fields := .fields -}}
serviceAccountName: {{ $fields.serviceAccountName | default (include "ray-train-dlc.serviceAccountName" .root) | quote }}
automountServiceAccountToken: {{ include "ray-train-dlc.automount" . }}
{{- /* Variables for every Service of the namespace: RAY_… ones of a Service named ray-… would change Ray's own configuration. */}}
enableServiceLinks: false
restartPolicy: {{ $fields.restartPolicy | default "Never" }}
terminationGracePeriodSeconds: {{ toJson $fields.terminationGracePeriodSeconds }}
securityContext:
  {{- include "ray-train-dlc.podSecurityContext" . | fromJson | toYaml | nindent 2 }}
{{- with include "ray-train-dlc.stringMap" $fields.nodeSelector }}
nodeSelector:
  {{- . | nindent 2 }}
{{- end }}
{{- with include "ray-train-dlc.affinity" . | fromJson }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- range $key := list "tolerations" "topologySpreadConstraints" "imagePullSecrets" "hostAliases" "dnsConfig" "resourceClaims" }}
{{- with get $fields $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- range $key := list "priorityClassName" "runtimeClassName" "schedulerName" "dnsPolicy" }}
{{- with get $fields $key }}
{{ $key }}: {{ . | quote }}
{{- end }}
{{- end }}
{{- with concat (include "ray-train-dlc.codeInitContainers" . | fromYamlArray) (include "ray-train-dlc.containers" $fields.initContainers | fromJsonArray) }}
initContainers:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "ray-train-dlc.allVolumes" . | fromJsonArray }}
volumes:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The Ray container, or the one that submits. */}}
{{- define "ray-train-dlc.container" -}}
{{- $fields := .fields -}}
name: {{ eq .role "submitter" | ternary "ray-job-submitter" (printf "ray-%s" .role) }}
image: {{ include "ray-train-dlc.podImage" . | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  {{- include "ray-train-dlc.securityContext" . | fromJson | toYaml | nindent 2 }}
resources:
  {{- include "ray-train-dlc.resources" (pick $fields "resources" "extraResources" "gpus" "efa") | nindent 2 }}
{{- with include "ray-train-dlc.ports" . | fromJsonArray }}
ports:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "ray-train-dlc.env" . | trim }}
env:
  {{- . | nindent 2 }}
{{- end }}
{{- range $key := list "envFrom" "command" "args" "lifecycle" "livenessProbe" "readinessProbe" "startupProbe" }}
{{- with get $fields $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with concat (include "ray-train-dlc.volumeMounts" . | fromYamlArray) ($fields.volumeMounts | default list) }}
volumeMounts:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Ray's autoscaler, which runs beside the head, is the one part that calls the Kubernetes API. */}}
{{- define "ray-train-dlc.automount" -}}
{{- $given := .fields.automountServiceAccountToken -}}
{{- if kindIs "invalid" $given -}}
{{- and (eq .role "head") .root.Values.cluster.autoscaling.enabled -}}
{{- else -}}
{{- $given -}}
{{- end -}}
{{- end -}}

{{/* As JSON. */}}
{{- define "ray-train-dlc.podSecurityContext" -}}
{{- $own := dict "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- if eq .root.Values.podSecurity "restricted" -}}
{{- /* The group owns the volumes that Kubernetes makes; the user and the group are those of rayproject's images. */ -}}
{{- $own = merge $own (dict "runAsNonRoot" true "runAsUser" 1000 "runAsGroup" 100 "fsGroup" 100 "fsGroupChangePolicy" "OnRootMismatch") -}}
{{- end -}}
{{- include "ray-train-dlc.overlay" (list $own (.fields.podSecurityContext | default dict)) | fromJson | include "ray-train-dlc.pruned" | fromJsonArray | first | toJson -}}
{{- end -}}

{{/* As JSON. The image runs as root; root without the three capabilities could not write to volumes that belong to others. */}}
{{- define "ray-train-dlc.securityContext" -}}
{{- $capabilities := dict "drop" (list "ALL") -}}
{{- if ne .root.Values.podSecurity "restricted" -}}
{{- $_ := set $capabilities "add" (list "CHOWN" "DAC_OVERRIDE" "FOWNER") -}}
{{- end -}}
{{- $own := dict "allowPrivilegeEscalation" false "capabilities" $capabilities -}}
{{- $given := .fields.securityContext | default dict -}}
{{- /* Kubernetes refuses a privileged container that may not gain privileges. */ -}}
{{- if $given.privileged }}{{ $own = dict }}{{ end -}}
{{- include "ray-train-dlc.overlay" (list $own $given) | fromJson | include "ray-train-dlc.pruned" | fromJsonArray | first | toJson -}}
{{- end -}}

{{/*
Affinity, as JSON: the given one and, for workers, one worker on each node (workers of the release's next job wait until those of the last
one have left) and `placement`.
*/}}
{{- define "ray-train-dlc.affinity" -}}
{{- $affinity := include "ray-train-dlc.pruned" (.fields.affinity | default dict) | fromJsonArray | first -}}
{{- if eq .role "worker" -}}
{{- $workers := include "ray-train-dlc.releaseSelector" .root | fromYaml | merge (dict "ray-train-dlc/role" "worker") -}}
{{- $rule := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" $workers) -}}
{{- $required := "requiredDuringSchedulingIgnoredDuringExecution" -}}
{{- $apart := get $affinity "podAntiAffinity" | default dict -}}
{{- $_ := set $apart $required (prepend (get $apart $required | default list) $rule) -}}
{{- $_ := set $affinity "podAntiAffinity" $apart -}}
{{- with .root.Values.placement.topologyKey -}}
{{- $own := merge (dict "ray-train-dlc/run" $.runName) $workers -}}
{{- $near := dict "topologyKey" . "labelSelector" (dict "matchLabels" $own) -}}
{{- $together := get $affinity "podAffinity" | default dict -}}
{{- if $.root.Values.placement.required -}}
{{- $_ := set $together $required (prepend (get $together $required | default list) $near) -}}
{{- else -}}
{{- $preferred := "preferredDuringSchedulingIgnoredDuringExecution" -}}
{{- $_ := set $together $preferred (prepend (get $together $preferred | default list) (dict "weight" 100 "podAffinityTerm" $near)) -}}
{{- end -}}
{{- $_ := set $affinity "podAffinity" $together -}}
{{- end -}}
{{- end -}}
{{- toJson $affinity -}}
{{- end -}}

{{/* Ports that Ray listens on in a pod of this role, as JSON: name to number. */}}
{{- define "ray-train-dlc.rayPorts" -}}
{{- $ports := dict "metrics" 8080 -}}
{{- if eq . "head" }}{{ $ports = merge $ports (dict "gcs-server" 6379 "dashboard" 8265 "client" 10001) }}{{ end -}}
{{- toJson $ports -}}
{{- end -}}

{{/* Ports of the container, as JSON; the operator adds the one for metrics. A given one takes the place of ours with the same name. */}}
{{- define "ray-train-dlc.ports" -}}
{{- $ports := list -}}
{{- $given := list -}}
{{- range .fields.ports -}}{{- $given = append $given (.name | default "") -}}{{- end -}}
{{- if eq .role "head" -}}
{{- range $name, $port := omit (include "ray-train-dlc.rayPorts" .role | fromJson) "metrics" -}}
{{- if not (has $name $given) -}}
{{- $ports = append $ports (dict "name" $name "containerPort" $port) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- concat $ports (.fields.ports | default list) | toJson -}}
{{- end -}}
