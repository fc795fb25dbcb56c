package rancher

import (
	"crypto/rand"
	"fmt"
	"math/big"
	"regexp"
)

// Keys and names of Rancher's contract.
const (
	annotationNoCreatorRBAC     = "field.cattle.io/no-creator-rbac"
	annotationCreatorID         = "field.cattle.io/creatorId"
	annotationPrincipal         = "field.cattle.io/creator-principal-name"
	annotationDescription       = "field.cattle.io/description"
	annotationExternal          = "provisioning.cattle.io/externally-managed"
	annotationAdministrated     = "provisioning.cattle.io/administrated"
	annotationManagementName    = "provisioning.cattle.io/management-cluster-name"
	annotationManagementDisplay = "provisioning.cattle.io/management-cluster-display-name"
	annotationSystemNamespace   = "management.cattle.io/system-namespace"
	annotationDriverUpdate      = "provisioner.cattle.io/ke-driver-update"
	annotationForceDeploy       = "io.cattle.agent.force.deploy"
	annotationTokenHash         = "io.cattle.agent.registration-token-hash"
	annotationUpgraded          = "agent.cluster.cattle.io/upgraded-v1.22"

	labelSetHash       = "objectset.rio.cattle.io/hash"
	annotationSetID    = "objectset.rio.cattle.io/id"
	annotationSetGVK   = "objectset.rio.cattle.io/owner-gvk"
	annotationSetName  = "objectset.rio.cattle.io/owner-name"
	annotationSetSpace = "objectset.rio.cattle.io/owner-namespace"

	finalizerPrefix    = "controller.cattle.io/"
	finalizerAgent     = finalizerPrefix + "cluster-agent-controller-cleanup"
	finalizerScopedGC  = finalizerPrefix + "cluster-scoped-gc"
	finalizerProvision = finalizerPrefix + "cluster-provisioner-controller"
	finalizerRBAC      = finalizerPrefix + "mgmt-cluster-rbac-remove"
	finalizerRemove    = "wrangler.cattle.io/mgmt-cluster-remove"
	finalizerToken     = "wrangler.cattle.io/cluster-registration-token-cleanup"
	lifecyclePrefix    = "lifecycle.cattle.io/create."

	crtDefault      = "default-token"
	crtSystem       = "system"
	tokenSecretHead = "crt-token-"
	tokenKey        = "token"
	placeholder     = "{token}"

	globalDataNamespace = "cattle-global-data"
	agentNamespace      = "cattle-system"
	agentName           = "cattle-cluster-agent"
	featuresEnv         = "CATTLE_FEATURES"
	agentFeature        = "multi-cluster-management-agent"
	driverImported      = "imported"
	kubectlManager      = "kubectl-client-side-apply"
	rancherManager      = "rancher"

	statusTrue    = "True"
	statusFalse   = "False"
	statusUnknown = "Unknown"
)

var (
	legacyName = regexp.MustCompile(`^(c-[a-z0-9]{5}|local)$`)
	mintedName = regexp.MustCompile(`^c-m-`)
)

// clusterFinalizers are those of a v3 Cluster, in the order in which they come.
func clusterFinalizers() []string {
	return []string{finalizerRemove, finalizerAgent, finalizerScopedGC, finalizerProvision, finalizerRBAC}
}

// provisioningFinalizers are those of a v1 Cluster.
func provisioningFinalizers() []string {
	return []string{
		"wrangler.cattle.io/provisioning-cluster-remove",
		"wrangler.cattle.io/rke-cluster-remove",
		"wrangler.cattle.io/cloud-config-secret-remover",
	}
}

// randomName returns n characters of Rancher's restricted alphabet.
func randomName(n int) (string, error) {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	out := make([]byte, n)
	for i := range out {
		k, err := rand.Int(rand.Reader, big.NewInt(int64(len(alphabet))))
		if err != nil {
			return "", fmt.Errorf("drawing a random name: %w", err)
		}
		out[i] = alphabet[k.Int64()]
	}
	return string(out), nil
}
