package setup

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/archelon-io/archelon/internal/controller"
)

// crdWait waits for the CRDs of a controller.
type crdWait struct {
	// crds are those of the management cluster, rancher those of Rancher's cluster.
	crds, rancher *crdWatches

	whose    string // the name of the controller
	required []controller.CRD

	mu       sync.Mutex
	unknown  int               // CRDs of which the API server has yet to say whether they are there
	lacking  map[string]string // what is wrong with a CRD, by its name
	served   map[string]bool   // CRDs that there are, when the wait for them is over
	reported string
}

// waitOn returns what waits for the CRDs of a controller.
func waitOn(crds, rancher *crdWatches, c controller.Controller) *crdWait {
	return &crdWait{
		crds: crds, rancher: rancher, whose: c.Name, required: c.CRDs, unknown: len(c.CRDs), lacking: map[string]string{},
		served: map[string]bool{},
	}
}

// waitForAll returns when the API server serves all required CRDs but for optional ones that do not exist, or when the
// context ends.
func (w *crdWait) waitForAll(ctx context.Context) error {
	errs := make(chan error, len(w.required))
	for _, crd := range w.required {
		go func() { errs <- w.wait(ctx, crd) }()
	}
	for range w.required {
		if err := <-errs; err != nil {
			return ignoreStop(ctx, err)
		}
	}
	return nil
}

// check is a readiness check. It says what the controller lacks.
func (w *crdWait) check(*http.Request) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.unknown > 0:
		return errors.New("the API server has yet to say which of its CRDs there are")
	case len(w.lacking) > 0:
		return errors.New(w.causes())
	default:
		return nil
	}
}

// causes says in sentences what is lacking.
func (w *crdWait) causes() string {
	var causes []string
	for _, name := range slices.Sorted(maps.Keys(w.lacking)) {
		causes = append(causes, w.lacking[name])
	}
	return strings.Join(causes, ". ")
}

// serves reports whether a CRD was there when the wait for it ended. Before that it is not.
func (w *crdWait) serves(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.served[name]
}

// without returns the names of CRDs that are optional and do not exist, after the wait.
func (w *crdWait) without() []string {
	var names []string
	for _, crd := range w.required {
		if crd.Optional && !w.serves(crd.Name) {
			names = append(names, crd.Name)
		}
	}
	return names
}

// keep calls a function once with what is wrong when one of the CRDs is replaced that others have as well, or with
// nothing wrong when one is created that the controller works without. It returns then, or when the context ends.
func (w *crdWait) keep(ctx context.Context, changed func(name, cause string)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watched sync.WaitGroup
	var first error
	var once sync.Once
	without := w.without()
	for _, crd := range w.required {
		absent := slices.Contains(without, crd.Name)
		if !absent && !crd.Replaceable() {
			continue
		}
		watched.Go(func() {
			err := w.until(ctx, crd, func(found *apiextensionsv1.CustomResourceDefinition, _ bool) bool {
				cause, different := "", found != nil
				if !absent {
					cause = crd.Lack(found)
					different = cause != ""
				}
				if different {
					once.Do(func() { changed(crd.Name, cause) })
				}
				return different
			})
			if ctx.Err() == nil && err != nil {
				once.Do(func() { first = err })
			}
			cancel()
		})
	}
	watched.Wait()
	return first
}

// wait returns when one CRD serves the version, or when the context ends.
func (w *crdWait) wait(ctx context.Context, crd controller.CRD) error {
	return w.until(ctx, crd, func(found *apiextensionsv1.CustomResourceDefinition, first bool) bool {
		cause := crd.Lack(found)
		if crd.Optional && found == nil {
			cause = ""
		}
		met := w.note(ctx, crd.Name, cause, first)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.served[crd.Name] = met && found != nil
		return met
	})
}

// until follows one CRD where it has to be.
func (w *crdWait) until(
	ctx context.Context, crd controller.CRD, met func(found *apiextensionsv1.CustomResourceDefinition, first bool) bool,
) error {
	of := w.crds
	if crd.Of == controller.Rancher() {
		of = w.rancher
	}
	return of.until(ctx, crd.Name, met)
}

// note keeps what a CRD lacks, and says what all of them lack when that is known and whenever it changes. It reports
// whether the CRD lacks nothing.
func (w *crdWait) note(ctx context.Context, name, cause string, first bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if first {
		w.unknown--
	}
	if delete(w.lacking, name); cause != "" {
		w.lacking[name] = cause
	}
	if causes := w.causes(); w.unknown == 0 && causes != "" && causes != w.reported {
		w.reported = causes
		names := slices.Sorted(maps.Keys(w.lacking))
		ctrl.LoggerFrom(ctx).WithName("setup").Info("Waiting for CRDs", "controller", w.whose, "missing", strings.Join(names, ", "), "cause", causes)
	}
	return cause == ""
}
