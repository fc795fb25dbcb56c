package setup

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/shard"
)

// crd returns a CRD that is established and serves the versions, but for those with a minus before.
func crd(name string, versions ...string) *apiextensionsv1.CustomResourceDefinition {
	c := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, version := range versions {
		kept, off := strings.CutPrefix(version, "-")
		c.Spec.Versions = append(c.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: kept, Served: !off})
	}
	c.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	return c
}

// imports returns the description of the import.
func imports(t *testing.T) controller.Controller {
	t.Helper()
	for _, c := range Controllers() {
		if c.Name == "rancher-import" {
			return c
		}
	}
	t.Fatal("there is no import")
	return controller.Controller{}
}

// crdOf returns what the import needs of a CRD.
func crdOf(t *testing.T, name, version string) controller.CRD {
	t.Helper()
	for _, needed := range imports(t).CRDs {
		if needed.Name == name && (version == "" || needed.Version == version) {
			return needed
		}
	}
	t.Fatalf("the import needs no %s of version %q", name, version)
	return controller.CRD{}
}

func TestLack(t *testing.T) {
	const capi, rancher = "clusters.cluster.x-k8s.io", "clusters.management.cattle.io"
	unestablished := crd(capi, "v1beta2")
	unestablished.Status.Conditions[0].Status = apiextensionsv1.ConditionFalse
	for name, tc := range map[string]struct {
		name, version string
		crd           *apiextensionsv1.CustomResourceDefinition
		want          string
	}{
		"Served":        {capi, "v1beta2", crd(capi, "-v1alpha4", "v1beta1", "v1beta2"), ""},
		"NoCAPI":        {capi, "v1beta2", nil, "CRD clusters.cluster.x-k8s.io does not exist; Archelon needs CAPI 1.11 or newer, which Rancher 2.14 and newer bring along"},
		"NoRancher":     {rancher, "v3", nil, "CRD clusters.management.cattle.io does not exist; Archelon needs Rancher 2.14 or newer"},
		"OldCAPI":       {capi, "v1beta2", crd(capi, "-v1alpha4", "v1beta1"), "CAPI serves v1beta1 only (CRD clusters.cluster.x-k8s.io); Archelon needs v1beta2 (CAPI 1.11 or newer, which Rancher 2.14 and newer bring along)"},
		"NoVersion":     {capi, "v1beta2", crd(capi), "CAPI serves no version (CRD clusters.cluster.x-k8s.io); Archelon needs v1beta2 (CAPI 1.11 or newer, which Rancher 2.14 and newer bring along)"},
		"NotServed":     {capi, "v1beta2", crd(capi, "v1beta1", "-v1beta2"), "CRD clusters.cluster.x-k8s.io has v1beta2 and does not serve it; Archelon needs it served"},
		"Unestablished": {capi, "v1beta2", unestablished, "CRD clusters.cluster.x-k8s.io is not established; its conditions say why"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := crdOf(t, tc.name, tc.version).Lack(tc.crd); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// Metal3 has a CRD of the same name, which drops what ours has besides. Nothing may be written then.
func TestAnotherCRDOfTheName(t *testing.T) {
	needed := controller.CRD{
		Name: "hostclaims.metal3.io", Version: "v1alpha1", Selectable: ".spec.kind", Of: controller.Product{Name: "Archelon", Needed: "its own"},
	}
	found := crd("hostclaims.metal3.io", "v1alpha1", "v1beta1")
	found.Spec.Versions[1].SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.kind"}}
	if got := needed.Lack(found); !strings.Contains(got, "is another one than that of Archelon: field .spec.kind is not selectable") {
		t.Errorf("got %q", got)
	}
	found.Spec.Versions[0].SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.kind"}}
	if got := needed.Lack(found); got != "" {
		t.Errorf("got %q", got)
	}
}

// Readiness names the cause once all CRDs are known, and passes when a newer CAPI has taken the place of the old one.
func TestReadinessNamesTheCRDThatIsTooOld(t *testing.T) {
	const capi = "clusters.cluster.x-k8s.io"
	w := waitOn(nil, nil, imports(t))
	note := func(found *apiextensionsv1.CustomResourceDefinition, first bool) bool {
		return w.note(t.Context(), found.Name, crdOf(t, found.Name, "").Lack(found), first)
	}
	expect := func(reason, want string) {
		t.Helper()
		if err := w.check(nil); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: readiness says %v, want %q", reason, err, want)
		}
	}
	expect("nothing is known", "the API server has yet to say")
	for _, needed := range imports(t).CRDs {
		if needed.Name != capi && !note(crd(needed.Name, needed.Version), true) {
			t.Errorf("%s is there", needed.Name)
		}
	}
	expect("of CAPI nothing is known", "the API server has yet to say")
	if note(crd(capi, "v1beta1"), true) {
		t.Error("the CRD of CAPI is too old and the wait for it ends")
	}
	expect("CAPI is too old", "CAPI serves v1beta1 only")
	if !strings.HasPrefix(w.reported, "CAPI serves v1beta1 only") {
		t.Errorf("the log has %q", w.reported)
	}
	if !note(crd(capi, "v1beta1", "v1beta2"), false) {
		t.Error("CAPI is new enough")
	}
	expect("CAPI is new enough", "")
}

// A write drops what another CRD of the name does not know, so the process that writes ends. The next one waits.
func TestAProcessEndsWhenItsCRDIsReplaced(t *testing.T) {
	ours := func() *apiextensionsv1.CustomResourceDefinition {
		found := crd("hostclaims.metal3.io", "v1alpha1")
		found.Spec.Versions[0].SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.kind"}}
		return found
	}
	c := controller.Controller{
		Name: "claims", Watches: func(shard.Scope) []controller.Watch { return nil },
		CRDs: []controller.CRD{{Name: "hostclaims.metal3.io", Version: "v1alpha1", Selectable: ".spec.kind", Of: controller.Product{Name: "Archelon", Needed: "its own"}}},
	}
	api := full{has: ours(), watches: make(chan *watch.RaceFreeFakeWatcher, 2)}
	set, sentences, ended := make(chan struct{}), make(chan string, 2), make(chan error, 1)
	c.Setup = func(context.Context, controller.Env) error { close(set); return nil }
	r := &running{synced: func() {}, logger: logr.Discard(), replaced: func(controller, crd, cause string) {
		sentences <- controller + ": " + crd + ": " + cause
	}}
	s := &started{Controller: c, crds: waitOn(watchesOn(api), nil, c)}
	r.left.Store(1)
	go func() { ended <- r.start(t.Context(), s, shard.Scope{}) }()
	<-set
	for {
		select {
		case watched := <-api.watches: // That of the wait may have been the first.
			watched.Modify(crd("hostclaims.metal3.io", "v1alpha1"))
		case got := <-sentences:
			if !strings.HasPrefix(got, "claims: hostclaims.metal3.io: ") || !strings.Contains(got, "field .spec.kind is not selectable") {
				t.Errorf("it ends with %q", got)
			}
			if err := <-ended; err != nil || len(sentences) > 0 {
				t.Errorf("%v, and %d sentences more", err, len(sentences))
			}
			return
		}
	}
}

// HostClaims need CAPI Clusters for their pauses alone. Where the kind does not exist none is watched, and the process
// ends when it comes: the next one watches it.
func TestAControllerWorksWithoutAnOptionalCRDUntilThatIsCreated(t *testing.T) {
	c := controller.Controller{
		Name: "claims", CRDs: []controller.CRD{controller.PausingClusters()},
		Watches: func(shard.Scope) []controller.Watch { return []controller.Watch{{Object: &clusterv1.Cluster{}}} },
	}
	api := full{watches: make(chan *watch.RaceFreeFakeWatcher, 2)}
	set, created, ended := make(chan controller.Env, 1), make(chan string, 2), make(chan error, 1)
	c.Setup = func(_ context.Context, env controller.Env) error { set <- env; return nil }
	synced := make(chan struct{})
	r := &running{synced: func() { close(synced) }, logger: logr.Discard(), created: func(controller, crd string) { created <- controller + ": " + crd }}
	s := &started{Controller: c, crds: waitOn(watchesOn(api), nil, c)}
	r.controllers = []*started{s}
	r.left.Store(1)
	go func() { ended <- r.start(t.Context(), s, shard.Scope{}) }()
	if env := <-set; env.Has(controller.PausingClusters()) {
		t.Error("it is set up as if the kind existed")
	}
	<-synced // There is no manager, so a watch on Clusters would panic.
	if err := errors.Join(s.crds.check(nil), r.clustersReadable(nil)); err != nil {
		t.Errorf("it is not ready: %v", err)
	}
	for {
		select {
		case watched := <-api.watches: // That of the wait may have been the first.
			watched.Add(crd("clusters.cluster.x-k8s.io"))
		case got := <-created:
			if err := <-ended; err != nil || got != "claims: clusters.cluster.x-k8s.io" {
				t.Errorf("it ends with %q, %v", got, err)
			}
			return
		}
	}
}

// A Cluster that cannot be read may be paused.
func TestAControllerWaitsForAnOptionalCRDThatIsTooOld(t *testing.T) {
	c := controller.Controller{Name: "claims", CRDs: []controller.CRD{controller.PausingClusters()}}
	api := full{has: crd("clusters.cluster.x-k8s.io", "v1beta1"), watches: make(chan *watch.RaceFreeFakeWatcher, 2)}
	w := waitOn(watchesOn(api), nil, c)
	ended := make(chan error, 1)
	go func() { ended <- w.waitForAll(t.Context()) }()
	watched := <-api.watches
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		err := w.check(nil)
		return err != nil && strings.HasPrefix(err.Error(), "CAPI serves v1beta1 only"), nil
	})
	if err != nil || len(ended) > 0 || w.serves("clusters.cluster.x-k8s.io") {
		t.Errorf("it does not wait, or does not say why: %v, %v", err, w.check(nil))
	}
	watched.Modify(crd("clusters.cluster.x-k8s.io", "v1beta1", "v1beta2"))
	if err := <-ended; err != nil || !w.serves("clusters.cluster.x-k8s.io") || len(w.without()) > 0 {
		t.Errorf("the wait ends with %v, without %v", err, w.without())
	}
}

// full is an API server with a CRD, or without, whose watches a test has.
type full struct {
	apiextensionsclient.CustomResourceDefinitionInterface

	has     *apiextensionsv1.CustomResourceDefinition
	watches chan *watch.RaceFreeFakeWatcher
}

func (f full) List(context.Context, metav1.ListOptions) (*apiextensionsv1.CustomResourceDefinitionList, error) {
	list := &apiextensionsv1.CustomResourceDefinitionList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	if f.has != nil {
		list.Items = append(list.Items, *f.has)
	}
	return list, nil
}

func (f full) Watch(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if options.SendInitialEvents != nil {
		return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil) // It does not stream what is there at first.
	}
	watched := watch.NewRaceFreeFake()
	if f.has != nil {
		watched.Modify(f.has)
	}
	f.watches <- watched
	return watched, nil
}

// Several controllers need the CRDs of Cluster API and of Rancher: each is listed and watched once.
func TestACRDIsWatchedOnceForAll(t *testing.T) {
	api := full{has: crd("clusters.cluster.x-k8s.io", "v1beta2"), watches: make(chan *watch.RaceFreeFakeWatcher, 4)}
	watches := watchesOn(api)
	ctx, cancel := context.WithCancel(t.Context())
	ended, heard := make(chan error, 3), make(chan string, 100)
	for range 3 {
		go func() {
			ended <- watches.until(ctx, "clusters.cluster.x-k8s.io", func(found *apiextensionsv1.CustomResourceDefinition, _ bool) bool {
				heard <- found.Spec.Versions[0].Name
				return found.Spec.Versions[0].Name == "v1beta3"
			})
		}()
	}
	for range 3 {
		if got := <-heard; got != "v1beta2" {
			t.Errorf("at first there is %s", got)
		}
	}
	watched := <-api.watches
	watched.Modify(crd("clusters.cluster.x-k8s.io", "v1beta3"))
	for range 3 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if len(api.watches) > 0 {
		t.Errorf("it is watched %d times more", len(api.watches))
	}
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return watched.IsStopped(), nil
	})
	if err != nil || len(watches.byName) != 0 {
		t.Errorf("nobody needs it any more, and it is still watched: %v, %d", err, len(watches.byName))
	}

	go func() {
		ended <- watches.until(ctx, "clusters.cluster.x-k8s.io", func(*apiextensionsv1.CustomResourceDefinition, bool) bool { return false })
	}()
	<-api.watches
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a process that stops waits on: %v", err)
	}
}

func TestFieldsOfASchema(t *testing.T) {
	with := func(properties map[string]apiextensionsv1.JSONSchemaProps) *apiextensionsv1.CustomResourceDefinition {
		found := crd("hostclaims.metal3.io", "v1alpha1")
		found.Spec.Versions[0].Schema = &apiextensionsv1.CustomResourceValidation{
			OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Properties: properties},
		}
		return found
	}
	spec := func(of apiextensionsv1.JSONSchemaProps) *apiextensionsv1.CustomResourceDefinition {
		return with(map[string]apiextensionsv1.JSONSchemaProps{"spec": of})
	}
	needed := controller.CRD{
		Name: "hostclaims.metal3.io", Version: "v1alpha1", Fields: []string{"spec.online"}, Of: controller.Product{Name: "Archelon", Needed: "its own"},
	}
	const lacks = "CRD hostclaims.metal3.io is another one than that of Archelon: its schema has no field spec.online."
	for name, tc := range map[string]struct {
		crd  *apiextensionsv1.CustomResourceDefinition
		want string
	}{
		"There":     {spec(apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{"online": {}}}), ""},
		"Preserved": {spec(apiextensionsv1.JSONSchemaProps{XPreserveUnknownFields: new(true)}), ""},
		"Dropped":   {spec(apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{"poweredOn": {}}}), lacks},
		"NoSpec":    {with(nil), lacks},
		"NoSchema":  {crd("hostclaims.metal3.io", "v1alpha1"), lacks},
	} {
		t.Run(name, func(t *testing.T) {
			if got := needed.Lack(tc.crd); !strings.HasPrefix(got, tc.want) || tc.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
