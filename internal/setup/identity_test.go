package setup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/outcome"
)

// While nothing is known of identities, what is on OCI waits, and nothing else does.
func TestImportsOnOCIWaitForTheCachesOfIdentities(t *testing.T) {
	var joined principals
	cluster := &clusterv1.Cluster{}
	if _, err := joined.Permits(t.Context(), cluster); err != nil {
		t.Errorf("a cluster of another provider: got %v", err)
	}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "OCICluster", Name: "net"}
	_, err := joined.Permits(t.Context(), cluster)
	if problem, ok := errors.AsType[*outcome.Problem](err); !ok || problem.Kind != outcome.KindWait {
		t.Errorf("a cluster on OCI: got %v, want it to wait", problem)
	}
}

func TestTheImportIsToldWhatChanges(t *testing.T) {
	var joined principals
	net := types.NamespacedName{Namespace: "tenant", Name: "net"}
	joined.notify("OCICluster", net) // Nobody listens yet.
	var told []string
	joined.Subscribe(func(kind string, infrastructure types.NamespacedName) {
		told = append(told, kind+" "+infrastructure.String())
	})
	joined.notify("OCICluster", net)
	if strings.Join(told, ",") != "OCICluster tenant/net" {
		t.Errorf("got %v", told)
	}
}

func TestVerifier(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		reason string
		opts   options.Identity
		asks   bool
		says   string
	}{
		"Off":         {"nobody is asked", options.Identity{VerifyEndpoint: "nonsense"}, false, ""},
		"On":          {"OCI is asked", options.Identity{Verify: true, VerifyTimeout: time.Second}, true, ""},
		"Clusters":    {"OCI is asked about clusters", options.Identity{VerifyClusters: true, VerifyTimeout: time.Second}, true, ""},
		"NoFile":      {"the flag is named", options.Identity{Verify: true, VerifyCAFile: file + ".none"}, false, "--oci-verify-ca-file"},
		"NoAuthority": {"a file has to have some", options.Identity{Verify: true, VerifyCAFile: file}, false, "no certificate"},
		"NoURL":       {"it has to be HTTPS", options.Identity{Verify: true, VerifyEndpoint: "http://a"}, false, "https"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := newVerifier(tc.opts)
			if (got != nil) != tc.asks || (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: got %t, %v", tc.reason, got != nil, err)
			}
		})
	}
}
