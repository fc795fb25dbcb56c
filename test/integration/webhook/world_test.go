package webhook_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/stage"
)

const (
	secretName = "archelon-webhook"
	configName = "archelon-validating"
	path       = "/validate-cluster-x-k8s-io-v1beta2-cluster"
	tenant     = "tenant"

	// serviceName is a name that the certificate has and that leads here: API servers verify the host of the URL that they call.
	serviceName = "localhost"
)

// world is a management cluster and the replicas of one instance. Rancher is not there: the webhook does not wait for it.
type world struct {
	stage    *stage.Stage
	admin    client.Client
	warnings *warnings
	replicas []*replica
}

// replica is one manager, with a ServiceAccount of its own, so that the audit log tells it from the other.
type replica struct {
	account, address string
	manager          *stage.Manager
}

func (r *replica) user() string {
	return "system:serviceaccount:" + stage.SystemNamespace + ":" + r.account
}

// warnings collects what the API server warns of.
type warnings struct {
	mu   sync.Mutex
	seen []string
}

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, text)
}

func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.seen = nil }()
	return w.seen
}

func newWorld(ctx context.Context) *world {
	GinkgoHelper()
	crds, err := env.CAPICRDs()
	Expect(err).NotTo(HaveOccurred())
	plane, err := env.Start(ctx, env.Options{Name: "webhook", CRDs: crds, Audit: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
	known, err := scheme.New()
	Expect(err).NotTo(HaveOccurred())
	w := &world{warnings: &warnings{}}
	config := rest.CopyConfig(plane.Config)
	config.QPS, config.WarningHandler = -1, w.warnings
	w.admin, err = client.New(config, client.Options{Scheme: known})
	Expect(err).NotTo(HaveOccurred())
	w.stage = &stage.Stage{Management: plane, Client: w.admin}
	Expect(w.stage.Prepare(ctx)).To(Succeed())
	Expect(w.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}})).To(Succeed())
	return w
}

// grant creates the ServiceAccounts of two replicas, with the rights of config/rbac and those that the package comment of internal/webhook lists.
func (w *world) grant(ctx context.Context) {
	GinkgoHelper()
	var subjects []rbacv1.Subject
	for _, r := range w.replicas {
		Expect(w.admin.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: stage.SystemNamespace, Name: r.account}})).To(Succeed())
		subjects = append(subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: stage.SystemNamespace, Name: r.account})
	}
	ref := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	}
	for _, object := range []client.Object{
		&rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Namespace: stage.SystemNamespace, Name: "webhook"},
			Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{secretName},
				Verbs: []string{"get", "list", "watch", "patch", "create"},
			}},
		},
		&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "webhook"},
			Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"validatingwebhookconfigurations"}, ResourceNames: []string{configName},
				Verbs: []string{"get", "list", "watch", "patch"},
			}},
		},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: stage.SystemNamespace, Name: "webhook"}, RoleRef: ref("Role", "webhook"), Subjects: subjects},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "webhook"}, RoleRef: ref("ClusterRole", "webhook"), Subjects: subjects},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: stage.SystemNamespace, Name: "lease"}, RoleRef: ref("Role", "archelon.manager"), Subjects: subjects},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "manager"}, RoleRef: ref("ClusterRole", "archelon-manager"), Subjects: subjects},
	} {
		Expect(w.admin.Create(ctx, object)).To(Succeed())
	}
}

// start starts a replica, by flags alone.
func (w *world) start(ctx context.Context, binary string, r *replica) {
	GinkgoHelper()
	config, err := w.stage.Management.ServiceAccountConfig(ctx, stage.SystemNamespace, r.account)
	Expect(err).NotTo(HaveOccurred())
	w.stage.Through = func(*rest.Config) *rest.Config { return config }
	r.manager, err = w.stage.StartManager(ctx, binary, GinkgoWriter, "--leader-elect", "--leader-elect-namespace="+stage.SystemNamespace,
		"--webhook-bind-address="+r.address, "--webhook-secret="+secretName, "--webhook-service="+serviceName, "--webhook-configuration="+configName)
	Expect(err).NotTo(HaveOccurred())
}

// stop ends the replicas that run.
func (w *world) stop() {
	for _, r := range w.replicas {
		if r.manager != nil {
			r.manager.Kill()
		}
	}
}

// configuration returns a configuration as the chart would make it, but for the URLs: one webhook for each replica, so that each request is sent to
// both. A broken one refuses everything.
func (w *world) configuration() *admissionregistrationv1.ValidatingWebhookConfiguration {
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: configName}}
	for _, r := range w.replicas {
		_, port, err := net.SplitHostPort(r.address)
		Expect(err).NotTo(HaveOccurred())
		configuration.Webhooks = append(configuration.Webhooks, admissionregistrationv1.ValidatingWebhook{
			Name: r.account + ".clusters.archelon.io",
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"cluster.x-k8s.io"}, APIVersions: []string{"v1beta2"}, Resources: []string{"clusters"}},
			}},
			MatchPolicy:             new(admissionregistrationv1.Equivalent),
			FailurePolicy:           new(admissionregistrationv1.Fail),
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds:          new(int32(5)),
			AdmissionReviewVersions: []string{"v1"},
			MatchConditions:         conditionsOfChart(),
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: new("https://" + net.JoinHostPort(serviceName, port) + path)},
		})
	}
	return configuration
}

func (w *world) bundles(ctx context.Context) ([][]byte, error) {
	live := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := w.admin.Get(ctx, client.ObjectKey{Name: configName}, live); err != nil {
		return nil, err
	}
	var bundles [][]byte
	for i := range live.Webhooks {
		bundles = append(bundles, live.Webhooks[i].ClientConfig.CABundle)
	}
	return bundles, nil
}

func (w *world) secret(ctx context.Context) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	return secret, w.admin.Get(ctx, client.ObjectKey{Namespace: stage.SystemNamespace, Name: secretName}, secret)
}

// settled reports why not everything fits: what the Secret holds, what each replica serves, and what each webhook trusts.
func (w *world) settled(ctx context.Context) error {
	secret, err := w.secret(ctx)
	if err != nil {
		return err
	}
	bundles, err := w.bundles(ctx)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
	if err != nil {
		return errors.New("the Secret holds no pair")
	}
	for _, bundle := range bundles {
		if len(bundle) == 0 || !bytes.Equal(bundle, secret.Data["ca.crt"]) {
			return errors.New("a webhook trusts another CA than the Secret has")
		}
	}
	for _, r := range w.replicas {
		served, err := r.served(ctx, secret.Data["ca.crt"])
		if err != nil {
			return err
		}
		if !served.Equal(pair.Leaf) {
			return fmt.Errorf("%s serves another certificate", r.account)
		}
	}
	return nil
}

// served returns the certificate that a replica serves, if somebody who trusts the CAs accepts it.
func (r *replica) served(ctx context.Context, authorities []byte) (*x509.Certificate, error) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authorities)
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: pool, ServerName: serviceName + "." + stage.SystemNamespace + ".svc"}}
	connection, err := dialer.DialContext(ctx, "tcp", r.address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = connection.Close() }()
	encrypted, ok := connection.(*tls.Conn)
	if !ok {
		return nil, errors.New("the connection is not encrypted")
	}
	return encrypted.ConnectionState().PeerCertificates[0], nil
}

// ready returns the answer of the readiness check for the webhook alone: the others wait for Rancher's CRDs.
func (r *replica) ready(ctx context.Context) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.manager.Health+"/readyz/webhook", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// leader returns the replica that was the last to write the Lease, nil if there is none.
func (w *world) leader() *replica {
	GinkgoHelper()
	var last *replica
	for _, event := range w.audit() {
		if event.ObjectRef == nil || event.ObjectRef.Resource != "leases" || !slices.Contains([]string{"create", "update"}, event.Verb) || event.ResponseStatus.Code > 299 {
			continue
		}
		for _, r := range w.replicas {
			if event.User.Username == r.user() {
				last = r
			}
		}
	}
	return last
}

func (w *world) audit() []auditv1.Event {
	GinkgoHelper()
	events, err := w.stage.Management.AuditEvents()
	Expect(err).NotTo(HaveOccurred())
	return events
}

// writes returns who has written the two objects so far, without the administrator.
func (w *world) writes() []string {
	GinkgoHelper()
	var users []string
	for _, event := range w.audit() {
		if event.ObjectRef == nil || !slices.Contains([]string{"secrets", "validatingwebhookconfigurations"}, event.ObjectRef.Resource) ||
			!slices.Contains([]string{"create", "update", "patch", "delete"}, event.Verb) || !strings.HasPrefix(event.User.Username, "system:serviceaccount:") {
			continue
		}
		users = append(users, event.User.Username)
	}
	return users
}

// calls returns how often the API server has called the webhooks.
func (w *world) calls(ctx context.Context) int {
	GinkgoHelper()
	clients, err := kubernetes.NewForConfig(w.stage.Management.Config)
	Expect(err).NotTo(HaveOccurred())
	body, err := clients.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	Expect(err).NotTo(HaveOccurred())
	total := 0
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, "apiserver_admission_webhook_request_total{") && strings.Contains(line, "archelon.io") {
			var count float64
			_, err := fmt.Sscan(line[strings.LastIndex(line, " ")+1:], &count)
			Expect(err).NotTo(HaveOccurred())
			total += int(count)
		}
	}
	return total
}

func annotated(cluster *clusterv1.Cluster, key, value string) *clusterv1.Cluster {
	if cluster.Annotations == nil {
		cluster.Annotations = map[string]string{}
	}
	cluster.Annotations[key] = value
	return cluster
}

func labelled(cluster *clusterv1.Cluster, value string) *clusterv1.Cluster {
	cluster.Labels = map[string]string{"cluster-api.cattle.io/rancher-auto-import": value}
	return cluster
}

// build builds the manager.
func build(ctx context.Context) string {
	GinkgoHelper()
	dir, err := os.MkdirTemp("", "archelon-webhook-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, dir)
	binary, err := stage.BuildManager(ctx, dir, true)
	Expect(err).NotTo(HaveOccurred())
	return binary
}

// freeAddress returns an address that nothing listened on a moment ago.
func freeAddress(ctx context.Context) string {
	GinkgoHelper()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}
