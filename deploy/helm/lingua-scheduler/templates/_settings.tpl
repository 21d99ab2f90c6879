{{/* The settings file: those of the values, and those that belong to the manifests, which win. */}}
{{- define "lingua.settings" -}}
{{- $server := dict "port" .Values.ports.http "internal_host" .Values.listen "internal_port" .Values.ports.internal -}}
{{/* The names of the services, by which nodes, operators and KEDA come from within. */}}
{{- with dig "server" "allowed_hosts" (list) .Values.settings -}}
{{- $hosts := . -}}
{{- $name := include "lingua.fullname" $ -}}
{{- range $service := list $name (print $name "-internal") -}}
{{- range $domain := list "" (print "." $.Release.Namespace) (print "." $.Release.Namespace ".svc") -}}
{{- $hosts = append $hosts (print $service $domain) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $server "allowed_hosts" (uniq $hosts) -}}
{{- end -}}
{{- if .Values.tls.secret -}}
{{- $_ := set $server "tls_cert_file" "/run/lingua/tls/tls.crt" -}}
{{- $_ := set $server "tls_key_file" "/run/lingua/tls/tls.key" -}}
{{- end -}}
{{- if .Values.tls.clientCaKey -}}
{{- $_ := set $server "tls_client_ca_file" (printf "/run/lingua/tls/%s" .Values.tls.clientCaKey) -}}
{{- end -}}
{{- $ours := dict "server" $server
      "redis" (dict "wait" true)
      "privacy" (dict "cluster_key_file" "/run/lingua/cluster-key/cluster.key") -}}
{{- if .Values.keysFile.secret -}}
{{- $_ := set $ours "auth" (dict "keys_file" "/run/lingua/keys/keys.toml") -}}
{{- end -}}
{{- if .Values.oidcClientSecret.secret -}}
{{- $auth := default dict $ours.auth -}}
{{- $_ := set $auth "oidc" (dict "client_secret_file" "/run/lingua/oidc/client-secret") -}}
{{- $_ := set $ours "auth" $auth -}}
{{- end -}}
{{- if .Values.turnSecret.secret -}}
{{- $_ := set $ours "rooms" (dict "turn_secret_file" "/run/lingua/turn/turn-secret") -}}
{{- end -}}
{{- include "lingua.toml" (dict "table" (mergeOverwrite (deepCopy .Values.settings) $ours) "path" "") -}}
{{- end }}

{{/* A table as TOML. Helm's own toToml writes whole numbers as 5010.0, which is no port. */}}
{{- define "lingua.toml" -}}
{{- $path := .path -}}
{{- $values := "" -}}
{{- $tables := "" -}}
{{- range $key, $value := .table -}}
{{- if kindIs "map" $value -}}
{{- $name := ternary $key (printf "%s.%s" $path $key) (eq $path "") -}}
{{- $tables = print $tables (include "lingua.toml" (dict "table" $value "path" $name)) -}}
{{- else -}}
{{- $word := ternary $key ($key | toJson) (regexMatch "^[A-Za-z0-9_-]+$" $key) -}}
{{- $values = printf "%s%s = %s\n" $values $word ($value | toJson) -}}
{{- end -}}
{{- end -}}
{{- if and $path $values -}}
{{- printf "\n[%s]\n" $path -}}
{{- end -}}
{{- $values -}}
{{- $tables -}}
{{- end }}
