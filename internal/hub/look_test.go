package hub

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// answering is an API server that says who it is, once it is let.
func answering(t *testing.T, uid types.UID, let <-chan struct{}) []byte {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-let:
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&corev1.NamespaceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NamespaceList"},
			Items:    []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: uid}}},
		})
	}))
	t.Cleanup(server.Close)
	raw, err := clientcmd.Write(api.Config{
		Clusters: map[string]*api.Cluster{"m": {
			Server: server.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		}},
		AuthInfos: map[string]*api.AuthInfo{"m": {Token: "s3cret"}},
		Contexts:  map[string]*api.Context{"m": {Cluster: "m", AuthInfo: "m"}}, CurrentContext: "m",
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func labelled(name string, created int, pinned types.UID, kubeconfig []byte) *corev1.Secret {
	s := registered(name, created, pinned)
	s.Labels = map[string]string{archelonv1.ManagementClusterKubeconfigLabel: "true"}
	s.Data = map[string][]byte{KubeconfigKey: kubeconfig}
	return s
}

// Who looks once sees what the hub would, also of those that the hub has never connected to.
func TestLook(t *testing.T) {
	open := make(chan struct{})
	close(open)
	clients := fake.NewClientset(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "own"}},
		labelled("east", 2, "a", answering(t, "a", open)), labelled("twin", 1, "", answering(t, "b", open)), labelled("younger", 3, "", answering(t, "b", open)),
		labelled("moved", 4, "c", answering(t, "d", open)), labelled("bad", 6, "", []byte("nonsense")),
		labelled("self", 7, "", answering(t, "own", open)),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "no-registration"}},
		&corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "first"}, InvolvedObject: corev1.ObjectReference{Kind: "Secret", Name: "east"},
			Reason: "Unreachable", EventTime: metav1.NewMicroTime(time.Unix(1, 0)), ReportingController: ControllerName,
		},
		&corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "last"}, InvolvedObject: corev1.ObjectReference{Kind: "Secret", Name: "east"},
			Reason: "Engaged", EventTime: metav1.NewMicroTime(time.Unix(2, 0)), ReportingController: ControllerName,
		},
		&corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other"}, InvolvedObject: corev1.ObjectReference{Kind: "Secret", Name: "east"},
			Reason: "Other", EventTime: metav1.NewMicroTime(time.Unix(3, 0)), ReportingController: "somebody",
		},
	)
	seen, err := Look(t.Context(), clients, namespace, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]struct {
		reason          string
		uid             types.UID
		answers, pinned bool
	}{
		"bad": {reason: "KubeconfigRefused"}, "east": {reason: "Engaged", uid: "a", answers: true, pinned: true},
		"moved": {reason: "OtherCluster", uid: "c", answers: true, pinned: true}, "self": {reason: "SameCluster", uid: "own", answers: true},
		"twin": {reason: "Engaged", uid: "b", answers: true}, "younger": {reason: "SameCluster", uid: "b", answers: true},
	}
	if len(seen) != len(want) {
		t.Fatalf("got %d, want %d", len(seen), len(want))
	}
	for _, s := range seen {
		w := want[s.Name]
		if s.Reason != w.reason || s.UID != w.uid || s.Answers != w.answers || s.Pinned != w.pinned || (s.Config == nil) != (s.Name == "bad") {
			t.Errorf("%s: got %+v, want %+v", s.Name, s, w)
		}
		if said := s.Said.Reason; s.Name == "east" && said != "Engaged" || s.Name != "east" && said != "" {
			t.Errorf("%s: said %q", s.Name, said)
		}
	}
}

// Who looks once waits for nobody beyond the limit.
func TestLookAtTheSilent(t *testing.T) {
	clients := fake.NewClientset(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "own"}}, labelled("silent", 1, "e", answering(t, "e", nil)),
	)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen, err := Look(ctx, clients, namespace, 100*time.Millisecond)
	if err != nil || ctx.Err() != nil {
		t.Fatal(err, ctx.Err())
	}
	if len(seen) != 1 || seen[0].Reason != "Unreachable" || seen[0].UID != "e" || seen[0].Answers || !seen[0].Pinned || seen[0].Config == nil {
		t.Errorf("got %+v", seen)
	}
}
