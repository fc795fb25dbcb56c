{{/* Names. */}}

{{- define "archelon.name" -}}
{{- default .Chart.Name .Values.nameOverride }}
{{- end }}

{{- define "archelon.fullname" -}}
{{- $name := include "archelon.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride }}
{{- else if contains $name .Release.Name }}
{{- include "archelon.shortened" (dict "name" (.Release.Name | replace "." "-") "max" 40) }}
{{- else }}
{{- include "archelon.shortened" (dict "name" (printf "%s-%s" .Release.Name $name | replace "." "-") "max" 40) }}
{{- end }}
{{- end }}

{{/*
What has no namespace is called after both, so that releases of one name in two namespaces do not collide. There is no dot in the name of a
namespace, so the first one tells where it ends.
*/}}
{{- define "archelon.clusterName" -}}
{{- include "archelon.shortened" (dict "name" (printf "%s.%s" .Release.Namespace (include "archelon.fullname" .)) "max" 50) }}
{{- end }}

{{/* A name that is too long for its suffixes ends in a digest instead of losing what tells it from others. */}}
{{- define "archelon.shortened" -}}
{{- if gt (len .name) .max }}
{{- printf "%s-%s" (trunc (sub .max 9 | int) .name | trimSuffix "." | trimSuffix "-") (sha256sum .name | trunc 8) }}
{{- else }}
{{- .name }}
{{- end }}
{{- end }}

{{/* The namespace of the Leases of all instances. */}}
{{- define "archelon.coordination" -}}
{{- default .Release.Namespace .Values.leaderElection.namespace }}
{{- end }}

{{/* Beside the Leases of releases of other namespaces, the namespace is part of the name: these may be called the same. */}}
{{- define "archelon.instance" -}}
{{- if .Values.instance }}
{{- .Values.instance }}
{{- else if eq (include "archelon.coordination" .) .Release.Namespace }}
{{- include "archelon.fullname" . }}
{{- else }}
{{- include "archelon.shortened" (dict "name" (printf "%s-%s" .Release.Namespace (include "archelon.fullname" .)) "max" 50) }}
{{- end }}
{{- end }}

{{/* What tells other releases, and other revisions of this one, where its Lease is. */}}
{{- define "archelon.coordinationAnnotations" -}}
archelon.io/coordination-namespace: {{ include "archelon.coordination" . | quote }}
archelon.io/instance: {{ include "archelon.instance" . | quote }}
{{- end }}

{{- define "archelon.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "archelon.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name must name a ServiceAccount when serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "archelon.image" -}}
{{- $registry := .Values.global.cattle.systemDefaultRegistry | default .Values.image.registry }}
{{- with $registry }}{{ . | trimSuffix "/" }}/{{ end }}
{{- .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}
{{- else }}:{{ .Values.image.tag | default (printf "v%s" .Chart.AppVersion) }}
{{- end }}
{{- end }}

{{/* Whether the image cannot be there: "true" or nothing. It is the default, and the chart is not one of a release, which names the image that was pushed with it. */}}
{{- define "archelon.unpublished" -}}
{{- $default := and (eq .Values.image.registry "ghcr.io") (eq .Values.image.repository "archelon-io/archelon") (not .Values.image.tag) (not .Values.image.digest) (not .Values.global.cattle.systemDefaultRegistry) }}
{{- if and $default (not (index (default dict .Chart.Annotations) "archelon.io/image")) }}true{{ end }}
{{- end }}

{{/* The label job of the metrics in Prometheus: the name of the Service, with the ServiceMonitor. */}}
{{- define "archelon.job" -}}
{{- default (printf "%s-metrics" (include "archelon.fullname" .)) .Values.metrics.prometheusRule.job }}
{{- end }}

{{/* Labels. */}}

{{- define "archelon.selectorLabels" -}}
app.kubernetes.io/name: {{ include "archelon.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "archelon.labels" -}}
{{- $labels := dict "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_") "app.kubernetes.io/version" .Chart.AppVersion "app.kubernetes.io/managed-by" .Release.Service "app.kubernetes.io/part-of" "archelon" }}
{{- $labels = merge $labels (include "archelon.selectorLabels" . | fromYaml) (default dict .Values.commonLabels) }}
{{- toYaml $labels }}
{{- end }}

{{/* Whether this is an isolated instance: "true" or nothing. */}}
{{- define "archelon.isolated" -}}
{{- if .Values.namespaces }}true{{ end }}
{{- end }}

{{/* The namespaces of an isolated instance, as JSON in a field: those that are excluded are not among them. */}}
{{- define "archelon.namespaces" -}}
{{- $names := list }}
{{- range .Values.namespaces }}
{{- if not (has . $.Values.excludedNamespaces) }}{{ $names = append $names . }}{{ end }}
{{- end }}
{{- dict "names" ($names | uniq) | toJson }}
{{- end }}

{{/*
The namespaces of an isolated instance that can be given rights in now. Helm stops at an object whose namespace does not exist; the manager takes
a namespace up when it has the rights, with the next upgrade. Where there is no cluster to ask, as with "helm template", it is all of them.
*/}}
{{- define "archelon.grantedNamespaces" -}}
{{- $names := list }}
{{- $connected := lookup "v1" "Namespace" "" "kube-system" }}
{{- range (include "archelon.namespaces" . | fromJson).names }}
{{- $namespace := lookup "v1" "Namespace" "" . }}
{{- if or (not $connected) (and $namespace (not $namespace.metadata.deletionTimestamp)) }}{{ $names = append $names . }}{{ end }}
{{- end }}
{{- dict "names" $names | toJson }}
{{- end }}

{{/*
Whether the hook that uninstalls is rendered: "true" or nothing. Where there is no cluster to ask, as with "helm template", what is rendered is
mostly applied by something that does not know Helm's hooks, and would uninstall at once.
*/}}
{{- define "archelon.uninstalls" -}}
{{- if and .Values.uninstall.enabled (or .Values.uninstall.offline (lookup "v1" "Namespace" "" "kube-system")) }}true{{ end }}
{{- end }}

{{/*
Whether the chart is rendered for a certain cluster that cannot be asked, as Argo CD does it: "true" or nothing. Helm by itself does not know this group of
the API, which every cluster serves.
*/}}
{{- define "archelon.blind" -}}
{{- if and (.Capabilities.APIVersions.Has "apiregistration.k8s.io/v1") (not (lookup "v1" "Namespace" "" "kube-system")) }}true{{ end }}
{{- end }}

{{/* The flags that say what the instance works on. The manager and the uninstaller have them alike. */}}
{{- define "archelon.scopeArgs" -}}
{{- range .Values.namespaces }}
- --namespace={{ . }}
{{- end }}
{{- range .Values.excludedNamespaces }}
- --excluded-namespace={{ . }}
{{- end }}
{{- with .Values.watchFilter }}
- --watch-filter={{ . }}
{{- end }}
{{- end }}

{{/*
The Job that uninstalls. When it fails, its name and a reason such as DeadlineExceeded are all that Helm prints of it, so the name says where to read on.
It is a label of its Pods, of 63 characters at most, and the suffix has 29.
*/}}
{{- define "archelon.uninstallJob" -}}
{{- include "archelon.shortened" (dict "name" (include "archelon.fullname" .) "max" 34) }}-uninstall-see-helm-get-notes
{{- end }}

{{/*
The flags of the uninstaller. The Job has them, and NOTES.txt for whoever runs it elsewhere because no Pod can. Call it with "root" and the "namespace" of
the release, as it is to be written. Nothing in them has to be quoted for a shell: the schema lets names pass, and no other words.
*/}}
{{- define "archelon.uninstallArgs" -}}
{{- $namespace := .namespace }}
{{- with .root }}
- {{ printf "--instance=%s" (include "archelon.instance" .) | quote }}
- {{ printf "--instance-namespace=%s" $namespace | quote }}
- {{ printf "--leader-elect-namespace=%s" (include "archelon.coordination" .) | quote }}
- {{ printf "--deployment=%s" (include "archelon.fullname" .) | quote }}
{{- include "archelon.scopeArgs" . }}
{{- if not .Values.import.enabled }}
- --import=false
{{- end }}
{{- if (index .Values.features "host-claim").enabled }}
- --host-claims
{{- end }}
{{- if (index .Values.features "remote-rancher").enabled }}
- {{ printf "--rancher-kubeconfig=%s/%s" .Release.Namespace .Values.rancher.kubeconfigSecret | quote }}
- {{ printf "--rancher-namespace=%s" .Values.rancher.namespace | quote }}
{{- end }}
{{- if and .Values.import.enabled .Values.uninstall.deleteRancherClusters }}
- --delete-rancher-clusters
{{- end }}
{{- if .Values.uninstall.leaveRancher }}
- --leave-rancher
{{- end }}
- --yes
{{- end }}
{{- end }}

{{/* What the objects of a central release have in their names, so that there is one release for each: its filter, and a digest of its selector. */}}
{{- define "archelon.central" -}}
{{- $selector := "" }}
{{- with .Values.namespaceSelector }}{{ $selector = sha256sum . | trunc 8 }}{{ end }}
{{- list "central" .Values.watchFilter $selector | compact | join "-" }}
{{- end }}

{{/* What selects the namespaces that the instance works in, in an admission policy. */}}
{{- define "archelon.namespaceSelector" -}}
{{- $names := (include "archelon.namespaces" . | fromJson).names }}
{{- if or $names .Values.excludedNamespaces }}
namespaceSelector:
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: {{ ternary "In" "NotIn" (not (empty $names)) }}
      values: {{ ternary $names .Values.excludedNamespaces (not (empty $names)) | toJson }}
{{- else }}
namespaceSelector: {}
{{- end }}
{{- end }}

{{/* The flags that say what is imported, and what tenants may ask for. */}}
{{- define "archelon.importArgs" -}}
{{- if not .Values.import.enabled }}
- --import=false
{{- else }}
{{- with .Values.import.selector.labels }}
- {{ printf "--import-selector=%s" . | quote }}
{{- end }}
{{- with .Values.import.selector.classes }}
- --import-class={{ join "," . }}
{{- end }}
{{- with .Values.import.selector.namespaces }}
- {{ printf "--import-namespace=%s" (join "," .) | quote }}
{{- end }}
{{- if ne .Values.import.early "Never" }}
- --early-import={{ .Values.import.early }}
- --early-imports-per-namespace={{ .Values.import.earlyPerNamespace }}
{{- end }}
{{- if ne .Values.import.displayName "Name" }}
- --display-name={{ .Values.import.displayName }}
{{- end }}
{{- with .Values.import.agentSettings }}
- --agent-setting={{ join "," . }}
{{- end }}
{{- /* Kubernetes would put a variable of the container in place of $(NAME), and makes $ of $$. */}}
{{- range .Values.import.agentDefaults.env }}
- {{ printf "--agent-default-env=%s=%s" .name (default "" .value) | replace "$" "$$" | quote }}
{{- end }}
{{- with .Values.import.agentDefaults.tolerations }}
- {{ printf "--agent-default-tolerations=%s" (toJson .) | replace "$" "$$" | quote }}
{{- end }}
{{- with .Values.import.agentPodSecurity }}
- --agent-pod-security={{ . }}
{{- end }}
{{- if .Values.import.clusterClassLabels }}
- --cluster-class-labels
{{- end }}
{{- with .Values.import.unpropagatedLabels }}
- {{ printf "--unpropagated-label=%s" (join "," .) | quote }}
{{- end }}
{{- with .Values.import.propagatedAnnotations }}
- {{ printf "--propagated-annotation=%s" (join "," .) | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* The flags of features oci-cluster-identity and oci-credential-translation. */}}
{{- define "archelon.identityArgs" -}}
{{- if (index .Values.features "oci-cluster-identity").enabled }}
{{- with .Values.identity.secretNamespaces }}
- --oci-principal-secret-namespace={{ join "," . }}
{{- end }}
{{- with .Values.identity.trustedNamespaces }}
- --oci-trusted-identity-namespace={{ join "," . }}
{{- end }}
{{- if .Values.identity.refuseOpen }}
- --oci-refuse-open-identities
{{- end }}
{{- if .Values.identity.verify }}
- --oci-verify
{{- end }}
{{- if .Values.identity.verifyClusters }}
- --oci-verify-clusters
{{- with .Values.identity.verifyHosts }}
- --oci-verify-host={{ join "," . }}
{{- end }}
{{- end }}
{{- end }}
{{- if (index .Values.features "oci-credential-translation").enabled }}
{{- with .Values.identity.credentials }}
- --oci-credential-namespace={{ .namespace }}
{{- with .allowedNamespaces }}
- --oci-credential-allowed-namespace={{ join "," . }}
{{- end }}
{{- with .allowedSelector }}
- {{ printf "--oci-credential-allowed-selector=%s" . | quote }}
{{- end }}
{{- if .allowAllNamespaces }}
- --oci-credential-allow-all-namespaces
{{- end }}
{{- with .region }}
- --oci-credential-region={{ . }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Feature gates as the manager takes them. */}}
{{- define "archelon.gates" -}}
{{- $gates := list }}
{{- range $gate, $feature := .Values.features }}
{{- $gates = append $gates (printf "%s=%t" $gate $feature.enabled) }}
{{- end }}
{{- join "," $gates }}
{{- end }}

{{/*
Whether what a file of permissions is needed for is on: "true" or nothing. It is a feature, a feature without which the import does something, after a
minus, or one of four words. Call it with "when" and "root".
*/}}
{{- define "archelon.needed" -}}
{{- $features := .root.Values.features }}
{{- if not .when }}true
{{- else if eq .when "metrics" }}{{ if .root.Values.metrics.enabled }}true{{ end }}
{{- else if eq .when "import" }}{{ if .root.Values.import.enabled }}true{{ end }}
{{- else if eq .when "cluster-class-labels" }}{{ if and .root.Values.import.enabled .root.Values.import.clusterClassLabels }}true{{ end }}
{{- else if eq .when "isolated" }}{{ include "archelon.isolated" .root }}
{{- else if hasPrefix "-" .when }}{{ if and .root.Values.import.enabled (not (index $features (trimPrefix "-" .when)).enabled) }}true{{ end }}
{{- else if (index $features .when).enabled }}true
{{- end }}
{{- end }}

{{/*
Rules of a role: those parts of the files of permissions that are needed. Call it with "parts" and "root". If Rancher is in another cluster, the permissions
that are needed there are left out, and the role for Rancher's cluster ("rancher") has these alone.
*/}}
{{- define "archelon.rules" -}}
{{- $elsewhere := (index .root.Values.features "remote-rancher").enabled }}
{{- range $path, $_ := .root.Files.Glob "files/permissions/*.yaml" }}
{{- $file := $.root.Files.Get $path | fromYaml }}
{{- $side := ternary (ternary true false (eq true $file.rancher)) (not (and $elsewhere $file.rancher)) (eq true $.rancher) }}
{{- if and $side (include "archelon.needed" (dict "when" $file.when "root" $.root)) }}
{{- range $part := $.parts }}
{{- range index $file $part }}
{{- /* The permission to add clusters to a Fleet workspace names those that may be asked for. No names would stand for all. */}}
{{- if not (has "fleetworkspaces" .resources) }}
- {{ toYaml . | nindent 2 | trim }}
{{- else if $.root.Values.fleetWorkspaces }}
- {{ toYaml (set (deepCopy .) "resourceNames" $.root.Values.fleetWorkspaces) | nindent 2 | trim }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Rules of the Role in the coordination namespace. */}}
{{- define "archelon.leaseRules" -}}
# Those of all instances say who is alive and what it works on. A create cannot be limited to a name.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create, list, watch]
# The one that replicas take turns with.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ printf "%s-leader-election" (include "archelon.instance" .) | quote }}]
  verbs: [get, update]
{{- if (index .Values.features "remote-rancher").enabled }}
# By this one it remembers who it was in Rancher's cluster.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ printf "%s-rancher" (include "archelon.instance" .) | quote }}]
  verbs: [get, update]
{{- end }}
# Events about the Lease, which client-go writes to the core group.
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end }}

{{/* What the uninstaller needs there: whether the manager has stopped, who else is registered, because what another instance works on is left to it, and to end
the registration. */}}
{{- define "archelon.uninstallLeaseRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ printf "%s-leader-election" (include "archelon.instance" .) | quote }}]
  verbs: [delete, get]
{{- if (index .Values.features "remote-rancher").enabled }}
# Who it was in Rancher's cluster.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ printf "%s-rancher" (include "archelon.instance" .) | quote }}]
  verbs: [delete, get]
{{- end }}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [list]
{{- end }}

{{/* What the uninstaller needs to release HostClaims, and Secrets with the kubeconfigs of some. */}}
{{- define "archelon.uninstallClaimRules" -}}
{{- if (index .Values.features "host-claim").enabled }}
- apiGroups: [metal3.io]
  resources: [hostclaims]
  verbs: [list, patch]
# The admission policy lets those take finalizers off that may do this.
- apiGroups: [metal3.io]
  resources: [hostclaims/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [secrets]
  verbs: [list, patch]
{{- end }}
{{- end }}

{{- define "archelon.securityContext" -}}
allowPrivilegeEscalation: false
capabilities:
  drop:
    - ALL
readOnlyRootFilesystem: true
{{- end }}

{{/* What the garbage collector keeps below: the program takes nine tenths of it. Without a limit there is nothing to name. */}}
{{- define "archelon.memoryEnv" -}}
{{- if (default dict (default dict .).limits).memory }}
- name: ARCHELON_MEMORY_LIMIT
  valueFrom:
    resourceFieldRef:
      resource: limits.memory
{{- end }}
{{- end }}

{{/* Environment of both programs. */}}
{{- define "archelon.env" -}}
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
{{- $names := list }}
{{- range .Values.extraEnv }}{{ $names = append $names (upper .name) }}{{ end }}
{{- with .Values.extraEnv }}
{{- /* Before the proxies, whose URLs can name what is in it: $(PASSWORD). */}}
{{ toYaml . }}
{{- end }}
{{- with .Values.proxy.https }}
- name: HTTPS_PROXY
  value: {{ . | quote }}
{{- end }}
{{- with .Values.proxy.http }}
- name: HTTP_PROXY
  value: {{ . | quote }}
{{- end }}
{{- /* Whoever names a proxy: the API server is not behind it. */}}
{{- if and (or .Values.proxy.http .Values.proxy.https (has "HTTPS_PROXY" $names) (has "HTTP_PROXY" $names)) (not (has "NO_PROXY" $names)) }}
- name: NO_PROXY
  value: {{ list .Values.proxy.noProxy ".svc,.cluster.local,kubernetes.default,$(KUBERNETES_SERVICE_HOST)" | compact | join "," | quote }}
{{- end }}
{{- end }}

{{/* Where Pods are scheduled, of both programs. */}}
{{- define "archelon.scheduling" -}}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- $secrets := list }}
{{- range concat .Values.imagePullSecrets (default list .Values.global.imagePullSecrets) }}
{{- $secrets = append $secrets (dict "name" (ternary . (get (ternary dict . (kindIs "string" .)) "name") (kindIs "string" .))) }}
{{- end }}
{{- with uniq $secrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/*
The policy about Fleet Clusters. Call it with "name", "account", "root", and with "origin" if the account may only write Fleet Clusters of one management cluster.
*/}}
{{- define "archelon.fleetClusterPolicy" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ .name | quote }}
  labels:
    {{- include "archelon.labels" .root | nindent 4 }}
spec:
  # It judges nobody but this account, which can wait.
  failurePolicy: Fail
  matchConditions:
    - name: this-instance
      expression: {{ printf "request.userInfo.username == '%s'" .account | quote }}
  matchConstraints:
    matchPolicy: Equivalent
    namespaceSelector: {}
    objectSelector: {}
    resourceRules:
      - apiGroups: [fleet.cattle.io]
        apiVersions: ["*"]
        operations: [UPDATE]
        resources: [clusters]
        scope: Namespaced
  {{- .root.Files.Get "files/fleetcluster.yaml" | trim | nindent 2 }}
  {{- with .origin }}
    - expression: >-
        variables.labelsBefore[?'archelon.io/management-cluster'].orValue('') == '{{ . }}'
      reason: Forbidden
      message: this management cluster may only write Fleet Clusters that carry its UID in label archelon.io/management-cluster
  {{- end }}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name | quote }}
  labels:
    {{- include "archelon.labels" .root | nindent 4 }}
spec:
  policyName: {{ .name | quote }}
  validationActions: [Deny]
{{- end }}
