package identity

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	oci "github.com/archelon-io/archelon/identity"
	"github.com/archelon-io/archelon/identity/identitytest"
)

// identityAPI is OCI's Identity API as far as a question about a user needs it: it checks the signature as OCI does.
type identityAPI struct {
	*httptest.Server

	key   *rsa.PublicKey
	code  atomic.Int32
	asked atomic.Int32
	// compartments are what each of them is a part of.
	compartments map[string]string
	// wrong is what was wrong with the last request.
	wrong atomic.Value
}

func newOCI(t *testing.T, key *rsa.PublicKey) *identityAPI {
	t.Helper()
	o := &identityAPI{key: key}
	o.code.Store(http.StatusOK)
	o.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.asked.Add(1)
		if err := checkSignature(r, o.key); err != nil {
			o.wrong.Store(err.Error())
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if id, ok := strings.CutPrefix(r.URL.Path, "/20160918/compartments/"); ok && o.code.Load() == http.StatusOK {
			parent, found := o.compartments[id]
			if !found {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			_, _ = fmt.Fprintf(w, `{"id":%q,"compartmentId":%q,"name":"a compartment"}`, id, parent)
			return
		}
		if o.code.Load() == http.StatusFound {
			w.Header().Set("Location", o.URL+"/20160918/compartments/elsewhere")
		}
		w.WriteHeader(int(o.code.Load()))
		_, _ = io.WriteString(w, `{"name":"somebody"}`)
	}))
	t.Cleanup(o.Close)
	return o
}

func (o *identityAPI) trust() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: o.Certificate().Raw})
}

// checkSignature checks the signature of a request without a body, as OCI's documentation describes it.
func checkSignature(r *http.Request, key *rsa.PublicKey) error {
	fields := map[string]string{}
	for _, match := range regexp.MustCompile(`(\w+)="([^"]*)"`).FindAllStringSubmatch(r.Header.Get("Authorization"), -1) {
		fields[match[1]] = match[2]
	}
	want := identitytest.Tenancy + "/" + identitytest.User + "/" + identitytest.Fingerprint(key)
	if fields["keyId"] != want || fields["algorithm"] != "rsa-sha256" {
		return fmt.Errorf("the request is signed by key %q with %q", fields["keyId"], fields["algorithm"])
	}
	if date, err := http.ParseTime(r.Header.Get("Date")); err != nil || time.Since(date).Abs() > 5*time.Minute {
		return fmt.Errorf("the date is %q", r.Header.Get("Date"))
	}
	var lines []string
	for name := range strings.FieldsSeq(fields["headers"]) {
		switch name {
		case "(request-target)":
			lines = append(lines, name+": "+strings.ToLower(r.Method)+" "+r.URL.RequestURI())
		case "host":
			lines = append(lines, name+": "+r.Host)
		default:
			lines = append(lines, name+": "+r.Header.Get(name))
		}
	}
	for _, name := range []string{"date", "(request-target)", "host"} {
		if !strings.Contains(" "+fields["headers"]+" ", " "+name+" ") {
			return errors.New("the signature does not cover " + name)
		}
	}
	signature, err := base64.StdEncoding.DecodeString(fields["signature"])
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature)
}

func TestVerifierAsks(t *testing.T) {
	credential, flaw := oci.ParseCredential(identitytest.Data())
	if flaw != "" {
		t.Fatal(flaw)
	}
	cases := map[string]struct {
		reason string
		key    *rsa.PublicKey
		code   int
		want   string
	}{
		"Known": {"OCI knows the key", &identitytest.One().PublicKey, http.StatusOK, accepted},
		"Forbidden": {
			"the signature was good, the user lacks a permission", &identitytest.One().PublicKey, http.StatusForbidden,
			accepted,
		},
		"NotFound": {
			"OCI says that as well when a permission is missing", &identitytest.One().PublicKey, http.StatusNotFound,
			accepted,
		},
		"OtherKey": {"OCI has another key", &identitytest.Other().PublicKey, http.StatusOK, rejected},
		"Throttled": {
			"too many questions say nothing about the key", &identitytest.One().PublicKey, http.StatusTooManyRequests,
			unreachable,
		},
		"Broken": {
			"an outage says nothing about the key", &identitytest.One().PublicKey, http.StatusInternalServerError,
			unreachable,
		},
		"Redirect": {"what is signed goes nowhere else", &identitytest.One().PublicKey, http.StatusFound, unreachable},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			server := newOCI(t, tc.key)
			server.code.Store(int32(tc.code))
			verifier, err := NewVerifier(VerifierOptions{Endpoint: server.URL, TrustedCAs: server.trust()})
			if err != nil {
				t.Fatal(err)
			}
			got := verifier.ask(t.Context(), credential)
			if got.result != tc.want || (got.detail == "") != (tc.want == accepted) {
				t.Errorf("%s: got %+v, want %s (the server: %v)", tc.reason, got, tc.want, server.wrong.Load())
			}
			if name := identitytest.Quoted(identitytest.Data(), got.detail, ""); name != "" {
				t.Errorf("%s: the text quotes %s: %s", tc.reason, name, got.detail)
			}
		})
	}
}

func TestVerifierIsBounded(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	verifier, err := NewVerifier(VerifierOptions{
		Endpoint: server.URL, Timeout: 50 * time.Millisecond,
		TrustedCAs: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	})
	if err != nil {
		t.Fatal(err)
	}
	credential, _ := oci.ParseCredential(identitytest.Data())
	got := verifier.ask(t.Context(), credential)
	if got.result != unreachable || strings.Contains(got.detail, "ocid1") {
		t.Errorf("got %+v of a server that does not answer", got)
	}
}

func TestVerifierTrustsWhatItIsTold(t *testing.T) {
	server := newOCI(t, &identitytest.One().PublicKey)
	verifier, err := NewVerifier(VerifierOptions{Endpoint: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	credential, _ := oci.ParseCredential(identitytest.Data())
	if got := verifier.ask(t.Context(), credential); got.result != unreachable || server.asked.Load() != 0 {
		t.Errorf("got %+v and %d requests of a server that is not trusted", got, server.asked.Load())
	}
}

func TestNewVerifierRefuses(t *testing.T) {
	for name, options := range map[string]VerifierOptions{
		"Plain":   {Endpoint: "http://identity.example.com"},
		"User":    {Endpoint: "https://user:pass@identity.example.com"},
		"NoHost":  {Endpoint: "https:///x"},
		"BadURL":  {Endpoint: "https://%zz"},
		"NotCAs":  {TrustedCAs: []byte("none")},
		"Region":  {DefaultRegion: "evil.example.com"},
		"Newline": {Endpoint: "https://identity.example.com\n"},
	} {
		if _, err := NewVerifier(options); err == nil {
			t.Errorf("%s: it is taken", name)
		} else if strings.Contains(err.Error(), "pass") {
			t.Errorf("%s: the error quotes a password: %v", name, err)
		}
	}
}

func TestVerifierAddress(t *testing.T) {
	verifier, err := NewVerifier(VerifierOptions{DefaultRegion: "eu-frankfurt-1"})
	if err != nil {
		t.Fatal(err)
	}
	of := func(region string) *oci.Credential {
		data := identitytest.Data()
		data["region"] = []byte(region)
		credential, flaw := oci.ParseCredential(data)
		if flaw != "" {
			t.Fatal(flaw)
		}
		return credential
	}
	for region, want := range map[string]string{
		"us-ashburn-1": "https://identity.us-ashburn-1.oci.oraclecloud.com/20160918/users/" + identitytest.User,
		"":             "https://identity.eu-frankfurt-1.oci.oraclecloud.com/20160918/users/" + identitytest.User,
	} {
		got, err := verifier.address(of(region))
		if err != nil || got != want {
			t.Errorf("region %q: got %s, %v, want %s", region, got, err, want)
		}
	}
	if _, err := (&Verifier{}).address(of("")); err == nil {
		t.Error("there is an address without a region")
	}
}
