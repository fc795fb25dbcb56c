package terminal

import "testing"

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"plain":                   "plain",
		"two\nlines\tand a tab":   "two lines and a tab",
		"\x1b[2J\u202egone\u0000": "\ufffd[2J\ufffdgone\ufffd",
	} {
		if got := Printable(text); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
