package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/hub"
	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/test/bench/workloadserver"
	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/helm"
	"github.com/archelon-io/archelon/test/stage"
)

// hubAccount is what the chart creates in a management cluster for the hub.
const hubAccount = "archelon-hub"

// hubClusters are the CAPI clusters of each management cluster, unless told otherwise.
const hubClusters = 500

// sizes of one run of the hub. Spare management clusters run beside the others, and nobody registers them.
type hubSize struct{ sites, holes, clusters, spare int }

// hubSizes returns a run with many management clusters, every fifth a black hole, and one with a single one that has as
// many CAPI clusters as the others have together. All of them are on this machine, where an API server that does
// nothing keeps a processor busy as well: as many run in both.
func hubSizes(o *options) (many, one hubSize) {
	holes := max(1, o.ManagementClusters/5)
	answering := o.ManagementClusters - holes
	return hubSize{sites: answering, holes: holes, clusters: o.Clusters}, hubSize{sites: 1, clusters: answering * o.Clusters, spare: answering - 1}
}

// hubRun is one measurement of the hub. The run that it embeds is Rancher's cluster with the manager.
type hubRun struct {
	run
	size   hubSize
	sites  []*hubSite
	spare  []*hubSite
	hole   net.Listener
	result hubResult
}

// hubSite is a management cluster: a real API server of its own.
type hubSite struct {
	run
	kubeconfig []byte
}

// hubs measures many management clusters and one.
func hubs(ctx context.Context, o *options, dir string, progress io.Writer) (many, one *hubResult, err error) {
	binary, err := managerIn(ctx, dir, o.Manager, progress)
	if err != nil {
		return nil, nil, err
	}
	sizeOfMany, sizeOfOne := hubSizes(o)
	var results []*hubResult
	for _, size := range []hubSize{sizeOfOne, sizeOfMany} {
		h := &hubRun{run: run{options: o, binary: binary, progress: progress}, size: size, result: hubResult{hubSize: size}}
		h.say("starting Rancher's cluster and %d management clusters with %d clusters each, %d black holes, and %d that are not registered", size.sites, size.clusters, size.holes, size.spare)
		err := h.measure(ctx)
		if err != nil && h.manager != nil {
			logs := h.manager.Logs()
			h.say("the last lines of the manager's log:\n%s", logs[max(0, len(logs)-logTail):])
		}
		if err = errors.Join(err, h.stop()); err != nil {
			return nil, nil, err
		}
		results = append(results, &h.result)
	}
	return results[1], results[0], nil
}

func (h *hubRun) stop() error {
	var errs []error
	errs = append(errs, h.run.stop())
	for _, site := range slices.Concat(h.sites, h.spare) {
		if site.stage != nil {
			errs = append(errs, site.stage.Stop())
		}
	}
	if h.hole != nil {
		errs = append(errs, h.hole.Close())
	}
	return errors.Join(errs...)
}

func (h *hubRun) measure(ctx context.Context) error {
	unfollow, err := h.prepare(ctx)
	defer unfollow()
	if err != nil {
		return err
	}
	if err := h.start(ctx, "--feature-gates=managementv3-cluster=true,management-clusters=true"); err != nil {
		return err
	}
	if err := h.register(ctx); err != nil {
		return err
	}
	h.result.engagedMiB = residentOf(h.memory.pid).Anon
	before, err := measure()
	if err != nil {
		return err
	}
	for _, site := range h.sites {
		if err := choose(ctx, site.stage, site.members, h.recorder); err != nil {
			return err
		}
	}
	h.say("labelled; importing")
	if err := h.await(ctx, h.recorder.finished); err != nil {
		return err
	}
	after, err := measure()
	if err != nil {
		return err
	}
	spent, others := after.since(before)
	h.result.cpu, h.result.others = spent["archelon"].CPUSeconds, others
	if err := h.quiet(ctx); err != nil {
		return err
	}
	_, applied := h.recorder.latencies(h.recorder.applied, func(member) bool { return true })
	h.result.applied, h.result.peak = applied, h.memory.soFar()
	if err := h.awaitSilence(ctx); err != nil {
		return err
	}
	h.say("imported; watching the idle hub for %s", h.options.Idle)
	from := time.Now()
	if err := h.pause(ctx, h.options.Idle); err != nil {
		return err
	}
	return h.evaluate(h.recorder.begin(), from, time.Now())
}

// prepare brings up everything but the manager. What it returns ends what follows the clusters.
func (h *hubRun) prepare(ctx context.Context) (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, s := range stops {
			s()
		}
	}
	var all []member
	for i := range h.size.sites {
		site := &hubSite{run: run{options: h.options, progress: h.progress}}
		for j := range h.size.clusters {
			site.members = append(site.members, member{name: fmt.Sprintf("c-%02d-%04d", i, j), namespace: fmt.Sprintf("bench-%02d-%02d", i, j*h.options.Namespaces/h.size.clusters)})
		}
		all = append(all, site.members...)
		h.sites = append(h.sites, site)
	}
	h.members, h.recorder = all, newRecorder(all)
	if h.servers, err = workloadserver.Start(ctx, h.recorder.request); err != nil {
		return stop, err
	}
	if h.stage, h.rancher, err = startManagement(ctx, h.options); err != nil {
		return stop, err
	}
	h.recorder.installed = h.rancher.installed
	follow := func(s *stage.Stage, records bool) error {
		end, err := h.recorder.followOf(ctx, s, h.options.Strategy, records)
		if err == nil {
			stops = append(stops, end)
		}
		return err
	}
	if err := follow(h.stage, true); err != nil {
		return stop, err
	}
	for i, site := range h.sites {
		site.servers, site.rancher = h.servers, h.rancher
		if err := site.begin(ctx, i); err != nil {
			return stop, err
		}
		if err := site.settle(ctx); err != nil {
			return stop, err
		}
		if err := follow(site.stage, false); err != nil {
			return stop, err
		}
		site.rancher, site.servers = nil, nil
		h.say("management cluster %d of %d is set up", i+1, len(h.sites))
	}
	for i := range h.size.spare {
		site := &hubSite{run: run{options: h.options, progress: h.progress}}
		h.spare = append(h.spare, site)
		if err := site.begin(ctx, len(h.sites)+i); err != nil {
			return stop, err
		}
	}
	h.hole, err = blackHole()
	return stop, err
}

// begin starts a management cluster with what the chart installs there.
func (s *hubSite) begin(ctx context.Context, number int) error {
	crds, err := env.CAPICRDs()
	if err != nil {
		return err
	}
	plane, err := startLimited(ctx, env.Options{
		Name: fmt.Sprintf("site-%d", number), CRDs: crds, Audit: true, EtcdQuota: etcdQuota,
		AuditUsers: []string{"system:serviceaccount:" + stage.SystemNamespace + ":" + hubAccount},
	})
	if err != nil {
		return err
	}
	s.stage = &stage.Stage{Management: plane}
	known, err := scheme.New()
	if err != nil {
		return err
	}
	config := rest.CopyConfig(plane.Config)
	config.QPS = -1
	if s.stage.Client, err = client.New(config, client.Options{Scheme: known}); err != nil {
		return err
	}
	if err := s.stage.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: stage.SystemNamespace}}); err != nil {
		return err
	}
	tool, err := helm.New(nil)
	if err != nil {
		return err
	}
	defer func() { _ = tool.Close() }()
	objects, err := tool.Template(ctx, helm.Release{
		Name: "hub", Namespace: stage.SystemNamespace, Chart: filepath.Join(stage.Root(), "charts", "archelon"),
		Values: map[string]any{"role": "management-side"}, Args: []string{"--kube-version=" + stage.KubeVersion},
	})
	if err != nil {
		return err
	}
	for i := range objects {
		if err := s.stage.Client.Create(ctx, &objects[i]); err != nil {
			return fmt.Errorf("installing %s in a management cluster: %w", objects[i].GetName(), err)
		}
	}
	account, err := plane.ServiceAccountConfig(ctx, stage.SystemNamespace, hubAccount)
	if err != nil {
		return err
	}
	s.kubeconfig, err = plane.KubeconfigFor(account)
	return err
}

// register has Secrets lead to all management clusters, and waits until those that answer are known.
func (h *hubRun) register(ctx context.Context) error {
	h.result.readyMiB = residentOf(h.memory.pid).Anon
	for i := range h.size.holes {
		site := *h.sites[0].stage.Management.Config
		site.Host = "https://" + h.hole.Addr().String()
		raw, err := h.sites[0].stage.Management.KubeconfigFor(&site)
		if err != nil {
			return err
		}
		if err := h.lead(ctx, fmt.Sprintf("hole-%d", i), raw); err != nil {
			return err
		}
	}
	for i, site := range h.sites {
		if err := h.lead(ctx, fmt.Sprintf("site-%d", i), site.kubeconfig); err != nil {
			return err
		}
	}
	for {
		list := &corev1.SecretList{}
		if err := h.stage.Client.List(ctx, list, client.InNamespace(stage.SystemNamespace)); err != nil {
			return err
		}
		known := slices.DeleteFunc(list.Items, func(s corev1.Secret) bool { return s.Annotations[archelonv1.ManagementClusterUIDAnnotation] == "" })
		if len(known) == len(h.sites) {
			break
		}
		if err := h.pause(ctx, poll); err != nil {
			return fmt.Errorf("%d of %d management clusters are known: %w", len(known), len(h.sites), err)
		}
	}
	return h.pause(ctx, h.options.Settle)
}

// awaitSilence waits until it was said of all black holes that they do not answer, which is said once.
func (h *hubRun) awaitSilence(ctx context.Context) error {
	for {
		list := &eventsv1.EventList{}
		if err := h.stage.Client.List(ctx, list, client.InNamespace(stage.SystemNamespace)); err != nil {
			return err
		}
		said := slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool { return e.Reason != hub.UnreachableReason })
		if len(said) == h.size.holes {
			return h.pause(ctx, h.options.Settle)
		}
		if err := h.pause(ctx, poll); err != nil {
			return fmt.Errorf("%d of %d black holes are noticed: %w", len(said), h.size.holes, err)
		}
	}
}

func (h *hubRun) lead(ctx context.Context, name string, kubeconfig []byte) error {
	return h.stage.Client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: stage.SystemNamespace, Name: name, Labels: map[string]string{archelonv1.ManagementClusterKubeconfigLabel: "true"},
		},
		Data: map[string][]byte{"value": kubeconfig},
	})
}

// blackHole accepts connections and never answers, until it is closed.
func blackHole() (net.Listener, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // for the life of the run
	if err != nil {
		return nil, err
	}
	h := &hole{Listener: listener}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			h.mu.Lock()
			h.held = append(h.held, connection)
			h.mu.Unlock()
		}
	}()
	return h, nil
}

type hole struct {
	net.Listener

	mu   sync.Mutex
	held []net.Conn
}

// Close implements net.Listener.
func (h *hole) Close() error {
	err := h.Listener.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, connection := range h.held {
		_ = connection.Close() // the other side may have gone long ago
	}
	return err
}
