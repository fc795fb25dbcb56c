package options

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
)

// off is the address of an endpoint that is not served.
const off = "0"

// Webhook says whether and how admission webhooks are served.
type Webhook struct {
	// BindAddress is where to serve; "0" or nothing switches it off.
	BindAddress string
	// CertDir is a directory with tls.crt and tls.key that somebody else keeps up to date.
	CertDir string
	// Secret is the name of the Secret in the manager's namespace that holds certificates which the manager makes itself.
	Secret string
	// Service is the name of the Service, in the manager's namespace, by which the API server calls.
	Service string
	// Configuration is the name of the ValidatingWebhookConfiguration that the manager tells which CA to trust.
	Configuration string
}

// Enabled reports whether webhooks are served.
func (w *Webhook) Enabled() bool { return w.BindAddress != "" && w.BindAddress != off }

func (w *Webhook) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&w.BindAddress, "webhook-bind-address", w.BindAddress,
		"Address that serves the admission webhook for CAPI Clusters, for example :9443. 0 switches it off.")
	fs.StringVar(&w.CertDir, "webhook-cert-dir", w.CertDir,
		"Directory with the webhook's tls.crt and tls.key, which somebody else keeps up to date, such as cert-manager.")
	fs.StringVar(&w.Secret, "webhook-secret", w.Secret,
		"Name of the Secret, in the namespace that the manager runs in, for a CA and a certificate of the webhook that the manager makes and renews itself.")
	fs.StringVar(&w.Service, "webhook-service", w.Service,
		"Name of the Service, in the same namespace, by which the API server calls the webhook. Needed with --webhook-secret.")
	fs.StringVar(&w.Configuration, "webhook-configuration", w.Configuration,
		"Name of the ValidatingWebhookConfiguration whose caBundle is to be the CA that the manager made. Needed with --webhook-secret.")
}

// validate reports what cannot be used. Settings of a webhook that is off do not matter.
func (w *Webhook) validate() []error {
	if !w.Enabled() {
		return nil
	}
	var problems []error
	if _, port, err := net.SplitHostPort(w.BindAddress); err != nil || !isPort(port) {
		problems = append(problems, fmt.Errorf("--webhook-bind-address %q must be an address and a port, for example :9443, or 0", w.BindAddress))
	}
	switch {
	case (w.CertDir == "") == (w.Secret == ""):
		problems = append(problems, errors.New("the webhook needs a certificate: set exactly one of --webhook-cert-dir and --webhook-secret"))
	case w.Secret != "" && (w.Service == "" || w.Configuration == ""):
		problems = append(problems, errors.New("--webhook-secret needs --webhook-service and --webhook-configuration: the name that the certificate is for, and who is to trust it"))
	}
	for _, name := range []struct {
		flag, value string
		check       func(string) []string
	}{
		{"secret", w.Secret, validation.IsDNS1123Subdomain},
		// Before Kubernetes 1.36 it cannot begin with a digit. Which one that is, the API server knows.
		{"service", w.Service, validation.IsDNS1123Label},
		{"configuration", w.Configuration, validation.IsDNS1123Subdomain},
	} {
		if name.value != "" && len(name.check(name.value)) > 0 {
			problems = append(problems, fmt.Errorf("--webhook-%s %q cannot be the name of an object", name.flag, name.value))
		}
	}
	return problems
}

// isPort tells whether a text is a port that clients can be told of.
func isPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return err == nil && port > 0
}
