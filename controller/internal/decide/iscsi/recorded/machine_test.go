package recorded

import (
	"maps"
	"slices"
	"testing"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestEnded: a key needs nobody's word only if the record says that the machine which answers had it, in a boot that is over, and nothing says that another node is that machine.
func TestEnded(t *testing.T) {
	const m1, m2, m9 = "4c4c4544-0051-3410-8051-b5c04f375931", "4c4c4544-0051-3410-8051-b5c04f375932", "4c4c4544-0051-3410-8051-b5c04f375939"
	type reservation = v1alpha1.MemberReservation
	record := func(change func(*reservation)) *reservation {
		r := &reservation{Key: "k3", BootID: "b3", Machine: m1, Previous: []string{"k0", "k1", "k2"}, Machines: map[string]string{"k1": m1, "k2": m2}}
		if change != nil {
			change(r)
		}
		return r
	}
	unset := func(as string) *reservation {
		return &reservation{Key: "k3", BootID: "b3", Machine: as, Previous: []string{"k1"}, Machines: map[string]string{"k1": as}}
	}
	now := func(machine string) *reservation { return &reservation{Machine: machine} }
	before := func(machine string) *reservation {
		return &reservation{Machine: m9, Machines: map[string]string{"k8": machine}}
	}
	const zeros, board = "00000000-0000-0000-0000-000000000000", "03000200-0400-0500-0006-000700080009"
	for name, c := range map[string]struct {
		record *reservation
		// others are records of other nodes, nodes what Nodes say.
		others          []*reservation
		nodes           map[string]string
		keys            []string
		bootID, machine string
		ended           []string
	}{
		"in the boot of the record":                            {record(nil), []*reservation{now(m9), now("")}, nil, []string{"k0", "k1", "k2"}, "b3", "", []string{"k1"}},
		"a Node that tells of another machine than the record": {record(nil), nil, nil, []string{"k1", "k2"}, "b3", m2, []string{"k1"}},
		"in the next boot, of the same machine":                {record(nil), nil, nil, []string{"k1", "k2", "k3"}, "b4", m1, []string{"k1", "k3"}},
		"in the next boot, of the machine before":              {record(nil), nil, nil, []string{"k1", "k2", "k3"}, "b4", m2, []string{"k2"}},
		"in the next boot, and the Node does not say":          {record(nil), nil, nil, []string{"k0", "k1", "k2", "k3"}, "b4", "", nil},
		"the key of the boot that answers":                     {record(nil), nil, nil, []string{"k3"}, "b3", m1, nil},
		"a boot that nobody knows":                             {record(nil), nil, nil, []string{"k1", "k3"}, "", m1, nil},
		"no machine on record for the boot":                    {record(func(r *reservation) { r.Machine = "" }), nil, nil, []string{"k0", "k1", "k2"}, "b3", m1, nil},
		"no machine on record for the key":                     {record(func(r *reservation) { r.Machine = "" }), nil, nil, []string{"k0", "k3"}, "b4", m1, nil},
		"a record of before machines":                          {record(func(r *reservation) { r.Machines = nil }), nil, nil, []string{"k0", "k1", "k2"}, "b3", m1, nil},
		"a key that is on no record":                           {record(nil), nil, nil, []string{"kx"}, "b3", m1, nil},
		"another node has a key of the machine":                {record(nil), []*reservation{now(m1)}, nil, []string{"k1", "k3"}, "b4", m1, nil},
		"another node had a key of the machine":                {record(nil), []*reservation{before(m1)}, nil, []string{"k1", "k3"}, "b4", m1, nil},
		"another node had one, and it is not that machine":     {record(nil), []*reservation{before(m2)}, nil, []string{"k1", "k3"}, "b4", m1, []string{"k1", "k3"}},
		"the Node writes the UUID in another way":              {record(nil), nil, map[string]string{"n1": "4C4C4544-0051-3410-8051-B5C04F375931"}, []string{"k1", "k3"}, "b4", "4C4C4544-0051-3410-8051-B5C04F375931", []string{"k1", "k3"}},
		"a Node without a Member is the machine":               {record(nil), nil, map[string]string{"n1": m1, "n9": m1}, []string{"k1", "k3"}, "b4", m1, nil},
		"and writes it in another way":                         {record(nil), nil, map[string]string{"n9": "4C4C4544005134108051B5C04F375931"}, []string{"k1", "k3"}, "b4", m1, nil},
		"Nodes of other machines, and one that does not say":   {record(nil), nil, map[string]string{"n1": m1, "n8": "", "n9": m9}, []string{"k1"}, "b4", m1, []string{"k1"}},
		"a UUID that a maker gave to many":                     {unset(board), nil, map[string]string{"n1": board}, []string{"k1", "k3"}, "b4", board, nil},
		"the same, in the boot of the record":                  {unset(board), nil, map[string]string{"n1": board}, []string{"k1"}, "b3", board, nil},
		"a UUID of zeros":                                      {unset(zeros), nil, nil, []string{"k1"}, "b3", zeros, nil},
		"a UUID that is none":                                  {unset("Not Settable"), nil, nil, []string{"k1"}, "b3", "Not Settable", nil},
	} {
		m := member("n1", nil, "", false)
		m.Spec.Reservation = c.record
		// A second Member of the node, as a backup tool makes it, is no other machine.
		twin := member("n1", nil, "", false)
		twin.Spec.Reservation = &reservation{Machine: m1}
		all := decide.Everyone{Members: []*v1alpha1.Member{m, twin, member("n2", nil, "", false)}, Nodes: map[string]string{}}
		maps.Copy(all.Nodes, c.nodes)
		for _, r := range c.others {
			o := member("n3", nil, "", false)
			o.Spec.Reservation = r
			all.Members = append(all.Members, o)
		}
		ended, open := Ended(m, all, c.keys, c.bootID, c.machine)
		if !slices.Equal(ended, c.ended) || len(ended)+len(open) != len(c.keys) {
			t.Errorf("%s: ended %q, open %q, want %q", name, ended, open, c.ended)
		}
		all.Nodes = nil
		if ended, _ := Ended(m, all, c.keys, c.bootID, c.machine); len(ended) > 0 {
			t.Errorf("%s, and no Node was read: ended %q", name, ended)
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
