package options

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/archelon-io/archelon/feature"
	importer "github.com/archelon-io/archelon/internal/import"
)

// podSecurityLevels are those of Kubernetes.
func podSecurityLevels() []string { return []string{"privileged", "baseline", "restricted"} }

// addTenantFlags binds what else tenants may ask for.
func (o *Options) addTenantFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.AgentSettings, "agent-setting", o.AgentSettings,
		"Part of the agents' Deployments that annotations archelon.io/agent-deployment and archelon.io/fleet-agent-deployment "+
			"may set, or private-registry and registry-pull-secrets, for annotations archelon.io/private-registry and "+
			"archelon.io/private-registry-pull-secrets; repeatable: "+strings.Join(importer.AgentSettings(), ", ")+". Default: none.")
	fs.StringArrayVar(&o.AgentDefaultEnv, "agent-default-env", o.AgentDefaultEnv,
		"Environment variable of Rancher's agent in all workload clusters, as NAME=VALUE; repeatable. "+
			"Annotation archelon.io/agent-env of a Cluster wins.")
	fs.StringVar(&o.AgentDefaultTolerations, "agent-default-tolerations", o.AgentDefaultTolerations,
		"Tolerations of Rancher's agent in all workload clusters, as a list in YAML or JSON. "+
			"Those in annotation archelon.io/agent-deployment of a Cluster replace them.")
	fs.StringVar(&o.AgentPodSecurity, "agent-pod-security", o.AgentPodSecurity,
		"Level of Pod Security that namespace cattle-system enforces in workload clusters where Archelon creates it: "+
			strings.Join(podSecurityLevels(), ", ")+". Default: that of the workload cluster.")
	fs.BoolVar(&o.AllowLocalProxyURLs, "allow-local-proxy-urls", o.AllowLocalProxyURLs,
		"Accept kubeconfigs whose proxy-url leads to a loopback, link-local, unspecified or multicast address.")
	fs.BoolVar(&o.ClassLabels, "cluster-class-labels", o.ClassLabels,
		"Label Rancher clusters and Fleet Clusters with the ClusterClass of their CAPI Clusters.")
	fs.StringSliceVar(&o.UnpropagatedLabels, "unpropagated-label", o.UnpropagatedLabels,
		"Key of a label that Rancher clusters do not get from their CAPI Clusters, or a pattern such as example.com/*; repeatable.")
	fs.StringSliceVar(&o.PropagatedAnnotations, "propagated-annotation", o.PropagatedAnnotations,
		"Key of an annotation that Rancher clusters get from their CAPI Clusters, and Fleet Clusters from Rancher, or a pattern such as "+
			"example.com/*; repeatable. Default: none.")
	fs.StringSliceVar(&o.Members.Roles, "member-role", o.Members.Roles,
		"Role template that annotation archelon.io/members may ask for, with gate rancher-cluster-members.")
	fs.StringArrayVar(&o.Members.Principals, "member-principal", o.Members.Principals,
		"What its groups and users may begin with, such as okta_group://; repeatable.")
}

// labelProblems reports patterns that match no label, or no annotation that may be copied.
func (o *Options) labelProblems() []error {
	var problems []error
	for _, pattern := range o.UnpropagatedLabels {
		if len(validation.IsQualifiedName(strings.ReplaceAll(pattern, "*", "x"))) > 0 {
			problems = append(problems, fmt.Errorf("--unpropagated-label %q must be the key of a label, such as example.com/owner, or a pattern of keys, such as example.com/*", pattern))
		}
	}
	for _, pattern := range o.PropagatedAnnotations {
		if err := importer.CheckPropagatedAnnotation(pattern); err != nil {
			problems = append(problems, fmt.Errorf("--propagated-annotation: %w", err))
		}
	}
	return problems
}

// agentSettingProblems reports parts and levels that there are not.
func (o *Options) agentSettingProblems() []error {
	var problems []error
	for _, name := range o.AgentSettings {
		if !slices.Contains(importer.AgentSettings(), name) {
			problems = append(problems, fmt.Errorf("--agent-setting %q must be one of %s", name, strings.Join(importer.AgentSettings(), ", ")))
		}
	}
	if o.AgentPodSecurity != "" && !slices.Contains(podSecurityLevels(), o.AgentPodSecurity) {
		problems = append(problems, fmt.Errorf("--agent-pod-security %q must be one of %s", o.AgentPodSecurity, strings.Join(podSecurityLevels(), ", ")))
	}
	if _, err := o.AgentDefaults(); err != nil {
		problems = append(problems, fmt.Errorf("--agent-default-env, --agent-default-tolerations: %w", err))
	}
	return problems
}

// AgentDefaults are the settings of Rancher's agent for all clusters.
func (o *Options) AgentDefaults() (importer.AgentDefaults, error) {
	return importer.ParseAgentDefaults(o.AgentDefaultEnv, o.AgentDefaultTolerations)
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
