package hub

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfigOf leads to a server, with a token.
func kubeconfigOf(t *testing.T, change func(*api.Config)) []byte {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	config := &api.Config{
		Clusters: map[string]*api.Cluster{"m": {
			Server:                   server.URL,
			CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		}},
		AuthInfos: map[string]*api.AuthInfo{"m": {Token: "s3cret"}},
		Contexts:  map[string]*api.Context{"m": {Cluster: "m", AuthInfo: "m"}}, CurrentContext: "m",
	}
	if change != nil {
		change(config)
	}
	raw, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestTheProviderSeesSafeKubeconfigsAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		kubeconfig []byte
		refused    string
	}{
		"safe": {kubeconfig: kubeconfigOf(t, nil)},
		"a program": {kubeconfig: kubeconfigOf(t, func(c *api.Config) {
			c.AuthInfos["m"] = &api.AuthInfo{Exec: &api.ExecConfig{Command: "s3cret", APIVersion: "client.authentication.k8s.io/v1"}}
		}), refused: "wants a program run"},
		"a file":  {kubeconfig: kubeconfigOf(t, func(c *api.Config) { c.AuthInfos["m"] = &api.AuthInfo{TokenFile: "/s3cret"} }), refused: "refers to files"},
		"no TLS":  {kubeconfig: kubeconfigOf(t, func(c *api.Config) { c.Clusters["m"].Server = "http://s3cret" }), refused: "without TLS"},
		"nothing": {refused: "the kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "east"}, Data: map[string][]byte{KubeconfigKey: tc.kubeconfig, "other": []byte("s3cret")}}
			reduced, err := Reduce(secret)
			if err != nil {
				t.Fatal(err)
			}
			secret = reduced.(*corev1.Secret) //nolint:forcetypeassert // it panics in a test
			if len(secret.Data) != 1 || (len(secret.Data[KubeconfigKey]) > 0) != (tc.refused == "") {
				t.Errorf("the cache keeps %v", secret.Data)
			}
			got := registrationOf(secret).refused
			if (got == "") != (tc.refused == "") || !strings.Contains(got, tc.refused) || strings.Contains(got, "s3cret") {
				t.Errorf("refused: %q, want %q", got, tc.refused)
			}
			before := secret.DeepCopy()
			again, err := Reduce(secret)
			if diff := cmp.Diff(any(before), again); diff != "" || err != nil {
				t.Errorf("a second time it differs: %v %s", err, diff)
			}
		})
	}
}

func TestNamesThatPeopleGive(t *testing.T) {
	for given, want := range map[string]string{"": "site-east", "fabrik": "fabrik", "Not A Name": "site-east"} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "site.east", Annotations: map[string]string{"archelon.io/display-name": given}}}
		if got := registrationOf(secret).display; got != want {
			t.Errorf("%q: got %q, want %q", given, got, want)
		}
	}
}
