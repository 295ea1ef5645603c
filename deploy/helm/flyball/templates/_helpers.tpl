{{/* The name of what the chart creates: that of the release. */}}
{{- define "flyball.name" -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "flyball.account" -}}
{{- .Values.serviceAccount.name | default (include "flyball.name" .) }}
{{- end }}

{{- define "flyball.selector" -}}
app.kubernetes.io/name: flyball
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "flyball.labels" -}}
{{ include "flyball.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "flyball.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* The ConfigMap with the policy. */}}
{{- define "flyball.policy" -}}
{{- .Values.policyConfigMap | default (printf "%s-policy" (include "flyball.name" .)) }}
{{- end }}

{{/* Whether the host replaces kube-controller-manager. */}}
{{- define "flyball.inPlace" -}}
{{- if eq .Values.mode "in-place" }}true{{ end }}
{{- end }}

{{/* Whether the host runs the cloud controllers, in place of a cloud-controller-manager. */}}
{{- define "flyball.cloud" -}}
{{- if eq .Values.mode "cloud" }}true{{ end }}
{{- end }}

{{/*
The manifests that `flyball rbac` prints, as a list in YAML. Helm creates the namespace and the host's account itself. The
host's bindings are for its account, whatever the release is named.
*/}}
{{- define "flyball.roles" -}}
{{- $objects := dict }}
{{- $texts := list }}
{{- if not (or (include "flyball.inPlace" .) (include "flyball.cloud" .)) }}
{{- $texts = append $texts (dict "host" true "text" (.Values.rbac.host | default (.Files.Get "files/host-roles.yaml"))) }}
{{- end }}
{{- range $name, $text := .Values.rbac.plugins }}
{{- $texts = append $texts (dict "host" false "text" $text) }}
{{- end }}
{{- range $printed := $texts }}
{{- range $document := regexSplit "(?m)^---\\s*$" $printed.text -1 }}
{{- $object := fromYaml $document }}
{{- if hasKey $object "Error" }}
{{- fail (printf "rbac.host and rbac.plugins are what `flyball rbac` prints, in YAML: %s" $object.Error) }}
{{- end }}
{{- if $object }}
{{- $kind := $object.kind }}
{{- $isOwnNamespace := and (eq $kind "Namespace") (eq $object.metadata.name $.Release.Namespace) }}
{{- $isOwnAccount := and (eq $kind "ServiceAccount") $printed.host }}
{{- if not (or $isOwnNamespace $isOwnAccount) }}
{{- if and $printed.host (hasSuffix "Binding" $kind) }}
{{- $account := dict "kind" "ServiceAccount" "name" (include "flyball.account" $) "namespace" $.Release.Namespace }}
{{- $_ := set $object "subjects" (list $account) }}
{{- end }}
{{- $_ := set $object.metadata "labels" (include "flyball.labels" $ | fromYaml) }}
{{- $key := printf "%s/%s/%s" $kind ($object.metadata.namespace | default "") $object.metadata.name }}
{{- $_ := set $objects $key $object }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- values $objects | toYaml }}
{{- end }}
