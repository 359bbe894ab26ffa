package iscsi

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/backend/iscsi/iscsitest"
	"quarry.storage/quarry/controller/internal/decide/iscsi"
	"quarry.storage/quarry/controller/internal/decide/writer"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// changedUntil is the record of a group that was changed until it had a sequence number.
type changedUntil uint64

func (c changedUntil) Load(context.Context, string) (writer.Record, string, error) {
	return writer.Record{Epoch: 1, Writer: "n1", Noted: writer.Mark{Group: iscsitest.GroupUUID, Sequence: uint64(c)}}, "lease/1", nil
}

// TestObserve_olderGroup: a group that is older than the one that was changed last is none that is known.
func TestObserve_olderGroup(t *testing.T) {
	w := watch(t)
	w.san.MakeGroup(w.lun, uid)
	edit(w.site, &v1alpha1.Member{}, "san.n1", func(m *v1alpha1.Member) { m.Spec.Group = &v1alpha1.MemberGroup{UUID: iscsitest.GroupUUID, Name: "vg"} })
	now := w.san.Group(w.lun).Sequence
	for _, c := range []struct {
		until uint64
		known bool
	}{{now, true}, {now + 1, false}, {now, true}} {
		w.b.Records = changedUntil(c.until)
		w.after(iscsi.Every)
		r := w.last.(*iscsi.View).Seen().Reading
		if r.Known != c.known || (r.Group() != nil) != c.known || c.known == strings.Contains(r.Problem, "older than it was") {
			t.Errorf("changed until %d: %+v", c.until, r)
		}
	}
}

// lagging are agents of which some see an earlier state of the LUN, and others do not see it at all.
type lagging struct {
	Agents
	behind, blind []string
}

func (l lagging) Contents(ctx context.Context, node string, ref sharedlun.Ref) (sharedlun.Contents, error) {
	if slices.Contains(l.blind, node) {
		return sharedlun.Contents{}, errors.New("no path is up")
	}
	c, err := l.Agents.Contents(ctx, node, ref)
	if c.Group != nil && slices.Contains(l.behind, node) {
		g := *c.Group
		g.Sequence--
		c.Group = &g
	}
	return c, err
}

// TestObserve_olderOnOneWay: a writer whose portal leads to a replica that lags changes nothing, whatever other initiators see. That is told, with the nodes that see the earlier state.
func TestObserve_olderOnOneWay(t *testing.T) {
	for name, c := range map[string]struct {
		agents lagging
		known  bool
		says   []string
	}{
		"another one sees it as it was": {lagging{behind: []string{"n1"}}, true, []string{"node n1 reads on the LUN is older", "Node n2 reads it as it was."}},
		"another one sees nothing":      {lagging{behind: []string{"n1"}, blind: []string{"n2"}}, false, []string{"node n1 reads on the LUN is older"}},
		"another one sees it so, too":   {lagging{behind: []string{"n1", "n2"}}, false, []string{"node n1 reads on the LUN is older", "Node n2 sees it so, too."}},
	} {
		t.Run(name, func(t *testing.T) {
			w := watch(t, "n2")
			w.san.MakeGroup(w.lun, uid)
			edit(w.site, &v1alpha1.Member{}, "san.n1", func(m *v1alpha1.Member) { m.Spec.Group = &v1alpha1.MemberGroup{UUID: iscsitest.GroupUUID, Name: "vg"} })
			w.b.Records = changedUntil(w.san.Group(w.lun).Sequence)
			w.after(0)
			if r := w.last.(*iscsi.View).Seen().Reading; !r.Known || r.Older != "" {
				t.Fatalf("%+v", r)
			}
			c.agents.Agents = w.b.Agents
			w.b.Agents = c.agents
			w.after(iscsi.Every)
			if r := w.last.(*iscsi.View).Seen().Reading; r.Known != c.known {
				t.Errorf("%+v", r)
			}
			facts := w.last.Whole(nil).Facts
			// What the writer does not see, another one may: then it is known which volumes there are.
			present := meta.FindStatusCondition(facts, v1alpha1.ConditionVolumesPresent)
			if present == nil || (present.Status == metav1.ConditionTrue) != c.known || !c.known && (present.Status != metav1.ConditionUnknown || !strings.Contains(present.Message, c.says[0])) {
				t.Errorf("%+v", present)
			}
			ready := meta.FindStatusCondition(facts, v1alpha1.ConditionLunReady)
			if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != v1alpha1.ReasonGroupUnreadable {
				t.Fatalf("%+v", ready)
			}
			for _, want := range c.says {
				if !strings.Contains(ready.Message, want) {
					t.Errorf("%q does not say %q", ready.Message, want)
				}
			}
		})
	}
}
