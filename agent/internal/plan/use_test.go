package plan

import (
	"errors"
	"strings"
	"testing"
)

// TestVerify_refusesADeviceInUse: what was clean, and what somebody consented to wipe, may have got a user since.
func TestVerify_refusesADeviceInUse(t *testing.T) {
	used := func(d Device) Device {
		d.Use, d.Users = Used, []string{"process qemu (pid 7)"}
		return d
	}
	clean, full := cleanDisk("sdb"), signed("ext4", "", "")
	full.PVUUID = ""
	ours := orphan("sdb", me)
	for name, tt := range map[string]struct {
		ground Ground
		device Device
		busy   bool
	}{
		"clean":                    {Clean, clean, false},
		"clean, in use":            {Clean, used(clean), true},
		"to be wiped":              {Consent, full, false},
		"to be wiped, in use":      {Consent, used(full), true},
		"ours, and read by others": {Ownership, used(ours), false},
	} {
		err := Token{device: IdentityOf(tt.device), pvUUID: tt.device.PVUUID, ground: tt.ground}.Verify(tt.device)
		if (err != nil) != tt.busy || tt.busy && (!errors.Is(err, ErrNotClean) || !strings.Contains(err.Error(), "process qemu (pid 7)")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMatch_namesWhatCannotBeRead(t *testing.T) {
	d := cleanDisk("sdb")
	id := IdentityOf(d)
	d.Unreadable = []string{"users: process 7: permission denied"}
	if err := Match(d, id); !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), d.Unreadable[0]) {
		t.Errorf("%v", err)
	}
}
