package hub

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/archelon-io/archelon/internal/workload"
)

// Seen is what a person sees of a registered management cluster who looks once. It is judged as the hub judges it.
type Seen struct {
	// Target has the UID on the Secret, or without one that of who answered. Its Config is nil where nobody may connect.
	Target
	// HTTP is for clients of the Config. It follows no redirect.
	HTTP *http.Client
	// Pinned: the Secret carries the UID. The hub writes it there when it connects for the first time.
	Pinned bool
	// Answers: the API server has said who it is.
	Answers bool
	// Reason and Message are what the hub has to say of it; EngagedReason where nothing stands in the way of the import.
	Reason, Message string
	// Said is what the hub has said last.
	Said Said
}

// Said is the last Event of the hub about a registration. It is zero if there is none: an API
// server keeps them for an hour.
type Said struct {
	Reason, Message string
	At              time.Time
}

// Works reports whether nothing stands in the way of the import.
func (s *Seen) Works() bool { return s.Reason == EngagedReason }

// Look is Ask, and says what the hub has said last. Who may not list Events learns nothing of that.
func Look(ctx context.Context, rancher kubernetes.Interface, namespace string, limit time.Duration) ([]Seen, error) {
	seen, err := Ask(ctx, rancher, namespace, limit)
	if err != nil {
		return nil, err
	}
	said := saidIn(ctx, rancher, namespace)
	for i := range seen {
		seen[i].Said = said[seen[i].Name]
	}
	return seen, nil
}

// Ask looks at all management clusters that are registered in a namespace of Rancher's cluster, in the order of their
// names. It asks all of them who they are at the same time, and none for longer than the limit.
func Ask(ctx context.Context, rancher kubernetes.Interface, namespace string, limit time.Duration) ([]Seen, error) {
	secrets, err := rancher.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{LabelSelector: Selector().String()})
	if err != nil {
		return nil, fmt.Errorf("listing the Secrets that register management clusters: %w", err)
	}
	own, err := whoIs(ctx, rancher)
	if err != nil {
		return nil, fmt.Errorf("reading the UID of Rancher's cluster: %w", err)
	}
	seen, observed := make([]Seen, len(secrets.Items)), make([]observation, len(secrets.Items))
	var asked sync.WaitGroup
	for i := range secrets.Items {
		asked.Go(func() { seen[i], observed[i] = lookAt(ctx, &secrets.Items[i], limit) })
	}
	asked.Wait()
	var all []registration
	for _, one := range observed {
		if one.uid == "" { // The hub would have written it there.
			one.uid = one.seen
		}
		all = append(all, one.registration)
	}
	for i := range seen {
		observed[i].own, observed[i].others = own, all
		seen[i].judge(observed[i])
	}
	slices.SortFunc(seen, func(a, b Seen) int { return strings.Compare(a.Name, b.Name) })
	return seen, nil
}

// lookAt asks a management cluster who it is.
func lookAt(ctx context.Context, secret *corev1.Secret, limit time.Duration) (Seen, observation) {
	kubeconfig := secret.Data[KubeconfigKey]
	if _, err := Reduce(secret); err != nil {
		return Seen{}, observation{}
	}
	o := observation{registration: registrationOf(secret), synced: true}
	s := Seen{Target: Target{Name: o.name, Display: o.display, UID: o.uid}, Pinned: o.uid != ""}
	if o.refused != "" {
		return s, o
	}
	if o.lost = s.connect(kubeconfig); o.lost == nil {
		asking, done := context.WithTimeout(ctx, limit)
		defer done()
		if o.seen, o.lost = s.ask(asking); asking.Err() != nil && o.seen == "" {
			o.lost = errNoAnswer
		}
	}
	return s, o
}

// connect prepares clients. It sends nothing.
func (s *Seen) connect(kubeconfig []byte) error {
	config, err := workload.RESTConfig(kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.WarningHandlerWithContext = -1, rest.NoWarnings{} // A stranger's text.
	if s.HTTP, err = rest.HTTPClientFor(config); err != nil {
		return err
	}
	s.HTTP.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	s.Config = config
	return nil
}

func (s *Seen) ask(ctx context.Context) (types.UID, error) {
	clients, err := kubernetes.NewForConfigAndClient(s.Config, s.HTTP)
	if err != nil {
		return "", err
	}
	return whoIs(ctx, clients)
}

// whoIs returns the UID by which a cluster is known. It lists, as the hub does: its account may do no more.
func whoIs(ctx context.Context, clients kubernetes.Interface) (types.UID, error) {
	found, err := clients.CoreV1().Namespaces().List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + metav1.NamespaceSystem})
	if err != nil {
		return "", err
	}
	if len(found.Items) != 1 {
		return "", fmt.Errorf("there is no namespace %s", metav1.NamespaceSystem)
	}
	return found.Items[0].UID, nil
}

// judge says what the hub would.
func (s *Seen) judge(o observation) {
	s.Answers = o.seen != ""
	if o.uid == "" {
		s.UID, o.uid = o.seen, o.seen
	}
	d := o.decide()
	s.Reason, s.Message = d.reason, d.message
}

// saidIn returns the last Event about each Secret of a namespace.
func saidIn(ctx context.Context, rancher kubernetes.Interface, namespace string) map[string]Said {
	list, err := rancher.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Secret"})
	if err != nil {
		return nil
	}
	said := map[string]Said{}
	for i := range list.Items {
		event := &list.Items[i]
		if event.ReportingController != ControllerName {
			continue
		}
		last := event.EventTime.Time
		if event.Series != nil {
			last = event.Series.LastObservedTime.Time
		}
		if name := event.InvolvedObject.Name; said[name].At.Before(last) {
			said[name] = Said{Reason: event.Reason, Message: event.Message, At: last}
		}
	}
	return said
}

// Explain says why a management cluster did not answer, in the words of the hub. The error itself may
// quote what a stranger says.
func Explain(ctx context.Context, err error) (reason, message string) {
	if ctx.Err() != nil {
		err = errNoAnswer
	}
	return lostState(err)
}
