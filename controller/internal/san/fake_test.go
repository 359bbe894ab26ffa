package san

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/writer"
	"quarry.storage/quarry/pkg/sharedlun"
)

// fleet is a LUN with its nodes, as strict as agents are. It keeps what decision 0038 says that they keep.
type fleet struct {
	mu      sync.Mutex
	group   sharedlun.Group
	members []Member
	seen    map[string]uint64
	silent  map[string]bool
	// blind are the nodes whose agents answer, and that have lost the LUN; stuck are those in whose kernels a change hangs, so that they promise nothing.
	blind, stuck map[string]bool
	mapped       map[string][]string
	inUse        map[string]bool
	// cut are the nodes that were asked to unmap something, and told that they are fenced.
	cut map[string]bool
	// keys are those on the LUN; reserved is false when the target lost them.
	keys     map[uint64]bool
	reserved bool
	// keyless is true for a target without reservations: nobody has a key.
	keyless bool
	// refuse is what an agent says to an order to unmap before it does anything; nil when it does what it is told.
	refuse func(node string) error
	// lose ends the answers of that many changes that are made.
	lose  int
	calls []string
	// during is what happens while a call is under way.
	during func(call, node string)

	record  writer.Record
	version int
	// leases counts the Leases that were made.
	leases int
	// delay keeps that many writes of the record from the API server, with the caller in the dark; arrive are those writes.
	delay  int
	arrive []func()
}

func newFleet(nodes ...string) *fleet {
	f := &fleet{
		seen: map[string]uint64{}, silent: map[string]bool{}, blind: map[string]bool{}, stuck: map[string]bool{}, mapped: map[string][]string{}, inUse: map[string]bool{},
		cut: map[string]bool{}, keys: map[uint64]bool{}, reserved: true,
	}
	f.group = sharedlun.Group{UUID: "group", Epoch: 0, Sequence: 1, Volumes: []sharedlun.Volume{{Name: "a", UUID: "ua"}, {Name: "b", UUID: "ub"}}}
	for i, n := range nodes {
		f.members = append(f.members, Member{
			Node: n, Credential: sharedlun.Credential{Key: uint64(i + 1)}, Up: true, BootID: n + "-boot-1", ReportedBootID: n + "-boot-1",
		})
		f.keys[uint64(i+1)] = true
	}
	return f
}

// withoutKeys is a fleet on a target that keeps no reservations.
func withoutKeys(nodes ...string) *fleet {
	f := newFleet(nodes...)
	f.keyless, f.reserved, f.keys = true, false, map[uint64]bool{}
	for i := range f.members {
		f.members[i].Credential = sharedlun.Credential{Unfenced: true}
	}
	return f
}

// fence takes the key of a node off, and writes that on its Member.
func (f *fleet) fence(i int) {
	f.members[i].Fenced = true
	delete(f.keys, f.members[i].Key)
}

// loseOnceLeaving lets the target lose its reservation after a volume is leaving: a change without one is refused before that.
func (f *fleet) loseOnceLeaving() {
	f.during = func(string, string) {
		if slices.ContainsFunc(f.group.Volumes, func(v sharedlun.Volume) bool { return v.Leaving }) {
			f.reserved = false
		}
	}
}

// refusal is an error by which an agent says that it changed nothing.
func (f *fleet) refusal(kind decide.FaultKind, node, call, message string) error {
	return &Refusal{Err: f.fault(kind, node, call, message)}
}

func (f *fleet) fault(kind decide.FaultKind, node, call, message string) error {
	return &decide.Fault{Kind: kind, Node: node, Call: call, Message: message}
}

// enter begins a call; the caller holds the lock until it ends.
func (f *fleet) enter(node, call string) error {
	f.calls = append(f.calls, call+" "+node)
	if f.during != nil {
		f.during(call, node)
	}
	if f.silent[node] {
		return f.fault(decide.FaultUnavailable, node, call, "no connection")
	}
	if f.blind[node] && call != "promise" && call != "unmap" {
		return f.refusal(decide.FaultBusy, node, call, "no path is up")
	}
	if f.stuck[node] && call == "promise" {
		return f.fault(decide.FaultUnavailable, node, call, "another call is at work")
	}
	return nil
}

func (f *fleet) Members(context.Context, sharedlun.Ref) ([]Member, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := slices.Clone(f.members)
	for i := range out {
		if f.silent[out[i].Node] {
			out[i].Up, out[i].ReportedBootID = false, ""
		}
	}
	return out, nil
}

func (f *fleet) Contents(_ context.Context, node string, _ sharedlun.Ref) (sharedlun.Contents, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.enter(node, "read"); err != nil {
		return sharedlun.Contents{}, err
	}
	g := f.copy()
	return sharedlun.Contents{Group: &g, Promised: f.seen[node]}, nil
}

func (f *fleet) copy() sharedlun.Group {
	g := f.group
	g.Volumes = slices.Clone(g.Volumes)
	return g
}

func (f *fleet) Reservation(_ context.Context, node string, _ sharedlun.Identity, _ bool) (sharedlun.Reservation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.enter(node, "keys"); err != nil {
		return sharedlun.Reservation{}, err
	}
	r := sharedlun.Reservation{Supported: true, Keys: slices.Sorted(maps.Keys(f.keys))}
	if f.reserved && len(r.Keys) > 0 {
		// Every key holds the reservation, so that it ends with the last of them.
		r.Type = sharedlun.WriteExclusiveAllRegistrants
	}
	return r, nil
}

func (f *fleet) Promise(_ context.Context, node string, _ sharedlun.Ref, epoch uint64) (uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.enter(node, "promise"); err != nil {
		return 0, err
	}
	f.seen[node] = max(f.seen[node], epoch)
	return f.seen[node], nil
}

// refuses says why a node may not write to the LUN; empty when it may.
func (f *fleet) refuses(node string, ref sharedlun.Ref, c sharedlun.Credential) string {
	i := slices.IndexFunc(f.members, func(m Member) bool { return m.Node == node })
	switch {
	case f.keyless && c.Unfenced:
	case !f.reserved || !f.keys[c.Key] || c.Key != f.members[i].Key:
		return "no key"
	case ref.UUID != f.group.UUID:
		return "another group"
	}
	return ""
}

func (f *fleet) Change(ctx context.Context, node string, ref sharedlun.Ref, w sharedlun.Mandate, sequence uint64, c sharedlun.Change) (sharedlun.Group, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	none := sharedlun.Group{}
	if err := f.enter(node, "change"); err != nil {
		return none, err
	}
	switch why := f.refuses(node, ref, w.Credential); {
	case why != "":
		return none, f.refusal(decide.FaultPrecondition, node, "change", why)
	case w.Epoch < f.seen[node] || w.Epoch < f.group.Epoch || !c.TakeOver && w.Epoch != f.group.Epoch:
		return none, f.refusal(decide.FaultPrecondition, node, "change", "epoch "+strconv.FormatUint(w.Epoch, 10)+" is old")
	case sequence != f.group.Sequence:
		return none, f.refusal(decide.FaultBusy, node, "change", "the group changed since")
	}
	if c.TakeOver && w.Epoch == f.group.Epoch {
		// It holds already.
		return f.copy(), nil
	}
	next := f.copy()
	next.Sequence++
	if refused := apply(&next, w.Epoch, c); refused != "" {
		return none, f.refusal(decide.FaultConflict, node, "change", refused)
	}
	f.group = next
	if f.lose > 0 || ctx.Err() != nil {
		// Whoever calls a request off has no answer.
		f.lose = max(0, f.lose-1)
		return none, f.fault(decide.FaultUnavailable, node, "change", "the connection was closed")
	}
	return f.copy(), nil
}

// apply makes a change, or says why it is refused.
func apply(g *sharedlun.Group, epoch uint64, c sharedlun.Change) string {
	switch {
	case c.TakeOver:
		g.Epoch = epoch
		return ""
	case c.Hold != nil:
		v := g.Volume(c.Hold.Name)
		if v.HeldBy != "" || v.UUID != c.Hold.UUID {
			return "held by " + v.HeldBy
		}
		v.HeldBy = c.Hold.Node
		return ""
	case c.Leave != nil:
		v := g.Volume(c.Leave.Name)
		if v.HeldBy != c.Leave.Node || v.UUID != c.Leave.UUID {
			return "not held"
		}
		v.Leaving = true
		return ""
	case c.Release != nil:
		return release(g.Volume(c.Release.Name), *c.Release)
	case c.Remove != nil:
		return remove(g, *c.Remove)
	case c.Forget != nil:
		v := g.Volume(c.Forget.Name)
		v.Readers = slices.DeleteFunc(slices.Clone(v.Readers), func(b sharedlun.Boot) bool { return slices.Contains(c.Forget.Boots, b) })
		return ""
	}
	return "not a change of this test"
}

func release(v *sharedlun.Volume, r sharedlun.Release) string {
	if v.HeldBy != r.Node || !v.Leaving || v.UUID != r.UUID {
		return "not leaving"
	}
	v.HeldBy, v.Leaving = "", false
	if r.FencedBootID != "" {
		v.Readers = append(slices.Clone(v.Readers), sharedlun.Boot{Node: r.Node, ID: r.FencedBootID})
	}
	return ""
}

func remove(g *sharedlun.Group, r sharedlun.Remove) string {
	v := g.Volume(r.Name)
	if err := g.Unread(*v, r.Boots); err != nil || v.HeldBy != "" || v.UUID != r.UUID {
		return fmt.Sprintf("not to be removed: %v", err)
	}
	g.Volumes = slices.DeleteFunc(g.Volumes, func(o sharedlun.Volume) bool { return o.UUID == r.UUID })
	return ""
}

func (f *fleet) Map(
	_ context.Context, node string, ref sharedlun.Ref, c sharedlun.Credential, v sharedlun.Volume, _ uint64,
) (sharedlun.Mapping, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.enter(node, "map"); err != nil {
		return sharedlun.Mapping{}, err
	}
	if why := f.refuses(node, ref, c); why != "" {
		return sharedlun.Mapping{}, f.refusal(decide.FaultPrecondition, node, "map", why)
	}
	if now := f.group.Volume(v.Name); now.UUID != v.UUID || now.HeldBy != node || now.Leaving {
		return sharedlun.Mapping{}, f.refusal(decide.FaultPrecondition, node, "map", "the volume is not this node's")
	}
	if !slices.Contains(f.mapped[v.UUID], node) {
		f.mapped[v.UUID] = append(f.mapped[v.UUID], node)
	}
	return sharedlun.Mapping{VolumeUUID: v.UUID, Device: "/dev/mapper/" + v.UUID}, nil
}

func (f *fleet) Unmap(_ context.Context, node string, _ sharedlun.Ref, uuid string, _ uint64, fenced bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.enter(node, "unmap"); err != nil {
		return err
	}
	if f.refuse != nil {
		if err := f.refuse(node); err != nil {
			return err
		}
	}
	f.cut[node] = f.cut[node] || fenced
	if f.inUse[uuid] {
		return f.refusal(decide.FaultPrecondition, node, "unmap", "the volume is mounted")
	}
	f.mapped[uuid] = slices.DeleteFunc(f.mapped[uuid], func(n string) bool { return n == node })
	return nil
}

func (f *fleet) Load(context.Context, string) (writer.Record, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.version == 0 {
		return writer.Record{}, "", nil
	}
	return f.record, f.versionNow(), nil
}

func (f *fleet) Store(_ context.Context, _ string, r writer.Record, version string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.delay > 0 {
		f.delay--
		f.arrive = append(f.arrive, func() { _, _ = f.store(r, version) })
		return "", errors.New("the API server did not answer")
	}
	return f.store(r, version)
}

// store is a compare and swap; the caller holds the lock.
func (f *fleet) store(r writer.Record, version string) (string, error) {
	if version != f.versionNow() {
		return "", ErrConflict
	}
	if version == "" {
		f.leases++
	}
	f.record = r
	f.version++
	return f.versionNow(), nil
}

// versionNow is empty without a Lease.
func (f *fleet) versionNow() string {
	if f.version == 0 {
		return ""
	}
	return fmt.Sprintf("lease-%d/%d", f.leases, f.version)
}
