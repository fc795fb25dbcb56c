package importer

import (
	"strings"
	"testing"
)

func TestChosen(t *testing.T) {
	const key = "cluster-api.cattle.io/rancher-auto-import"
	label := func(value string) map[string]string { return map[string]string{key: value} }
	tests := map[string]struct {
		reason             string
		cluster, namespace map[string]string
		want               choice
		wantErr            string
	}{
		"Nothing":             {reason: "no label leaves things as they are", want: leave},
		"Cluster":             {reason: "the cluster asks", cluster: label("true"), want: include},
		"Namespace":           {reason: "the namespace asks for all its clusters", namespace: label("true"), want: include},
		"ClusterWins":         {reason: "the cluster's label comes first", cluster: label("false"), namespace: label("true"), want: exclude},
		"ClusterWinsToo":      {reason: "the cluster's label comes first", cluster: label("true"), namespace: label("false"), want: include},
		"NamespaceFalse":      {reason: "a namespace can un-import", namespace: label("false"), want: exclude},
		"OtherSpelling":       {reason: "booleans are read as Go reads them, as in Rancher Turtles", cluster: label("T"), want: include},
		"Unparsable":          {reason: "never silently false", cluster: label("yes"), namespace: label("true"), wantErr: `on the Cluster is "yes"`},
		"UnparsableNamespace": {reason: "the message says where", namespace: label("on"), wantErr: `on the Namespace is "on"`},
		"Empty":               {reason: "an empty value is not a boolean", cluster: label(""), wantErr: `is ""`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := chosen(tc.cluster, tc.namespace)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("%s: got error %v, want one with %q", tc.reason, err, tc.wantErr)
				}
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("%s: got %v, %v, want %v", tc.reason, got, err, tc.want)
			}
		})
	}
}
