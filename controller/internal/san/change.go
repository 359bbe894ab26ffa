package san

import (
	"context"
	"errors"
	"fmt"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Change makes one change. After an error the group may be another one than the turn knows; an error that leaves open whether the change was made
// ends what this turn can do: the next one begins a new epoch.
func (t *Turn) Change(ctx context.Context, c sharedlun.Change) error {
	if t.memory.unanswered {
		return unavailable("an earlier change of the volume group was not answered")
	}
	group, err := t.san.cfg.Nodes.Change(ctx, t.record.Writer, t.ref, t.mandate(), t.Group.Sequence, c)
	switch {
	case err == nil:
		t.Group, t.facts.GroupEpoch = group, group.Epoch
	case !answered(err):
		t.memory.unanswered = true
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
func (t *Turn) writer() Member {
	for _, m := range t.members {
		if m.Node == t.record.Writer {
			return m
		}
	}
	return Member{Node: t.record.Writer}
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
		// Somebody began to take it away and did not end that.
		err = t.TakeAway(ctx, name)
		v.HeldBy = ""
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
	if err := t.usable(ctx, node); err != nil {
		return v, err
	}
	if err := t.Change(ctx, sharedlun.Change{Hold: &sharedlun.Hold{Name: name, UUID: v.UUID, Node: node}}); err != nil {
		return v, err
	}
	return t.volume(name)
}

// usable refuses a node that may not write now. One that is fenced, or waits for the key of a new boot, would get its volume mapped, and could write
// to it once it has the key.
func (t *Turn) usable(ctx context.Context, node string) error {
	m, err := t.member(ctx, node)
	if err != nil || m.usable() {
		return err
	}
	return &decide.Fault{Kind: decide.FaultUnavailable, Node: node, Call: "attach a volume", Message: whyNot(m)}
}

// whyNot says why a member gets no volume, and what to do.
func whyNot(m Member) string {
	switch {
	case m.Maintenance:
		return "the node is under maintenance: end that, or let the pod run on another initiator"
	case m.Fenced:
		return "the node cannot write to the LUN now, for it is fenced: boot it, and take the taint node.kubernetes.io/out-of-service off it"
	case m.ReportedBootID == "":
		return "the node cannot write to the LUN now: its agent does not answer, or it is no initiator. Look at the node and at its agent"
	}
	return "the node cannot write to the LUN now, for it waits for its key: the condition Ready of its Member says why"
}

// TakeAway takes a volume from the node that has it: it marks the volume, has the node unmap it, and takes the tag off. A node that does not answer has to
// be fenced. Killed anywhere, it goes on where it was.
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
	case answered(err):
		return err
	case bootID == "":
		return errors.Join(err, unfenced)
	}
	// That took as long as the node is waited for. What Members and keys said before it proves nothing any more.
	bootID, unfenced, fenceErr := t.fenced(ctx, v.HeldBy)
	if fenceErr != nil || bootID == "" {
		return errors.Join(err, unfenced, fenceErr)
	}
	return t.Change(ctx, sharedlun.Change{Release: &sharedlun.Release{Hold: hold, FencedBootID: bootID}})
}

// member asks what a node is now. Of one that is no member nothing is known: it is neither usable nor fenced.
func (t *Turn) member(ctx context.Context, node string) (Member, error) {
	members, err := t.san.cfg.Fleet.Members(ctx, t.ref)
	if err != nil {
		return Member{}, err
	}
	t.members = members
	for _, m := range members {
		if m.Node == node {
			return m, nil
		}
	}
	return Member{Node: node}, nil
}
