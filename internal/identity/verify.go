package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/oracle/oci-go-sdk/v65/common"

	oci "github.com/archelon-io/archelon/identity"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/outcome"
)

// What OCI said to an API key.
const (
	accepted    = "accepted"
	rejected    = "rejected"
	unreachable = "unreachable"
)

// How long an answer of OCI counts.
const (
	acceptedFor    = time.Hour
	rejectedFor    = 5 * time.Minute
	unreachableFor = time.Minute
)

const (
	verifyTimeout = 10 * time.Second
	// maxAnswer is how much of an answer is read. Nothing of it is of interest but its code.
	maxAnswer = 64 << 10
)

// VerifierOptions say whom a Verifier asks.
type VerifierOptions struct {
	// Endpoint is the URL of OCI's Identity API, by default that of the credential's region.
	Endpoint string
	// TrustedCAs are the certificates of authorities in PEM, by default those of the system.
	TrustedCAs []byte
	// Timeout bounds one question; 10 seconds by default.
	Timeout time.Duration
	// DefaultRegion is asked about credentials that name none.
	DefaultRegion string
}

// Verifier asks OCI whether it accepts an API key.
type Verifier struct {
	client   *http.Client
	endpoint *url.URL
	region   string
}

// NewVerifier returns a Verifier. Connections are not kept, follow no redirect, and trust what the options say.
func NewVerifier(options VerifierOptions) (*Verifier, error) {
	v := &Verifier{}
	if options.DefaultRegion != "" {
		region, ok := oci.ParseRegion(options.DefaultRegion)
		if !ok {
			return nil, fmt.Errorf("%q is not the identifier of an OCI region", options.DefaultRegion)
		}
		v.region = region
	}
	if options.Endpoint != "" {
		endpoint, err := url.Parse(options.Endpoint)
		if err != nil || endpoint.Scheme != "https" || endpoint.Host == "" || endpoint.User != nil {
			return nil, errors.New("the endpoint of OCI's Identity API has to be an https URL without user")
		}
		v.endpoint = endpoint
	}
	timeout := options.Timeout
	if timeout <= 0 {
		timeout = verifyTimeout
	}
	var err error
	if v.client, err = newHTTPClient(timeout, options.TrustedCAs); err != nil {
		return nil, err
	}
	return v, nil
}

// newHTTPClient returns a client that trusts the authorities, those of the system without any.
func newHTTPClient(timeout time.Duration, authorities []byte) (*http.Client, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(authorities) > 0 {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, errors.New("the trusted CAs for OCI's Identity API hold no certificate in PEM")
		}
	}
	return &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: trust, DisableKeepAlives: true,
			TLSHandshakeTimeout: timeout,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// answer is what came of a question. It has nothing of the credential.
type answer struct {
	result string
	// detail says to people why not.
	detail string
}

// ask asks OCI for the credential's own user. OCI checks the signature first, so every answer about the user or about
// permissions means that it accepted the key.
func (v *Verifier) ask(ctx context.Context, credential *oci.Credential) answer {
	address, err := v.address(credential)
	if err != nil {
		return answer{unreachable, outcome.Sentence(err.Error())}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return answer{unreachable, "The address of OCI's Identity API cannot be built. Check the region in the Secret"}
	}
	request.Header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	request.Header.Set("Accept", "application/json")
	if err := common.DefaultRequestSigner(credential).Sign(request); err != nil {
		return answer{rejected, "A request cannot be signed with the key. Replace the key in the Secret"}
	}
	response, err := v.client.Do(request)
	if err != nil {
		return answer{unreachable, "OCI's Identity API cannot be reached: " + controller.Head(cause(err), maxText)}
	}
	defer response.Body.Close() //nolint:errcheck // it was read as far as it is of interest
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxAnswer))
	return answerOf(response.StatusCode)
}

func answerOf(code int) answer {
	switch code {
	case http.StatusUnauthorized:
		return answer{
			rejected,
			"OCI does not accept the API key (HTTP status 401). " +
				"Check that the user in OCI still has this key, and the clock of the Nodes that run Archelon",
		}
	case http.StatusOK, http.StatusForbidden, http.StatusNotFound:
		return answer{result: accepted}
	default:
		return answer{unreachable, fmt.Sprintf("OCI's Identity API answered with HTTP status %d", code)}
	}
}

// address returns the URL of the credential's user.
func (v *Verifier) address(credential *oci.Credential) (string, error) {
	region, err := credential.Region()
	if err != nil || region == "" {
		region = v.region
	}
	base, err := v.base(region)
	if err != nil {
		return "", err
	}
	user, err := credential.UserOCID()
	return base.JoinPath("20160918", "users", user).String(), err
}

// base returns the URL of OCI's Identity API in a region, unless the options name one.
func (v *Verifier) base(region string) (*url.URL, error) {
	if v.endpoint != nil {
		return v.endpoint, nil
	}
	if region == "" {
		return nil, errors.New("neither the Secret nor a default names the region. Add region to the Secret")
	}
	host := common.StringToRegion(region).EndpointForTemplate(
		"identity", "https://identity.{region}.oci.{secondLevelDomain}",
	)
	base, err := url.Parse(host)
	if err != nil || base.Host == "" {
		return nil, errors.New("OCI's SDK knows no address for the region. Correct region in the Secret")
	}
	return base, nil
}

// cause returns the error without the URL, whose path has the OCID of a user.
func cause(err error) string {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	return strings.TrimSpace(err.Error())
}
