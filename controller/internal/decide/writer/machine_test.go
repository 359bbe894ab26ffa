package writer

import (
	"strings"
	"testing"

	"quarry.storage/quarry/pkg/sharedlun"
)

func TestStranger(t *testing.T) {
	const m1, m2, none = "4c4c4544-0051-3410-8051-b5c04f375931", "4c4c4544-0051-3410-8051-b5c04f375932", "03000200-0400-0500-0006-000700080009"
	for name, c := range map[string]struct {
		granted         Granted
		bootID, machine string
		// want is a part of why the node counts as another machine; empty when it does not.
		want string
	}{
		"the boot of the record, of an unknown machine":    {Granted{BootID: "b1", Machine: m1}, "b1", "", ""},
		"the boot of the record, without reservations":     {Granted{BootID: "b1", Unfenced: true}, "b1", "", ""},
		"the same machine in another boot":                 {Granted{BootID: "b1", Machine: m1}, "b2", m1, ""},
		"the same machine, fenced":                         {Granted{BootID: "b1", Machine: m1, Fenced: true}, "b2", m1, ""},
		"the same machine, without reservations":           {Granted{BootID: "b1", Machine: m1, Unfenced: true}, "b2", m1, ""},
		"another machine":                                  {Granted{BootID: "b1", Machine: m1}, "b2", m2, "machine " + m1},
		"another machine, where the first one is fenced":   {Granted{BootID: "b1", Machine: m1, Fenced: true}, "b2", m2, "machine " + m1},
		"a Node that does not say its machine":             {Granted{BootID: "b1", Machine: m1}, "b2", "", "does not say"},
		"no machine on record, and a key":                  {Granted{BootID: "b1"}, "b2", m2, ""},
		"no machine on record, and no reservations":        {Granted{BootID: "b1", Unfenced: true}, "b2", m2, "not known"},
		"no machine on record, and a request under way":    {Granted{BootID: "b1", Registering: true}, "b2", m2, "not known"},
		"no machine on record, and fenced":                 {Granted{BootID: "b1", Fenced: true}, "b2", "", "not known"},
		"another machine, and a person vouched":            {Granted{BootID: "b1", Machine: m1, Unfenced: true, Fenced: true}, "b2", m2, ""},
		"fenced without a key on record: a person vouched": {Granted{BootID: sharedlun.UnknownBoot, Fenced: true}, "b2", m2, ""},
		"a UUID that another node has, and a key":          {Granted{BootID: "b1", Machine: m1, Shared: true}, "b2", m1, ""},
		"a UUID that another node has, no reservations":    {Granted{BootID: "b1", Machine: m1, Unfenced: true, Shared: true}, "b2", m1, "not known"},
		"a UUID that another node has, and fenced":         {Granted{BootID: "b1", Machine: m1, Fenced: true, Shared: true}, "b2", m1, "not known"},
		"a UUID that another node has, and a person":       {Granted{BootID: "b1", Machine: m1, Unfenced: true, Fenced: true, Shared: true}, "b2", m1, ""},
		"another machine, whose UUID another node has":     {Granted{BootID: "b1", Machine: m1, Shared: true}, "b2", m2, "machine " + m1},
		"a UUID of many machines, and a key":               {Granted{BootID: "b1", Machine: none}, "b2", none, ""},
		"a UUID of many machines, and no reservations":     {Granted{BootID: "b1", Machine: none, Unfenced: true}, "b2", none, "not known"},
		"a UUID of many machines, and fenced":              {Granted{BootID: "b1", Machine: none, Fenced: true}, "b2", none, "not known"},
		"a Node that tells the UUID of many machines":      {Granted{BootID: "b1", Machine: m1}, "b2", none, "does not say"},
		"no boot at all":                                   {Granted{Machine: m1}, "", "", "does not say"},
	} {
		got := Stranger(c.granted, c.bootID, c.machine)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
