package options

import (
	"strings"
	"testing"
)

func TestManyManagementClusters(t *testing.T) {
	good := "--feature-gates=management-clusters=true,managementv3-cluster=true"
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"as it should be":        {args: []string{good}},
		"without the gate":       {args: []string{"--management-clusters-namespace=of-nobody"}},
		"another namespace":      {args: []string{good, "--management-clusters-namespace=elsewhere"}},
		"a path":                 {args: []string{good, "--management-clusters-namespace=a/b"}, want: "must be the name of a namespace"},
		"v1":                     {args: []string{"--feature-gates=management-clusters=true"}, want: "gate management-clusters needs gate managementv3-cluster"},
		"an edge":                {args: []string{good + ",remote-rancher=true"}, want: "gate remote-rancher cannot be used with gate management-clusters"},
		"OCI":                    {args: []string{good + ",oci-cluster-identity=true"}, want: "gate oci-cluster-identity cannot be used"},
		"cloud credentials":      {args: []string{good + ",oci-credential-translation=true"}, want: "gate oci-credential-translation cannot be used"},
		"claims":                 {args: []string{good + ",host-claim=true"}, want: "gate host-claim cannot be used"},
		"claims of Machines":     {args: []string{good + ",host-claim-machines=true"}, want: "gate host-claim-machines cannot be used"},
		"fleet":                  {args: []string{good + ",fleet=true"}, want: "gate fleet cannot be used"},
		"members":                {args: []string{good + ",rancher-cluster-members=true"}, want: "gate rancher-cluster-members cannot be used"},
		"isolated":               {args: []string{good, "--namespace=a"}, want: "--namespace cannot be used with gate management-clusters"},
		"all but some":           {args: []string{good, "--excluded-namespace=a"}, want: "--excluded-namespace cannot be used"},
		"namespaces by labels":   {args: []string{good, "--namespace-selector=a=b"}, want: "--namespace-selector cannot be used"},
		"adoption":               {args: []string{good, "--adopt-turtles"}, want: "--adopt-turtles cannot be used"},
		"Turtles is parked":      {args: []string{good, "--turtles-parked"}, want: "--turtles-parked cannot be used"},
		"CAPI Clusters by label": {args: []string{good, "--watch-filter=mine", "--import-selector=env=prod"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := parse(t, tc.args...).validateHub()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
