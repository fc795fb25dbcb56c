package importer

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/archelon-io/archelon/internal/agent"
	"github.com/archelon-io/archelon/internal/outcome"
)

// An agent must not register before Rancher is ready for it, but everything else of its manifest can be installed
// before that. So an installation begins while Rancher prepares, and applies the Deployment last. If Rancher is not
// ready then, the installation ends halfway: its Deployment is kept here, and no worker waits for Rancher. The
// Deployment contains no secrets. A process that has lost it installs everything again.

// halfwayMost is how many installations begin before Rancher is ready. This is for imports that a person waits for.
// If many imports begin at once, there is enough other work while Rancher prepares, and an early start gains nothing.
const halfwayMost = 10

// preparationPatience is how long Rancher may take from a namespace, or its first token there, to the end of its
// preparations. A Rancher that does not tell of that end is not waited for any longer.
const preparationPatience = 30 * time.Second

// halves are the installations that began before Rancher was ready, by their CAPI cluster.
type halves struct {
	mu    sync.Mutex
	begun map[types.NamespacedName]half
}

// half is an installation that has a place, and its rest once it has ended halfway.
type half struct {
	since time.Time
	rest  *remainder
}

// remainder is what is left to apply of an installation.
type remainder struct {
	// input is what the installation depends on, such as the kubeconfig. The rest of another one is of no use.
	input string
	// cluster is the workload cluster, and objects have yet to be applied there.
	cluster applier
	objects []*unstructured.Unstructured
}

// applier applies objects in a workload cluster. It reports whether they violate Pod Security there.
type applier interface {
	Install(ctx context.Context, objects []*unstructured.Unstructured, force bool) (warned bool, err error)
}

// start is when an installation begins.
type start struct {
	// input is what it depends on.
	input string
	// unready is what the import waits for while Rancher is not ready for the agent. It passes if Rancher is.
	unready outcome.Outcome
}

// ready reports whether the agent may register.
func (s start) ready() bool { return s.unready.IsDone() }

// halt ends an installation halfway. It goes on when Rancher is ready, or has had its time.
func (s start) halt() error {
	return &outcome.Problem{Kind: s.unready.Kind, Reason: s.unready.Reason, Message: s.unready.Message, After: s.unready.After}
}

func newHalves() *halves { return &halves{begun: map[types.NamespacedName]half{}} }

// begin reports whether an installation may begin, or has begun, before Rancher is ready. Rancher's time for that is
// limited, so no place is held for longer.
func (h *halves) begin(key types.NamespacedName, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.begun[key]; ok {
		return true
	}
	for other, found := range h.begun {
		if now.Sub(found.since) > 2*preparationPatience {
			delete(h.begun, other)
		}
	}
	if len(h.begun) >= halfwayMost {
		return false
	}
	h.begun[key] = half{since: now}
	return true
}

// keep has an installation end halfway.
func (h *halves) keep(key types.NamespacedName, left remainder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if found, ok := h.begun[key]; ok {
		found.rest = &left
		h.begun[key] = found
	}
}

// waits reports whether an installation has ended halfway.
func (h *halves) waits(key types.NamespacedName) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.begun[key].rest != nil
}

// leave gives the place of an installation back that has not ended halfway.
func (h *halves) leave(key types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.begun[key].rest == nil {
		delete(h.begun, key)
	}
}

// end gives the place of an installation back, and returns the rest that is kept for the same input, nil if there is
// none.
func (h *halves) end(key types.NamespacedName, input string) *remainder {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := h.begun[key].rest
	delete(h.begun, key)
	if left == nil || left.input != input {
		return nil
	}
	return left
}

// forget drops an installation that is wanted no more.
func (h *halves) forget(key types.NamespacedName) { h.end(key, "") }

// lastly returns the objects of a manifest in two parts: those that can be applied before Rancher is ready, and the
// Deployment of the agent, which registers.
func lastly(objects []*unstructured.Unstructured) (first, last []*unstructured.Unstructured) {
	first = slices.Clone(objects)
	for i, object := range objects {
		if agent.Registers(object) {
			return slices.Delete(first, i, i+1), []*unstructured.Unstructured{object}
		}
	}
	return first, nil
}
