// Package feature names what can be switched on and off. Only main, internal/setup and internal/options read gates;
// everything below them gets a boolean or another implementation.
package feature

import "k8s.io/component-base/featuregate"

const (
	// Every gate has a comment of this form:
	//
	// MyFeature does this and that.
	//
	// alpha: v0.X
	// beta: v0.X

	// ManagementV3Cluster imports CAPI clusters as management.cattle.io/v3 Clusters. Off, they are imported as
	// provisioning.cattle.io/v1 Clusters (document 004, "Management V3 clusters support").
	//
	// alpha: v0.1
	ManagementV3Cluster featuregate.Feature = "managementv3-cluster"

	// OCIClusterIdentity shows on each OCIClusterIdentity whether it works and who uses it, and imports no cluster whose
	// identity is not for it.
	//
	// alpha: v0.1
	OCIClusterIdentity featuregate.Feature = "oci-cluster-identity"

	// OCICredentialTranslation creates an OCIClusterIdentity and its principal Secret for each of Rancher's cloud
	// credentials for OCI. It needs OCIClusterIdentity.
	//
	// alpha: v0.1
	OCICredentialTranslation featuregate.Feature = "oci-credential-translation"

	// HostClaim gives hosts to HostClaims (document 002).
	//
	// alpha: v0.1
	HostClaim featuregate.Feature = "host-claim"

	// HostClaimMachines lets Metal3Machines get their hosts through HostClaims. It needs HostClaim.
	//
	// alpha: v0.1
	HostClaimMachines featuregate.Feature = "host-claim-machines"

	// Fleet keeps connections to the workload clusters of imported CAPI Clusters, for controllers that run across all of
	// them, and shows on each Cluster whether it is connected (document 001,
	// "multicluster-runtime, Cluster API provider").
	//
	// alpha: v0.1
	Fleet featuregate.Feature = "fleet"

	// RancherClusterMembers gives people roles in Rancher clusters, as an annotation of the CAPI Cluster asks for
	// and an administrator allows.
	//
	// alpha: v0.1
	RancherClusterMembers featuregate.Feature = "rancher-cluster-members"

	// AgentManifest writes the manifest of Rancher's agent into a Secret beside a CAPI Cluster whose annotation
	// archelon.io/agent-delivery is "manual", for those who apply it in the workload cluster.
	//
	// alpha: v0.1
	AgentManifest featuregate.Feature = "agent-manifest"

	// RemoteRancher imports into a Rancher in another cluster, which Options.RancherKubeconfig leads to.
	// It needs ManagementV3Cluster.
	//
	// alpha: v0.1
	RemoteRancher featuregate.Feature = "remote-rancher"
)

// NewGates returns all gates at their defaults.
func NewGates() (featuregate.MutableFeatureGate, error) {
	gates := featuregate.NewFeatureGate()
	if err := gates.Add(map[featuregate.Feature]featuregate.FeatureSpec{
		ManagementV3Cluster:      {Default: false, PreRelease: featuregate.Alpha},
		OCIClusterIdentity:       {Default: false, PreRelease: featuregate.Alpha},
		OCICredentialTranslation: {Default: false, PreRelease: featuregate.Alpha},
		HostClaim:                {Default: false, PreRelease: featuregate.Alpha},
		HostClaimMachines:        {Default: false, PreRelease: featuregate.Alpha},
		Fleet:                    {Default: false, PreRelease: featuregate.Alpha},
		RancherClusterMembers:    {Default: false, PreRelease: featuregate.Alpha},
		AgentManifest:            {Default: false, PreRelease: featuregate.Alpha},
		RemoteRancher:            {Default: false, PreRelease: featuregate.Alpha},
	}); err != nil {
		return nil, err
	}
	return gates, nil
}
