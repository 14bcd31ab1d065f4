{{/*
Whether the admission policies are installed: "true" or nothing. Helm knows the kinds of the API server that it installs
on. Without one (helm template) it knows none, not even Pod, and the policies are rendered: every server since 1.30 has them.
Off without quotes is false in YAML.
*/}}
{{- define "operator.admission" -}}
{{- $known := .Capabilities.APIVersions -}}
{{- $missing := and ($known.Has "v1/Pod") (not ($known.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy")) -}}
{{- if not (or $missing (has .Values.fleet.enforcement (list "Off" false))) -}}
true
{{- end -}}
{{- end -}}

{{/* The policies' names, which are their bindings' too, joined by commas; nothing where they are not installed. */}}
{{- define "operator.policies" -}}
{{- $names := list -}}
{{- if include "operator.admission" . -}}
{{- range list "tolerations" "node-names" "bindings" "nodes" "limits" -}}
{{- $names = append $names (printf "%s-%s" (include "operator.name" $) .) -}}
{{- end -}}
{{- end -}}
{{- join "," $names -}}
{{- end -}}

{{/* Who the operator is in requests. */}}
{{- define "operator.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "operator.serviceAccount" . }}
{{- end -}}

{{/* The namespaces whose pods may run anywhere, joined by commas. */}}
{{- define "operator.systemNamespaces" -}}
{{- concat (list "kube-system" .Release.Namespace) .Values.fleet.systemNamespaces | uniq | join "," -}}
{{- end -}}

{{/* Selects all other namespaces. */}}
{{- define "operator.otherNamespaces" -}}
matchExpressions:
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values: {{ include "operator.systemNamespaces" . | splitList "," | toJson }}
{{- end -}}

{{/* The parameters of a binding: the operator keeps one index for each SlurmCluster. Where there is none, nothing is owned. */}}
{{- define "operator.indexes" -}}
paramRef:
  namespace: {{ .Release.Namespace }}
  selector:
    matchLabels:
      slurmcluster.dev/fleet-index: "true"
  parameterNotFoundAction: Allow
{{- end -}}

{{/* CEL: the pod is not a kubelet's image of a static pod, which runs whatever the API server says. */}}
{{- define "operator.notStatic" -}}
!("system:nodes" in request.userInfo.?groups.orValue([])
&& "kubernetes.io/config.mirror" in object.metadata.?annotations.orValue({}))
{{- end -}}

{{/* CEL: the pod asks for GPUs, as an extended resource or by a claim. */}}
{{- define "operator.gpus" -}}
object.spec.?resourceClaims.orValue([]).size() > 0
|| (dyn(object.spec.containers) + dyn(object.spec.?initContainers.orValue([]))).exists(c,
[c.?resources.?requests.orValue({}), c.?resources.?limits.orValue({})].exists(asked, asked.exists(resource,
{{ toJson .Values.fleet.gpuResources }}.exists(prefix, resource.startsWith(prefix)))))
{{- end -}}

{{/*
What is refused of pods on owned nodes, for a policy with the variable "node", and the indexes as parameters: one for each
SlurmCluster, with the nodes that it has. A pod of a DaemonSet is known by its name: that of the DaemonSet (cut, where it
is long), a dash, and five characters.
*/}}
{{- define "operator.placement" -}}
- name: cluster
  expression: params.metadata.?annotations["slurmcluster.dev/cluster"].orValue("")
- name: slurmd
  expression: >-
    variables.cluster.startsWith(request.namespace + "/")
    && object.metadata.name.matches(params.metadata.?annotations["slurmcluster.dev/slurmd-pods"].orValue("^$"))
- name: stem
  expression: >-
    object.metadata.name.size() < 7 ? "" : object.metadata.name.substring(0, object.metadata.name.size()
    - (object.metadata.name.charAt(object.metadata.name.size() - 6) == "-" ? 6 : 5))
- name: daemonName
  expression: >-
    params.?data.daemonSets.orValue("").contains("\n" + request.namespace + "." + variables.stem + "\n")
{{- end -}}

{{- define "operator.placementValidation" -}}
- expression: >-
    !params.?data.nodes.orValue("").contains("\n" + variables.node + "\n") || variables.slurmd || variables.daemon
  reason: Forbidden
  messageExpression: >-
    "node " + variables.node + " belongs to the Slurm cluster " + variables.cluster + ": only its slurmd pods, and pods of
    DaemonSets that ask for no GPU, may run there. Keep pod " + object.metadata.name + " off such nodes (nodeAffinity:
    slurmcluster.dev/owner DoesNotExist), or have an administrator take the node back: kubectl label node " +
    variables.node + " slurmcluster.dev/fleet-"
{{- end -}}
