#!/usr/bin/env bash
# Makes the JSON schemas and checks with kubeconform that they tell the good
# manifests in testdata from the bad ones. Prints the directory with the
# schemas, and nothing else, on standard output.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

say() { echo "schemas: $*" >&2; }

dir=$(go run ./hack/schemas)
kubeconform=(go tool -modfile=hack/chart/go.mod kubeconform -strict
	-schema-location "$dir/{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json")

"${kubeconform[@]}" hack/schemas/testdata/good >&2
for file in hack/schemas/testdata/bad/*.yaml; do
	if "${kubeconform[@]}" "$file" >/dev/null; then
		say "$file was accepted"
		exit 1
	fi
done
echo "$dir"
