{{/* Names follow Kueue's: with fullnameOverride=kueue in the namespace kueue-system they are the same. */}}

{{- define "sluice.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "sluice.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "sluice.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "sluice.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "sluice.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride }}
{{- end }}

{{- define "sluice.selectorLabels" -}}
app.kubernetes.io/name: {{ include "sluice.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sluice.labels" -}}
{{ include "sluice.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "sluice.deployment" -}}
{{ include "sluice.fullname" . }}-controller-manager
{{- end }}

{{- define "sluice.serviceAccount" -}}
{{- if .Values.serviceAccount.name }}
{{- .Values.serviceAccount.name }}
{{- else if .Values.serviceAccount.create }}
{{- include "sluice.deployment" . }}
{{- else -}}
default
{{- end }}
{{- end }}

{{/* The name under which the API server knows the manager: its own writes need no webhook. */}}
{{- define "sluice.managerUser" -}}
{{- default (printf "system:serviceaccount:%s:%s" (include "sluice.namespace" .) (include "sluice.serviceAccount" .)) .Values.webhooks.managerUser }}
{{- end }}

{{- define "sluice.webhookService" -}}
{{- default (printf "%s-webhook-service" (include "sluice.fullname" .)) .Values.webhooks.serviceName }}
{{- end }}

{{- define "sluice.webhookSecret" -}}
{{- if .Values.certificates.existingSecret }}
{{- .Values.certificates.existingSecret }}
{{- else }}
{{- default (printf "%s-webhook-server-cert" (include "sluice.fullname" .)) .Values.certificates.secretName }}
{{- end }}
{{- end }}

{{- define "sluice.validatingConfiguration" -}}
{{ include "sluice.fullname" . }}-validating-webhook-configuration
{{- end }}

{{- define "sluice.mutatingConfiguration" -}}
{{ include "sluice.fullname" . }}-mutating-webhook-configuration
{{- end }}

{{- define "sluice.image" -}}
{{- $i := .Values.image -}}
{{- if $i.digest -}}
{{ $i.repository }}{{ with $i.tag }}:{{ . }}{{ end }}@{{ $i.digest }}
{{- else -}}
{{ $i.repository }}:{{ default .Chart.AppVersion $i.tag }}
{{- end }}
{{- end }}

{{/* A JSON list: the namespaces whose objects never wait for us. */}}
{{- define "sluice.excludedNamespaces" -}}
{{- concat (list "kube-system" (include "sluice.namespace" .)) .Values.webhooks.excludedNamespaces | uniq | toJson }}
{{- end }}

{{/* The whole configuration of the manager, as YAML: what the chart knows, with .Values.config over it. */}}
{{- define "sluice.config" -}}
{{- $selector := dict "matchExpressions" (list (dict "key" "kubernetes.io/metadata.name" "operator" "NotIn" "values" (include "sluice.excludedNamespaces" . | fromJsonArray))) -}}
{{- $base := dict
      "apiVersion" "config.kueue.x-k8s.io/v1beta2"
      "kind" "Configuration"
      "namespace" (include "sluice.namespace" .)
      "health" (dict "healthProbeBindAddress" (printf ":%d" (int .Values.ports.health)))
      "metrics" (dict "bindAddress" (printf ":%d" (int .Values.ports.metrics)) "enableClusterQueueResources" true)
      "webhook" (dict "port" (int .Values.ports.webhook))
      "leaderElection" (dict "leaderElect" true "resourceName" "c1f6bfd2.kueue.x-k8s.io")
      "internalCertManagement" (dict "enable" (not .Values.certificates.existingSecret) "webhookServiceName" (include "sluice.webhookService" .) "webhookSecretName" (include "sluice.webhookSecret" .))
      "managedJobsNamespaceSelector" $selector
      "integrations" (dict "frameworks" (list "batch/job")) -}}
{{- if .Values.certificates.existingSecret -}}
{{- $_ := set $base.webhook "certDir" "/etc/sluice/certs" -}}
{{- end -}}
{{- $over := deepCopy .Values.config -}}
{{- if hasKey $over "managedJobsNamespaceSelector" -}}
{{- $_ := unset $base "managedJobsNamespaceSelector" -}}
{{- end -}}
{{- toYaml (mergeOverwrite $base $over) }}
{{- end }}

{{- define "sluice.leaseName" -}}
{{- $config := include "sluice.config" . | fromYaml -}}
{{- $config.leaderElection.resourceName }}
{{- end }}

{{/* clientConfig of one webhook; call with (dict "root" $ "path" "/x"). The manager writes the CA bundle, unless one is given. */}}
{{- define "sluice.clientConfig" -}}
service:
  name: {{ include "sluice.webhookService" .root }}
  namespace: {{ include "sluice.namespace" .root }}
  path: {{ .path }}
  port: 443
{{- with .root.Values.certificates.caBundle }}
caBundle: {{ . }}
{{- end }}
{{- end }}

{{- define "sluice.namespaceSelector" -}}
matchExpressions:
- key: kubernetes.io/metadata.name
  operator: NotIn
  values: {{ include "sluice.excludedNamespaces" . }}
{{- end }}
