{{- define "cluster.name" -}}
{{- $name := .Values.name | default .Release.Name -}}
{{- if not (regexMatch "^[a-z]([a-z0-9-]{0,28}[a-z0-9])?$" $name) -}}
{{- fail (printf "name %q must be 1 to 30 lower-case letters, digits or '-', beginning with a letter: pods and Services are named after it" $name) -}}
{{- end -}}
{{- $fleet := printf "%s.%s" .Release.Namespace $name -}}
{{- if gt (len $fleet) 63 -}}
{{- fail (printf "%q is longer than 63 characters: nodes are granted by the label slurmcluster.dev/fleet with this value; choose a shorter name or namespace" $fleet) -}}
{{- end -}}
{{- $name -}}
{{- end -}}
