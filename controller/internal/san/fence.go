package san

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/writer"
	"quarry.storage/quarry/pkg/sharedlun"
)

// keysOn are the keys on the LUN as the writer read them. Keys that could not be read leave every fence in doubt, and no more.
type keysOn struct {
	reservation sharedlun.Reservation
	err         error
	// before is what the Members said before the keys were read. When they say something else, a key may have been registered since.
	before []writer.KeyRecord
}

// readKeys reads the keys that are on the LUN at this moment.
func (t *Turn) readKeys(ctx context.Context) {
	k := keysOn{before: t.records()}
	// Keys on record say that the target has reservations: nothing that it says later takes that back.
	expected := slices.ContainsFunc(t.members, func(m Member) bool { return m.Key != 0 })
	k.reservation, k.err = t.san.cfg.Nodes.Reservation(ctx, t.record.Writer, t.ref.Lun, expected)
	t.keys = &k
	if k.err != nil {
		t.blame(ctx)
	}
	t.doubt()
}

// doubt says of every member, by what the Members say now and by the keys that were read, why its fence does not count.
func (t *Turn) doubt() {
	if t.keys != nil && !slices.EqualFunc(t.keys.before, t.records(), writer.KeyRecord.Equal) {
		t.keys = nil
	}
	t.facts.KeysRead, t.facts.Doubts, t.facts.Runs = t.keys != nil, map[string]string{}, map[string]bool{}
	if t.keys == nil {
		return
	}
	for _, m := range t.members {
		t.facts.Runs[m.Node] = t.runs(m.Node)
		t.facts.Doubts[m.Node] = writer.Doubt(m.Node, t.records(), t.writer().Key, t.keys.reservation)
		if t.keys.err != nil {
			t.facts.Doubts[m.Node] = "the keys on the LUN could not be read: " + messageOf(t.keys.err)
		}
	}
}

// runs reports whether a node that is fenced answers, or may do so yet, and nothing keeps it from writing: where nobody has reserved the LUN, only a person's word says that it is off. The keys
// have been read.
func (t *Turn) runs(node string) bool {
	return t.keys != nil && t.keys.err == nil && !t.keys.reservation.Held() && t.known(node).mayAnswer()
}

// cutOff reports whether an agent that was asked to unmap a volume of a fenced node said that somebody has the volume open: it has ended its I/O then. A call that it refused for any other reason, or did not
// answer, may have ended nothing.
func cutOff(err error) bool {
	f, is := errors.AsType[*decide.Fault](err)
	return answered(err) && is && f.Kind == decide.FaultPrecondition
}

// records are what the Members say of keys.
func (t *Turn) records() []writer.KeyRecord {
	var out []writer.KeyRecord
	for _, m := range t.members {
		out = append(out, writer.KeyRecord{Node: m.Node, Key: m.Key, Previous: m.Previous, Fenced: m.Fenced, Registering: m.Registering})
	}
	slices.SortFunc(out, func(a, b writer.KeyRecord) int { return strings.Compare(a.Node, b.Node) })
	return out
}

// fenced returns the boot in which a node was fenced, if that counts: its Member says so, and the keys that are on the LUN at this moment agree. Otherwise
// the boot is empty, and doubt says why a fence does not count; nil when the node was not fenced.
func (t *Turn) fenced(ctx context.Context, node string) (bootID string, doubt, err error) {
	m, err := t.member(ctx, node)
	if err != nil || !m.Fenced {
		return "", nil, err
	}
	t.readKeys(ctx)
	why := t.facts.Doubts[node]
	if why == "" && m.BootID == "" {
		why = "nobody knows in which boot it was fenced"
	}
	if why != "" {
		return "", &decide.Fault{
			Kind: decide.FaultUnavailable, Node: node, Call: "take a volume from a fenced node", Message: "the fence of the node does not count: " + why,
		}, nil
	}
	return m.BootID, nil, nil
}

// believe refuses what a node said while the keys on the LUN leave open whether another machine that had its name still writes; see writer.Disbelief. They are
// read after the node said it. The boot that the current key was granted for is one of one machine.
func (t *Turn) believe(ctx context.Context, node string) error {
	m, err := t.member(ctx, node)
	if err != nil {
		return err
	}
	t.readKeys(ctx)
	if t.keys.err != nil {
		return t.keys.err
	}
	why := writer.Disbelief(node, m.earlier(), t.records(), t.writer().Key, t.keys.reservation)
	switch {
	case m.Stranger != "":
		why = m.Stranger
	case why != "" && m.ReportedBootID == "":
		why = "its agent does not answer now, so that it is not known which boot the node is in"
	}
	if why != "" {
		return &decide.Fault{
			Kind: decide.FaultUnavailable, Node: node, Call: "believe a node",
			Message: fmt.Sprintf("what the node says in boot %q does not count: %s", m.ReportedBootID, why),
		}
	}
	return nil
}

// bare has a reader of a volume say that it has no device of it. That it reports another boot than its tag does not tell: that boot may come from a Member that was
// restored from a backup, or be unknown.
func (t *Turn) bare(ctx context.Context, node string, v sharedlun.Volume) error {
	if err := t.san.cfg.Nodes.Unmap(ctx, node, t.ref, v.UUID, t.Group.Sequence, false); err != nil {
		return err
	}
	return t.believe(ctx, node)
}

// readsNoMore has a reader of a volume, which is in another boot than those of its tags, say that it has no device of it, and takes it off the readers: without that each attachment would ask anew, and
// the tags would stay for as long as the volume.
func (t *Turn) readsNoMore(ctx context.Context, node string, v sharedlun.Volume) error {
	if err := t.bare(ctx, node, v); err != nil {
		return err
	}
	forget := &sharedlun.Forget{Name: v.Name, UUID: v.UUID}
	for _, b := range v.Readers {
		if b.Node == node {
			forget.Boots = append(forget.Boots, b)
		}
	}
	return t.Change(ctx, sharedlun.Change{Forget: forget})
}

// booted returns the boots that the readers of a volume report now, and those of its copies, once each of them said that it has no device of what it is a reader of: a copy
// is filled through a device of its origin that is named after the copy.
func (t *Turn) booted(ctx context.Context, v sharedlun.Volume) ([]sharedlun.Boot, error) {
	var out []sharedlun.Boot
	for _, through := range t.Group.ReadThrough(v) {
		boots, err := t.bootedOf(ctx, through)
		if err != nil {
			return nil, err
		}
		out = append(out, boots...)
	}
	return out, nil
}

// bootedOf returns the boots that the readers of one volume report now. Who holds it got it after it had said that it has no device of it, and may use the one that it has by now.
func (t *Turn) bootedOf(ctx context.Context, v sharedlun.Volume) ([]sharedlun.Boot, error) {
	var out []sharedlun.Boot
	for _, r := range v.Readers {
		m, err := t.member(ctx, r.Node)
		if err != nil {
			return nil, err
		}
		if m.ReportedBootID == "" || m.ReportedBootID == r.ID {
			// The writer refuses, and says which node is to be booted.
			continue
		}
		if v.HeldBy != r.Node {
			if err := t.bare(ctx, r.Node, v); err != nil {
				return nil, err
			}
		}
		out = append(out, sharedlun.Boot{Node: r.Node, ID: m.ReportedBootID})
	}
	return out, nil
}
