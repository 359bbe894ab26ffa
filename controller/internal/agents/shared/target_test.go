package shared

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/pkg/sharedlun"
)

// TestToRegister: everything that is granted reaches the wire.
func TestToRegister(t *testing.T) {
	lun := sharedlun.Identity{WWID: "w", Serial: "s", SizeBytes: 9}
	g := sharedlun.Grant{Key: 2, Old: []uint64{1, 7}, Reserve: true, Own: []string{"u"}, BootID: "b", Initiator: "iqn.2026-01.x:a", Others: []string{"iqn.2026-01.x:b", "iqn.2026-01.x:c"}}
	if v := reflect.ValueOf(g); v.NumField() != 7 {
		t.Fatalf("a grant has %d fields: add the new one here", v.NumField())
	}
	r := toRegister(lun, g)
	got := sharedlun.Grant{Key: r.GetKey(), Old: r.GetOldKeys(), BootID: r.GetBootId(), Initiator: r.GetInitiatorName(), Others: r.GetOtherInitiatorNames(), Reserve: r.GetReserve(), Own: r.GetOwnVolumeUuids()}
	if d := cmp.Diff(g, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(lun, identityOf(r.GetLun())); d != "" {
		t.Error(d)
	}
}
