{{- define "lingua.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* At most 50 characters: suffixes follow, and names of services end at 63. */}}
{{- define "lingua.fullname" -}}
{{- $name := include "lingua.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{/* Labels of a component: (list $ "scheduler"). Those of the selector never change. */}}
{{- define "lingua.selector" -}}
{{- $ := index . 0 -}}
app.kubernetes.io/name: {{ include "lingua.name" $ }}
app.kubernetes.io/instance: {{ $.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "lingua.labels" -}}
{{- $ := index . 0 -}}
{{ include "lingua.selector" . }}
app.kubernetes.io/version: {{ $.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $.Release.Service }}
{{- if eq $.Release.Service "Helm" }}
helm.sh/chart: {{ printf "%s-%s" $.Chart.Name $.Chart.Version | replace "+" "_" }}
{{- end }}
{{- end }}

{{- define "lingua.image" -}}
{{- $image := index . 1 -}}
{{- $tag := default (index . 0).Chart.AppVersion $image.tag -}}
{{- if $image.digest }}{{ $image.repository }}@{{ $image.digest }}{{ else }}{{ $image.repository }}:{{ $tag }}{{ end }}
{{- end }}

{{- define "lingua.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "lingua.fullname" .) .Values.serviceAccount.name }}
{{- else }}{{ default "default" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{/* What the values lack is said with the next step. The schema has said what is wrong with each of them. */}}
{{- define "lingua.check" -}}
{{- $redis := .Values.redis -}}
{{- if and (not $redis.url) (not (and $redis.secret.name $redis.secret.urlKey)) -}}
{{- fail "redis.url is empty: name your Redis or Valkey, such as --set redis.url=redis://valkey:6379/0, or a secret with the URL (redis.secret.name, redis.secret.urlKey). The chart does not bring one; docs/deploy-kubernetes.md says how to get one" -}}
{{- end -}}
{{- if and $redis.url (not (regexMatch "^rediss?(\\+(cluster|sentinel))?://" $redis.url)) -}}
{{- fail "redis.url is no address of Redis: it begins with redis://, rediss://, redis+cluster://, rediss+cluster://, redis+sentinel:// or rediss+sentinel://" -}}
{{- end -}}
{{- /* Values are stored with the release, and shown by helm get values. So is no password in what is said here. */}}
{{- if and $redis.url (or (not (regexMatch "^[^:]+://([^@/:]*(:(\\$\\(REDIS_PASSWORD\\))?)?@)?[^@]+$" $redis.url)) (regexMatch "password=[^$&]" $redis.url)) -}}
{{- fail "redis.url has a password: write redis://USER:$(REDIS_PASSWORD)@HOST:6379/0, and name the secret that has it (redis.secret.name, redis.secret.passwordKey), or put the whole address into a secret (redis.secret.urlKey)" -}}
{{- end -}}
{{- if and $redis.url $redis.secret.urlKey -}}
{{- fail "redis.url and redis.secret.urlKey are both set: remove one" -}}
{{- end -}}
{{- if and $redis.secret.passwordKey (not (contains "$(REDIS_PASSWORD)" $redis.url)) -}}
{{- fail "redis.secret.passwordKey is set and redis.url has no $(REDIS_PASSWORD): write redis://USER:$(REDIS_PASSWORD)@HOST:6379/0" -}}
{{- end -}}
{{- if and (contains "$(REDIS_PASSWORD)" $redis.url) (not (and $redis.secret.name $redis.secret.passwordKey)) -}}
{{- fail "redis.url has $(REDIS_PASSWORD): name the secret that has it (redis.secret.name, redis.secret.passwordKey)" -}}
{{- end -}}
{{- if not .Values.clusterKey.secret -}}
{{- fail "clusterKey.secret is empty: make the key with: kubectl create secret generic lingua-cluster-key --from-literal=cluster.key=$(openssl rand -hex 32) and add --set clusterKey.secret=lingua-cluster-key" -}}
{{- end -}}
{{- if eq (int .Values.ports.http) (int .Values.ports.internal) -}}
{{- fail "ports.http and ports.internal are the same: choose another for one" -}}
{{- end -}}
{{- if and .Values.tls.clientCaKey (not .Values.tls.secret) -}}
{{- fail "tls.clientCaKey needs tls.secret" -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "ingress.hosts is empty: name the host, such as --set 'ingress.hosts={translate.example}'" -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) -}}
{{- fail "httpRoute.parentRefs is empty: name the Gateway, such as [{name: public, namespace: gateways}]" -}}
{{- end -}}
{{- $scaling := .Values.autoscaling -}}
{{- if and $scaling.enabled (not (or $scaling.sessionsPerPod $scaling.queueWaitP95Ms $scaling.cpuPercent)) -}}
{{- fail "autoscaling has no metric: set sessionsPerPod, queueWaitP95Ms or cpuPercent" -}}
{{- end -}}
{{- if or (gt (int $scaling.minReplicas) (int $scaling.maxReplicas)) (gt (int .Values.node.autoscaling.minReplicas) (int .Values.node.autoscaling.maxReplicas)) -}}
{{- fail "minReplicas is above maxReplicas: lower the first or raise the second" -}}
{{- end -}}
{{- end }}

{{/* Kubernetes 1.30 and newer sleep by themselves. */}}
{{- define "lingua.preStop" -}}
{{- if semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version -}}
sleep:
  seconds: {{ .Values.preStopSeconds }}
{{- else -}}
exec:
  command:
    {{- range .Values.preStopCommand }}
    - {{ tpl . $ | quote }}
    {{- end }}
{{- end -}}
{{- end }}

{{/* server.stop_timeout_ms, rounded up to seconds, and what comes before and after it. */}}
{{- define "lingua.graceSeconds" -}}
{{- $stop_ms := dig "server" "stop_timeout_ms" 15000 .Values.settings -}}
{{- add (ceil (divf $stop_ms 1000)) .Values.preStopSeconds 10 -}}
{{- end }}

{{/* A secret as a folder that only the group of the pod can read: (dict "name" … "secret" … "key" …). */}}
{{- define "lingua.secretVolume" -}}
- name: {{ .name }}
  secret:
    secretName: {{ .secret }}
    defaultMode: 0440
    {{- if .key }}
    items:
      - key: {{ .key }}
        path: {{ .path }}
    {{- end }}
{{- end }}

{{- define "lingua.volumes" -}}
- name: settings
  configMap:
    name: {{ include "lingua.fullname" . }}
- name: data
  emptyDir:
    sizeLimit: {{ .Values.scratchSize }}
- name: tmp
  emptyDir:
    sizeLimit: {{ .Values.scratchSize }}
{{ include "lingua.secretVolume" (dict "name" "cluster-key" "secret" .Values.clusterKey.secret "key" .Values.clusterKey.key "path" "cluster.key") }}
{{- with .Values.keysFile }}
{{- if .secret }}
{{ include "lingua.secretVolume" (dict "name" "keys" "secret" .secret "key" .key "path" "keys.toml") }}
{{- end }}
{{- end }}
{{- with .Values.oidcClientSecret }}
{{- if .secret }}
{{ include "lingua.secretVolume" (dict "name" "oidc" "secret" .secret "key" .key "path" "client-secret") }}
{{- end }}
{{- end }}
{{- with .Values.turnSecret }}
{{- if .secret }}
{{ include "lingua.secretVolume" (dict "name" "turn" "secret" .secret "key" .key "path" "turn-secret") }}
{{- end }}
{{- end }}
{{- if .Values.tls.secret }}
{{ include "lingua.secretVolume" (dict "name" "tls" "secret" .Values.tls.secret) }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "lingua.volumeMounts" -}}
- {name: settings, mountPath: /etc/lingua, readOnly: true}
- {name: data, mountPath: /var/lib/lingua}
- {name: tmp, mountPath: /tmp}
- {name: cluster-key, mountPath: /run/lingua/cluster-key, readOnly: true}
{{- if .Values.keysFile.secret }}
- {name: keys, mountPath: /run/lingua/keys, readOnly: true}
{{- end }}
{{- if .Values.oidcClientSecret.secret }}
- {name: oidc, mountPath: /run/lingua/oidc, readOnly: true}
{{- end }}
{{- if .Values.turnSecret.secret }}
- {name: turn, mountPath: /run/lingua/turn, readOnly: true}
{{- end }}
{{- if .Values.tls.secret }}
- {name: tls, mountPath: /run/lingua/tls, readOnly: true}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "lingua.env" -}}
- name: LINGUA_CONFIG
  value: /etc/lingua/lingua.toml
# The image has variables for these, which would count before the file.
- name: LINGUA_SERVER_HOST
  value: {{ .Values.listen | quote }}
- name: LINGUA_LOGS_FORMAT
  value: {{ dig "logs" "format" "json" .Values.settings }}
- name: LINGUA_REDIS_DATA_DIR
  value: /var/lib/lingua
{{- with .Values.redis }}
{{- if .secret.passwordKey }}
# Before the variable that uses it.
- name: REDIS_PASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ .secret.name }}
      key: {{ .secret.passwordKey }}
{{- end }}
- name: LINGUA_REDIS_URL
  {{- if .secret.urlKey }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret.name }}
      key: {{ .secret.urlKey }}
  {{- else }}
  value: {{ .url | quote }}
  {{- end }}
{{- end }}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* What every pod of the chart has. */}}
{{- define "lingua.podBasics" -}}
automountServiceAccountToken: false
# Its variables would have names such as LINGUA_PORT, which the scheduler would take for settings.
enableServiceLinks: false
serviceAccountName: {{ include "lingua.serviceAccountName" . }}
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Where a pod may run: the values of the scheduler or of nodes. */}}
{{- define "lingua.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
