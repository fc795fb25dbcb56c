package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/providers/capi"
	"github.com/archelon-io/archelon/test/stage"
)

const (
	// podsMeanwhile is how many Pods each cluster gets while its kubeconfig is replaced, and
	// podsEvery how often one comes.
	podsMeanwhile = 40
	podsEvery     = 50 * time.Millisecond
)

// fleetSubjects returns three clusters and one that does not answer.
func fleetSubjects() (healthy []subject, silent subject) {
	stock := subject{namespace: "team-blue", name: "stock", example: "examples/labelled-namespace.yaml", like: "orders"}
	return append(subjects(), stock),
		subject{namespace: "team-green", name: "silent", example: "examples/labelled-cluster.yaml", like: "payments"}
}

// runFleet tells how a controller works across workload clusters.
func runFleet(ctx context.Context, p *printer, _ bool) error {
	p.heading("Archelon demo: one controller across a fleet of workload clusters")
	err := tell(ctx, p, importIntro, func(w *world) (told bool, err error) {
		healthy, silent := fleetSubjects()
		w.clusters = healthy
		if err := w.start(ctx, p); err != nil {
			return false, err
		}
		if err := p.task("Starting the manager with feature fleet", func() error {
			return w.startManager(ctx, "--feature-gates=fleet=true", "--leader-elect")
		}); err != nil {
			return false, err
		}
		pods, err := startPodCounter(ctx, w)
		if err != nil {
			return false, fmt.Errorf("starting the controller of examples/fleet: %w", err)
		}
		defer func() { err = errors.Join(err, pods.stop()) }()
		for _, scene := range []func() error{
			func() error { return w.engageFleet(ctx, p, pods, healthy, silent) },
			func() error { return w.rotateFleet(ctx, p, pods, healthy) },
			func() error { return w.shareFleet(ctx, p, healthy[1]) },
			func() error { return w.meter.finish(ctx) },
			func() error { return w.deleteBoth(ctx, p, append(healthy, silent)...) },
			func() error { return w.until(ctx, func() bool { return len(pods.provider.Statuses()) == 0 }) },
		} {
			if err := scene(); err != nil {
				return false, err
			}
		}
		return false, nil
	})
	if err == nil {
		p.say("Three clusters were engaged, and none of them noticed the fourth one or the change of credentials.")
	}
	return err
}

// engageFleet has a cluster imported that does not answer, and three others after it.
func (w *world) engageFleet(ctx context.Context, p *printer, pods *podCounter, healthy []subject, silent subject) error {
	p.heading("Three clusters, and one that does not answer")
	p.say("The kubeconfig of %s leads to a server that accepts connections and never says a word. The others have three, two and one Pod.", silent.name)
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening as a cluster that does not answer: %w", err)
	}
	defer func() { _ = listener.Close() }() // nobody is there any more
	plane := w.workloads[healthy[0].name]
	if w.kubeconfigs[silent.name], err = plane.KubeconfigFor(&rest.Config{
		Host: "https://" + listener.Addr().String(), BearerToken: "none", TLSClientConfig: rest.TLSClientConfig{CAData: plane.Config.CAData},
	}); err != nil {
		return err
	}
	want := map[multicluster.ClusterName]int{}
	began := time.Now()
	var tracks []*track
	for i, s := range append([]subject{silent}, healthy...) {
		steps := append(newClusterSteps(), step{"the refusal", fleetSays(metav1.ConditionFalse), func(v view) string {
			return fmt.Sprintf("FleetEngaged=False (%s)", fleetCondition(v).Reason)
		}})
		if i > 0 {
			steps = append(newClusterSteps(),
				step{"the engagement", fleetSays(metav1.ConditionTrue), constant("FleetEngaged=True: controllers work with the workload cluster")},
				step{"the connection", isImported, constant("RancherImported=True: Rancher reports the agent as connected")})
			want[fleetName(s)] = len(healthy) - i + 1
			if err := w.createPods(ctx, s, want[fleetName(s)]); err != nil {
				return err
			}
		}
		p.command("%s", s.apply())
		if err := w.create(ctx, s); err != nil {
			return err
		}
		tracks = append(tracks, &track{subject: s, steps: steps})
	}
	if err := w.follow(ctx, p, began, tracks...); err != nil {
		return err
	}
	if err := w.showFleet(ctx, p); err != nil {
		return err
	}
	if err := pods.becomes(ctx, want); err != nil {
		return err
	}
	p.say("What the controller counts:")
	pods.show(p, healthy)
	return nil
}

// rotateFleet replaces all kubeconfigs, twice, while Pods come. After the second time the first ones are revoked.
func (w *world) rotateFleet(ctx context.Context, p *printer, pods *podCounter, healthy []subject) error {
	p.heading("Other credentials")
	p.say("Each cluster gets %d more Pods, one every %s. Meanwhile its kubeconfig is replaced by one with the token of a ServiceAccount, "+
		"then by one of another ServiceAccount, and the first ServiceAccount is deleted.", podsMeanwhile, podsEvery)
	p.write("\n")
	want, failed := pods.counts(), pods.failures()
	var writing sync.WaitGroup
	errs := make([]error, len(healthy))
	for i, s := range healthy {
		want[fleetName(s)] += podsMeanwhile
		writing.Go(func() { errs[i] = w.createPods(ctx, s, podsMeanwhile) })
	}
	defer writing.Wait()
	for i, account := range []string{"first", "second"} {
		if err := p.task("All use ServiceAccount "+account, func() error {
			for _, s := range healthy {
				if err := w.replaceKubeconfig(ctx, s, account); err != nil {
					return err
				}
			}
			return w.until(ctx, func() bool { return pods.rotations() >= float64((i+1)*len(healthy)) })
		}); err != nil {
			return err
		}
	}
	for _, s := range healthy {
		if err := w.revoke(ctx, s, "first"); err != nil {
			return err
		}
	}
	writing.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := pods.becomes(ctx, want); err != nil {
		return err
	}
	if more := pods.failures() - failed; more > 0 {
		return fmt.Errorf("%.0f reconciles failed", more)
	}
	p.say("What the controller counts, which is what there is. None of its reconciles failed:")
	pods.show(p, healthy)
	return nil
}

// shareFleet starts a second instance, for the namespace of a cluster.
func (w *world) shareFleet(ctx context.Context, p *printer, s subject) error {
	p.heading("A second instance")
	p.say("Another release of the chart, archelon2, is for namespace %s alone. The first one leaves that to it, and keeps the others.", s.namespace)
	second := stage.Instance{Name: "archelon2"}
	if err := w.stage.Install(ctx, second); err != nil {
		return fmt.Errorf("installing the second instance: %w", err)
	}
	began := time.Now()
	manager, err := w.stage.StartInstance(ctx, second, w.path(managerProgram), w.managerLog, "--namespace="+s.namespace, "--feature-gates=fleet=true")
	if err != nil {
		return fmt.Errorf("starting the second instance: %w", err)
	}
	w.beside = append(w.beside, manager)
	if err := w.becomesReady(ctx, manager); err != nil {
		return err
	}
	return w.witness(ctx, p, began, moment{s.name, "is the second instance's, and still engaged and connected", func(ctx context.Context) (bool, error) {
		v, err := w.observer.see(ctx, s)
		return err == nil && v.cluster != nil && v.cluster.Annotations[archelonv1.InstanceAnnotation] == second.ID() && isImported(v) && fleetSays(metav1.ConditionTrue)(v), err
	}})
}

// replaceKubeconfig has the kubeconfig of a cluster be that of a ServiceAccount, as an administrator of the cluster.
func (w *world) replaceKubeconfig(ctx context.Context, s subject, account string) error {
	plane := w.workloads[s.name]
	admin, err := client.New(plane.Config, client.Options{})
	if err != nil {
		return fmt.Errorf("building a client of %s: %w", s.name, err)
	}
	for _, object := range administrator(account) {
		if err := admin.Create(ctx, object); err != nil {
			return fmt.Errorf("creating ServiceAccount %s of %s: %w", account, s.name, err)
		}
	}
	access, err := plane.ServiceAccountConfig(ctx, metav1.NamespaceDefault, account)
	if err != nil {
		return err
	}
	if w.kubeconfigs[s.name], err = plane.KubeconfigFor(access); err != nil {
		return err
	}
	secret, err := w.kubeconfigSecret(s)
	if err != nil {
		return err
	}
	return w.apply(ctx, secret, capiOwner)
}

// revoke has the API server of a cluster refuse what a ServiceAccount was given.
func (w *world) revoke(ctx context.Context, s subject, account string) error {
	admin, err := client.New(w.workloads[s.name].Config, client.Options{})
	if err != nil {
		return fmt.Errorf("building a client of %s: %w", s.name, err)
	}
	object := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: account}}
	if err := admin.Delete(ctx, object); err != nil {
		return fmt.Errorf("deleting ServiceAccount %s of %s: %w", account, s.name, err)
	}
	return nil
}

// showFleet shows what kubectl says of the fleet.
func (w *world) showFleet(ctx context.Context, p *printer) error {
	const (
		condition = `.status.conditions[?(@.type=="FleetEngaged")]`
		columns   = "custom-columns=NAME:.metadata.name,FLEET:$FLEET.status,REASON:$FLEET.reason"
	)
	p.say("What an administrator sees:")
	p.command("FLEET='%s'", condition)
	p.command(`kubectl get clusters.cluster.x-k8s.io -A -o \`)
	p.lines(strings.Replace(columns, "=", `="`, 1) + `"`)
	out, err := w.kubectl(ctx, "management", "", "get", "clusters.cluster.x-k8s.io", "-A", "-o", strings.ReplaceAll(columns, "$FLEET", condition))
	if err != nil {
		return err
	}
	p.lines(out...)
	return nil
}

// kubectl runs kubectl as whom a kubeconfig is of, and returns the lines that it prints.
func (w *world) kubectl(ctx context.Context, as, input string, args ...string) ([]string, error) {
	command := exec.CommandContext(ctx, filepath.Join(w.programs, "kubectl"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+w.kubeconfig(as), "KUBECACHEDIR="+w.path("kubectl"))
	command.Stdin = strings.NewReader(input)
	out, err := command.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("kubectl: %w: %s", err, out)
	}
	return strings.Split(strings.TrimRight(string(out), "\n"), "\n"), err
}

func fleetName(s subject) multicluster.ClusterName {
	return capi.NameOf(client.ObjectKey{Namespace: s.namespace, Name: s.name})
}

func fleetCondition(v view) *metav1.Condition {
	if v.cluster == nil {
		return nil
	}
	return conditions.Get(v.cluster, archelonv1.FleetEngagedCondition)
}

func fleetSays(status metav1.ConditionStatus) func(view) bool {
	return func(v view) bool {
		c := fleetCondition(v)
		return c != nil && c.Status == status
	}
}
