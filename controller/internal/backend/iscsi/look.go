package iscsi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/iscsi"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

const (
	// hostPatience bounds all questions to one node, readPatience one attempt to read the LUN.
	hostPatience = 7 * time.Second
	readPatience = 5 * time.Second
	// ways is how many nodes are tried to read the LUN through.
	ways = 2
	// stands is how long a reading stands when the next ones fail: one waits while a change of the group goes on.
	stands = time.Minute
	// parallel is how many nodes are asked at the same time.
	parallel = 32
)

// look asks the agents of all nodes that matter.
func (b *Backend) look(ctx context.Context, o iscsi.Observation) (map[string]iscsi.Host, error) {
	names := map[string]bool{}
	for _, n := range o.Iscsi.Spec.Initiators {
		names[string(n)] = true
	}
	for _, m := range o.World.Members {
		names[string(m.Spec.Node)] = true
	}
	for _, n := range o.World.Held() {
		names[n] = true
	}
	for _, n := range holders(o) {
		names[n] = true
	}
	ref, mapped := iscsi.NewView(o, nil).Ref()
	mapped = mapped && ref.UUID != ""
	out, errs := map[string]iscsi.Host{}, []error(nil)
	var mu sync.Mutex
	var group sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for name := range maps.Keys(names) {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			h, err := b.host(ctx, o, name, ref, mapped)
			mu.Lock()
			defer mu.Unlock()
			out[name] = h
			errs = append(errs, err)
		})
	}
	group.Wait()
	return out, errors.Join(errs...)
}

// holders are the nodes that have volumes by the tags on the LUN, as it was read last, or that may still change the group: no object may name them any more. Of a LUN that a person
// gave up as it is nobody has to be freed.
func holders(o iscsi.Observation) []string {
	if !o.Iscsi.DeletionTimestamp.IsZero() && o.Iscsi.Annotations[v1alpha1.AnnotationRemove] == string(o.Iscsi.UID) {
		return nil
	}
	out := slices.Clone(o.Record.Pending)
	if o.Record.Taken != "" {
		out = append(out, o.Record.Writer)
	}
	if g := o.Reading.Group(); g != nil && g.OwnerUID == string(o.Iscsi.UID) {
		for _, v := range g.Volumes {
			out = append(out, v.HeldBy)
		}
	}
	return slices.DeleteFunc(out, func(n string) bool { return n == "" })
}

// host says what is known of one node.
func (b *Backend) host(ctx context.Context, o iscsi.Observation, name string, ref sharedlun.Ref, mapped bool) (iscsi.Host, error) {
	n := b.Agents.Node(name)
	known, stamp, good := b.memory.recall(o.Iscsi.UID, name, o.Now)
	switch {
	case n.Agent == decide.AgentConnecting:
		return iscsi.Host{Agent: n.Agent}, nil
	case !n.Up():
		out := iscsi.Host{Agent: n.Agent, Problem: n.Problem}
		var err error
		out.OutOfService, err = b.outOfService(ctx, name)
		// What the next agent there tells is another story.
		b.memory.keep(o.Iscsi.UID, name, iscsi.Host{}, stamp)
		return out, err
	case good && known.Agent == n.Agent && known.Mapped == mapped && known.BootID == n.BootID:
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, hostPatience)
	defer cancel()
	now := b.ask(ctx, o, name, ref, mapped)
	if now.Failed != "" {
		now.Failures = known.Failures + 1
	} else if unsure(o, name, now.BootID) {
		var err error
		if now.Machine, now.MachineLate, err = kube.Machine(ctx, b.Live, name, now.BootID); err != nil {
			return iscsi.Host{}, err
		}
	}
	return b.memory.keep(o.Iscsi.UID, name, now, stamp), nil
}

// unsure reports whether it matters which machine a node is: it is not on record, or the node reports another boot than the one of the record.
func unsure(o iscsi.Observation, node, bootID string) bool {
	return !slices.ContainsFunc(o.World.Members, func(m *v1alpha1.Member) bool {
		r := m.Spec.Reservation
		return string(m.Spec.Node) == node && r != nil && r.BootID == bootID && r.Machine != ""
	})
}

// ask asks the agent of a node. What it cannot tell is not known.
func (b *Backend) ask(ctx context.Context, o iscsi.Observation, name string, ref sharedlun.Ref, mapped bool) iscsi.Host {
	out := iscsi.Host{Agent: decide.AgentUp, At: b.Now()}
	var err error
	if out.Initiator, out.BootID, err = b.Agents.Initiator(ctx, name); err == nil && out.Initiator.Problem == nil {
		// Before the LUN is ours, nobody else may use it.
		out.Seen, err = b.Agents.Target(ctx, name, iscsi.TargetOf(o.Iscsi), !mapped)
	}
	if err == nil && mapped {
		out.Mappings, out.OtherLun, err = b.Agents.Mappings(ctx, name, ref)
		out.Mapped = err == nil
	}
	if err != nil {
		return iscsi.Host{Agent: decide.AgentUp, At: out.At, Failed: err.Error()}
	}
	return out
}

// outOfService reports whether a person tainted a node as out of service. A node that is gone has no taints.
func (b *Backend) outOfService(ctx context.Context, name string) (bool, error) {
	off, _, err := b.standing(ctx, name)
	return off, err
}

// standing reports whether a person tainted a node as out of service, and whether Kubernetes knows it, by the API server itself.
func (b *Backend) standing(ctx context.Context, name string) (outOfService, known bool, err error) {
	var n corev1.Node
	err = b.Live.Get(ctx, types.NamespacedName{Name: name}, &n)
	if apierrors.IsNotFound(err) {
		return false, false, nil
	}
	if err != nil {
		return false, false, fmt.Errorf("get node %s: %w", name, err)
	}
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.TaintOutOfService }), true, nil
}

// read asks the LUN what is on it, and who may write to it, through a node that sees it.
func (b *Backend) read(ctx context.Context, v *iscsi.View) iscsi.Reading {
	last, now := v.Seen().Reading, b.Now()
	out := iscsi.Reading{At: now, Problem: "no initiator sees the LUN."}
	ref, known := v.Ref()
	if !known {
		return out
	}
	for i, via := range v.Through() {
		if i == ways {
			break
		}
		out.Tried = true
		contents, keys, err := b.readVia(ctx, via, ref, v)
		if err == nil {
			// The writer may see an earlier state, and then changes nothing.
			return iscsi.Reading{At: now, Good: b.Now(), Via: via, Known: true, Older: out.Older, Tried: true, Contents: contents, Keys: keys}
		}
		switch older, is := errors.AsType[*olderError](err); {
		case is && out.Older == "":
			out.Older = older.Error() + "."
		case is:
			out.Older += " Node " + via + " sees it so, too."
		default:
			out.Problem = err.Error()
		}
	}
	if out.Older != "" {
		// What was read before is not so any more, and nobody may be told that it is.
		out.Problem, last.Known = out.Older, false
	}
	if out.Tried {
		out.Failures = last.Failures + 1
	}
	if last.Known && now.Sub(last.Good) < stands {
		last.At, last.Problem, last.Tried, last.Failures = now, out.Problem, out.Tried, out.Failures
		return last
	}
	return out
}

// olderError means that a node sees an earlier state of the LUN.
type olderError struct{ why string }

func (e *olderError) Error() string { return e.why }

// readVia reads the LUN through one node. A group that is older than the record says is none that anything may be decided on: the record was read before.
func (b *Backend) readVia(ctx context.Context, via string, ref sharedlun.Ref, v *iscsi.View) (sharedlun.Contents, sharedlun.Reservation, error) {
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	keys, err := b.Agents.Reservation(ctx, via, ref.Lun, v.Fenced())
	if err != nil {
		return sharedlun.Contents{}, keys, err
	}
	contents, err := b.Agents.Contents(ctx, via, ref)
	if g := contents.Group; err == nil && g != nil && g.UUID == ref.UUID {
		if why := v.Seen().Record.Noted.Older(via, *g); why != "" {
			err = &olderError{why}
		}
	}
	return contents, keys, err
}
