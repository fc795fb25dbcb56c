package check

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/rancher"
)

const (
	serverURLID   = "rancher-server-url"
	trustID       = "rancher-trust"
	certificateID = "rancher-certificate"
)

// expiresSoon is how long before its end a certificate is reported.
const expiresSoon = 14 * 24 * time.Hour

// rancher looks at the settings that an import depends on, and at who answers under Rancher's address.
func (c *checker) rancher(ctx context.Context) []Finding {
	if c.remote() && c.elsewhere == nil {
		return nil // That it was not reached has been said.
	}
	settings, err := rancher.NewSettings(c.settings)
	if err != nil {
		return []Finding{unseen(serverURLID, "Rancher's settings", err)}
	}
	server, err := settings.ServerURL(ctx)
	if err != nil {
		return []Finding{ofProblem(serverURLID, err)}
	}
	found := []Finding{judgeHost(server)}
	trust, err := settings.Trust(ctx)
	if err != nil {
		return append(found, ofProblem(trustID, err))
	}
	found = append(found, Finding{ID: trustID, State: OK, Message: "Agents trust " + trust.String() + "."})
	ends, err := c.downloader.Reach(ctx, server, trust)
	if err != nil {
		return append(found, ofProblem(certificateID, err))
	}
	return append(found, judgeCertificate(ends, c.now()))
}

// ofProblem is the finding of what stops an import as well.
func ofProblem(id string, err error) Finding {
	var problem *outcome.Problem
	if !errors.As(err, &problem) {
		return unseen(id, "Rancher", err)
	}
	if problem.Err != nil { // It was not read.
		return unseen(id, "Rancher's settings", problem.Err)
	}
	what, remedy, _ := strings.Cut(problem.Message, ": ")
	return Finding{ID: id, State: Error, Message: sentence(what), Remedy: sentence(remedy)}
}

// sentence has a text begin and end as one.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// judgeHost says whether workload clusters could find Rancher under its address.
func judgeHost(server *url.URL) Finding {
	host := strings.TrimSuffix(strings.ToLower(server.Hostname()), ".")
	ip := net.ParseIP(host)
	// The rest of the URL means nothing to agents, and may hold anything.
	at := "https://" + server.Host
	f := Finding{ID: serverURLID, State: OK, Message: fmt.Sprintf("Rancher's setting server-url is %s.", at)}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") || strings.HasSuffix(host, ".svc") || strings.HasSuffix(host, ".cluster.local") ||
		ip == nil && !strings.Contains(host, ".") || ip != nil && (ip.IsLoopback() || ip.IsUnspecified() || ip.IsLinkLocalUnicast()) {
		f.State = Warning
		f.Message = fmt.Sprintf("Rancher's setting server-url is %s, which workload clusters hardly find.", at)
		f.Remedy = "Set it to an address that workload clusters can reach. Agents get it from there."
	}
	return f
}

// judgeCertificate says how long the certificate at Rancher's address is good for.
func judgeCertificate(ends, now time.Time) Finding {
	left := ends.Sub(now)
	f := Finding{ID: certificateID, State: OK, Message: fmt.Sprintf("Rancher answers, and its certificate is trusted for another %s.", duration.HumanDuration(left))}
	if left < expiresSoon {
		f.State, f.Remedy = Warning, "Renew it. Agents lose their connection when it ends."
	}
	return f
}
