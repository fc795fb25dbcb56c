// Package remote controls a stand-in for Rancher that runs elsewhere, such as in a Pod: Handler is its control API, and
// Remote is the client, which has the methods of rancher.Control.
//
// Every call is a POST to /control/NAME with a JSON object and gets a JSON object, or an error as {"error":
// "..."}. The API is for tests inside a cluster and has no authentication of its own: whoever reaches the Pod may
// use it, and from outside the API server's proxy for Services lets administrators through. Bodies hold
// credentials and are not logged on either side.
package remote

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/archelon-io/archelon/test/standin/rancher"
)

// prefix begins the path of every call.
const prefix = "/control/"

// Bodies of calls and their answers. What a call does not need is empty.
type (
	nothing struct{}

	workload struct {
		Name   string         `json:"name"`
		Access rancher.Access `json:"access"`
	}
	name struct {
		Name string `json:"name"`
	}
	hold struct {
		Hold bool `json:"hold"`
	}
	value struct {
		Value string `json:"value"`
	}
	fault struct {
		Fault rancher.Fault `json:"fault"`
	}

	connected struct {
		Workload  string `json:"workload"`
		Connected bool   `json:"connected"`
	}
	count struct {
		Count int `json:"count"`
	}
	requests struct {
		Requests []rancher.Request `json:"requests"`
	}
	about struct {
		URL    string `json:"url"`
		CACert []byte `json:"caCert"`
	}
	file struct {
		Content []byte `json:"content"`
	}
	failure struct {
		Error string `json:"error"`
	}
)

// checkFault rejects a fault that the stand-in could not play.
func checkFault(f rancher.Fault) error {
	known := []rancher.FaultKind{
		rancher.FaultStatus, rancher.FaultHTML, rancher.FaultEmpty, rancher.FaultTruncated, rancher.FaultCut, rancher.FaultLarge,
		rancher.FaultEndless, rancher.FaultNotYAML, rancher.FaultForeignKind, rancher.FaultNoSecret, rancher.FaultRedirect,
		rancher.FaultSlow, rancher.FaultHang, rancher.FaultDrop,
	}
	switch {
	case !slices.Contains(known, f.Kind):
		return fmt.Errorf("there is no fault %q", f.Kind)
	case f.Status != 0 && (f.Status < http.StatusOK || f.Status > 599):
		return fmt.Errorf("%d is no status of an answer", f.Status)
	case f.Times < 0 || f.Bytes < 0 || f.Delay < 0:
		return errors.New("a number is negative")
	}
	return nil
}
