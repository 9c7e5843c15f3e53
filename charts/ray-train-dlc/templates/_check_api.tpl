{{/*
Rules of _requirements.tpl: what Kubernetes asks of a field and its neighbours, however deep in a pod (values.schema.json knows what it asks of one
field alone). The API server would refuse such a pod each time the operator makes it.
*/}}

{{- define "ray-train-dlc.check.api" -}}
{{- $places := include "ray-train-dlc.places" . | fromJson -}}
{{- $lines := list -}}
{{- range $place, $fields := include "ray-train-dlc.pods" . | fromJson -}}
{{- $pod := dict "claims" list "grace" (int64 $fields.terminationGracePeriodSeconds) -}}
{{- range $fields.resourceClaims }}{{ $_ := set $pod "claims" (append $pod.claims .name) }}{{ end -}}
{{- range $field, $value := omit $fields "annotations" "extraResources" "labels" "nodeSelector" "rayLabels" "rayResources" "rayStartParams" "resources" -}}
{{- $at := include "ray-train-dlc.check.from" (dict "place" $place "own" (get $places $place) "field" $field) -}}
{{- $lines = concat $lines (include "ray-train-dlc.check.walk" (dict "pod" $pod "at" $at "key" $field "value" $value) | splitList "\n") -}}
{{- end -}}
{{- end -}}
{{- $others := dict "head.service" .Values.head.service "cluster.autoscaling.options" .Values.cluster.autoscaling.options "networkPolicy.extraIngress" .Values.networkPolicy.extraIngress "networkPolicy.extraEgress" .Values.networkPolicy.extraEgress -}}
{{- range $at, $value := $others -}}
{{- $lines = concat $lines (include "ray-train-dlc.check.walk" (dict "pod" dict "at" $at "key" "" "value" $value) | splitList "\n") -}}
{{- end -}}
{{- /* What `common` has is seen once for each pod. */ -}}
{{- compact $lines | uniq | join "\n" -}}
{{- end -}}

{{/* Every map and list below a value, by its path: dict "pod" {…} "at" "head.affinity" "key" "affinity" "value" {…}. */}}
{{- define "ray-train-dlc.check.walk" -}}
{{- $given := . -}}
{{- if kindIs "map" .value -}}
{{- include "ray-train-dlc.check.shape" . }}
{{- range $key, $item := .value }}
{{ include "ray-train-dlc.check.walk" (dict "pod" $given.pod "at" (printf "%s.%s" $given.at $key) "key" $key "value" $item) }}
{{- end }}
{{- else if kindIs "slice" .value -}}
{{- include "ray-train-dlc.check.unique" . }}
{{- range $i, $item := .value }}
{{ include "ray-train-dlc.check.walk" (dict "pod" $given.pod "at" (printf "%s.%d" $given.at $i) "key" (printf "%s[]" $given.key) "value" $item) }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* Lists that Kubernetes reads as maps: each key once. Volumes, mounts, ports and containers of the pod are in _check_containers.tpl. */}}
{{- define "ray-train-dlc.check.unique" -}}
{{- $keys := dict "claims" (list "name") "env" (list "name") "hostAliases" (list "ip") "items" (list "path") "imagePullSecrets" (list "name") "resizePolicy" (list "resourceName") "resourceClaims" (list "name") "schedulingGates" (list "name") "sysctls" (list "name") "topologySpreadConstraints" (list "topologyKey" "whenUnsatisfiable") "volumeDevices" (list "devicePath") -}}
{{- if or (contains "ontainers" .at) (hasPrefix "head.service" .at) }}{{ $_ := set $keys "ports" (list "containerPort" "port" "protocol") }}{{ end -}}
{{- with get $keys .key -}}
{{- $keys := . -}}
{{- $seen := list -}}
{{- range $.value -}}
{{- $item := . -}}
{{- $parts := list -}}
{{- range $keys }}{{ with get $item . }}{{ $parts = append $parts (include "ray-train-dlc.scalar" .) }}{{ end }}{{ end -}}
{{- $seen = append $seen (join " " $parts) -}}
{{- end -}}
{{- include "ray-train-dlc.check.twice" (dict "key" $.at "what" (join " and " $keys) "values" $seen) -}}
{{- end -}}
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
{{- if and .pod.grace (ge (dig "sleep" "seconds" 0 $value | int64) (int64 .pod.grace)) }}
ERROR: {{ $at }}: sleep.seconds {{ $value.sleep.seconds }} is not below terminationGracePeriodSeconds ({{ .pod.grace }}); sleep less
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
{{- if not (regexMatch "^(metadata\\.(name|namespace|uid|labels|annotations)|metadata\\.(labels|annotations)\\['[^']+'\\]|spec\\.(nodeName|serviceAccountName)|status\\.(hostIPs?|podIPs?))$" $value.fieldPath) }}
ERROR: {{ $at }}: {{ toJson $value.fieldPath }} is no field that a pod can read; use metadata.name, metadata.namespace, metadata.uid, metadata.labels['KEY'], metadata.annotations['KEY'], spec.nodeName, spec.serviceAccountName, status.hostIP or status.podIP
{{- end }}
{{- else if eq .key "resourceFieldRef" }}
{{- if not $value.divisor }}
ERROR: {{ $at }}: no divisor, and the operator writes "0" back, a lasting difference to Git; write divisor: "0"
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
{{- else if and (eq .at "head.service.spec") (ne ($value.type | default "") "LoadBalancer") (or $value.loadBalancerClass $value.healthCheckNodePort) }}
ERROR: {{ $at }}: loadBalancerClass and healthCheckNodePort are for type LoadBalancer only; remove them, or set the type
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
{{- if and (or $value.matchLabelKeys $value.mismatchLabelKeys) (not $value.labelSelector) }}
ERROR: {{ $at }}: matchLabelKeys and mismatchLabelKeys add to a labelSelector, and there is none; set it
{{- end }}
{{- if has .key (list "initContainers[]" "sidecarContainers[]") }}
{{- if and (eq .key "initContainers[]") (ne ($value.restartPolicy | default "") "Always") (pick $value "lifecycle" "livenessProbe" "readinessProbe" "startupProbe") }}
ERROR: {{ $at }}: {{ pick $value "lifecycle" "livenessProbe" "readinessProbe" "startupProbe" | keys | sortAlpha | join ", " }} of an init container, which ends before there is anything to ask; remove it, or set restartPolicy: Always
{{- end }}
{{- if and $value.restartPolicyRules (not $value.restartPolicy) }}
ERROR: {{ $at }}: restartPolicyRules without a restartPolicy; set it
{{- end }}
{{- end }}
{{- if and (hasKey $value "operator") (ne .key "tolerations[]") }}
{{- $values := $value.values | default list }}
{{- if and (has $value.operator (list "In" "NotIn")) (not $values) }}
ERROR: {{ $at }}: {{ $value.operator }} without values; give some, or use Exists or DoesNotExist
{{- else if and (has $value.operator (list "Exists" "DoesNotExist")) $values }}
ERROR: {{ $at }}: {{ $value.operator }} with values, which compares nothing; remove them, or use In or NotIn
{{- else if and (has $value.operator (list "Gt" "Lt")) (or (ne (len $values) 1) (not (regexMatch "^-?[0-9]{1,18}$" (first $values | default "" | toString)))) }}
ERROR: {{ $at }}: {{ $value.operator }} compares with one whole number; give it as a text, the only one of `values`
{{- end }}
{{- end }}
{{- end -}}
