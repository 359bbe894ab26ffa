package recorded

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

func member(node string, l *v1alpha1.MemberLun, group string, forming bool) *v1alpha1.Member {
	m := &v1alpha1.Member{}
	m.Spec.Node, m.Spec.Lun = v1alpha1.HostName(node), l
	if group != "" || forming {
		m.Spec.Group = &v1alpha1.MemberGroup{UUID: group}
	}
	return m
}

func TestOf(t *testing.T) {
	lun := func(wwid, serial string, size int64) *v1alpha1.MemberLun {
		return &v1alpha1.MemberLun{IQN: "iqn.disk", WWID: wwid, Serial: serial, Size: size}
	}
	a := sharedlun.Identity{WWID: "a", Serial: "1", SizeBytes: 8}
	for _, c := range []struct {
		what    string
		members []*v1alpha1.Member
		want    Record
		group   string
	}{
		{"nothing yet", []*v1alpha1.Member{member("n1", nil, "", false)}, Record{}, ""},
		{
			"one group",
			[]*v1alpha1.Member{member("n1", lun("a", "1", 4), "G", false), member("n2", lun("a", "1", 8), "G", false), member("n3", nil, "", false)},
			Record{Lun: &a, IQN: "iqn.disk", Groups: []string{"G"}},
			"G",
		},
		{
			"being made",
			[]*v1alpha1.Member{member("n1", lun("a", "1", 8), "", true), member("n2", lun("a", "1", 8), "", false)},
			Record{Lun: &a, IQN: "iqn.disk", Forming: "n1"},
			"",
		},
		{
			"two LUNs of one WWID",
			[]*v1alpha1.Member{member("n1", lun("a", "1", 8), "", false), member("n2", lun("a", "2", 8), "", false)},
			Record{Lun: &a, IQN: "iqn.disk", Conflict: "Members have different LUNs on record: a 1; a 2"},
			"",
		},
		{
			"two groups",
			[]*v1alpha1.Member{member("n1", lun("a", "1", 8), "H", false), member("n2", lun("a", "1", 8), "G", false)},
			Record{Lun: &a, IQN: "iqn.disk", Groups: []string{"G", "H"}, Conflict: "Members have different volume groups on record: G, H"},
			"",
		},
	} {
		got := Of(c.members)
		if diff := cmp.Diff(c.want, got); diff != "" || got.Group() != c.group {
			t.Errorf("%s: group %q\n%s", c.what, got.Group(), diff)
		}
	}
	with := member("n1", nil, "", false)
	with.Spec.Reservation = &v1alpha1.MemberReservation{Unfenced: true}
	without := member("n2", nil, "", false)
	without.Spec.Reservation = &v1alpha1.MemberReservation{}
	if got := Of([]*v1alpha1.Member{with, without}); !got.Reserves || !got.Keyless {
		t.Errorf("reservations: %+v", got)
	}
}
