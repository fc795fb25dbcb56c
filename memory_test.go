package main

import "testing"

func TestLimitMemory(t *testing.T) {
	for name, tc := range map[string]struct {
		reason      string
		environment map[string]string
		want        int64
	}{
		"None":          {"the container has no limit", nil, 0},
		"Limit":         {"the rest is for what is not the heap", map[string]string{memoryLimit: "536870912"}, 483183801},
		"Administrator": {"an administrator knows better", map[string]string{memoryLimit: "536870912", "GOMEMLIMIT": "100MiB"}, 0},
		"NoNumber":      {"it is no number of bytes", map[string]string{memoryLimit: "512Mi"}, 0},
		"Negative":      {"it is no limit", map[string]string{memoryLimit: "-1"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var got int64
			limitMemory(func(key string) string { return tc.environment[key] }, func(limit int64) int64 { got = limit; return 0 })
			if got/100 != tc.want/100 {
				t.Errorf("%s: got %d, want %d", tc.reason, got, tc.want)
			}
		})
	}
}
