package iscsi

import (
	"slices"
	"testing"
)

// file is what the kernel writes about two registrations, one of which holds
// the reservation.
const file = `PR_REG_START: 0
initiator_fabric=iSCSI
initiator_node=iqn.2026-01.storage.quarry.lab:n1
initiator_sid=00023d000001
sa_res_key=161
res_holder=1
res_type=05
res_scope=00
res_all_tg_pt=0
mapped_lun=0
target_fabric=iSCSI
target_node=iqn.2026-01.storage.quarry.lab:one
tpgt=1
port_rtpi=1
target_lun=0
PR_REG_END: 0
PR_REG_START: 1
initiator_fabric=iSCSI
initiator_node=iqn.2026-01.storage.quarry.lab:n2
sa_res_key=178
res_holder=0
PR_REG_END: 1
` + "\x00"

func TestRegistrations(t *testing.T) {
	got, err := registrations(file)
	want := []string{
		"initiator_fabric=iSCSI,initiator_node=iqn.2026-01.storage.quarry.lab:n1,initiator_sid=00023d000001,sa_res_key=161,res_holder=1," +
			"res_type=05,res_scope=00,res_all_tg_pt=0,mapped_lun=0,target_fabric=iSCSI,target_node=iqn.2026-01.storage.quarry.lab:one,tpgt=1," +
			"port_rtpi=1,target_lun=0",
		"initiator_fabric=iSCSI,initiator_node=iqn.2026-01.storage.quarry.lab:n2,sa_res_key=178,res_holder=0",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	for name, empty := range map[string]string{"nothing": "", "no registration": "No Registrations or Reservations\n\x00"} {
		if got, err := registrations(empty); err != nil || len(got) != 0 {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// What was cut off in the middle must not come back as less than it was.
func TestRegistrations_refusesHalves(t *testing.T) {
	for name, text := range map[string]string{
		"no end":          "PR_REG_START: 0\nsa_res_key=161\n",
		"begins twice":    "PR_REG_START: 0\nPR_REG_START: 1\nPR_REG_END: 1\n",
		"ends only":       "PR_REG_END: 0\n",
		"nothing in it":   "PR_REG_START: 0\nPR_REG_END: 0\n",
		"a line outside":  "sa_res_key=161\n",
		"not this format": "{}",
	} {
		if got, err := registrations(text); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}
