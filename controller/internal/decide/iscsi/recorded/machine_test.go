package recorded

import (
	"maps"
	"slices"
	"testing"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestEnded: a key needs nobody's word only if the record says that the machine which answers had it, in a boot that is over.
func TestEnded(t *testing.T) {
	of := map[string]string{"k1": "m1", "k2": "m2"}
	record := func(change func(*v1alpha1.MemberReservation)) *v1alpha1.MemberReservation {
		r := &v1alpha1.MemberReservation{Key: "k3", BootID: "b3", Machine: "m1", Previous: []string{"k0", "k1", "k2"}, Machines: of}
		if change != nil {
			change(r)
		}
		return r
	}
	for name, c := range map[string]struct {
		record          *v1alpha1.MemberReservation
		others          []string
		keys            []string
		bootID, machine string
		ended           []string
	}{
		"in the boot of the record":                            {record(nil), []string{"m9", ""}, []string{"k0", "k1", "k2"}, "b3", "", []string{"k1"}},
		"a Node that tells of another machine than the record": {record(nil), nil, []string{"k1", "k2"}, "b3", "m2", []string{"k1"}},
		"in the next boot, of the same machine":                {record(nil), nil, []string{"k1", "k2", "k3"}, "b4", "m1", []string{"k1", "k3"}},
		"in the next boot, of the machine before":              {record(nil), nil, []string{"k1", "k2", "k3"}, "b4", "m2", []string{"k2"}},
		"in the next boot, and the Node does not say":          {record(nil), nil, []string{"k0", "k1", "k2", "k3"}, "b4", "", nil},
		"the key of the boot that answers":                     {record(nil), nil, []string{"k3"}, "b3", "m1", nil},
		"a boot that nobody knows":                             {record(nil), nil, []string{"k1", "k3"}, "", "m1", nil},
		"no machine on record for the boot":                    {record(func(r *v1alpha1.MemberReservation) { r.Machine = "" }), nil, []string{"k0", "k1", "k2"}, "b3", "m1", nil},
		"no machine on record for the key":                     {record(func(r *v1alpha1.MemberReservation) { r.Machine = "" }), nil, []string{"k0", "k3"}, "b4", "m1", nil},
		"another node says that it is the machine":             {record(nil), []string{"m1"}, []string{"k1", "k3"}, "b4", "m1", nil},
		"a record of before machines":                          {record(func(r *v1alpha1.MemberReservation) { r.Machines = nil }), nil, []string{"k0", "k1", "k2"}, "b3", "m1", nil},
		"a key that is on no record":                           {record(nil), nil, []string{"kx"}, "b3", "m1", nil},
	} {
		m := member("n1", nil, "", false)
		m.Spec.Reservation = c.record
		// A second Member of the node, as a backup tool makes it, is no other machine.
		twin := member("n1", nil, "", false)
		twin.Spec.Reservation = &v1alpha1.MemberReservation{Machine: "m1"}
		all := []*v1alpha1.Member{m, twin, member("n2", nil, "", false)}
		for _, machine := range c.others {
			o := member("n3", nil, "", false)
			o.Spec.Reservation = &v1alpha1.MemberReservation{Machine: machine}
			all = append(all, o)
		}
		ended, open := Ended(m, all, c.keys, c.bootID, c.machine)
		if !slices.Equal(ended, c.ended) || len(ended)+len(open) != len(c.keys) {
			t.Errorf("%s: ended %q, open %q, want %q", name, ended, open, c.ended)
		}
	}
}

func TestMachines(t *testing.T) {
	r := &v1alpha1.MemberReservation{Key: "k2", Machine: "m2", Machines: map[string]string{"k1": "m1", "k9": "m9"}}
	for name, c := range map[string]struct {
		keys []string
		want map[string]string
	}{
		"of both boots": {[]string{"k0", "k1", "k2"}, map[string]string{"k1": "m1", "k2": "m2"}},
		"none is known": {[]string{"k0"}, nil},
		"none is there": {nil, nil},
	} {
		if got := Machines(r, c.keys); !maps.Equal(got, c.want) || got != nil != (c.want != nil) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
