package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-logr/logr"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	authorizationv1 "k8s.io/api/authorization/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/featuregate"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/edge"
	"github.com/archelon-io/archelon/internal/edge/seat"
)

// remoteGate is the feature gate for a Rancher in another cluster than CAPI.
const remoteGate = "remote-rancher"

const (
	remoteKubeconfigID  = "remote-rancher-kubeconfig"
	remotePermissionsID = "remote-rancher-permissions"
	remotePolicyID      = "remote-rancher-policy"
	remoteSeatID        = "remote-rancher-seat"

	rancherSideRemedy = "In Rancher's cluster, install the chart of this version with role=rancher-side and managementCluster.uid=%s."
)

func (o *Options) remote() bool { return o.Gates.Enabled(featuregate.Feature(remoteGate)) }

func (o *Options) validateElsewhere() error {
	if secret := edge.Secret(o.RancherKubeconfig); o.remote() && (secret.Namespace == "" || secret.Name == "") {
		return fmt.Errorf("gate %s needs --rancher-kubeconfig, NAMESPACE/NAME of a Secret", remoteGate)
	}
	return nil
}

// elsewhere is Rancher's cluster, as the account of the kubeconfig sees it, and the UID of the management cluster.
type elsewhere struct {
	origin  types.UID
	clients kubernetes.Interface
	crds    apiextensionsclient.Interface
	client  client.Client
}

// find returns a CRD, nil if there is none. It lists, within a name: the account may do no more.
func (e *elsewhere) find(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	list, err := e.crds.ApiextensionsV1().CustomResourceDefinitions().List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil || len(list.Items) == 0 {
		return nil, err
	}
	return &list.Items[0], nil
}

// listed reads settings as the account of the kubeconfig may: it lists, within a name.
type listed struct{ client.Reader }

// Get implements client.Reader, for settings.
func (l listed) Get(ctx context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	setting, ok := object.(*managementv3.Setting)
	if !ok {
		return errors.ErrUnsupported
	}
	list := &managementv3.SettingList{}
	if err := l.List(ctx, list, client.MatchingFields{metav1.ObjectNameField: key.Name}); err != nil {
		return err
	}
	if len(list.Items) == 0 {
		return apierrors.NewNotFound(managementv3.Resource("settings"), key.Name)
	}
	list.Items[0].DeepCopyInto(setting)
	return nil
}

// reachRancher looks whether the kubeconfig is safe and leads to another cluster that answers. What comes
// later looks for Rancher there.
func (c *checker) reachRancher(ctx context.Context) []Finding {
	f := Finding{ID: remoteKubeconfigID, State: Error}
	origin, err := uidOf(ctx, c.clients)
	if err != nil {
		return []Finding{unseen(f.ID, "The UID of the management cluster", err)}
	}
	connection, err := edge.Connect(ctx, c.clients, edge.Secret(c.RancherKubeconfig), logr.Discard())
	switch {
	case apierrors.IsForbidden(err):
		return []Finding{unseen(f.ID, "Secret "+c.RancherKubeconfig, err)}
	case err != nil:
		f.Message = sentence(err.Error())
		f.Remedy = fmt.Sprintf("Put a kubeconfig of ServiceAccount edge-%s of Rancher's cluster into Secret %s under key %s, with an https server, the CA and a token in line.",
			origin, c.RancherKubeconfig, edge.KubeconfigKey)
		return []Finding{f}
	}
	config := connection.Config()
	config.Timeout, config.QPS = requestTimeout, -1
	there := &elsewhere{origin: origin}
	there.clients, err = kubernetes.NewForConfig(config)
	if err == nil {
		there.crds, err = apiextensionsclient.NewForConfig(config)
	}
	if err == nil {
		there.client, err = client.New(config, client.Options{Scheme: c.reader.Scheme(), Mapper: c.reader.RESTMapper()})
	}
	uid := types.UID("")
	if err == nil {
		uid, err = uidOf(ctx, there.clients)
	}
	switch {
	case apierrors.IsUnauthorized(err):
		f.Message, f.Remedy = "Rancher's cluster does not accept the credentials of the kubeconfig.", fmt.Sprintf("Create a new token for ServiceAccount edge-%s.", origin)
	case apierrors.IsForbidden(err):
		f.Message, f.Remedy = "The account of the kubeconfig may nothing in Rancher's cluster.", fmt.Sprintf(rancherSideRemedy, origin)
	case err != nil:
		f.Message = fmt.Sprintf("Rancher's cluster could not be asked: %s.", err)
		f.Remedy = "Correct the server of the kubeconfig, or open the way from here to it. It is an API server, and not Rancher's own address."
	case uid == origin:
		f.Message, f.Remedy = "The kubeconfig leads to this very cluster.", "Switch gate "+remoteGate+" off if Rancher is here, or correct the kubeconfig."
	default:
		f.State, f.Message = OK, "The kubeconfig of Rancher's cluster is safe, and the cluster answers."
		c.elsewhere, c.settings = there, listed{there.client}
	}
	return []Finding{f}
}

// uidOf returns the UID by which a cluster is known. It lists, within a name, as the manager does.
func uidOf(ctx context.Context, clients kubernetes.Interface) (types.UID, error) {
	found, err := clients.CoreV1().Namespaces().List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + metav1.NamespaceSystem})
	if err != nil {
		return "", err
	}
	if len(found.Items) != 1 {
		return "", errors.New("there is no namespace " + metav1.NamespaceSystem)
	}
	return found.Items[0].UID, nil
}

// rancherSide looks at what the chart has to be installed for in Rancher's cluster.
func (c *checker) rancherSide(ctx context.Context) []Finding {
	if c.elsewhere == nil {
		return nil
	}
	return []Finding{c.remotePermissions(ctx), c.remotePolicy(ctx), c.remoteSeat(ctx)}
}

// remotePermissions asks Rancher's cluster for each permission that the account needs there.
func (c *checker) remotePermissions(ctx context.Context) Finding {
	f := Finding{ID: remotePermissionsID, State: Error, Remedy: fmt.Sprintf(rancherSideRemedy, c.elsewhere.origin)}
	questions, err := c.questions(rancherSide)
	if err != nil {
		f.Message = sentence(err.Error())
		return f
	}
	for _, verb := range []string{"get", "update"} {
		questions = append(questions, authorizationv1.ResourceAttributes{
			Namespace: c.RancherNamespace, Verb: verb, Group: "coordination.k8s.io", Resource: "leases", Name: seat.LeaseName(c.elsewhere.origin),
		})
	}
	lacking, err := lacks(ctx, questions, selfReview(c.elsewhere.clients))
	switch {
	case err != nil:
		return unseen(f.ID, "What is permitted in Rancher's cluster", err)
	case len(lacking) > 0:
		f.Message = "The account of the kubeconfig lacks in Rancher's cluster: " + name(lacking) + "."
	default:
		f.State, f.Remedy = OK, ""
		f.Message = fmt.Sprintf("The account of the kubeconfig has all %d permissions in Rancher's cluster that it needs.", len(questions))
	}
	return f
}

// remotePolicy tries, without effect, to create a Rancher cluster that carries no UID. A policy of the chart has to
// refuse that: the account may not read policies.
func (c *checker) remotePolicy(ctx context.Context) Finding {
	f := Finding{ID: remotePolicyID, State: OK, Message: "A policy in Rancher's cluster refuses Rancher clusters of others."}
	policy := "archelon-edge-" + string(c.elsewhere.origin)
	err := c.elsewhere.client.Create(ctx, &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-bbbbb"}}, client.DryRunAll)
	switch {
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), policy):
		return f
	case err == nil, apierrors.IsAlreadyExists(err):
		f.State, f.Message = Error, "No policy in Rancher's cluster keeps the account of the kubeconfig from the Rancher clusters of others."
		f.Remedy = fmt.Sprintf(rancherSideRemedy, c.elsewhere.origin) + " The kubeconfig has to be of the ServiceAccount that it creates."
		return f
	default:
		return unseen(f.ID, "Whether Rancher clusters of others are refused", err)
	}
}

// remoteSeat looks whether another Archelon serves the management cluster.
func (c *checker) remoteSeat(ctx context.Context) Finding {
	f := Finding{ID: remoteSeatID, State: Error, Remedy: fmt.Sprintf(rancherSideRemedy, c.elsewhere.origin) + " If its namespace is another one, set rancher.namespace here."}
	lease := seat.LeaseName(c.elsewhere.origin)
	_, err := c.elsewhere.clients.CoordinationV1().Leases(c.RancherNamespace).Get(ctx, lease, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		f.Message = fmt.Sprintf("Lease %s/%s of Rancher's cluster is not there for the account of the kubeconfig.", c.RancherNamespace, lease)
		return f
	case err != nil:
		return unseen(f.ID, "Lease "+lease+" of Rancher's cluster", err)
	}
	memory := types.NamespacedName{
		Namespace: cmp.Or(c.LeaderElectNamespace, edge.Secret(c.RancherKubeconfig).Namespace),
		Name:      seat.MemoryName(cmp.Or(c.Instance, c.claim.Scope.LeaseName("archelon"))),
	}
	leaver, err := seat.NewLeaver(seat.Place{
		Origin: c.elsewhere.origin, Rancher: c.elsewhere.clients.CoordinationV1(), RancherNamespace: c.RancherNamespace,
		Management: c.clients.CoordinationV1(), Memory: memory,
	}, seat.DefaultTiming(), clock.RealClock{})
	if err == nil {
		err = leaver.Taken(ctx)
	}
	switch {
	case errors.Is(err, seat.ErrTaken):
		f.Message = sentence(err.Error())
		f.Remedy = "Uninstall the other Archelon, or do not install this one. If this management cluster is a clone, stop the original first."
	case err != nil:
		return unseen(f.ID, "Who serves this management cluster", err)
	default:
		f.State, f.Remedy, f.Message = OK, "", "No other Archelon serves this management cluster."
	}
	return f
}
