// Package fleet_test shows the provider of CAPI Clusters against real kube-apiservers, together with
// multicluster-runtime. Specs are named after the chapters of its documentation.
package fleet_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/archelon-io/archelon/test/env"
	_ "github.com/archelon-io/archelon/test/report" // times and failures of the specs
)

func TestFleet(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(2 * time.Minute)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	SetDefaultConsistentlyDuration(time.Second)
	RunSpecs(t, "Cluster API provider")
}

// The management cluster is a workload cluster of others as well: two API servers are enough for all.
var (
	management, workload           *env.ControlPlane
	managementAdmin, workloadAdmin client.Client
	scheme                         = runtime.NewScheme()
)

var _ = BeforeSuite(func(ctx context.Context) {
	ctrl.SetLogger(zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true)))
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	Expect(clusterv1.AddToScheme(scheme)).To(Succeed())
	crds, err := env.CAPICRDs()
	Expect(err).NotTo(HaveOccurred())
	management, err = env.Start(ctx, env.Options{Name: "management", CRDs: crds})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(management.Stop()).To(Succeed()) })
	workload, err = env.Start(ctx, env.Options{Name: "workload"})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(workload.Stop()).To(Succeed()) })
	managementAdmin, err = client.New(management.Config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	workloadAdmin, err = client.New(workload.Config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(10*time.Minute))
