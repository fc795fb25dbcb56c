package env

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// tokenLifetime outlives every test and a demo that is left running for a day.
const tokenLifetime = 24 * time.Hour

var errNotInline = errors.New("the config uses files, a command or a plugin, which another process may not have")

// Kubeconfig returns the administrator's kubeconfig. Like those that Cluster API
// writes into Secrets, it consists of inline data only.
func (c *ControlPlane) Kubeconfig() ([]byte, error) {
	return c.KubeconfigFor(c.Config)
}

// LocalKubeconfig returns the administrator's kubeconfig for programs of this machine.
func (c *ControlPlane) LocalKubeconfig() ([]byte, error) {
	return c.kubeconfig(c.Config, c.Config.Host)
}

// KubeconfigFor writes cfg as a kubeconfig of inline data. It refuses a cfg that
// depends on files, commands or plugins.
func (c *ControlPlane) KubeconfigFor(cfg *rest.Config) ([]byte, error) {
	if cfg.Host == c.Config.Host {
		return c.kubeconfig(cfg, c.Server())
	}
	return c.kubeconfig(cfg, cfg.Host)
}

func (c *ControlPlane) kubeconfig(cfg *rest.Config, server string) ([]byte, error) {
	if cfg.CAFile != "" || cfg.CertFile != "" || cfg.KeyFile != "" || cfg.BearerTokenFile != "" ||
		cfg.ExecProvider != nil || cfg.AuthProvider != nil {
		return nil, errNotInline
	}
	name := c.opts.Name
	raw, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server:                   server,
			CertificateAuthorityData: cfg.CAData,
			TLSServerName:            cfg.ServerName,
			InsecureSkipTLSVerify:    cfg.Insecure,
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{name: {
			ClientCertificateData: cfg.CertData,
			ClientKeyData:         cfg.KeyData,
			Token:                 cfg.BearerToken,
			Username:              cfg.Username,
			Password:              cfg.Password,
		}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
	if err != nil {
		return nil, fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return raw, nil
}

// User returns a config for a user with a client certificate. The user has the
// rights that RBAC grants to the name and the groups, so none to begin with.
func (c *ControlPlane) User(name string, groups ...string) (*rest.Config, error) {
	if c.existing != nil {
		return nil, errExisting
	}
	user, err := c.environment.AddUser(envtest.User{Name: name, Groups: groups}, rest.AnonymousClientConfig(c.Config))
	if err != nil {
		return nil, fmt.Errorf("issuing a certificate for user %s: %w", name, err)
	}
	return user.Config(), nil
}

// ServiceAccountConfig returns a config that acts as an existing ServiceAccount,
// with a token that the API server signed and that lasts a day.
func (c *ControlPlane) ServiceAccountConfig(ctx context.Context, namespace, name string) (*rest.Config, error) {
	admin, err := client.New(c.Config, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("building a client: %w", err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenLifetime / time.Second))},
	}
	if err := admin.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, fmt.Errorf("requesting a token for ServiceAccount %s/%s: %w", namespace, name, err)
	}
	cfg := rest.AnonymousClientConfig(c.Config)
	cfg.BearerToken = request.Status.Token
	return cfg, nil
}
