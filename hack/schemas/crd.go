package main

import (
	"errors"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

const objectMeta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

// fromCRD adds the kind of a CustomResourceDefinition, in all its versions. CRDs say nothing of metadata, so
// Kubernetes' swagger.json has to be read before.
func fromCRD(raw []byte, into schemas) error {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(raw, crd); err != nil {
		return err
	}
	if crd.Spec.Names.Kind == "" {
		return errors.New("no CustomResourceDefinition")
	}
	meta, err := metadata(into)
	if err != nil {
		return err
	}
	for _, version := range crd.Spec.Versions {
		if version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
			continue
		}
		kind := strict(*version.Schema.OpenAPIV3Schema)
		ref := refPrefix + objectMeta
		kind.Properties["metadata"] = apiextensionsv1.JSONSchemaProps{Ref: &ref}
		kind.Definitions = meta
		into[schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}] = kind
	}
	return nil
}

// metadata is the definition of metadata and of what it refers to.
func metadata(known schemas) (apiextensionsv1.JSONSchemaDefinitions, error) {
	// Any kind would do; a ConfigMap has little else.
	configMap, ok := known[schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}]
	if !ok {
		return nil, errors.New("metadata is not known yet")
	}
	return configMap.Definitions, nil
}
