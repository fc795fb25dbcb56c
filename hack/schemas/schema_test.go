package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

const swagger = `
definitions:
  io.k8s.api.core.v1.ConfigMap:
    description: For people.
    type: object
    x-kubernetes-group-version-kind: [{group: "", version: v1, kind: ConfigMap}]
    properties:
      metadata: {$ref: '#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta'}
      port: {type: string, format: int-or-string}
      size: {$ref: '#/definitions/io.k8s.apimachinery.pkg.api.resource.Quantity'}
  io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta:
    type: object
    properties:
      description: {type: string, description: For people.}
      labels: {type: object, additionalProperties: {type: string, default: ""}}
  io.k8s.apimachinery.pkg.api.resource.Quantity: {type: string}
  io.k8s.api.core.v1.Unused: {type: object}
  io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions:
    type: object
    x-kubernetes-group-version-kind: [{group: "", version: v1, kind: DeleteOptions}, {group: apps, version: v1, kind: DeleteOptions}]
`

const crd = `
spec:
  group: example.org
  names: {kind: Thing}
  versions:
    - name: v1alpha1
      schema:
        openAPIV3Schema:
          type: object
          properties:
            metadata: {type: object}
            spec:
              type: object
              required: [list]
              properties:
                list: {type: array, items: {type: object, properties: {a: {type: integer}}}}
                gone: {type: string, nullable: true}
                port: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}], pattern: '^x'}
                raw: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: integer}}}
                template: {type: object, x-kubernetes-embedded-resource: true, properties: {spec: {type: object}}}
                empty: {type: object}
`

const meta = `
io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta:
  type: object
  additionalProperties: false
  properties:
    description: {type: string}
    labels: {type: object, additionalProperties: {type: string}}
io.k8s.apimachinery.pkg.api.resource.Quantity: {anyOf: [{type: number}, {type: string}]}
`

func TestSchemas(t *testing.T) {
	got := schemas{}
	if err := fromSwagger(asJSON(t, swagger), got); err != nil {
		t.Fatal(err)
	}
	if err := fromCRD([]byte(crd), got); err != nil {
		t.Fatal(err)
	}
	want := map[schema.GroupVersionKind]string{
		{Version: "v1", Kind: "ConfigMap"}: `
type: object
additionalProperties: false
properties:
  metadata: {$ref: '#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta'}
  port: {anyOf: [{type: integer}, {type: string}]}
  size: {$ref: '#/definitions/io.k8s.apimachinery.pkg.api.resource.Quantity'}
`,
		{Group: "example.org", Version: "v1alpha1", Kind: "Thing"}: `
type: object
additionalProperties: false
properties:
  metadata: {$ref: '#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta'}
  spec:
    type: object
    required: [list]
    additionalProperties: false
    properties:
      list: {type: array, items: {type: object, additionalProperties: false, properties: {a: {type: integer}}}}
      gone: {anyOf: [{type: "null"}, {type: string}]}
      port: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}], pattern: '^x'}
      raw: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: integer}}}
      template: {type: object, x-kubernetes-embedded-resource: true, properties: {spec: {type: object}}}
      empty: {type: object}
`,
	}
	if len(got) != len(want) {
		t.Errorf("%d kinds, want %d", len(got), len(want))
	}
	for gvk, expected := range want {
		raw, err := json.Marshal(got[gvk])
		if err != nil {
			t.Fatal(err)
		}
		wanted := asMap(t, []byte(expected))
		wanted["definitions"] = asMap(t, []byte(meta))
		if diff := cmp.Diff(wanted, asMap(t, raw)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", gvk, diff)
		}
	}
}

func TestSchemasOfBrokenSources(t *testing.T) {
	known := schemas{}
	if err := fromSwagger(asJSON(t, swagger), known); err != nil {
		t.Fatal(err)
	}
	dangling := `
definitions:
  a:
    x-kubernetes-group-version-kind: [{version: v1, kind: A}]
    properties: {b: {items: {additionalProperties: {$ref: '#/definitions/b'}}}}
`
	for name, err := range map[string]error{
		"a reference to nothing":    fromSwagger(asJSON(t, dangling), schemas{}),
		"no JSON":                   fromSwagger([]byte("{"), schemas{}),
		"a CRD without Kubernetes":  fromCRD([]byte(crd), schemas{}),
		"something else than a CRD": fromCRD([]byte("kind: Kustomization"), known),
	} {
		if err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestWriteTo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache", "key")
	set := schemas{{Version: "v1", Kind: "ConfigMap"}: {}, {Group: "apps", Version: "v1", Kind: "Deployment"}: {}}
	for range 2 { // the second finds the first's work
		if err := set.writeTo(dir); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"v1/configmap_v1.json", "apps/deployment_v1.json"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	left, err := os.ReadDir(filepath.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 1 {
		t.Errorf("%d entries in the cache, want 1: %v", len(left), left)
	}
}

func asJSON(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func asMap(t *testing.T, raw []byte) map[string]any {
	t.Helper()
	result := map[string]any{}
	if err := yaml.Unmarshal(raw, &result); err != nil {
		t.Fatal(err)
	}
	return result
}
