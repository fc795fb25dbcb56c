package capi

import (
	"encoding/base64"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
)

// secret returns a Secret beside the Clusters of a fleet, with CAPI's label if there is a cluster.
func secret(name, cluster, text string) *corev1.Secret {
	made := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string][]byte{"admin.conf": []byte(text)},
	}
	if cluster != "" {
		made.Labels = map[string]string{clusterv1.ClusterNameLabel: cluster}
	}
	return made
}

func TestAnnotationsNameTheKubeconfig(t *testing.T) {
	t.Parallel()
	const contexts = "apiVersion: v1\nkind: Config\ncurrent-context: outside\n" +
		"clusters: [{name: outside, cluster: {server: 'https://a:1'}}, {name: inside, cluster: {server: 'https://b:1'}}]\n" +
		"users: [{name: it, user: {token: x}}]\n" +
		"contexts: [{name: outside, context: {cluster: outside, user: it}}, {name: inside, context: {cluster: inside, user: it}}]\n"
	secrets := fake.NewClientBuilder().WithObjects(secret("mine", "one", contexts), secret("others", "two", contexts)).Build()
	for name, tc := range map[string]struct{ secret, context, want string }{
		"Current": {"mine/admin.conf", "", "https://a:1"},
		"Context": {"mine/admin.conf", "inside", "https://b:1"},
		"Others":  {"others/admin.conf", "", ""},
		"Wrong":   {"a/b/c", "", ""},
	} {
		for _, follows := range []bool{true, false} {
			o := Options{KubeconfigAnnotations: follows}
			if err := o.complete(secrets); err != nil {
				t.Fatal(err)
			}
			ccl := provisionedCluster("one")
			ccl.Annotations = map[string]string{kubeconfig.SecretAnnotation: tc.secret, kubeconfig.ContextAnnotation: tc.context}
			config, err := o.GetSecret(t.Context(), ccl)
			switch {
			case follows && tc.want != "":
				if err != nil || config.Host != tc.want {
					t.Errorf("%s: got %v, %v, want %s", name, config, err, tc.want)
				}
			case err == nil:
				t.Errorf("%s: got %v, want an error (follows: %t)", name, config, follows)
			}
		}
	}
}

// A member moves to another kubeconfig when the annotation says so, and when the Secret that it names changes.
func TestAnnotationsThatChange(t *testing.T) {
	t.Parallel()
	before, after := newServer(t, "a"), newServer(t, "b")
	of := func(s *server, token string) string {
		access := s.access(token)
		return kubeconfigOf(fmt.Sprintf("server: %q, certificate-authority-data: %s",
			access.Host, base64.StdEncoding.EncodeToString(access.CAData)), "token: "+token)
	}
	secrets := fake.NewClientBuilder().WithObjects(secret("first", "one", of(before, "a"))).Build()
	f := newFleet(t, func(o *Options) {
		o.GetSecret, o.KubeconfigAnnotations = nil, true
		o.completeKubeconfigs(secrets)
	})
	ccl := provisionedCluster("one")
	annotate := func(value string) {
		ccl = ccl.DeepCopy()
		ccl.Annotations = map[string]string{kubeconfig.SecretAnnotation: value}
		f.ensure(t.Context(), ccl)
	}
	one := nameOf("one")
	f.ensure(t.Context(), ccl)
	f.becomes(one, Pending, kubeconfig.MissingReason)
	annotate("first/admin.conf")
	f.becomes(one, Engaged, EngagedReason)
	annotate("second/admin.conf")
	f.becomes(one, Degraded, RotationFailingReason)
	second := secret("second", "one", of(after, "b"))
	if err := secrets.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	f.secretChanged(t.Context(), second)
	f.becomes(one, Engaged, EngagedReason)
	eventually(t, "the connection by the earlier Secret is closed", func() bool { return before.open() == 0 && after.open() > 0 })
}
