// Package version says what this program was built from.
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// Set by the linker: see LDFLAGS in the Makefile.
//
//nolint:gochecknoglobals // the linker sets variables only
var (
	version  string
	revision string
)

// Build is what a program was built from, and for what.
type Build struct {
	// Version is a tag, perhaps with the distance to it, or a version that Go made up.
	Version string
	// Revision is the commit, with -dirty when there was more than it.
	Revision string
	// GoVersion is the version of Go.
	GoVersion string
	// Platform is operating system and processor.
	Platform string
}

// Get is the build of this program: what the linker was told, else what Go found out by itself.
func Get() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return build(version, revision, info)
}

func build(version, revision string, info *debug.BuildInfo) Build {
	settings := map[string]string{}
	for _, setting := range info.Settings {
		settings[setting.Key] = setting.Value
	}
	commit := settings["vcs.revision"]
	if commit != "" && settings["vcs.modified"] == "true" {
		commit += "-dirty"
	}
	module := info.Main.Version
	if module == "(devel)" {
		module = ""
	}
	return Build{
		Version:   cmp.Or(version, module, "devel"),
		Revision:  cmp.Or(revision, commit, "unknown"),
		GoVersion: runtime.Version(),
		Platform:  runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// String is for people.
func (b Build) String() string {
	return fmt.Sprintf("archelon %s (%s, %s, %s)", b.Version, b.Revision, b.GoVersion, b.Platform)
}

// UserAgent names the program to API servers, as Kubernetes' own programs name themselves.
func (b Build) UserAgent() string {
	return fmt.Sprintf("archelon/%s (%s) %s", b.Version, b.Platform, b.Revision)
}
