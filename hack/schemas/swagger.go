package main

import (
	"encoding/json"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	refPrefix = "#/definitions/"
	quantity  = "io.k8s.apimachinery.pkg.api.resource.Quantity"
)

// fromSwagger adds the kinds of Kubernetes' swagger.json.
func fromSwagger(raw []byte, into schemas) error {
	var document struct {
		Definitions map[string]struct {
			apiextensionsv1.JSONSchemaProps
			Kinds []schema.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
		} `json:"definitions"`
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		return err
	}
	definitions := apiextensionsv1.JSONSchemaDefinitions{}
	for name, definition := range document.Definitions {
		definitions[name] = strict(definition.JSONSchemaProps)
	}
	if _, ok := definitions[quantity]; ok {
		// It is published as a string, but a bare number is read as well.
		definitions[quantity] = apiextensionsv1.JSONSchemaProps{AnyOf: anyOf("number", "string")}
	}
	for name, definition := range document.Definitions {
		// More kinds than one is what requests use in all groups, such as DeleteOptions. Nobody keeps these in manifests.
		if len(definition.Kinds) != 1 {
			continue
		}
		kind := definitions[name]
		kind.Definitions = apiextensionsv1.JSONSchemaDefinitions{}
		if err := addRefs(kind, definitions, kind.Definitions); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		into[definition.Kinds[0]] = kind
	}
	return nil
}

// addRefs adds the definitions that s refers to, directly or through others. In what Kubernetes publishes these are
// below properties, items and additionalProperties.
func addRefs(s apiextensionsv1.JSONSchemaProps, from, to apiextensionsv1.JSONSchemaDefinitions) error {
	if s.Ref != nil {
		name := strings.TrimPrefix(*s.Ref, refPrefix)
		definition, ok := from[name]
		if !ok {
			return fmt.Errorf("no definition %q", *s.Ref)
		}
		if _, ok := to[name]; !ok {
			to[name] = definition
			if err := addRefs(definition, from, to); err != nil {
				return err
			}
		}
	}
	for _, property := range s.Properties {
		if err := addRefs(property, from, to); err != nil {
			return err
		}
	}
	if s.Items != nil && s.Items.Schema != nil {
		if err := addRefs(*s.Items.Schema, from, to); err != nil {
			return err
		}
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		return addRefs(*s.AdditionalProperties.Schema, from, to)
	}
	return nil
}
