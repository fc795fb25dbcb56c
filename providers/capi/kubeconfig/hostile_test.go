package kubeconfig

import (
	"runtime"
	"strings"
	"testing"
)

// hostileTexts are what a tenant may write so that a parser takes as much memory as it can.
func hostileTexts(size int) map[string]string {
	fill := func(piece string) string { return strings.Repeat(piece, size/len(piece)) }
	return map[string]string{
		"FlowLists":    strings.Repeat("[", size/2) + strings.Repeat("]", size/2),
		"BlockLists":   fill(strings.Repeat("- ", 4000) + "a\n"),
		"DeepAndMany":  "a: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "\nb: [" + strings.Repeat("[],", (size-10_100)/3) + "]",
		"ManyLists":    "[" + fill("[],") + "]",
		"ManyMaps":     "a: [" + fill("{},") + "]",
		"ManyWords":    "a: [" + fill("a,") + "]",
		"ManyNested":   "users: [" + fill("{a: {b: {c: {}}}},") + "]",
		"ManyUsers":    "apiVersion: v1\nkind: Config\nusers: [" + fill("{name: a},") + "]",
		"ManyNothings": fill("-\n"),
		"JSON":         `{"a":[` + fill(`{"a":1},`) + "1]}",
	}
}

// allocated returns how many bytes a function allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestAHostileKubeconfigCostsLittle(t *testing.T) {
	for _, tc := range []struct {
		reason string
		size   int
		most   uint64
	}{
		{"the largest that is parsed", MaxBytes - 100, 32 << 20},
		{"what is larger is not parsed", 512 << 10, 16 << 10},
	} {
		for name, text := range hostileTexts(tc.size) {
			raw := []byte(text)
			if got := allocated(func() {
				_, err := RESTConfig(raw, Allow{})
				wantProblem(t, err, "KubeconfigInvalid")
			}); got > tc.most {
				t.Errorf("%s: %s of %d KiB takes %d KiB to refuse, want at most %d", tc.reason, name, tc.size>>10, got>>10, tc.most>>10)
			}
		}
	}
}
