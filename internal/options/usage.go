package options

import (
	"strings"

	"github.com/spf13/pflag"
)

// describe replaces what libraries say about their flags by what they mean here, and hides those that cannot be used: the gate that they need
// is not one of ours.
func (o *Options) describe(fs *pflag.FlagSet) {
	for name, usage := range map[string]string{
		"feature-gates": "Gates to switch, as GATE=true or GATE=false, separated by commas. They are: " + strings.Join(o.Gates.KnownFeatures(), ", ") + ".",
		"v": "Level of the log. 0: changes; 1: decisions of each reconcile; 4: data. Higher values are limited to 4: high above it, client libraries log " +
			"request bodies, which hold credentials.",
		"vmodule":             "Ignored, with a note in the log: it could make client libraries log request bodies, which hold credentials.",
		"logging-format":      "Format of the log: text or json.",
		"log-flush-frequency": "Longest time between two flushes of the log.",
		"kubeconfig":          "Path of a kubeconfig. Only needed outside the cluster.",
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
