package importer_test

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	importer "github.com/archelon-io/archelon/internal/import"
	"github.com/archelon-io/archelon/test/simulation"
)

// What a plan says is what the manager then does: a plan is that of a manager that has just started and sees all there
// is, so a process is started anew for it, and works on each CAPI cluster without a fault. Schedules compare whenever
// that is, and a third of those that did not do so at their end.
const (
	// planRuns is how many runs of each CAPI cluster are compared. The second sees what the first has written, and
	// remembers it. At the end of a schedule there is nothing to write.
	planRuns    = 2
	planEndRuns = 1
)

// writing is a write, and what it left.
type writing struct {
	verb  string
	key   simulation.Key
	after client.Object
}

// checkPlan has a manager start again, and compares what it writes with the plan for a copy of the world.
func (w *world) checkPlan(m *manager, runs int) {
	w.compared = true
	w.say("%s is killed and starts again, and a plan is made", m.name)
	m.ago = map[schema.GroupKind]int{}
	m.die()
	p := w.newPlanning(m)
	for range runs {
		for _, key := range w.keys {
			w.written, p.w.named = nil, w.named // Watches propose names, too.
			m.process.Wake(ctrl.Request{NamespacedName: key})
			w.say("%s works on %s", m.name, key)
			w.work(m, m.process.Place(ctrl.Request{NamespacedName: key}))
			if w.wrong != "" {
				return
			}
			w.comparePlan(m, p, key)
		}
		for m.behind() > 0 && w.wrong == "" {
			w.deliver(m, 0)
		}
		p.catchUp()
	}
}

// planning is a plan in a copy of a world.
type planning struct {
	w       *world
	planner *importer.Planner
	cache   *simulation.Cache
	names   *nameCache
}

func (w *world) newPlanning(m *manager) *planning {
	copied := emptyWorld(w.ctx, w.t, simulation.Schedule{})
	copied.server, copied.clock, copied.managers, copied.named, copied.kept, copied.names, copied.from = w.server.Clone(), w.clock, w.managers, w.named, w.kept, w.names, w.from
	copied.server.Now = w.clock.Now
	same := &manager{w: copied, name: m.name, works: m.works, kind: m.kind, form: m.form, origin: m.origin, place: m.place}
	rules := same.rules()
	live := copied.server.Client(func(verb string, key simulation.Key, answered bool) error {
		if answered && verb != "get" && verb != "list" {
			copied.written = append(copied.written, writing{verb, key, copied.server.Peek(key)})
		}
		return nil
	})
	p := &planning{w: copied, cache: same.cache(rules), names: newNameCache(copied)}
	planner, err := importer.Simulated{
		Rules: rules, Client: live.Cached(p.cache), Live: live, Names: p.names, Clock: w.clock, Runs: w.runs,
	}.Planner(w.ctx, simShared())
	if err != nil {
		w.t.Fatal(err)
	}
	p.planner = planner
	return p
}

// catchUp has the plan see all that it has written.
func (p *planning) catchUp() {
	for _, kind := range p.cache.Behind() {
		for more := true; more; {
			_, more = p.cache.Next(kind)
		}
	}
	for more := true; more; {
		_, _, more = p.names.next()
	}
}

// comparePlan is what must hold for a plan for a CAPI cluster on which a manager has just worked.
func (w *world) comparePlan(m *manager, p *planning, key types.NamespacedName) {
	p.w.written = nil
	planned, err := p.planner.Run(w.ctx, key)
	if err != nil {
		w.fail("there is no plan for %s: %v", key, err)
		return
	}
	says, does := changesOf(p.w.written), changesOf(w.written)
	if !slices.EqualFunc(says, does, sameWriting) {
		w.fail("the plan for %s (%s) says %s, and %s does %s", key, planned.Intent, describeWritings(says), m.name, describeWritings(does))
	}
	cluster, ok := w.object(clusterGK, key.Namespace, key.Name).(*clusterv1.Cluster)
	if !ok {
		return
	}
	told := m.control.Untold(cluster.UID)
	if told == nil {
		told = conditions.Get(cluster, archelonv1.RancherImportedCondition)
	}
	var expected *metav1.Condition
	if found, ok := p.w.object(clusterGK, key.Namespace, key.Name).(*clusterv1.Cluster); ok {
		expected = conditions.Get(found, archelonv1.RancherImportedCondition)
	}
	if describeCondition(expected) != describeCondition(told) {
		w.fail("the plan for %s says %s, and %s says %s", key, describeCondition(expected), m.name, describeCondition(told))
	}
}

// changesOf leaves conditions out: a plan has them at once, and a process tells of a step that passes a moment later.
func changesOf(written []writing) []writing {
	return slices.DeleteFunc(slices.Clone(written), func(one writing) bool { return one.verb == "apply" })
}

// sameWriting reports whether two writes are the same and leave the same.
func sameWriting(a, b writing) bool {
	if a.verb != b.verb || a.key != b.key || (a.after == nil) != (b.after == nil) {
		return false
	}
	return a.after == nil || equality.Semantic.DeepEqual(leftBy(a.after), leftBy(b.after))
}

// leftBy returns what matters of an object that was written.
func leftBy(object client.Object) client.Object {
	left, _ := object.DeepCopyObject().(client.Object)
	left.SetResourceVersion("")
	left.SetUID("")
	if cluster, ok := left.(*clusterv1.Cluster); ok {
		cluster.Status = clusterv1.ClusterStatus{}
	}
	return left
}

func describeWritings(written []writing) string {
	var texts []string
	for _, one := range written {
		left := "nothing"
		if one.after != nil {
			left = fmt.Sprintf("labels %v, annotations %v, finalizers %v", one.after.GetLabels(), one.after.GetAnnotations(), one.after.GetFinalizers())
		}
		texts = append(texts, fmt.Sprintf("%s %s, which leaves %s", one.verb, one.key, left))
	}
	if len(texts) == 0 {
		return "nothing"
	}
	return strings.Join(texts, "; ")
}

func describeCondition(condition *metav1.Condition) string {
	if condition == nil {
		return "nothing"
	}
	return string(condition.Status) + "/" + condition.Reason + " " + condition.Message
}
