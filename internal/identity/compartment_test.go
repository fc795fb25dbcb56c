package identity

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	oci "github.com/archelon-io/archelon/identity"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/identity/identitytest"
)

const (
	aCompartment = "ocid1.compartment.oc1..aaaaaaaacluster"
	parentOf     = "ocid1.compartment.oc1..aaaaaaaaparent"
	otherTenancy = "ocid1.tenancy.oc1..bbbbbbbbother"
)

func credentialFor(t *testing.T) *oci.Credential {
	t.Helper()
	credential, flaw := oci.ParseCredential(identitytest.Data())
	if flaw != "" {
		t.Fatal(flaw)
	}
	return credential
}

func TestLook(t *testing.T) {
	ring := map[string]string{}
	for i := range 20 {
		ring[fmt.Sprintf("ocid1.compartment.oc1..%d", i)] = fmt.Sprintf("ocid1.compartment.oc1..%d", i+1)
	}
	for name, tc := range map[string]struct {
		compartments map[string]string
		ask          string
		other        bool
		code         int
		want         string
		asks         int32
	}{
		"BelowTheTenancy": {compartments: map[string]string{aCompartment: identitytest.Tenancy}, ask: aCompartment, asks: 1},
		"Nested":          {compartments: map[string]string{aCompartment: parentOf, parentOf: identitytest.Tenancy}, ask: aCompartment, asks: 2},
		"TheTenancy":      {compartments: map[string]string{identitytest.Tenancy: ""}, ask: identitytest.Tenancy, asks: 1},
		"NoCompartment":   {asks: 1},
		"NotVisible":      {ask: aCompartment, want: infrav1.CompartmentNotVisibleReason, asks: 1},
		"ParentHidden":    {compartments: map[string]string{aCompartment: parentOf}, ask: aCompartment, want: infrav1.TenancyNotVisibleReason, asks: 2},
		"OtherTenancy":    {compartments: map[string]string{aCompartment: otherTenancy}, ask: aCompartment, want: infrav1.CompartmentInOtherTenancyReason, asks: 1},
		"OtherRoot":       {compartments: map[string]string{otherTenancy: ""}, ask: otherTenancy, want: infrav1.CompartmentInOtherTenancyReason, asks: 1},
		"OtherKey":        {ask: aCompartment, other: true, want: identityv1.CredentialRejectedReason, asks: 1},
		"OtherKeyAlone":   {other: true, want: identityv1.CredentialRejectedReason, asks: 1},
		"TooDeep":         {compartments: ring, ask: "ocid1.compartment.oc1..0", want: infrav1.OCIUnreachableReason, asks: maxDepth},
		"HostileParent":   {compartments: map[string]string{aCompartment: "../users/x"}, ask: aCompartment, want: infrav1.OCIUnreachableReason, asks: 1},
		"Throttled":       {code: http.StatusTooManyRequests, ask: aCompartment, want: infrav1.OCIUnreachableReason, asks: 1},
		"Redirect":        {code: http.StatusFound, ask: aCompartment, want: infrav1.OCIUnreachableReason, asks: 1},
	} {
		t.Run(name, func(t *testing.T) {
			key := &identitytest.One().PublicKey
			if tc.other {
				key = &identitytest.Other().PublicKey
			}
			server := newOCI(t, key)
			server.compartments = tc.compartments
			if tc.code != 0 {
				server.code.Store(int32(tc.code))
			}
			verifier, err := NewVerifier(VerifierOptions{Endpoint: server.URL, TrustedCAs: server.trust()})
			if err != nil {
				t.Fatal(err)
			}
			got := verifier.look(t.Context(), credentialFor(t), target{compartment: tc.ask}, nil)
			if got.reason != tc.want || (got.result == accepted) != (tc.want == "") || server.asked.Load() != tc.asks {
				t.Errorf("got %+v after %d questions, want %q (the server: %v)", got, server.asked.Load(), tc.want, server.wrong.Load())
			}
			if quoted := identitytest.Quoted(identitytest.Data(), got.message, ""); quoted != "" || strings.Contains(got.message, "ocid1.compartment.oc1") {
				t.Errorf("the message quotes %s: %s", quoted, got.message)
			}
		})
	}
}

// A server that answers without end, or not at all, costs a bounded answer and a bounded time.
func TestLookIsBounded(t *testing.T) {
	release := make(chan struct{})
	for name, handler := range map[string]http.HandlerFunc{
		"Hangs": func(http.ResponseWriter, *http.Request) { <-release },
		"Huge": func(w http.ResponseWriter, _ *http.Request) {
			for chunk := []byte(strings.Repeat(" ", 1<<20)); ; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		},
		"Padded": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"id":%q,"compartmentId":%q,"name":%q}`, aCompartment, identitytest.Tenancy, strings.Repeat("a", maxAnswer))
		},
		"NotJSON": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"Another": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"id":"ocid1.compartment.oc1..x","compartmentId":%q}`, identitytest.Tenancy)
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewTLSServer(handler)
			t.Cleanup(server.Close)
			if name == "Hangs" {
				t.Cleanup(func() { close(release) })
			}
			verifier, err := NewVerifier(VerifierOptions{
				Endpoint: server.URL, Timeout: 200 * time.Millisecond,
				TrustedCAs: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := verifier.look(t.Context(), credentialFor(t), target{compartment: aCompartment}, nil); got.result != unreachable {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// An override leads to its own host, with its own authorities.
func TestLookAtAnAllowedOverride(t *testing.T) {
	server := newOCI(t, &identitytest.One().PublicKey)
	server.compartments = map[string]string{aCompartment: identitytest.Tenancy}
	verifier, err := NewVerifier(VerifierOptions{})
	if err != nil {
		t.Fatal(err)
	}
	to := target{compartment: aCompartment, endpoint: server.URL}
	if got := verifier.look(t.Context(), credentialFor(t), to, server.trust()); got.result != accepted {
		t.Errorf("with its certificates: got %+v", got)
	}
	before := server.asked.Load()
	if got := verifier.look(t.Context(), credentialFor(t), to, nil); got.result != unreachable || server.asked.Load() != before {
		t.Errorf("without them: got %+v", got)
	}
	if got := verifier.look(t.Context(), credentialFor(t), to, []byte("none")); got.result != unreachable {
		t.Errorf("with what is no certificate: got %+v", got)
	}
}

func TestReachOfRegions(t *testing.T) {
	verifier, err := NewVerifier(VerifierOptions{})
	if err != nil {
		t.Fatal(err)
	}
	data := identitytest.Data()
	delete(data, "region")
	regionless, _ := oci.ParseCredential(data)
	for region, want := range map[string]string{"eu-frankfurt-1": "identity.eu-frankfurt-1.oci.oraclecloud.com", "zz-unknown-9": "identity.zz-unknown-9.oci.oraclecloud.com"} {
		if base, _, err := verifier.reach(regionless, target{region: region}, nil); err != nil || base.Host != want {
			t.Errorf("region %s: got %v, %v", region, base, err)
		}
	}
	if base, _, err := verifier.reach(credentialFor(t), target{region: "eu-frankfurt-1"}, nil); err != nil || base.Host != "identity.us-ashburn-1.oci.oraclecloud.com" {
		t.Errorf("the region of the Secret comes first: got %v, %v", base, err)
	}
	if _, _, err := verifier.reach(regionless, target{}, nil); err == nil {
		t.Error("there is an address without a region")
	}
}
