package iscsi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"quarry.storage/quarry/pkg/sharedlun"
)

// TestLimits_api: what the API server takes, the agents take, and nothing that they take is too long for a record.
func TestLimits_api(t *testing.T) {
	items := func(s apiextensionsv1.JSONSchemaProps) *int64 { return s.MaxItems }
	length := func(s apiextensionsv1.JSONSchemaProps) *int64 { return s.MaxLength }
	for _, c := range []struct {
		kind, field string
		limit       func(apiextensionsv1.JSONSchemaProps) *int64
		want        int64
	}{
		{"iscsis", "spec.targets", items, sharedlun.MaxPortals},
		{"iscsis", "spec.wipe", length, sharedlun.MaxIdentity},
		{"members", "spec.lun.wwid", length, sharedlun.MaxIdentity},
		{"members", "spec.lun.serial", length, sharedlun.MaxIdentity},
		{"members", "spec.reservation.previous", items, sharedlun.MaxOldKeys},
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "deploy", "crd", "quarry.storage_"+c.kind+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(text, &crd); err != nil {
			t.Fatal(err)
		}
		schema := *crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		for name := range strings.SplitSeq(c.field, ".") {
			schema = schema.Properties[name]
		}
		if got := c.limit(schema); got == nil || *got != c.want {
			t.Errorf("%s of %s: the limit is %v, want %d", c.field, c.kind, got, c.want)
		}
	}
}
