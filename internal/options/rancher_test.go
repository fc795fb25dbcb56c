package options

import (
	"strings"
	"testing"
)

func TestRancherElsewhere(t *testing.T) {
	good := []string{"--feature-gates=remote-rancher=true,managementv3-cluster=true", "--rancher-kubeconfig=archelon-system/rancher"}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"as it should be":  {args: good},
		"without the gate": {args: good[1:], want: "--rancher-kubeconfig is for gate remote-rancher"},
		"without a Secret": {args: good[:1], want: "must be NAMESPACE/NAME of a Secret"},
		"no namespace":     {args: []string{good[0], "--rancher-kubeconfig=rancher"}, want: "must be NAMESPACE/NAME of a Secret"},
		"a path":           {args: []string{good[0], "--rancher-kubeconfig=a/../b"}, want: "must be NAMESPACE/NAME of a Secret"},
		"v1":               {args: []string{"--feature-gates=remote-rancher=true", good[1]}, want: "gate remote-rancher needs gate managementv3-cluster"},
		"adoption":         {args: append([]string{"--adopt-turtles"}, good...), want: "--adopt-turtles cannot be used with gate remote-rancher"},
		"named":            {args: append([]string{"--management-cluster-name=east"}, good...)},
		"a name for none":  {args: []string{"--management-cluster-name=east"}, want: "--management-cluster-name is for gate remote-rancher"},
		"no name":          {args: append([]string{"--management-cluster-name=East 1"}, good...), want: "must be a DNS label"},
		"isolated":         {args: append([]string{"--namespace=a"}, good...), want: "cannot be used with --namespace yet"},
		"all but some":     {args: append([]string{"--excluded-namespace=a"}, good...)},
		"cloud credentials": {
			args: []string{good[0] + ",oci-cluster-identity=true,oci-credential-translation=true", good[1]},
			want: "gate oci-credential-translation reads what Rancher has in its own cluster",
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := parse(t, tc.args...).validateRancher()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
