package env_test

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/env"
)

const (
	timeout  = 2 * time.Minute
	interval = 100 * time.Millisecond
)

var _ = Describe("a control plane whose port somebody else has taken", func() {
	It("starts at another one", func(ctx SpecContext) {
		programs, err := env.Assets()
		Expect(err).NotTo(HaveOccurred())
		dir := GinkgoT().TempDir()
		for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kubectl"} {
			Expect(os.Symlink(filepath.Join(programs, name), filepath.Join(dir, name))).To(Succeed())
		}
		// It takes the first port that it is to listen on for one that is taken.
		Expect(os.WriteFile(filepath.Join(dir, "etcd"), []byte(`#!/bin/sh
for arg; do case "$arg" in --listen-client-urls=*) url="${arg#*=}" ;; esac; done
[ -n "$url" ] || exec '`+programs+`/etcd' "$@" # envtest asks for help
taken='`+dir+`/taken'
[ -e "$taken" ] || echo "$url" > "$taken"
[ "$url" != "$(cat "$taken")" ] || exit 1
exec '`+programs+`/etcd' "$@"
`), 0o700)).To(Succeed())
		GinkgoT().Setenv("KUBEBUILDER_ASSETS", dir)

		plane := start(ctx, env.Options{Name: "taken"})
		Expect(filepath.Join(dir, "taken")).To(BeARegularFile())
		create(ctx, plane, namespace("here"))
	})
})

var _ = Describe("two control planes side by side", Ordered, func() {
	var management, workload *env.ControlPlane

	BeforeAll(func(ctx SpecContext) {
		crds, err := env.CAPICRDs()
		Expect(err).NotTo(HaveOccurred())
		management = start(ctx, env.Options{Name: "management", CRDs: crds, ControllerManager: true, Audit: true})
		workload = start(ctx, env.Options{Name: "workload"})
	})

	It("keeps them apart", func(ctx SpecContext) {
		Expect(management.Config.Host).NotTo(Equal(workload.Config.Host))
		create(ctx, management, namespace("only-here"))

		err := connect(workload.Config).Get(ctx, client.ObjectKey{Name: "only-here"}, &corev1.Namespace{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "got: %v", err)
	})

	It("serves the CRDs that it was given", func(ctx SpecContext) {
		Expect(connect(management.Config).List(ctx, &clusterv1.ClusterList{})).To(Succeed())
	})

	It("holds a ServiceAccount to its rights and logs the refusal", func(ctx SpecContext) {
		create(ctx, management, namespace("tenant"))
		create(ctx, management, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "nobody"}})
		cfg, err := management.ServiceAccountConfig(ctx, "tenant", "nobody")
		Expect(err).NotTo(HaveOccurred())

		err = connect(cfg).List(ctx, &corev1.SecretList{}, client.InNamespace("tenant"))
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "got: %v", err)

		events, err := management.AuditEvents()
		Expect(err).NotTo(HaveOccurred())
		refused := 0
		for _, event := range events {
			if event.User.Username == "system:serviceaccount:tenant:nobody" && event.Verb == "list" &&
				event.ObjectRef.Resource == "secrets" && event.ResponseStatus.Code == http.StatusForbidden {
				refused++
			}
		}
		Expect(refused).To(Equal(1))
	})

	It("knows a user by the groups of its certificate", func(ctx SpecContext) {
		stranger, err := management.User("stranger", "tenants")
		Expect(err).NotTo(HaveOccurred())
		err = connect(stranger).List(ctx, &corev1.NamespaceList{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "got: %v", err)

		master, err := management.User("master", "system:masters")
		Expect(err).NotTo(HaveOccurred())
		Expect(connect(master).List(ctx, &corev1.NamespaceList{})).To(Succeed())
	})

	It("writes kubeconfigs of inline data that work", func(ctx SpecContext) {
		raw, err := workload.Kubeconfig()
		Expect(err).NotTo(HaveOccurred())
		cfg, err := clientcmd.RESTConfigFromKubeConfig(raw)
		Expect(err).NotTo(HaveOccurred())
		Expect(connect(cfg).List(ctx, &corev1.NamespaceList{})).To(Succeed())

		_, err = workload.KubeconfigFor(&rest.Config{Host: cfg.Host, BearerTokenFile: "token"})
		Expect(err).To(HaveOccurred())
	})

	It("deletes namespaces and collects garbage", func(ctx SpecContext) {
		c := connect(management.Config)
		create(ctx, management, namespace("goes"))
		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "owner"}}
		create(ctx, management, owner)
		owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "owned",
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID},
			},
		}}
		create(ctx, management, owned)

		Expect(c.Delete(ctx, namespace("goes"))).To(Succeed())
		Expect(c.Delete(ctx, owner)).To(Succeed())
		for _, obj := range []client.Object{namespace("goes"), owned} {
			Eventually(func() bool {
				return apierrors.IsNotFound(c.Get(ctx, client.ObjectKeyFromObject(obj), obj))
			}, timeout, interval).Should(BeTrue(), "%s is still there", obj.GetName())
		}
	})

	It("answers nothing while it is suspended", func(ctx SpecContext) {
		c := connect(workload.Config)
		list := func(ctx context.Context) error { return c.List(ctx, &corev1.NamespaceList{}) }
		Expect(list(ctx)).To(Succeed())

		Expect(workload.Suspend()).To(Succeed())
		impatient, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		Expect(list(impatient)).To(MatchError(context.DeadlineExceeded))

		Expect(workload.Resume()).To(Succeed())
		Expect(list(ctx)).To(Succeed())
	})

	It("has no audit log unless asked", func() {
		_, err := workload.AuditEvents()
		Expect(err).To(HaveOccurred())
	})
})

var _ = Describe("the end of a control plane", func() {
	It("leaves neither programs nor files, even when it is suspended", func(ctx SpecContext) {
		var logs strings.Builder
		c, err := env.Start(ctx, env.Options{Name: "ends", ControllerManager: true, Out: &logs})
		Expect(err).NotTo(HaveOccurred())
		Expect(running(ctx, "archelon-ends-")).NotTo(BeEmpty())

		Expect(c.Suspend()).To(Succeed())
		Expect(c.Stop()).To(Succeed())
		Expect(c.Stop()).To(Succeed(), "a second time")
		Expect(logs.String()).NotTo(BeEmpty())
		Expect(running(ctx, "archelon-ends-")).To(BeEmpty())
		Expect(filepath.Glob(filepath.Join(os.TempDir(), "archelon-ends-*"))).To(BeEmpty())
	})

	It("comes when its context is canceled during the start", func(ctx SpecContext) {
		canceled, cancel := context.WithCancel(ctx)
		cancel()
		_, err := env.Start(canceled, env.Options{Name: "canceled"})
		Expect(err).To(MatchError(context.Canceled))
		Expect(running(ctx, "archelon-canceled-")).To(BeEmpty())
	})
})

func start(ctx context.Context, opts env.Options) *env.ControlPlane {
	GinkgoHelper()
	c, err := env.Start(ctx, opts)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(c.Stop)
	return c
}

func connect(cfg *rest.Config) client.Client {
	GinkgoHelper()
	types := runtime.NewScheme()
	Expect(scheme.AddToScheme(types)).To(Succeed())
	Expect(clusterv1.AddToScheme(types)).To(Succeed())
	c, err := client.New(cfg, client.Options{Scheme: types})
	Expect(err).NotTo(HaveOccurred())
	return c
}

func create(ctx context.Context, c *env.ControlPlane, obj client.Object) {
	GinkgoHelper()
	Expect(connect(c.Config).Create(ctx, obj)).To(Succeed())
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// running returns the command lines of processes that mention marker.
func running(ctx context.Context, marker string) []string {
	GinkgoHelper()
	out, err := exec.CommandContext(ctx, "ps", "-A", "-o", "args=").Output()
	Expect(err).NotTo(HaveOccurred())
	var found []string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, marker) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}
