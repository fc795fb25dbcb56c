package options

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/archelon-io/archelon/feature"
)

// Validate reports every option that cannot be used, in sentences.
func (o *Options) Validate() error {
	var problems []error
	positive := func(name string, ok bool) {
		if !ok {
			problems = append(problems, fmt.Errorf("--%s must be greater than zero", name))
		}
	}
	positive("concurrency", o.Concurrency > 0)
	positive("workload-concurrency", o.WorkloadConcurrency > 0)
	positive("sync-period", o.SyncPeriod > 0)
	positive("manifest-timeout", o.ManifestTimeout > 0)
	positive("manifest-max-bytes", o.ManifestMaxBytes > 0)
	positive("workload-timeout", o.WorkloadTimeout > 0)
	if o.AgentDisconnectGrace < 0 {
		problems = append(problems, errors.New("--agent-disconnect-grace must not be negative"))
	}
	if o.KubeAPIQPS == 0 {
		problems = append(problems, errors.New("--kube-api-qps must not be zero; a negative value lifts the limit"))
	}
	if o.KubeAPIQPS > 0 && float32(o.KubeAPIBurst) < 1 {
		problems = append(problems, errors.New("--kube-api-burst must be greater than zero"))
	}
	if !o.leaderElectionFits() {
		problems = append(problems, errors.New("--leader-elect-lease-duration, in whole seconds, must be longer than --leader-elect-renew-deadline, and that longer than 1.2 times --leader-elect-retry-period"))
	}
	if strings.ContainsAny(o.WatchFilter, " ,=") {
		problems = append(problems, fmt.Errorf("--watch-filter %q must be the value of a label", o.WatchFilter))
	}
	if len(o.TurtlesNamespaces) == 0 {
		problems = append(problems, errors.New("--turtles-namespace must name a namespace"))
	}
	for option, names := range map[string][]string{"turtles-namespace": o.TurtlesNamespaces, "fleet-workspace": o.FleetWorkspaces} {
		for _, name := range names {
			if invalid := validation.IsDNS1123Label(name); len(invalid) > 0 {
				problems = append(problems, fmt.Errorf("--%s %q must be the name of a namespace: lower-case letters, digits and dashes, at most 63 characters", option, name))
			}
		}
	}
	problems = append(problems, o.selectorProblems()...)
	problems = append(problems, o.agentSettingProblems()...)
	problems = append(problems, o.labelProblems()...)
	problems = append(problems, o.scopeProblems()...)
	problems = append(problems, o.claimProblems()...)
	problems = append(problems, o.Identity.validate())
	if o.Gates.Enabled(feature.OCICredentialTranslation) {
		problems = append(problems, o.Credentials.validate(o))
	}
	problems = append(problems, o.validateImport(), o.validateMachines(), o.validateMembers(), o.validateRancher())
	if invalid := validation.IsDNS1123Label(o.Instance); o.Instance != "" && len(invalid) > 0 {
		problems = append(problems, fmt.Errorf("--instance %q must be lower-case letters, digits and dashes, at most 63 characters", o.Instance))
	}
	return errors.Join(problems...)
}

func (o *Options) validateMachines() error {
	if !o.Gates.Enabled(feature.HostClaimMachines) || o.Gates.Enabled(feature.HostClaim) {
		return nil
	}
	return fmt.Errorf("gate %s needs gate %s, which gives hosts to the claims of Machines", feature.HostClaimMachines, feature.HostClaim)
}

// scopeProblems reports namespaces that cannot be ones, and lists of none: an empty list is not all namespaces.
func (o *Options) scopeProblems() []error {
	var problems []error
	if _, err := o.Scope(); err != nil {
		problems = append(problems, err)
	}
	for option, names := range map[string][]string{"namespace": o.Namespaces, "excluded-namespace": o.ExcludedNamespaces} {
		if names != nil && len(names) == 0 {
			problems = append(problems, fmt.Errorf("--%s is empty: name a namespace, or leave the flag out, which means all namespaces", option))
		}
	}
	return problems
}
