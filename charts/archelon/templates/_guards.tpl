{{/*
What cannot work is refused before anything is changed. A field of the schema cannot say it.
*/}}
{{- define "archelon.guards" -}}
{{- if and .Values.namespaces (not (include "archelon.namespaces" . | fromJson).names) }}
{{- fail "namespaces: every one of them is in excludedNamespaces too, so there is nothing to work in" }}
{{- end }}
{{- $ports := list 9440 }}
{{- if .Values.metrics.enabled }}{{ $ports = append $ports (int .Values.metrics.port) }}{{ end }}
{{- if .Values.webhook.enabled }}{{ $ports = append $ports (int .Values.webhook.port) }}{{ end }}
{{- if ne (len $ports) (len (uniq $ports)) }}
{{- fail "metrics.port and webhook.port must differ from each other and from 9440, the port of the probes" }}
{{- end }}
{{- if not (include "archelon.isolated" .) }}
{{- /* The RoleBindings of an isolated instance are held by a finalizer, which nobody would take off after the upgrade. */}}
{{- $binding := lookup "rbac.authorization.k8s.io/v1" "ClusterRoleBinding" "" (printf "%s-isolated" (include "archelon.clusterName" .)) }}
{{- if and $binding (eq (dig "annotations" "meta.helm.sh/release-name" "" $binding.metadata) .Release.Name) }}
{{- fail "this release works in named namespaces and cannot be upgraded to one that works in all: uninstall it and install it again. Clusters stay imported and connected" }}
{{- end }}
{{- range (lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" "").items }}
{{- if eq (dig "labels" "archelon.io/scope" "" .metadata) "central" }}
{{- $filter := dig "labels" "archelon.io/watch-filter" "" .metadata }}
{{- $release := dig "annotations" "meta.helm.sh/release-name" "" .metadata }}
{{- $namespace := dig "annotations" "meta.helm.sh/release-namespace" "" .metadata }}
{{- $own := and (eq $release $.Release.Name) (eq $namespace $.Release.Namespace) }}
{{- if and (not $own) (or (eq $filter $.Values.watchFilter) (not $filter) (not $.Values.watchFilter)) }}
{{- fail (printf "release %s in namespace %s already works in all namespaces that are not excluded there%s: set namespaces, or a watchFilter on both, or uninstall it" $release $namespace (ternary (printf ", on Clusters with watch filter %s" $filter) "" (ne $filter ""))) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
