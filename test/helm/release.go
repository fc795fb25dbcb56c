package helm

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Release is what to do with which chart.
type Release struct {
	Name      string
	Namespace string

	// Chart is the path of the chart. It may be relative to the working directory.
	Chart string

	// Values override those of ValuesYAML, which override those of the chart.
	Values     map[string]any
	ValuesYAML string

	// Wait waits until what is installed is ready, what is uninstalled is gone, and Jobs that are no hooks are complete.
	Wait bool

	// Timeout is for each thing that Helm waits for, hooks included; Helm's default is five minutes.
	Timeout time.Duration

	// Args are further arguments, such as --create-namespace or --include-crds, for each command
	// that is run with this Release.
	Args []string
}

// Status is what Helm knows of a release.
type Status struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Version   int    `json:"version"`
	Manifest  string `json:"manifest"`
	Info      struct {
		Status      string `json:"status"`
		Description string `json:"description"`
		Notes       string `json:"notes"`
	} `json:"info"`
}

// Revision is one entry in the history of a release.
type Revision struct {
	Revision    int    `json:"revision"`
	Status      string `json:"status"`
	Chart       string `json:"chart"`
	AppVersion  string `json:"app_version"` //nolint:tagliatelle // it is Helm's
	Description string `json:"description"`
}

// Template renders the chart, without a cluster unless Args say otherwise.
func (h *Helm) Template(ctx context.Context, release Release) ([]unstructured.Unstructured, error) {
	out, err := h.apply(ctx, release, "template")
	if err != nil {
		return nil, err
	}
	return parse([]byte(out))
}

// Lint checks the chart, with its values, as strictly as Helm can.
func (h *Helm) Lint(ctx context.Context, release Release) error {
	return h.withValues(ctx, release, func(args []string) error {
		_, err := h.run(ctx, join([]string{"lint", release.Chart, "--strict"}, args, release.Args)...)
		return err
	})
}

// Install installs the chart.
func (h *Helm) Install(ctx context.Context, release Release) error {
	_, err := h.apply(ctx, release, "install")
	return err
}

// Upgrade upgrades the release to the chart and the values. Values of earlier revisions are forgotten
// unless Args have --reuse-values.
func (h *Helm) Upgrade(ctx context.Context, release Release) error {
	_, err := h.apply(ctx, release, "upgrade")
	return err
}

// Rollback goes back to a revision; 0 is the one before the current one.
func (h *Helm) Rollback(ctx context.Context, release Release, revision int) error {
	_, err := h.run(ctx, join([]string{"rollback", release.Name, strconv.Itoa(revision)}, release.common(), release.waiting(), release.Args)...)
	return err
}

// Uninstall removes the release.
func (h *Helm) Uninstall(ctx context.Context, release Release) error {
	args := release.common()
	if release.Wait {
		args = append(args, "--wait")
	}
	if release.Timeout > 0 {
		args = append(args, "--timeout="+release.Timeout.String())
	}
	_, err := h.run(ctx, join([]string{"uninstall", release.Name}, args, release.Args)...)
	return err
}

// Status returns what Helm knows of the release.
func (h *Helm) Status(ctx context.Context, release Release) (*Status, error) {
	out, err := h.run(ctx, join([]string{"status", release.Name, "--output=json"}, release.common())...)
	if err != nil {
		return nil, err
	}
	status := &Status{}
	if err := json.Unmarshal([]byte(out), status); err != nil {
		return nil, fmt.Errorf("reading the status of release %s: %w", release.Name, err)
	}
	return status, nil
}

// History returns the revisions of the release, oldest first.
func (h *Helm) History(ctx context.Context, release Release) ([]Revision, error) {
	out, err := h.run(ctx, join([]string{"history", release.Name, "--output=json"}, release.common())...)
	if err != nil {
		return nil, err
	}
	var revisions []Revision
	if err := json.Unmarshal([]byte(out), &revisions); err != nil {
		return nil, fmt.Errorf("reading the history of release %s: %w", release.Name, err)
	}
	return revisions, nil
}

// Manifest returns the objects of the current revision, without hooks.
func (h *Helm) Manifest(ctx context.Context, release Release) ([]unstructured.Unstructured, error) {
	out, err := h.run(ctx, join([]string{"get", "manifest", release.Name}, release.common())...)
	if err != nil {
		return nil, err
	}
	return parse([]byte(out))
}

// Notes returns what the chart tells about the current revision.
func (h *Helm) Notes(ctx context.Context, release Release) (string, error) {
	return h.run(ctx, join([]string{"get", "notes", release.Name}, release.common())...)
}

// apply runs one of the commands that make objects of a chart.
func (h *Helm) apply(ctx context.Context, release Release, command string) (out string, err error) {
	err = h.withValues(ctx, release, func(args []string) error {
		out, err = h.run(ctx, join([]string{command, release.Name, release.Chart}, args, release.waiting(), release.Args)...)
		return err
	})
	return out, err
}

// withValues calls do with the arguments that the chart is to be rendered with.
func (h *Helm) withValues(_ context.Context, release Release, do func(args []string) error) error {
	dir, err := os.MkdirTemp(h.path("tmp"), "values-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	values, err := yaml.Marshal(release.Values)
	if err != nil {
		return fmt.Errorf("writing the values of release %s: %w", release.Name, err)
	}
	args := release.common()
	for name, content := range map[string][]byte{"1.yaml": []byte(release.ValuesYAML), "2.yaml": values} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return do(append(args, "--values="+filepath.Join(dir, "1.yaml"), "--values="+filepath.Join(dir, "2.yaml")))
}

func (r Release) common() []string {
	if r.Namespace == "" {
		return nil
	}
	return []string{"--namespace=" + r.Namespace}
}

func (r Release) waiting() []string {
	var args []string
	if r.Wait {
		args = append(args, "--wait", "--wait-for-jobs")
	}
	if r.Timeout > 0 {
		args = append(args, "--timeout="+r.Timeout.String())
	}
	return args
}

func join(parts ...[]string) []string {
	var all []string
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}
