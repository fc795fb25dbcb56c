package kubeconfig

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/archelon-io/archelon/providers/capi/problem"
)

const secretToken = "s3cret-bearer-token"

// pair is a self-signed certificate and its key.
type pair struct{ certPEM, keyPEM []byte }

func newPair(tb testing.TB) pair {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		tb.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	return pair{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}),
	}
}

// written returns a kubeconfig for a server, changed as the test wants it.
func written(tb testing.TB, server string, ca []byte, change ...func(*api.Cluster, *api.AuthInfo)) []byte {
	tb.Helper()
	cluster := &api.Cluster{Server: server, CertificateAuthorityData: ca}
	user := &api.AuthInfo{Token: secretToken}
	for _, c := range change {
		c(cluster, user)
	}
	raw, err := clientcmd.Write(api.Config{
		Clusters:       map[string]*api.Cluster{"workload": cluster},
		AuthInfos:      map[string]*api.AuthInfo{"admin": user},
		Contexts:       map[string]*api.Context{"admin@workload": {Cluster: "workload", AuthInfo: "admin"}},
		CurrentContext: "admin@workload",
	})
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// wantProblem fails the test unless err is a Problem of the reason, which a watch ends and which shows no credential.
func wantProblem(t *testing.T, err error, reason string) {
	t.Helper()
	found, ok := errors.AsType[*problem.Problem](err)
	if !ok {
		t.Fatalf("want a Problem with reason %s, got %v", reason, err)
	}
	if found.Kind != problem.KindWait || found.Reason != reason {
		t.Errorf("want Wait %s, got %s %s: %v", reason, found.Kind, found.Reason, err)
	}
	if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, "s3cret") {
		t.Errorf("it shows a credential: %s", text)
	}
}
