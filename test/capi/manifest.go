package capi

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"text/template"
)

//go:embed manifests/*.yaml.tmpl
var manifests embed.FS

// Cluster says how a workload cluster is to be. All of its machines start within seconds.
type Cluster struct {
	Name string
	// Port of the control plane's endpoint on loopback: that of a gateway.
	Port                   int
	ControlPlanes, Workers int
	Labels                 map[string]string
	// Gates are the condition types in spec.availabilityGates.
	Gates []string
}

// Plain returns the manifest of a Cluster and of all that it refers to.
func Plain(c Cluster) ([]byte, error) { return render("plain", c) }

// Topology returns the manifest of a Cluster of the ClusterClass that Class returns.
func Topology(c Cluster) ([]byte, error) { return render("topology", c) }

// Class returns the manifest of a ClusterClass with its templates, and with a variable for the port of
// the control plane's endpoint.
func Class() ([]byte, error) { return render("class", Cluster{}) }

func render(name string, c Cluster) ([]byte, error) {
	parsed, err := template.New("").Funcs(template.FuncMap{"json": toJSON}).ParseFS(manifests, "manifests/*.yaml.tmpl")
	if err != nil {
		return nil, fmt.Errorf("parsing the manifests: %w", err)
	}
	var out bytes.Buffer
	if err := parsed.ExecuteTemplate(&out, name+".yaml.tmpl", c); err != nil {
		return nil, fmt.Errorf("rendering the manifest of %s: %w", c.Name, err)
	}
	return out.Bytes(), nil
}

func toJSON(value any) (string, error) {
	raw, err := json.Marshal(value)
	return string(raw), err
}
