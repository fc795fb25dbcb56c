package node

import (
	"context"
	"fmt"
	"os"
	"path"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// accountPath is where programs in a cluster look for their token.
const accountPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// addToken adds a token of the Pod's ServiceAccount, which the API server takes back when the Pod is
// gone. It is requested once.
func (p *pod) addToken(ctx context.Context, content files, volume string, source *corev1.ServiceAccountTokenProjection, mode *int32) error {
	if known, ok := p.mounted[volume][source.Path]; ok {
		content[source.Path] = known
		return nil
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: source.ExpirationSeconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.key.Name, UID: p.uid},
	}}
	if source.Audience != "" {
		request.Spec.Audiences = []string{source.Audience}
	}
	account := p.object.Spec.ServiceAccountName
	answer, err := p.node.client.CoreV1().ServiceAccounts(p.key.Namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("requesting a token for ServiceAccount %s/%s: %w", p.key.Namespace, account, err)
	}
	content[source.Path] = file{data: answer.Status.Token, mode: fileMode(nil, mode)}
	return nil
}

// kubeconfig writes what $KUBECONFIG is to lead to and returns its path, nothing for a container without a token at the
// usual path, be it that the admission of ServiceAccounts put it there or the Pod itself.
func (p *pod) kubeconfig(spec corev1.Container, target string) (string, error) {
	token := ""
	for _, mount := range spec.VolumeMounts {
		if path.Clean(mount.MountPath) == accountPath {
			token = p.mounted[mount.Name]["token"].data
		}
	}
	if token == "" {
		return "", nil
	}
	config := rest.AnonymousClientConfig(p.node.opts.Cluster.Config)
	config.BearerToken = token
	if p.node.opts.Through != nil {
		config = p.node.opts.Through(config)
	}
	raw, err := p.node.opts.Cluster.KubeconfigFor(config)
	if err != nil {
		return "", err
	}
	return target, os.WriteFile(target, raw, 0o600)
}
