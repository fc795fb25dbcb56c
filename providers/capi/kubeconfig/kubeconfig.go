// Package kubeconfig finds the kubeconfig of a CAPI Cluster, and reduces it to what is safe to use although a stranger
// wrote it.
//
// Who may write a kubeconfig Secret decides what the process that reads it does: clientcmd runs programs, reads files
// and sends tokens wherever a kubeconfig says so. RESTConfig takes over data that is in line and nothing else. What is
// wrong is a *problem.Problem with one of the reasons below, which quotes nothing of the kubeconfig.
package kubeconfig

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/archelon-io/archelon/providers/capi/plainyaml"
	"github.com/archelon-io/archelon/providers/capi/problem"
)

// MaxBytes is the size of the largest kubeconfig that is parsed; usual ones have six kilobytes. Parsed, one of that
// size can take 27 MiB.
const MaxBytes = 64 << 10

// RESTConfig reduces a kubeconfig to a configuration that is safe to use although a stranger wrote it.
// It takes the cluster and the user of the current context and nothing else of the file. Only an https
// server, CA data, a server name for TLS, a proxy, and a token, a client certificate or a user name with
// password are taken over, all in line. Programs to run, auth-providers, paths of files, impersonation, plain
// http and unverified TLS are refused, each with its own Problem. Without CA data the CAs of the
// system are trusted, as kubectl does.
func RESTConfig(kubeconfig []byte, allow Allow) (*rest.Config, error) {
	access, err := AccessOf(kubeconfig, "", allow)
	return access.Config, err
}

// Access is what a context of a kubeconfig leads to.
type Access struct {
	// Config is as RESTConfig has it.
	Config *rest.Config
	// Namespace is that of the context; empty if it names none.
	Namespace string
	// Misplaced is whether the namespace stands beside the context instead of in it, where nothing else reads it.
	Misplaced bool
}

// AccessOf does as RESTConfig for a context of a kubeconfig, which is the current one without a name.
func AccessOf(kubeconfig []byte, context string, allow Allow) (Access, error) {
	return Source{Context: context}.Access(kubeconfig, allow)
}

// Access does the same for the context that is asked for.
func (s Source) Access(kubeconfig []byte, allow Allow) (Access, error) {
	config, err := load(kubeconfig)
	if err != nil {
		return Access{}, err
	}
	context, lacks := s.Context, "has no context of the name that is asked for. Add it to contexts"
	switch {
	case context == "":
		context, lacks = config.CurrentContext, "has no current context. Set current-context to one of its contexts"
	case s.Annotation != "":
		lacks = fmt.Sprintf("has no context of the name in annotation %s. Add it to contexts, or correct the annotation", s.Annotation)
	}
	current, found := config.Contexts[context]
	if !found || current == nil {
		return Access{}, refuse(InvalidReason, lacks)
	}
	access := Access{Namespace: current.Namespace}
	if access.Namespace == "" {
		access.Namespace = beside(kubeconfig, context)
		access.Misplaced = access.Namespace != ""
	}
	if access.Namespace != "" && len(validation.IsDNS1123Label(access.Namespace)) > 0 {
		return Access{}, refuse(InvalidReason, "names a namespace that cannot be one. Correct it")
	}
	access.Config, err = reduce(config, current, allow)
	return access, err
}

// beside returns the namespace that stands beside a context.
func beside(kubeconfig []byte, context string) string {
	var written struct {
		Contexts []struct{ Name, Namespace string }
	}
	if yaml.Unmarshal(kubeconfig, &written) != nil {
		return "" // It was parsed before, in another way. What this one does not know is not there.
	}
	for _, each := range written.Contexts {
		if each.Name == context {
			return each.Namespace
		}
	}
	return ""
}

// reduce returns what is safe of a context.
func reduce(config *api.Config, current *api.Context, allow Allow) (*rest.Config, error) {
	cluster, found := config.Clusters[current.Cluster]
	if !found || cluster == nil {
		return nil, refuse(InvalidReason, "lacks the cluster of its context. Add it to clusters")
	}
	user, found := config.AuthInfos[current.AuthInfo]
	if !found || user == nil {
		return nil, refuse(InvalidReason, "lacks the user of its context. Add it to users")
	}
	result := &rest.Config{}
	for _, step := range []error{
		setServer(result, cluster),
		setTLS(result, cluster),
		setProxy(result, cluster, allow),
		setCredentials(result, user, allow),
	} {
		if step != nil {
			return nil, step
		}
	}
	return result, nil
}

// load parses a kubeconfig. The causes of its Problems are dropped because they quote the file.
func load(kubeconfig []byte) (*api.Config, error) {
	if err := CheckSize(kubeconfig); err != nil {
		return nil, err
	}
	if err := plainyaml.Check(kubeconfig); err != nil {
		return nil, refuse(InvalidReason, err.Error()+". Correct the Secret")
	}
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, refuse(InvalidReason, "is not a kubeconfig. Correct the Secret")
	}
	return config, nil
}

// CheckSize refuses a kubeconfig that is too large, before anything reads it.
func CheckSize(kubeconfig []byte) error {
	if len(kubeconfig) <= MaxBytes {
		return nil
	}
	return refuse(InvalidReason, fmt.Sprintf("has more than %d KiB. Reduce it to one context", MaxBytes>>10))
}

func setServer(config *rest.Config, cluster *api.Cluster) error {
	// The URL is not part of the messages: it may hold a password.
	u, err := url.Parse(cluster.Server)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "":
		return refuse(InvalidReason, "has no valid server URL. Correct server of its cluster")
	case strings.ContainsFunc(u.Host, func(r rune) bool { return r <= ' ' || r > '~' }):
		return refuse(InvalidReason, "has a server URL with a host that is not ASCII. Write it as in DNS (xn--...)")
	case u.Scheme != "https":
		return refuse(InsecureReason, "leads to a server without TLS. Use an https URL")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return refuse(InvalidReason, "has a server URL with user information, query or fragment. Leave these out")
	}
	config.Host = cluster.Server
	config.DisableCompression = cluster.DisableCompression
	return nil
}

func setTLS(config *rest.Config, cluster *api.Cluster) error {
	if cluster.InsecureSkipTLSVerify {
		return refuse(InsecureReason,
			"asks not to verify the server (insecure-skip-tls-verify). Use certificate-authority-data instead")
	}
	if cluster.CertificateAuthority != "" {
		return refuse(FilePathReason,
			"refers to a file (certificate-authority). Put its content into certificate-authority-data")
	}
	if len(cluster.CertificateAuthorityData) > 0 && !x509.NewCertPool().AppendCertsFromPEM(cluster.CertificateAuthorityData) {
		return refuse(InvalidReason, "holds no PEM certificate in certificate-authority-data. Correct it")
	}
	config.CAData = cluster.CertificateAuthorityData
	config.ServerName = cluster.TLSServerName
	return nil
}

func setCredentials(config *rest.Config, user *api.AuthInfo, allow Allow) error {
	switch {
	case user.Exec != nil && (allow.Exec == nil || !allow.Exec(user.Exec)):
		return refuse(ExecReason,
			"wants a program run to get credentials (exec). Use a token or a client certificate instead")
	case user.AuthProvider != nil:
		return refuse(AuthProviderReason,
			"names an auth-provider, which Kubernetes has removed. Use a token or a client certificate instead")
	case user.ClientCertificate != "" || user.ClientKey != "" || user.TokenFile != "":
		return refuse(FilePathReason,
			"refers to files (client-certificate, client-key or tokenFile). Put their contents into "+
				"client-certificate-data, client-key-data or token")
	case user.Impersonate != "" || user.ImpersonateUID != "" || len(user.ImpersonateGroups) > 0 || len(user.ImpersonateUserExtra) > 0:
		return refuse(ImpersonationReason,
			"impersonates another user (as, as-uid, as-groups or as-user-extra). Use the credentials of that user instead")
	}
	config.BearerToken = user.Token
	config.Username, config.Password = user.Username, user.Password
	config.CertData, config.KeyData = user.ClientCertificateData, user.ClientKeyData
	if user.Exec != nil {
		config.ExecProvider = user.Exec.DeepCopy()
		config.ExecProvider.StdinUnavailable = true // There is no terminal to ask at.
	}

	certificate := len(config.CertData) > 0 || len(config.KeyData) > 0
	switch {
	case certificate:
		if _, err := tls.X509KeyPair(config.CertData, config.KeyData); err != nil {
			return refuse(InvalidReason,
				"holds a client certificate and a key that do not belong together or are no PEM. Correct client-certificate-data and client-key-data")
		}
	case config.Username != "" && config.Password != "":
	case config.ExecProvider != nil:
	case config.BearerToken == "":
		return refuse(CredentialsReason,
			"has no credentials for its user. Add a token, or a client certificate and its key, in line")
	}
	if strings.ContainsAny(config.BearerToken, "\r\n") {
		return refuse(InvalidReason, "has a token with line breaks. Remove them")
	}
	return nil
}

// IsRefusal reports whether a reason is that of a kubeconfig which asks for something unsafe. The other reasons are
// those of a kubeconfig that lacks something or cannot be read, which a slip can cause.
func IsRefusal(reason string) bool {
	switch reason {
	case ExecReason, AuthProviderReason, FilePathReason,
		ImpersonationReason, InsecureReason, ProxyReason:
		return true
	default:
		return false
	}
}

// refuse returns the Problem of a kubeconfig; the watch of its Secret ends it.
func refuse(reason, what string) error {
	return problem.Wait(reason, "The kubeconfig %s", what)
}
