package importer

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/archelon-io/archelon/internal/outcome"
)

func testCluster(change ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "prod", UID: "uid-1", Generation: 3}}
	for _, c := range change {
		c(cluster)
	}
	return cluster
}

func annotated(key, value string) func(*clusterv1.Cluster) {
	return func(c *clusterv1.Cluster) {
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[key] = value
	}
}

func TestDesiredRecord(t *testing.T) {
	owner := func(more map[string]string) map[string]string {
		labels := map[string]string{
			"cluster-api.cattle.io/owned":                 "",
			"cluster-api.cattle.io/capi-cluster-owner":    "prod",
			"cluster-api.cattle.io/capi-cluster-owner-ns": "tenant",
			"archelon.io/capi-cluster-uid":                "uid-1",
		}
		maps.Copy(labels, more)
		return labels
	}
	fixed := func(more map[string]string) map[string]string {
		annotations := map[string]string{
			"field.cattle.io/no-creator-rbac":                "true",
			"rancher.io/imported-cluster-version-management": "false",
		}
		maps.Copy(annotations, more)
		return annotations
	}
	tests := map[string]struct {
		reason     string
		cluster    *clusterv1.Cluster
		want       Desired
		wantReason string
		notIn      string
	}{
		"Plain": {
			reason:  "owner labels and the two fixed annotations are always there",
			cluster: testCluster(),
			want:    Desired{Name: "c-abcde", Labels: owner(nil), Annotations: fixed(nil)},
		},
		"Labels": {
			reason: "labels are copied, but for those that mean something to controllers",
			cluster: testCluster(func(c *clusterv1.Cluster) {
				c.Labels = map[string]string{
					"team": "blue", "cluster-api.cattle.io/rancher-auto-import": "true", "topology.cluster.x-k8s.io/owned": "",
					"archelon.io/capi-cluster-uid": "forged", "example.com/tier": "1",
				}
			}),
			want: Desired{
				Name: "c-abcde", Labels: owner(map[string]string{"team": "blue", "example.com/tier": "1"}),
				Annotations: fixed(map[string]string{"archelon.io/propagated-labels": "example.com/tier,team"}),
			},
		},
		"Settings": {
			reason: "annotations become settings, in a stable order",
			cluster: testCluster(
				annotated("archelon.io/agent-env", `{"NO_PROXY": "10.0.0.0/8", "HTTPS_PROXY": "http://p"}`),
				annotated("archelon.io/fleet-workspace", "blue"),
				annotated("archelon.io/external-fleet", "true"),
				annotated("cluster-api.cattle.io/cluster-description", "ours"),
			),
			want: Desired{
				Name: "c-abcde", Labels: owner(nil),
				Annotations: fixed(map[string]string{
					"provisioning.cattle.io/externally-managed": "true",
					"archelon.io/propagated-settings":           "archelon.io/agent-env,cluster-api.cattle.io/cluster-description,archelon.io/external-fleet",
				}),
				Description:    "ours",
				AgentEnv:       []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://p"}, {Name: "NO_PROXY", Value: "10.0.0.0/8"}},
				FleetWorkspace: "blue",
			},
		},
		"LongName": {
			reason:     "a label value holds 63 characters",
			cluster:    testCluster(func(c *clusterv1.Cluster) { c.Name = strings.Repeat("a", 64) }),
			wantReason: "NameTooLong",
		},
		"BadEnv": {
			reason:     "the message must not quote the value, which may hold a password",
			cluster:    testCluster(annotated("archelon.io/agent-env", "HTTPS_PROXY=http://user:hunter2@proxy")),
			wantReason: "InvalidSetting",
			notIn:      "hunter2",
		},
		"NestedEnv": {
			reason:     "values are strings",
			cluster:    testCluster(annotated("archelon.io/agent-env", "A: {B: C}")),
			wantReason: "InvalidSetting",
		},
		"BadEnvName": {
			reason:     "keys are names of variables",
			cluster:    testCluster(annotated("archelon.io/agent-env", `{"A=B": "C"}`)),
			wantReason: "InvalidSetting",
		},
		"BadWorkspace": {
			reason:     "a workspace is a namespace",
			cluster:    testCluster(annotated("archelon.io/fleet-workspace", "../x")),
			wantReason: "InvalidSetting",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := (Rules{}).desiredRecord(tc.cluster, "c-abcde")
			if tc.wantReason != "" {
				expectStall(t, err, tc.wantReason, tc.notIn)
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			tc.want.Cluster = tc.cluster
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: (-want +got)\n%s", tc.reason, diff)
			}
		})
	}
}

// expectStall asserts that the error is a stall with the reason, and that it does not show a secret.
func expectStall(t *testing.T, err error, reason, secret string) {
	t.Helper()
	var problem *outcome.Problem
	if !errors.As(err, &problem) || problem.Reason != reason || problem.Kind != outcome.KindStall {
		t.Fatalf("got %v, want a stall for %s", err, reason)
	}
	if secret != "" && strings.Contains(err.Error(), secret) {
		t.Errorf("the message shows %q: %s", secret, err)
	}
}

// Fleet brings what belongs to a workspace to all of its clusters, so a tenant must not choose just any.
func TestDesiredFleetWorkspace(t *testing.T) {
	for name, tc := range map[string]struct {
		workspace string
		allowed   []string
		refused   bool
	}{
		"None":       {"", nil, false},
		"Allowed":    {"blue", []string{"fleet-default", "blue"}, false},
		"Another":    {"red", []string{"fleet-default", "blue"}, true},
		"NobodyMay":  {"fleet-default", nil, true},
		"OfRancher":  {"fleet-local", []string{"fleet-default"}, true},
		"NotAPrefix": {"blue", []string{"blue-green"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := testCluster()
			if tc.workspace != "" {
				cluster = testCluster(annotated("archelon.io/fleet-workspace", tc.workspace))
			}
			got, err := Rules{FleetWorkspaces: tc.allowed}.desired(cluster, "c-abcde")
			if tc.refused {
				// It is the name of a workspace, which everybody reads who reads the condition.
				expectStall(t, err, "InvalidSetting", "cannot be shown")
				if want := fmt.Sprintf("the Fleet workspace %q is not allowed", tc.workspace); !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %s", err, want)
				}
				return
			}
			if err != nil || got.FleetWorkspace != tc.workspace {
				t.Errorf("got %q, %v, want %q", got.FleetWorkspace, err, tc.workspace)
			}
		})
	}
}
