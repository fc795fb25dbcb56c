package kubeconfig

import (
	"errors"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/archelon-io/archelon/providers/capi/problem"
)

const (
	ofSecret  = "archelon.io/kubeconfig-secret"
	ofContext = "archelon.io/kubeconfig-context"
)

func TestOf(t *testing.T) {
	for name, tc := range map[string]struct {
		secret, context string
		// want is Secret, key, context, and the cluster that the Secret has to name.
		want []string
	}{
		"Nothing":       {want: []string{"prod-kubeconfig", "value", "", ""}},
		"Secret":        {secret: "tenant-admin", want: []string{"tenant-admin", "value", "", "prod"}},
		"Key":           {secret: "a.b/admin.conf", want: []string{"a.b", "admin.conf", "", "prod"}},
		"OfTheContract": {secret: "prod-kubeconfig/admin.conf", want: []string{"prod-kubeconfig", "admin.conf", "", ""}},
		"OfAnother":     {secret: "other-kubeconfig", want: []string{"other-kubeconfig", "value", "", "prod"}},
		"Context":       {context: "arn:aws:eks:eu:1/prod", want: []string{"prod-kubeconfig", "value", "arn:aws:eks:eu:1/prod", ""}},
		"LongContext":   {context: strings.Repeat("x", 253), want: []string{"prod-kubeconfig", "value", strings.Repeat("x", 253), ""}},
		"OtherSpace":    {secret: "kube-system/a/b"},
		"Capitals":      {secret: "Prod"},
		"Above":         {secret: "../a"},
		"NoKey":         {secret: "a/"},
		"NoName":        {secret: "/a"},
		"KeyOfNone":     {secret: "a/.."},
		"LongName":      {secret: strings.Repeat("a", 254)},
		"LongKey":       {secret: "a/" + strings.Repeat("a", 254)},
		"TooLong":       {context: strings.Repeat("x", 254)},
		"TwoLines":      {context: "a\nb"},
		"Escapes":       {context: "a\u009bb"},
	} {
		cluster := &metav1.ObjectMeta{Namespace: "tenant-a", Name: "prod", Annotations: map[string]string{ofSecret: tc.secret, ofContext: tc.context}}
		from, err := Of(cluster)
		if tc.want == nil {
			if p, ok := errors.AsType[*problem.Problem](err); !ok || p.Kind != problem.KindStall || p.Reason != InvalidSettingReason {
				t.Errorf("%s: got %v", name, err)
			}
			if err != nil && strings.Contains(err.Error(), tc.secret+tc.context) {
				t.Errorf("%s: the message quotes the annotation: %v", name, err)
			}
			continue
		}
		got := []string{from.Secret.Name, from.Key, from.Context, from.Cluster}
		if err != nil || from.Secret.Namespace != "tenant-a" || !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v in %s, %v, want %v", name, got, from.Secret.Namespace, err, tc.want)
		}
	}
}

func TestClustersOf(t *testing.T) {
	for name, tc := range map[string]struct {
		secret, label string
		want          []string
	}{
		"Usual":     {"prod-kubeconfig", "prod", []string{"prod"}},
		"NoLabel":   {"prod-kubeconfig", "", []string{"prod"}},
		"Another":   {"tenant-admin", "prod", []string{"prod"}},
		"OfTwo":     {"other-kubeconfig", "prod", []string{"prod", "other"}},
		"Nobody":    {"tenant-admin", "", nil},
		"NoCluster": {"-kubeconfig", "", nil},
	} {
		secret := &metav1.ObjectMeta{Namespace: "a", Name: tc.secret}
		if tc.label != "" {
			secret.Labels = map[string]string{"cluster.x-k8s.io/cluster-name": tc.label}
		}
		var want []types.NamespacedName
		for _, cluster := range tc.want {
			want = append(want, types.NamespacedName{Namespace: "a", Name: cluster})
		}
		if got := ClustersOf(secret); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}
