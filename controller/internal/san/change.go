package san

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/quarry"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Change makes one change. After an error the group may be another one than the turn knows; an error that leaves open whether the change was made
// ends what this turn can do: the next one begins a new epoch.
func (t *Turn) Change(ctx context.Context, c sharedlun.Change) error {
	if t.memory.unanswered != "" {
		return unavailable("an earlier change of the volume group was not answered")
	}
	if ctx.Err() != nil {
		return unavailable("the caller's time was over before a change of the volume group was sent: %v", context.Cause(ctx))
	}
	// What was sent is waited for even if the caller goes: one that is called off would be left without an answer, and cost an epoch. It has a time limit of its own.
	group, err := t.san.cfg.Nodes.Change(context.WithoutCancel(ctx), t.record.Writer, t.ref, t.mandate(), t.Group.Sequence, c)
	switch {
	case err == nil:
		t.Group, t.facts.GroupEpoch = group, group.Epoch
		t.note(group)
	case !answered(err):
		t.memory.unanswered = t.record.Writer
		t.blame(ctx)
	case c.TakeOver:
		t.facts.Read = false
		t.blame(ctx)
	default:
		t.facts.Read = false
		t.probe(ctx)
	}
	return err
}

// Writer is the node that changes the group.
func (t *Turn) Writer() string { return t.record.Writer }

// writer is the member that changes the group.
func (t *Turn) writer() Member { return t.known(t.record.Writer) }

// Member is what a node was when the members were asked last in this turn; false for one that is no member.
func (t *Turn) Member(node string) (Member, bool) {
	i := slices.IndexFunc(t.members, func(m Member) bool { return m.Node == node })
	if i < 0 {
		return Member{}, false
	}
	return t.members[i], true
}

// known is what a node was when the members were asked last. Of one that is no member nothing is known: it is neither usable nor fenced.
func (t *Turn) known(node string) Member {
	m, _ := t.Member(node)
	m.Node = node
	return m
}

// volume returns a volume of the group; the fault says that there is none.
func (t *Turn) volume(name string) (sharedlun.Volume, error) {
	v := t.Group.Volume(name)
	if v == nil {
		return sharedlun.Volume{}, &decide.Fault{
			Kind: decide.FaultNotFound, Node: t.record.Writer, Call: "look for a volume",
			Message: fmt.Sprintf("volume group %s has no volume %s", t.Group.UUID, name),
		}
	}
	return *v, nil
}

// Hold gives a volume to a node, and returns it as it is then.
func (t *Turn) Hold(ctx context.Context, name, node string) (sharedlun.Volume, error) {
	v, err := t.volume(name)
	if err == nil && v.Leaving {
		// Somebody began to take it away and did not end that. The node may be one of its readers since.
		if err = t.TakeAway(ctx, name); err == nil {
			v, err = t.volume(name)
		}
	}
	switch {
	case err != nil:
		return v, err
	case v.HeldBy == node:
		// It is mapped there next, and an earlier machine of the name may have it mapped, too.
		return v, t.believe(ctx, node)
	case v.HeldBy != "":
		return v, &decide.Fault{
			Kind: decide.FaultPrecondition, Node: node, Call: "attach a volume",
			Message: fmt.Sprintf("volume %s is attached to node %s", name, v.HeldBy),
		}
	}
	if err := t.usable(ctx, node, v); err != nil {
		return v, err
	}
	if err := t.Change(ctx, sharedlun.Change{Hold: &sharedlun.Hold{Name: name, UUID: v.UUID, Node: node}}); err != nil {
		return v, err
	}
	return t.volume(name)
}

// usable refuses a node that may not write now. One that is fenced, or waits for the key of a new boot, would get its volume mapped, and could write
// to it once it has the key. One that the volume was taken from by a fence may have it open still, with what others have replaced since in its memory: until it was
// booted it gets this volume from nobody, whatever its Member says. That the boot of its tag is another one proves less: see readsNoMore.
func (t *Turn) usable(ctx context.Context, node string, v sharedlun.Volume) error {
	m, err := t.member(ctx, node)
	if err != nil {
		return err
	}
	why := ""
	switch {
	case !m.Usable():
		why = whyNot(m)
	case slices.Contains(v.Readers, sharedlun.Boot{Node: node, ID: m.ReportedBootID}):
		why = "the volume was taken from the node by a fence in the boot that it is in: boot it"
	case slices.ContainsFunc(v.Readers, func(b sharedlun.Boot) bool { return b.Node == node }):
		return t.readsNoMore(ctx, node, v)
	default:
		return nil
	}
	return &decide.Fault{Kind: decide.FaultUnavailable, Node: node, Call: "attach a volume", Message: why}
}

// whyNot says why a member gets no volume, and what to do.
func whyNot(m Member) string {
	switch {
	case m.Maintenance:
		return "the node is under maintenance: end that, or let the pod run on another initiator"
	case m.Fenced:
		return "the node cannot write to the LUN now, for it is fenced: boot it, and take the taint " + quarry.TaintOutOfService + " off it"
	case m.Stranger != "":
		return "the node cannot write to the LUN now: " + m.Stranger + ". The condition Ready of its Member says what to do"
	case m.ReportedBootID == "":
		return "the node cannot write to the LUN now: its agent does not answer, or it is no initiator. Look at the node and at its agent"
	}
	return "the node cannot write to the LUN now, for it waits for its key: the condition Ready of its Member says why"
}

// TakeAway takes a volume from the node that has it: it marks the volume, has the node unmap it, and takes the tag off. A node that does not answer, or has the
// volume open, has to be fenced. Killed anywhere, it goes on where it was.
func (t *Turn) TakeAway(ctx context.Context, name string) error {
	v, err := t.volume(name)
	if err != nil || v.HeldBy == "" {
		return err
	}
	hold := sharedlun.Hold{Name: name, UUID: v.UUID, Node: v.HeldBy}
	if !v.Leaving {
		if err := t.Change(ctx, sharedlun.Change{Leave: &hold}); err != nil {
			return err
		}
	}
	// Whether the node is fenced is asked after the mark is there: a node that came back since cannot map the volume any more.
	bootID, unfenced, err := t.fenced(ctx, v.HeldBy)
	if err != nil {
		return err
	}
	// A node that answers is asked, fenced or not: what it has mapped, it could write to with its next key.
	err = t.san.cfg.Nodes.Unmap(ctx, v.HeldBy, t.ref, v.UUID, t.Group.Sequence, bootID != "")
	switch {
	case err == nil:
		if err := t.believe(ctx, v.HeldBy); err != nil {
			return err
		}
		return t.Change(ctx, sharedlun.Change{Release: &sharedlun.Release{Hold: hold}})
	case bootID == "" && answered(err):
		return err
	case bootID == "":
		return errors.Join(err, unfenced)
	}
	return t.releaseFenced(ctx, hold, err)
}

// releaseFenced takes a volume from a node that was fenced before it was asked to unmap it, and that did not answer, or cannot let go of the device: it reads on at most, until it is booted. unmap is the error of that
// call, which took as long as the node is waited for: what Members and keys said before it proves nothing any more.
func (t *Turn) releaseFenced(ctx context.Context, hold sharedlun.Hold, unmap error) error {
	bootID, unfenced, err := t.fenced(ctx, hold.Node)
	if err != nil || bootID == "" {
		return errors.Join(unmap, unfenced, err)
	}
	if reported := t.known(hold.Node).ReportedBootID; answered(unmap) && reported != bootID {
		// After a boot no device is there that it could not let go of: what it has open, and since when, nobody knows.
		return unmap
	}
	if t.runs(hold.Node) && !cutOff(unmap) {
		now := "it answers"
		if t.known(hold.Node).ReportedBootID == "" {
			now = "it is not known yet whether its agent answers"
		}
		return errors.Join(unmap, &decide.Fault{
			Kind: decide.FaultUnavailable, Node: hold.Node, Call: "take a volume from a fenced node",
			Message: "a person vouched that the node is off, and " + now + "; no key keeps it from writing to the volume. It is asked again: boot it if it answers and does not unmap the volume",
		})
	}
	return t.Change(ctx, sharedlun.Change{Release: &sharedlun.Release{Hold: hold, FencedBootID: bootID}})
}

// member asks what a node is now.
func (t *Turn) member(ctx context.Context, node string) (Member, error) {
	members, err := t.san.cfg.Fleet.Members(ctx, t.ref)
	if err != nil {
		return Member{}, err
	}
	t.members = members
	return t.known(node), nil
}
