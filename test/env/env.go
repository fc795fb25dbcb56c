package env

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/archelon-io/archelon/test/process"
)

const (
	// startTimeout is for one program. It is long because a test run starts
	// several control planes on two cores, under the race detector.
	startTimeout = 3 * time.Minute
	stopTimeout  = 2 * time.Minute
)

// Options say what to start.
type Options struct {
	// Name shows in paths, kubeconfigs and errors; "test" by default.
	Name string

	// CRDs are installed before Start returns.
	CRDs []*apiextensionsv1.CustomResourceDefinition

	// ControllerManager starts kube-controller-manager, by itself with nothing but
	// namespace deletion and garbage collection. The garbage collector learns of CRDs that
	// are created after Start within half a minute only, so pass them in CRDs.
	ControllerManager bool

	// Workloads makes Pods come and go as they do in a cluster: it implies
	// ControllerManager, adds the controllers of Deployments, ReplicaSets, Jobs and
	// ServiceAccounts, and turns the admission of ServiceAccounts on, so that Pods
	// get tokens. Something has to run the Pods: test/node does.
	Workloads bool

	// Address, if set, is what the API server listens on instead of loopback, so that Pods in network namespaces of their
	// own reach it. Such a control plane is as complete as one without a kubelet can be: it implies Workloads, runs all
	// other controllers that need no machines, and serves what other API servers add to it. A whole Rancher needs that.
	Address string

	// Audit makes AuditEvents available.
	Audit bool

	// AuditUsers limits the audit log to the requests of these users; without any it has those of all. A log of
	// hundreds of thousands of requests takes long to read.
	AuditUsers []string

	// EtcdQuota is the size in bytes that etcd's database may have; zero leaves its default, which is 2 GiB.
	EtcdQuota int64

	// Out receives the logs of all programs; nil discards them.
	Out io.Writer
}

// ControlPlane is one running control plane. Its methods may be called from
// several goroutines.
type ControlPlane struct {
	// Config is that of an administrator (group system:masters). Copy it before
	// you change it.
	Config *rest.Config

	opts        Options
	dir         string
	environment *envtest.Environment
	manager     *process.Process
	watchdog    *process.Watchdog
	existing    *Existing // nil for those that Start started
	ended       func()    // of one that is lent, what Stop does instead

	auditing sync.Mutex
	audited  int64 // how much of the audit log is about what was before, or has been read
	events   []auditv1.Event

	stop    sync.Once
	stopErr error
}

// Start starts a control plane and waits until it serves and its CRDs are
// established. ctx bounds the start, not the life: the caller has to call Stop.
// Should the caller's process die without it, a watchdog ends the programs.
func Start(ctx context.Context, opts Options) (*ControlPlane, error) {
	if opts.Name == "" {
		opts.Name = "test"
	}
	if opts.Out != nil {
		opts.Out = &lockedWriter{out: opts.Out}
	}
	opts.Workloads = opts.Workloads || opts.Address != ""
	programs, err := assets(ctx)
	if err != nil {
		return nil, err
	}
	var failed error
	for range attempts {
		c, err := startOnce(ctx, opts, programs)
		if err == nil {
			return c, nil
		}
		if failed = errors.Join(failed, err); ctx.Err() != nil {
			break
		}
	}
	return nil, failed
}

// attempts is how often a start is tried. envtest looks for a free port and closes it, and etcd opens it a moment
// later. If another process has the port by then, envtest tries again with the same one.
const attempts = 3

func startOnce(ctx context.Context, opts Options, programs string) (*ControlPlane, error) {
	dir, err := os.MkdirTemp("", "archelon-"+opts.Name+"-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory for control plane %s: %w", opts.Name, err)
	}
	c := &ControlPlane{opts: opts, dir: dir}
	if err := c.start(ctx, programs); err != nil {
		return nil, errors.Join(fmt.Errorf("starting control plane %s: %w", opts.Name, err), c.Stop())
	}
	return c, nil
}

func (c *ControlPlane) start(ctx context.Context, programs string) error {
	var err error
	if c.watchdog, err = process.Watch(c.dir); err != nil {
		return err
	}
	if err := c.configure(programs); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	// envtest takes no context: a canceled one is noticed once it is up.
	if c.Config, err = c.environment.Start(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.opts.ControllerManager || c.opts.Workloads {
		return c.startControllerManager(programs)
	}
	return nil
}

// configure prepares envtest. Everything lives in c.dir, so that whoever ends
// the control plane, Stop or the watchdog, has one directory to remove.
func (c *ControlPlane) configure(programs string) error {
	paths := map[string]string{}
	for _, name := range []string{"etcd", "kube-apiserver"} {
		var err error
		if paths[name], err = c.wrap(programs, name); err != nil {
			return err
		}
	}
	for _, sub := range []string{"etcd-data", "certs"} {
		if err := os.Mkdir(c.path(sub), 0o700); err != nil {
			return fmt.Errorf("creating the directory %s: %w", sub, err)
		}
	}
	server := &envtest.APIServer{
		Path:    paths["kube-apiserver"],
		CertDir: c.path("certs"),
		Out:     c.opts.Out,
		Err:     c.opts.Out,
	}
	c.environment = &envtest.Environment{
		// An existing cluster must never be mistaken for a throw-away one.
		UseExistingCluster:       new(false),
		Scheme:                   runtime.NewScheme(),
		CRDs:                     c.opts.CRDs,
		ControlPlaneStartTimeout: startTimeout,
		ControlPlaneStopTimeout:  stopTimeout,
	}
	c.environment.ControlPlane.APIServer = server
	c.environment.ControlPlane.Etcd = &envtest.Etcd{
		Path:    paths["etcd"],
		DataDir: c.path("etcd-data"),
		Out:     c.opts.Out,
		Err:     c.opts.Out,
	}
	if c.opts.EtcdQuota > 0 {
		c.environment.ControlPlane.Etcd.Configure().Set("quota-backend-bytes", strconv.FormatInt(c.opts.EtcdQuota, 10))
	}
	c.environment.ControlPlane.KubectlPath = filepath.Join(programs, "kubectl")
	if c.opts.Workloads {
		// It is all that envtest switches off.
		server.Configure().Disable("disable-admission-plugins")
	}
	if c.opts.Address != "" {
		if err := c.configureAggregation(server); err != nil {
			return err
		}
	}
	if c.opts.Audit {
		return c.configureAudit()
	}
	return nil
}

// Stop ends all programs and removes their files. Further calls return what the
// first one returned.
func (c *ControlPlane) Stop() error {
	if c.existing != nil {
		return nil
	}
	if c.ended != nil {
		c.stop.Do(func() { c.stopErr = c.Resume(); c.ended() })
		return c.stopErr
	}
	c.stop.Do(func() { c.stopErr = c.stopAll() })
	return c.stopErr
}

func (c *ControlPlane) stopAll() error {
	var errs []error
	if c.environment != nil {
		// A frozen process would not see the signal to end.
		if err := c.Resume(); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, err)
		}
	}
	if c.manager != nil {
		errs = append(errs, c.manager.Stop(stopTimeout))
	}
	if c.environment != nil {
		errs = append(errs, c.environment.Stop())
	}
	// Errors so far mean that something may still run: then the watchdog is left
	// to do what it does for a dead parent.
	if c.watchdog != nil {
		errs = append(errs, c.watchdog.End(errors.Join(errs...) == nil))
	}
	if err := os.RemoveAll(c.dir); err != nil {
		errs = append(errs, fmt.Errorf("removing the files: %w", err))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stopping control plane %s: %w", c.opts.Name, err)
	}
	return nil
}
