package setup

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

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

// waitForCRDs returns when the API server serves all required CRDs, or when the context ends.
func waitForCRDs(ctx context.Context, config *rest.Config, httpClient *http.Client) error {
	crds, err := apiextensionsclient.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return fmt.Errorf("building a client for CRDs: %w", err)
	}
	missing := requiredCRDs()
	reported := ""
	logger := ctrl.LoggerFrom(ctx).WithName("setup")
	report := func() {
		var wanted []string
		for _, name := range slices.Sorted(maps.Keys(missing)) {
			wanted = append(wanted, name+"/"+missing[name])
		}
		names := strings.Join(wanted, ", ")
		if names != "" && names != reported {
			reported = names
			logger.Info("Waiting for CRDs of CAPI and Rancher", "missing", names)
		}
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return crds.CustomResourceDefinitions().List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return crds.CustomResourceDefinitions().Watch(ctx, options)
		},
	}
	precondition := func(store cache.Store) (bool, error) {
		for _, item := range store.List() {
			if crd, ok := item.(*apiextensionsv1.CustomResourceDefinition); ok && serves(crd, missing[crd.Name]) {
				delete(missing, crd.Name)
			}
		}
		report()
		return len(missing) == 0, nil
	}
	_, err = watchtools.UntilWithSync(ctx, lw, &apiextensionsv1.CustomResourceDefinition{}, precondition, func(event watch.Event) (bool, error) {
		if crd, ok := event.Object.(*apiextensionsv1.CustomResourceDefinition); ok && serves(crd, missing[crd.Name]) {
			delete(missing, crd.Name)
			report()
		}
		return len(missing) == 0, nil
	})
	return ignoreStop(ctx, err)
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
