package workload

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// Rancher's names in a workload cluster.
const (
	agentNamespace  = "cattle-system"
	agentDeployment = "cattle-cluster-agent"
	credentialsEnv  = "CATTLE_CREDENTIAL_NAME"
	caChecksumEnv   = "CATTLE_CA_CHECKSUM"
	featuresEnv     = "CATTLE_FEATURES"
	serverEnv       = "CATTLE_SERVER"
	strictEnv       = "STRICT_VERIFY"

	cleanupLabel  = "cattle.io/creator"
	cleanupValue  = "norman"
	cleanupPrefix = "cattle-cleanup-"

	// jobsPerPage keeps a page of Jobs far below maxAnswerBytes; maxJobPages ends a list that has no end.
	jobsPerPage = 20
	maxJobPages = 100
)

// deployment is what matters of the Deployment of the agent. Its elements are small, because a stranger says how many there are.
type deployment struct {
	Metadata objectMeta `json:"metadata"`
	Spec     struct {
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
		AvailableReplicas int32 `json:"availableReplicas"`
	} `json:"status"`
}

// environment returns the environment of the agent. Of variables that stand there twice the last one counts, as in Kubernetes.
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
	DeletionTimestamp *metav1.Time      `json:"deletionTimestamp"`
	Annotations       map[string]string `json:"annotations"`
}

// AgentState is what a workload cluster has of Rancher's agent. It holds a token, so however it is
// formatted or logged it does not show it.
type AgentState struct {
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
	// ClusterName is the v3 Cluster whose agent it is. Who installs the agent by Rancher's command leaves it empty, until Rancher applies the agent itself.
	ClusterName string
	// Applied is the digest of the settings with which the agent was applied by Apply, empty for an agent of others.
	Applied string
	// Available says whether a Pod of the agent runs.
	Available bool
	// CAChecksum is the checksum of the CA that the agent insists on; empty when it insists on none.
	CAChecksum string
	// Deployed says whether Rancher has applied the Deployment itself: it gives it features, which the downloaded
	// manifest does not have. An agent without them only registers with Rancher.
	Deployed bool

	// hasToken hides the token in a function because fmt prints what unexported fields of other structs
	// hold without asking for its methods, but of a function only the address.
	hasToken func(accepted []string) bool
	// env hides the environment likewise: a proxy's URL may hold a password.
	env func() map[string]string
}

// Agent looks at Rancher's agent: one request when there is none, two otherwise.
func (c *Client) Agent(ctx context.Context) (AgentState, error) {
	agent := &deployment{}
	found, err := c.get(ctx, appsv1.SchemeGroupVersion.WithKind("Deployment"), agentDeployment, agent)
	if err != nil || !found {
		return AgentState{}, err
	}
	env := agent.environment()
	state := AgentState{
		Exists:            true,
		Terminating:       agent.Metadata.DeletionTimestamp != nil,
		CredentialsSecret: env[credentialsEnv],
		CAChecksum:        env[caChecksumEnv],
		ServerURL:         env[serverEnv],
		Applied:           agent.Metadata.Annotations[archelonv1.AppliedAnnotation],
		Deployed:          env[featuresEnv] != "",
		Available:         agent.Status.AvailableReplicas > 0,
		env:               func() map[string]string { return env },
	}
	if len(validation.IsDNS1123Subdomain(state.CredentialsSecret)) > 0 {
		// What no Secret can be called names none. It is a stranger's text of any length, and would be part of messages.
		state.CredentialsSecret = ""
		return state, nil
	}
	secret := &credentials{}
	found, err = c.get(ctx, corev1.SchemeGroupVersion.WithKind("Secret"), state.CredentialsSecret, secret)
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

// CanConnect reports whether the agent, as it is, can connect to Rancher at serverURL, which accepts tokens
// and has a CA of the given checksum; if not, it says why in a few words for a message.
func (s AgentState) CanConnect(serverURL string, tokens []string, caChecksum string) (ok bool, why string) {
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

// BelongsTo reports whether an agent is installed that connects to Rancher at serverURL, or would if it could.
func (s AgentState) BelongsTo(serverURL string) bool {
	return s.Exists && sameURL(s.ServerURL, serverURL)
}

// String implements fmt.Stringer without the token.
func (s AgentState) String() string {
	if !s.Exists {
		return "no agent"
	}
	return fmt.Sprintf("agent with Secret %q, server %q, CA %q, terminating %t",
		s.CredentialsSecret, s.ServerURL, s.CAChecksum, s.Terminating)
}

// GoString implements fmt.GoStringer without the token.
func (s AgentState) GoString() string { return s.String() }

// Format implements fmt.Formatter without the token, for every verb.
func (s AgentState) Format(f fmt.State, _ rune) {
	// fmt has no way to report the error of a state's writer.
	_, _ = io.WriteString(f, s.String())
}

// LogValue implements slog.LogValuer without the token.
func (s AgentState) LogValue() slog.Value { return slog.StringValue(s.String()) }

// CleanupPending names what Rancher still removes an earlier registration with, "" if nothing: the Job that does it and is under way, in any namespace,
// or the namespace of the agent, which is being deleted. A Job that has failed for good, or was not able to delete itself, does nothing any more. These are
// two requests, more only where there are many Jobs with Rancher's label.
func (c *Client) CleanupPending(ctx context.Context) (string, error) {
	var found string
	err := c.call(ctx, "listing Rancher's clean-up Jobs", func(ctx context.Context) (err error) {
		found, err = c.findCleanup(ctx)
		return err
	})
	if err != nil || found != "" {
		return found, err
	}
	namespace := &unstructured.Unstructured{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err = c.call(ctx, "getting Namespace "+agentNamespace, func(ctx context.Context) error {
		return client.IgnoreNotFound(c.api.Get(ctx, client.ObjectKey{Name: agentNamespace}, namespace))
	})
	if err != nil || namespace.GetDeletionTimestamp() == nil {
		return "", err
	}
	return "Namespace " + agentNamespace, nil
}

// findCleanup looks for a Job that cleans up, page by page, and names it.
func (c *Client) findCleanup(ctx context.Context) (string, error) {
	next := ""
	for range maxJobPages {
		jobs := &unstructured.UnstructuredList{}
		jobs.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("JobList"))
		err := c.api.List(ctx, jobs, client.MatchingLabels{cleanupLabel: cleanupValue}, client.Limit(jobsPerPage), client.Continue(next))
		if err != nil {
			return "", err
		}
		if i := slices.IndexFunc(jobs.Items, cleansUp); i >= 0 {
			return nameOfJob(&jobs.Items[i]), nil
		}
		if next = jobs.GetContinue(); next == "" {
			return "", nil
		}
	}
	return "", fail(archelonv1.WorkloadServerErrorReason,
		"the workload cluster lists more than %d Jobs with label %s=%s: delete those that have ended", jobsPerPage*maxJobPages, cleanupLabel, cleanupValue)
}

// nameOfJob names a Job, unless a stranger's text stands where its name should be.
func nameOfJob(job *unstructured.Unstructured) string {
	if len(validation.IsDNS1123Label(job.GetNamespace())) > 0 || len(validation.IsDNS1123Subdomain(job.GetName())) > 0 {
		return "a Job " + cleanupPrefix + "*"
	}
	return "Job " + job.GetNamespace() + "/" + job.GetName()
}

// cleansUp reports whether a Job is a clean-up of Rancher that has not ended.
func cleansUp(job unstructured.Unstructured) bool {
	if job.GetGenerateName() != cleanupPrefix {
		return false
	}
	conditions, _, _ := unstructured.NestedSlice(job.Object, "status", "conditions")
	return !slices.ContainsFunc(conditions, func(entry any) bool {
		condition, _ := entry.(map[string]any)
		kind, status := condition["type"], condition["status"]
		return (kind == string(batchv1.JobComplete) || kind == string(batchv1.JobFailed)) && status == string(corev1.ConditionTrue)
	})
}

// get reads an object of namespace cattle-system and converts it.
func (c *Client) get(ctx context.Context, gvk schema.GroupVersionKind, name string, into any) (found bool, err error) {
	err = c.call(ctx, fmt.Sprintf("getting %s %s/%s", gvk.Kind, agentNamespace, name), func(ctx context.Context) error {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(gvk)
		if err := c.api.Get(ctx, client.ObjectKey{Namespace: agentNamespace, Name: name}, object); err != nil {
			return client.IgnoreNotFound(err)
		}
		found = true
		if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into) != nil {
			// The cause is dropped because it may quote the object.
			return malformed(gvk.Kind)
		}
		return nil
	})
	return found && err == nil, err
}

// sameURL compares URLs as an agent uses them: a slash at the end makes no difference.
func sameURL(a, b string) bool {
	return strings.EqualFold(strings.TrimRight(a, "/"), strings.TrimRight(b, "/"))
}
