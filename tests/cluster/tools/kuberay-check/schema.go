package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jsonutil "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
)

// schemaSet reads the CRDs of a folder when a document of their kind comes up: parsing one takes a good part of a
// second, and most inputs hold one kind.
type schemaSet struct {
	folder string
	byKind map[string]*crdSchema
}

func newSchemaSet(folder string) *schemaSet {
	return &schemaSet{folder: folder, byKind: map[string]*crdSchema{}}
}

// crdSchema is one kind's schema in the forms that the API server keeps.
type crdSchema struct {
	structural *structural.Structural
	openAPI    validation.SchemaValidator
	rules      *cel.Validator // nil when the schema has no CEL rule
}

func (s *schemaSet) forKind(kind string) (*crdSchema, error) {
	if known, ok := s.byKind[kind]; ok {
		return known, nil
	}
	path := filepath.Join(s.folder, fmt.Sprintf("ray.io_%ss.yaml", strings.ToLower(kind)))
	loaded, err := loadSchema(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s.byKind[kind] = loaded
	return loaded, nil
}

// loadSchema compiles the schema of version v1 in a CRD file.
func loadSchema(path string) (*crdSchema, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(data, &crd); err != nil {
		return nil, err
	}
	for _, version := range crd.Spec.Versions {
		if version.Name == rayv1.GroupVersion.Version && version.Schema != nil {
			return compileSchema(version.Schema.OpenAPIV3Schema)
		}
	}
	return nil, fmt.Errorf("the file holds no schema of version %s", rayv1.GroupVersion.Version)
}

func compileSchema(props *apiextensionsv1.JSONSchemaProps) (*crdSchema, error) {
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, &internal, nil); err != nil {
		return nil, err
	}
	shape, err := structural.NewStructural(&internal)
	if err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		return nil, err
	}
	return &crdSchema{
		structural: shape,
		openAPI:    validator,
		rules:      cel.NewValidator(shape, true, celconfig.PerCallLimit),
	}, nil
}

// check treats a document as the API server treats a create request (unknown and duplicate fields refused, as
// kubectl and Helm 4 ask for) and returns the JSON that it would store. An error means that no object could be read.
func (s *crdSchema) check(result *report, document []byte) ([]byte, error) {
	raw, err := yaml.YAMLToJSON(document)
	if err != nil {
		return nil, err
	}
	// The API server's own decoder: whole numbers stay int64, which the schema's `type: integer` needs.
	var object map[string]any
	if err := jsonutil.Unmarshal(raw, &object); err != nil {
		return nil, err
	}
	meta, _, unknownMeta, err := objectmeta.GetObjectMetaWithOptions(
		object, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return nil, err
	}
	unknown := pruning.PruneWithOptions(
		object, s.structural, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	for _, path := range append(unknownMeta, unknown...) {
		result.add("schema", fmt.Errorf("unknown field %q", path))
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(object, s.structural)
	defaulting.Default(object, s.structural)
	for _, problem := range s.validate(object, meta) {
		result.add("schema", problem)
	}
	return json.Marshal(object)
}

// validate is the order of the API server's create strategy for custom resources.
func (s *crdSchema) validate(object map[string]any, meta *metav1.ObjectMeta) field.ErrorList {
	if meta == nil {
		meta = &metav1.ObjectMeta{}
	}
	if meta.Namespace == "" {
		// Clients fill the namespace in from their own configuration.
		meta.Namespace = metav1.NamespaceDefault
	}
	found := metavalidation.ValidateObjectMeta(meta, true, metavalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	found = append(found, validation.ValidateCustomResource(nil, object, s.openAPI)...)
	found = append(found, objectmeta.Validate(nil, object, s.structural, false)...)
	found = append(found, listtype.ValidateListSetsAndMaps(nil, s.structural, object)...)
	if s.rules == nil || len(found) > 0 {
		// CEL rules read fields whose shape must be right first.
		return found
	}
	broken, _ := s.rules.Validate(
		context.Background(), nil, s.structural, object, nil, celconfig.RuntimeCELCostBudget)
	return append(found, broken...)
}
