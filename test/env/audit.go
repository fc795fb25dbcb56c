package env

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// auditPolicy records who asked for what and how it was answered, without bodies:
// a test's audit log must not become a second home of Secrets. A review of somebody's
// rights holds none, and says nothing without its body; nor do hosts and CAPI Clusters
// hold any, and whose they were is only in what was written to them.
func auditPolicy(users []string) auditv1.Policy {
	return auditv1.Policy{
		TypeMeta:   metav1.TypeMeta{APIVersion: auditv1.SchemeGroupVersion.String(), Kind: "Policy"},
		OmitStages: []auditv1.Stage{auditv1.StageRequestReceived},
		Rules: []auditv1.PolicyRule{
			{
				Level: auditv1.LevelRequestResponse, Users: users,
				Resources: []auditv1.GroupResources{{Group: authorizationv1.GroupName, Resources: []string{"subjectaccessreviews"}}},
			},
			{
				Level: auditv1.LevelRequest, Users: users, Verbs: []string{"patch", "update"},
				Resources: []auditv1.GroupResources{
					{Group: "metal3.io", Resources: []string{"baremetalhosts"}}, {Group: "cluster.x-k8s.io", Resources: []string{"clusters"}},
				},
			},
			{Level: auditv1.LevelMetadata, Users: users},
		},
	}
}

// auditMaxMiB is the size at which the API server would begin another log. What was before that would be missed.
const auditMaxMiB = 16 << 10

var errNoAudit = errors.New("the control plane was started without Options.Audit")

func (c *ControlPlane) auditLog() string { return filepath.Join(c.dir, "audit.log") }

// configureAudit makes the API server log before it answers, so that a caller
// who has seen the answer finds the event.
func (c *ControlPlane) configureAudit() error {
	policy := filepath.Join(c.dir, "audit-policy.yaml")
	raw, err := json.Marshal(auditPolicy(c.opts.AuditUsers))
	if err != nil {
		return fmt.Errorf("building the audit policy: %w", err)
	}
	if err := os.WriteFile(policy, raw, 0o600); err != nil {
		return fmt.Errorf("writing the audit policy: %w", err)
	}
	c.environment.ControlPlane.GetAPIServer().Configure().
		Set("audit-policy-file", policy).
		Set("audit-log-path", c.auditLog()).
		Set("audit-log-maxsize", strconv.Itoa(auditMaxMiB)).
		Set("audit-log-mode", "blocking-strict")
	return nil
}

// AuditEvents returns the requests that the API server has logged so far, oldest
// first, each with its user and the code of its answer. A watch is there once
// when it starts and again when it ends. It is an error to ask without
// Options.Audit.
func (c *ControlPlane) AuditEvents() ([]auditv1.Event, error) {
	if !c.opts.Audit {
		return nil, errNoAudit
	}
	if c.existing != nil {
		raw, err := c.existing.Audit()
		if err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		return parseAudit(raw)
	}
	// Tests ask many times a second, so each line is read once.
	c.auditing.Lock()
	defer c.auditing.Unlock()
	raw, err := readFrom(c.auditLog(), c.audited)
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	raw = raw[:bytes.LastIndexByte(raw, '\n')+1]
	events, err := parseAudit(raw)
	if err != nil {
		return nil, err
	}
	c.audited += int64(len(raw))
	c.events = append(c.events, events...)
	return slices.Clone(c.events), nil
}

// readFrom reads a file from some byte on.
func readFrom(path string, from int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(from, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(file)
}

// parseAudit reads one JSON object per line and ignores a last line that the API
// server is still writing.
func parseAudit(raw []byte) ([]auditv1.Event, error) {
	lines := bytes.SplitAfter(raw, []byte("\n"))
	events := make([]auditv1.Event, 0, len(lines))
	for number, line := range lines {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var event auditv1.Event
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("parsing line %d of the audit log: %w", number+1, err)
		}
		events = append(events, event)
	}
	return events, nil
}
