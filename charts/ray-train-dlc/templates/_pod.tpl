{{/*
Pod template of the head or of a worker group: dict "root" $ "runName" "…" "role" "head|worker" "group" {…}.

KubeRay adds the `ray start` command, ports for metrics, probes, and a /dev/shm of the size of the memory limit; so there is no command
here, which it would run before, and no volume at /dev/shm. There is no preStop hook: `ray stop` would end the ranks before their checkpoint.
*/}}
{{- define "ray-train-dlc.podTemplate" -}}
{{- $values := .root.Values -}}
{{- $storage := $values.training.storage -}}
metadata:
  labels:
    {{- include "ray-train-dlc.podLabels" . | nindent 4 }}
spec:
  serviceAccountName: {{ include "ray-train-dlc.serviceAccountName" .root | quote }}
  automountServiceAccountToken: false
  {{- /* Variables for every Service of the namespace: RAY_… ones of a Service named ray-… would change Ray's own configuration. */}}
  enableServiceLinks: false
  restartPolicy: Never
  terminationGracePeriodSeconds: {{ toJson $values.terminationGracePeriodSeconds }}
  securityContext:
    seccompProfile:
      type: RuntimeDefault
  {{- with $values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with include "ray-train-dlc.stringMap" .group.nodeSelector }}
  nodeSelector:
    {{- . | nindent 4 }}
  {{- end }}
  {{- with .group.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if eq .role "worker" }}
  {{- /* One worker per node. Workers of the release's next job wait until those of the last one have left. */}}
  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        - topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- include "ray-train-dlc.releaseSelector" .root | nindent 14 }}
              ray-train-dlc/role: worker
  {{- end }}
  containers:
    - name: ray-{{ .role }}
      image: {{ include "ray-train-dlc.image" .root | quote }}
      imagePullPolicy: {{ $values.image.pullPolicy }}
      {{- /* The image runs as root. Root without the three capabilities could not write to volumes that belong to others. */}}
      securityContext:
        allowPrivilegeEscalation: false
        capabilities:
          drop: [ALL]
          add: [CHOWN, DAC_OVERRIDE, FOWNER]
      {{- if eq .role "head" }}
      ports:
        - name: gcs-server
          containerPort: 6379
        - name: dashboard
          containerPort: 8265
        - name: client
          containerPort: 10001
      {{- end }}
      resources:
        {{- include "ray-train-dlc.resources" (pick .group "resources" "gpus" "efa") | nindent 8 }}
      env:
        {{- include "ray-train-dlc.env" . | trim | nindent 8 }}
      volumeMounts:
        - name: training
          mountPath: /opt/ray-train/training
          readOnly: true
        - name: scratch
          mountPath: /var/tmp/ray-train
        {{- if $storage.claimName }}
        - name: storage
          mountPath: /mnt/ray-train
        {{- end }}
  volumes:
    - name: training
      configMap:
        name: {{ include "ray-train-dlc.configMapName" .root | quote }}
    - name: scratch
      emptyDir: {}
    {{- if $storage.claimName }}
    - name: storage
      persistentVolumeClaim:
        claimName: {{ $storage.claimName | quote }}
    {{- end }}
{{- end -}}
