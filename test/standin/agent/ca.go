package agent

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	// requestTimeout bounds one short request.
	requestTimeout = time.Minute
	// answerLimit is the size of an answer above which it is not Rancher's.
	answerLimit = 1 << 20
)

// Checksum returns what CATTLE_CA_CHECKSUM has to be for a value of Rancher's setting cacerts.
func Checksum(cacerts string) string {
	if cacerts == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(cacerts) + "\n"))
	return hex.EncodeToString(sum[:])
}

// trustedRoots asks Rancher for its CA and trusts it if its checksum is the expected one. nil
// are the roots of the system.
func trustedRoots(ctx context.Context, server string, opts Options) (*x509.CertPool, error) {
	if opts.CAChecksum == "" {
		return nil, nil
	}
	cacerts, err := fetchCA(ctx, server)
	if err != nil {
		return nil, fmt.Errorf("asking Rancher for its CA: %w", err)
	}
	if got := Checksum(cacerts); got != opts.CAChecksum {
		return nil, fmt.Errorf("the CA of Rancher has checksum %q, but this agent was installed with %q", got, opts.CAChecksum)
	}
	pool := x509.NewCertPool()
	if !opts.Strict {
		if pool, err = x509.SystemCertPool(); err != nil {
			return nil, fmt.Errorf("reading the system's roots: %w", err)
		}
	}
	if !pool.AppendCertsFromPEM([]byte(cacerts)) {
		return nil, errors.New("the CA of Rancher is no certificate")
	}
	return pool, nil
}

// fetchCA reads setting cacerts. Nothing is trusted yet: what it says is checked by its checksum.
func fetchCA(ctx context.Context, server string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(server, "/")+"/v3/settings/cacerts", nil)
	if err != nil {
		return "", err
	}
	transport := &http.Transport{
		Proxy:           http.ProxyFromEnvironment,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true},
	}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("it answers with status %d", response.StatusCode)
	}
	setting := struct {
		Value string `json:"value"`
	}{}
	if err := json.NewDecoder(io.LimitReader(response.Body, answerLimit)).Decode(&setting); err != nil {
		return "", fmt.Errorf("its answer is no setting: %w", err)
	}
	return setting.Value, nil
}
