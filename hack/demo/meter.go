package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/stage"
)

const (
	// meterFile is the variable of the environment that names a file for the metrics of a story. What is in it stays.
	meterFile  = "ARCHELON_DEMO_METRICS"
	meterEvery = time.Second
	// meterLast is how long what a story has come to is noted.
	meterLast = 15 * time.Second
	// metricsReader is who reads them.
	metricsReader = "metrics-reader"
)

// meter notes what the manager of a story says in its metrics, each second, as Prometheus would. The picture of
// the dashboard is made of it.
type meter struct {
	out  io.WriteCloser
	end  context.CancelFunc
	done sync.WaitGroup
}

// follow begins to note the metrics of a manager. It does nothing unless a file is named for them.
func (m *meter) follow(ctx context.Context, in *stage.Stage, manager *stage.Manager) error {
	name := os.Getenv(meterFile)
	if name == "" || m.out != nil {
		return nil
	}
	meta := metav1.ObjectMeta{Name: metricsReader, Namespace: metav1.NamespaceDefault}
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: meta},
		&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: meta.Name}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
		},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: meta.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: meta.Name, Namespace: meta.Namespace}},
		},
	} {
		if err := in.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("creating who reads metrics: %w", err)
		}
	}
	reader, err := in.Management.ServiceAccountConfig(ctx, meta.Namespace, meta.Name)
	if err != nil {
		return err
	}
	if m.out, err = os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return fmt.Errorf("opening the file for metrics: %w", err)
	}
	ctx, m.end = context.WithCancel(context.WithoutCancel(ctx))
	m.done.Go(func() {
		ticker := time.NewTicker(meterEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				m.note(ctx, manager.Metrics, reader.BearerToken)
			case <-manager.Done():
				return
			case <-ctx.Done():
				return
			}
		}
	})
	return nil
}

// note writes what the metrics are now, below a line with the time. What cannot be read is not noted,
// as while the manager starts.
func (m *meter) note(ctx context.Context, url, token string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return
	}
	request.Header.Set("Authorization", "Bearer "+token)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // the manager signs its own
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return
	}
	defer func() { _ = response.Body.Close() }()
	if body, err := io.ReadAll(response.Body); err == nil && response.StatusCode == http.StatusOK {
		_, _ = fmt.Fprintf(m.out, "# AT %d\n%s", time.Now().UnixMilli(), body) // a picture with a gap is better than no story
	}
}

// finish notes for a while how things are now, and nothing of what follows.
func (m *meter) finish(ctx context.Context) error {
	if m.end == nil {
		return nil
	}
	select {
	case <-time.After(meterLast):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return m.stop()
}

// stop ends it.
func (m *meter) stop() error {
	if m.end == nil {
		return nil
	}
	m.end()
	m.done.Wait()
	m.end = nil
	return m.out.Close()
}
