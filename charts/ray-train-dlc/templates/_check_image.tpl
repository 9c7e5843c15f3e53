{{/* Rules of _requirements.tpl: the image and the Ray release inside it. */}}

{{- define "ray-train-dlc.check.image" -}}
{{- $ray := .Values.rayVersion -}}
{{- include "ray-train-dlc.check.imageRef" (dict "key" "image" "image" .Values.image) }}
{{- range $place, $fields := include "ray-train-dlc.places" . | fromJson }}
{{- if $fields.image | default dict | values | compact }}
{{- include "ray-train-dlc.check.imageRef" (dict "key" (printf "%s.image" $place) "image" (include "ray-train-dlc.imageParts" (dict "root" $ "own" $fields.image) | fromJson)) }}
{{- end }}
{{- end }}
{{- if not (regexMatch "^(0|[1-9][0-9]{0,3})(\\.(0|[1-9][0-9]{0,3})){2}$" $ray) }}
ERROR: rayVersion: {{ toJson $ray }} is not a release (three numbers without leading zeros); set it to the image's, like "2.58.0"
{{- else if not (semverCompare ">=2.52.0" $ray) }}
ERROR: rayVersion: {{ toJson $ray }} has no token authentication, so anyone who reaches the head may run code; use an image with Ray 2.52.0 or later
{{- end }}
{{- end -}}

{{/* A reference: dict "key" "image" "image" {repository, tag, digest}. */}}
{{- define "ray-train-dlc.check.imageRef" -}}
{{- $key := .key -}}
{{- $image := .image -}}
{{- if not (regexMatch "^([a-z0-9][a-z0-9.-]*(:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$" $image.repository) }}
ERROR: {{ $key }}.repository: {{ toJson $image.repository }} is not a repository; give registry and path here, tag and digest in tag and digest
{{- end }}
{{- if and (empty $image.tag) (empty $image.digest) }}
ERROR: {{ $key }}.tag: "" and no {{ $key }}.digest, which means :latest; set one of the two
{{- end }}
{{- with $image.tag }}
{{- if not (regexMatch "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$" .) }}
ERROR: {{ $key }}.tag: {{ toJson . }} is not a tag; a digest goes to {{ $key }}.digest
{{- else if and (eq . "latest") (empty $image.digest) }}
ERROR: {{ $key }}.tag: "latest" is another image tomorrow; set a tag that does not move, or {{ $key }}.digest
{{- end }}
{{- end }}
{{- with $image.digest }}
{{- if not (regexMatch "^sha256:[0-9a-f]{64}$" .) }}
ERROR: {{ $key }}.digest: {{ toJson . }} is not sha256: and 64 lower-case hexadecimal digits; copy it from the registry
{{- end }}
{{- end }}
{{- end -}}
