package env

import (
	"fmt"
	"os"
)

// Lend returns the same control plane for somebody who is one of several, one after the other. Its audit log begins
// now. Stop leaves it running and calls ended: only the lender's own Stop ends it.
func (c *ControlPlane) Lend(name string, ended func()) (*ControlPlane, error) {
	if c.existing != nil {
		return nil, errExisting
	}
	lent := &ControlPlane{Config: c.Config, opts: c.opts, dir: c.dir, environment: c.environment, manager: c.manager, watchdog: c.watchdog, ended: ended}
	lent.opts.Name = name
	if c.opts.Audit {
		log, err := os.Stat(c.auditLog())
		if err != nil {
			return nil, fmt.Errorf("looking at the audit log: %w", err)
		}
		lent.audited = log.Size()
	}
	return lent, nil
}
