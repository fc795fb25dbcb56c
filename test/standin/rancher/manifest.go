package rancher

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/standin/agent"
)

//go:embed manifest.yaml.tmpl
var manifestText string

var manifestTemplate = template.Must(template.New("manifest").Funcs(template.FuncMap{
	"base64": func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"quote":  strconv.Quote,
}).Parse(manifestText))

const customizationField = "clusterAgentDeploymentCustomization"

// manifestData is what the manifest of an agent depends on.
type manifestData struct {
	Server    string // URL of Rancher
	Token     string
	Namespace string // the cluster's name when Rancher itself applies the manifest, else empty
	CACerts   string
	Strict    bool
	Image     string
	Registry  string // of the image, when it is not the public one
	Version   string
	Install   string
	AuthImage string
	Features  string // value of CATTLE_FEATURES; empty leaves it out
	Env       []manifestEnv
	Custom    customization
}

// customization is what spec.clusterAgentDeploymentCustomization changes in the agent's Deployment. Its other parts,
// Rancher's affinity and scheduling, are not played.
type customization struct {
	Tolerations []corev1.Toleration          `json:"appendTolerations,omitempty"`
	Resources   *corev1.ResourceRequirements `json:"overrideResourceRequirements,omitempty"`
}

// manifestEnv is one entry of spec.agentEnvVars.
type manifestEnv struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// manifestData collects what the downloaded manifest of the cluster holds. Image overrides of
// the cluster are ignored there, as in Rancher.
func (*Standin) manifestData(ctx context.Context, reader client.Reader, token, cluster string) (manifestData, error) {
	out := manifestData{Token: token}
	mode, registry := "", ""
	for name, target := range map[string]*string{
		settingServerURL:   &out.Server,
		settingCACerts:     &out.CACerts,
		settingTLSMode:     &mode,
		settingAgentImage:  &out.Image,
		settingRegistry:    &registry,
		settingVersion:     &out.Version,
		settingInstallUUID: &out.Install,
	} {
		value, err := setting(ctx, reader, name)
		if err != nil {
			return out, err
		}
		*target = value
	}
	out.Strict = mode == tlsStrict
	u := newObject(clusterGVK)
	// Without the token check Rancher serves clusters that it does not know.
	if err := reader.Get(ctx, client.ObjectKey{Name: cluster}, u); client.IgnoreNotFound(err) != nil {
		return out, err
	}
	// Pull secrets of the cluster are not played.
	registry = cmp.Or(text(u, "spec", "importedConfig", "privateRegistryURL"), registry)
	if registry != "" {
		out.Registry, out.Image = registry, registry+"/"+out.Image
	}
	for field, target := range map[string]any{"agentEnvVars": &out.Env, customizationField: &out.Custom} {
		value, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", field)
		raw, err := json.Marshal(value)
		if err == nil {
			err = json.Unmarshal(raw, target)
		}
		if err != nil {
			return out, fmt.Errorf("reading %s of the agent of %s: %w", field, cluster, err)
		}
	}
	return out, nil
}

// Tolerations are those that the cluster appends, in JSON.
func (d manifestData) Tolerations() ([]string, error) {
	var all []string
	for _, toleration := range d.Custom.Tolerations {
		raw, err := json.Marshal(toleration)
		if err != nil {
			return nil, err
		}
		all = append(all, string(raw))
	}
	return all, nil
}

// Resources are those that the cluster overrides, in JSON, empty without.
func (d manifestData) Resources() (string, error) {
	if d.Custom.Resources == nil {
		return "", nil
	}
	raw, err := json.Marshal(d.Custom.Resources)
	return string(raw), err
}

// SecretName is the name of the Secret with the agent's credentials, which depends on them.
func (d manifestData) SecretName() string {
	sum := sha256.Sum256([]byte(d.Server + "." + d.Token + "." + d.Namespace))
	return "cattle-credentials-" + hex.EncodeToString(sum[:])[:10]
}

// Checksum is CATTLE_CA_CHECKSUM.
func (d manifestData) Checksum() string { return agent.Checksum(d.CACerts) }

// render returns the manifest.
func (d manifestData) render() (string, error) {
	var out bytes.Buffer
	if err := manifestTemplate.Execute(&out, d); err != nil {
		return "", fmt.Errorf("rendering the manifest: %w", err)
	}
	return out.String(), nil
}
