package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// schemas has the schema of each kind. Each holds all the definitions that it refers to.
type schemas map[schema.GroupVersionKind]apiextensionsv1.JSONSchemaProps

// writeTo makes dir. It is there with all files or not at all, as others take it for complete.
func (s schemas) writeTo(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "tmp-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }() // of no use to anyone, and in the way of nobody
	for gvk, kind := range s {
		path := filepath.Join(tmp, fileOf(gvk))
		raw, err := json.Marshal(kind)
		if err != nil {
			return fmt.Errorf("%s: %w", gvk, err)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, raw, 0o644); err != nil {
			return err
		}
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	if err := os.Rename(tmp, dir); err != nil {
		if _, done := os.Stat(dir); done == nil {
			return nil // another run was faster, with the same result
		}
		return err
	}
	return nil
}

// fileOf follows kubeconform, whose {{.Group}} of the core group is its version.
func fileOf(gvk schema.GroupVersionKind) string {
	group := gvk.Group
	if group == "" {
		group = gvk.Version
	}
	return filepath.Join(group, strings.ToLower(gvk.Kind)+"_"+gvk.Version+".json")
}

// strict makes of a schema that an API server publishes one that refuses what the API server would drop in silence: a
// misspelt field first of all. It takes out what is for people only.
func strict(s apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	s.Description, s.Default = "", nil
	if s.Format == "int-or-string" || s.XIntOrString {
		s.Type, s.Format = "", ""
		if len(s.AnyOf) == 0 {
			s.AnyOf = anyOf("integer", "string")
		}
	}
	s.Properties = maps.Clone(s.Properties)
	for name, property := range s.Properties {
		s.Properties[name] = strict(property)
	}
	if s.Items != nil && s.Items.Schema != nil {
		items := strict(*s.Items.Schema)
		s.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &items}
	}
	open := s.XEmbeddedResource || s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields
	switch {
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		values := strict(*s.AdditionalProperties.Schema)
		s.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &values, Allows: true}
	case s.AdditionalProperties == nil && len(s.Properties) > 0 && !open:
		s.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: false}
	}
	if s.Nullable {
		s.Nullable = false
		return apiextensionsv1.JSONSchemaProps{AnyOf: append(anyOf("null"), s)}
	}
	return s
}

func anyOf(types ...string) []apiextensionsv1.JSONSchemaProps {
	var result []apiextensionsv1.JSONSchemaProps
	for _, name := range types {
		result = append(result, apiextensionsv1.JSONSchemaProps{Type: name})
	}
	return result
}
