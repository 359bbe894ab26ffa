package writer

import (
	"errors"
	"strings"
	"testing"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/sharedlun"
)

// TestGranted_stranger: who may be another machine, and what is told of it.
func TestGranted_stranger(t *testing.T) {
	const m1, m2, none = "4c4c4544-0051-3410-8051-b5c04f375931", "4c4c4544-0051-3410-8051-b5c04f375932", "03000200-0400-0500-0006-000700080009"
	for name, c := range map[string]struct {
		granted         Granted
		bootID, machine string
		// others is who else has the UUID of the machine that answers.
		others string
		// want is a part of why the node counts as another machine; empty when it does not.
		want string
	}{
		"the boot of the record, of an unknown machine":    {Granted{BootID: "b1", Machine: m1}, "b1", "", "", ""},
		"the boot of the record, without reservations":     {Granted{BootID: "b1", Unfenced: true}, "b1", "", "", ""},
		"the same machine in another boot":                 {Granted{BootID: "b1", Machine: m1}, "b2", m1, "", ""},
		"the same machine, fenced":                         {Granted{BootID: "b1", Machine: m1, Fenced: true}, "b2", m1, "", ""},
		"the same machine, without reservations":           {Granted{BootID: "b1", Machine: m1, Unfenced: true}, "b2", m1, "", ""},
		"another machine":                                  {Granted{BootID: "b1", Machine: m1}, "b2", m2, "", "machine " + m1},
		"another machine, where the first one is fenced":   {Granted{BootID: "b1", Machine: m1, Fenced: true}, "b2", m2, "", "machine " + m1},
		"a Node that does not say its machine":             {Granted{BootID: "b1", Machine: m1}, "b2", "", "", "does not say"},
		"no machine on record, and a key":                  {Granted{BootID: "b1"}, "b2", m2, "", ""},
		"no machine on record, and no reservations":        {Granted{BootID: "b1", Unfenced: true}, "b2", m2, "", "not known"},
		"no machine on record, and a request under way":    {Granted{BootID: "b1", Registering: true}, "b2", m2, "", "not known"},
		"no machine on record, and fenced":                 {Granted{BootID: "b1", Fenced: true}, "b2", "", "", "not known"},
		"another machine, and a person vouched":            {Granted{BootID: "b1", Machine: m1, Unfenced: true, Fenced: true}, "b2", m2, "", ""},
		"fenced without a key on record: a person vouched": {Granted{BootID: sharedlun.UnknownBoot, Fenced: true}, "b2", m2, "", ""},
		"a UUID that another node has, and a key":          {Granted{BootID: "b1", Machine: m1}, "b2", m1, "node n7 has it, too", ""},
		"a UUID that another node has, no reservations":    {Granted{BootID: "b1", Machine: m1, Unfenced: true}, "b2", m1, "node n7 has it, too", "UUID " + m1 + " on record tells no machine from others: node n7 has it, too. So it is not known"},
		"a UUID that another node has, and fenced":         {Granted{BootID: "b1", Machine: m1, Fenced: true}, "b2", m1, "node n7 has it, too", "UUID " + m1 + " on record tells no machine from others: node n7 has it, too. So it is not known"},
		"a UUID that another node has, and a person":       {Granted{BootID: "b1", Machine: m1, Unfenced: true, Fenced: true}, "b2", m1, "node n7 has it, too", ""},
		"another machine, whose UUID another node has":     {Granted{BootID: "b1", Machine: m1}, "b2", m2, "node n7 has it, too", "machine " + m1},
		"a UUID of many machines, and a key":               {Granted{BootID: "b1", Machine: none}, "b2", none, "", ""},
		"a UUID of many machines, and no reservations":     {Granted{BootID: "b1", Machine: none, Unfenced: true}, "b2", none, "", "UUID " + none + " on record tells no machine from others: it is a default of the maker"},
		"a UUID of many machines, and fenced":              {Granted{BootID: "b1", Machine: none, Fenced: true}, "b2", none, "", "UUID " + none + " on record tells no machine from others: it is a default of the maker"},
		"a Node that tells the UUID of many machines":      {Granted{BootID: "b1", Machine: m1}, "b2", none, "", "is " + none + ", which is a default of the maker"},
		"no boot at all":                                   {Granted{Machine: m1}, "", "", "", "does not say"},
	} {
		got := c.granted.stranger(c.bootID, c.machine, c.others)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestStranger: other nodes are asked for only where nothing but a UUID tells, however the UUID is written, and what cannot be read is no answer.
func TestStranger(t *testing.T) {
	const m1, upper, m2, none = "4c4c4544-0051-3410-8051-b5c04f375931", "4C4C4544-0051-3410-8051-B5C04F375931", "4c4c4544-0051-3410-8051-b5c04f375932", "03000200-0400-0500-0006-000700080009"
	nodes := func(uuid string) decide.Everyone {
		return decide.Everyone{Nodes: map[string]string{"n1": m1, "n7": uuid}}
	}
	for name, c := range map[string]struct {
		granted Granted
		machine string
		all     decide.Everyone
		asked   bool
		want    string
	}{
		"alone":                     {Granted{BootID: "b1", Machine: m1, Fenced: true}, m1, nodes(m2), true, ""},
		"written in another way":    {Granted{BootID: "b1", Machine: upper, Fenced: true}, m1, nodes(m2), true, ""},
		"another node has it":       {Granted{BootID: "b1", Machine: m1, Fenced: true}, m1, nodes(upper), true, "node n7 has it, too"},
		"no Node was read":          {Granted{BootID: "b1", Machine: m1, Fenced: true}, m1, decide.Everyone{}, true, "was not read"},
		"a key tells":               {Granted{BootID: "b1", Machine: m1}, m1, nodes(m1), false, ""},
		"another machine":           {Granted{BootID: "b1", Machine: m1, Fenced: true}, m2, nodes(m1), false, "it is machine " + m2},
		"a default of the maker":    {Granted{BootID: "b1", Machine: none, Fenced: true}, none, nodes(m1), false, "default of the maker"},
		"in the boot of the record": {Granted{BootID: "b2", Machine: m1, Fenced: true}, m1, nodes(m1), false, ""},
	} {
		asked := false
		got, err := Stranger(c.granted, "n1", "b2", c.machine, func() (decide.Everyone, error) { asked = true; return c.all, nil })
		if err != nil || asked != c.asked || (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, asked %t, %v", name, got, asked, err)
		}
	}
	broken := errors.New("broken")
	if _, err := Stranger(Granted{BootID: "b1", Machine: m1, Fenced: true}, "n1", "b2", m1, func() (decide.Everyone, error) { return decide.Everyone{}, broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}
