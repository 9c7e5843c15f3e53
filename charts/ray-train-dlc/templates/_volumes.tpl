{{/* Volumes and mounts of the pods: code, scratch, storage. All take what "ray-train-dlc.podTemplate" takes. */}}

{{- define "ray-train-dlc.volumes" -}}
{{- $training := .root.Values.training -}}
{{- $scratch := .fields.scratch | default dict -}}
{{- if ne .role "submitter" }}
- name: training
  projected:
    sources:
      {{- range include "ray-train-dlc.codeMapNames" .root | fromJsonArray }}
      - configMap:
          name: {{ . | quote }}
      {{- end }}
{{- if include "ray-train-dlc.userCodeMap" .root }}
- name: code
  configMap:
    name: {{ include "ray-train-dlc.userCodeMap" .root | quote }}
{{- else if $training.code.git.url }}
- name: code
  emptyDir: {}
{{- end }}
- name: scratch
  {{- if $scratch.storageClassName }}
  ephemeral:
    volumeClaimTemplate:
      metadata: {}
      spec:
        accessModes: [ReadWriteOnce]
        storageClassName: {{ $scratch.storageClassName | quote }}
        resources:
          requests:
            storage: {{ $scratch.size | quote }}
  {{- else if $scratch.sizeLimit }}
  emptyDir:
    sizeLimit: {{ $scratch.sizeLimit | quote }}
  {{- else }}
  emptyDir: {}
  {{- end }}
{{- if $training.storage.claimName }}
- name: storage
  persistentVolumeClaim:
    claimName: {{ $training.storage.claimName | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* With those that are given, as JSON. */}}
{{- define "ray-train-dlc.allVolumes" -}}
{{- concat (include "ray-train-dlc.volumes" . | fromYamlArray) (.fields.volumes | default list) | toJson -}}
{{- end -}}

{{- define "ray-train-dlc.volumeMounts" -}}
{{- $training := .root.Values.training -}}
{{- if ne .role "submitter" }}
- name: training
  mountPath: /opt/ray-train/training
  readOnly: true
{{- if include "ray-train-dlc.hasUserCode" .root }}
- name: code
  mountPath: /opt/ray-train-code
  readOnly: true
{{- end }}
- name: scratch
  mountPath: /var/tmp/ray-train
{{- if $training.storage.claimName }}
- name: storage
  mountPath: /mnt/ray-train
  {{- with $training.storage.subPath }}
  subPath: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Name of the ConfigMap with code of the user's own, or nothing. */}}
{{- define "ray-train-dlc.userCodeMap" -}}
{{- $code := .Values.training.code -}}
{{- if $code.configMapName -}}
{{- $code.configMapName -}}
{{- else if include "ray-train-dlc.userFiles" . | fromJson -}}
{{- printf "%s-user-code-%s" (include "ray-train-dlc.base" .) (include "ray-train-dlc.userFiles" . | sha256sum | trunc 8) -}}
{{- end -}}
{{- end -}}

{{/* Text of the user's own modules, as JSON. */}}
{{- define "ray-train-dlc.userFiles" -}}
{{- $files := dict -}}
{{- range $name, $text := .Values.training.code.files -}}
{{- if not (kindIs "invalid" $text) -}}
{{- /* Helm 3 and 4 print several line ends at the end of a text differently, under one name of an immutable ConfigMap. */ -}}
{{- $_ := set $files $name (regexReplaceAll "\n\n+$" $text "\n") -}}
{{- end -}}
{{- end -}}
{{- toJson $files -}}
{{- end -}}

{{- define "ray-train-dlc.hasUserCode" -}}
{{- if or (include "ray-train-dlc.userCodeMap" .) .Values.training.code.git.url -}}true{{- end -}}
{{- end -}}

{{/*
Clones the code before Ray starts, in each pod by itself. Only the commit is fetched; what it may not contain is a way to other hosts, so
submodules are not followed. The password goes through a helper of git's own, never through the command line.
*/}}
{{- define "ray-train-dlc.codeInitContainers" -}}
{{- $git := .root.Values.training.code.git -}}
{{- if and $git.url (ne .role "submitter") }}
- name: code
  image: {{ $git.image | default (include "ray-train-dlc.podImage" .) | quote }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  securityContext:
    {{- include "ray-train-dlc.securityContext" . | fromJson | toYaml | nindent 4 }}
  command: [sh, -c]
  args:
    - |
      set -eu
      git init --quiet /checkout/clone
      cd /checkout/clone
      git config credential.helper '!f() { echo "username=$GIT_USERNAME"; echo "password=$GIT_PASSWORD"; }; f'
      git fetch --quiet --depth=1 "$GIT_URL" "$GIT_REVISION"
      git checkout --quiet --detach FETCH_HEAD
      cp -R "./$GIT_FOLDER/." /code
  env:
    - name: GIT_TERMINAL_PROMPT
      value: "0"
    - name: HOME
      value: /checkout
    - name: GIT_URL
      value: {{ $git.url | quote }}
    - name: GIT_REVISION
      value: {{ $git.revision | quote }}
    - name: GIT_FOLDER
      value: {{ $git.path | default "." | quote }}
    {{- range $name, $key := dict "GIT_PASSWORD" "password" "GIT_USERNAME" "username" }}
    - name: {{ $name }}
      {{- if $git.secretName }}
      valueFrom:
        secretKeyRef:
          name: {{ $git.secretName | quote }}
          key: {{ $key }}
      {{- end }}
    {{- end }}
  resources:
    requests: {cpu: 100m, memory: 256Mi}
    limits: {cpu: "1", memory: 1Gi}
  volumeMounts:
    - name: code
      mountPath: /code
    - name: scratch
      mountPath: /checkout
      subPath: git
{{- end }}
{{- end -}}
