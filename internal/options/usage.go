package options

import (
	"strings"

	"github.com/spf13/pflag"
)

// describe replaces what libraries say about their flags by what they mean here, and hides those that cannot be used:
// the gate that they need is not one of ours.
func (o *Options) describe(fs *pflag.FlagSet) {
	for name, usage := range map[string]string{
		"feature-gates":       "Gates to switch, such as fleet=true, separated by commas: " + o.gates() + ".",
		"v":                   "Level of the log. 0: changes; 1: decisions; 4: data. Not higher: client libraries would log credentials.",
		"vmodule":             "Ignored: client libraries could log credentials.",
		"logging-format":      "Format of the log: text or json.",
		"log-flush-frequency": "Time between two flushes of the log.",
		"kubeconfig":          "Path of a kubeconfig. Needed outside of the cluster.",
	} {
		if flag := fs.Lookup(name); flag != nil {
			flag.Usage = usage
		}
	}
	for _, name := range []string{"log-json-info-buffer-size", "log-json-split-stream", "log-text-info-buffer-size", "log-text-split-stream"} {
		if flag := fs.Lookup(name); flag != nil {
			flag.Hidden = true
		}
	}
}

// gates returns the names of all gates, separated by commas.
func (o *Options) gates() string {
	var names []string
	for _, known := range o.Gates.KnownFeatures() {
		name, _, _ := strings.Cut(known, "=")
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}
