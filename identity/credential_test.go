package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/asn1"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/onsi/gomega/format" //nolint:depguard // what prints fields by reflection is what is tested
	"github.com/oracle/oci-go-sdk/v65/common"

	"github.com/archelon-io/archelon/identity/identitytest"
)

func TestParseCredential(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	one, encrypted := identitytest.One(), legacyEncrypted(t, identitytest.One())
	cases := map[string]struct {
		reason  string
		changes map[string][]byte
		want    []string // of the flaw; none if it is good
	}{
		"Good":     {reason: "all is well"},
		"NoRegion": {reason: "the cluster names it then", changes: map[string][]byte{"region": nil}},
		"PKCS8":    {reason: "another form of the same key", changes: map[string][]byte{"key": pkcs8(t, one)}},
		"Marker": {
			reason:  "OCI's console puts a line behind the key",
			changes: map[string][]byte{"key": append(identitytest.PKCS1(one), "OCI_API_KEY\n"...)},
		},
		"Encrypted": {
			reason:  "with its passphrase",
			changes: map[string][]byte{"key": encrypted, "passphrase": []byte(thePassword)},
		},
		"EncryptedPKCS8": {
			reason:  "the form that OpenSSL writes today",
			changes: map[string][]byte{"key": encryptedPKCS8(t, one), "passphrase": []byte(thePassword)},
		},
		"WrongPassphrasePKCS8": {
			reason:  "it does not fit",
			changes: map[string][]byte{"key": encryptedPKCS8(t, one), "passphrase": []byte("hunter2")},
			want:    []string{"passphrase does not decrypt key"},
		},
		"EmptyPassphrase": {reason: "templates have it empty", changes: map[string][]byte{"passphrase": {}}},
		"UpperFingerprint": {
			reason:  "digits are digits",
			changes: map[string][]byte{"fingerprint": []byte(strings.ToUpper(fingerprintOf(&one.PublicKey)))},
		},
		"OldTenancy": {
			reason: "OCIDs had another form once",
			changes: map[string][]byte{
				"tenancy": []byte("ocidv1:tenancy:oc1:phx:1460406592660:aaaaaaaab4faofrfkxecohhjuivjq262pu"),
			},
		},
		"Missing": {
			reason: "all that is missing is named", changes: map[string][]byte{"key": nil, "user": {}},
			want: []string{"lacks key, user"},
		},
		"NotAnOCID": {
			reason:  "swapped fields",
			changes: map[string][]byte{"tenancy": []byte(identitytest.User), "user": []byte(identitytest.Tenancy)},
			want:    []string{"tenancy is not", "user is not"},
		},
		"LineBreak": {
			reason: "echo puts one behind it", changes: map[string][]byte{"user": []byte(identitytest.User + "\n")},
			want: []string{"user has white space"},
		},
		"HugeOCID": {
			reason: "it is bounded", changes: map[string][]byte{"user": []byte(identitytest.User + strings.Repeat("a", 1000))},
			want: []string{"user is not"},
		},
		"BadFingerprint": {
			reason: "not a fingerprint", changes: map[string][]byte{"fingerprint": []byte("ab:cd")},
			want: []string{"fingerprint is not"},
		},
		"OtherFingerprint": {
			reason:  "that of another key",
			changes: map[string][]byte{"fingerprint": []byte(fingerprintOf(&identitytest.Other().PublicKey))},
			want:    []string{"fingerprint belongs to another key"},
		},
		"HostileRegion": {
			reason: "it becomes a part of a URL", changes: map[string][]byte{"region": []byte("evil.example.com/#")},
			want: []string{"region is not"},
		},
		"NotPEM": {
			reason: "base64 without its lines", changes: map[string][]byte{"key": []byte("MIIEowIBAAKCAQEA")},
			want: []string{"key is not PEM"},
		},
		"OtherPEM": {
			reason: "a certificate", changes: map[string][]byte{"key": pemOf("CERTIFICATE", []byte("x"))},
			want: []string{"key is no RSA private key"},
		},
		"Damaged": {
			reason: "bytes are missing", changes: map[string][]byte{"key": pemOf("RSA PRIVATE KEY", []byte("x"))},
			want: []string{"key is not an RSA private key"},
		},
		"Curve": {
			reason: "OCI signs with RSA", changes: map[string][]byte{"key": pkcs8(t, curve)},
			want: []string{"key is not an RSA private key"},
		},
		"Small": {
			reason:  "OCI wants 2048 bits",
			changes: map[string][]byte{"key": identitytest.PKCS1(small), "fingerprint": []byte(fingerprintOf(&small.PublicKey))},
			want:    []string{"key must have"},
		},
		"Large": {
			reason: "it is bounded", changes: map[string][]byte{"key": append(identitytest.PKCS1(one), make([]byte, 20_000)...)},
			want: []string{"key is larger"},
		},
		"NoPassphrase": {
			reason: "it is needed", changes: map[string][]byte{"key": encrypted},
			want: []string{"passphrase is missing"},
		},
		"WrongPassphrase": {
			reason: "it does not fit", changes: map[string][]byte{"key": encrypted, "passphrase": []byte("hunter2")},
			want: []string{"passphrase does not decrypt key"},
		},
		"PassphraseBreak": {
			reason:  "echo puts a line break behind it",
			changes: map[string][]byte{"key": encrypted, "passphrase": []byte(thePassword + "\n")},
			want:    []string{"ends with a line break"},
		},
		"Scrypt": {
			reason:  "what it costs to try is not known",
			changes: map[string][]byte{"key": pemOf("ENCRYPTED PRIVATE KEY", []byte("x")), "passphrase": []byte("x")},
			want:    []string{"not supported"},
		},
		"Everything": {
			reason:  "all at once",
			changes: map[string][]byte{"key": []byte("x"), "user": []byte("x"), "fingerprint": []byte("x")},
			want:    []string{"user is not", "fingerprint is not", "key is not PEM"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			data := with(identitytest.Data(), tc.changes)
			credential, flaw := ParseCredential(data)
			if (credential == nil) != (flaw != "") || (flaw != "") != (len(tc.want) > 0) {
				t.Fatalf("%s: got %v, flaw %q", tc.reason, credential, flaw)
			}
			for _, want := range tc.want {
				if !strings.Contains(flaw, want) {
					t.Errorf("%s: got flaw %q, want in it %q", tc.reason, flaw, want)
				}
			}
			checkQuotesNothing(t, data, flaw)
		})
	}
}

// checkQuotesNothing looks for values of a Secret in a text.
func checkQuotesNothing(tb testing.TB, data map[string][]byte, text string) {
	tb.Helper()
	if name := identitytest.Quoted(data, text, allTexts); name != "" {
		tb.Errorf("the text quotes %s: %s", name, text)
	}
}

// allTexts are words of the texts themselves, which a fuzzer puts into Secrets.
const allTexts = "In the Secret, tenancy is not the OCID of a tenancy (ocid1.tenancy.*); user is not the OCID of a " +
	"user, (ocid1.user.*); fingerprint is not 16 pairs of hexadecimal digits with colons between them; " +
	"region is not the identifier of a region, such as us-ashburn-1; key is not PEM: copy the whole file of " +
	"the private key, with its lines BEGIN and END; key is no RSA private key; key is encrypted, and " +
	"passphrase is missing; passphrase does not decrypt key, and ends with a line break; key is not an RSA " +
	"private key, or is damaged; has white space at one of its ends, such as a line break; fingerprint " +
	"belongs to another key; key must have bits; The Secret lacks fingerprint, key, tenancy, user. Add what is " +
	"missing. Correct the Secret; key is encrypted in a way that is not supported: encrypt it by PBES2 with " +
	"PBKDF2 and at most 1000000 iterations; key is larger than 10240 bytes; passphrase is longer than 1024 bytes"

func TestCredentialIsAConfigurationProvider(t *testing.T) {
	credential, flaw := ParseCredential(identitytest.Data())
	if flaw != "" {
		t.Fatal(flaw)
	}
	if ok, err := common.IsConfigurationProviderValid(credential); !ok || err != nil {
		t.Fatalf("OCI's SDK does not take it: %v", err)
	}
	if id, _ := credential.KeyID(); id != identitytest.Tenancy+"/"+identitytest.User+"/"+fingerprintOf(&identitytest.One().PublicKey) {
		t.Errorf("got key ID %s", id)
	}
}

func TestCredentialPrintsNothing(t *testing.T) {
	credential, _ := ParseCredential(identitytest.Data())
	encoded, err := json.Marshal(map[string]any{"credential": credential})
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{string(encoded)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		texts = append(texts, fmt.Sprintf(verb, credential), fmt.Sprintf(verb, struct{ C *Credential }{credential}))
	}
	for _, text := range texts {
		if strings.Contains(text, "ocid1") || strings.Contains(text, identitytest.One().D.String()) || len(text) > 200 {
			t.Errorf("it prints %s", text)
		}
	}
}

// What prints or compares values by reflection, such as a failing assertion, does not reach the key.
func TestTheKeyIsOutOfReach(t *testing.T) {
	credential, _ := ParseCredential(identitytest.Data())
	seen := map[uintptr]bool{}
	var walk func(path string, value reflect.Value)
	walk = func(path string, value reflect.Value) {
		if kind := value.Type().String(); value.Kind() != reflect.Func && (strings.Contains(kind, "rsa.") || strings.Contains(kind, "big.")) {
			t.Errorf("%s is of type %s", path, kind)
			return
		}
		switch value.Kind() {
		case reflect.Pointer, reflect.Interface:
			if value.Kind() == reflect.Pointer && (value.IsNil() || seen[value.Pointer()]) {
				return
			}
			if value.Kind() == reflect.Pointer {
				seen[value.Pointer()] = true
			}
			walk(path, value.Elem())
		case reflect.Struct:
			for i := range value.NumField() {
				walk(path+"."+value.Type().Field(i).Name, value.Field(i))
			}
		}
	}
	walk("credential", reflect.ValueOf(credential))
	if text := format.Object(credential, 1); strings.Contains(text, identitytest.One().D.String()) {
		t.Errorf("a failing assertion prints %s", text)
	}
}

// The SDK of OCI takes short names of regions, so they are taken here, and become identifiers.
func TestShortNamesOfRegions(t *testing.T) {
	for name, want := range map[string]string{
		"iad": "us-ashburn-1", "PHX": "us-phoenix-1", "us-ashburn-1": "us-ashburn-1", "xx-future-9": "xx-future-9",
	} {
		credential, flaw := ParseCredential(with(identitytest.Data(), map[string][]byte{"region": []byte(name)}))
		if flaw != "" {
			t.Errorf("%s: %s", name, flaw)
			continue
		}
		if got, _ := credential.Region(); got != want {
			t.Errorf("%s: got region %s, want %s", name, got, want)
		}
	}
	for _, name := range []string{"zzz", "a/b", "iad "} {
		if _, flaw := ParseCredential(with(identitytest.Data(), map[string][]byte{"region": []byte(name)})); !strings.Contains(flaw, "region ") {
			t.Errorf("%q: got flaw %q", name, flaw)
		}
	}
}

// A file says how often a passphrase is hashed, and trying it must not take an hour.
func TestAffordable(t *testing.T) {
	encrypted := func(derivation asn1.ObjectIdentifier, iterations int) []byte {
		return encryptedDER(t, derivation, iterations)
	}
	pbkdf2 := asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}
	for name, tc := range map[string]struct {
		der  []byte
		want bool
	}{
		"Usual":    {encrypted(pbkdf2, 2048), true},
		"Most":     {encrypted(pbkdf2, maxIterations), true},
		"TooMany":  {encrypted(pbkdf2, maxIterations+1), false},
		"Billions": {encrypted(pbkdf2, 2_000_000_000), false},
		"Negative": {encrypted(pbkdf2, -1), false},
		"Scrypt":   {encrypted(asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11591, 4, 11}, 2048), false},
		"Nothing":  {nil, false},
	} {
		if got := affordable(tc.der); got != tc.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// OCI's SDK takes every block for an encrypted one, whatever it is called. With a billion iterations it is busy for
// half an hour.
func TestParseCredentialTriesNoPassphraseOfUnknownPrice(t *testing.T) {
	der := encryptedDER(t, asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}, 1_000_000_000)
	for _, kind := range []string{"PRIVATE KEY", "RSA PRIVATE KEY", "ENCRYPTED PRIVATE KEY"} {
		data := with(identitytest.Data(), map[string][]byte{"key": pemOf(kind, der), "passphrase": []byte(thePassword)})
		if _, flaw := ParseCredential(data); !strings.Contains(flaw, "key is ") {
			t.Errorf("%s: got flaw %q", kind, flaw)
		}
	}
}

func FuzzParseCredential(f *testing.F) {
	good := identitytest.Data()
	f.Add([]byte(identitytest.Tenancy), []byte(identitytest.User), good["fingerprint"], good["key"], []byte(""), []byte("us-ashburn-1"))
	f.Add(
		[]byte(identitytest.Tenancy), []byte(identitytest.User), good["fingerprint"], legacyEncrypted(f, identitytest.One()),
		[]byte(thePassword), []byte(""),
	)
	f.Add(
		[]byte("x"), []byte("\n"), []byte("aa:bb"),
		pemOf("ENCRYPTED PRIVATE KEY", []byte{0x30, 0x03, 0x30, 0x01, 0x00}), []byte("x"), []byte("-"),
	)
	f.Add([]byte("x"), []byte("\n"), []byte("aa:bb"), pkcs8(f, identitytest.One()), []byte("x"), []byte("-"))
	f.Fuzz(func(t *testing.T, tenancy, user, fingerprint, key, passphrase, region []byte) {
		data := map[string][]byte{
			"tenancy": tenancy, "user": user, "fingerprint": fingerprint, "key": key, "passphrase": passphrase,
			"region": region,
		}
		credential, flaw := ParseCredential(data)
		if (credential == nil) != (flaw != "") {
			t.Fatalf("got %v and flaw %q", credential, flaw)
		}
		if len(flaw) > 1000 {
			t.Errorf("the flaw has %d bytes", len(flaw))
		}
		checkQuotesNothing(t, data, flaw)
		if credential == nil {
			return
		}
		if ok, err := common.IsConfigurationProviderValid(credential); !ok && len(region) > 0 {
			t.Errorf("OCI's SDK does not take it: %v", err)
		}
		if got, _ := credential.KeyFingerprint(); got != fingerprintOf(&credential.key().PublicKey) {
			t.Errorf("got fingerprint %s of another key", got)
		}
	})
}
