package importer

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// A v3 Rancher cluster can name a registry that the images of its agents come from, and Secrets with credentials for it
// in the namespace of its Fleet workspace, which Rancher copies into the workload cluster. A v1 Rancher cluster has no
// field for it: Rancher decides on its image when it makes the v3 Cluster.

// importedField is the field of v3 Rancher clusters with both.
const importedField = "importedConfig"

// What an administrator can allow of it, beside the parts of agentParts.
const (
	registrySetting    = "private-registry"
	pullSecretsSetting = "registry-pull-secrets"
)

// Bounds of both. What a name of an image may have beside the registry is left to Rancher.
const (
	maxRegistryBytes    = 200
	maxPullSecrets      = 8
	maxPullSecretsBytes = 1000
)

// registryForm is HOST[:PORT][/PATH]. A host without a dot and a port would be a part of a name on Docker Hub.
var registryForm = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*` +
	`(:[1-9][0-9]{0,4})?(/[a-z0-9]+([._-][a-z0-9]+)*)*$`)

// registry reads the registry of a cluster, empty for that of Rancher.
func registry(annotations map[string]string) (string, error) {
	value := annotations[archelonv1.PrivateRegistryAnnotation]
	if value == "" {
		return "", nil
	}
	host, _, _ := strings.Cut(value, "/")
	_, port, ported := strings.Cut(host, ":")
	number, _ := strconv.Atoi(port)
	if len(value) > maxRegistryBytes || !registryForm.MatchString(value) || !strings.ContainsAny(host, ".:") ||
		ported && number > 65535 {
		return "", fmt.Errorf("it must be HOST[:PORT][/PATH], for example registry.example.com:5000/mirror: "+
			"a registry in small letters, with a dot or a port, without a scheme, at most %d characters", maxRegistryBytes)
	}
	return value, nil
}

// pullSecrets reads the names of Secrets with credentials for the registry.
func pullSecrets(annotations map[string]string) ([]string, error) {
	value := annotations[archelonv1.PullSecretsAnnotation]
	if value == "" {
		return nil, nil
	}
	names := strings.Split(value, ",")
	if len(value) > maxPullSecretsBytes || len(names) > maxPullSecrets ||
		slices.ContainsFunc(names, func(name string) bool { return len(validation.IsDNS1123Subdomain(name)) > 0 }) {
		return nil, fmt.Errorf("it must be the names of at most %d Secrets, separated by commas", maxPullSecrets)
	}
	if annotations[archelonv1.PrivateRegistryAnnotation] == "" {
		return nil, errors.New("it needs annotation " + archelonv1.PrivateRegistryAnnotation + ", which names the registry")
	}
	return names, nil
}

// addRegistry adds to a record which registry the images come from, as far as that is allowed.
func (r Rules) addRegistry(desired *Desired) error {
	annotations := desired.Cluster.Annotations
	url, err := registry(annotations)
	if err == nil && url != "" {
		err = r.allows(registrySetting)
	}
	if err != nil {
		return invalidSetting(archelonv1.PrivateRegistryAnnotation, err)
	}
	names, err := pullSecrets(annotations)
	if err == nil && len(names) > 0 {
		err = r.allows(pullSecretsSetting)
	}
	if err != nil {
		return invalidSetting(archelonv1.PullSecretsAnnotation, err)
	}
	if url != "" {
		addPropagated(desired, archelonv1.PrivateRegistryAnnotation)
	}
	if len(names) > 0 {
		addPropagated(desired, archelonv1.PullSecretsAnnotation)
	}
	desired.Registry, desired.PullSecrets = url, names
	return nil
}

// allows says what users can do about a setting that the administrator does not allow.
func (r Rules) allows(setting string) error {
	if slices.Contains(r.AgentSettings, setting) {
		return nil
	}
	return errors.New("this installation does not allow it. Remove it, or ask your administrator to add " + setting +
		" to the Helm value import.agentSettings")
}

// checkRegistryKind stops where Rancher has no registry of its own for a kind of Rancher cluster.
func checkRegistryKind(strategy Strategy, desired Desired) error {
	if desired.Registry == "" || strategy.Nature().Itself {
		return nil
	}
	return invalidSetting(archelonv1.PrivateRegistryAnnotation, errors.New(
		"a v1 Rancher cluster has no registry of its own. Remove the annotation, or ask your administrator to enable "+
			"feature managementv3-cluster, then un-import this Cluster and import it again"))
}

// registryPatch returns what brings importedField of a Rancher cluster to what is wanted. A field that was never given
// stays as it is.
func registryPatch(observed client.Object, have, want map[string]any) map[string]any {
	patch := map[string]any{}
	for field, annotation := range map[string]string{
		"privateRegistryURL":         archelonv1.PrivateRegistryAnnotation,
		"privateRegistryPullSecrets": archelonv1.PullSecretsAnnotation,
	} {
		is, _, _ := unstructured.NestedFieldNoCopy(have, importedField, field)
		wanted, _, _ := unstructured.NestedFieldNoCopy(want, importedField, field)
		if !equality.Semantic.DeepEqual(is, wanted) && (wanted != nil || wasGiven(observed, annotation)) {
			patch[field] = wanted
		}
	}
	return patch
}
