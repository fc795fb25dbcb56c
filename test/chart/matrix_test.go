package chart_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/archelon-io/archelon/feature"
)

// choice is one of the ways to set something.
type choice struct {
	name string
	set  values
}

// features are what the matrix combines: any two choices of different features are together in some rendering. Each
// gate is a feature of its own.
func features(t *testing.T) [][]choice {
	t.Helper()
	all := [][]choice{
		{{"v1", values{}}, {"v3", values{"features": values{"managementv3-cluster": values{"enabled": true}}}}},
		{{"", values{}}, {"adopt", values{"turtles": values{"adopt": true, "parked": true}}}},
		{{"", values{"metrics": values{"enabled": false}}}, {"metrics", values{"metrics": values{
			"readers":        []any{values{"namespace": "monitoring", "name": "prometheus"}},
			"serviceMonitor": values{"enabled": true}, "prometheusRule": values{"enabled": true}, "dashboard": values{"enabled": true},
		}}}},
		{{"policy", values{}}, {"", values{"admissionPolicy": values{"enabled": false}}}},
		{{"", values{}}, {"networkpolicy", values{"networkPolicy": values{"enabled": true}}}},
		{{"pdb", values{}}, {"", values{"podDisruptionBudget": values{"enabled": false}}}},
		{
			{"central", values{}},
			{"excluding", values{"excludedNamespaces": []string{"watch3"}}},
			{"isolated", values{"namespaces": []string{"watch1", "watch2"}}},
		},
		{{"", values{}}, {"filter", values{"watchFilter": "blue"}}},
		{{"", values{}}, classLabels()},
	}
	for _, gate := range gates(t) {
		on := choice{wordOf(gate), values{"features": values{gate: values{"enabled": true}}}}
		if gate == string(feature.OCICredentialTranslation) { // It needs another one, and has to be told where and for whom.
			on.name += "-" + wordOf(string(feature.OCIClusterIdentity))
			on.set = on.set.merged(values{
				"features": values{string(feature.OCIClusterIdentity): values{"enabled": true}},
				"identity": values{"secretNamespaces": []string{"watch2"}, "credentials": values{"namespace": "watch2", "allowedNamespaces": []string{"a"}}},
			})
		}
		if gate == string(feature.HostClaimMachines) { // It needs another one.
			on.name += "-" + wordOf(string(feature.HostClaim))
			on.set = on.set.merged(values{"features": values{string(feature.HostClaim): values{"enabled": true}}})
		}
		if gate == string(feature.RancherClusterMembers) { // It has to be told what may be asked for.
			on.set = on.set.merged(values{"members": values{"roles": []any{"tenant-dev"}, "principals": []any{"okta_group://tenant-", "ldap_user://cn=a, ou=\"b\""}}})
		}
		all = append(all, []choice{{"", values{}}, on})
	}
	return all
}

// combinations returns as many of them as have any two choices of different features together, by a name
// made of those of the choices.
func combinations(features [][]choice) map[string]values {
	sizes := make([]int, len(features))
	for i, choices := range features {
		sizes[i] = len(choices)
	}
	all := map[string]values{}
	for _, row := range pairwise(sizes) {
		var words []string
		set := values{}
		for column, i := range row {
			choice := features[column][i]
			if choice.name != "" {
				words = append(words, choice.name)
			}
			set = set.merged(choice.set)
		}
		all[strings.Join(words, "-")] = set
	}
	return all
}

// everything sets what the matrix leaves alone.
func everything() values {
	selector := values{"namespaceSelector": values{"matchLabels": values{"kubernetes.io/metadata.name": "monitoring"}}}
	imports := values{
		"selector":           values{"labels": "env in (a,b)", "classes": []any{"quick", "classes/quick"}, "namespaces": []any{"*"}},
		"early":              "Always",
		"displayName":        "NamespaceName",
		"agentSettings":      []any{"tolerations", "node-affinity", "resources", "priority-class", "pod-disruption-budget", "private-registry", "registry-pull-secrets"},
		"agentDefaults":      values{"env": []any{values{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}}, "tolerations": []any{values{"operator": "Exists"}}},
		"clusterClassLabels": true,
		"unpropagatedLabels": []any{"owner", "example.com/*"}, "propagatedAnnotations": []any{"example.com/*"},
		"concurrency": 1000000, "workloadConcurrency": 1000000,
		"manifestMaxBytes": 1 << 30, "syncPeriod": "1h30s",
	}
	return values{
		"global":            values{"imagePullSecrets": []any{"everywhere"}, "cattle": values{"systemDefaultRegistry": "registry.example.com", "clusterId": "local"}, "anything": true},
		"image":             values{"digest": "sha256:" + strings.Repeat("0", 64), "pullPolicy": "Always"},
		"imagePullSecrets":  []any{values{"name": "pull"}},
		"instance":          "archelon1",
		"leaderElection":    values{"namespace": "coordination"},
		"import":            imports,
		"kubeAPI":           values{"qps": 1000000, "burst": 1000000},
		"proxy":             values{"https": "http://proxy:3128", "http": "http://proxy:3128", "allowLocalURLs": true},
		"extraEnv":          []any{values{"name": "GOGC", "value": "80"}, values{"name": "A", "valueFrom": values{"secretKeyRef": values{"name": "a", "key": "b"}}}},
		"extraArgs":         []any{"--profiler-address=localhost:6060"},
		"extraVolumes":      []any{values{"name": "ca", "configMap": values{"name": "ca", "items": []any{values{"key": "a", "path": "b"}}}}},
		"extraVolumeMounts": []any{values{"name": "ca", "mountPath": "/etc/ssl/certs", "readOnly": true}},
		"resources":         values{"limits": values{"cpu": 1.5, "memory": "1Gi", "example.com/device": 1}},
		"affinity": values{"podAntiAffinity": values{"requiredDuringSchedulingIgnoredDuringExecution": []any{
			values{"topologyKey": "kubernetes.io/hostname", "labelSelector": values{"matchExpressions": []any{values{"key": "a", "operator": "Exists"}}}},
		}}},
		"updateStrategy":            values{"rollingUpdate": values{"maxSurge": 0, "maxUnavailable": "50%"}},
		"tolerations":               []any{values{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}},
		"topologySpreadConstraints": []any{values{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}},
		"priorityClassName":         "system-cluster-critical",
		"commonLabels":              values{"team": "a"},
		"podLabels":                 values{"example.com/sidecar": "no"},
		"podAnnotations":            values{"a": "b"},
		"deploymentAnnotations":     values{"a": "b"},
		"podSecurityContext":        values{"fsGroup": 65532, "supplementalGroups": []int{1}},
		"serviceAccount":            values{"name": "other", "annotations": values{"a": "b"}},
		"podDisruptionBudget":       values{"maxUnavailable": "50%"},
		"metrics": values{
			"readers": []any{values{"namespace": "monitoring", "name": "prometheus"}},
			"serviceMonitor": values{
				"enabled": true, "interval": "1m30s", "scrapeTimeout": "30s", "labels": values{"release": "prometheus"},
				"relabelings":       []any{values{"sourceLabels": []string{"__meta_kubernetes_pod_node_name"}, "targetLabel": "node"}},
				"metricRelabelings": []any{values{"action": "drop", "sourceLabels": []string{"__name__"}, "regex": "go_.*"}},
			},
			"prometheusRule": values{"enabled": true, "labels": values{"release": "prometheus"}, "alertLabels": values{"team": "a"}},
			"dashboard":      values{"enabled": true, "namespace": "cattle-dashboards"},
		},
		"networkPolicy": values{
			"enabled": true, "metricsFrom": []any{selector, values{"ipBlock": values{"cidr": "10.0.0.0/24", "except": []string{"10.0.0.1/32"}}}},
			"egress": []any{values{"to": []any{selector}, "ports": []any{values{"port": 443, "protocol": "TCP", "endPort": 444}, values{"port": "dns"}}}},
		},
		"uninstall": values{"deleteRancherClusters": true, "resources": values{"limits": values{"cpu": "500m"}}},
	}
}

// foreign combines what the matrix has no room for, with what it could get in the way of: a ServiceAccount that is
// somebody else's, a release without the uninstaller, and one that works in its own namespace.
func foreign() [][]choice {
	account := values{"serviceAccount": values{"create": false, "name": "theirs"}}
	bare := values{"uninstall": values{"enabled": false}}
	return [][]choice{
		{{"ours", values{}}, {"theirs", account}, {"bare", bare}, {"theirs-bare", account.merged(bare)}},
		{{"v1", values{}}, {"v3", values{"features": values{"managementv3-cluster": values{"enabled": true}}}}},
		{{"metrics", values{}}, {"", values{"metrics": values{"enabled": false}}}},
		{
			{"central", values{}},
			{"isolated", values{"namespaces": []string{"watch1", "watch2"}}},
			{"isolated-own", values{"namespaces": []string{"watch1", "watch2", "archelon-system"}}},
		},
	}
}

// remote combines a Rancher in another cluster with what goes together with it.
func remote() [][]choice {
	on := values{"enabled": true}
	return [][]choice{
		{{wordOf(string(feature.RemoteRancher)), values{
			"features": values{string(feature.ManagementV3Cluster): on, string(feature.RemoteRancher): on}, "rancher": values{"kubeconfigSecret": "rancher"},
		}}},
		{{"metrics", values{}}, {"", values{"metrics": values{"enabled": false}}}},
		{{"central", values{}}, {"excluding", values{"excludedNamespaces": []string{"watch3"}}}},
		{{"", values{}}, {"bare", values{"uninstall": values{"enabled": false}}}},
		{{"", values{}}, classLabels()},
	}
}

// alone combines HostClaims without the import with what the import would get more permissions for, and with what goes
// together with them.
func alone() [][]choice {
	on := values{"enabled": true}
	return [][]choice{
		{{"alone-host_claim", values{"import": values{"enabled": false}, "features": values{string(feature.HostClaim): on}}}},
		{{"", values{}}, {"host_claim_machines", values{"features": values{string(feature.HostClaimMachines): on}}}},
		{{"metrics", values{}}, {"", values{"metrics": values{"enabled": false}}}},
		{{"central", values{}}, {"isolated", values{"namespaces": []string{"watch1", "watch2"}}}},
		{{"", values{}}, {"bare", values{"uninstall": values{"enabled": false}}}},
		{{"", values{}}, {"deleting", values{"uninstall": values{"deleteRancherClusters": true}, "planRole": true}}},
		{{"", values{}}, {"labelled", values{"import": values{"clusterClassLabels": true}}}},
	}
}

// classLabels have a permission of their own, in Rancher's cluster.
func classLabels() choice {
	return choice{"class_labels", values{"import": values{"clusterClassLabels": true}}}
}

// gates returns the names of what can be switched on besides the strategy of the import and where Rancher is.
func gates(t *testing.T) []string {
	t.Helper()
	all, err := feature.NewGates()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for gate := range all.GetAll() {
		if !strings.HasPrefix(string(gate), "All") && gate != feature.ManagementV3Cluster && gate != feature.RemoteRancher {
			names = append(names, string(gate))
		}
	}
	return sorted(names)
}

func TestMatrix(t *testing.T) {
	all := readPermissions(t)
	matrix := combinations(features(t))
	maps.Copy(matrix, combinations(foreign()))
	maps.Copy(matrix, combinations(remote()))
	maps.Copy(matrix, combinations(alone()))
	matrix["everything-v1-metrics"] = everything()
	seen := &manifests{unique: map[string]bool{}}
	t.Run("all", func(t *testing.T) {
		for name, set := range matrix {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				on := strings.Split(name, "-")
				rendered := objects(t, release{"archelon", "archelon-system"}, set)
				checkNames(t, rendered)
				checkPods(t, rendered, on)
				checkFlags(t, rendered)
				checkWildcards(t, rendered)
				checkRights(t, rendered, all, on)
				checkAccounts(t, rendered, on)
				seen.add(t, rendered)
			})
		}
	})
	t.Run("words", func(t *testing.T) {
		for name, cell := range words() {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				rendered := objects(t, cell.release, cell.set)
				checkNames(t, rendered)
				checkWords(t, rendered, cell)
				checkPods(t, rendered, nil)
				checkFlags(t, rendered)
				checkWildcards(t, rendered)
				seen.add(t, rendered)
			})
		}
	})
	t.Logf("note: %d renderings of combinations, %d different objects", len(matrix), len(seen.unique))
	seen.check(t)
}

// manifests are all different objects that were rendered.
type manifests struct {
	mutex  sync.Mutex
	unique map[string]bool
}

func (m *manifests) add(t *testing.T, rendered []*unstructured.Unstructured) {
	t.Helper()
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, object := range rendered {
		raw, err := object.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		m.unique[string(raw)] = true
	}
}

// check holds them against the schemas of Kubernetes and the Prometheus operator.
func (m *manifests) check(t *testing.T) {
	t.Helper()
	schemas, err := run(t.Context(), root, nil, "go", "run", "./hack/schemas")
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for manifest := range m.unique {
		fmt.Fprintf(&all, "---\n%s", manifest)
	}
	file := filepath.Join(t.TempDir(), "all.yaml")
	if err := os.WriteFile(file, all.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	location := filepath.Join(strings.TrimSpace(string(schemas)), "{{.Group}}", "{{.ResourceKind}}_{{.ResourceAPIVersion}}.json")
	if _, err := run(t.Context(), ".", nil, programs["kubeconform"], "-strict", "-schema-location", location, file); err != nil {
		t.Error(err)
	}
}
