{{/*
What cannot work is refused before anything is changed. A field of the schema cannot say it.
*/}}
{{- define "archelon.guards" -}}
{{- if and .Values.namespaces (not (include "archelon.namespaces" . | fromJson).names) }}
{{- fail "namespaces: every one of them is in excludedNamespaces too, so there is nothing to work in" }}
{{- end }}
{{- $strict := semverCompare "<1.36.0-0" .Capabilities.KubeVersion.Version }}
{{- if and $strict .Values.metrics.enabled (regexMatch "^[0-9]" (include "archelon.fullname" .)) }}
{{- fail (printf "before Kubernetes 1.36 the name of a Service cannot begin with a digit, as %s does: set fullnameOverride, or choose another name of the release" (include "archelon.fullname" .)) }}
{{- end }}
{{- if and .Values.metrics.enabled (eq (int .Values.metrics.port) 9440) }}
{{- fail "metrics.port must differ from 9440, the port of the probes" }}
{{- end }}
{{- include "archelon.roleGuards" . }}
{{- include "archelon.importGuards" . }}
{{- include "archelon.selectorGuards" . }}
{{- include "archelon.credentialGuards" . }}
{{- if and (index .Values.features "host-claim-machines").enabled (not (index .Values.features "host-claim").enabled) }}
{{- fail "features.host-claim-machines needs features.host-claim, which gives hosts to the claims of Machines: enable both" }}
{{- end }}
{{- include "archelon.memberGuards" . }}
{{- include "archelon.remoteGuards" . }}
{{- include "archelon.monitoringGuards" . }}
{{- include "archelon.blindGuards" . }}
{{- include "archelon.durationGuards" . }}
{{- $deployment := lookup "apps/v1" "Deployment" .Release.Namespace (include "archelon.fullname" .) }}
{{- $selected := dig "spec" "selector" "matchLabels" "app.kubernetes.io/name" (include "archelon.name" .) $deployment }}
{{- if ne $selected (include "archelon.name" .) }}
{{- fail (printf "Deployment %s selects Pods by other labels, which cannot be changed: set nameOverride to %s, or uninstall this release and install it again. Clusters stay imported and connected" (include "archelon.fullname" .) $selected) }}
{{- end }}
{{- range (lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" "").items }}
{{- $release := dig "annotations" "meta.helm.sh/release-name" "" .metadata }}
{{- $namespace := dig "annotations" "meta.helm.sh/release-namespace" "" .metadata }}
{{- $lease := dict "namespace" (dig "annotations" "archelon.io/coordination-namespace" "" .metadata) "instance" (dig "annotations" "archelon.io/instance" "" .metadata) }}
{{- $who := printf "release %s in namespace %s (ClusterRole %s)" $release $namespace .metadata.name }}
{{- if not $release }}
{{- $who = printf "the installation that ClusterRole %s belongs to, which another tool than Helm has made," .metadata.name }}
{{- end }}
{{- $role := dict "who" $who "lease" $lease "name" .metadata.name "own" (and (eq $release $.Release.Name) (eq $namespace $.Release.Namespace)) "release" $release "namespace" $namespace "filter" (dig "labels" "archelon.io/watch-filter" "" .metadata) "selector" (dig "annotations" "archelon.io/namespace-selector" "" .metadata) }}
{{- $scope := dig "labels" "archelon.io/scope" "" .metadata }}
{{- if eq $scope "isolated" }}{{ include "archelon.isolatedRoleGuards" (dict "role" $role "root" $) }}{{ end }}
{{- if eq $scope "central" }}{{ include "archelon.centralRoleGuards" (dict "role" $role "root" $) }}{{ end }}
{{- if has $scope (list "isolated" "central") }}{{ include "archelon.coordinationGuards" (dict "role" $role "root" $) }}{{ end }}
{{- end }}
{{- include "archelon.namespaceGuards" . }}
{{- $coordination := include "archelon.coordination" . }}
{{- if and (ne $coordination .Release.Namespace) (lookup "v1" "Namespace" "" "kube-system") (not (lookup "v1" "Namespace" "" $coordination)) }}
{{- fail (printf "leaderElection.namespace: namespace %s does not exist: create it, or name the one in which the Leases of the other releases are" $coordination) }}
{{- end }}
{{- end }}

{{- /* Without the import: what serves it would come to nothing, and what it holds would be stuck. */}}
{{- define "archelon.importGuards" -}}
{{- if not .Values.import.enabled }}
{{- range $name, $feature := .Values.features }}
{{- if and $feature.enabled (not (has $name (list "host-claim" "host-claim-machines"))) }}
{{- fail (printf "features.%s needs the import, and import.enabled is false: disable the feature, or enable the import" $name) }}
{{- end }}
{{- end }}
{{- if not (index .Values.features "host-claim").enabled }}
{{- fail "import.enabled is false and there is nothing else to do: enable features.host-claim, or the import" }}
{{- end }}
{{- $held := (include "archelon.held" (dict "except" list "root" .) | fromJson).clusters }}
{{- if $held }}
{{- fail (printf "import.enabled is false, and this release holds CAPI Clusters, for example %s: uninstall it and install it again without the import. Clusters stay imported and connected" (first $held)) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The manager would refuse to start. */}}
{{- define "archelon.selectorGuards" -}}
{{- range $value, $selector := dict "namespaceSelector" .Values.namespaceSelector "import.selector.labels" .Values.import.selector.labels "identity.credentials.allowedSelector" .Values.identity.credentials.allowedSelector }}
{{- if regexMatch `(^|[\s,])(not)?in\s*\(\s*(,\s*)*\)|!=\s*(,|$)` (default "" $selector) }}
{{- fail (printf "%s: %q has a set without a value, which selects everything: add the value, or leave the set out" $value $selector) }}
{{- end }}
{{- end }}
{{- if .Values.namespaceSelector }}
{{- range $name, $feature := .Values.features }}
{{- if and $feature.enabled (not (has $name (list "managementv3-cluster" "agent-manifest"))) }}
{{- fail (printf "namespaceSelector divides imports alone, and cannot be used with features.%s: use namespaces in its place" $name) }}
{{- end }}
{{- end }}
{{- end }}
{{- $names := (include "archelon.namespaces" . | fromJson).names }}
{{- range without .Values.import.selector.namespaces "*" }}
{{- if or (has . $.Values.excludedNamespaces) (and $.Values.namespaces (not (has . $names))) }}
{{- fail (printf "import.selector.namespaces: the release does not work in %s: take it out, or correct namespaces and excludedNamespaces" .) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Releases find each other by their Leases, and read those of one namespace only. The ClusterRole of each release says which one that is. */}}
{{- define "archelon.coordinationGuards" -}}
{{- $coordination := include "archelon.coordination" .root }}
{{- $other := .role.lease.namespace }}
{{- if and (not .role.own) $other (ne $other $coordination) }}
{{- fail (printf "the Lease of %s is in namespace %s, and that of this one would be in %s, so that they would not know of each other: set leaderElection.namespace to %s" .role.who $other $coordination $other) }}
{{- end }}
{{- if and (not .role.own) (eq $other $coordination) (eq .role.lease.instance (include "archelon.instance" .root)) }}
{{- fail (printf "%s is instance %s of namespace %s already, so that this one would be taken for a replica of it: set instance to another name" .role.who .role.lease.instance $other) }}
{{- end }}
{{- end }}

{{- /* Where the cluster cannot be asked, whoever renders has to say what the chart would find out. */}}
{{- define "archelon.blindGuards" -}}
{{- if include "archelon.blind" . }}
{{- if and .Values.uninstall.enabled (not .Values.uninstall.offline) }}
{{- fail "the chart is rendered without asking the cluster, so that the hook of the uninstallation is left out, and what this release holds would be stuck when the release is deleted: set uninstall.offline to true if it is applied by what runs Helm's pre-delete hooks (Argo CD from 3.3 on), or set uninstall.enabled to false and run \"archelon uninstall\" before you delete it. Helm's own --dry-run asks the cluster as --dry-run=server" }}
{{- end }}
{{- if and (include "archelon.isolated" .) (not .Values.leaderElection.namespace) }}
{{- fail "the chart is rendered without asking the cluster, so that it cannot see where the Leases of other releases are: set leaderElection.namespace to the namespace that is the same for all of them, that of this release if there is no other" }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Helm would refuse it too, without a word about what to do. */}}
{{- define "archelon.namespaceGuards" -}}
{{- range (include "archelon.namespaces" . | fromJson).names }}
{{- $binding := lookup "rbac.authorization.k8s.io/v1" "RoleBinding" . "archelon-isolated" }}
{{- $release := dig "metadata" "annotations" "meta.helm.sh/release-name" "" $binding }}
{{- $namespace := dig "metadata" "annotations" "meta.helm.sh/release-namespace" "" $binding }}
{{- $who := printf "release %s in namespace %s" $release $namespace }}
{{- if not $release }}
{{- range $binding.subjects }}{{ $who = printf "the installation of ServiceAccount %s in namespace %s, which another tool than Helm has made," .name .namespace }}{{ end }}
{{- end }}
{{- if and $binding (not (and (eq $release $.Release.Name) (eq $namespace $.Release.Namespace))) }}
{{- fail (printf "%s has RoleBinding archelon-isolated in namespace %s, and so works there alone, whatever the watchFilter: take %s out of namespaces of one of the two, or make central releases with a watchFilter each" $who . .) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The RoleBindings of an isolated instance are held by a finalizer, which its manager alone takes off, and their role cannot be changed. */}}
{{- define "archelon.isolatedRoleGuards" -}}
{{- if and .role.own (not (include "archelon.isolated" .root)) }}
{{- fail "this release works in named namespaces and cannot be upgraded to one that works in all: uninstall it and install it again. Clusters stay imported and connected" }}
{{- end }}
{{- if and .role.own (ne .role.name (include "archelon.clusterName" .root)) }}
{{- fail (printf "the objects of this release are called %s, and those of one that works in named namespaces cannot get other names: set fullnameOverride and nameOverride as they were, or uninstall it and install it again. Clusters stay imported and connected" .role.name) }}
{{- end }}
{{- end }}

{{- define "archelon.centralRoleGuards" -}}
{{- if and .role.own (include "archelon.isolated" .root) }}{{ include "archelon.heldElsewhereGuards" .root }}{{ end }}
{{- $filter := .root.Values.watchFilter }}
{{- $selector := .root.Values.namespaceSelector }}
{{- $divided := and $selector .role.selector (ne $selector .role.selector) }}
{{- if and (not .role.own) (not $divided) (not (include "archelon.isolated" .root)) (or (eq .role.filter $filter) (not .role.filter) (not $filter)) }}
{{- fail (printf "%s already works in all namespaces that are not excluded there%s: set namespaces, or a watchFilter or a namespaceSelector on both, or uninstall it" .role.who (ternary (printf ", on Clusters with watch filter %s" .role.filter) "" (ne .role.filter ""))) }}
{{- end }}
{{- end }}

{{- /* Cloud credentials are translated where somebody says, for whom somebody says. The manager would end at its start. */}}
{{- define "archelon.credentialGuards" -}}
{{- $set := .Values.identity.credentials }}
{{- if (index .Values.features "oci-credential-translation").enabled }}
{{- if not (index .Values.features "oci-cluster-identity").enabled }}
{{- fail "features.oci-credential-translation needs features.oci-cluster-identity, which says who uses an identity: enable both" }}
{{- end }}
{{- if or (not $set.namespace) (not (has $set.namespace .Values.identity.secretNamespaces)) }}
{{- fail "identity.credentials.namespace: name the namespace where identities are created for cloud credentials, and have it in identity.secretNamespaces as well" }}
{{- end }}
{{- if eq $set.namespace "cattle-global-data" }}
{{- fail "identity.credentials.namespace cannot be cattle-global-data, where the cloud credentials have their names: name another one" }}
{{- end }}
{{- $names := (include "archelon.namespaces" . | fromJson).names }}
{{- if or (and $names (not (has $set.namespace $names))) (has $set.namespace .Values.excludedNamespaces) }}
{{- fail (printf "identity.credentials.namespace: this release does not work in namespace %s: enable the feature in the one that does" $set.namespace) }}
{{- end }}
{{- if eq $set.allowAllNamespaces (or (not (empty $set.allowedNamespaces)) (ne $set.allowedSelector "")) }}
{{- fail "identity.credentials: say whose clusters may use the identities, with allowedNamespaces or allowedSelector, or with allowAllNamespaces, and not with both" }}
{{- end }}
{{- if and $set.allowAllNamespaces .Values.identity.refuseOpen }}
{{- fail "identity.credentials.allowAllNamespaces creates what identity.refuseOpen refuses: take one of them back" }}
{{- end }}
{{- end }}
{{- end }}

{{- /* What would come to nothing, or alert for ever. */}}
{{- define "archelon.monitoringGuards" -}}
{{- range list "serviceMonitor" "prometheusRule" "dashboard" }}
{{- if and (not $.Values.metrics.enabled) (index $.Values.metrics .).enabled }}
{{- fail (printf "metrics.%s is enabled and there are no metrics for it: set metrics.enabled to true, or metrics.%s.enabled to false" . .) }}
{{- end }}
{{- end }}
{{- $rule := .Values.metrics.prometheusRule }}
{{- if and $rule.enabled (not $rule.job) (not .Values.metrics.serviceMonitor.enabled) }}
{{- fail "metrics.prometheusRule is enabled without metrics.serviceMonitor, so ArchelonDown would fire for ever: enable the ServiceMonitor, or set metrics.prometheusRule.job to the label job that your own scrape configuration gives the metrics" }}
{{- end }}
{{- end }}

{{- /* The uninstaller of an isolated release has no rights elsewhere: nobody would let go of what a central one holds there. */}}
{{- define "archelon.heldElsewhereGuards" -}}
{{- $held := (include "archelon.held" (dict "except" (include "archelon.namespaces" . | fromJson).names "root" .) | fromJson).clusters }}
{{- if $held }}
{{- $more := ternary (printf " and %d more" (sub (len $held) 10)) "" (gt (len $held) 10) }}
{{- fail (printf "this release holds CAPI clusters outside of namespaces: %s%s: uninstall it and install it again. Clusters stay imported and connected" (slice $held 0 (min 10 (len $held)) | join ", ") $more) }}
{{- end }}
{{- end }}

{{- /* Returns the CAPI Clusters that the release holds, as JSON in field "clusters", without the namespaces in "except". Call it with "except" and "root". */}}
{{- define "archelon.held" -}}
{{- $instance := printf "%s/%s" (include "archelon.coordination" .root) (include "archelon.instance" .root) }}
{{- $held := list }}
{{- if .root.Capabilities.APIVersions.Has "cluster.x-k8s.io/v1beta2/Cluster" }}
{{- range (lookup "cluster.x-k8s.io/v1beta2" "Cluster" "" "").items }}
{{- $ours := eq (dig "annotations" "archelon.io/instance" "" .metadata) $instance }}
{{- if and $ours (has "archelon.io/rancher-import" (.metadata.finalizers | default list)) (not (has .metadata.namespace $.except)) }}
{{- $held = append $held (printf "%s/%s" .metadata.namespace .metadata.name) }}
{{- end }}
{{- end }}
{{- end }}
{{- dict "clusters" $held | toJson }}
{{- end }}

{{- /* Go durations, as nanoseconds: Sprig compares none, but adds them to a time. */}}
{{- define "archelon.nanoseconds" -}}
{{- $epoch := mustToDate "2006-01-02" "1970-01-01" }}
{{- ((mustDateModify . $epoch).Sub $epoch).Nanoseconds }}
{{- end }}

{{- /* Durations that depend on each other. With others the manager would end at its start. */}}
{{- define "archelon.durationGuards" -}}
{{- $election := .Values.leaderElection }}
{{- /* A Lease has whole seconds, and it is by the Lease that others go. */}}
{{- $lease := mul (div (include "archelon.nanoseconds" $election.leaseDuration) 1000000000) 1000000000 }}
{{- $renew := include "archelon.nanoseconds" $election.renewDeadline | int64 }}
{{- $retry := include "archelon.nanoseconds" $election.retryPeriod | int64 }}
{{- if le $lease $renew }}
{{- fail (printf "leaderElection: set leaseDuration (%s) to whole seconds, more than renewDeadline (%s), or another replica takes the Lease while the leader still works" $election.leaseDuration $election.renewDeadline) }}
{{- end }}
{{- if le (mulf $renew 1.0) (mulf $retry 1.2) }}
{{- fail (printf "leaderElection: set renewDeadline (%s) to more than 1.2 times retryPeriod (%s), or the leader gives up before it has tried a second time" $election.renewDeadline $election.retryPeriod) }}
{{- end }}
{{- end }}

{{/* A Rancher in another cluster. */}}
{{- define "archelon.remoteGuards" -}}
{{- if (index .Values.features "remote-rancher").enabled }}
{{- if not .Values.rancher.kubeconfigSecret }}
{{- fail "features.remote-rancher needs rancher.kubeconfigSecret: create a Secret with the kubeconfig of Rancher's cluster under key value in the namespace of the release, and name it" }}
{{- end }}
{{- if not (index .Values.features "managementv3-cluster").enabled }}
{{- fail "features.remote-rancher needs features.managementv3-cluster: a v1 Rancher cluster belongs into the namespace of its CAPI Cluster, which is in another cluster" }}
{{- end }}
{{- if or .Values.turtles.adopt (index .Values.features "oci-credential-translation").enabled }}
{{- fail "features.remote-rancher cannot be used with turtles.adopt or features.oci-credential-translation, which read what is in Rancher's own cluster" }}
{{- end }}
{{- if .Values.namespaces }}
{{- fail "features.remote-rancher cannot be used with namespaces yet: leave them out, or use excludedNamespaces" }}
{{- end }}
{{- if and .Values.uninstall.leaveRancher .Values.uninstall.deleteRancherClusters }}
{{- fail "uninstall.leaveRancher makes no request to Rancher: take uninstall.deleteRancherClusters out" }}
{{- end }}
{{- else if .Values.uninstall.leaveRancher }}
{{- fail "uninstall.leaveRancher is for features.remote-rancher: enable it, or leave the value out" }}
{{- else if .Values.rancher.kubeconfigSecret }}
{{- fail "rancher.kubeconfigSecret is for features.remote-rancher: enable it, or leave the Secret out" }}
{{- else if .Values.managementCluster.name }}
{{- fail "managementCluster.name is for features.remote-rancher: enable it, or leave the name out" }}
{{- end }}
{{- end }}

{{/* Members of Rancher clusters. */}}
{{- define "archelon.memberGuards" -}}
{{- if (index .Values.features "rancher-cluster-members").enabled }}
{{- if not (and .Values.members.roles .Values.members.principals) }}
{{- fail "features.rancher-cluster-members needs members.roles and members.principals: name what annotation archelon.io/members may ask for" }}
{{- end }}
{{- if (index .Values.features "remote-rancher").enabled }}
{{- fail "features.rancher-cluster-members cannot be used with features.remote-rancher yet: disable one of them" }}
{{- end }}
{{- else if or .Values.members.roles .Values.members.principals }}
{{- fail "members is for features.rancher-cluster-members: enable it, or leave them out" }}
{{- end }}
{{- end }}

{{/* A release keeps its role. With another one, Helm would remove what the release has now, and what that holds would stay behind. */}}
{{- define "archelon.roleGuards" -}}
{{- if eq .Values.role "rancher-side" }}
{{- if not .Values.import.enabled }}
{{- fail "import.enabled: the Rancher side of a management cluster is for its imports: leave the value out" }}
{{- end }}
{{- range (lookup "apps/v1" "Deployment" .Release.Namespace "").items }}
{{- if eq (dig "annotations" "meta.helm.sh/release-name" "" .metadata) $.Release.Name }}
{{- fail (printf "role: this release is a manager (Deployment %s), which Helm would remove without uninstalling it: leave role as it was, and install the Rancher side as a release of its own" .metadata.name) }}
{{- end }}
{{- end }}
{{- else }}
{{- range (lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" "").items }}
{{- if and (eq (dig "labels" "archelon.io/scope" "" .metadata) "edge") (eq (dig "annotations" "meta.helm.sh/release-name" "" .metadata) $.Release.Name) (eq (dig "annotations" "meta.helm.sh/release-namespace" "" .metadata) $.Release.Namespace) }}
{{- fail (printf "role: this release is the Rancher side of a management cluster (ClusterRole %s), which would lose its access to Rancher: leave role as it was, and install the manager as a release of its own" .metadata.name) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
