package options

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"k8s.io/component-base/featuregate"

	"github.com/archelon-io/archelon/feature"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/selector"
	"github.com/archelon-io/archelon/internal/shard"
)

// Claim is what the instance is told to work on, in namespaces of its scope.
func (o *Options) Claim(scope shard.Scope) (instance.Claim, error) {
	claim := instance.Claim{Scope: scope, WatchFilter: o.WatchFilter}
	if o.NamespaceSelector == "" {
		return claim, nil
	}
	var err error
	if claim.Selector, err = selector.Parse(o.NamespaceSelector); err != nil {
		return claim, fmt.Errorf("--namespace-selector %q: %w: correct it, or leave it out to select all namespaces", o.NamespaceSelector, err)
	}
	return claim, nil
}

// SelectorSuffix appends to a name what tells instances with different selectors apart.
func (o *Options) SelectorSuffix(name string) string {
	claim, err := o.Claim(shard.Scope{})
	if err != nil || claim.Selector == nil {
		return name
	}
	sum := sha256.Sum256([]byte(claim.Selector.String()))
	return name + "-" + hex.EncodeToString(sum[:4])
}

// claimProblems reports what cannot be divided by the labels of namespaces.
func (o *Options) claimProblems() []error {
	if o.NamespaceSelector == "" {
		return nil
	}
	var problems []error
	if _, err := o.Claim(shard.Scope{}); err != nil {
		problems = append(problems, err)
	}
	for _, gate := range []featuregate.Feature{
		feature.OCIClusterIdentity, feature.OCICredentialTranslation, feature.HostClaim, feature.HostClaimMachines, feature.Fleet, feature.RemoteRancher,
		feature.RancherClusterMembers,
	} {
		if o.Gates.Enabled(gate) {
			problems = append(problems, fmt.Errorf("--namespace-selector divides imports alone, and cannot be used with gate %s: "+
				"use --namespace in its place", gate))
		}
	}
	return problems
}
