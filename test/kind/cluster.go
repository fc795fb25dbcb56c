package kind

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"

	"github.com/archelon-io/archelon/test/env"
)

// Cluster is one cluster of kind.
type Cluster struct {
	Name string
	// Config is that of an administrator, for this machine.
	Config *rest.Config

	world *World
	// nodes are those of Kubernetes: kind has containers of other kinds, too.
	nodes        []nodes.Node
	controlPlane nodes.Node
}

// connect learns how to reach a cluster that exists.
func (c *Cluster) connect() error {
	raw, err := c.world.provider.KubeConfig(c.Name, false)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if c.Config, err = clientcmd.RESTConfigFromKubeConfig([]byte(raw)); err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	c.Config.QPS = -1
	return c.findNodes()
}

// findNodes learns which nodes there are, and which of them runs the API server.
func (c *Cluster) findNodes() error {
	var err error
	if c.nodes, err = c.world.provider.ListInternalNodes(c.Name); err != nil {
		return err
	}
	planes, err := nodeutils.ControlPlaneNodes(c.nodes)
	if err != nil {
		return err
	}
	if len(planes) != 1 {
		return fmt.Errorf("there are %d nodes of the role control-plane, not one", len(planes))
	}
	c.controlPlane = planes[0]
	return nil
}

// IP returns the address of the control plane's node. Pods of all clusters reach it, and this machine may not.
func (c *Cluster) IP() (string, error) {
	ip, _, err := c.controlPlane.IP()
	return ip, err
}

// Server returns the URL of the API server for Pods of all clusters.
func (c *Cluster) Server() (string, error) {
	ip, err := c.IP()
	return "https://" + net.JoinHostPort(ip, "6443"), err
}

// ControlPlane returns the cluster as a control plane whose audit log begins now.
func (c *Cluster) ControlPlane() (*env.ControlPlane, error) {
	server, err := c.Server()
	if err != nil {
		return nil, err
	}
	from, err := c.AuditLogSize()
	if err != nil {
		return nil, err
	}
	return env.Use(env.Existing{
		Name: c.Name, Config: c.Config, Server: server, Audit: func() ([]byte, error) { return c.AuditLog(from) },
	}), nil
}

// Load brings the images of an archive, as docker save writes it, to all nodes.
func (c *Cluster) Load(path string) error {
	for _, node := range c.nodes {
		archive, err := os.Open(path)
		if err != nil {
			return err
		}
		err = nodeutils.LoadImageArchive(node, archive)
		_ = archive.Close() // it was only read
		if err != nil {
			return fmt.Errorf("loading %s into %s: %w", path, node, err)
		}
	}
	return nil
}

// AuditLog returns what the API server has logged from the given byte on: one JSON object of kind
// audit.k8s.io/v1 Event per line.
func (c *Cluster) AuditLog(from int64) ([]byte, error) {
	var out bytes.Buffer
	cmd := c.controlPlane.Command("tail", "--bytes", fmt.Sprintf("+%d", from+1), auditLog)
	if err := cmd.SetStdout(&out).Run(); err != nil {
		return nil, fmt.Errorf("reading the audit log of %s: %w", c.Name, err)
	}
	return out.Bytes(), nil
}

// AuditLogSize returns how many bytes the API server has logged.
func (c *Cluster) AuditLogSize() (int64, error) {
	var out bytes.Buffer
	if err := c.controlPlane.Command("stat", "--format=%s", auditLog).SetStdout(&out).Run(); err != nil {
		return 0, fmt.Errorf("looking at the audit log of %s: %w", c.Name, err)
	}
	var size int64
	_, err := fmt.Sscan(out.String(), &size)
	return size, err
}

// Restart restarts the control plane's node as a machine that loses its power.
func (c *Cluster) Restart(ctx context.Context) error {
	for _, verb := range []string{"kill", "start"} {
		if out, err := exec.CommandContext(ctx, "docker", verb, c.controlPlane.String()).CombinedOutput(); err != nil {
			return fmt.Errorf("docker %s %s: %w\n%s", verb, c.controlPlane, err, out)
		}
	}
	return nil
}

// Logs returns what the containers of a Pod have printed, as far as the cluster still knows.
func (c *Cluster) Logs(key types.NamespacedName) string {
	clientset, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return err.Error()
	}
	// The context of who asks may be over: it is asked when something has failed.
	raw, err := clientset.CoreV1().Pods(key.Namespace).GetLogs(key.Name, &corev1.PodLogOptions{}).DoRaw(context.Background())
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// Kill kills the containers of a Pod, as if they had crashed: the kubelet restarts them as the Pod says.
func (c *Cluster) Kill(key types.NamespacedName) error {
	clientset, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	pod, err := clientset.CoreV1().Pods(key.Namespace).Get(context.Background(), key.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	i := slices.IndexFunc(c.nodes, func(node nodes.Node) bool { return node.String() == pod.Spec.NodeName })
	if i < 0 {
		return fmt.Errorf("the node %q of Pod %s is none of %s", pod.Spec.NodeName, key, c.nodes)
	}
	for _, status := range pod.Status.ContainerStatuses {
		_, id, _ := strings.Cut(status.ContainerID, "://")
		if err := c.nodes[i].Command("ctr", "--namespace=k8s.io", "task", "kill", "--signal=SIGKILL", id).Run(); err != nil {
			return fmt.Errorf("killing container %s of Pod %s: %w", status.Name, key, err)
		}
	}
	return nil
}

// Describe writes what is needed to find out why something does not run.
func (c *Cluster) Describe(out io.Writer) error {
	return c.controlPlane.Command("kubectl", "--kubeconfig=/etc/kubernetes/admin.conf", "get", "pods,events,nodes", "--all-namespaces", "--output=wide").SetStdout(out).Run()
}
