package sign

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const (
	releaseTag  = "v9.8.7"
	releaseNote = "A release that nobody makes."
)

// A tag becomes an image and a chart that Helm installs from a registry, with all that is published beside them.
// Whoever does it again gets the same: the chart names the digest of the image.
func TestRelease(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	image, charts := host+"/archelon-io/archelon", host+"/archelon-io/charts"
	variables := []string{"RELEASE_IMAGE=" + image, "RELEASE_CHARTS=" + charts, "IMAGE_PLATFORMS=linux/" + runtime.GOARCH, "HELM_PUSH_FLAGS=--plain-http"}

	clone := tagged(t)
	command(t, clone, "make", append(variables, "release")...)
	released := filepath.Join(clone, "bin", "release")
	checkReleased(t, released)
	pushed := assignments(t, command(t, clone, "make", append([]string{"--no-print-directory", "release-push"}, variables...)...))
	checkPushed(t, pushed, image, charts)
	checkInstallable(t, clone, "oci://"+charts+"/archelon", pushed)
	checkSigned(t, clone, host, variables, pushed)

	again := tagged(t)
	command(t, again, "make", append(variables, "release")...)
	const sums = "checksums.txt"
	if diff := cmp.Diff(readText(t, released, sums), readText(t, filepath.Join(again, "bin", "release"), sums)); diff != "" {
		t.Errorf("two releases of one commit differ (-first +second):\n%s", diff)
	}
}

// tagged returns a checkout of the sources as they are, with one commit, a tag, and what the changelog says of it.
func tagged(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	from := os.DirFS(filepath.Join("..", ".."))
	err := fs.WalkDir(from, ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case slices.Contains([]string{".git", "bin", "_output"}, path):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil // of a worktree, .git is a file
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(dir, path), 0o755)
		case !entry.Type().IsRegular():
			return nil
		}
		content, err := fs.ReadFile(from, path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, path), content, info.Mode())
	})
	if err != nil {
		t.Fatal(err)
	}
	changelog := readText(t, dir, "CHANGELOG.md")
	section := "## [" + strings.TrimPrefix(releaseTag, "v") + "] - 2030-01-02\n\n### Added\n\n- " + releaseNote + "\n"
	if err := os.WriteFile(filepath.Join(dir, "CHANGELOG.md"), []byte(changelog+"\n"+section), 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, dir, "git", "init", "--quiet")
	command(t, dir, "git", "add", "--all")
	command(t, dir, "git", "commit", "--quiet", "--message=Release")
	command(t, dir, "git", "tag", releaseTag)
	return dir
}

// command runs a program in a directory, with nothing of the user's git, and returns what it prints.
func command(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	out, err := try(t, dir, nil, program, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// try is the same for what may fail, with more variables in the environment.
func try(t *testing.T, dir string, variables []string, program string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	const when, who, where = "2030-01-02T03:04:05Z", "nobody", "nobody@example.com"
	cmd.Env = append(os.Environ(),
		"GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull,
		"GIT_AUTHOR_NAME="+who, "GIT_AUTHOR_EMAIL="+where, "GIT_AUTHOR_DATE="+when,
		"GIT_COMMITTER_NAME="+who, "GIT_COMMITTER_EMAIL="+where, "GIT_COMMITTER_DATE="+when,
		// Those of the make that runs the test are not for the one that is tested.
		"MAKEFLAGS=", "MAKEOVERRIDES=", "MFLAGS=",
	)
	cmd.Env = append(cmd.Env, variables...)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", program, strings.Join(args, " "), err, out.Bytes(), complaints.Bytes())
	}
	return out.String(), nil
}

func readText(t *testing.T, dir, file string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// assignments reads lines of the form key=value.
func assignments(t *testing.T, lines string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for line := range strings.Lines(lines) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok {
			t.Fatalf("%q is no assignment, of:\n%s", line, lines)
		}
		found[key] = value
	}
	return found
}

// checkReleased looks at the files of a release.
func checkReleased(t *testing.T, dir string) {
	t.Helper()
	program := "archelon-linux-" + runtime.GOARCH
	want := []string{"archelon-" + strings.TrimPrefix(releaseTag, "v") + ".tgz", program, program + ".spdx.json"}
	sums := map[string]string{}
	for line := range strings.Lines(readText(t, dir, "checksums.txt")) {
		fields := strings.Fields(line)
		if len(fields) != 2 {
			t.Fatalf("checksums.txt has the line %q", line)
		}
		sums[fields[1]] = fields[0]
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(sums))); diff != "" {
		t.Errorf("files with a checksum (-want +got):\n%s", diff)
	}
	for file, sum := range sums {
		if hash := sha256.Sum256([]byte(readText(t, dir, file))); hex.EncodeToString(hash[:]) != sum {
			t.Errorf("the checksum of %s is not that of the file", file)
		}
	}
	files := strings.Fields(command(t, dir, "tar", "--list", "--file="+want[0]))
	for file, packed := range map[string]bool{"questions.yaml": true, "app-readme.md": true, "values.schema.json": true, "tests/notes_test.yaml": false, "README.md.gotmpl": false} {
		if slices.Contains(files, "archelon/"+file) != packed {
			t.Errorf("%s is in the chart: %t, of %v", file, !packed, files)
		}
	}
	if out := command(t, dir, "./"+program, "--version"); !strings.HasPrefix(out, "archelon "+releaseTag+" (") {
		t.Errorf("the program is %q", out)
	}
	if notes := readText(t, filepath.Dir(dir), "release-notes.md"); notes != "### Added\n\n- "+releaseNote+"\n" {
		t.Errorf("the notes are %q", notes)
	}
}

// checkPushed wants the registry to have what "make release-push" prints.
func checkPushed(t *testing.T, pushed map[string]string, image, charts string) {
	t.Helper()
	want := map[string]string{}
	for what, reference := range map[string]string{"image": image + ":" + releaseTag, "chart": charts + "/archelon:" + strings.TrimPrefix(releaseTag, "v")} {
		ref, err := name.ParseReference(reference)
		if err != nil {
			t.Fatal(err)
		}
		got, err := remote.Head(ref, remote.WithContext(t.Context()))
		if err != nil {
			t.Fatalf("%s: %v", reference, err)
		}
		want[what] = ref.Context().Digest(got.Digest.String()).String()
	}
	if diff := cmp.Diff(want, pushed); diff != "" {
		t.Errorf("what was pushed (-want +got):\n%s", diff)
	}
}

// checkInstallable wants Helm to get the chart from the registry and to make of it, without any values, a
// Deployment of an image that is there.
func checkInstallable(t *testing.T, clone, chart string, pushed map[string]string) {
	t.Helper()
	helm := func(args ...string) string {
		return command(t, clone, "go", append([]string{"tool", "-modfile=hack/chart/go.mod", "helm"}, args...)...)
	}
	plain := []string{chart, "--plain-http", "--version=" + strings.TrimPrefix(releaseTag, "v")}
	rendered := helm(append([]string{"template", "archelon", "--namespace=archelon-system", "--kube-version=1.36.3"}, plain...)...)
	repository, _, _ := strings.Cut(pushed["image"], "@")
	image := repository + ":" + releaseTag
	if !strings.Contains(rendered, fmt.Sprintf("image: %q", image)) {
		t.Errorf("no Deployment has the image %s:\n%s", image, rendered)
	}
	ref, err := name.ParseReference(image)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(ref, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Errorf("%s is not valid: %v", image, err)
	}
	described := helm(append([]string{"show", "chart"}, plain...)...)
	for _, line := range []string{
		"archelon.io/image: " + pushed["image"], "appVersion: " + strings.TrimPrefix(releaseTag, "v"), releaseNote,
	} {
		if !strings.Contains(described, line) {
			t.Errorf("the chart lacks %q:\n%s", line, described)
		}
	}
}
