package main

import (
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// written is what was printed. Several may print at the same time.
type written struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func TestTogether(t *testing.T) {
	out, met, commands := &written{}, make(chan struct{}), make(chan string, 4)
	r := &runs{out: out, run: func(out io.Writer, command ...string) (time.Duration, error) {
		target := command[len(command)-1]
		commands <- strings.Join(command, " ")
		switch target { // Neither of the two ends without the other.
		case "lint":
			met <- struct{}{}
		case "api":
			<-met
		}
		_, err := io.WriteString(out, target+" says\n"+target+" is done\n")
		return time.Second, err
	}}
	r.together("nice lint unit + api")
	r.together("e2e")
	text := out.text.String()
	for _, want := range []string{"lint says\n", "unit says\n", "\nmake api, beside the above:\napi says\napi is done\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %q", want, text)
		}
	}
	if !strings.HasSuffix(text, "e2e says\ne2e is done\n") {
		t.Errorf("the last is not the last in %q", text)
	}
	var ran []string
	for _, tier := range r.tiers {
		ran = append(ran, tier.what+" "+tier.used.String())
	}
	close(commands)
	var ranBy []string
	for command := range commands {
		ranBy = append(ranBy, command)
	}
	slices.Sort(ranBy)
	if want := []string{
		"make --no-print-directory api", "make --no-print-directory e2e", "nice make --no-print-directory lint", "nice make --no-print-directory unit",
	}; !slices.Equal(ranBy, want) {
		t.Errorf("ran %q", ranBy)
	}
	if slices.Sort(ran); !slices.Equal(ran, []string{"api 1s", "e2e 1s", "lint 1s", "unit 1s"}) || r.failed != nil {
		t.Errorf("ran %q, failed %v", ran, r.failed)
	}
}

func TestTogetherFails(t *testing.T) {
	out, begun, failed := &written{}, make(chan struct{}), make(chan struct{})
	r := &runs{out: out}
	r.run = func(out io.Writer, command ...string) (time.Duration, error) {
		if command[len(command)-1] == "api" {
			<-begun // A target that has yet to begin when this fails does not begin.
			_, _ = io.WriteString(out, "api is wrong\n")
			close(failed)
			return 0, errors.New("exit status 2")
		}
		close(begun)
		<-failed
		return 0, nil
	}
	r.together("lint + api workload")
	r.together("e2e")
	if r.failed == nil || r.failed.Error() != "make api: exit status 2" {
		t.Errorf("got error %v", r.failed)
	}
	if diff := cmp.Diff("\nmake api, beside the above:\napi is wrong\n", out.text.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(r.tiers) != 2 {
		t.Errorf("ran %v, want the two that had begun", r.tiers)
	}
}
