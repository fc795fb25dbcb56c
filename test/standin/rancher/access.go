package rancher

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// Access is a way to a workload cluster in a form that can be sent and kept. It holds credentials: it is for bodies
// and Secrets, never for logs.
type Access struct {
	Host       string `json:"host"`
	ServerName string `json:"serverName,omitempty"`
	Insecure   bool   `json:"insecure,omitempty"`
	CA         []byte `json:"ca,omitempty"`
	Cert       []byte `json:"cert,omitempty"`
	Key        []byte `json:"key,omitempty"`
	Token      string `json:"token,omitempty"`
	JSON       bool   `json:"json,omitempty"` // the server speaks JSON only
	RealAgent  bool   `json:"realAgent,omitempty"`
	Ephemeral  bool   `json:"ephemeral,omitempty"`
}

// NewAccess returns what a configuration says, with the content of the files that it names.
func NewAccess(config *rest.Config, how ...Workload) (Access, error) {
	if config == nil || config.ExecProvider != nil || config.AuthProvider != nil || config.Username != "" {
		return Access{}, errors.New("the access to a workload cluster has to be a certificate or a token")
	}
	filled := rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(filled); err != nil {
		return Access{}, fmt.Errorf("reading the access to a workload cluster: %w", err)
	}
	if filled.BearerToken == "" && filled.BearerTokenFile != "" {
		token, err := os.ReadFile(filled.BearerTokenFile)
		if err != nil {
			return Access{}, fmt.Errorf("reading the access to a workload cluster: %w", err)
		}
		filled.BearerToken = strings.TrimSpace(string(token))
	}
	out := Access{
		Host: filled.Host, ServerName: filled.ServerName, Insecure: filled.Insecure,
		CA: filled.CAData, Cert: filled.CertData, Key: filled.KeyData, Token: filled.BearerToken,
		JSON: filled.ContentType == runtime.ContentTypeJSON,
	}
	for _, h := range how {
		switch h {
		case RealAgent:
			out.RealAgent = true
		case Ephemeral:
			out.Ephemeral = true
		default:
			return Access{}, fmt.Errorf("unknown kind of workload cluster %q", h)
		}
	}
	return out, nil
}

// Config returns the configuration, and what AddWorkload is to know beside it.
func (a Access) Config() (*rest.Config, []Workload) {
	config := &rest.Config{
		Host:        a.Host,
		BearerToken: a.Token,
		TLSClientConfig: rest.TLSClientConfig{
			ServerName: a.ServerName, Insecure: a.Insecure, CAData: a.CA, CertData: a.Cert, KeyData: a.Key,
		},
	}
	if a.JSON {
		config.ContentType = runtime.ContentTypeJSON
	}
	var how []Workload
	if a.RealAgent {
		how = append(how, RealAgent)
	}
	if a.Ephemeral {
		how = append(how, Ephemeral)
	}
	return config, how
}
