// Package agent is Rancher's agent in a workload cluster: what is there of it, whether that can connect, and its
// installation. It knows neither CAPI nor what Rancher has in the management cluster.
package agent

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/workload"
)

// Where the agent is in a workload cluster.
const (
	// Namespace is that of the agent.
	Namespace = "cattle-system"
	// DeploymentName is the name of its Deployment.
	DeploymentName = "cattle-cluster-agent"
	// CredentialsPrefix begins the name of the Secret with which it connects.
	CredentialsPrefix = "cattle-credentials-"
)

// Rancher's names in a workload cluster.
const (
	credentialsEnv = "CATTLE_CREDENTIAL_NAME"
	caChecksumEnv  = "CATTLE_CA_CHECKSUM"
	featuresEnv    = "CATTLE_FEATURES"
	serverEnv      = "CATTLE_SERVER"
	strictEnv      = "STRICT_VERIFY"
)

// deployment is what matters of the Deployment of the agent. Its elements are small, because a stranger says how many
// there are.
type deployment struct {
	Metadata objectMeta `json:"metadata"`
	Spec     struct {
		Replicas *int32 `json:"replicas"`
		Paused   bool   `json:"paused"`
		Template struct {
			Spec struct {
				Containers []struct {
					Env []struct {
						Name  string `json:"name"`
						Value string `json:"value"`
					} `json:"env"`
				} `json:"containers"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
	Status struct {
		AvailableReplicas int32       `json:"availableReplicas"`
		Conditions        []condition `json:"conditions"`
	} `json:"status"`
}

// environment returns the environment of the agent. Of variables that stand there twice the last one counts, as in
// Kubernetes.
func (d *deployment) environment() map[string]string {
	env := map[string]string{}
	for _, container := range d.Spec.Template.Spec.Containers {
		for _, variable := range container.Env {
			env[variable.Name] = variable.Value
		}
	}
	return env
}

// credentials is what matters of the Secret of the agent.
type credentials struct {
	Metadata objectMeta `json:"metadata"`
	Data     struct {
		Token []byte `json:"token"`
		URL   []byte `json:"url"`
		// Namespace is the name of the v3 Cluster. Rancher fills it in when it applies the agent itself.
		Namespace []byte `json:"namespace"`
	} `json:"data"`
}

type objectMeta struct {
	UID               types.UID         `json:"uid"`
	CreationTimestamp metav1.Time       `json:"creationTimestamp"`
	DeletionTimestamp *metav1.Time      `json:"deletionTimestamp"`
	Annotations       map[string]string `json:"annotations"`
}

// State is what a workload cluster has of Rancher's agent. It holds a token, so however it is
// formatted or logged it does not show it.
type State struct {
	// Exists says whether the Deployment of the agent exists.
	Exists bool
	// Terminating says whether the Deployment, or its credentials Secret, is being deleted.
	Terminating bool
	// CredentialsSecret is the name of the Secret with which the agent connects; empty when the Deployment
	// names none.
	CredentialsSecret string
	// CredentialsFound says whether that Secret exists.
	CredentialsFound bool
	// ServerURL is the URL that the agent connects to, from its Secret, else from its environment.
	ServerURL string
	// ClusterName is the v3 Cluster whose agent it is. Who installs the agent by Rancher's command leaves it empty,
	// until Rancher applies the agent itself.
	ClusterName string
	// Applied is the digest of the settings with which the agent was applied by Install, empty for an agent of others.
	Applied string
	// Available says whether a Pod of the agent runs.
	Available bool
	// CAChecksum is the checksum of the CA that the agent insists on; empty when it insists on none.
	CAChecksum string
	// Deployed says whether Rancher has applied the Deployment itself: it gives it features, which the downloaded
	// manifest does not have. An agent without them only registers with Rancher.
	Deployed bool

	// created is when the Deployment was created, by the clock of the workload cluster.
	created time.Time
	// uid, idle and refused are for Diagnose.
	uid     types.UID
	idle    bool
	refused Cause
	// hasToken hides the token in a function because fmt prints what unexported fields of other structs
	// hold without asking for its methods, but of a function only the address.
	hasToken func(accepted []string) bool
	// env hides the environment likewise: a proxy's URL may hold a password.
	env func() map[string]string
}

// Inspect looks at Rancher's agent in a workload cluster: one request when there is none, two otherwise.
func Inspect(ctx context.Context, cluster *workload.Client) (State, error) {
	agent := &deployment{}
	found, err := get(ctx, cluster, appsv1.SchemeGroupVersion.WithKind("Deployment"), DeploymentName, agent)
	if err != nil || !found {
		return State{}, err
	}
	env := agent.environment()
	state := State{
		Exists:            true,
		Terminating:       agent.Metadata.DeletionTimestamp != nil,
		CredentialsSecret: env[credentialsEnv],
		CAChecksum:        env[caChecksumEnv],
		ServerURL:         env[serverEnv],
		Applied:           agent.Metadata.Annotations[archelonv1.AppliedAnnotation],
		Deployed:          env[featuresEnv] != "",
		Available:         agent.Status.AvailableReplicas > 0,
		created:           agent.Metadata.CreationTimestamp.Time,
		uid:               agent.Metadata.UID,
		idle:              agent.Spec.Paused || agent.Spec.Replicas != nil && *agent.Spec.Replicas == 0,
		refused:           refusalIn(agent.Status.Conditions),
		env:               func() map[string]string { return env },
	}
	if len(validation.IsDNS1123Subdomain(state.CredentialsSecret)) > 0 {
		// What no Secret can be called names none. It is a stranger's text of any length, and would be part of
		// messages.
		state.CredentialsSecret = ""
		return state, nil
	}
	secret := &credentials{}
	found, err = get(ctx, cluster, corev1.SchemeGroupVersion.WithKind("Secret"), state.CredentialsSecret, secret)
	if err != nil || !found {
		return state, err
	}
	token := string(secret.Data.Token)
	state.CredentialsFound = true
	state.Terminating = state.Terminating || secret.Metadata.DeletionTimestamp != nil
	state.ServerURL = string(secret.Data.URL)
	if name := cmp.Or(string(secret.Data.Namespace), secret.Metadata.Annotations[archelonv1.AgentClusterAnnotation]); len(validation.IsDNS1123Label(name)) == 0 {
		// It becomes part of messages and of a request, and is a stranger's text.
		state.ClusterName = name
	}
	state.hasToken = func(accepted []string) bool { return token != "" && slices.Contains(accepted, token) }
	return state, nil
}

// CredentialsOf returns the name of the Secret with which the agent of a Deployment connects; empty when it names none.
func CredentialsOf(agent *appsv1.Deployment) string {
	name := ""
	for i := range agent.Spec.Template.Spec.Containers {
		for _, variable := range agent.Spec.Template.Spec.Containers[i].Env {
			if variable.Name == credentialsEnv {
				name = variable.Value
			}
		}
	}
	return name
}

// NamingCredentials returns what names a Secret in a Deployment, and nothing else of one.
func NamingCredentials(name string) []corev1.Container {
	return []corev1.Container{{Env: []corev1.EnvVar{{Name: credentialsEnv, Value: name}}}}
}

// CanConnect reports whether the agent, as it is, can connect to Rancher at serverURL, which accepts tokens
// and has a CA of the given checksum; if not, it says why in a few words for a message.
func (s State) CanConnect(serverURL string, tokens []string, caChecksum string) (ok bool, why string) {
	switch {
	case !s.Exists:
		return false, "the agent is not installed"
	case s.Terminating:
		return false, "the agent is being deleted"
	case s.CredentialsSecret == "":
		return false, "the agent names no credentials Secret"
	case !s.CredentialsFound:
		return false, "the credentials Secret of the agent does not exist"
	case !sameURL(s.ServerURL, serverURL):
		return false, "the agent connects to another URL than Rancher's server-url"
	case !s.HasToken(tokens):
		return false, "the token of the agent is not valid any more"
	case s.CAChecksum != caChecksum:
		return false, "the agent expects another CA of Rancher"
	default:
		return true, ""
	}
}

// HasToken reports whether the agent connects with one of the tokens.
func (s State) HasToken(accepted []string) bool {
	return s.hasToken != nil && s.hasToken(accepted)
}

// Younger reports whether the Deployment was created less than a while ago. One from the future is not younger: its
// clock says nothing.
func (s State) Younger(than time.Duration, now time.Time) bool {
	age := now.Sub(s.created)
	return age >= 0 && age < than
}

// Host returns the host of the URL that the agent connects to. It is empty for what no host can be called: the URL is a
// stranger's text, and what is returned here becomes part of messages.
func (s State) Host() string {
	server, err := url.Parse(s.ServerURL)
	if err != nil {
		return ""
	}
	host := strings.ToLower(server.Hostname())
	if _, err := netip.ParseAddr(host); err != nil && len(validation.IsDNS1123Subdomain(host)) > 0 || strings.Contains(host, "%") {
		return ""
	}
	return host
}

// BelongsTo reports whether an agent is installed that connects to Rancher at serverURL, or would if it could.
func (s State) BelongsTo(serverURL string) bool {
	return s.Exists && sameURL(s.ServerURL, serverURL)
}

// String implements fmt.Stringer without the token.
func (s State) String() string {
	if !s.Exists {
		return "no agent"
	}
	return fmt.Sprintf("agent with Secret %q, server %q, CA %q, terminating %t",
		s.CredentialsSecret, s.ServerURL, s.CAChecksum, s.Terminating)
}

// GoString implements fmt.GoStringer without the token.
func (s State) GoString() string { return s.String() }

// Format implements fmt.Formatter without the token, for every verb.
func (s State) Format(f fmt.State, _ rune) {
	// fmt has no way to report the error of a state's writer.
	_, _ = io.WriteString(f, s.String())
}

// LogValue implements slog.LogValuer without the token.
func (s State) LogValue() slog.Value { return slog.StringValue(s.String()) }

// get reads an object of the agent.
func get(
	ctx context.Context, cluster *workload.Client, kind schema.GroupVersionKind, name string, into any,
) (bool, error) {
	found, err := cluster.Get(ctx, kind, client.ObjectKey{Namespace: Namespace, Name: name}, into)
	return found, named(err)
}

// sameURL compares URLs as an agent uses them: a slash at the end makes no difference.
func sameURL(a, b string) bool {
	return strings.EqualFold(strings.TrimRight(a, "/"), strings.TrimRight(b, "/"))
}
