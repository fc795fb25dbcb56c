package importer

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/agent"
	"github.com/archelon-io/archelon/internal/outcome"
)

// Each cause has a text of its own, which fits into an Event, and a reason. It says what to do.
func TestCausesAreExplained(t *testing.T) {
	texts := map[string]agent.Cause{}
	for _, cause := range causes(t) {
		reason, text := reasonOf(cause), explain(cause)
		if cause == agent.Unknown {
			if reason != "" || text != "" {
				t.Errorf("no cause has the reason %q and the text %q", reason, text)
			}
			continue
		}
		if other, twice := texts[text]; twice || text == "" || reason == "" {
			t.Errorf("%s has the reason %q and the text %q, as %q", cause, reason, text, other)
		}
		texts[text] = cause
		if len(agentNotConnected+text) > maxNote {
			t.Errorf("%s: the text has %d bytes", cause, len(agentNotConnected+text))
		}
		if strings.HasSuffix(text, ".") || !strings.Contains(text, ". ") || strings.Contains(text, "--agent-") {
			t.Errorf("%s: a cause, an action, no full stop at the end, and no flag: %s", cause, text)
		}
	}
	if len(texts) < 20 {
		t.Errorf("found %d causes", len(texts))
	}
}

// causes returns the constants of the type.
func causes(t *testing.T) []agent.Cause {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "agent", "cause.go"), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var found []agent.Cause
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if identifier, named := spec.Type.(*ast.Ident); !named || identifier.Name != "Cause" {
			return true
		}
		for _, value := range spec.Values {
			if literal, is := value.(*ast.BasicLit); is {
				text, _ := strconv.Unquote(literal.Value)
				found = append(found, agent.Cause(text))
			}
		}
		return true
	})
	return found
}

// What was found becomes the reason of an agent that never connected. One that was lost is lost.
func TestACauseIsTold(t *testing.T) {
	found := outcome.Outcome{Reason: archelonv1.AgentUnschedulableReason, Message: explain(agent.NoNodes), After: time.Minute}
	for name, tc := range map[string]struct {
		known  bool
		result outcome.Outcome
		want   string
		says   string
	}{
		"New":        {result: found, want: archelonv1.AgentUnschedulableReason, says: agentNotConnected + explain(agent.NoNodes)},
		"NewUnknown": {result: outcome.DoneFor(time.Minute), want: archelonv1.WaitingForAgentReason, says: "Waiting for its connection to Rancher"},
		"Lost":       {known: true, result: found, want: archelonv1.AgentDisconnectedReason, says: agentLost + explain(agent.NoNodes)},
		"LostNoWord": {known: true, result: outcome.DoneFor(time.Minute), want: archelonv1.AgentDisconnectedReason, says: agentDisconnected},
	} {
		t.Run(name, func(t *testing.T) {
			d := &deciding{Observation: &Observation{}, findings: findings{management: &managementCluster{known: tc.known}}}
			d.ended, d.result = true, tc.result
			out := d.workDone().Outcome
			if out.Kind != outcome.KindPoll || out.Reason != tc.want || !strings.Contains(out.Message, tc.says) || out.After != time.Minute {
				t.Errorf("got %+v, want %s: %s", out, tc.want, tc.says)
			}
			if troubled(out) == slices.Contains(onTheWay, out.Reason) {
				t.Errorf("%s is progress and deserves a warning, or neither", out.Reason)
			}
		})
	}
}
