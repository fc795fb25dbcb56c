package setup

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	ctrl "sigs.k8s.io/controller-runtime"
)

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=clusters.cluster.x-k8s.io;clusters.management.cattle.io;clusters.provisioning.cattle.io;clusterregistrationtokens.management.cattle.io;settings.management.cattle.io,verbs=list;watch

// requiredCRDs returns the CRDs that the import watches, and the version it needs of each.
func requiredCRDs() map[string]string {
	return map[string]string{
		"clusters.cluster.x-k8s.io":                      "v1beta2",
		"clusters.management.cattle.io":                  "v3",
		"clusters.provisioning.cattle.io":                "v1",
		"clusterregistrationtokens.management.cattle.io": "v3",
		"settings.management.cattle.io":                  "v3",
	}
}

// crdWait waits for CRDs. Each is watched by its name: a cluster with Rancher has hundreds of others, of some megabytes.
type crdWait struct {
	crds apiextensionsclient.CustomResourceDefinitionInterface

	mu       sync.Mutex
	unknown  int // CRDs of which the API server has yet to say whether they are there
	missing  map[string]string
	reported string
}

// waitForCRDs returns when the API server serves all required CRDs, or when the context ends.
func waitForCRDs(ctx context.Context, config *rest.Config, httpClient *http.Client) error {
	client, err := apiextensionsclient.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return fmt.Errorf("building a client for CRDs: %w", err)
	}
	required := requiredCRDs()
	w := &crdWait{crds: client.CustomResourceDefinitions(), unknown: len(required), missing: maps.Clone(required)}
	errs := make(chan error, len(required))
	for name, version := range required {
		go func() { errs <- w.wait(ctx, name, version) }()
	}
	for range required {
		if err := <-errs; err != nil {
			return ignoreStop(ctx, err)
		}
	}
	return nil
}

// wait returns when one CRD serves the version, or when the context ends.
func (w *crdWait) wait(ctx context.Context, name, version string) error {
	only := func(options metav1.ListOptions) metav1.ListOptions {
		options.FieldSelector = named(name).String()
		return options
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return w.crds.List(ctx, only(options))
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return w.crds.Watch(ctx, only(options))
		},
	}
	there := func(object any) bool {
		crd, ok := object.(*apiextensionsv1.CustomResourceDefinition)
		return ok && serves(crd, version)
	}
	_, err := watchtools.UntilWithSync(ctx, lw, &apiextensionsv1.CustomResourceDefinition{}, func(store cache.Store) (bool, error) {
		found := slices.ContainsFunc(store.List(), there)
		w.note(ctx, name, found, true)
		return found, nil
	}, func(event watch.Event) (bool, error) {
		found := there(event.Object)
		w.note(ctx, name, found, false)
		return found, nil
	})
	return err
}

// note says which CRDs are missing, when that is known of all and whenever it changes.
func (w *crdWait) note(ctx context.Context, name string, found, first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if first {
		w.unknown--
	}
	if found {
		delete(w.missing, name)
	}
	var wanted []string
	for _, name := range slices.Sorted(maps.Keys(w.missing)) {
		wanted = append(wanted, name+"/"+w.missing[name])
	}
	if names := strings.Join(wanted, ", "); w.unknown == 0 && names != "" && names != w.reported {
		w.reported = names
		ctrl.LoggerFrom(ctx).WithName("setup").Info("Waiting for CRDs of CAPI and Rancher", "missing", names)
	}
}

// serves reports whether the CRD is established and serves the version.
func serves(crd *apiextensionsv1.CustomResourceDefinition, version string) bool {
	served := slices.ContainsFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == version && v.Served
	})
	return served && slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}
