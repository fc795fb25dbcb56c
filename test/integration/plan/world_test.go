package plan_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	"github.com/spf13/pflag"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/plan"
	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/internal/setup"
	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/helm"
	rancherstandin "github.com/archelon-io/archelon/test/standin/rancher"
)

// Who asks, by the audit log.
const (
	planner = "planner"
	manager = "manager"
)

// world is a management cluster in which Rancher does nothing.
type world struct {
	plane  *env.ControlPlane
	client client.Client
	users  map[string]*rest.Config
}

func newWorld(ctx context.Context, name string) *world {
	GinkgoHelper()
	crds, err := env.CAPICRDs()
	Expect(err).NotTo(HaveOccurred())
	ranchers, err := rancherstandin.CRDs(true)
	Expect(err).NotTo(HaveOccurred())
	w := &world{users: map[string]*rest.Config{}}
	w.plane, err = env.Start(ctx, env.Options{Name: name, CRDs: append(crds, ranchers...), Audit: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(w.plane.Stop()).To(Succeed()) })
	known, err := scheme.New()
	Expect(err).NotTo(HaveOccurred())
	w.client, err = client.New(w.plane.Config, client.Options{Scheme: known})
	Expect(err).NotTo(HaveOccurred())
	for _, user := range []string{planner, manager} {
		w.users[user], err = w.plane.User(user)
		Expect(err).NotTo(HaveOccurred())
	}
	w.create(ctx, bound(manager, "cluster-admin"), bound(planner, w.role(ctx)))
	return w
}

// role creates the role of the chart for plans, and returns its name.
func (w *world) role(ctx context.Context) string {
	GinkgoHelper()
	h, err := helm.New(nil)
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(h.Close()).To(Succeed()) }()
	objects, err := h.Template(ctx, helm.Release{
		Name: "archelon", Namespace: "archelon-system", Chart: filepath.Join("..", "..", "..", "charts", "archelon"),
		Values: map[string]any{"planRole": true}, Args: []string{"--kube-version=v1.36.3", "--no-hooks"},
	})
	Expect(err).NotTo(HaveOccurred())
	for i := range objects {
		if objects[i].GetKind() == "ClusterRole" && strings.HasSuffix(objects[i].GetName(), "-plan") {
			w.create(ctx, &objects[i])
			return objects[i].GetName()
		}
	}
	Fail("the chart has no role for plans")
	return ""
}

func bound(user, role string) client.Object {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "test-" + user}, Subjects: []rbacv1.Subject{{Kind: "User", Name: user}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}
}

func (w *world) create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, object := range objects {
		Expect(w.client.Create(ctx, object)).To(Succeed())
	}
}

// plan runs the command as the planner.
func (w *world) plan(ctx context.Context, args ...string) (string, error) {
	GinkgoHelper()
	kubeconfig := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	raw, err := w.plane.KubeconfigFor(w.users[planner])
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(kubeconfig, raw, 0o600)).To(Succeed())
	cmd, out := plan.Command(), &bytes.Buffer{}
	cmd.SetArgs(append([]string{"--kubeconfig=" + kubeconfig}, args...))
	cmd.SetOut(out)
	cmd.SetErr(GinkgoWriter)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err = cmd.ExecuteContext(ctx)
	GinkgoWriter.Println(out.String())
	return out.String(), err
}

// plans are the plans of clusters by their names.
func (w *world) plans(ctx context.Context, args ...string) map[string]plan.Cluster {
	GinkgoHelper()
	out, err := w.plan(ctx, append(args, "--output=json")...)
	if !errors.Is(err, plan.ErrChanges) {
		Expect(err).NotTo(HaveOccurred())
	}
	var document struct {
		Kind  string
		Items []plan.Cluster
	}
	Expect(json.Unmarshal([]byte(out), &document)).To(Succeed())
	Expect(document.Kind).To(Equal("ClusterPlanList"))
	found := map[string]plan.Cluster{}
	for _, cluster := range document.Items {
		found[cluster.Namespace+"/"+cluster.Name] = cluster
	}
	return found
}

// manage runs a manager until the node ends.
func (w *world) manage(ctx context.Context, args ...string) {
	GinkgoHelper()
	opts, err := options.New()
	Expect(err).NotTo(HaveOccurred())
	flags := pflag.NewFlagSet("archelon", pflag.ContinueOnError)
	opts.AddFlags(flags)
	Expect(flags.Parse(append(slices.Clone(args), "--metrics-bind-address=0", "--health-probe-bind-address=0"))).To(Succeed())
	opts.Complete()
	Expect(opts.Validate()).To(Succeed())
	metrics.Registry = prometheus.NewRegistry() // Each manager registers the same.
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() {
		done <- setup.Run(ctx, w.users[manager], opts, func(o *ctrl.Options) { o.Controller.SkipNameValidation = new(true) })
	}()
	DeferCleanup(func() {
		stop()
		Eventually(done).Should(Receive(BeNil()))
	})
}

// requests are those of a user, oldest first.
func (w *world) requests(user string) []auditv1.Event {
	GinkgoHelper()
	events, err := w.plane.AuditEvents()
	Expect(err).NotTo(HaveOccurred())
	return slices.DeleteFunc(events, func(e auditv1.Event) bool { return e.User.Username != user })
}

// change has a change in one line. New names are drawn.
func change(verb, resource, namespace, name string, created map[string]bool) string {
	if strings.HasPrefix(name, "c-NEW") || created[name] {
		name = "c-?"
	}
	return strings.TrimPrefix(fmt.Sprintf("%s %s %s/%s", verb, resource, namespace, name), " ")
}

// planned are the changes of plans.
func planned(plans map[string]plan.Cluster) map[string][]string {
	all := map[string][]string{}
	for key, cluster := range plans {
		for _, c := range cluster.Changes {
			all[key] = append(all[key], change(c.Verb, c.Resource, c.Namespace, c.Name, nil))
		}
	}
	return all
}

// records says for which clusters Rancher clusters were created.
func (w *world) records(ctx context.Context) map[string]string {
	GinkgoHelper()
	owners := map[string]string{}
	v1, v3 := &provisioningv1.ClusterList{}, &managementv3.ClusterList{}
	Expect(w.client.List(ctx, v1)).To(Succeed())
	Expect(w.client.List(ctx, v3)).To(Succeed())
	for i := range v1.Items {
		owners["v1/"+v1.Items[i].Namespace+"/"+v1.Items[i].Name] = ownerOf(&v1.Items[i])
	}
	for i := range v3.Items {
		owners["v3//"+v3.Items[i].Name] = ownerOf(&v3.Items[i])
	}
	return owners
}

func ownerOf(record client.Object) string {
	return record.GetLabels()["cluster-api.cattle.io/capi-cluster-owner-ns"] + "/" + record.GetLabels()["cluster-api.cattle.io/capi-cluster-owner"]
}

// written are the changes that the manager has sent, by the clusters that they are about. Before it there were Rancher
// clusters for some. A write that met a conflict has changed nothing.
func (w *world) written(ctx context.Context, before map[string]string) map[string][]string {
	GinkgoHelper()
	owners, created := w.records(ctx), map[string]bool{}
	for id := range owners {
		name, v3 := strings.CutPrefix(id, "v3//")
		if _, known := before[id]; v3 && !known {
			created[name] = true
		}
	}
	maps.Copy(owners, before) // The labels may be gone.
	all := map[string][]string{}
	for _, request := range w.requests(manager) {
		ref := request.ObjectRef
		if ref == nil || !slices.Contains([]string{"create", "patch", "update", "delete"}, request.Verb) || ref.Resource != "clusters" {
			continue
		}
		resource, owner := ref.Resource+"."+ref.APIGroup, ref.Namespace+"/"+ref.Name
		switch ref.APIGroup {
		case "provisioning.cattle.io":
			owner = owners["v1/"+ref.Namespace+"/"+ref.Name]
		case "management.cattle.io":
			owner = owners["v3//"+ref.Name]
		}
		if ref.Subresource != "" {
			resource += "/" + ref.Subresource
		}
		if request.ResponseStatus.Code == http.StatusConflict {
			continue
		}
		Expect(request.ResponseStatus.Code).To(BeNumerically("<", 400), request.RequestURI)
		all[owner] = append(all[owner], change(request.Verb, resource, ref.Namespace, ref.Name, created))
	}
	return all
}

// differences are the clusters for which the manager has not written what was planned, in that order.
func (w *world) differences(ctx context.Context, said map[string][]string, before map[string]string) []string {
	GinkgoHelper()
	written := w.written(ctx, before)
	found := []string{}
	for key := range union(said, written) {
		if want, got := once(said[key]), once(written[key]); !slices.Equal(want, got) {
			found = append(found, fmt.Sprintf("%s: planned %q, written %q", key, want, got))
		}
	}
	slices.Sort(found)
	return found
}

func union(a, b map[string][]string) map[string][]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// once leaves of equal changes the first: the run after a conflict or with a late cache asks for the same again, which
// changes nothing. A status comes last, for a slow import tells of its steps on the way too.
func once(changes []string) []string {
	var left, statuses []string
	for _, c := range changes {
		switch {
		case slices.Contains(left, c) || slices.Contains(statuses, c):
		case strings.Contains(c, "/status "):
			statuses = append(statuses, c)
		default:
			left = append(left, c)
		}
	}
	return append(left, statuses...)
}

// scenarioTime is what one spec may take.
const scenarioTime = 10 * time.Minute
