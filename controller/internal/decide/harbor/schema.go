package harbor

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Schema is what the installed definition of a kind says about one field, and about the fields below it. Nil says nothing: the definition is
// not known, or does not declare the field.
type Schema struct {
	fields map[string]*Schema
	enum   []string
}

// Installed are the schemas of the kinds whose operators are installed.
type Installed map[schema.GroupVersionKind]*Schema

// SchemaOf reads what a CustomResourceDefinition says about the given version of its kind; nil when it does not have that version.
func SchemaOf(definition *unstructured.Unstructured, version string) *Schema {
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, v := range versions {
		if m, ok := v.(map[string]any); ok && m["name"] == version {
			content, _, _ := unstructured.NestedMap(m, "schema", "openAPIV3Schema")
			return schemaOf(content)
		}
	}
	return nil
}

// schemaOf keeps what decisions need. What the elements of a list have stands in for the list.
func schemaOf(content map[string]any) *Schema {
	if items, ok := content["items"].(map[string]any); ok {
		return schemaOf(items)
	}
	s := &Schema{}
	if properties, ok := content["properties"].(map[string]any); ok {
		s.fields = make(map[string]*Schema, len(properties))
		for name, p := range properties {
			m, _ := p.(map[string]any)
			s.fields[name] = schemaOf(m)
		}
	}
	values, _ := content["enum"].([]any)
	for _, v := range values {
		if text, ok := v.(string); ok {
			s.enum = append(s.enum, text)
		}
	}
	return s
}

// field returns what is said about a field; nil when it is not declared.
func (s *Schema) field(path ...string) *Schema {
	for _, name := range path {
		if s == nil {
			return nil
		}
		s = s.fields[name]
	}
	return s
}

// declares reports whether the definition names a field.
func (s *Schema) declares(path ...string) bool { return s.field(path...) != nil }

// values returns the values that a field may have; none when the definition leaves them open.
func (s *Schema) values(path ...string) []string {
	if f := s.field(path...); f != nil {
		return f.enum
	}
	return nil
}
