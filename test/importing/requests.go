package importing

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Requests returns the audited requests of the manager to the management cluster.
func (f *Fixture) Requests() []auditv1.Event {
	GinkgoHelper()
	events, err := f.Management.AuditEvents()
	Expect(err).NotTo(HaveOccurred())
	return slices.DeleteFunc(events, func(e auditv1.Event) bool { return e.User.Username != User })
}

// RequestsFor returns the audited requests of the manager to the namespace of a CAPI cluster.
func (f *Fixture) RequestsFor(cluster *clusterv1.Cluster) []auditv1.Event {
	GinkgoHelper()
	return slices.DeleteFunc(PerObject(f.Requests()), func(e auditv1.Event) bool { return e.ObjectRef.Namespace != cluster.Namespace })
}

// PerObject drops what is not caused by a single import: watches, the lists before them, discovery and probes.
func PerObject(events []auditv1.Event) []auditv1.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e auditv1.Event) bool {
		return e.Verb == "watch" || e.Verb == "list" || e.ObjectRef == nil || e.ObjectRef.Resource == "leases"
	})
}

// Listing has a line for each request.
func Listing(events []auditv1.Event) string {
	var lines []string
	for _, e := range events {
		lines = append(lines, fmt.Sprintf("%s %s %d", e.Verb, e.RequestURI, e.ResponseStatus.Code))
	}
	return strings.Join(lines, "\n")
}

// ExpectLawful asserts on the audit log: the roles of config/rbac grant what the manager asks for.
func (f *Fixture) ExpectLawful() {
	GinkgoHelper()
	requests := f.Requests()
	Expect(requests).NotTo(BeEmpty())
	for _, request := range requests {
		Expect(request.ResponseStatus.Code).NotTo(BeEquivalentTo(403), "%s %s", request.Verb, request.RequestURI)
	}
}

// Loud has the manager log all that it can, for ExpectNoSecrets. The others need no such log, which takes time.
const Loud = "-v=10"

// ExpectNoSecrets asserts that no token and no key that exists in the management or the workload cluster shows in what
// the manager logged. Deleted clusters take their tokens along, so call it while some are left.
func (f *Fixture) ExpectNoSecrets() {
	GinkgoHelper()
	ctx := context.Background()
	secrets := &corev1.SecretList{}
	Expect(f.Client.List(ctx, secrets)).To(Succeed())
	logs := f.Manager.Logs()
	for _, secret := range secrets.Items {
		for key, value := range secret.Data {
			if text := strings.TrimSpace(string(value)); len(text) >= 20 {
				Expect(logs).NotTo(ContainSubstring(text), "%s of Secret %s/%s", key, secret.Namespace, secret.Name)
			}
		}
	}
	Expect(logs).NotTo(MatchRegexp(`/v3/import/[bcdfghjklmnpqrstvwxz2-9]{54}_`), "a URL with a registration token")
}
