package decide

import (
	"testing"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestMachine: a machine is told by a UUID that its maker gave to it alone.
func TestMachine(t *testing.T) {
	for name, c := range map[string]struct {
		uuid  string
		tells bool
	}{
		"of one board":                      {"4c4c4544-0051-3410-8051-b5c04f375931", true},
		"in capitals":                       {"4C4C4544-0051-3410-8051-B5C04F375931", true},
		"without hyphens":                   {"769ac97c0b0d4f3e8fb47e10c998c64f", true},
		"one with the address of a port":    {"00000000-0000-0000-0000-ac1f6b0a1b2c", true},
		"none":                              {"", false},
		"zeros":                             {"00000000-0000-0000-0000-000000000000", false},
		"zeros without hyphens":             {"00000000000000000000000000000000", false},
		"ones":                              {"FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", false},
		"a field and ones":                  {"12345678-ffff-ffff-ffff-ffffffffffff", false},
		"one byte in all places":            {"fefefefe-fefe-fefe-fefe-fefefefefefe", false},
		"a default":                         {"03000200-0400-0500-0006-000700080009", false},
		"a default, turned":                 {"00020003-0004-0005-0006-000700080009", false},
		"a default, without hyphens":        {"03000200040005000006000700080009", false},
		"a board without its number":        {"4C4C4544-0000-2010-8020-80C04F202020", false},
		"what dmidecode says of zeros":      {"Not Settable", false},
		"what nobody filled in":             {"To be filled by O.E.M.", false},
		"the serial number of a frame":      {"IBM,0278D6F97", false},
		"hyphens elsewhere":                 {"4c4c45440051-3410-8051-b5c0-4f375931", false},
		"what is longer than a UUID":        {"4c4c4544-0051-3410-8051-b5c04f37593100", false},
		"what is written around by a brace": {"{4c4c4544-0051-3410-8051-b5c04f375931}", false},
	} {
		want := ""
		if c.tells {
			want = c.uuid
		}
		if got := Machine(c.uuid); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestSameMachine(t *testing.T) {
	const a = "4c4c4544-0051-3410-8051-b5c04f375931"
	for name, c := range map[string]struct {
		a, b string
		want bool
	}{
		"the same":               {a, a, true},
		"in capitals":            {a, "4C4C4544-0051-3410-8051-B5C04F375931", true},
		"without hyphens":        {"4c4c4544005134108051b5c04f375931", a, true},
		"turned":                 {a, "44454c4c-5100-1034-8051-b5c04f375931", true},
		"another one":            {a, "4c4c4544-0051-3410-8051-b5c04f375932", false},
		"none":                   {a, "", false},
		"two that say nothing":   {"", "", false},
		"two that are no UUIDs":  {"IBM,1", "IBM,1", false},
		"one that is none":       {"Not Settable", a, false},
		"none, the other way on": {"", a, false},
	} {
		if got := SameMachine(c.a, c.b); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
		if spelled := Spelled(c.a) == Spelled(c.b); spelled != c.want && uuidOf(c.a) != nil {
			t.Errorf("%s: spelled %q and %q", name, Spelled(c.a), Spelled(c.b))
		}
	}
}

// TestEveryone_Others: who else may be a machine is named, always the same one, and what was not read is no answer.
func TestEveryone_Others(t *testing.T) {
	const a, turned, b = "4c4c4544-0051-3410-8051-b5c04f375931", "44454c4c-5100-1034-8051-b5c04f375931", "4c4c4544-0051-3410-8051-b5c04f375932"
	member := func(node string, r v1alpha1.MemberReservation) *v1alpha1.Member {
		m := &v1alpha1.Member{}
		m.Spec.Node, m.Spec.Reservation = v1alpha1.HostName(node), &r
		return m
	}
	now, before := v1alpha1.MemberReservation{Machine: a}, v1alpha1.MemberReservation{Machine: b, Machines: map[string]string{"k": turned}}
	for name, c := range map[string]struct {
		machine string
		all     Everyone
		want    string
	}{
		"alone":                  {a, Everyone{Nodes: map[string]string{"n1": a, "n2": b, "n3": ""}, Members: []*v1alpha1.Member{member("n1", now), {}}}, ""},
		"two more Nodes":         {a, Everyone{Nodes: map[string]string{"n9": turned, "n1": a, "n5": a}}, "node n5 has it, too"},
		"two more Members":       {a, Everyone{Nodes: map[string]string{}, Members: []*v1alpha1.Member{member("n8", now), member("n7", before)}}, "a key of node n7 was granted to a machine that has it, too"},
		"no Node was read":       {a, Everyone{}, "which other nodes have it was not read"},
		"a default of the maker": {"03000200-0400-0500-0006-000700080009", Everyone{Nodes: map[string]string{}}, "it is a default of the maker, which many machines have, or no UUID"},
	} {
		if got := c.all.Others("n1", c.machine); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
