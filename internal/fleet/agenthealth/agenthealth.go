// Package agenthealth notices in seconds that Rancher's agent has gone from the workload cluster of an imported CAPI
// Cluster. It repairs nothing: the import does, which looks for itself before it acts. So a mistake here costs a look.
//
// It is a controller that runs across the fleet: of each cluster it receives the Deployment of the agent, reduced to
// the name of its Secret, and the identity of Secrets that may be it.
package agenthealth

import (
	"net/http"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/archelon-io/archelon/internal/agent"
	"github.com/archelon-io/archelon/internal/controller"
)

// Agents is what is known of the agents of the fleet. The zero value is ready for use, and so is nil: nothing is known.
type Agents struct {
	mu   sync.Mutex
	seen map[types.NamespacedName]bool // whether the agent is complete, of clusters where it was
	wake func(types.NamespacedName)
}

// Gone reports whether the agent of a CAPI Cluster was there and is not any more.
func (a *Agents) Gone(key types.NamespacedName) bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	complete, was := a.seen[key]
	return was && !complete
}

// Tell has a function called for each CAPI Cluster of which Gone may say something else.
func (a *Agents) Tell(wake func(types.NamespacedName)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wake = wake
}

// note keeps whether the agent of a cluster is complete.
func (a *Agents) note(key types.NamespacedName, complete bool) {
	a.mu.Lock()
	before, was := a.seen[key]
	if !was && !complete {
		a.mu.Unlock()
		return // It was not installed yet, which the import knows.
	}
	if a.seen == nil {
		a.seen = map[types.NamespacedName]bool{}
	}
	a.seen[key] = complete
	wake := a.wake
	a.mu.Unlock()
	if wake != nil && was && before != complete {
		wake(key)
	}
}

// forget is called when a cluster has left.
func (a *Agents) forget(key types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.seen, key)
}

// Observation is what a run has read of one cluster.
type Observation struct {
	// Agent is nil if there is none.
	Agent *appsv1.Deployment
	// Credentials is whether the Secret is there that it names.
	Credentials bool
}

// Complete decides whether an agent is all there. It is pure. Whether it can connect is for the import to find out.
func Complete(o Observation) bool {
	return o.Agent != nil && o.Agent.DeletionTimestamp.IsZero() && (o.Credentials || agent.CredentialsOf(o.Agent) == "")
}

// mostSecrets is how many Secrets of a cluster are received. Rancher has one for each registration.
const mostSecrets = 100

// ClusterOptions limit the cache of a workload cluster to what is read here. The cluster is a stranger, so what it
// sends without being asked is dropped.
func ClusterOptions(scheme *runtime.Scheme) cluster.Option {
	return func(o *cluster.Options) {
		o.Scheme = scheme
		o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper(), nil }
		o.Cache.DefaultNamespaces = map[string]cache.Config{agent.Namespace: {}}
		o.Cache.ByObject = map[client.Object]cache.ByObject{
			&appsv1.Deployment{}: {Field: controller.Named(agent.DeploymentName), Transform: reduce},
			&corev1.Secret{}:     {Transform: controller.KeepIdentity},
		}
		o.Cache.NewInformer = func(
			from toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers,
		) toolscache.SharedIndexInformer {
			return toolscache.NewSharedIndexInformer(controller.Only(from, few()), example, resync, indexers)
		}
	}
}

// mapper knows the kinds without asking a cluster.
func mapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"Deployment", "DeploymentList"} {
		mapper.Add(appsv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	for _, kind := range []string{"Secret", "SecretList"} {
		mapper.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	return mapper
}

// few returns what keeps the Deployment of the agent, and of Secrets those that may be its own, up to a number.
func few() func(runtime.Object) bool {
	var mu sync.Mutex
	names := map[string]bool{}
	return func(object runtime.Object) bool {
		found, err := meta.Accessor(object)
		if err != nil || found.GetNamespace() != agent.Namespace {
			return false
		}
		if !strings.HasPrefix(found.GetName(), agent.CredentialsPrefix) {
			return found.GetName() == agent.DeploymentName
		}
		mu.Lock()
		defer mu.Unlock()
		if len(names) < mostSecrets {
			names[found.GetName()] = true
		}
		return names[found.GetName()]
	}
}

// reduce leaves of a Deployment what names its Secret.
func reduce(object any) (any, error) {
	deployment, ok := object.(*appsv1.Deployment)
	if !ok {
		return object, nil
	}
	kept := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: deployment.Namespace, Name: deployment.Name, UID: deployment.UID, ResourceVersion: deployment.ResourceVersion,
		DeletionTimestamp: deployment.DeletionTimestamp,
	}}
	const longest = 253 // of a name
	if name := agent.CredentialsOf(deployment); name != "" && len(name) <= longest {
		kept.Spec.Template.Spec.Containers = agent.NamingCredentials(strings.Clone(name))
	}
	return kept, nil
}
