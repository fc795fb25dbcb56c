package importer

import (
	"runtime"
	"strings"
	"testing"
)

// TestAgentEnvExpandsNothing gives a few kilobytes that a YAML parser would make megabytes of, before it sees that
// they are no map of strings.
func TestAgentEnvExpandsNothing(t *testing.T) {
	raw := `A: &a "` + strings.Repeat("s3cret", 600) + "\"\nB: [" + strings.TrimSuffix(strings.Repeat("*a,", 1200), ",") + "]\n"
	cluster := testCluster(annotated("archelon.io/agent-env", raw))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := (Rules{}).desiredRecord(cluster, "c-abcde")
	runtime.ReadMemStats(&after)

	expectStall(t, err, "InvalidSetting", "s3cret")
	if !strings.Contains(err.Error(), "anchors") {
		t.Errorf("the message does not say what to change: %v", err)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("%d bytes of an annotation took %d KiB of memory", len(raw), got>>10)
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
		"Large":      {reason: "the largest that is read", value: "A: " + strings.Repeat("x", 8<<10-3), want: 1},
		"TooLarge":   {reason: "nobody needs as much", value: "A: " + strings.Repeat("x", 8<<10-2), refused: true},
		"Blank":      {reason: "nor as much of nothing", value: strings.Repeat(" ", 9<<10), refused: true},
		"Nested":     {reason: "it is no map of strings", value: "A: " + strings.Repeat("[", 100) + strings.Repeat("]", 100), refused: true},
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

// A tenant may have two hundred such clusters, and each is reconciled whenever its condition is written.
func TestAHostileAgentEnvCostsLittle(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, value string
		most          uint64
	}{
		"Largest":  {"the largest that is parsed", "a: [" + strings.Repeat("{a: b},", (maxAgentEnvBytes-10)/7) + "]", 6 << 20},
		"TooLarge": {"what is larger is not parsed", "a: [" + strings.Repeat("{a: b},", 256<<10/7) + "]", 16 << 10},
	} {
		cluster := testCluster(annotated("archelon.io/agent-env", tc.value))
		for _, most := range []uint64{tc.most, 16 << 10} { // The second time it is known.
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := (Rules{}).desiredRecord(cluster, "c-abcde")
			runtime.ReadMemStats(&after)
			expectStall(t, err, "InvalidSetting", "{a: b}")
			if got := after.TotalAlloc - before.TotalAlloc; got > most {
				t.Errorf("%s: %s takes %d KiB, want at most %d", tc.reason, name, got>>10, most>>10)
			}
		}
	}
}

// Two clusters may have the same environment: what is done to that of one is not done to the other's.
func TestAgentEnvIsNotShared(t *testing.T) {
	for range 2 {
		env, err := agentEnv(map[string]string{"archelon.io/agent-env": "A: b"})
		if err != nil || len(env) != 1 || env[0].Value != "b" {
			t.Fatalf("got %v, %v", env, err)
		}
		env[0].Value = "changed"
	}
}
