// Package check looks for what would stand in the way of an installation or an upgrade: "archelon check". It writes
// nothing. Its access reviews are creates that the API server answers and does not store.
package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/internal/shard"
)

// State says what a finding means.
type State string

const (
	// OK is that nothing is missing.
	OK State = "ok"
	// Warning is what may be wanted, will matter later, or could not be seen.
	Warning State = "warning"
	// Error is what stands in the way.
	Error State = "error"
)

// Finding is what one check has found. Its form in JSON and YAML stays as it is.
type Finding struct {
	// ID names the check. docs/operations/check.md has all of them.
	ID string `json:"id"`
	// State says what the finding means.
	State State `json:"state"`
	// Message says what was found, in a sentence.
	Message string `json:"message"`
	// Remedy says what to do about it.
	Remedy string `json:"remedy,omitempty"`
}

// ErrMissing is that something stands in the way.
var ErrMissing = errors.New("something stands in the way of the installation")

// Options say what is to be installed. Those that the manager has too mean the same here.
type Options struct {
	// Controllers are those of a manager that imports, or does not, and Gates say which run.
	Controllers func(imports bool) []controller.Controller
	Gates       featuregate.FeatureGate
	Import      bool

	Namespaces, ExcludedNamespaces []string
	WatchFilter, Instance          string
	LeaderElectNamespace           string
	TurtlesParked                  bool
	TurtlesNamespaces              []string
	// RancherKubeconfig and RancherNamespace are for a Rancher in another cluster.
	RancherKubeconfig, RancherNamespace string
	// ServiceAccount is whose permissions are looked at, as "<namespace>/<name>"; those of the caller if it is empty.
	ServiceAccount string
	// Timeout bounds all of it.
	Timeout time.Duration
}

// checker has what the checks read from.
type checker struct {
	Options
	claim      instance.Claim
	clients    kubernetes.Interface
	crds       apiextensionsclient.Interface
	reader     client.Client
	settings   client.Reader
	downloader *rancher.Downloader
	now        func() time.Time
	// elsewhere is a Rancher in another cluster; nil if it is in this one, or was not reached.
	elsewhere *elsewhere
}

// requestTimeout bounds one request, to the management cluster and to Rancher.
const requestTimeout = 10 * time.Second

// newChecker fails for options that cannot be used.
func newChecker(config *rest.Config, opts Options) (*checker, error) {
	scope, err := shard.New(opts.Namespaces, opts.ExcludedNamespaces)
	if err != nil {
		return nil, err
	}
	if opts.ServiceAccount != "" {
		if _, _, err := splitAccount(opts.ServiceAccount); err != nil {
			return nil, err
		}
	}
	if err := opts.validateElsewhere(); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	// Reviews are many and small. The API server has limits of its own.
	config.Timeout, config.QPS, config.RateLimiter = requestTimeout, -1, nil
	c := &checker{Options: opts, claim: instance.Claim{Scope: scope, WatchFilter: opts.WatchFilter}, now: time.Now}
	if c.clients, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.crds, err = apiextensionsclient.NewForConfig(config); err != nil {
		return nil, err
	}
	known, err := scheme.New()
	if err != nil {
		return nil, err
	}
	if c.reader, err = client.New(config, client.Options{Scheme: known, Mapper: scheme.Mapper()}); err != nil {
		return nil, err
	}
	c.settings = c.reader
	c.downloader, err = rancher.NewDownloader(rancher.DownloaderOptions{Timeout: requestTimeout})
	return c, err
}

// Look returns what all checks have found. It fails if the API server does not answer.
func Look(ctx context.Context, config *rest.Config, opts Options) ([]Finding, error) {
	c, err := newChecker(config, opts)
	if err != nil {
		return nil, err
	}
	defer c.downloader.Close()
	ctx, cancel := context.WithTimeout(ctx, opts.Timeout)
	defer cancel()
	found, err := c.kubernetes()
	if err != nil {
		return nil, fmt.Errorf("asking the management cluster for its version: %w", err)
	}
	for _, look := range c.looks() {
		found = append(found, look(ctx)...)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("looking was not over within %s: %w", opts.Timeout, err)
	}
	return found, nil
}

// looks are the checks, in their order.
func (c *checker) looks() []func(context.Context) []Finding {
	if !c.Import {
		return []func(context.Context) []Finding{c.kinds, c.instances, c.permissions}
	}
	all := []func(context.Context) []Finding{c.kinds, c.conversion, c.turtles, c.rancher, c.instances, c.permissions}
	if c.remote() {
		all = slices.Concat([]func(context.Context) []Finding{c.reachRancher}, all, []func(context.Context) []Finding{c.rancherSide})
	}
	return all
}

// controllers are those that the gates ask for.
func (c *checker) controllers() []controller.Controller {
	return controller.On(c.Controllers(c.Import), c.Gates, len(c.Namespaces) > 0)
}

// worst returns ErrMissing if something stands in the way.
func worst(found []Finding) error {
	if slices.ContainsFunc(found, func(f Finding) bool { return f.State == Error }) {
		return ErrMissing
	}
	return nil
}

// unseen is the finding of a check that could not look. The texts of the API server's errors are for people.
func unseen(id, what string, err error) Finding {
	remedy := "See that the management cluster answers, and check again."
	if apierrors.IsForbidden(err) {
		remedy = "Check again as somebody who may."
	}
	return Finding{ID: id, State: Warning, Message: fmt.Sprintf("%s could not be read: %s.", what, err), Remedy: remedy}
}
