package options

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/archelon-io/archelon/feature"
	importer "github.com/archelon-io/archelon/internal/import"
)

// addTenantFlags binds what else tenants may ask for.
func (o *Options) addTenantFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.AgentSettings, "agent-setting", o.AgentSettings,
		"Part of the agent's Deployment that annotation archelon.io/agent-deployment may set; repeatable: "+
			strings.Join(importer.AgentSettings(), ", ")+". Default: none.")
	fs.BoolVar(&o.ClassLabels, "cluster-class-labels", o.ClassLabels,
		"Label Rancher clusters with the ClusterClass of their CAPI Clusters, for Fleet.")
	fs.StringSliceVar(&o.Members.Roles, "member-role", o.Members.Roles,
		"Role template that annotation archelon.io/members may ask for, with gate rancher-cluster-members.")
	fs.StringArrayVar(&o.Members.Principals, "member-principal", o.Members.Principals,
		"What its groups and users may begin with, such as okta_group://; repeatable.")
}

// agentSettingProblems reports parts that there are not.
func (o *Options) agentSettingProblems() []error {
	var problems []error
	for _, name := range o.AgentSettings {
		if !slices.Contains(importer.AgentSettings(), name) {
			problems = append(problems, fmt.Errorf("--agent-setting %q must be one of %s", name, strings.Join(importer.AgentSettings(), ", ")))
		}
	}
	return problems
}

// validateMembers reports lists that nothing comes of.
func (o *Options) validateMembers() error {
	if !o.Gates.Enabled(feature.RancherClusterMembers) {
		if len(o.Members.Roles)+len(o.Members.Principals) > 0 {
			return fmt.Errorf("--member-role and --member-principal are for gate %s: switch it on, or leave them out", feature.RancherClusterMembers)
		}
		return nil
	}
	if err := o.Members.Validate(); err != nil {
		return fmt.Errorf("--member-role, --member-principal: %w", err)
	}
	return nil
}
