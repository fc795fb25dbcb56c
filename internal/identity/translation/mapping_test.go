package translation

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	"github.com/archelon-io/archelon/internal/identity"
)

func TestTranslate(t *testing.T) {
	key := theKeys().one
	set := func(name, value string) map[string][]byte {
		return map[string][]byte{fieldPrefix + name: []byte(value)}
	}
	plain := principalData(key, "")
	for name, tc := range map[string]struct {
		reason  string
		changes map[string][]byte
		region  string
		want    map[string][]byte
	}{
		"Plain":     {reason: "four keys, and no other", want: plain},
		"Region":    {reason: "it has no field of Rancher", region: "us-ashburn-1", want: principalData(key, "us-ashburn-1")},
		"Tenancy":   {reason: "forms add line breaks", changes: set("tenancyId", " ocid1.tenancy.oc1..aaaatenancy\n"), want: plain},
		"User":      {reason: "the same", changes: set("userId", "\tocid1.user.oc1..aaaauser \r\n"), want: plain},
		"UpperCase": {reason: "OCI has small letters", changes: set("fingerprint", strings.ToUpper(fingerprintOf(key))+"\n"), want: plain},
		"Escapes": {
			reason: "a key that went through JSON", want: plain,
			changes: set("privateKeyContents", strings.ReplaceAll(pemOf(key), "\n", `\n`)),
		},
		"Windows": {
			reason: "a key that went through a form", want: plain,
			changes: set("privateKeyContents", strings.ReplaceAll(pemOf(key), "\n", "\r\n")+"\r\n\r\n"),
		},
		"WindowsEscapes": {
			reason: "both", want: plain, changes: set("privateKeyContents", strings.ReplaceAll(pemOf(key), "\n", `\r\n`)),
		},
		"More": {
			reason: "what is not known stays where it is", want: plain,
			changes: map[string][]byte{"ocicredentialConfig-more": []byte("x"), "region": []byte("evil")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, flaw := Translate(with(credentialData(key), tc.changes), tc.region)
			if flaw != "" || !cmp.Equal(got, tc.want) {
				t.Errorf("%s: got keys of %v, flaw %q", tc.reason, cmp.Diff(tc.want, got), flaw)
			}
		})
	}
}

func TestTranslateEncrypted(t *testing.T) {
	key, passphrase := theKeys().one, "correct-horse-battery"
	//nolint:staticcheck // keys like that are what is tested
	block, err := x509.EncryptPEMBlock(
		rand.Reader, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key), []byte(passphrase), x509.PEMCipherAES256,
	)
	if err != nil {
		t.Fatal(err)
	}
	data := with(credentialData(key), map[string][]byte{
		"ocicredentialConfig-privateKeyContents":   pem.EncodeToMemory(block),
		"ocicredentialConfig-privateKeyPassphrase": []byte(passphrase),
	})
	got, flaw := Translate(data, "")
	if flaw != "" || len(got) != 5 || string(got["passphrase"]) != passphrase {
		t.Errorf("got %d keys, flaw %q, want it to go along", len(got), flaw)
	}
	data["ocicredentialConfig-privateKeyPassphrase"] = []byte("another-one-entirely")
	if _, flaw := Translate(data, ""); !strings.Contains(flaw, "passphrase does not decrypt key") {
		t.Errorf("another passphrase: got %q", flaw)
	}
}

func TestTranslateRefuses(t *testing.T) {
	key := theKeys().one
	for name, tc := range map[string]struct {
		reason  string
		changes map[string][]byte
		region  string
		want    string
	}{
		"Missing": {
			reason: "all that is missing is named", want: "The cloud credential lacks fingerprint, user",
			changes: map[string][]byte{"ocicredentialConfig-userId": nil, "ocicredentialConfig-fingerprint": []byte(" ")},
		},
		"Tenancy": {
			reason: "it is not an OCID", want: "In the cloud credential, tenancy is not the OCID of a tenancy",
			changes: map[string][]byte{"ocicredentialConfig-tenancyId": []byte("my-tenancy")},
		},
		"UserIsTenancy": {
			reason: "fields are mixed up", want: "user is not the OCID of a user",
			changes: map[string][]byte{"ocicredentialConfig-userId": []byte("ocid1.tenancy.oc1..aaaatenancy")},
		},
		"OtherKey": {
			reason: "OCI would not accept it", want: "fingerprint belongs to another key",
			changes: map[string][]byte{"ocicredentialConfig-privateKeyContents": []byte(pemOf(theKeys().other))},
		},
		"NoKey": {
			reason: "a path instead of the key", want: "key is not PEM",
			changes: map[string][]byte{"ocicredentialConfig-privateKeyContents": []byte("~/.oci/oci_api_key.pem")},
		},
		"Huge": {
			reason: "it is bounded", want: "key is larger than",
			changes: map[string][]byte{"ocicredentialConfig-privateKeyContents": []byte(strings.Repeat(`x\n`, 1<<18))},
		},
		"HostileRegion": {
			reason: "it becomes a part of a URL", region: "evil.example.com/#", want: "region is not the identifier or the short name of a region",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, flaw := Translate(with(credentialData(key), tc.changes), tc.region)
			if got != nil || !strings.Contains(flaw, tc.want) || len(flaw) > maxReport {
				t.Errorf("%s: got %d keys, flaw %q, want %q", tc.reason, len(got), flaw, tc.want)
			}
			for _, value := range tc.changes {
				if len(value) > 3 && strings.Contains(flaw, string(value)) {
					t.Errorf("%s: %q quotes the credential", tc.reason, flaw)
				}
			}
		})
	}
}

func FuzzTranslate(f *testing.F) {
	f.Add([]byte("ocid1.tenancy.oc1..a"), []byte("aa:bb"), []byte(pemOf(theKeys().one)), "us-ashburn-1")
	f.Add([]byte(" "), []byte(fingerprintOf(theKeys().one)), []byte(`-----BEGIN RSA PRIVATE KEY-----\n`), "")
	f.Fuzz(func(t *testing.T, tenancy, fingerprint, key []byte, region string) {
		data := with(credentialData(theKeys().one), map[string][]byte{
			"ocicredentialConfig-tenancyId": tenancy, "ocicredentialConfig-fingerprint": fingerprint,
			"ocicredentialConfig-privateKeyContents": key,
		})
		got, flaw := Translate(data, region)
		if (got == nil) != (flaw != "") || len(got) > 6 {
			t.Errorf("got %d keys and flaw %q", len(got), flaw)
		}
		if again, other := Translate(with(data, nil), region); flaw != other || !cmp.Equal(got, again) {
			t.Errorf("twice the same is not the same")
		}
	})
}

func TestDriver(t *testing.T) {
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        driver
	}{
		"Dashboard": {map[string]string{driverAnnotation: "oracle"}, ociDriver},
		"API":       {map[string]string{driverAnnotation: "oci"}, ociDriver},
		"Other":     {map[string]string{driverAnnotation: "aws"}, otherDriver},
		"Empty":     {map[string]string{driverAnnotation: ""}, otherDriver},
		"None":      {nil, noDriver},
	} {
		got := driverOf(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations}})
		if got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
	if !hasField(credentialData(theKeys().one)) || hasField(principalData(theKeys().one, "")) {
		t.Error("the fields of a credential are not told from others")
	}
	three := credentialData(theKeys().one)
	delete(three, "ocicredentialConfig-fingerprint")
	if !hasField(three) {
		t.Error("a credential with three of four fields is not taken for one, so nothing says what it lacks")
	}
}

func TestCacheKeepsWhatIsRead(t *testing.T) {
	object := identity.SecretMetadata()
	object.ObjectMeta = metav1.ObjectMeta{
		Namespace: "a", Name: "b", UID: "1", ResourceVersion: "2", Finalizers: []string{"x"},
		Labels: map[string]string{infrav1.CredentialUIDLabel: "3", "other": "x"},
		Annotations: map[string]string{
			driverAnnotation: strings.Repeat("x", 200_000), "kubectl.kubernetes.io/last-applied-configuration": "secret",
		},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}},
	}
	if _, err := keepMarks(object); err != nil {
		t.Fatal(err)
	}
	want := metav1.ObjectMeta{
		Namespace: "a", Name: "b", UID: "1", ResourceVersion: "2",
		Labels:      map[string]string{infrav1.CredentialUIDLabel: "3"},
		Annotations: map[string]string{driverAnnotation: strings.Repeat("x", maxMark)},
	}
	if diff := cmp.Diff(want, object.ObjectMeta); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
