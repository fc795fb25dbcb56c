package main

import (
	"encoding/json"
	"fmt"
	"net/http"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// bindings are what an audit log says of who was given which host.
type bindings struct {
	taken  int // how often a host was given to a claim
	claims int // that have had a host
	second int // hosts that a claim was given beside its first one
	shared int // claims that a host was given to beside its first one
}

// audited reads the audit log.
func (w *claimWorld) audited() (bindings, error) {
	events, err := w.plane.AuditEvents()
	if err != nil {
		return bindings{}, err
	}
	return bindingsOf(events)
}

// bindingsOf counts in the requests that were accepted.
func bindingsOf(events []auditv1.Event) (bindings, error) {
	var found bindings
	hosts, claims := map[string]map[string]bool{}, map[string]map[string]bool{}
	for _, event := range events {
		if event.ObjectRef == nil || event.ObjectRef.Resource != "baremetalhosts" || event.Verb != "patch" || event.RequestObject == nil ||
			event.ResponseStatus == nil || event.ResponseStatus.Code != http.StatusOK {
			continue
		}
		var written struct {
			Spec struct {
				ConsumerRef *struct {
					UID string `json:"uid"`
				} `json:"consumerRef"`
			} `json:"spec"`
		}
		if err := json.Unmarshal(event.RequestObject.Raw, &written); err != nil {
			return found, fmt.Errorf("reading what was written to a host: %w", err)
		}
		if written.Spec.ConsumerRef == nil || written.Spec.ConsumerRef.UID == "" {
			continue
		}
		found.taken++
		host, claim := event.ObjectRef.Namespace+"/"+event.ObjectRef.Name, written.Spec.ConsumerRef.UID
		if hosts[claim] == nil {
			hosts[claim] = map[string]bool{}
		}
		if claims[host] == nil {
			claims[host] = map[string]bool{}
		}
		hosts[claim][host], claims[host][claim] = true, true
	}
	found.claims = len(hosts)
	for _, had := range hosts {
		found.second += len(had) - 1
	}
	for _, had := range claims {
		found.shared += len(had) - 1
	}
	return found, nil
}
