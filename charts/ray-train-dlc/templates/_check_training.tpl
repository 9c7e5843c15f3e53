{{/* Rules of _requirements.tpl: the training's code, its arguments and its storage. */}}

{{- define "ray-train-dlc.check.training" -}}
{{- $training := .Values.training -}}
{{- $storage := $training.storage -}}
{{- include "ray-train-dlc.check.files" . }}
{{- range $name, $value := $training.args }}
{{- if not (kindIs "invalid" $value) }}
{{- with include "ray-train-dlc.check.flagOwner" $name }}
ERROR: training.args: {{ $name }} is {{ . }}
{{- end }}
{{- end }}
{{- end }}
{{- if eq $storage.kind "s3" }}
{{- if not (regexMatch "^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9_.=-]+)*/?$" $storage.uri) }}
ERROR: training.storage.uri: {{ toJson $storage.uri }} is not s3://bucket/prefix (a bucket of 3 to 63 characters; letters, digits, and _ . = - in the prefix); set it for kind s3
{{- end }}
{{- else if $storage.uri }}
ERROR: training.storage.uri: {{ toJson $storage.uri }} has no effect with kind {{ $storage.kind }}; set kind to s3, or remove it
{{- end }}
{{- if has $storage.kind (list "fsx" "efs" "pvc") }}
{{- if not $storage.claimName }}
ERROR: training.storage.claimName: "" with kind {{ $storage.kind }}; set it to the name of the PersistentVolumeClaim
{{- else if not (include "ray-train-dlc.check.isName" $storage.claimName) }}
ERROR: training.storage.claimName: {{ toJson $storage.claimName }} is not a name; use lower-case letters, digits, dashes and dots
{{- end }}
{{- else if $storage.claimName }}
ERROR: training.storage.claimName: {{ toJson $storage.claimName }} has no effect with kind {{ $storage.kind }}; set kind to fsx, efs or pvc, or remove it
{{- end }}
{{- with $storage.subPath }}
{{- if not (has $storage.kind (list "fsx" "efs" "pvc")) }}
ERROR: training.storage.subPath: {{ toJson . }} has no effect with kind {{ $storage.kind }}; remove it
{{- else if or (hasPrefix "/" .) (has ".." (splitList "/" .)) }}
ERROR: training.storage.subPath: {{ toJson . }} is not a path inside the claim; write it without a leading slash and without ..
{{- end }}
{{- end }}
{{- $nodes := (include "ray-train-dlc.topology" . | fromJson).nodes | int64 }}
{{- if and (ne .Values.mode "cluster") (eq $storage.kind "none") (gt $nodes 1) }}
ERROR: training.storage.kind: none with {{ $nodes }} nodes; each would write its part of a checkpoint to its own disk, so set s3, fsx, efs or pvc
{{- end }}
{{- if and (eq $storage.kind "none") .Values.job.resumeFrom }}
ERROR: job.resumeFrom: {{ toJson .Values.job.resumeFrom }} with training.storage.kind none, where no run has left anything; set the storage that it is on
{{- end }}
{{- range $key := list "model" "data" }}
{{- include "ray-train-dlc.check.source" (dict "key" (printf "training.%s" $key) "source" (get $training $key)) }}
{{- end }}
{{- include "ray-train-dlc.check.code" . }}
{{- end -}}

{{/*
The bundled files. Helm keeps a release as gzip in base64, in one Secret, which holds 1 MiB. Without these files that is 207 KiB. They are in it twice,
in the chart and in the manifest, and each of their bytes adds 1.03: 600 KiB make it 207 + 617 = 824 KiB. 200 KiB of `training.code.files`, also twice
(as values and in the manifest), add 166 more, so that both limits together are 990 KiB. tests/chart/test_training_files.py measures it.
*/}}
{{- define "ray-train-dlc.check.files" -}}
{{- $limit := include "ray-train-dlc.codeMapBytes" . | int -}}
{{- $names := list -}}
{{- $bytes := 0 -}}
{{- range $path, $content := .Files.Glob "files/training/*.py" }}
{{- $names = append $names (base $path) }}
{{- $bytes = add $bytes (len $content) }}
{{- if gt (len $content) $limit }}
ERROR: {{ $path }}: {{ len $content }} bytes, above 200 KiB ({{ $limit }}), too much for a ConfigMap that tools also keep in annotations; split the module
{{- end }}
{{- end }}
{{- if not (has "train.py" $names) }}
ERROR: files/training: train.py is not there, and the job runs `python -m training.train`; copy training/*.py of the project into files/training/
{{- end }}
{{- if gt (int $bytes) 614400 }}
ERROR: files/training: {{ $bytes }} bytes in all, above 600 KiB (614400), too much for the Secret in which Helm keeps the release; put the code into the image
{{- end }}
{{- end -}}

{{/* A model or a dataset: dict "key" "training.model" "source" {…}. */}}
{{- define "ray-train-dlc.check.source" -}}
{{- $key := .key -}}
{{- $uri := .source.uri -}}
{{- $revision := .source.revision -}}
{{- $hub := regexMatch "^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)?$" $uri -}}
{{- if and $uri (not $hub) (not (regexMatch "^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9_.=-]+)*/?$" $uri)) (not (regexMatch "^(/[A-Za-z0-9_.=-]+)+/?$" $uri)) }}
ERROR: {{ $key }}.uri: {{ toJson $uri }} is no name on the hub (owner/name), no s3://bucket/prefix and no absolute path; write one of them
{{- end }}
{{- if and $hub $uri (not (regexMatch "^[0-9a-f]{40}$" $revision)) }}
ERROR: {{ $key }}.revision: {{ toJson $revision }} is not a commit of 40 hexadecimal digits, and {{ $uri }} on the hub may move while the job's name would not; copy it from the hub
{{- else if and $revision (not $hub) }}
ERROR: {{ $key }}.revision: {{ toJson $revision }} has no effect but for a name on the hub; remove it
{{- end }}
{{- if and .source.secretRef.name (not $hub) }}
ERROR: {{ $key }}.secretRef: has no effect but for a name on the hub; remove it
{{- end }}
{{- end -}}

{{/* Code of the user's own: one source, and one that does not move under the job's name. */}}
{{- define "ray-train-dlc.check.code" -}}
{{- $code := .Values.training.code -}}
{{- $git := $code.git -}}
{{- $sources := list -}}
{{- if include "ray-train-dlc.userFiles" . | fromJson }}{{ $sources = append $sources "files" }}{{ end -}}
{{- $bytes := 0 -}}
{{- range include "ray-train-dlc.userFiles" . | fromJson }}{{ $bytes = add $bytes (len .) }}{{ end -}}
{{- if gt (int $bytes) (include "ray-train-dlc.codeMapBytes" . | int) }}
ERROR: training.code.files: {{ $bytes }} bytes, above 200 KiB (204800), too much for a ConfigMap that tools also keep in annotations; use training.code.git, or put the code into the image
{{- end }}
{{- if $code.configMapName }}{{ $sources = append $sources "configMapName" }}{{ end -}}
{{- if $git.url }}{{ $sources = append $sources "git" }}{{ end -}}
{{- if gt (len $sources) 1 }}
ERROR: training.code: {{ join " and " $sources }} at once; give one of them
{{- end }}
{{- if and $sources (eq .Values.mode "jobOnCluster") }}
ERROR: training.code.{{ first $sources }}: the code is that of the cluster in mode jobOnCluster; give it to the release that holds the cluster, and keep training.code.module here
{{- end }}
{{- if and $sources (eq .Values.mode "job") (hasPrefix "training." $code.module) }}
ERROR: training.code: {{ first $sources }} is given, and {{ $code.module }}, which does not import it, is what runs; set training.code.module to the module to run
{{- end }}
{{- if hasSuffix ".py" $code.module }}
ERROR: training.code.module: {{ $code.module }} is a file name; write the module, {{ trimSuffix ".py" $code.module }}
{{- end }}
{{- with $code.configMapName }}
{{- if not (include "ray-train-dlc.check.isName" .) }}
ERROR: training.code.configMapName: {{ toJson . }} is not a name; use that of a ConfigMap
{{- end }}
{{- end }}
{{- if $git.url }}
{{- if not (regexMatch "^https?://([A-Za-z0-9.-]+|\\[[0-9a-fA-F:.]+\\])(:[1-9][0-9]{0,4})?/[^\\s@]+$" $git.url) }}
ERROR: training.code.git.url: {{ toJson $git.url }} is not an https address (https://host/path) without a user; credentials go to secretName
{{- end }}
{{- if not (regexMatch "^[0-9a-f]{40}$" $git.revision) }}
ERROR: training.code.git.revision: {{ toJson $git.revision }} is not a commit of 40 hexadecimal digits; a branch or tag may move and the job's name would not
{{- end }}
{{- with $git.image }}
{{- if not (regexMatch "^[a-z0-9][a-zA-Z0-9./_-]*(:[0-9]+/[a-z0-9./_-]+)?(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?(@sha256:[0-9a-f]{64})?$" .) }}
ERROR: training.code.git.image: {{ toJson . }} is not an image; write registry/path:tag, or with @sha256:…
{{- end }}
{{- end }}
{{- if or (hasPrefix "/" $git.path) (has ".." (splitList "/" $git.path)) }}
ERROR: training.code.git.path: {{ toJson $git.path }} is not a folder of the repository; write it without a leading slash and without ..
{{- end }}
{{- else if or $git.revision $git.path $git.image $git.secretName }}
ERROR: training.code.git.url: "" next to other values of git; set it, or remove them
{{- end }}
{{- end -}}

{{/* Flags of `python -m training.train` that are no settings: what they follow, and what to set instead; nothing for others. */}}
{{- define "ray-train-dlc.check.flagOwner" -}}
{{- if eq . "preset" -}}
a value of its own; set training.preset
{{- else if eq . "num_workers" -}}
the number of all ranks, which follows replicas × gpus (or processesPerNode); set these in workerGroups
{{- else if eq . "run_path" -}}
the place of the run, which follows training.storage; set that
{{- else if eq . "resume_from" -}}
a value of its own; set job.resumeFrom
{{- else if has . (list "model" "model_revision" "data" "data_revision") -}}
a value of its own; set training.{{ splitList "_" . | first }}
{{- else if eq . "help" -}}
no setting, and its flag ends the training before it starts; remove it
{{- end -}}
{{- end -}}
