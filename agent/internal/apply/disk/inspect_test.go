package disk

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/agent/internal/host/block"
	hostdisk "quarry.storage/quarry/agent/internal/host/disk"
	"quarry.storage/quarry/agent/internal/plan"
)

// TestDevice_describesAsAnObservationDoes: the digest of the device under the exclusive open is the one that was observed.
func TestDevice_describesAsAnObservationDoes(t *testing.T) {
	listed := block.Device{
		Name: "sdb", Node: "/dev/sdb", Path: "/dev/disk/by-id/x", Type: "disk", Major: 8, Minor: 16, SizeBytes: 5, LogicalSectorBytes: 512,
		Model: "m", Serial: "s", WWN: "w", Partitions: []string{"sdb1"},
	}
	facts := hostdisk.Facts{
		SizeBytes: 5, ContentDigest: "c", PVUUID: "u", PVInGroup: true, Wipe: &hostdisk.Mark{Digest: "v1:d"},
		Signatures: []hostdisk.Signature{{Type: "ext4", Offset: 1, UUID: "u", Label: "l"}},
	}
	want := plan.Device{
		Path: "/dev/disk/by-id/x", KernelName: "sdb", Type: "disk", Major: 8, Minor: 16, SizeBytes: 5, LogicalSectorBytes: 512,
		Model: "m", Serial: "s", WWN: "w", Partitions: []string{"sdb1"}, ContentDigest: "c", PVUUID: "u", Group: unnamedGroup,
		Wipe: &plan.WipeMark{Digest: "v1:d"}, Signatures: []plan.Signature{{Type: "ext4", Offset: 1, UUID: "u", Label: "l"}},
		Use: plan.Unused,
	}
	if diff := cmp.Diff(want, device(listed, facts)); diff != "" {
		t.Errorf("device (-want +got):\n%s", diff)
	}
}
