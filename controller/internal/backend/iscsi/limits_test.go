package iscsi

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"quarry.storage/quarry/controller/internal/backend/backendtest"
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
		if got := c.limit(backendtest.Schema(t, c.kind, c.field)); got == nil || *got != c.want {
			t.Errorf("%s of %s: the limit is %v, want %d", c.field, c.kind, got, c.want)
		}
	}
}
