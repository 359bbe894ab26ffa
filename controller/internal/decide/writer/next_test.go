package writer

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
		"idle, the writer is away: nobody waits for it": {
			Record{Epoch: 4, Writer: "n1"}, Facts{Up: up("n3")}, write(Record{Epoch: 5, Writer: "n3", Taken: "csi"}),
		},
		"a change was not answered": {
			mine,
			Facts{Up: up("n1"), Unanswered: true, Read: true, Group: 4},
			write(Record{Epoch: 5, Writer: "n1", Taken: "csi", Pending: []string{"n1"}}),
		},
		"a pending node is asked": {
			Record{Epoch: 5, Writer: "n2", Taken: "csi", Pending: []string{"n1"}}, Facts{Up: up("n2")}, Action{Yield: "n1"},
		},
		"a pending node yielded": {
			Record{Epoch: 5, Writer: "n2", Taken: "csi", Pending: []string{"n1"}},
			Facts{Up: up("n2"), Yielded: map[string]uint64{"n1": 5}},
			write(Record{Epoch: 5, Writer: "n2", Taken: "csi", Pending: []string{}}),
		},
		"a pending node yielded to an epoch of before": {
			Record{Epoch: 5, Writer: "n2", Taken: "csi", Pending: []string{"n1"}},
			Facts{Up: up("n2"), Yielded: map[string]uint64{"n1": 4}},
			Action{Yield: "n1"},
		},
		"a pending node is fenced": {
			Record{Epoch: 5, Writer: "n2", Taken: "csi", Pending: []string{"n1"}},
			Facts{Up: up("n2"), Fenced: up("n1")},
			write(Record{Epoch: 5, Writer: "n2", Taken: "csi", Pending: []string{}}),
		},
		"the group is read":       {mine, Facts{Up: up("n1")}, Action{Read: "n1"}},
		"the group is taken over": {mine, Facts{Up: up("n1"), Read: true, Group: 3}, Action{TakeOver: "n1"}},
		"ready":                   {mine, Facts{Up: up("n1"), Read: true, Group: 4}, Action{Ready: true}},
		"a pending node promised more: the record is old": {
			Record{Epoch: 5, Writer: "n2", Taken: "csi", Pending: []string{"n1"}},
			Facts{Up: up("n2"), Yielded: map[string]uint64{"n1": 9}},
			write(Record{Epoch: 10, Writer: "n2", Taken: "csi", Pending: members}),
		},
		"the writer promised more than the group says": {
			mine,
			Facts{Up: up("n1"), Read: true, Group: 4, Promised: 6},
			write(Record{Epoch: 7, Writer: "n1", Taken: "csi", Pending: members}),
		},
		"the record is from a backup": {
			mine, Facts{Up: up("n1"), Read: true, Group: 7}, write(Record{Epoch: 8, Writer: "n1", Taken: "csi", Pending: members}),
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
