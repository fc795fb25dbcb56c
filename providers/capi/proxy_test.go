package capi

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
)

func TestLocalProxiesAreForAdministrators(t *testing.T) {
	t.Parallel()
	secrets := fake.NewClientBuilder().WithObjects(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "one-kubeconfig"},
		Data: map[string][]byte{
			"value": []byte(kubeconfigOf(anyServer+`, proxy-url: "http://127.0.0.1:1"`, anyUser)),
		},
	}).Build()
	for _, allowed := range []bool{false, true} {
		o := Options{AllowLocalProxies: allowed}
		if err := o.complete(secrets); err != nil {
			t.Fatal(err)
		}
		_, err := o.GetSecret(t.Context(), &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "one"}})
		if (err == nil) != allowed {
			t.Errorf("allowed: %t, got %v", allowed, err)
		}
	}
}

// A name that resolves to a local address passes until it is dialled.
func TestLocalProxiesAreNotDialled(t *testing.T) {
	t.Parallel()
	f, s := newFleet(t, func(o *Options) { o.Timing.Rotation = long }), newServer(t, "a")
	one := f.add("one", s.access("a"))
	f.becomes(one, Engaged, EngagedReason)
	f.write(kubeconfigOf(anyServer+`, proxy-url: "http://１２７.0.0.１:1"`, anyUser))
	f.becomes(one, Disconnected, kubeconfig.ProxyReason)
	eventually(t, "its connections are closed", func() bool { return s.open() == 0 })
}
