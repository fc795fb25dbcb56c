package setup

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
)

// newInformer builds the informers of the manager's cache. Of Secrets it passes on what may hold a kubeconfig, or the
// manifest of an agent: CAPI gives the same label and the same type to the Secrets of a cluster's authorities and to
// the bootstrap data of each of its machines, and no selector knows the end of a name or an owner. So the API server
// sends the metadata of all of them, and here they are dropped as they come, before anything keeps them.
func newInformer(from toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	if secret, ok := example.(*metav1.PartialObjectMetadata); ok && secret.Kind == "Secret" {
		from = controller.Only(from, mayHoldKubeconfig)
	}
	return toolscache.NewSharedIndexInformer(from, example, resync, indexers)
}

func mayHoldKubeconfig(secret runtime.Object) bool {
	object, err := meta.Accessor(secret)
	return err != nil || !kubeconfig.Lacks(object) // The informer says what is wrong with it.
}

// keepKubeconfig leaves of the metadata of a Secret what tells whose kubeconfig it may hold: the label only where that
// is another cluster than the one that the name tells.
func keepKubeconfig(object any) (any, error) {
	if secret, ok := object.(*metav1.PartialObjectMetadata); ok && len(kubeconfig.ClustersOf(secret)) > 1 ||
		ok && kubeconfig.ClustersOf(&metav1.ObjectMeta{Name: secret.Name}) == nil {
		return controller.KeepLabels(clusterv1.ClusterNameLabel)(object)
	}
	return controller.KeepIdentity(object)
}
