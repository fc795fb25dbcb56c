package capi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// debugServer is where the infrastructure provider tells of its workload clusters.
const debugServer = "http://127.0.0.1:19000"

// APIServer returns where the API server of a workload cluster listens, host and port. It is an error while the
// cluster has no infrastructure yet.
func (c *Controllers) APIServer(ctx context.Context, cluster types.NamespacedName) (string, error) {
	var info struct{ Port int }
	raw, err := debug(ctx, http.MethodGet, fmt.Sprintf("/clusters/%s/%s", cluster.Namespace, cluster.Name), "")
	if err != nil {
		return "", fmt.Errorf("asking for the API server of %s: %w", cluster, err)
	}
	if err := json.Unmarshal(raw, &info); err != nil {
		return "", fmt.Errorf("reading about the API server of %s: %w", cluster, err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(info.Port)), nil
}

// StopAPIServer ends all connections to the API server of a workload cluster and takes no more.
func (c *Controllers) StopAPIServer(ctx context.Context, cluster types.NamespacedName) error {
	return c.switchAPIServer(ctx, cluster, "stop")
}

// StartAPIServer undoes StopAPIServer.
func (c *Controllers) StartAPIServer(ctx context.Context, cluster types.NamespacedName) error {
	return c.switchAPIServer(ctx, cluster, "start")
}

func (c *Controllers) switchAPIServer(ctx context.Context, cluster types.NamespacedName, action string) error {
	if _, err := debug(ctx, http.MethodPost, fmt.Sprintf("/clusters/%s/%s/listener", cluster.Namespace, cluster.Name), action); err != nil {
		return fmt.Errorf("trying to %s the API server of %s: %w", action, cluster, err)
	}
	return nil
}

// debug asks the debug server.
func debug(ctx context.Context, method, path, body string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, debugServer+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", response.Status, raw)
	}
	return raw, nil
}
