package ceph

import (
	"testing"

	"quarry.storage/quarry/controller/internal/backend/backendtest"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/view"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestLimits_api: what the API server takes, the rules take, and nothing that they take is too long for a record.
func TestLimits_api(t *testing.T) {
	if most := backendtest.Schema(t, "clusters", "spec.ceph.replicas").Maximum; most == nil || *most != ceph.MaxReplicas {
		t.Errorf("the most replicas are not %d", ceph.MaxReplicas)
	}
	if most := backendtest.Schema(t, "members", "spec.ceph.osds").MaxItems; most == nil || *most != v1alpha1.MaxMemberOSDs {
		t.Errorf("the most OSDs of a member are not %d", v1alpha1.MaxMemberOSDs)
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
