package sign

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	organisation = "archelon-io"
	workflow     = "/archelon/.github/workflows/release.yaml@refs/tags/" + releaseTag

	provenance = "https://slsa.dev/provenance/v1"
	materials  = "https://spdx.dev/Document"
)

// checkSigned has the workflow sign what was pushed, and runs what users are told to run: with that, and with
// what is not to pass for it.
func checkSigned(t *testing.T, clone, host string, variables []string, pushed map[string]string) {
	t.Helper()
	s := newSigstore(t)
	// As a program, because go tool takes seconds to see each time that it need not be built again.
	cosign := filepath.Join(t.TempDir(), "cosign")
	command(t, ".", "go", "build", "-o", cosign, "github.com/sigstore/cosign/v3/cmd/cosign")
	variables = append(variables, "COSIGN="+cosign, "COSIGN_FLAGS=--signing-config="+s.signingConfig()+" --trusted-root="+s.trustedRoot())
	sign := append(slices.Clone(variables), "release-sign")
	if out, err := try(t, clone, nil, "make", sign...); err == nil {
		t.Fatalf("whoever is no workflow can sign:\n%s", out)
	}
	if _, err := try(t, clone, s.job(organisation+workflow), "make", sign...); err != nil {
		t.Fatal(err)
	}
	verify := documented(t, clone, host, cosign, s.trustedRoot())
	if err := verify(organisation + "/archelon"); err != nil {
		t.Fatalf("a release does not pass: %v", err)
	}
	refuse := func(image, because string) {
		t.Helper()
		if err := verify(image); err == nil || !strings.Contains(err.Error(), because) {
			t.Errorf("%s is refused with %v, want: %s", image, err, because)
		}
	}

	released, index, attached := attachments(t, pushed["image"])
	put(t, released, host+"/copy/archelon", index, attached)
	if err := verify("copy/archelon"); err != nil {
		t.Errorf("a copy does not pass: %v", err)
	}
	changed, _ := mutate.Annotations(index, map[string]string{"changed": "yes"}).(v1.ImageIndex)
	put(t, released, host+"/changed/archelon", changed, attached)
	refuse("changed/archelon", "artifact digest")
	put(t, released, host+"/unsigned/archelon", index, nil)
	refuse("unsigned/archelon", "no signatures found")
	for missing, flag := range map[string]string{provenance: "slsaprovenance1", materials: "spdxjson"} {
		rest := slices.DeleteFunc(slices.Clone(attached), func(each v1.Descriptor) bool {
			return each.Annotations["dev.sigstore.bundle.predicateType"] == missing
		})
		if len(rest) != len(attached)-1 {
			t.Fatalf("the image has %v attached, which is not one of type %s", attached, missing)
		}
		put(t, released, host+"/incomplete/archelon", index, rest)
		refuse("incomplete/archelon", "none of the attestations matched the predicate type: "+flag)
	}

	sums := filepath.Join(clone, "bin", "release", "checksums.txt")
	content := readText(t, filepath.Dir(sums), filepath.Base(sums))
	if err := os.WriteFile(sums, []byte(content+strings.Repeat("0", 64)+"  archelon-other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	refuse(organisation+"/archelon", "artifact digest")
	if err := os.WriteFile(sums, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}

	// The same workflow in a fork, with what it has pushed elsewhere.
	variables = append(variables, "RELEASE_IMAGE="+host+"/fork/archelon", "RELEASE_CHARTS="+host+"/fork/charts")
	if _, err := try(t, clone, s.job("fork"+workflow), "make", append(variables, "release-push", "release-sign")...); err != nil {
		t.Fatal(err)
	}
	refuse("fork/archelon", "failed to verify certificate identity")
}

// documented returns what the documentation says to run, with another image, the registry and
// the trust root of the test.
func documented(t *testing.T, clone, host, cosign, trustedRoot string) func(image string) error {
	t.Helper()
	page := readText(t, filepath.Join(clone, "docs", "development"), "release.md")
	found := regexp.MustCompile("(?s)## Verify a release\n.*?```sh\n(.*?)```").FindStringSubmatch(page)
	if found == nil {
		t.Fatal("the documentation does not say how to verify a release")
	}
	programs := t.TempDir()
	trusting := fmt.Sprintf("#!/bin/sh\ncommand=$1\nshift\nexec '%s' \"$command\" --trusted-root='%s' \"$@\"\n", cosign, trustedRoot)
	if err := os.WriteFile(filepath.Join(programs, "cosign"), []byte(trusting), 0o700); err != nil {
		t.Fatal(err)
	}
	return func(image string) error {
		script := strings.NewReplacer(
			"ghcr.io/"+organisation+"/archelon:", host+"/"+image+":", "ghcr.io/", host+"/", "1.2.3", strings.TrimPrefix(releaseTag, "v"),
		).Replace(found[1])
		_, err := try(t, filepath.Join(clone, "bin", "release"), []string{"PATH=" + programs + ":" + os.Getenv("PATH")}, "bash", "-euc", script)
		return err
	}
}

// attachments returns an image, and what is attached to it.
func attachments(t *testing.T, image string) (name.Repository, v1.ImageIndex, []v1.Descriptor) {
	t.Helper()
	digest, err := name.NewDigest(image)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(digest, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	list, err := remote.Referrers(digest, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := list.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for i, each := range manifest.Manifests { // a list that the client keeps itself, as the registry has none, lacks the annotations
		one, err := remote.Get(digest.Context().Digest(each.Digest.String()), remote.WithContext(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		attached, err := v1.ParseManifest(bytes.NewReader(one.Manifest))
		if err != nil {
			t.Fatal(err)
		}
		manifest.Manifests[i].Annotations = attached.Annotations
	}
	return digest.Context(), index, manifest.Manifests
}

// put pushes an image, and attaches to it what was attached to another one.
func put(t *testing.T, from name.Repository, to string, index v1.ImageIndex, attached []v1.Descriptor) {
	t.Helper()
	repository, err := name.NewRepository(to)
	if err != nil {
		t.Fatal(err)
	}
	list := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, each := range attached {
		image, err := remote.Image(from.Digest(each.Digest.String()), remote.WithContext(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		list = mutate.AppendManifests(list, mutate.IndexAddendum{Add: image, Descriptor: each})
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	for tag, content := range map[string]v1.ImageIndex{releaseTag: index, strings.Replace(digest.String(), ":", "-", 1): list} {
		if err := remote.WriteIndex(repository.Tag(tag), content, remote.WithContext(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
}
