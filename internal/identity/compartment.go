package identity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/oracle/oci-go-sdk/v65/common"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/internal/controller"
)

// maxDepth is how many compartments one in another can be: OCI allows six below the tenancy.
const maxDepth = 7

// compartment is what is of interest of OCI's answer.
type compartment struct {
	ID     string `json:"id"`
	Parent string `json:"compartmentId"`
}

// look asks OCI, as the principal, for a compartment and for what that is a part of, up to the tenancy. OCI checks the
// signature first, so every answer but 401 means that it accepted the key.
func (v *Verifier) look(ctx context.Context, as common.ConfigurationProvider, to target, authorities []byte) finding {
	tenancy, err := as.TenancyOCID()
	if err != nil {
		return unknown(infrav1.OCIUnreachableReason, "The principal has no tenancy")
	}
	base, client, err := v.reach(as, to, authorities)
	if err != nil {
		return unknown(infrav1.OCIUnreachableReason, err.Error())
	}
	id := to.compartment
	if id == "" {
		id = tenancy // Whether the principal may see it does not matter then.
	}
	for depth := range maxDepth {
		code, found, err := get(ctx, client, as, base.JoinPath("20160918", "compartments", id))
		switch {
		case err != nil:
			return unknown(infrav1.OCIUnreachableReason, "OCI's Identity API cannot be reached: "+controller.Head(cause(err), maxText))
		case code == http.StatusUnauthorized:
			return finding{rejected, identityv1.CredentialRejectedReason, answerOf(code).detail}
		case (code == http.StatusForbidden || code == http.StatusNotFound) && to.compartment == "":
			return finding{result: accepted}
		case (code == http.StatusForbidden || code == http.StatusNotFound) && depth == 0:
			return finding{rejected, infrav1.CompartmentNotVisibleReason, "The OCI principal does not see the compartment in spec.compartmentId. " +
				"Correct it, or give the user the permission to inspect compartments there"}
		case code == http.StatusForbidden || code == http.StatusNotFound:
			return unknown(infrav1.TenancyNotVisibleReason, "The OCI principal sees the compartment of the cluster, and not whether the compartment is "+
				"in its tenancy. Give the user the permission to inspect compartments in the tenancy")
		case code != http.StatusOK:
			return unknown(infrav1.OCIUnreachableReason, fmt.Sprintf("OCI's Identity API answered with HTTP status %d", code))
		case found.ID != id:
			return unknown(infrav1.OCIUnreachableReason, "OCI's Identity API answered with another compartment")
		case id == tenancy || found.Parent == tenancy:
			return finding{result: accepted}
		case isTenancy(id) || isTenancy(found.Parent):
			return finding{rejected, infrav1.CompartmentInOtherTenancyReason, "The compartment in spec.compartmentId is in another tenancy than the OCI principal. " +
				"Use a compartment of the tenancy of the identity, or another identity"}
		case !isCompartment(found.Parent):
			return unknown(infrav1.OCIUnreachableReason, "OCI's Identity API did not say what the compartment is a part of")
		}
		id = found.Parent
	}
	return unknown(infrav1.OCIUnreachableReason, "OCI's Identity API named more compartments in each other than OCI has")
}

func isTenancy(id string) bool {
	return strings.HasPrefix(id, "ocid1.tenancy.") || strings.HasPrefix(id, "ocidv1:tenancy:")
}

// reach returns the address of OCI's Identity API for a target, and a client that trusts its authorities.
func (v *Verifier) reach(as common.ConfigurationProvider, to target, authorities []byte) (*url.URL, *http.Client, error) {
	if to.endpoint == "" {
		region, err := as.Region()
		if err != nil || region == "" {
			region = v.region
		}
		if region == "" {
			region = to.region
		}
		base, err := v.base(region)
		return base, v.client, err
	}
	base, err := url.Parse(to.endpoint)
	if err != nil {
		return nil, nil, errors.New("the address of OCI's Identity API cannot be read")
	}
	if len(authorities) == 0 {
		return base, v.client, nil
	}
	client, err := newHTTPClient(v.client.Timeout, authorities)
	return base, client, err
}

// get asks for a compartment. It reads no more of the answer than a compartment has, and follows no redirect.
func get(ctx context.Context, client *http.Client, as common.ConfigurationProvider, from *url.URL) (int, compartment, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), http.NoBody)
	if err != nil {
		return 0, compartment{}, errors.New("the address cannot be built")
	}
	request.Header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	request.Header.Set("Accept", "application/json")
	if err := common.DefaultRequestSigner(as).Sign(request); err != nil {
		return 0, compartment{}, errors.New("a request cannot be signed with the key")
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, compartment{}, err
	}
	defer response.Body.Close() //nolint:errcheck // it was read as far as it is of interest
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return 0, compartment{}, err
	}
	found := compartment{}
	if response.StatusCode == http.StatusOK && json.Unmarshal(raw, &found) != nil {
		return 0, compartment{}, errors.New("the answer is no compartment")
	}
	return response.StatusCode, found, nil
}
