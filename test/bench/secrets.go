package main

import (
	"bytes"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/archelon-io/archelon/test/builder"
)

// Sizes in bytes of what real clusters of kubeadm have in their Secrets.
const (
	certBytes      = 1100
	keyBytes       = 1675
	publicKeyBytes = 451
	// workerBytes are the bootstrap data of a worker, and controlPlaneBytes those of a control plane node, which have
	// the certificates in them.
	workerBytes       = 3 << 10
	controlPlaneBytes = 8 << 10
	// controlPlanes is how many of the machines of a cluster run its control plane.
	controlPlanes = 3
)

// clusterSecrets is how many Secrets a cluster has without those of its machines.
const clusterSecrets = 5

// secretsOf returns the Secrets that a CAPI cluster of kubeadm has: its kubeconfig, its certificates, and the bootstrap
// data of its machines. All have the label by which CAPI finds them, the type and an owner. But for the kubeconfig
// nobody reads their data here, so only its size is real.
func secretsOf(cluster *clusterv1.Cluster, kubeconfig []byte, machines int) []*corev1.Secret {
	filler := func(size int) []byte { return bytes.Repeat([]byte("x"), size) }
	secrets := []*corev1.Secret{builder.KubeconfigSecret(cluster.Namespace, cluster.Name, kubeconfig)}
	add := func(name string, data map[string][]byte) {
		secret := builder.KubeconfigSecret(cluster.Namespace, cluster.Name, nil)
		secret.Name, secret.Data = name, data
		secrets = append(secrets, secret)
	}
	for _, purpose := range []string{"ca", "etcd", "proxy"} {
		add(cluster.Name+"-"+purpose, map[string][]byte{"tls.crt": filler(certBytes), "tls.key": filler(keyBytes)})
	}
	add(cluster.Name+"-sa", map[string][]byte{"tls.crt": filler(publicKeyBytes), "tls.key": filler(keyBytes)})
	for i := range machines {
		name, size := fmt.Sprintf("%s-md-0-fcbkd-%05d", cluster.Name, i), workerBytes
		if i < controlPlanes {
			name, size = fmt.Sprintf("%s-control-plane-%05d", cluster.Name, i), controlPlaneBytes
		}
		add(name, map[string][]byte{"format": []byte("cloud-config"), "value": filler(size)})
		secrets[len(secrets)-1].OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "bootstrap.cluster.x-k8s.io/v1beta2", Kind: "KubeadmConfig", Name: name, UID: cluster.UID,
		}}
	}
	for _, secret := range secrets {
		// In a real cluster the owner is the control plane or the machine's KubeadmConfig alone, which do not exist here.
		secret.OwnerReferences = append(secret.OwnerReferences,
			*metav1.NewControllerRef(cluster, clusterv1.GroupVersion.WithKind("Cluster")))
	}
	return secrets
}
