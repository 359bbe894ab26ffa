package iscsi

import (
	"context"
	"strings"
	"testing"

	"quarry.storage/quarry/controller/internal/backend/iscsi/iscsitest"
	"quarry.storage/quarry/controller/internal/decide/iscsi"
	"quarry.storage/quarry/controller/internal/decide/writer"
	"quarry.storage/quarry/pkg/api/v1alpha1"
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
