package agenttest_test

import (
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/pkg/volumeid"
)

// TestKubelet_countsAfterReboot: many volumes stage after a reboot with one command each, and without a report for each.
func TestKubelet_countsAfterReboot(t *testing.T) {
	const volumes = 12
	k := newKubelet(t)
	var all []volumeid.ID
	for i := range volumes {
		id := handle(fmt.Sprintf("pvc-%d", i))
		k.create(id, "")
		k.must("stage", k.stage(id, "ext4"))
		all = append(all, id)
	}
	k.Kill()
	k.Reboot()
	k.Restart(t)
	k.dial()
	before := k.Commands()
	for _, id := range all {
		k.must("stage after the reboot", k.stage(id, "ext4"))
	}
	// The pool is activated besides, after a look at how its metadata begins: by the agent, which asks for a report on its group first, and by the
	// first volume, if that did not see yet what the agent did.
	const pool = 3 + 2
	if n := k.Commands() - before; n > volumes+1+pool {
		t.Errorf("%d volumes took %d commands of LVM", volumes, n)
	}
}

// TestKubelet_btrfsCopies: a copy is mounted beside its source, also one of a volume that nobody used yet.
func TestKubelet_btrfsCopies(t *testing.T) {
	k := newKubelet(t)
	id, clone, early := handle("pvc-1"), handle("pvc-2"), handle("pvc-3")
	k.create(id, "")
	k.create(early, id.Name)
	k.must("stage", k.stage(id, "btrfs"))
	k.create(clone, id.Name)
	k.must("stage a copy", k.stage(clone, "btrfs"))
	k.must("stage a copy of an unused volume", k.stage(early, "btrfs"))
	if err := k.stage(early, "xfs"); status.Code(err) != codes.AlreadyExists {
		t.Errorf("as another filesystem: %v", err)
	}
}
