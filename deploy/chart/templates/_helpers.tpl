{{- /* This is also the name of the Service, so it must not contain dots. */ -}}
{{- define "weir.fullname" -}}
{{- $full := default (ternary "envoy-ai-gateway-ratelimit" "" .Values.aiGateway.enabled) .Values.fullnameOverride -}}
{{- if not $full -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full = ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- end -}}
{{- $full | replace "." "-" | trunc 63 | trimAll "-" -}}
{{- end -}}

{{- define "weir.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "weir.labels" -}}
{{ include "weir.selectorLabels" . }}
app.kubernetes.io/version: {{ default .Chart.AppVersion .Values.image.tag | trunc 63 | trimAll "-_." | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "weir.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- include "weir.fullname" . -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "weir.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- /* The ConfigMap with the rules, or "" if there is none. */ -}}
{{- define "weir.rules" -}}
{{- if .Values.rules.existingConfigMap -}}
{{- .Values.rules.existingConfigMap -}}
{{- else if .Values.rules.files -}}
{{- printf "%s-rules" (include "weir.fullname" . | trunc 57 | trimAll "-") -}}
{{- end -}}
{{- end -}}

{{- /* The volumes by name, each mounted at /name. */ -}}
{{- define "weir.volumes" -}}
{{- $volumes := dict -}}
{{- with include "weir.rules" . }}{{ $_ := set $volumes "rules" (dict "configMap" (dict "name" .)) }}{{ end -}}
{{- range list
    (list "tls" .Values.tls.secretName "")
    (list "redis-tls" .Values.redis.tls.caSecret "ca.crt")
    (list "redis-url" .Values.redis.urlSecret.name .Values.redis.urlSecret.key)
    (list "redis-auth" .Values.redis.authSecret.name .Values.redis.authSecret.key)
    (list "admin-token" .Values.adminToken.secretName .Values.adminToken.key) -}}
{{- $name := index . 0 }}{{ $secret := index . 1 }}{{ $key := index . 2 -}}
{{- if $secret -}}
{{- $source := dict "secretName" $secret "defaultMode" 288 -}}{{- /* 0440 */ -}}
{{- if $key }}{{ $_ := set $source "items" (list (dict "key" $key "path" $key)) }}{{ end -}}
{{- $_ := set $volumes $name (dict "secret" $source) -}}
{{- end -}}
{{- end -}}
{{- toJson $volumes -}}
{{- end -}}

{{- /* The variables that other values set: by name, the path of the chart's value and the variable's value. */ -}}
{{- define "weir.env" -}}
{{- $env := dict "DEBUG_HOST" (list "debug.service" (ternary "0.0.0.0" "127.0.0.1" .Values.debug.service)) -}}
{{- with .Values.redis.url }}{{ $_ := set $env "REDIS_URL" (list "redis.url" .) }}{{ end -}}
{{- with .Values.redis.urlSecret }}{{ if .name }}{{ $_ := set $env "REDIS_URL_FILE" (list "redis.urlSecret" (printf "/redis-url/%s" .key)) }}{{ end }}{{ end -}}
{{- with .Values.redis.authSecret }}{{ if .name }}{{ $_ := set $env "REDIS_AUTH_FILE" (list "redis.authSecret" (printf "/redis-auth/%s" .key)) }}{{ end }}{{ end -}}
{{- with .Values.redis.type }}{{ $_ := set $env "REDIS_TYPE" (list "redis.type" .) }}{{ end -}}
{{- if .Values.redis.tls.enabled }}{{ $_ := set $env "REDIS_TLS" (list "redis.tls.enabled" "true") }}{{ end -}}
{{- with .Values.redis.tls.caSecret }}{{ $_ := set $env "REDIS_TLS_CACERT" (list "redis.tls.caSecret" "/redis-tls/ca.crt") }}{{ end -}}
{{- if .Values.aiGateway.enabled -}}
{{- range $name, $value := dict "CONFIG_TYPE" "GRPC_XDS_SOTW" "CONFIG_GRPC_XDS_NODE_ID" "envoy-ai-gateway-ratelimit" "CONFIG_GRPC_XDS_SERVER_URL" .Values.aiGateway.controller -}}
{{- $_ := set $env $name (list "aiGateway.enabled" $value) -}}
{{- end -}}
{{- end -}}
{{- with .Values.failureMode }}{{ $_ := set $env "FAILURE_MODE" (list "failureMode" .) }}{{ end -}}
{{- if include "weir.rules" . }}{{ $_ := set $env "CONFIG_PATH" (list "rules" "/rules") }}{{ end -}}
{{- if .Values.tls.secretName -}}
{{- $_ := set $env "GRPC_SERVER_USE_TLS" (list "tls.secretName" "true") -}}
{{- $_ := set $env "GRPC_SERVER_TLS_CERT" (list "tls.secretName" "/tls/tls.crt") -}}
{{- $_ := set $env "GRPC_SERVER_TLS_KEY" (list "tls.secretName" "/tls/tls.key") -}}
{{- if .Values.tls.clientCertificates }}{{ $_ := set $env "GRPC_CLIENT_TLS_CACERT" (list "tls.clientCertificates" "/tls/ca.crt") }}{{ end -}}
{{- with .Values.tls.clientName }}{{ $_ := set $env "GRPC_CLIENT_TLS_SAN" (list "tls.clientName" .) }}{{ end -}}
{{- end -}}
{{- with .Values.adminToken.secretName }}{{ $_ := set $env "ADMIN_TOKEN_FILE" (list "adminToken.secretName" (printf "/admin-token/%s" $.Values.adminToken.key)) }}{{ end -}}
{{- toJson $env -}}
{{- end -}}

{{- /* All variables by name: the value, or "" if it is in another object, and the chart's value that sets it. */ -}}
{{- define "weir.variables" -}}
{{- $variables := dict -}}
{{- range $name, $pair := include "weir.env" . | fromJson }}{{ $_ := set $variables $name (dict "value" (index $pair 1) "from" (index $pair 0)) }}{{ end -}}
{{- range $name, $value := .Values.env }}{{ $_ := set $variables $name (dict "value" (toString $value) "from" "env") }}{{ end -}}
{{- range .Values.extraEnv }}{{ $_ := set $variables .name (dict "value" (default "" .value) "from" "extraEnv" "elsewhere" (hasKey . "valueFrom")) }}{{ end -}}
{{- /* Like Weir, treat an empty variable as not set. */ -}}
{{- range $name, $variable := $variables }}{{ if not (or $variable.value $variable.elsewhere) }}{{ $_ := unset $variables $name }}{{ end }}{{ end -}}
{{- toJson $variables -}}
{{- end -}}

{{- /* The names of the settings, each between two `. */ -}}
{{- define "weir.settings" -}}
{{- regexFindAll "`[A-Z0-9_]+`" (.Files.Get "files/settings.md") -1 | join "" -}}
{{- end -}}

{{- define "weir.hasRedis" -}}
{{- $variables := include "weir.variables" . | fromJson -}}
{{- or (hasKey $variables "REDIS_URL") (hasKey $variables "REDIS_URL_FILE") | ternary "true" "" -}}
{{- end -}}

{{- define "weir.isXDS" -}}
{{- eq "GRPC_XDS_SOTW" (dig "CONFIG_TYPE" "value" "" (include "weir.variables" . | fromJson) | upper) | ternary "true" "" -}}
{{- end -}}
