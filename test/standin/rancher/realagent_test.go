package rancher_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/standin/agent"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

// startReal runs a stand-in for which the agent in the workload cluster is a program of its own.
func startReal(ctx context.Context, changes ...func(*rancher.Options)) *rancher.Standin {
	GinkgoHelper()
	s := startGeneration(ctx, generations()[0], changes...)
	Expect(s.AddWorkload("downstream", workloadPlane.Config, rancher.RealAgent)).To(Succeed())
	return s
}

// pod is an agent that runs as the Pod of a Deployment would.
type pod struct {
	log   *gbytes.Buffer
	stop  func()
	ended chan struct{}
}

// identityOf returns the access of a ServiceAccount of the workload cluster, as a Pod has it.
func identityOf(ctx context.Context, namespace, name string) *rest.Config {
	GinkgoHelper()
	request := &authenticationv1.TokenRequest{}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	Expect(workload.SubResource("token").Create(ctx, account, request)).To(Succeed())
	return &rest.Config{
		Host: workloadPlane.Config.Host, BearerToken: request.Status.Token,
		TLSClientConfig: rest.TLSClientConfig{CAData: workloadPlane.Config.CAData},
	}
}

// mount writes a Secret of namespace cattle-system into a directory, as a kubelet does.
func mount(ctx context.Context, name string) string {
	GinkgoHelper()
	secret := &corev1.Secret{}
	Expect(workload.Get(ctx, client.ObjectKey{Namespace: "cattle-system", Name: name}, secret)).To(Succeed())
	directory := GinkgoT().TempDir()
	for key, value := range secret.Data {
		Expect(os.WriteFile(filepath.Join(directory, key), value, 0o500)).To(Succeed())
	}
	return directory
}

// run starts the agent with what the Deployment in the workload cluster says at the moment.
func run(ctx context.Context, changes ...func(*agent.Options)) *pod {
	GinkgoHelper()
	deployment := clusterAgent()
	Expect(workload.Get(ctx, client.ObjectKeyFromObject(deployment), deployment)).To(Succeed())
	env := map[string]string{}
	for _, e := range deployment.Spec.Template.Spec.Containers[0].Env {
		env[e.Name] = e.Value
	}
	opts, err := agent.FromEnvironment(func(name string) string { return env[name] })
	Expect(err).NotTo(HaveOccurred())
	opts.Credentials = mount(ctx, deployment.Spec.Template.Spec.Volumes[0].Secret.SecretName)
	opts.Config = identityOf(ctx, "cattle-system", deployment.Spec.Template.Spec.ServiceAccountName)
	opts.FirstRetry, opts.LastRetry = 20*time.Millisecond, 100*time.Millisecond
	for _, change := range changes {
		change(&opts)
	}
	return launch(opts)
}

func launch(opts agent.Options) *pod {
	p := &pod{log: gbytes.NewBuffer(), ended: make(chan struct{})}
	opts.Logger = slog.New(slog.NewTextHandler(io.MultiWriter(p.log, GinkgoWriter), nil))
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer GinkgoRecover()
		defer close(p.ended)
		Expect(agent.Run(ctx, opts)).To(Succeed())
	}()
	p.stop = sync.OnceFunc(func() {
		cancel()
		Eventually(p.ended).Should(BeClosed())
	})
	DeferCleanup(p.stop)
	return p
}

func connectedTo(s *rancher.Standin, cluster string) func() bool {
	return func() bool { _, ok := s.Connected(cluster); return ok }
}

// joinReal has a real agent connect for a new v3 Cluster: a first Pod registers, Rancher applies the agent, and the
// second Pod is returned.
func joinReal(ctx context.Context, s *rancher.Standin, name string) *pod {
	GinkgoHelper()
	newCluster(ctx, name)
	apply(ctx, download(ctx, s, name), nil)
	first := run(ctx)
	p := rollReal(ctx, s, name, 1)
	first.stop()
	Eventually(clusterConditions(name)).WithContext(ctx).Should(And(
		HaveKeyWithValue("Connected", "True"),
		HaveKeyWithValue("Ready", "True"),
		HaveKeyWithValue("AgentDeployed", "True"),
	))
	return p
}

// rollReal waits until Rancher has applied the agent, and has the new Pod connect.
func rollReal(ctx context.Context, s *rancher.Standin, name string, applied int) *pod {
	GinkgoHelper()
	Eventually(func() int { return s.Reapplies(name) }).Should(Equal(applied))
	p := run(ctx)
	Eventually(connectedTo(s, name)).Should(BeTrue())
	return p
}
