package rancher

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// webhook is the admission webhook that runs beside Rancher.
type webhook struct {
	standin   *Standin
	server    *http.Server
	done      chan struct{}
	installed []client.Object
}

// reviewer decides one admission request and may ask for a patch.
type reviewer func(context.Context, *admissionv1.AdmissionRequest) (patch []byte, no *denial, err error)

// webhookName names both webhook configurations. A real Rancher's are called the same.
const webhookName = "rancher.cattle.io"

func startWebhook(ctx context.Context, s *Standin) (*webhook, error) {
	authority, err := webhookAuthority(s.opts.WebhookService)
	if err != nil {
		return nil, fmt.Errorf("making the webhook's CA: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.opts.WebhookListen)
	if err != nil {
		return nil, fmt.Errorf("listening as Rancher's webhook: %w", err)
	}
	w := &webhook{standin: s, done: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("/v3", handle(w.reviewCluster))
	mux.HandleFunc("/v1", handle(w.reviewProvisioning))
	mux.HandleFunc("/v1/mutate", handle(w.stampCreator))
	mux.HandleFunc("/bindings", handle(w.reviewBinding))
	w.server = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0),
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*authority.serving}},
	}
	go func() {
		defer close(w.done)
		if err := w.server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			s.opts.Logger.Error(err, "Rancher's webhook ended")
		}
	}()
	if err := w.install(ctx, w.target(listener.Addr().String(), authority.pem)); err != nil {
		w.stop()
		return nil, err
	}
	return w, nil
}

// webhookAuthority makes CA and certificate of the webhook, which change with each start.
func webhookAuthority(service *types.NamespacedName) (*authority, error) {
	ca, err := newCA("rancher-webhook-ca")
	if err != nil {
		return nil, err
	}
	if service == nil {
		return ca.serve(nil)
	}
	return ca.serve([]string{service.Name + "." + service.Namespace + ".svc"})
}

// target returns how the API server finds the webhook at the given path.
func (w *webhook) target(address string, ca []byte) func(path string) admissionregistrationv1.WebhookClientConfig {
	opts := w.standin.opts
	return func(path string) admissionregistrationv1.WebhookClientConfig {
		if opts.WebhookService == nil {
			return admissionregistrationv1.WebhookClientConfig{URL: new("https://" + address + path), CABundle: ca}
		}
		return admissionregistrationv1.WebhookClientConfig{CABundle: ca, Service: &admissionregistrationv1.ServiceReference{
			Namespace: opts.WebhookService.Namespace, Name: opts.WebhookService.Name, Path: &path, Port: &opts.WebhookPort,
		}}
	}
}

// install registers the webhook with the management API server, in place of one that an
// earlier stand-in may have left.
func (w *webhook) install(ctx context.Context, config func(path string) admissionregistrationv1.WebhookClientConfig) error {
	of := func(resource, group, version string, operations ...admissionregistrationv1.OperationType) []admissionregistrationv1.RuleWithOperations {
		return []admissionregistrationv1.RuleWithOperations{{
			Operations: operations,
			Rule: admissionregistrationv1.Rule{
				APIGroups:   []string{group},
				APIVersions: []string{version},
				Resources:   []string{resource},
			},
		}}
	}
	rule := func(group, version string, operations ...admissionregistrationv1.OperationType) []admissionregistrationv1.RuleWithOperations {
		return of("clusters", group, version, operations...)
	}
	meta := metav1.ObjectMeta{Name: webhookName}
	none, ignore, fail := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Ignore, admissionregistrationv1.Fail
	versions := []string{"v1"}
	create, update, del := admissionregistrationv1.Create, admissionregistrationv1.Update, admissionregistrationv1.Delete
	w.installed = []client.Object{
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    "rancher.cattle.io.clusters.management.cattle.io",
			ClientConfig:            config("/v3"),
			Rules:                   rule(clusterGVK.Group, clusterGVK.Version, create, update, del),
			FailurePolicy:           &ignore,
			SideEffects:             &none,
			AdmissionReviewVersions: versions,
		}, {
			Name:                    "rancher.cattle.io.clusters.provisioning.cattle.io",
			ClientConfig:            config("/v1"),
			Rules:                   rule(provisioningGVK.Group, provisioningGVK.Version, create, update),
			FailurePolicy:           &fail,
			SideEffects:             &none,
			AdmissionReviewVersions: versions,
		}, {
			Name:                    "rancher.cattle.io.clusterroletemplatebindings.management.cattle.io",
			ClientConfig:            config("/bindings"),
			Rules:                   of("clusterroletemplatebindings", bindingGVK.Group, bindingGVK.Version, create),
			FailurePolicy:           &fail,
			SideEffects:             &none,
			AdmissionReviewVersions: versions,
		}}},
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name:                    "rancher.cattle.io.clusters.provisioning.cattle.io",
			ClientConfig:            config("/v1/mutate"),
			Rules:                   rule(provisioningGVK.Group, provisioningGVK.Version, create),
			FailurePolicy:           &fail,
			SideEffects:             &none,
			AdmissionReviewVersions: versions,
		}}},
	}
	for _, obj := range w.installed {
		if err := w.put(ctx, obj); err != nil {
			return fmt.Errorf("installing %T: %w", obj, err)
		}
	}
	return nil
}

// put writes a webhook configuration without a moment in which there is none.
func (w *webhook) put(ctx context.Context, obj client.Object) error {
	err := w.standin.api.Create(ctx, obj)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		live, _ := obj.DeepCopyObject().(client.Object)
		if err := w.standin.api.Get(ctx, client.ObjectKeyFromObject(obj), live); err != nil {
			return err
		}
		obj.SetResourceVersion(live.GetResourceVersion())
		return w.standin.api.Update(ctx, obj)
	})
}

// stop unregisters the webhook, unless another stand-in has taken it over, and ends its server.
func (w *webhook) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, obj := range w.installed {
		same := client.Preconditions{UID: new(obj.GetUID()), ResourceVersion: new(obj.GetResourceVersion())}
		err := w.standin.api.Delete(ctx, obj, same)
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			w.standin.opts.Logger.Error(err, "Rancher's webhook configuration stays behind")
		}
	}
	_ = w.server.Close() // the listener is closed whatever it returns
	<-w.done
}

// handle turns a reviewer into an HTTP handler.
func handle(review reviewer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		in := admissionv1.AdmissionReview{}
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 8<<20)).Decode(&in); err != nil || in.Request == nil {
			http.Error(w, "not an AdmissionReview", http.StatusBadRequest)
			return
		}
		response := &admissionv1.AdmissionResponse{UID: in.Request.UID, Allowed: true}
		patch, no, err := review(r.Context(), in.Request)
		if err != nil {
			no = &denial{http.StatusInternalServerError, err.Error()}
		}
		if no != nil {
			response.Allowed = false
			response.Result = &metav1.Status{Status: metav1.StatusFailure, Code: no.code, Message: no.message}
		}
		if len(patch) > 0 && no == nil {
			kind := admissionv1.PatchTypeJSONPatch
			response.Patch, response.PatchType = patch, &kind
		}
		out := admissionv1.AdmissionReview{TypeMeta: in.TypeMeta, Response: response}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(out); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
}

func decode(raw []byte) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	if len(raw) == 0 {
		return u, nil
	}
	if err := u.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("decoding an object under review: %w", err)
	}
	return u, nil
}

func (w *webhook) reviewCluster(ctx context.Context, in *admissionv1.AdmissionRequest) ([]byte, *denial, error) {
	before, err := decode(in.OldObject.Raw)
	if err != nil {
		return nil, nil, err
	}
	after, err := decode(in.Object.Raw)
	if err != nil {
		return nil, nil, err
	}
	switch in.Operation {
	case admissionv1.Delete:
		return nil, checkClusterDelete(in.Name), nil
	case admissionv1.Create:
		if no := checkClusterCreate(after); no != nil {
			return nil, no, nil
		}
	case admissionv1.Update:
		if no := checkClusterUpdate(before, after); no != nil {
			return nil, no, nil
		}
	}
	workspace := text(after, "spec", "fleetWorkspaceName")
	if workspace == "" || (in.Operation == admissionv1.Update && workspace == text(before, "spec", "fleetWorkspaceName")) {
		return nil, nil, nil
	}
	no, err := w.checkWorkspace(ctx, in, workspace)
	return nil, no, err
}

// checkWorkspace asks whether the caller may put clusters into the Fleet workspace.
func (w *webhook) checkWorkspace(ctx context.Context, in *admissionv1.AdmissionRequest, workspace string) (*denial, error) {
	allowed, err := w.allows(ctx, in, authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
		Verb:     "fleetaddcluster",
		Group:    clusterGVK.Group,
		Version:  clusterGVK.Version,
		Resource: "fleetworkspaces",
		Name:     workspace,
	}})
	if err != nil || allowed {
		return nil, err
	}
	return &denial{http.StatusUnauthorized, "user may not add clusters to Fleet workspace " + workspace}, nil
}

// allows asks the API server whether the caller may do something.
func (w *webhook) allows(ctx context.Context, in *admissionv1.AdmissionRequest, what authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	what.User, what.UID, what.Groups = in.UserInfo.Username, in.UserInfo.UID, in.UserInfo.Groups
	what.Extra = map[string]authorizationv1.ExtraValue{}
	for key, values := range in.UserInfo.Extra {
		what.Extra[key] = authorizationv1.ExtraValue(slices.Clone(values))
	}
	review := &authorizationv1.SubjectAccessReview{Spec: what}
	if err := w.standin.api.Create(ctx, review); err != nil {
		return false, fmt.Errorf("reviewing access: %w", err)
	}
	return review.Status.Allowed, nil
}

func (w *webhook) reviewProvisioning(ctx context.Context, in *admissionv1.AdmissionRequest) ([]byte, *denial, error) {
	after, err := decode(in.Object.Raw)
	if err != nil {
		return nil, nil, err
	}
	if in.Operation == admissionv1.Create {
		no, err := checkProvisioningCreate(after, in.UserInfo.Username, func(name string) (bool, error) {
			err := w.standin.api.Get(ctx, client.ObjectKey{Name: name}, newObject(clusterGVK))
			return err == nil, client.IgnoreNotFound(err)
		})
		return nil, no, err
	}
	before, err := decode(in.OldObject.Raw)
	if err != nil {
		return nil, nil, err
	}
	return nil, checkProvisioningUpdate(before, after), nil
}

// stampCreator writes the requesting user into a new v1 Cluster that does not ask for none.
func (w *webhook) stampCreator(_ context.Context, in *admissionv1.AdmissionRequest) ([]byte, *denial, error) {
	prov, err := decode(in.Object.Raw)
	if err != nil {
		return nil, nil, err
	}
	annotations := prov.GetAnnotations()
	if _, ok := annotations[annotationNoCreatorRBAC]; ok {
		return nil, nil, nil
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotationCreatorID] = in.UserInfo.Username
	patch, err := json.Marshal([]map[string]any{{"op": "add", "path": "/metadata/annotations", "value": annotations}})
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the creator: %w", err)
	}
	return patch, nil, nil
}
