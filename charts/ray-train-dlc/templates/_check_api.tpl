{{/*
Rules of _requirements.tpl: what Kubernetes asks of a field and its neighbours, however deep in a pod (values.schema.json knows what it asks of one
field alone). The API server would refuse such a pod each time the operator makes it.
*/}}

{{- define "ray-train-dlc.check.api" -}}
{{- $places := include "ray-train-dlc.places" . | fromJson -}}
{{- $lines := list -}}
{{- range $place, $fields := include "ray-train-dlc.pods" . | fromJson -}}
{{- $spec := $fields.extraPodSpec | default dict -}}
{{- $pod := dict "claims" list "grace" (int64 $fields.terminationGracePeriodSeconds) "restartPolicy" ($fields.restartPolicy | default "Never") "hostNetwork" $spec.hostNetwork "hostUsers" (dig "hostUsers" true $spec) -}}
{{- range $fields.resourceClaims }}{{ $_ := set $pod "claims" (append $pod.claims .name) }}{{ end -}}
{{- range $field, $given := omit $fields "annotations" "extraResources" "labels" "nodeSelector" "rayLabels" "rayResources" "rayStartParams" "resources" -}}
{{- $value := include "ray-train-dlc.pruned" $given | fromJsonArray | first -}}
{{- $own := get $places $place -}}
{{- $lines = concat $lines (include "ray-train-dlc.check.walk" (dict "pod" $pod "place" $place "path" $field "mine" (not (empty (get $own $field))) "own" (get $own $field) "key" $field "value" $value) | splitList "\n") -}}
{{- end -}}
{{- end -}}
{{- $others := dict "head" (dict "service" .Values.head.service) "cluster" (dict "autoscaling.options" .Values.cluster.autoscaling.options "gcsFaultToleranceOptions" .Values.cluster.gcsFaultToleranceOptions) "networkPolicy" (pick .Values.networkPolicy "extraIngress" "extraEgress") -}}
{{- range $place, $fields := $others -}}
{{- range $path, $value := $fields -}}
{{- $lines = concat $lines (include "ray-train-dlc.check.walk" (dict "pod" dict "place" $place "path" $path "mine" true "own" $value "key" $path "value" $value) | splitList "\n") -}}
{{- end -}}
{{- end -}}
{{- /* What `common` has is seen once for each pod. */ -}}
{{- compact $lines | uniq | join "\n" -}}
{{- end -}}

{{/*
Every map and list below a value: dict "pod" {…} "place" "head" "path" "affinity" "key" "affinity" "value" {…}, "mine" and "own": whether and
what that place gives there itself; what it does not give is from `common`.
*/}}
{{- define "ray-train-dlc.check.walk" -}}
{{- $given := . -}}
{{- $_ := set . "at" (printf "%s.%s" (ternary .place "common" .mine) .path) -}}
{{- if kindIs "map" .value -}}
{{- include "ray-train-dlc.check.shape" . }}
{{- range $key, $item := .value }}
{{- $mine := and $given.mine (or (not (kindIs "map" $given.own)) (hasKey $given.own $key)) }}
{{- $own := $item }}
{{- if kindIs "map" $given.own }}{{ $own = get $given.own $key }}{{ end }}
{{ include "ray-train-dlc.check.walk" (dict "pod" $given.pod "place" $given.place "path" (printf "%s.%s" $given.path $key) "mine" $mine "own" $own "key" $key "value" $item) }}
{{- end }}
{{- else if kindIs "slice" .value -}}
{{- include "ray-train-dlc.check.unique" . }}
{{- range $i, $item := .value }}
{{ include "ray-train-dlc.check.walk" (dict "pod" $given.pod "place" $given.place "path" (printf "%s.%d" $given.path $i) "mine" $given.mine "own" $item "key" (printf "%s[]" $given.key) "value" $item) }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* Lists that Kubernetes reads as maps: each key once. Volumes, mounts, ports and containers of the pod are in _check_containers.tpl. */}}
{{- define "ray-train-dlc.check.unique" -}}
{{- $keys := dict "claims" (list "name") "env" (list "name") "hostAliases" (list "ip") "items" (list "path") "imagePullSecrets" (list "name") "resizePolicy" (list "resourceName") "resourceClaims" (list "name") "schedulingGates" (list "name") "sysctls" (list "name") "topologySpreadConstraints" (list "topologyKey" "whenUnsatisfiable") "volumeDevices" (list "devicePath") -}}
{{- if contains "ontainers" .at }}{{ $_ := set $keys "ports" (list "containerPort" "protocol") }}{{ end -}}
{{- with get $keys .key -}}
{{- $keys := . -}}
{{- $seen := list -}}
{{- range $.value -}}
{{- $item := merge (deepCopy .) (dict "protocol" "TCP") -}}
{{- $parts := list -}}
{{- range $keys }}{{ with get $item . }}{{ $parts = append $parts (include "ray-train-dlc.scalar" .) }}{{ end }}{{ end -}}
{{- $seen = append $seen (join " " $parts) -}}
{{- end -}}
{{- include "ray-train-dlc.check.twice" (dict "key" $.at "what" (eq $.key "ports" | ternary "the port" (join " and " $keys)) "values" $seen) -}}
{{- end -}}
{{- if and (eq .key "ports") (contains "ontainers" .at) }}
{{- $names := list }}{{ range .value }}{{ with .name }}{{ $names = append $names . }}{{ end }}{{ end }}
{{- include "ray-train-dlc.check.twice" (dict "key" .at "what" "the name" "values" $names) }}
{{- else if eq .key "sources" }}
{{- $paths := list }}
{{- range $source := .value }}
{{- range $kind := list "configMap" "downwardAPI" "secret" }}{{ range dig $kind "items" list $source }}{{ $paths = append $paths (clean .path) }}{{ end }}{{ end }}
{{- with dig "serviceAccountToken" "path" "" $source }}{{ $paths = append $paths (clean .) }}{{ end }}
{{- end }}
{{- include "ray-train-dlc.check.twice" (dict "key" .at "what" "the path" "values" $paths) }}
{{- else if and (eq .key "accessModes") (has "ReadWriteOncePod" .value) (gt (len .value) 1) }}
ERROR: {{ .at }}: ReadWriteOncePod next to another mode; give it alone
{{- end }}
{{- end -}}

{{- define "ray-train-dlc.check.shape" -}}
{{- $at := .at -}}
{{- $value := .value -}}
{{- if has .key (list "livenessProbe" "readinessProbe" "startupProbe") }}
{{- if and (or $value (contains "ontainers" .at)) (ne (len (pick $value "exec" "grpc" "httpGet" "tcpSocket")) 1) }}
ERROR: {{ $at }}: {{ toJson $value }} is without one way to probe; give exactly one of exec, grpc, httpGet, tcpSocket
{{- end }}
{{- if and (ne .key "readinessProbe") (ne (int64 ($value.successThreshold | default 1)) 1) }}
ERROR: {{ $at }}: successThreshold {{ $value.successThreshold }} is for a readinessProbe only; remove it
{{- else if and (eq .key "readinessProbe") (hasKey $value "terminationGracePeriodSeconds") }}
ERROR: {{ $at }}: terminationGracePeriodSeconds is for no readinessProbe, which ends nothing; remove it
{{- end }}
{{- else if has .key (list "postStart" "preStop") }}
{{- if ne (len (pick $value "exec" "httpGet" "sleep" "tcpSocket")) 1 }}
ERROR: {{ $at }}: {{ toJson $value }} is without one way to act; give exactly one of exec, httpGet, sleep, tcpSocket
{{- end }}
{{- if and .pod.grace (gt (dig "sleep" "seconds" 0 $value | int64) (int64 .pod.grace)) }}
ERROR: {{ $at }}: sleep.seconds {{ $value.sleep.seconds }} is above terminationGracePeriodSeconds ({{ .pod.grace }}); sleep less
{{- end }}
{{- else if eq .key "envFrom[]" }}
{{- $refs := list }}
{{- range $ref := list $value.configMapRef $value.secretRef }}{{ if kindIs "map" $ref }}{{ $refs = append $refs ($ref.name | default "") }}{{ end }}{{ end }}
{{- if or (ne (len $refs) 1) (has "" $refs) }}
ERROR: {{ $at }}: {{ toJson $value }} is not one source with a name; give configMapRef or secretRef, and its name
{{- end }}
{{- else if eq .key "env[]" }}
{{- if and (hasKey $value "valueFrom") (or $value.value (ne (len $value.valueFrom) 1)) }}
ERROR: {{ $at }}: {{ $value.name }} is not of one source; give `value`, or `valueFrom` with exactly one of secretKeyRef, configMapKeyRef, fieldRef, resourceFieldRef
{{- end }}
{{- else if has .key (list "secretKeyRef" "configMapKeyRef") }}
{{- if or (not $value.name) (not $value.key) }}
ERROR: {{ $at }}: {{ toJson $value }} is without name or key; give both
{{- end }}
{{- else if eq .key "fieldRef" }}
{{- $ofKey := "metadata\\.(labels|annotations)\\['([a-z0-9.-]+/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?'\\]" }}
{{- if contains ".downwardAPI." $at }}
{{- if not (regexMatch (printf "^(metadata\\.(name|namespace|uid|labels|annotations)|%s)$" $ofKey) $value.fieldPath) }}
ERROR: {{ $at }}: {{ toJson $value.fieldPath }} is no field that a file can show; use metadata.name, metadata.namespace, metadata.uid, metadata.labels or metadata.annotations, these two also with ['KEY']
{{- end }}
{{- else if not (regexMatch (printf "^(metadata\\.(name|namespace|uid)|%s|spec\\.(nodeName|serviceAccountName)|status\\.(hostIPs?|podIPs?))$" $ofKey) $value.fieldPath) }}
ERROR: {{ $at }}: {{ toJson $value.fieldPath }} is no field that a variable can show; use metadata.name, metadata.namespace, metadata.uid, metadata.labels['KEY'], metadata.annotations['KEY'], spec.nodeName, spec.serviceAccountName, status.hostIP or status.podIP
{{- end }}
{{- else if eq .key "resourceFieldRef" }}
{{- if and (contains ".downwardAPI." $at) (not $value.containerName) }}
ERROR: {{ $at }}: no containerName, and a file is of no one container; name it
{{- end }}
{{- $cpu := hasSuffix ".cpu" $value.resource }}
{{- if or (and $cpu (not (has $value.divisor (list "0" "1" "1m")))) (and (not $cpu) (eq $value.divisor "1m")) }}
ERROR: {{ $at }}: {{ toJson $value.divisor }} does not divide {{ $value.resource }}; use 1 or 1m for CPUs, and 1 or a unit such as 1Mi for all else
{{- end }}
{{- else if and (eq .key "items[]") (contains ".downwardAPI." $at) }}
{{- if ne (len (pick $value "fieldRef" "resourceFieldRef")) 1 }}
ERROR: {{ $at }}: {{ toJson $value }} does not have one content; give fieldRef or resourceFieldRef
{{- end }}
{{- else if eq .key "sources[]" }}
{{- if ne (len $value) 1 }}
ERROR: {{ $at }}: {{ keys $value | sortAlpha | join ", " }} in one source; give each kind a source of its own
{{- end }}
{{- else if eq .key "volumeClaimTemplate" }}
{{- with omit ($value.metadata | default dict) "annotations" "labels" }}
ERROR: {{ $at }}.metadata: {{ keys . | sortAlpha | join ", " }} would be Kubernetes' own choice; give labels and annotations only
{{- end }}
{{- range $kind, $quantities := $value.spec.resources | default dict }}
{{- with $quantities }}
{{- if and (hasKey . "storage") (eq (include "ray-train-dlc.amount" .storage | float64) 0.0) }}
ERROR: {{ $at }}.spec.resources.{{ $kind }}.storage: {{ toJson .storage }} is no size of a volume; set one such as 100Gi
{{- end }}
{{- end }}
{{- end }}
{{- else if eq .key "securityContext" }}
{{- if and $value.privileged (eq (toJson $value.allowPrivilegeEscalation) "false") }}
ERROR: {{ $at }}: privileged next to allowPrivilegeEscalation: false, which a privileged container cannot keep; remove one of them
{{- end }}
{{- range ($value.capabilities | default dict).add }}
{{- if hasPrefix "CAP_" . }}
ERROR: {{ $at }}: the capability {{ . }} has no prefix in Kubernetes; write {{ trimPrefix "CAP_" . }}
{{- end }}
{{- end }}
{{- if and $value.runAsNonRoot (hasKey $value "runAsUser") (eq (toJson $value.runAsUser) "0") }}
ERROR: {{ $at }}: runAsUser 0 is root, and with runAsNonRoot no container would start; remove one of them
{{- end }}
{{- if and (eq ($value.procMount | default "") "Unmasked") .pod.hostUsers }}
ERROR: {{ $at }}: procMount Unmasked on the users of the node; set extraPodSpec.hostUsers to false, or remove it
{{- end }}
{{- else if eq .key "extraPodSpec" }}
{{- if and $value.hostPID $value.shareProcessNamespace }}
ERROR: {{ $at }}: hostPID next to shareProcessNamespace; a pod has one list of processes, so remove one of them
{{- end }}
{{- if and $value.nodeName $value.schedulingGates }}
ERROR: {{ $at }}: nodeName next to schedulingGates, which hold a pod back before it has a node; remove one of them
{{- end }}
{{- if and $value.hostnameOverride (or $value.hostNetwork $value.setHostnameAsFQDN) }}
ERROR: {{ $at }}: hostnameOverride next to hostNetwork or setHostnameAsFQDN, which set another name; remove one of them
{{- end }}
{{- if and (not .pod.hostUsers) (or $value.hostIPC $value.hostNetwork $value.hostPID) }}
ERROR: {{ $at }}: hostUsers: false next to hostIPC, hostNetwork or hostPID, which need the users of the node; remove one of them
{{- end }}
{{- else if eq .key "resizePolicy[]" }}
{{- if and (eq ($value.restartPolicy | default "") "RestartContainer") (eq (.pod.restartPolicy | default "") "Never") }}
ERROR: {{ $at }}: RestartContainer in a pod that restarts nothing (restartPolicy Never); use NotRequired
{{- end }}
{{- else if eq .key "ports[]" }}
{{- if and .pod.hostNetwork $value.hostPort (ne (int64 $value.hostPort) (int64 $value.containerPort)) }}
ERROR: {{ $at }}: hostPort {{ $value.hostPort }} is another than containerPort {{ $value.containerPort }}, and on the network of the node they are one; remove hostPort
{{- end }}
{{- else if has .key (list "seccompProfile" "appArmorProfile") }}
{{- if ne (eq ($value.type | default "") "Localhost") (not (empty $value.localhostProfile)) }}
ERROR: {{ $at }}: {{ toJson $value }} is not right; type Localhost, and only it, goes with a localhostProfile
{{- end }}
{{- else if eq .key "volumeMounts[]" }}
{{- if and $value.subPath $value.subPathExpr }}
ERROR: {{ $at }}: subPath next to subPathExpr; give one of them
{{- end }}
{{- if and (has ($value.recursiveReadOnly | default "Disabled") (list "IfPossible" "Enabled")) (not $value.readOnly) }}
ERROR: {{ $at }}: recursiveReadOnly without readOnly; set readOnly: true too
{{- end }}
{{- else if eq .key "resourceClaims[]" }}
{{- if ne (len (pick $value "resourceClaimName" "resourceClaimTemplateName")) 1 }}
ERROR: {{ $at }}: {{ $value.name }} is not one claim; give resourceClaimName or resourceClaimTemplateName
{{- end }}
{{- else if eq .key "resources" }}
{{- range $name, $amount := merge dict ($value.limits | default dict) ($value.requests | default dict) }}
{{- if and (hasPrefix "hugepages-" $name) (not (or (pick ($value.limits | default dict) "cpu" "memory") (pick ($value.requests | default dict) "cpu" "memory"))) }}
ERROR: {{ $at }}: {{ $name }} without CPUs or memory; give one of them too
{{- end }}
{{- end }}
{{- range $name, $request := $value.requests }}
{{- $limit := get ($value.limits | default dict) $name }}
{{- $whole := or (contains "/" $name) (hasPrefix "hugepages-" $name) }}
{{- if and $whole (not $limit) }}
ERROR: {{ $at }}: {{ $name }} is requested without a limit, and cannot be shared; set the limit to the same
{{- else if $limit }}
{{- $amounts := list (include "ray-train-dlc.amount" $request | float64) (include "ray-train-dlc.amount" $limit | float64) }}
{{- if or (gt (first $amounts) (last $amounts)) (and $whole (ne (first $amounts) (last $amounts))) }}
ERROR: {{ $at }}: {{ $name }} has request {{ $request }} and limit {{ $limit }}; a request is {{ ternary "equal to" "at most" $whole }} the limit
{{- end }}
{{- end }}
{{- end }}
{{- else if has .key (list "dataSource" "dataSourceRef") }}
{{- if and (not $value.apiGroup) (ne $value.kind "PersistentVolumeClaim") }}
ERROR: {{ $at }}: {{ $value.kind }} without an apiGroup; set it, such as snapshot.storage.k8s.io, or name a PersistentVolumeClaim
{{- end }}
{{- else if eq .key "claims[]" }}
{{- if and .pod.grace (not (has $value.name .pod.claims)) }}
ERROR: {{ $at }}: {{ $value.name }} is no claim of the pod; add it to `resourceClaims`
{{- end }}
{{- else if has .key (list "from[]" "to[]") }}
{{- if or (not $value) (and $value.ipBlock (gt (len $value) 1)) }}
ERROR: {{ $at }}: {{ toJson $value }} is not one peer; give ipBlock, or podSelector and namespaceSelector
{{- end }}
{{- else if eq .key "matchFields[]" }}
{{- if or (ne $value.key "metadata.name") (not (has $value.operator (list "In" "NotIn"))) (ne (len ($value.values | default list)) 1) }}
ERROR: {{ $at }}: {{ toJson $value }} is about no field of a node that can be compared; use metadata.name, In or NotIn, and one value
{{- end }}
{{- else if eq .key "topologySpreadConstraints[]" }}
{{- if and $value.minDomains (ne $value.whenUnsatisfiable "DoNotSchedule") }}
ERROR: {{ $at }}: minDomains is for whenUnsatisfiable: DoNotSchedule only; remove one of them
{{- end }}
{{- end }}
{{- $all := concat ($value.matchLabelKeys | default list) ($value.mismatchLabelKeys | default list) }}
{{- if and $all (not (hasKey $value "labelSelector")) }}
ERROR: {{ $at }}: matchLabelKeys and mismatchLabelKeys add to a labelSelector, and there is none; set it
{{- end }}
{{- include "ray-train-dlc.check.twice" (dict "key" $at "what" "of the keys of labels," "values" $all) }}
{{- if has .key (list "extraContainer" "initContainers[]" "sidecarContainers[]") }}
{{- if and (eq .key "initContainers[]") (ne ($value.restartPolicy | default "") "Always") (pick $value "lifecycle" "livenessProbe" "readinessProbe" "startupProbe") }}
ERROR: {{ $at }}: {{ pick $value "lifecycle" "livenessProbe" "readinessProbe" "startupProbe" | keys | sortAlpha | join ", " }} of an init container, which ends before there is anything to ask; remove it, or set restartPolicy: Always
{{- end }}
{{- if and $value.restartPolicyRules (not $value.restartPolicy) }}
ERROR: {{ $at }}: restartPolicyRules without a restartPolicy; set it
{{- end }}
{{- end }}
{{- if eq .key "matchExpressions[]" }}
{{- $values := $value.values | default list }}
{{- if and (has $value.operator (list "In" "NotIn")) (not $values) }}
ERROR: {{ $at }}: {{ $value.operator }} without values; give some, or use Exists or DoesNotExist
{{- else if and (has $value.operator (list "Exists" "DoesNotExist")) $values }}
ERROR: {{ $at }}: {{ $value.operator }} with values, which compares nothing; remove them, or use In or NotIn
{{- else if and (has $value.operator (list "Gt" "Lt")) (or (ne (len $values) 1) (not (regexMatch "^[0-9]{1,18}$" (first $values | default "" | toString)))) }}
ERROR: {{ $at }}: {{ $value.operator }} compares with one whole number; give it as a text of digits, the only one of `values`
{{- end }}
{{- end }}
{{- end -}}
