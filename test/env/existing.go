package env

import (
	"errors"

	"k8s.io/client-go/rest"
)

var errExisting = errors.New("the control plane is not one that Start started")

// Existing describes a control plane that somebody else started, such as a cluster of kind.
type Existing struct {
	// Name shows in kubeconfigs and errors.
	Name string
	// Config is that of an administrator.
	Config *rest.Config
	// Server is the URL of the API server for those who get a kubeconfig from KubeconfigFor: Pods reach it
	// elsewhere than this process does.
	Server string
	// Audit returns what the API server has logged, one JSON object per line; nil if nothing is.
	Audit func() ([]byte, error)
}

// Use returns a control plane that exists. Stop leaves it alone, Suspend and User are refused.
func Use(existing Existing) *ControlPlane {
	return &ControlPlane{
		Config:   existing.Config,
		opts:     Options{Name: existing.Name, Audit: existing.Audit != nil},
		existing: &existing,
	}
}

// Server returns the URL of the API server for others than this process.
func (c *ControlPlane) Server() string {
	if c.existing != nil {
		return c.existing.Server
	}
	return c.Config.Host
}
