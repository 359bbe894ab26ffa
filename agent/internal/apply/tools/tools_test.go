package tools

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/agent/internal/apply"
	"quarry.storage/quarry/agent/internal/host/block"
	"quarry.storage/quarry/agent/internal/host/disk"
	"quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/agent/internal/plan"
)

func TestRefused(t *testing.T) {
	for _, err := range []error{
		disk.ErrBusy, disk.ErrMark, disk.ErrNotOurs, fmt.Errorf("x: %w", lvm.ErrInUse), lvm.ErrSignature, lvm.ErrExists, lvm.ErrPartial,
	} {
		if got := refused(err); !errors.Is(got, apply.ErrRefused) || !errors.Is(got, err) {
			t.Errorf("%v becomes %v", err, got)
		}
	}
	for _, err := range []error{nil, errors.New("exit status 5"), &plan.MismatchError{}, lvm.ErrNoSpace} {
		if got := refused(err); errors.Is(got, apply.ErrRefused) || !errors.Is(got, err) {
			t.Errorf("%v becomes %v", err, got)
		}
	}
}

// TestDevice_describesAsAnObservationDoes: the digest of the device under the exclusive open is the one that was observed.
func TestDevice_describesAsAnObservationDoes(t *testing.T) {
	listed := block.Device{
		Name: "sdb", Node: "/dev/sdb", Path: "/dev/disk/by-id/x", Type: "disk", Major: 8, Minor: 16, SizeBytes: 5, LogicalSectorBytes: 512,
		Model: "m", Serial: "s", WWN: "w", Partitions: []string{"sdb1"},
	}
	facts := disk.Facts{
		SizeBytes: 5, ContentDigest: "c", PVUUID: "u", PVInGroup: true, Wipe: &disk.Mark{Digest: "v1:d"},
		Signatures: []disk.Signature{{Type: "ext4", Offset: 1, UUID: "u", Label: "l"}},
	}
	want := plan.Device{
		Path: "/dev/disk/by-id/x", KernelName: "sdb", Type: "disk", Major: 8, Minor: 16, SizeBytes: 5, LogicalSectorBytes: 512,
		Model: "m", Serial: "s", WWN: "w", Partitions: []string{"sdb1"}, ContentDigest: "c", PVUUID: "u", Group: unnamedGroup,
		Wipe: &plan.WipeMark{Digest: "v1:d"}, Signatures: []plan.Signature{{Type: "ext4", Offset: 1, UUID: "u", Label: "l"}},
		ExclusiveOK: true,
	}
	if diff := cmp.Diff(want, device(listed, facts)); diff != "" {
		t.Errorf("device (-want +got):\n%s", diff)
	}
}
