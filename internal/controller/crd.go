package controller

import (
	"fmt"
	"slices"
	"strings"

	apiextensionshelpers "k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
)

// Lack says what is wrong with a CRD, nil if there is none; empty if the API server serves the version.
func (c CRD) Lack(crd *apiextensionsv1.CustomResourceDefinition) string {
	if crd == nil {
		return fmt.Sprintf("CRD %s does not exist; Archelon needs %s", c.Name, c.Of.Needed)
	}
	var served []string
	there := false
	for _, v := range crd.Spec.Versions {
		there = there || v.Name == c.Version
		if v.Served {
			served = append(served, v.Name)
		}
	}
	switch {
	case slices.Contains(served, c.Version):
	case there:
		return fmt.Sprintf("CRD %s has %s and does not serve it; Archelon needs it served", c.Name, c.Version)
	default:
		only := "no version"
		if len(served) > 0 {
			only = strings.Join(served, ", ") + " only"
		}
		return fmt.Sprintf("%s serves %s (CRD %s); Archelon needs %s (%s)", c.Of.Name, only, c.Name, c.Version, c.Of.Needed)
	}
	if c.Selectable != "" && !c.selectable(crd) {
		return fmt.Sprintf("CRD %s is another one than that of %s: field %s is not selectable. What it does not know would be dropped; Archelon needs %s",
			c.Name, c.Of.Name, c.Selectable, c.Of.Needed)
	}
	if missing := c.missing(crd); missing != "" {
		return fmt.Sprintf("CRD %s is another one than that of %s: its schema has no field %s. What it does not know would be dropped; Archelon needs %s",
			c.Name, c.Of.Name, missing, c.Of.Needed)
	}
	if !apiextensionshelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
		return fmt.Sprintf("CRD %s is not established; its conditions say why", c.Name)
	}
	return ""
}

// selectable reports whether the field that is needed can be selected by.
func (c CRD) selectable(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == c.Version && slices.ContainsFunc(v.SelectableFields, func(f apiextensionsv1.SelectableField) bool {
			return f.JSONPath == c.Selectable
		})
	})
}

// missing returns a field that is needed and would be dropped, empty if there is none.
func (c CRD) missing(crd *apiextensionsv1.CustomResourceDefinition) string {
	for _, v := range crd.Spec.Versions {
		if v.Name != c.Version {
			continue
		}
		for _, path := range c.Fields {
			if v.Schema == nil || !keeps(v.Schema.OpenAPIV3Schema, strings.Split(path, ".")) {
				return path
			}
		}
	}
	return ""
}

// keeps reports whether a schema keeps a field.
func keeps(schema *apiextensionsv1.JSONSchemaProps, path []string) bool {
	if schema == nil || len(path) == 0 {
		return schema != nil
	}
	if under, ok := schema.Properties[path[0]]; ok {
		return keeps(&under, path[1:])
	}
	return ptr.Deref(schema.XPreserveUnknownFields, false)
}
