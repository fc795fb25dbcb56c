package kind

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/kind/pkg/cluster"
)

// listing is a docker program that has the containers of $state/names, in its order, with roles after which they are
// named, and writes down what is done to them.
const listing = `
case "$1" in
ps) cat "$state/names" ;;
inspect)
	case "$4" in
	*load-balancer) echo external-load-balancer ;;
	*control-plane*) echo control-plane ;;
	*) echo worker ;;
	esac ;;
*)
	echo "$@" >>"$state/calls"
	case "$*" in *stat*) echo 7 ;; esac
	cat >/dev/null ;;
esac
`

// found returns a cluster with the given containers.
func found(t *testing.T, names ...string) (c *Cluster, state string, err error) {
	t.Helper()
	state = fakeDocker(t, listing)
	write(t, filepath.Join(state, "names"), strings.Join(names, "\n")+"\n")
	c = &Cluster{Name: "dev", world: &World{provider: cluster.NewProvider(cluster.ProviderWithDocker())}}
	return c, state, c.findNodes()
}

func TestFindNodes(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		names   []string
		want    []string
		wantErr string
	}{
		"workers": {
			reason: "Workers may come first in the engine's list; a load balancer is no node of Kubernetes.",
			names:  []string{"dev-worker2", "dev-external-load-balancer", "dev-control-plane", "dev-worker"},
			want:   []string{"dev-worker2", "dev-control-plane", "dev-worker"},
		},
		"two control planes": {
			reason:  "Clusters that are kept may have been made with another configuration.",
			names:   []string{"dev-control-plane2", "dev-control-plane"},
			wantErr: "2 nodes of the role control-plane",
		},
		"none": {
			reason:  "A cluster whose containers somebody has removed has no node.",
			names:   []string{"dev-worker"},
			wantErr: "0 nodes of the role control-plane",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, err := found(t, tc.names...)
			if err != nil || tc.wantErr != "" {
				checkError(t, tc.reason, err, tc.wantErr)
				return
			}
			var got []string
			for _, node := range c.nodes {
				got = append(got, node.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nnodes: -want, +got:\n%s", tc.reason, diff)
			}
			if got := c.controlPlane.String(); got != "dev-control-plane" {
				t.Errorf("%s\nthe control plane is %s", tc.reason, got)
			}
		})
	}
}

// TestControlPlane checks that what belongs to the API server is looked for, and done, where it runs.
func TestControlPlane(t *testing.T) {
	c, state, err := found(t, "dev-worker", "dev-control-plane")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.AuditLog(0); err != nil {
		t.Error(err)
	}
	if size, err := c.AuditLogSize(); err != nil || size != 7 {
		t.Errorf("AuditLogSize(): %d, %v", size, err)
	}
	if err := c.Restart(t.Context()); err != nil {
		t.Error(err)
	}
	if err := c.Describe(&bytes.Buffer{}); err != nil {
		t.Error(err)
	}
	calls := strings.Split(strings.TrimSpace(read(t, filepath.Join(state, "calls"))), "\n")
	if len(calls) != 5 {
		t.Errorf("want 5 calls of docker, got %q", calls)
	}
	for _, call := range calls {
		if !strings.Contains(call, "dev-control-plane") {
			t.Errorf("docker %s: not on the node of the control plane", call)
		}
	}
}

func TestKill(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		node    string
		want    string
		wantErr string
	}{
		"worker": {
			reason: "Containers are killed where they run.",
			node:   "dev-worker",
			want:   "exec --privileged dev-worker ctr --namespace=k8s.io task kill --signal=SIGKILL 1234\n",
		},
		"unknown": {
			reason:  "A node that is none of the cluster's is said so.",
			node:    "elsewhere",
			wantErr: "elsewhere",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, state, err := found(t, "dev-worker", "dev-control-plane")
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(&corev1.Pod{ // the client says so if it does not arrive
					Spec:   corev1.PodSpec{NodeName: tc.node},
					Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "manager", ContainerID: "containerd://1234"}}},
				})
			}))
			defer server.Close()
			c.Config = &rest.Config{Host: server.URL}
			err = c.Kill(types.NamespacedName{Namespace: "a", Name: "b"})
			if err != nil || tc.wantErr != "" {
				checkError(t, tc.reason, err, tc.wantErr)
				return
			}
			if diff := cmp.Diff(tc.want, read(t, filepath.Join(state, "calls"))); diff != "" {
				t.Errorf("%s\ndocker: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
