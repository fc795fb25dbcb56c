package env

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// auditPolicy records who asked for what and how it was answered, without bodies:
// a test's audit log must not become a second home of Secrets. A review of somebody's
// rights holds none, and says nothing without its body.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: RequestResponse
  resources: [{group: authorization.k8s.io, resources: [subjectaccessreviews]}]
- level: Metadata
`

var errNoAudit = errors.New("the control plane was started without Options.Audit")

func (c *ControlPlane) auditLog() string { return filepath.Join(c.dir, "audit.log") }

// configureAudit makes the API server log before it answers, so that a caller
// who has seen the answer finds the event.
func (c *ControlPlane) configureAudit() error {
	policy := filepath.Join(c.dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return fmt.Errorf("writing the audit policy: %w", err)
	}
	c.environment.ControlPlane.GetAPIServer().Configure().
		Set("audit-policy-file", policy).
		Set("audit-log-path", c.auditLog()).
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
	read := func() ([]byte, error) { return os.ReadFile(c.auditLog()) }
	if c.existing != nil {
		read = c.existing.Audit
	}
	raw, err := read()
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	return parseAudit(raw)
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
