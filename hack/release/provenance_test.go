package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestProvenance(t *testing.T) {
	job := map[string]string{
		"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "some/one", "GITHUB_REF": "refs/tags/v1.2.3",
		"GITHUB_WORKFLOW_REF": "some/one/.github/workflows/release.yaml@refs/tags/v1.2.3", "GITHUB_EVENT_NAME": "push", "GITHUB_REPOSITORY_ID": "1",
		"GITHUB_REPOSITORY_OWNER_ID": "2", "RUNNER_ENVIRONMENT": "github-hosted", "GITHUB_RUN_ID": "3", "GITHUB_RUN_ATTEMPT": "4",
	}
	const want = `{
		"buildDefinition": {
			"buildType": "https://actions.github.io/buildtypes/workflow/v1",
			"externalParameters": {"workflow": {"ref": "refs/tags/v1.2.3", "repository": "https://github.com/some/one", "path": ".github/workflows/release.yaml"}},
			"internalParameters": {"github": {"event_name": "push", "repository_id": "1", "repository_owner_id": "2", "runner_environment": "github-hosted"}},
			"resolvedDependencies": [{"uri": "git+https://github.com/some/one@refs/tags/v1.2.3", "digest": {"gitCommit": "0123abcd"}}]
		},
		"runDetails": {
			"builder": {"id": "https://github.com/some/one/.github/workflows/release.yaml@refs/tags/v1.2.3"},
			"metadata": {"invocationId": "https://github.com/some/one/actions/runs/3/attempts/4"}
		}
	}`
	var out bytes.Buffer
	if err := provenance(&out, "0123abcd", func(name string) string { return job[name] }); err != nil {
		t.Fatal(err)
	}
	var got, expected any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &expected); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(expected, got); diff != "" {
		t.Errorf("provenance (-want +got):\n%s", diff)
	}

	delete(job, "GITHUB_RUN_ID")
	out.Reset()
	err := provenance(&out, "0123abcd", func(name string) string { return job[name] })
	if err == nil || !strings.Contains(err.Error(), "GITHUB_RUN_ID") || out.Len() > 0 {
		t.Errorf("without a run, provenance says %v and writes %q", err, out.String())
	}
}
