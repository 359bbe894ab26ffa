package ceph

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/view"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestLimits_api: what the API server takes, the rules take, and nothing that they take is too long for a record.
func TestLimits_api(t *testing.T) {
	for _, c := range []struct {
		kind, field string
		want        int64
	}{
		{"clusters", "spec.ceph.replicas", ceph.MaxReplicas},
		{"members", "spec.ceph.osds", v1alpha1.MaxMemberOSDs},
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
		switch {
		case schema.MaxItems != nil && *schema.MaxItems == c.want:
		case schema.Maximum != nil && int64(*schema.Maximum) == c.want:
		default:
			t.Errorf("%s of %s: the limit is not %d", c.field, c.kind, c.want)
		}
	}
}

// TestPerformers: each action that the rules about Ceph want is performed by somebody.
func TestPerformers(t *testing.T) {
	b := &Backend{}
	for _, do := range ceph.Actions {
		if action := view.ActionOf(do); action == "" || b.performers()[action] == nil {
			t.Errorf("nobody performs %s (%q)", do, action)
		}
	}
}
