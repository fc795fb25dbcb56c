package setup

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/archelon-io/archelon/internal/agent"
	"github.com/archelon-io/archelon/internal/controller"
	importer "github.com/archelon-io/archelon/internal/import"
)

// newInformer builds the informers of the manager's cache. Of Secrets it passes on what holds a kubeconfig, or the
// manifest of an agent: CAPI gives
// the same label and the same type to the Secrets of a cluster's authorities and to the bootstrap data of each of its
// machines, and no selector knows the end of a name. So the API server sends the metadata of all of them, and here they
// are dropped as they come, before anything keeps them.
func newInformer(from toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	if secret, ok := example.(*metav1.PartialObjectMetadata); ok && secret.Kind == "Secret" {
		from = controller.Only(from, isRead)
	}
	return toolscache.NewSharedIndexInformer(from, example, resync, indexers)
}

func isRead(secret runtime.Object) bool {
	object, err := meta.Accessor(secret)
	if err != nil {
		return true // The informer says what is wrong with it.
	}
	_, ok := importer.ClusterOfSecret(types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()})
	return ok || strings.HasSuffix(object.GetName(), agent.ManifestSecretSuffix)
}
