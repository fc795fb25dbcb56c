package importer_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/test/simulation"
)

// What Rancher does, as it was seen on a real one: each reaction is one write, so that others come between any two.

const (
	rancherFirst = "controller.cattle.io/cluster-scoped-gc"
	rancherLast  = "wrangler.cattle.io/mgmt-cluster-rbac-remove"
	rancherOfV1  = "wrangler.cattle.io/provisioning-cluster-remove"
	tokenSecret  = "crt-token-default-token"
)

// reaction is what Rancher, or Kubernetes, does next.
type reaction struct {
	what string
	do   func()
}

// object returns what is there. It must not be changed.
func (w *world) object(kind schema.GroupKind, namespace, name string) client.Object {
	return w.server.Peek(keyOf(kind, namespace, name))
}

func keyOf(kind schema.GroupKind, namespace, name string) simulation.Key {
	return simulation.Key{Kind: kind, NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// reactions are those that can come now.
func (w *world) reactions() []reaction {
	found := w.ofLeftovers()
	if !w.webhookDown {
		found = append(w.ofRancher(), found...) // Nobody can write a Rancher cluster without the webhook.
	}
	found = append(found, w.ofClusters()...)
	if w.withheld != nil {
		found = slices.DeleteFunc(found, func(r reaction) bool { return w.withheld(r.what) })
	}
	return found
}

// ofRancher is what becomes of Rancher clusters.
func (w *world) ofRancher() []reaction {
	var found []reaction
	for object := range w.server.All(v1GK) {
		if cluster, ok := object.(*provisioningv1.Cluster); ok {
			found = append(found, w.ofV1(cluster)...)
		}
	}
	for object := range w.server.All(v3GK) {
		cluster, ok := object.(*managementv3.Cluster)
		switch {
		case !ok:
		case cluster.DeletionTimestamp != nil:
			found = append(found, w.ofGoing(cluster)...)
		default:
			found = append(found, w.ofV3(cluster)...)
		}
	}
	return found
}

// ofLeftovers is what becomes of the registration of a v3 Cluster that is gone.
func (w *world) ofLeftovers() []reaction {
	var found []reaction
	for object := range w.server.All(tokenGK) {
		if w.object(v3GK, "", object.GetNamespace()) == nil {
			found = append(found, reaction{"Rancher removes the namespace of " + object.GetNamespace(), func() {
				w.server.Remove(keyOf(secretGK, object.GetNamespace(), tokenSecret))
				w.server.Remove(w.server.KeyOf(object))
				w.server.Remove(keyOf(namespaceGK, "", object.GetNamespace()))
			}})
		}
	}
	return found
}

// ofClusters is what becomes of CAPI clusters, and of workload clusters that are cleaned up.
func (w *world) ofClusters() []reaction {
	var found []reaction
	for _, cluster := range w.clusters() {
		held := slices.Contains(cluster.Finalizers, clusterv1.ClusterFinalizer)
		switch going := cluster.DeletionTimestamp != nil; {
		case !held && !going:
			found = append(found, reaction{"CAPI holds " + describe(cluster), w.holds(cluster, clusterv1.ClusterFinalizer)})
		case held && going:
			found = append(found, reaction{"CAPI releases " + describe(cluster), w.releases(cluster, clusterv1.ClusterFinalizer)})
		}
	}
	for _, key := range w.keys {
		if s := w.sites[key]; s.cleanup != "" {
			found = append(found, reaction{fmt.Sprintf("the clean-up in the workload cluster of %s ends", key), func() { w.cleanUp(key) }})
		}
	}
	return found
}

func (w *world) put(object client.Object) func() { return func() { w.server.Put(object) } }

// holds has somebody put finalizers on an object.
func (w *world) holds(object client.Object, finalizers ...string) func() {
	return func() {
		held := w.server.Get(w.server.KeyOf(object))
		held.SetFinalizers(append(held.GetFinalizers(), finalizers...))
		if v3, ok := held.(*managementv3.Cluster); ok {
			held = w.condition(v3, "ServiceAccountSecretsMigrated", true) // It is ready for an agent.
		}
		w.server.Put(held)
	}
}

// releases has somebody take a finalizer off an object.
func (w *world) releases(object client.Object, one string) func() {
	return func() {
		held := w.server.Get(w.server.KeyOf(object))
		held.SetFinalizers(without(held.GetFinalizers(), one))
		w.server.Put(held)
	}
}

// ofV1 is what becomes of a v1 Cluster: Rancher makes a v3 Cluster from it.
func (w *world) ofV1(cluster *provisioningv1.Cluster) []reaction {
	name := cluster.Namespace + "/" + cluster.Name
	made := w.madeFrom(cluster)
	if cluster.DeletionTimestamp == nil {
		if orphan := w.orphaned(cluster); orphan {
			return []reaction{{"Kubernetes deletes v1 Cluster " + name + ", whose owner is gone", func() {
				w.server.Remove(w.server.KeyOf(cluster))
			}}}
		}
		switch {
		case !slices.Contains(cluster.Finalizers, rancherOfV1):
			return []reaction{{"Rancher holds v1 Cluster " + name, w.holds(cluster, rancherOfV1)}}
		case made == nil:
			return []reaction{{"Rancher makes a v3 Cluster from v1 Cluster " + name, func() {
				w.made++
				made := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{
					Name: fmt.Sprintf("c-m-%08d", w.made), Labels: maps.Clone(cluster.Labels), Annotations: maps.Clone(cluster.Annotations),
				}}
				metav1.SetMetaDataAnnotation(&made.ObjectMeta, "provisioning.cattle.io/administrated", "true")
				metav1.SetMetaDataAnnotation(&made.ObjectMeta, "objectset.rio.cattle.io/owner-namespace", cluster.Namespace)
				metav1.SetMetaDataAnnotation(&made.ObjectMeta, "objectset.rio.cattle.io/owner-name", cluster.Name)
				made.Spec.DisplayName, made.Spec.FleetWorkspaceName = cluster.Name, cluster.Namespace
				w.server.Put(made)
				made, _ = w.object(v3GK, "", made.Name).(*managementv3.Cluster)
				w.created[made.UID] = w.created[cluster.UID]
			}}}
		case cluster.Status.ClusterName != made.Name:
			return []reaction{{"Rancher names " + made.Name + " in v1 Cluster " + name, func() {
				named := cluster.DeepCopy()
				named.Status.ClusterName = made.Name
				w.server.Put(named)
			}}}
		}
		return nil
	}
	switch {
	case made != nil && made.DeletionTimestamp == nil:
		return []reaction{{"Rancher deletes " + made.Name + " with v1 Cluster " + name, func() {
			if twin := w.cluster(client.ObjectKeyFromObject(cluster)); twin != nil {
				w.say("   and CAPI cluster %s, which has its name", name)
				delete(w.spared, twin.UID)
				w.server.Remove(w.server.KeyOf(twin))
			}
			w.server.Remove(w.server.KeyOf(made))
		}}}
	case slices.Contains(cluster.Finalizers, rancherOfV1):
		return []reaction{{"Rancher releases v1 Cluster " + name, w.releases(cluster, rancherOfV1)}}
	}
	return nil
}

// orphaned reports whether an owner of a v1 Cluster is gone.
func (w *world) orphaned(cluster *provisioningv1.Cluster) bool {
	for _, owner := range cluster.OwnerReferences {
		if found := w.object(clusterGK, cluster.Namespace, owner.Name); found == nil || found.GetUID() != owner.UID {
			return true
		}
	}
	return false
}

// madeFrom returns the v3 Cluster that was made from a v1 Cluster.
func (w *world) madeFrom(cluster client.Object) *managementv3.Cluster {
	for object := range w.server.All(v3GK) {
		made, ok := object.(*managementv3.Cluster)
		if ok && made.Annotations["objectset.rio.cattle.io/owner-namespace"] == cluster.GetNamespace() &&
			made.Annotations["objectset.rio.cattle.io/owner-name"] == cluster.GetName() {
			return made
		}
	}
	return nil
}

// stemOf returns the v1 Cluster that an object was made from, if there is one, and the object itself otherwise.
func (w *world) stemOf(object client.Object) client.Object {
	from := object.GetAnnotations()
	if stem := w.object(v1GK, from["objectset.rio.cattle.io/owner-namespace"], from["objectset.rio.cattle.io/owner-name"]); stem != nil {
		return stem
	}
	return object
}

// ofGoing is what becomes of a v3 Cluster that is deleted.
func (w *world) ofGoing(cluster *managementv3.Cluster) []reaction {
	if name := cluster.Annotations["objectset.rio.cattle.io/owner-name"]; name != "" {
		v1 := w.object(v1GK, cluster.Annotations["objectset.rio.cattle.io/owner-namespace"], name)
		switch {
		case v1 != nil && v1.GetDeletionTimestamp() == nil:
			return []reaction{{"Rancher deletes v1 Cluster " + name + " with " + cluster.Name, func() {
				w.server.Remove(w.server.KeyOf(v1))
			}}}
		case v1 != nil:
			return nil
		}
	}
	if conditionOf(cluster, "Connected") && !w.cleaned[cluster.UID] {
		for _, key := range w.keys {
			s := w.sites[key]
			if s.agent.exists && s.session == cluster.Name {
				return []reaction{{fmt.Sprintf("Rancher begins to clean up the workload cluster of %s, for %s", key, cluster.Name), func() {
					w.cleaned[cluster.UID], s.cleanup = true, cluster.UID
					w.changes++
				}}}
			}
		}
	}
	switch {
	case slices.Contains(cluster.Finalizers, rancherFirst):
		return []reaction{{"Rancher takes a finalizer off " + cluster.Name, w.releases(cluster, rancherFirst)}}
	case len(cluster.Finalizers) == 1 && cluster.Finalizers[0] == rancherLast:
		return []reaction{{"Rancher takes the last finalizer off " + cluster.Name, w.releases(cluster, rancherLast)}}
	}
	return nil
}

// ofV3 is what becomes of a v3 Cluster: Rancher prepares its registration, and follows its agent.
func (w *world) ofV3(cluster *managementv3.Cluster) []reaction {
	if w.foreign[w.server.KeyOf(cluster)] {
		return nil
	}
	token, _ := w.object(tokenGK, cluster.Name, "default-token").(*unstructured.Unstructured)
	switch {
	case !slices.Contains(cluster.Finalizers, rancherLast):
		return []reaction{{"Rancher holds " + cluster.Name, w.holds(cluster, rancherFirst, rancherLast)}}
	case w.object(namespaceGK, "", cluster.Name) == nil:
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster.Name}}
		return []reaction{{"Rancher makes the namespace of " + cluster.Name, w.put(namespace)}}
	case token == nil:
		token = rancher.NewRegistrationToken()
		token.SetNamespace(cluster.Name)
		token.SetName("default-token")
		return []reaction{{"Rancher makes the registration token of " + cluster.Name, w.put(token)}}
	case w.object(secretGK, cluster.Name, tokenSecret) == nil:
		w.tokens++
		value := fmt.Sprintf("token-%s-%d", cluster.Name, w.tokens)
		return []reaction{{"Rancher makes the token of " + cluster.Name, w.put(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Name, Name: tokenSecret}, Data: map[string][]byte{"token": []byte(value)},
		})}}
	case token.Object["status"] == nil:
		return []reaction{{"Rancher fills in the registration of " + cluster.Name, func() {
			filled := token.DeepCopy()
			filled.Object["status"] = map[string]any{
				"manifestUrl": simURL + "/v3/import/{token}_" + cluster.Name + ".yaml", "tokenSecretName": tokenSecret,
			}
			w.server.Put(filled)
		}}}
	}
	return w.ofAgent(cluster)
}

// tokenOf returns the token that Rancher accepts for a v3 Cluster.
func (w *world) tokenOf(cluster string) string {
	secret, ok := w.object(secretGK, cluster, tokenSecret).(*corev1.Secret)
	if !ok {
		return ""
	}
	return string(secret.Data["token"])
}

// ofAgent is what Rancher does when the agent of a v3 Cluster comes and goes.
func (w *world) ofAgent(cluster *managementv3.Cluster) []reaction {
	var here *site
	for _, key := range w.keys {
		a, token := w.sites[key].agent, w.tokenOf(cluster.Name)
		if a.exists && a.credentials && a.server == simURL && a.token == token && token != "" {
			here = w.sites[key]
		}
	}
	forced := cluster.Annotations["io.cattle.agent.force.deploy"] == "true"
	switch {
	case here == nil && conditionOf(cluster, "Connected"):
		return []reaction{{"Rancher loses the agent of " + cluster.Name, w.loses(cluster)}}
	case here == nil:
		return nil
	case !conditionOf(cluster, "AgentDeployed") || forced:
		return []reaction{{"Rancher deploys its agent for " + cluster.Name, func() {
			here.agent.features, here.agent.cluster = true, cluster.Name
			w.changes++
			deployed := cluster.DeepCopy()
			delete(deployed.Annotations, "io.cattle.agent.force.deploy")
			if forced {
				metav1.SetMetaDataAnnotation(&deployed.ObjectMeta, "io.cattle.agent.force.deploy", "false")
			}
			w.server.Put(w.condition(deployed, "AgentDeployed", true))
		}}}
	case !here.agent.features && conditionOf(cluster, "Connected"):
		return []reaction{{"Rancher loses the agent of " + cluster.Name, w.loses(cluster)}}
	case !here.agent.features:
		return nil // It only registers.
	case !conditionOf(cluster, "Connected"):
		return []reaction{{"the agent of " + cluster.Name + " connects", func() {
			here.session = cluster.Name
			w.server.Put(w.condition(cluster, "Connected", true))
		}}}
	case !conditionOf(cluster, "Waiting"):
		return []reaction{{"Rancher finds the cluster of " + cluster.Name + " healthy", func() {
			w.server.Put(w.condition(cluster, "Waiting", true))
		}}}
	}
	return nil
}

func conditionOf(cluster *managementv3.Cluster, kind string) bool {
	return slices.ContainsFunc(cluster.Status.Conditions, func(c managementv3.ClusterCondition) bool {
		return string(c.Type) == kind && c.Status == corev1.ConditionTrue
	})
}

// condition returns the v3 Cluster with a condition.
func (w *world) condition(cluster *managementv3.Cluster, kind string, status bool) *managementv3.Cluster {
	w.tick()
	value := managementv3.ClusterCondition{Status: corev1.ConditionFalse, LastUpdateTime: w.clock.Now().UTC().Format(time.RFC3339)}
	value.Type = managementv3.ClusterConditionType(kind)
	if status {
		value.Status = corev1.ConditionTrue
	}
	cluster = cluster.DeepCopy()
	cluster.Status.Conditions = append(slices.DeleteFunc(cluster.Status.Conditions, func(c managementv3.ClusterCondition) bool {
		return string(c.Type) == kind
	}), value)
	return cluster
}

// tick has a second pass.
func (w *world) tick() { w.clock.SetTime(w.clock.Now().Add(time.Second)) }

func without(finalizers []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return f == one })
}

// clusters are the CAPI clusters that there are. They must not be changed.
func (w *world) clusters() []*clusterv1.Cluster {
	var clusters []*clusterv1.Cluster
	for object := range w.server.All(clusterGK) {
		if cluster, ok := object.(*clusterv1.Cluster); ok {
			clusters = append(clusters, cluster)
		}
	}
	return clusters
}

func describe(object client.Object) string {
	if object == nil {
		return "nothing"
	}
	return strings.TrimPrefix(client.ObjectKeyFromObject(object).String(), "/")
}
