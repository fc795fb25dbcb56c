package version

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBuild(t *testing.T) {
	stamped := func(modified string) *debug.BuildInfo {
		return &debug.BuildInfo{
			Main:     debug.Module{Version: "v0.0.0-20260102030405-0123456789ab"},
			Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456"}, {Key: "vcs.modified", Value: modified}},
		}
	}
	tests := map[string]struct {
		version, revision         string
		info                      *debug.BuildInfo
		wantVersion, wantRevision string
	}{
		"the linker comes first": {
			version: "v1.2.3", revision: "abcdef0", info: stamped("false"),
			wantVersion: "v1.2.3", wantRevision: "abcdef0",
		},
		"go build in a checkout": {
			info:        stamped("false"),
			wantVersion: "v0.0.0-20260102030405-0123456789ab", wantRevision: "0123456",
		},
		"go build in a checkout with changes": {
			info:        stamped("true"),
			wantVersion: "v0.0.0-20260102030405-0123456789ab", wantRevision: "0123456-dirty",
		},
		"go install MODULE@VERSION": {
			info:        &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}},
			wantVersion: "v1.2.3", wantRevision: "unknown",
		},
		"go build without a checkout": {
			info:        &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}},
			wantVersion: "devel", wantRevision: "unknown",
		},
		"nothing known": {
			info:        &debug.BuildInfo{},
			wantVersion: "devel", wantRevision: "unknown",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			want := Build{
				Version: test.wantVersion, Revision: test.wantRevision,
				GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
			}
			if diff := cmp.Diff(want, build(test.version, test.revision, test.info)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestText(t *testing.T) {
	build := Build{Version: "v1.2.3", Revision: "abcdef0", GoVersion: "go1.26.8", Platform: "linux/amd64"}
	if got, want := build.String(), "archelon v1.2.3 (abcdef0, go1.26.8, linux/amd64)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := build.UserAgent(), "archelon/v1.2.3 (linux/amd64) abcdef0"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
