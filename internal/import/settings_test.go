package importer

import (
	"runtime"
	"strings"
	"testing"
)

// TestAgentEnvExpandsNothing gives a few kilobytes that a YAML parser would make hundreds of megabytes of, before it sees that they are no map of
// strings. An annotation may be ten times as long, and the product then a hundred times as large.
func TestAgentEnvExpandsNothing(t *testing.T) {
	raw := `A: &a "` + strings.Repeat("s3cret", 3000) + "\"\nB: [" + strings.TrimSuffix(strings.Repeat("*a,", 4000), ",") + "]\n"
	cluster := testCluster(annotated("archelon.io/agent-env", raw))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := desiredRecord(cluster, "c-abcde")
	runtime.ReadMemStats(&after)

	expectStall(t, err, "InvalidSetting", "s3cret")
	if !strings.Contains(err.Error(), "anchors") {
		t.Errorf("the message does not say what to change: %v", err)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 16<<20 {
		t.Errorf("%d bytes of an annotation took %d MiB of memory", len(raw), got>>20)
	}
}

func TestAgentEnv(t *testing.T) {
	cases := map[string]struct {
		reason, value string
		want          int
		refused       bool
	}{
		"Empty":      {reason: "an empty annotation is as none", value: " \n"},
		"EmptyMap":   {reason: "a map may be empty", value: "{}"},
		"Ampersand":  {reason: "an ampersand in a value is no anchor", value: "A: http://p?a=b&c=d\nB: '&a'\nC: \"*a\"", want: 3},
		"Anchor":     {reason: "a single anchor does no harm, but is refused like all", value: "A: &a b\nB: *a", refused: true},
		"Merge":      {reason: "a merge needs an anchor", value: "x: &x {A: b}\n<<: *x", refused: true},
		"Documents":  {reason: "a second document would be left out without a word", value: "A: b\n---\nC: d", refused: true},
		"Duplicates": {reason: "one of two values would win by chance", value: "A: b\nA: c", refused: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			env, err := agentEnv(map[string]string{"archelon.io/agent-env": tc.value})
			if len(env) != tc.want || (err != nil) != tc.refused {
				t.Errorf("%s: got %v, %v", tc.reason, env, err)
			}
		})
	}
}
