package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"
)

const (
	module  = "github.com/archelon-io/archelon"
	license = "Apache-2.0"

	documentID   = "DOCUMENT"
	noAssertion  = "NOASSERTION"
	purposeImage = "CONTAINER"
	purposeMain  = "APPLICATION"
	purposePart  = "LIBRARY"
)

// bom is the bill of materials of an image in SPDX: the modules that Go recorded in its binary.
func (r recipe) bom(platform v1.Platform, image v1.Image, binary string) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	digest, err := image.Digest()
	if err != nil {
		return nil, err
	}
	d := &spdx.Document{
		SPDXVersion:    spdx.Version,
		DataLicense:    spdx.DataLicense,
		SPDXIdentifier: documentID,
		DocumentName:   fmt.Sprintf("%s %s %s", r.program, r.version, platform),
		// It is to be different for each document, not to be fetched.
		DocumentNamespace: fmt.Sprintf("https://%s/spdx/%s", module, digest.Hex),
		CreationInfo: &spdx.CreationInfo{
			Creators: []spdx.Creator{{CreatorType: "Tool", Creator: module + "/hack/image"}},
			Created:  r.created.Format(time.RFC3339),
		},
	}
	imageID := add(d, documentID, "DESCRIBES", purposeImage, r.program, r.version, "pkg:oci/"+r.program+"@"+url.QueryEscape(digest.String())+"?arch="+platform.Architecture)
	if r.base != scratch {
		add(d, imageID, "DESCENDANT_OF", purposeImage, r.base, "", "")
	}
	mainID := add(d, imageID, "CONTAINS", purposeMain, info.Main.Path, r.version, golang(info.Main.Path, r.version))
	d.Packages[len(d.Packages)-1].PackageLicenseDeclared = license
	add(d, mainID, "DEPENDS_ON", purposePart, "stdlib", info.GoVersion, golang("stdlib", strings.TrimPrefix(info.GoVersion, "go")))
	for _, dependency := range info.Deps {
		path, version := linked(dependency, r.version)
		add(d, mainID, "DEPENDS_ON", purposePart, path, version, golang(path, version))
	}
	var out bytes.Buffer
	if err := json.Write(d, &out, json.Indent("  "), json.EscapeHTML(false)); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// devel is the version of what Go builds from a directory.
const devel = "(devel)"

// linked returns the path and version of what was linked for a dependency, with its replacement. What a directory of
// the repository replaces has no version but that of the program.
func linked(dependency *debug.Module, version string) (path, of string) {
	switch replaced := dependency.Replace; {
	case replaced == nil:
		return dependency.Path, dependency.Version
	case replaced.Version == "" || replaced.Version == devel:
		return dependency.Path, version
	default:
		return replaced.Path, replaced.Version
	}
}

// golang is the package URL of a module.
func golang(path, version string) string {
	return "pkg:golang/" + path + "@" + url.QueryEscape(version)
}

// add appends a package that the element from is in a relationship to, and returns its identifier.
func add(d *spdx.Document, from spdx.ElementID, relationship, purpose, name, version, purl string) spdx.ElementID {
	id := spdx.ElementID(fmt.Sprintf("Package-%d", len(d.Packages)))
	part := &spdx.Package{
		PackageSPDXIdentifier:     id,
		PackageName:               name,
		PackageVersion:            version,
		PackageDownloadLocation:   noAssertion,
		IsFilesAnalyzedTagPresent: true,
		PackageLicenseConcluded:   noAssertion,
		PackageLicenseDeclared:    noAssertion,
		PackageCopyrightText:      noAssertion,
		PrimaryPackagePurpose:     purpose,
	}
	if purl != "" {
		part.PackageExternalReferences = []*spdx.PackageExternalReference{{Category: "PACKAGE-MANAGER", RefType: "purl", Locator: purl}}
	}
	d.Packages = append(d.Packages, part)
	d.Relationships = append(d.Relationships, &spdx.Relationship{
		RefA: common.MakeDocElementID("", string(from)), RefB: common.MakeDocElementID("", string(id)), Relationship: relationship,
	})
	return id
}
