package realrancher

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/archelon-io/archelon/test/process"
)

const (
	serverPort  = "8443"
	webhookPort = "9443"
)

// url implements installation.
func (*programs) url() string { return "https://" + address + ":" + serverPort }

// up implements installation.
func (p *programs) up(ctx context.Context, name string) error {
	if name == webhookName {
		return p.runWebhook(ctx)
	}
	return p.runRancher(ctx)
}

// down implements installation.
func (p *programs) down(_ context.Context, name string) error {
	program := p.rancher
	if name == webhookName {
		program = p.webhook
	}
	if err := program.KillGroup(); err != nil {
		return err
	}
	<-program.Done()
	return nil
}

func (p *programs) runRancher(ctx context.Context) error {
	home := filepath.Join(p.dir, "rancher")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	kubeconfig, err := p.writeKubeconfig(home)
	if err != nil {
		return err
	}
	//nolint:noctx // it outlives the call
	cmd := exec.Command(filepath.Join(p.opts.Programs, "bin", "rancher"),
		"--kubeconfig="+kubeconfig, "--k8s-mode=external", "--add-local=true", "--http-listen-port=8080", "--https-listen-port="+serverPort,
		"--audit-log-path="+filepath.Join(home, "audit.log"), fmt.Sprintf("--features=turtles=%t", p.turtles))
	cmd.Dir = home
	cmd.Env = append(os.Environ(),
		"PATH="+filepath.Join(p.opts.Programs, "podbin")+":"+os.Getenv("PATH"),
		"CATTLE_SERVER_VERSION="+p.version, "CATTLE_AGENT_IMAGE="+agentImage+":"+p.version, "CATTLE_SERVER_IMAGE=rancher/rancher", "CATTLE_BOOTSTRAP_PASSWORD="+password,
		// The API that Rancher adds to Kubernetes is reached by its Service, without a tunnel.
		"IMPERATIVE_API_DIRECT=true", "IMPERATIVE_API_APP_SELECTOR=rancher", "AGGREGATION_REGISTRATION_TIMEOUT=24h",
		// Without a way out, lists of drivers and charts are as old as the program.
		"CATTLE_DEV_MODE=30", "CATTLE_NAMESPACE="+rancherNamespace, "CATTLE_RANCHER_TURTLES_VERSION="+turtlesVersion)
	if p.rancher, err = p.run(cmd, "rancher"); err != nil {
		return err
	}
	return await(ctx, "Rancher", p.ping)
}

// ping asks Rancher whether it serves.
func (p *programs) ping(ctx context.Context) error {
	select {
	case <-p.rancher.Done():
		return fmt.Errorf("rancher has ended with code %d", p.rancher.ExitCode())
	default:
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // who it is does not matter
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url()+"/ping", nil)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(request)
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

func (p *programs) runWebhook(ctx context.Context) error {
	home := filepath.Join(p.dir, "webhook")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	kubeconfig, err := p.writeKubeconfig(home)
	if err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(p.opts.Programs, "bin", "webhook")) //nolint:noctx // it outlives the call
	cmd.Dir = home
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "CATTLE_PORT="+webhookPort, "NAMESPACE="+rancherNamespace, "ENABLE_MCM=true")
	if p.webhook, err = p.run(cmd, webhookName); err != nil {
		return err
	}
	return await(ctx, "somebody to listen where Rancher's webhook is", func(ctx context.Context) error {
		connection, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", net.JoinHostPort(address, webhookPort))
		if err != nil {
			return err
		}
		return connection.Close()
	})
}

// run starts a program that the watchdog knows.
func (p *programs) run(cmd *exec.Cmd, name string) (*process.Process, error) {
	if err := process.Unwrap(filepath.Join(p.dir, name+".run")); err != nil {
		return nil, err
	}
	script, err := process.Wrap(cmd.Path, p.dir, name+".run")
	if err != nil {
		return nil, err
	}
	cmd.Path, cmd.Args[0] = script, script
	cmd.Stdout, cmd.Stderr = p.opts.Out, p.opts.Out
	return process.Start(cmd)
}

// writeKubeconfig gives a program an administrator's access to the management cluster.
func (p *programs) writeKubeconfig(dir string) (string, error) {
	kubeconfig, err := p.Management.Kubeconfig()
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
