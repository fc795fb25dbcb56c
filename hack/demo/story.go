package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// Kinds of Rancher clusters.
const (
	kindV1 = "v1"
	kindV3 = "v3"
)

// act is a part of the story, with a manager of its own.
type act struct {
	kind     string
	title    string
	intro    string
	resource string   // how kubectl calls the Rancher cluster
	flags    []string // of the manager
}

func acts() []act {
	return []act{{
		kind:  kindV3,
		title: "Act 1: import as management.cattle.io/v3 Clusters",
		intro: "The manager runs with --feature-gates=managementv3-cluster=true. A Rancher cluster is cluster-scoped, has a " +
			"short random name like those that Rancher gives, and your name as its display name.",
		resource: "clusters.management.cattle.io",
		flags:    []string{"--feature-gates=managementv3-cluster=true"},
	}, {
		kind:  kindV1,
		title: "Act 2: import as provisioning.cattle.io/v1 Clusters",
		intro: "The manager runs with its defaults. A Rancher cluster lives beside its CAPI cluster and is called NAME-capi; " +
			"Rancher makes a v3 Cluster of it.",
		resource: "clusters.provisioning.cattle.io",
	}}
}

// run tells how clusters are imported.
func run(ctx context.Context, p *printer, once bool) error {
	p.heading("Archelon demo: label a CAPI cluster, and it appears in Rancher, connected")
	return tell(ctx, p, importIntro, func(w *world) (told bool, err error) {
		if err := w.start(ctx, p); err != nil {
			return false, err
		}
		plays := acts()
		for i, a := range plays {
			stay := !once && i == len(plays)-1
			if err := w.play(ctx, p, a, stay); err != nil {
				return false, fmt.Errorf("%s: %w", a.kind, err)
			}
			if stay {
				return false, w.stayUp(ctx, p, a)
			}
		}
		return true, nil
	})
}

// importIntro says what is real in stories of imports.
const importIntro = "Everything below is real except Rancher and CAPI: API servers, RBAC, admission, the manager. A stand-in plays " +
	"Rancher and its agents. The demo itself plays CAPI, with the objects in examples/."

// tell tells a story from the beginning to the end, whatever that is, and leaves nothing behind.
func tell(ctx context.Context, p *printer, intro string, story func(*world) (told bool, err error)) (err error) {
	p.say("%s", intro)
	w, err := newWorld() //nolint:contextcheck // asking go where the programs are takes a moment
	if err != nil {
		return err
	}
	told := false
	defer func() {
		// Whatever fails after an interrupt fails because of it.
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = cause
		}
		if err != nil && !errors.Is(err, errInterrupted) && w.manager != nil {
			p.heading("The last lines of the manager's log")
			p.write(tail(w.manager.Logs()) + "\n")
		}
		p.heading("Cleaning up")
		err = errors.Join(err, p.task("Stopping everything and removing its files", w.stop))
		// A panic comes here without an error.
		if err == nil && told {
			p.say("All was imported, connected and cleaned up again.")
		}
	}()
	p.heading("Preparing")
	told, err = story(w)
	return err
}

// play performs an act. At its end nothing is left of it, or, if the story is to stop here,
// both clusters are connected.
func (w *world) play(ctx context.Context, p *printer, a act, stay bool) error {
	p.heading(a.title)
	p.say("%s", a.intro)
	p.write("\n")
	if err := p.task("Starting the manager", func() error { return w.startManager(ctx, a.flags...) }); err != nil {
		return err
	}
	orders, payments := subjects()[0], subjects()[1]
	for _, scene := range []func() error{
		func() error { return w.importBoth(ctx, p, a, orders, payments) },
		func() error { return w.deleteInRancher(ctx, p, a, orders) },
		func() error { return w.importAgain(ctx, p, a, orders) },
	} {
		if err := scene(); err != nil {
			return err
		}
	}
	if stay {
		return nil
	}
	if err := w.deleteBoth(ctx, p, orders, payments); err != nil {
		return err
	}
	return p.task("Stopping the manager", w.stopManager)
}

func (w *world) importBoth(ctx context.Context, p *printer, a act, both ...subject) error {
	p.say("Two clusters: %s in a labelled Namespace, %s with a label of its own.", both[0].name, both[1].name)
	began := time.Now()
	var tracks []*track
	for _, s := range both {
		p.command("kubectl apply -f %s", s.example)
		if err := w.create(ctx, s); err != nil {
			return err
		}
		tracks = append(tracks, &track{subject: s, steps: append(newClusterSteps(), importSteps(a.kind)...)})
	}
	if err := w.follow(ctx, p, began, tracks...); err != nil {
		return err
	}
	p.say("What a user sees:")
	p.describe(tracks[0])
	return nil
}

func (w *world) deleteInRancher(ctx context.Context, p *printer, a act, s subject) error {
	p.say("Somebody deletes %s in Rancher:", s.name)
	v, err := w.observer.see(ctx, s)
	if err != nil {
		return err
	}
	if v.record == nil {
		return fmt.Errorf("the Rancher cluster of %s has disappeared", s.name)
	}
	if v.record.GetNamespace() == "" {
		p.command("kubectl delete %s %s", a.resource, v.record.GetName())
	} else {
		p.command("kubectl delete %s -n %s %s", a.resource, v.record.GetNamespace(), v.record.GetName())
	}
	began := time.Now()
	if err := w.stage.Client.Delete(ctx, v.record); err != nil {
		return fmt.Errorf("deleting the Rancher cluster of %s: %w", s.name, err)
	}
	t := &track{subject: s, steps: unimportSteps()}
	if err := w.follow(ctx, p, began, t); err != nil {
		return err
	}
	p.describe(t)
	return nil
}

func (w *world) importAgain(ctx context.Context, p *printer, a act, s subject) error {
	p.say("To import it again, the annotation goes:")
	p.command("kubectl annotate clusters.cluster.x-k8s.io -n %s %s %s-", s.namespace, s.name, archelonv1.ImportedAnnotation)
	began := time.Now()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, archelonv1.ImportedAnnotation)
	if err := w.stage.Client.Patch(ctx, s.object(), client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("removing the annotation of %s: %w", s.name, err)
	}
	return w.follow(ctx, p, began, &track{subject: s, steps: importSteps(a.kind)})
}

func (w *world) deleteBoth(ctx context.Context, p *printer, both ...subject) error {
	p.say("The CAPI clusters go, and what Rancher has of them goes with them:")
	began := time.Now()
	var tracks []*track
	for _, s := range slices.Backward(both) {
		p.command("kubectl delete clusters.cluster.x-k8s.io -n %s %s", s.namespace, s.name)
		if err := w.remove(ctx, s); err != nil {
			return err
		}
		steps := deletionSteps()
		if _, ok := w.workloads[s.name]; !ok {
			steps = steps[:2] // There is no agent.
		}
		tracks = append(tracks, &track{subject: s, steps: steps})
	}
	if err := w.follow(ctx, p, began, tracks...); err != nil {
		return err
	}
	p.write("\n")
	return p.task(fmt.Sprintf("Checking that nothing is left in any of the %s clusters", inWords(len(w.workloads)+1)), func() error { return w.expectNothingLeft(ctx) })
}

// stayUp says how to look around and waits for Ctrl-C.
func (w *world) stayUp(ctx context.Context, p *printer, a act) error {
	orders := subjects()[0]
	p.heading("Look around")
	p.say("Both clusters are connected and stay so until Ctrl-C. In another terminal, first:")
	p.lines(
		"export PATH="+shellQuote(w.programs)+`:"$PATH"`,
		"export KUBECONFIG="+shellQuote(w.kubeconfig("management")),
	)
	p.say("The CAPI clusters, and how their import is going:")
	p.lines(
		"kubectl get clusters.cluster.x-k8s.io -A",
		fmt.Sprintf("kubectl describe clusters.cluster.x-k8s.io -n %s %s", orders.namespace, orders.name),
	)
	p.say("Rancher's side:")
	p.lines(
		"kubectl get clusters.management.cattle.io",
		"kubectl get clusters.provisioning.cattle.io -A",
	)
	p.say("The agent in a workload cluster:")
	p.lines(
		"KUBECONFIG="+shellQuote(w.kubeconfig(orders.name))+" \\",
		"  kubectl get deployments -n "+agentNamespace,
	)
	p.say("Things to try, while the logs scroll by:")
	p.lines(
		"tail -f "+shellQuote(filepath.Join(w.dir, "manager.log"))+" "+shellQuote(filepath.Join(w.dir, "rancher.log")),
		fmt.Sprintf("kubectl label ns %s %s=false --overwrite", orders.namespace, archelonv1.ImportLabel),
		fmt.Sprintf("kubectl label ns %s %s=true --overwrite", orders.namespace, archelonv1.ImportLabel),
		fmt.Sprintf("kubectl delete %s --all -A", a.resource),
	)
	p.say("Ctrl-C ends everything and removes its files.")
	select {
	case <-ctx.Done():
	case <-w.managerDone():
	case <-w.rancherDone():
	}
	// Ctrl-C is the way to end here, no failure.
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errInterrupted) {
		return cause
	} else if cause == nil {
		return w.alive()
	}
	return nil
}
