package writer

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/pkg/sharedlun"
)

func TestNext(t *testing.T) {
	write := func(r Record) Action { return Action{Write: &r} }
	up := func(nodes ...string) map[string]bool {
		m := map[string]bool{}
		for _, n := range nodes {
			m[n] = true
		}
		return m
	}
	members := []string{"n1", "n2", "n3"}
	mine := Record{Epoch: 4, Writer: "n1", Taken: "csi"}
	for name, c := range map[string]struct {
		record Record
		facts  Facts
		want   Action
	}{
		"no record: any member may have been the writer": {
			Record{}, Facts{Up: up("n2")}, write(Record{Epoch: 1, Writer: "n2", Taken: "csi", Pending: members}),
		},
		"no node": {Record{}, Facts{}, Action{Wait: "no node that may write to the LUN answers"}},
		"another process works": {
			Record{Epoch: 4, Writer: "n1", Taken: "engine"}, Facts{Up: up("n1")}, Action{Wait: "engine is changing the volume group"},
		},
		"another process died at work: its writer has to yield, even to itself": {
			Record{Epoch: 4, Writer: "n1", Taken: "engine"},
			Facts{Up: up("n1"), Stale: true},
			write(Record{Epoch: 5, Writer: "n1", Taken: "csi", Pending: []string{"n1"}}),
		},
		"idle": {Record{Epoch: 4, Writer: "n1"}, Facts{Up: up("n1")}, write(mine)},
		"idle, written before a change of this process that was not answered: its writer has to yield": {
			Record{Epoch: 4, Writer: "n1"},
			Facts{Up: up("n1", "n3"), Failed: up("n1"), Unanswered: "n1"},
			write(Record{Epoch: 5, Writer: "n3", Taken: "csi", Pending: []string{"n1"}}),
		},
		"idle, and a change of this process to an earlier writer was not answered: that one has to yield": {
			Record{Epoch: 6, Writer: "n2"},
			Facts{Up: up("n1", "n2"), Unanswered: "n1"},
			write(Record{Epoch: 7, Writer: "n2", Taken: "csi", Pending: []string{"n1"}}),
		},
		"idle, and so, and the writer of now is away: nobody waits for that": {
			Record{Epoch: 6, Writer: "n2"},
			Facts{Up: up("n1", "n3"), Unanswered: "n1"},
			write(Record{Epoch: 7, Writer: "n1", Taken: "csi", Pending: []string{"n1"}}),
		},
		"another process died at work, and a change of this one was not answered": {
			Record{Epoch: 6, Writer: "n2", Taken: "engine"},
			Facts{Up: up("n2"), Stale: true, Unanswered: "n1"},
			write(Record{Epoch: 7, Writer: "n2", Taken: "csi", Pending: []string{"n1", "n2"}}),
		},
		"idle, the writer is away: nobody waits for it": {
			Record{Epoch: 4, Writer: "n1"}, Facts{Up: up("n3")}, write(Record{Epoch: 5, Writer: "n3", Taken: "csi"}),
		},
		"the writer failed: another one goes on, and nobody waits, for every change was answered": {
			mine, Facts{Up: up("n1", "n3"), Failed: up("n1"), Read: true, GroupEpoch: 4}, write(Record{Epoch: 5, Writer: "n3", Taken: "csi"}),
		},
		"the writer failed, and a change of it was not answered: it has to yield": {
			mine,
			Facts{Up: up("n1", "n3"), Failed: up("n1"), Unanswered: "n1"},
			write(Record{Epoch: 5, Writer: "n3", Taken: "csi", Pending: []string{"n1"}}),
		},
		"the writer failed, and all others did: it is tried again": {
			mine, Facts{Up: up("n1", "n3"), Failed: up("n1", "n3")}, Action{Read: "n1"},
		},
		"the writer is away, and all others failed": {
			mine, Facts{Up: up("n3"), Failed: up("n3")}, write(Record{Epoch: 5, Writer: "n3", Taken: "csi"}),
		},
		"idle, and the writer failed": {
			Record{Epoch: 4, Writer: "n1"}, Facts{Up: up("n1", "n2"), Failed: up("n1")}, write(Record{Epoch: 5, Writer: "n2", Taken: "csi"}),
		},
		"a pending node is waited for, and the writer failed": {
			Record{Epoch: 5, Writer: "n2", Taken: "csi", Pending: []string{"n1"}},
			Facts{Up: up("n2", "n3"), Failed: up("n2"), Silent: map[string]string{"n1": "why"}},
			write(Record{Epoch: 6, Writer: "n3", Taken: "csi", Pending: []string{"n1"}}),
		},
		"a change was not answered": {
			mine,
			Facts{Up: up("n1"), Unanswered: "n1", Read: true, GroupEpoch: 4},
			write(Record{Epoch: 5, Writer: "n1", Taken: "csi", Pending: []string{"n1"}}),
		},
		"a write of the record had no answer: it is written anew before anything is sent": {
			mine, Facts{Up: up("n1"), Late: true, Read: true, GroupEpoch: 4}, write(mine),
		},
		"a write of the record had no answer, and a node is pending": {
			Record{Epoch: 5, Writer: "n2", Taken: "csi", Pending: []string{"n1"}},
			Facts{Up: up("n2"), Late: true},
			write(Record{Epoch: 5, Writer: "n2", Taken: "csi", Pending: []string{"n1"}}),
		},
		"a write of the record had no answer, and the record is not this process's own": {
			Record{Epoch: 4, Writer: "n1", Taken: "engine"}, Facts{Up: up("n1"), Late: true}, Action{Wait: "engine is changing the volume group"},
		},
		"a pending node is asked": {
			Record{Epoch: 5, Writer: "n2", Taken: "csi", Pending: []string{"n1"}}, Facts{Up: up("n2")}, Action{Promise: "n1"},
		},
		"a pending node yielded": {
			Record{Epoch: 5, Writer: "n2", Taken: "csi", Pending: []string{"n1"}},
			Facts{Up: up("n2"), Promised: map[string]uint64{"n1": 5}},
			write(Record{Epoch: 5, Writer: "n2", Taken: "csi", Pending: []string{}}),
		},
		"a pending node yielded to an epoch of before": {
			Record{Epoch: 5, Writer: "n2", Taken: "csi", Pending: []string{"n1"}},
			Facts{Up: up("n2"), Promised: map[string]uint64{"n1": 4}},
			Action{Promise: "n1"},
		},
		"a pending node is fenced, they say": {
			Record{Epoch: 5, Writer: "n2", Taken: "csi", Pending: []string{"n1"}}, Facts{Up: up("n2"), Fenced: up("n1")}, Action{Keys: "n2"},
		},
		"a pending node is fenced, they say, and nobody can read the keys": {
			Record{Epoch: 5, Writer: "n2", Taken: "csi", Pending: []string{"n1"}},
			Facts{Up: up("n3"), Fenced: up("n1")},
			write(Record{Epoch: 6, Writer: "n3", Taken: "csi", Pending: []string{"n1"}}),
		},
		"a pending node is fenced, they say, and the keys say something else: it is asked": {
			Record{Epoch: 5, Writer: "n2", Taken: "csi", Pending: []string{"n1"}},
			Facts{Up: up("n2"), Fenced: up("n1"), KeysRead: true, Doubts: map[string]string{"n1": "why"}},
			Action{Promise: "n1"},
		},
		"a pending node is fenced": {
			Record{Epoch: 5, Writer: "n2", Taken: "csi", Pending: []string{"n1"}},
			Facts{Up: up("n2"), Fenced: up("n1"), KeysRead: true},
			write(Record{Epoch: 5, Writer: "n2", Taken: "csi", Pending: []string{}}),
		},
		"a pending node is fenced without keys, and answers: it is asked": {
			Record{Epoch: 5, Writer: "n2", Taken: "csi", Pending: []string{"n1"}},
			Facts{Up: up("n2"), Fenced: up("n1"), KeysRead: true, Runs: up("n1")},
			Action{Promise: "n1"},
		},
		"the group is read":                                    {mine, Facts{Up: up("n1")}, Action{Read: "n1"}},
		"the group is taken over":                              {mine, Facts{Up: up("n1"), Read: true, GroupEpoch: 3}, Action{TakeOver: "n1"}},
		"the group is older than it was: nobody takes it over": {mine, Facts{Up: up("n1"), Read: true, GroupEpoch: 3, Older: "why"}, Action{Wait: "why"}},
		"ready": {mine, Facts{Up: up("n1"), Read: true, GroupEpoch: 4}, Action{MayChange: true}},
		"a pending node promised more: the record is old": {
			Record{Epoch: 5, Writer: "n2", Taken: "csi", Pending: []string{"n1"}},
			Facts{Up: up("n2"), Promised: map[string]uint64{"n1": 9}},
			write(Record{Epoch: 10, Writer: "n2", Taken: "csi", Pending: members}),
		},
		"the writer promised more than the group says": {
			mine,
			Facts{Up: up("n1"), Read: true, GroupEpoch: 4, WriterPromised: 6},
			write(Record{Epoch: 7, Writer: "n1", Taken: "csi", Pending: members}),
		},
		"the record is from a backup": {
			mine, Facts{Up: up("n1"), Read: true, GroupEpoch: 7}, write(Record{Epoch: 8, Writer: "n1", Taken: "csi", Pending: members}),
		},
		"the writer went away, and every change was answered": {
			mine, Facts{Up: up("n2")}, write(Record{Epoch: 5, Writer: "n2", Taken: "csi"}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.facts.Self, c.facts.Members = "csi", members
			if d := cmp.Diff(c.want, Next(c.record, c.facts)); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestRecord_noted: whatever becomes of a record, it keeps what says that a group is older.
func TestRecord_noted(t *testing.T) {
	at := func(sequence uint64) sharedlun.Group { return sharedlun.Group{UUID: "g", Sequence: sequence} }
	r := Record{Epoch: 5, Writer: "n2", Taken: "csi", Pending: []string{"n1"}, Noted: Mark{"g", 9}}
	for name, next := range map[string]Record{"idle": r.Idle(), "another epoch": r.next("n3", "engine", "n2"), "a node yielded": r.without("n1")} {
		if next.Noted.Older("n1", at(8)) == "" || next.Noted.Older("n1", at(9)) != "" || next.Noted.Older("n1", at(10)) != "" {
			t.Errorf("%s: %+v", name, next)
		}
	}
	if r.Equal(Record{Epoch: 5, Writer: "n2", Taken: "csi", Pending: []string{"n1"}}) {
		t.Error("a record that notes nothing")
	}
	// A number without a group is of no version that was released.
	for _, m := range []Mark{{}, {"other", 9}, {"", 9}} {
		if why := m.Older("n1", at(1)); why != "" {
			t.Errorf("%+v: %s", m, why)
		}
	}
}

// TestMark_Or: of two marks of a group the further one counts, and one of another group does not replace what is noted.
func TestMark_Or(t *testing.T) {
	for _, c := range []struct{ m, or, want Mark }{
		{Mark{"g", 3}, Mark{"g", 4}, Mark{"g", 4}},
		{Mark{"g", 4}, Mark{"g", 3}, Mark{"g", 4}},
		{Mark{"other", 9}, Mark{"g", 3}, Mark{"g", 3}},
		{Mark{"g", 3}, Mark{"other", 9}, Mark{"g", 3}},
		{Mark{"other", 9}, Mark{}, Mark{"other", 9}},
		{Mark{"", 9}, Mark{"g", 3}, Mark{"g", 3}},
		{Mark{}, Mark{"other", 9}, Mark{}},
	} {
		if got := c.m.Or(c.or, "g"); got != c.want {
			t.Errorf("%+v or %+v is %+v", c.m, c.or, got)
		}
	}
	if got := (Mark{"g", 3}).Or(Mark{"", 9}, ""); got != (Mark{"g", 3}) {
		t.Errorf("of no group: %+v", got)
	}
}

func TestNext_silence(t *testing.T) {
	r := Record{Epoch: 5, Writer: "n2", Taken: "csi", Pending: []string{"n1", "n3"}}
	f := Facts{Self: "csi", Up: map[string]bool{"n2": true}, Silent: map[string]string{"n1": "no connection", "n3": "deadline exceeded"}}
	got := Next(r, f).Wait
	for _, want := range []string{"n1 (no connection), n3 (deadline exceeded)", "node.kubernetes.io/out-of-service"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
}

func TestDisbelief(t *testing.T) {
	records := []KeyRecord{{Node: "n1", Key: 1}, {Node: "n2", Key: 2, Previous: []uint64{7}}}
	keys := func(list ...uint64) sharedlun.Reservation {
		return sharedlun.Reservation{Supported: true, Keys: list, Type: sharedlun.WriteExclusiveAllRegistrants}
	}
	for name, c := range map[string]struct {
		earlier []uint64
		records []KeyRecord
		keys    sharedlun.Reservation
		says    string
	}{
		"those of members":               {nil, records, keys(1, 2), ""},
		"it has none yet":                {[]uint64{2, 7}, records, keys(1), ""},
		"one of an earlier boot":         {[]uint64{7}, records, keys(1, 2, 7), "its key of an earlier boot (0000000000000007)"},
		"one that nobody knows":          {nil, records, keys(1, 2, 0x17), "key 0000000000000017 on the LUN is no member's"},
		"nobody has reserved it":         {nil, records, sharedlun.Reservation{Supported: true, Keys: []uint64{1, 2}}, "nobody is kept"},
		"the target lost its keys":       {nil, records, sharedlun.Reservation{Supported: true}, "nobody is kept"},
		"a target without any":           {nil, nil, sharedlun.Reservation{}, ""},
		"none on record, one on the LUN": {nil, nil, keys(1), "key 0000000000000001 on the LUN is no member's"},
	} {
		if got := Disbelief("n2", c.earlier, c.records, 1, c.keys); (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
			t.Errorf("%s: %q, want %q", name, got, c.says)
		}
	}
}

func TestDoubt(t *testing.T) {
	grants := func(edit ...func([]KeyRecord)) []KeyRecord {
		out := []KeyRecord{{Node: "n1", Key: 1}, {Node: "n2", Key: 2, Fenced: true}, {Node: "n3", Key: 3}, {Node: "n4"}}
		for _, e := range edit {
			e(out)
		}
		return out
	}
	keys := func(list ...uint64) sharedlun.Reservation {
		return sharedlun.Reservation{Supported: true, Keys: list, Type: sharedlun.WriteExclusiveAllRegistrants}
	}
	unfenced := func(g []KeyRecord) {
		for i := range g {
			g[i].Key = 0
		}
	}
	for name, c := range map[string]struct {
		grants []KeyRecord
		keys   sharedlun.Reservation
		says   string
	}{
		"those of members":              {grants(), keys(1, 3), ""},
		"not all of them":               {grants(), keys(1), ""},
		"that of the node":              {grants(), keys(1, 2, 3), "of n2, which is fenced"},
		"that of another fenced node":   {grants(func(g []KeyRecord) { g[2].Fenced = true }), keys(1, 3), "of n3, which is fenced"},
		"one that nobody knows":         {grants(), keys(1, 0x17), "0000000000000017 on the LUN is no member's"},
		"that of its second record":     {append(grants(), KeyRecord{Node: "n2", Key: 8}), keys(1, 3, 8), "key 0000000000000008 of n2"},
		"an old one of its second":      {append(grants(), KeyRecord{Node: "n2", Key: 8, Previous: []uint64{9}}), keys(1, 9), "key 0000000000000009 of n2"},
		"its second is not registered":  {append(grants(), KeyRecord{Node: "n2", Key: 8}), keys(1, 3), ""},
		"two have one, one is fenced":   {append(grants(), KeyRecord{Node: "n4", Key: 3, Fenced: true}), keys(1, 3), "key 0000000000000003 of n4"},
		"the writer's own is missing":   {grants(), keys(3), "not registered"},
		"none, and no reservation":      {grants(), sharedlun.Reservation{Supported: true}, "not registered"},
		"no reservation":                {grants(), sharedlun.Reservation{Supported: true, Keys: []uint64{1}}, "nobody holds"},
		"no reservations at all":        {grants(), sharedlun.Reservation{}, "no reservations"},
		"it may be registered later":    {grants(func(g []KeyRecord) { g[1].Registering = true }), keys(1), "did not answer"},
		"another may be":                {grants(func(g []KeyRecord) { g[2].Registering = true }), keys(1), ""},
		"nobody has one, and none are":  {grants(unfenced), sharedlun.Reservation{}, ""},
		"nobody has one, and there are": {grants(unfenced), keys(1), "not registered"},
		"half of the members have none": {grants(func(g []KeyRecord) { g[2].Key = 0 }), sharedlun.Reservation{}, "no reservations"},
		"the target keeps them by now":  {grants(unfenced), sharedlun.Reservation{Supported: true}, ""},
		"somebody else has reserved it": {grants(unfenced), sharedlun.Reservation{Supported: true, Type: 7}, "not registered"},
		"the key of an earlier boot":    {grants(func(g []KeyRecord) { g[2].Previous = []uint64{7, 8} }), keys(1, 7, 8), ""},
		"an earlier one of the node":    {grants(func(g []KeyRecord) { g[1].Previous = []uint64{7} }), keys(1, 3, 7), "of n2, which is fenced"},
		"an earlier one is on record":   {grants(unfenced, func(g []KeyRecord) { g[3].Previous = []uint64{7} }), sharedlun.Reservation{Supported: true}, "not registered"},
	} {
		if got := Doubt("n2", c.grants, c.grants[0].Key, c.keys); (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
			t.Errorf("%s: %q, want %q", name, got, c.says)
		}
	}
}
