package plainyaml

import (
	"errors"
	"strings"
	"testing"
)

func TestNesting(t *testing.T) {
	nested := func(depth int) []byte { return []byte(strings.Repeat("[", depth) + strings.Repeat("]", depth)) }
	if err := Check(nested(maxDepth)); err != nil {
		t.Errorf("%d levels: %v", maxDepth, err)
	}
	if err := Check(nested(maxDepth + 1)); !errors.Is(err, ErrDepth) {
		t.Errorf("%d levels: got %v, want %v", maxDepth+1, err, ErrDepth)
	}
}
