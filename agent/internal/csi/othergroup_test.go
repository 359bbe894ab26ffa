package csi_test

import (
	"testing"

	"google.golang.org/grpc/codes"

	"quarry.storage/quarry/pkg/quarry"
)

// TestNode_otherGroup: a volume of the right name and tag in another group than the one that is recorded is an older copy, or a stranger's. It
// is neither staged nor shown. A volume of before the record goes by its name.
func TestNode_otherGroup(t *testing.T) {
	const seen, owner = "aaaaaa-seen", "uid"
	for name, tt := range map[string]struct {
		uuid, owner string
		want        codes.Code
	}{
		"nothing is recorded":  {"", "", codes.OK},
		"the recorded group":   {seen, owner, codes.OK},
		"another UUID":         {"bbbbbb-recorded", owner, codes.FailedPrecondition},
		"another Cluster's":    {seen, "another", codes.FailedPrecondition},
		"only another Cluster": {"", "another", codes.FailedPrecondition},
	} {
		t.Run(name, func(t *testing.T) {
			c, v, handle := newNode(t)
			v.GroupUUID, v.Owner = seen, owner
			c.Context[handle] = map[string]string{quarry.AttributeGroupUUID: tt.uuid, quarry.AttributeCluster: tt.owner}
			did := c.effects(t, func() error {
				wantCode(t, c.stage(t, handle, block()), tt.want)
				return nil
			})
			if tt.want != codes.OK && len(did) > 0 {
				t.Errorf("refused after %q", did)
			}
		})
	}
}

// TestNode_deviceOfOtherGroup: the device that stands under the name of a volume is that of another group. It is neither shown to a
// pod nor staged.
func TestNode_deviceOfOtherGroup(t *testing.T) {
	c, v, handle := newNode(t)
	v.GroupUUID = "aaaaaa-seen"
	c.Context[handle] = map[string]string{quarry.AttributeGroupUUID: v.GroupUUID}
	must(t, c.stage(t, handle, block()))
	v.DeviceGroup = "bbbbbb-copy"
	wantCode(t, c.publish(t, handle, "pod/dev", block(), false), codes.FailedPrecondition)
	wantCode(t, c.stage(t, handle, block()), codes.FailedPrecondition)
}
