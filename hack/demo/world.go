package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/stage"
)

const (
	// startTimeout bounds the start of a program; machines that have just compiled everything are slow.
	startTimeout = 2 * time.Minute
	// readyCheck is how often the manager's readiness is asked for.
	readyCheck = 50 * time.Millisecond
)

// Names of the programs that are built.
const (
	managerProgram = "archelon"
	standinProgram = "rancher-standin"
)

// world is everything that runs for the demo.
type world struct {
	dir         string // holds every file of the demo; kubeconfigs and logs stand in it directly
	programs    string // the directory with kubectl
	watchdog    *watchdog
	stage       *stage.Stage
	workloads   map[string]*env.ControlPlane                // by the name of the CAPI cluster
	clusters    []subject                                   // that have a workload cluster
	kubeconfigs map[string][]byte                           // of CAPI clusters, by name
	crds        []*apiextensionsv1.CustomResourceDefinition // besides those of CAPI and Rancher
	everywhere  bool                                        // workload clusters have all CRDs, too
	provider    string                                      // kind of the infrastructure of CAPI clusters, instead of that of the examples
	rancher     *program
	observer    *observer
	manager     *stage.Manager   // nil between two acts
	beside      []*stage.Manager // those of other clusters
	managerLog  *os.File
	meter       meter
}

// newWorld prepares an empty world. All that it starts keeps its files below one directory.
func newWorld() (*world, error) {
	programs, err := env.Assets()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "archelon-demo-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory for the demo: %w", err)
	}
	w := &world{dir: dir, programs: programs, workloads: map[string]*env.ControlPlane{}, clusters: subjects(), kubeconfigs: map[string][]byte{}}
	if err = os.Mkdir(w.path("tmp"), 0o700); err == nil {
		err = os.Setenv("TMPDIR", w.path("tmp"))
	}
	if err == nil {
		w.watchdog, err = startWatchdog(dir)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("preparing the directory of the demo: %w", err), os.RemoveAll(dir))
	}
	return w, nil
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

// inWords writes the numbers that the stories tell of.
func inWords(number int) string { return []string{"no", "one", "two", "three", "four"}[number] }

// start brings up everything but the manager.
func (w *world) start(ctx context.Context, p *printer) error {
	return w.carryOut(ctx, p, []task{
		{buildingManager, w.buildManager},
		{"Building the Rancher stand-in", w.buildStandin},
		{fmt.Sprintf("Starting a management cluster and %s workload clusters", inWords(len(w.clusters))), w.startControlPlanes},
		{"Starting Rancher", w.startRancher},
		{"Creating the ServiceAccount and the roles of config/rbac", w.applyRBAC},
		{"Watching everybody", w.watch},
	})
}

const buildingManager = "Building the manager (the first time this takes some minutes)"

// task is a part of the preparations.
type task struct {
	text string
	do   func(context.Context) error
}

// carryOut does one task after the other.
func (w *world) carryOut(ctx context.Context, p *printer, tasks []task) error {
	for _, task := range tasks {
		if err := p.task(task.text, func() error { return task.do(ctx) }); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

func (w *world) buildManager(ctx context.Context) error {
	return buildProgram(ctx, w.path(managerProgram), ".")
}

func (w *world) buildStandin(ctx context.Context) error {
	return buildProgram(ctx, w.path(standinProgram), "./test/standin/rancher/cmd/rancher-standin")
}

func (w *world) kubeconfig(name string) string { return w.path(name + ".kubeconfig") }

func (w *world) startRancher(ctx context.Context) error {
	args := []string{"--install-crds=false", "--kubeconfig=" + w.kubeconfig("management")}
	for name := range w.workloads {
		args = append(args, "--workload="+name+"="+w.kubeconfig(name))
	}
	var err error
	if w.rancher, err = startProgram("the Rancher stand-in", w.path("rancher.log"), w.path(standinProgram), args...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	_, err = w.rancher.firstLine(ctx)
	return err
}

func (w *world) applyRBAC(ctx context.Context) error {
	return w.stage.Prepare(ctx)
}

func (w *world) watch(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	w.observer, err = startObserver(ctx, w.stage.Management, w.workloads)
	return err
}

// startManager runs the manager as the ServiceAccount of config/rbac and waits until it is ready.
func (w *world) startManager(ctx context.Context, args ...string) (err error) {
	w.manager, err = w.launch(ctx, w.stage, args...)
	if err != nil {
		return err
	}
	if err := w.meter.follow(ctx, w.stage, w.manager); err != nil {
		return err
	}
	return w.becomesReady(ctx, w.manager)
}

// startBeside runs a manager in another cluster.
func (w *world) startBeside(ctx context.Context, in *stage.Stage, args ...string) error {
	manager, err := w.launch(ctx, in, args...)
	if err != nil {
		return err
	}
	w.beside = append(w.beside, manager)
	return w.becomesReady(ctx, manager)
}

func (w *world) launch(ctx context.Context, in *stage.Stage, args ...string) (manager *stage.Manager, err error) {
	if w.managerLog == nil {
		w.managerLog, err = os.OpenFile(w.path("manager.log"), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
		if err != nil {
			return nil, fmt.Errorf("creating the log of the manager: %w", err)
		}
	}
	if manager, err = in.StartManager(ctx, w.path(managerProgram), w.managerLog, args...); err != nil {
		return nil, fmt.Errorf("starting the manager: %w", err)
	}
	return manager, nil
}

func (w *world) becomesReady(ctx context.Context, manager *stage.Manager) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, readyCheck, startTimeout, true, func(ctx context.Context) (bool, error) {
		if err := w.alive(); err != nil {
			return false, err
		}
		err := manager.Ready(ctx)
		if ctx.Err() == nil { // Else it says no more than that there is no time left.
			last = err
		}
		return err == nil, nil
	})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("waiting for the manager to be ready: %w", errors.Join(err, last))
	}
	return nil
}

func (w *world) stopManager() error {
	if w.manager == nil {
		return nil
	}
	manager := w.manager
	w.manager = nil
	if err := manager.Stop(); err != nil {
		return fmt.Errorf("stopping the manager: %w", err)
	}
	return nil
}

// alive reports a program that has ended although nobody asked it to.
func (w *world) alive() error {
	select {
	case <-w.managerDone():
		return errors.New("the manager has ended by itself")
	case <-w.rancherDone():
		return errors.New("the Rancher stand-in has ended by itself")
	default:
	}
	for _, manager := range w.beside {
		select {
		case <-manager.Done():
			return errors.New("the manager of the other cluster has ended by itself")
		default:
		}
	}
	return nil
}

// managerDone is closed when the manager has ended; nil, so never, if none was started.
func (w *world) managerDone() <-chan struct{} {
	if w.manager == nil {
		return nil
	}
	return w.manager.Done()
}

func (w *world) rancherDone() <-chan struct{} {
	if w.rancher == nil {
		return nil
	}
	return w.rancher.done
}

// stop ends everything, last things first, and removes the files. No error means that nothing is left.
func (w *world) stop() error {
	var errs []error
	if w.observer != nil {
		w.observer.stop()
	}
	errs = append(errs, w.meter.stop(), w.stopManager())
	for _, manager := range w.beside {
		errs = append(errs, manager.Stop())
	}
	if w.managerLog != nil {
		errs = append(errs, w.managerLog.Close())
	}
	if w.rancher != nil {
		errs = append(errs, w.rancher.stop())
	}
	planes := []*env.ControlPlane{}
	if w.stage != nil {
		planes = append(planes, w.stage.Management)
	}
	for _, plane := range w.workloads {
		planes = append(planes, plane)
	}
	stopped := make([]error, len(planes))
	var stops sync.WaitGroup
	for i, plane := range planes {
		stops.Go(func() { stopped[i] = plane.Stop() })
	}
	stops.Wait()
	errs = append(errs, stopped...)
	// What is left of these has not cleaned up. Go may leave files when it is interrupted.
	left, err := os.ReadDir(w.path("tmp"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, fmt.Errorf("looking for files that were left: %w", err))
	}
	for _, entry := range left {
		if strings.HasPrefix(entry.Name(), "archelon-") {
			errs = append(errs, fmt.Errorf("%s was left behind", entry.Name()))
		}
	}
	errs = append(errs, w.watchdog.dismiss())
	return errors.Join(append(errs, os.RemoveAll(w.dir))...)
}
