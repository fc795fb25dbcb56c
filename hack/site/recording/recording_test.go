package recording

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func TestReel(t *testing.T) {
	now := time.Unix(0, 0)
	var shown bytes.Buffer
	reel := &Reel{Title: "a & b", Copy: &shown, Now: func() time.Time { return now }}
	say := func(after time.Duration, text string) {
		now = now.Add(after)
		if n, err := reel.Write([]byte(text)); n != len(text) || err != nil {
			t.Fatalf("wrote %d of %d: %v", n, len(text), err)
		}
	}
	say(0, "Act 1\n")
	say(time.Second, "  $ kubectl get <all>\n  half ")
	say(time.Hour, "a line\n")
	say(0, "  + 1.50s orders "+strings.Repeat("x", columns)+"\n")

	if want := "Act 1\n  $ kubectl get <all>\n  half a line\n  + 1.50s orders "; !strings.HasPrefix(shown.String(), want) {
		t.Errorf("what was shown is %q", shown.String())
	}
	at, all := moments(reel.lines)
	if want := []time.Duration{0, time.Second, time.Second + longest, time.Second + longest + reading}; len(at) != len(want) || at[1] != want[1] || at[2] != want[2] || at[3] != want[3] {
		t.Errorf("lines appear at %v, want %v", at, want)
	} else if all != at[3]+end {
		t.Errorf("it lasts %v", all)
	}

	svg := string(reel.SVG())
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		`class="head" y="13">Act 1<`, `class="command" y="30">  $ kubectl get &lt;all&gt;<`, ">  half a line<", `class="step" y="64">  + 1.50s orders x`,
		`y="81">x`, // what did not fit
		"prefers-reduced-motion", "a &amp; b",
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
}
