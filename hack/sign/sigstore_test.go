package sign

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/go-openapi/runtime"
	ct "github.com/google/certificate-transparency-go"
	"github.com/google/certificate-transparency-go/tls"
	"github.com/google/certificate-transparency-go/x509util"
	prototrustroot "github.com/sigstore/protobuf-specs/gen/pb-go/trustroot/v1"
	"github.com/sigstore/rekor/pkg/generated/models"
	"github.com/sigstore/rekor/pkg/types"
	_ "github.com/sigstore/rekor/pkg/types/dsse/v0.0.1" // what cosign notes
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore-go/pkg/tlog"
)

const (
	issuer = "https://token.actions.githubusercontent.com"
	secret = "of the job" // by which GitHub knows a job that asks for a token
)

// sigstore stands in for the services that keyless signing needs: GitHub gives the workflow a token, Fulcio a
// certificate for the token and a key, and Rekor notes what was signed with it. Certificates and log are made and
// verified by sigstore's own libraries.
type sigstore struct {
	log       *ca.VirtualSigstore // Rekor
	authority *root.FulcioCertificateAuthority
	key       *ecdsa.PrivateKey // of the authority
	witness   *ecdsa.PrivateKey // of the log of certificates
	url       string
	config    string // directory with what cosign has to know
}

// newSigstore starts one on loopback.
func newSigstore(t *testing.T) *sigstore {
	t.Helper()
	log, err := ca.NewVirtualSigstore()
	rootCert, rootKey, err1 := ca.GenerateRootCa()
	intermediate, key, err2 := ca.GenerateFulcioIntermediate(rootCert, rootKey)
	witness, err3 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err := errors.Join(err, err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	s := &sigstore{log: log, key: key, witness: witness, config: t.TempDir()}
	s.authority = &root.FulcioCertificateAuthority{
		Root: rootCert, Intermediates: []*x509.Certificate{intermediate}, ValidityPeriodStart: intermediate.NotBefore, ValidityPeriodEnd: intermediate.NotAfter,
	}
	services := http.NewServeMux()
	for pattern, answer := range map[string]func(*http.Request) (int, any, error){
		"GET /token": s.token, "POST /api/v2/signingCert": s.certify, "POST /api/v1/log/entries": s.note,
	} {
		services.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			status, body, err := answer(r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("ETag", entryID)
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(body) // the client notices
		})
	}
	server := httptest.NewServer(services)
	t.Cleanup(server.Close)
	s.url = server.URL
	s.describe(t)
	return s
}

// entryID is that of all entries: nobody asks for one.
const entryID = "entry"

// describe writes the files by which cosign knows this sigstore, instead of the public one.
func (s *sigstore) describe(t *testing.T) {
	t.Helper()
	logs := s.log.RekorLogs()
	for id, log := range logs {
		log.ID, _ = hex.DecodeString(id) // it is hexadecimal
	}
	witnessID := keyID(t, s.witness.Public())
	witnesses := map[string]*root.TransparencyLog{hex.EncodeToString(witnessID[:]): {
		ID: witnessID[:], BaseURL: s.url, PublicKey: s.witness.Public(), HashFunc: crypto.SHA256, ValidityPeriodStart: s.authority.ValidityPeriodStart,
	}}
	trusted, err := root.NewTrustedRoot(root.TrustedRootMediaType01, []root.CertificateAuthority{s.authority}, witnesses, nil, logs)
	if err != nil {
		t.Fatal(err)
	}
	services := []root.Service{{URL: s.url, MajorAPIVersion: 1, ValidityPeriodStart: s.authority.ValidityPeriodStart}}
	signing, err := root.NewSigningConfig(root.SigningConfigMediaType02, services, nil, services,
		root.ServiceConfiguration{Selector: prototrustroot.ServiceSelector_ANY}, nil, root.ServiceConfiguration{})
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string]json.Marshaler{s.trustedRoot(): trusted, s.signingConfig(): signing} {
		raw, err := content.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *sigstore) trustedRoot() string   { return filepath.Join(s.config, "trusted-root.json") }
func (s *sigstore) signingConfig() string { return filepath.Join(s.config, "signing-config.json") }

// job is the environment that GitHub gives to a job of a workflow that may ask for tokens.
func (s *sigstore) job(workflow string) []string {
	repository, _, _ := strings.Cut(workflow, "/.github/")
	_, ref, _ := strings.Cut(workflow, "@")
	return []string{
		"ACTIONS_ID_TOKEN_REQUEST_URL=" + s.url + "/token?workflow=" + url.QueryEscape(workflow), "ACTIONS_ID_TOKEN_REQUEST_TOKEN=" + secret,
		"GITHUB_SERVER_URL=https://github.com", "GITHUB_REPOSITORY=" + repository, "GITHUB_WORKFLOW_REF=" + workflow, "GITHUB_REF=" + ref,
		"GITHUB_EVENT_NAME=push", "GITHUB_REPOSITORY_ID=1", "GITHUB_REPOSITORY_OWNER_ID=2", "RUNNER_ENVIRONMENT=github-hosted",
		"GITHUB_RUN_ID=3", "GITHUB_RUN_ATTEMPT=1",
	}
}

type claims struct {
	jwt.Claims
	Workflow string `json:"job_workflow_ref"`
}

// token is what GitHub answers to a job.
func (s *sigstore) token(r *http.Request) (int, any, error) {
	if r.Header.Get("Authorization") != "bearer "+secret {
		return 0, nil, errors.New("this is no job")
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: s.witness}, nil)
	if err != nil {
		return 0, nil, err
	}
	workflow, audience := r.URL.Query().Get("workflow"), jwt.Audience{r.URL.Query().Get("audience")}
	token, err := jwt.Signed(signer).Claims(claims{jwt.Claims{Issuer: issuer, Subject: "repo", Audience: audience}, workflow}).Serialize()
	return http.StatusOK, map[string]string{"value": token}, err
}

// certify is what Fulcio answers to a token and a key: a certificate for the workflow that the token is for.
func (s *sigstore) certify(r *http.Request) (int, any, error) {
	token, err := jwt.ParseSigned(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return 0, nil, err
	}
	var of claims
	if err := token.Claims(s.witness.Public(), &of); err != nil {
		return 0, nil, err
	}
	if err := of.Validate(jwt.Expected{Issuer: issuer, AnyAudience: jwt.Audience{"sigstore"}}); err != nil {
		return 0, nil, err
	}
	var request struct {
		PublicKeyRequest struct {
			PublicKey struct{ Content string }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		return 0, nil, err
	}
	block, _ := pem.Decode([]byte(request.PublicKeyRequest.PublicKey.Content))
	if block == nil {
		return 0, nil, errors.New("there is no key")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return 0, nil, err
	}
	certificate, err := s.issue(of.Workflow, key)
	if err != nil {
		return 0, nil, err
	}
	chain := []string{string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}))}
	return http.StatusOK, map[string]any{"signedCertificateEmbeddedSct": map[string]any{"chain": map[string]any{"certificates": chain}}}, nil
}

// issue makes a certificate twice: the first is noted in the log of certificates, and the second has the proof of that.
func (s *sigstore) issue(workflow string, key crypto.PublicKey) ([]byte, error) {
	issuedBy, err := asn1.MarshalWithParams(issuer, "utf8")
	if err != nil {
		return nil, err
	}
	now, parent := time.Now(), s.authority.Intermediates[0]
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), NotBefore: now.Add(-time.Minute), NotAfter: now.Add(10 * time.Minute),
		URIs:     []*url.URL{{Scheme: "https", Host: "github.com", Path: "/" + workflow}},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 8}, Value: issuedBy}},
	}
	first, err := x509.CreateCertificate(rand.Reader, template, parent, key, s.key)
	if err != nil {
		return nil, err
	}
	noted, err := x509.ParseCertificate(first)
	if err != nil {
		return nil, err
	}
	proof, err := s.witnessed(noted.RawTBSCertificate, parent, now)
	if err != nil {
		return nil, err
	}
	template.ExtraExtensions = append(template.ExtraExtensions, pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 2}, Value: proof})
	return x509.CreateCertificate(rand.Reader, template, parent, key, s.key)
}

// witnessed is the extension by which a certificate shows that it is in the log of certificates.
func (s *sigstore) witnessed(certificate []byte, parent *x509.Certificate, now time.Time) ([]byte, error) {
	public, err := x509.MarshalPKIXPublicKey(s.witness.Public())
	if err != nil {
		return nil, err
	}
	stamp := ct.SignedCertificateTimestamp{SCTVersion: ct.V1, LogID: ct.LogID{KeyID: sha256.Sum256(public)}, Timestamp: uint64(now.UnixMilli())}
	input, err := ct.SerializeSCTSignatureInput(stamp, ct.LogEntry{Leaf: ct.MerkleTreeLeaf{Version: ct.V1, LeafType: ct.TimestampedEntryLeafType, TimestampedEntry: &ct.TimestampedEntry{
		Timestamp: stamp.Timestamp, EntryType: ct.PrecertLogEntryType,
		PrecertEntry: &ct.PreCert{IssuerKeyHash: sha256.Sum256(parent.RawSubjectPublicKeyInfo), TBSCertificate: certificate},
	}}})
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(input)
	signature, err := ecdsa.SignASN1(rand.Reader, s.witness, digest[:])
	if err != nil {
		return nil, err
	}
	stamp.Signature = ct.DigitallySigned{Algorithm: tls.SignatureAndHashAlgorithm{Hash: tls.SHA256, Signature: tls.ECDSA}, Signature: signature}
	list, err := x509util.MarshalSCTsIntoSCTList([]*ct.SignedCertificateTimestamp{&stamp})
	if err != nil {
		return nil, err
	}
	raw, err := tls.Marshal(*list)
	if err != nil {
		return nil, err
	}
	return asn1.Marshal(raw)
}

// note is what Rekor answers to a signature. Each entry is alone in a log of its own.
func (s *sigstore) note(r *http.Request) (int, any, error) {
	proposed, err := models.UnmarshalProposedEntry(r.Body, runtime.JSONConsumer())
	if err != nil {
		return 0, nil, err
	}
	entry, err := types.CreateVersionedEntry(proposed)
	if err != nil {
		return 0, nil, err
	}
	body, err := types.CanonicalizeEntry(context.Background(), entry)
	if err != nil {
		return 0, nil, err
	}
	id, err := s.log.RekorLogID()
	if err != nil {
		return 0, nil, err
	}
	payload := tlog.RekorPayload{Body: base64.StdEncoding.EncodeToString(body), IntegratedTime: time.Now().Unix(), LogID: id}
	promise, err := s.log.RekorSignPayload(payload)
	if err != nil {
		return 0, nil, err
	}
	proof, err := s.log.GetInclusionProof(body)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, models.LogEntry{entryID: {
		Body: payload.Body, IntegratedTime: &payload.IntegratedTime, LogIndex: &payload.LogIndex, LogID: &payload.LogID,
		Verification: &models.LogEntryAnonVerification{SignedEntryTimestamp: promise, InclusionProof: proof},
	}}, nil
}

// keyID is how logs are told apart.
func keyID(t *testing.T, key crypto.PublicKey) [sha256.Size]byte {
	t.Helper()
	raw, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(raw)
}
