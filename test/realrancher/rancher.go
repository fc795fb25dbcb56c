package realrancher

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/process"
)

const (
	rancherNamespace = "cattle-system"
	serverPort       = "8443"
	webhookPort      = "9443"
	webhookName      = "rancher-webhook"
	serverURL        = "https://" + address + ":" + serverPort
	webhookConfig    = "rancher.cattle.io"
)

// sources is the directory of this package.
func sources() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return "", errors.New("finding the directory of test/realrancher")
	}
	return filepath.Dir(file), nil
}

// startRancher starts Rancher and waits until it serves, also the API that others reach through the API server.
func (w *World) startRancher(ctx context.Context) error {
	if err := w.runRancher(ctx); err != nil {
		return err
	}
	if err := await(ctx, "setting server-url", func(ctx context.Context) error { return w.set(ctx, "server-url", serverURL) }); err != nil {
		return err
	}
	return await(ctx, "the API that Rancher adds to Kubernetes", func(ctx context.Context) error {
		service := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"}}
		if err := w.Client.Get(ctx, client.ObjectKey{Name: "v1.ext.cattle.io"}, service); err != nil {
			return err
		}
		if !conditionTrue(service, "Available") {
			return errors.New("APIService v1.ext.cattle.io is not available")
		}
		return nil
	})
}

// runRancher starts the program and waits until it answers.
func (w *World) runRancher(ctx context.Context) error {
	home := filepath.Join(w.dir, "rancher")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	kubeconfig, err := w.writeKubeconfig(home)
	if err != nil {
		return err
	}
	//nolint:noctx // it outlives the call
	cmd := exec.Command(filepath.Join(w.opts.Programs, "bin", "rancher"),
		"--kubeconfig="+kubeconfig, "--k8s-mode=external", "--add-local=true", "--http-listen-port=8080", "--https-listen-port="+serverPort,
		"--audit-log-path="+filepath.Join(home, "audit.log"), fmt.Sprintf("--features=turtles=%t", w.turtles))
	cmd.Dir = home
	cmd.Env = append(os.Environ(),
		"PATH="+filepath.Join(w.opts.Programs, "podbin")+":"+os.Getenv("PATH"),
		"CATTLE_SERVER_VERSION="+w.version, "CATTLE_AGENT_IMAGE="+agentImage+":"+w.version, "CATTLE_SERVER_IMAGE=rancher/rancher", "CATTLE_BOOTSTRAP_PASSWORD=only-for-tests-1234",
		// The API that Rancher adds to Kubernetes is reached by its Service, without a tunnel.
		"IMPERATIVE_API_DIRECT=true", "IMPERATIVE_API_APP_SELECTOR=rancher", "AGGREGATION_REGISTRATION_TIMEOUT=24h",
		// Without a way out, lists of drivers and charts are as old as the program.
		"CATTLE_DEV_MODE=30", "CATTLE_NAMESPACE="+rancherNamespace, "CATTLE_RANCHER_TURTLES_VERSION="+turtlesVersion)
	if w.rancher, err = w.run(cmd, "rancher"); err != nil {
		return err
	}
	return await(ctx, "Rancher", w.ping)
}

// ping asks Rancher whether it serves.
func (w *World) ping(ctx context.Context) error {
	select {
	case <-w.rancher.Done():
		return fmt.Errorf("rancher has ended with code %d", w.rancher.ExitCode())
	default:
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // who it is does not matter
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, serverURL+"/ping", nil)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: transport, Timeout: 5 * time.Second}).Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 100))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK || !strings.Contains(string(body), "pong") {
		return fmt.Errorf("GET /ping: %s", response.Status)
	}
	return nil
}

// startWebhook starts Rancher's webhook and waits until the API server has been told of it and reaches it.
func (w *World) startWebhook(ctx context.Context) error {
	if err := w.runWebhook(); err != nil {
		return err
	}
	err := await(ctx, "the registration of Rancher's webhook", func(ctx context.Context) error {
		return w.Client.Get(ctx, client.ObjectKey{Name: webhookConfig}, &admissionregistrationv1.ValidatingWebhookConfiguration{})
	})
	if err != nil {
		return err
	}
	return await(ctx, "Rancher's webhook", func(ctx context.Context) error {
		connection, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", net.JoinHostPort(address, webhookPort))
		if err != nil {
			return err
		}
		if err := connection.Close(); err != nil {
			return err
		}
		probe := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster", "spec": map[string]any{}}}
		probe.SetNamespace(metav1.NamespaceDefault)
		probe.SetName("probe")
		probe.SetAnnotations(map[string]string{"field.cattle.io/no-creator-rbac": "true"}) // a creator cannot be tried
		return w.Client.Create(ctx, probe, client.DryRunAll)
	})
}

func (w *World) runWebhook() error {
	home := filepath.Join(w.dir, "webhook")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	kubeconfig, err := w.writeKubeconfig(home)
	if err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(w.opts.Programs, "bin", "webhook")) //nolint:noctx // it outlives the call
	cmd.Dir = home
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "CATTLE_PORT="+webhookPort, "NAMESPACE="+rancherNamespace, "ENABLE_MCM=true")
	w.webhook, err = w.run(cmd, "webhook")
	return err
}

// run starts a program that the watchdog knows.
func (w *World) run(cmd *exec.Cmd, name string) (*process.Process, error) {
	if err := process.Unwrap(filepath.Join(w.dir, name+".run")); err != nil {
		return nil, err
	}
	script, err := process.Wrap(cmd.Path, w.dir, name+".run")
	if err != nil {
		return nil, err
	}
	cmd.Path, cmd.Args[0] = script, script
	cmd.Stdout, cmd.Stderr = w.opts.Out, w.opts.Out
	return process.Start(cmd)
}

// writeKubeconfig gives a program an administrator's access to the management cluster.
func (w *World) writeKubeconfig(dir string) (string, error) {
	kubeconfig, err := w.Management.Kubeconfig()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "kubeconfig")
	return path, os.WriteFile(path, kubeconfig, 0o600)
}

// end ends a program and what it has started.
func end(program *process.Process) error {
	select {
	case <-program.Done():
		return nil
	default:
	}
	if err := program.Stop(stopTimeout); err != nil {
		return err
	}
	return program.KillGroup()
}

func conditionTrue(object *unstructured.Unstructured, kind string) bool {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, each := range conditions {
		condition, _ := each.(map[string]any)
		if condition["type"] == kind {
			return condition["status"] == "True"
		}
	}
	return false
}
