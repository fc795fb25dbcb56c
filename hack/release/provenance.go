package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// provenance says, in the form of https://slsa.dev/spec/v1.0/provenance, which run of a workflow has built
// something, and from which commit. Its type is https://actions.github.io/buildtypes/workflow/v1, whose fields
// GitHub gives to each job as variables.
func provenance(out io.Writer, revision string, variable func(string) string) error {
	var missing []string
	get := func(name string) string {
		value := variable(name)
		if value == "" {
			missing = append(missing, name)
		}
		return value
	}
	server, repository, ref, workflow := get("GITHUB_SERVER_URL"), get("GITHUB_REPOSITORY"), get("GITHUB_REF"), get("GITHUB_WORKFLOW_REF")
	where := server + "/" + repository
	path, _, _ := strings.Cut(strings.TrimPrefix(workflow, repository+"/"), "@")
	type object map[string]any
	statement := object{
		"buildDefinition": object{
			"buildType":          "https://actions.github.io/buildtypes/workflow/v1",
			"externalParameters": object{"workflow": object{"ref": ref, "repository": where, "path": path}},
			"internalParameters": object{"github": object{
				"event_name": get("GITHUB_EVENT_NAME"), "repository_id": get("GITHUB_REPOSITORY_ID"),
				"repository_owner_id": get("GITHUB_REPOSITORY_OWNER_ID"), "runner_environment": get("RUNNER_ENVIRONMENT"),
			}},
			"resolvedDependencies": []object{{"uri": "git+" + where + "@" + ref, "digest": object{"gitCommit": revision}}},
		},
		"runDetails": object{
			"builder":  object{"id": server + "/" + workflow},
			"metadata": object{"invocationId": where + "/actions/runs/" + get("GITHUB_RUN_ID") + "/attempts/" + get("GITHUB_RUN_ATTEMPT")},
		},
	}
	if len(missing) > 0 {
		return fmt.Errorf("a job of GitHub has %s: only there it is known where something was built", strings.Join(missing, ", "))
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(statement)
}
