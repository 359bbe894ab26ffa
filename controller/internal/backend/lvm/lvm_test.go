package lvm

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/lvm"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// agents are scripted reports. Asking for a node that is not among them fails the test.
type agents struct {
	t       *testing.T
	nodes   map[string]decide.Node
	holders []string
	asked   []string
}

func (a *agents) Node(name string) decide.Node {
	n, ok := a.nodes[name]
	if !ok {
		a.t.Errorf("asked for node %s", name)
	}
	a.asked = append(a.asked, name)
	return n
}

func (a *agents) Holders(owner string) []string {
	if owner != "uid" {
		a.t.Errorf("asked for the groups of %s", owner)
	}
	return a.holders
}

// reader is a client that lists VolumeSnapshotContents, and nothing else.
type reader struct {
	client.Reader
	t     *testing.T
	items []unstructured.Unstructured
	err   error
	calls int
}

func (r *reader) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	u, ok := list.(*unstructured.UnstructuredList)
	want := schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshotContentList"}
	if !ok || u.GroupVersionKind() != want || len(opts) != 0 {
		r.t.Errorf("listed %T %v with %d options", list, list.GetObjectKind().GroupVersionKind(), len(opts))
		return errors.New("unexpected list")
	}
	r.calls++
	u.Items = r.items
	return r.err
}

func clusterOf(name, uid string) *v1alpha1.Cluster {
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.UID = types.UID(uid)
	c.Spec.StorageType, c.Spec.Hosts = v1alpha1.StorageTypeLVM, []v1alpha1.HostName{"n1"}
	return c
}

func memberOf(c *v1alpha1.Cluster, node, lost string) *v1alpha1.Member {
	m := &v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: c.Name + "." + node, UID: "m-uid"}}
	m.Spec.Of, m.Spec.Node, m.Spec.Lost = backend.OwnerOf(c).API(), v1alpha1.HostName(node), lost
	return m
}

func TestObserve_asksEveryHostThatMatters(t *testing.T) {
	c := clusterOf("a", "uid")
	a := &agents{t: t, holders: []string{"held"}, nodes: map[string]decide.Node{
		"held": {Agent: decide.AgentUp, Groups: []decide.Group{{Name: "g", UUID: "A", OwnerUID: "uid"}}}, "n1": {Agent: decide.AgentUp},
		"selected": {}, "member": {Agent: decide.AgentConnecting}, "pinned": {},
	}}
	r := &reader{t: t}
	w := backend.World{
		Nodes:   map[string]backend.Node{"selected": {Name: "selected"}},
		Members: []*v1alpha1.Member{memberOf(c, "member", "")},
		Volumes: map[string][]backend.Volume{"pinned": {{Name: "v"}}, "": {{Name: "w"}}},
	}
	v, err := (&Backend{Agents: a, Client: r}).Observe(context.Background(), c, w, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"held", "member", "n1", "pinned", "selected"}; !slices.Equal(a.asked, want) {
		t.Errorf("asked for %v, want %v", a.asked, want)
	}
	if !slices.Equal(v.Hosts(), []string{"held"}) || !v.Facts("n1").Up || !v.Facts("member").TooEarly || !v.Facts("elsewhere").TooEarly {
		t.Error("the reports do not reach the view")
	}
	if r.calls != 0 {
		t.Error("snapshots were listed even if no member is lost")
	}
	if _, err := (&Backend{Agents: a, Client: r}).Observe(context.Background(), &v1alpha1.Nfs{}, w, v); err == nil {
		t.Error("another kind was observed")
	}
}

// content returns a VolumeSnapshotContent with handles; empty ones are left out.
func content(name, driver, snapshot, beforehand, volume string) unstructured.Unstructured {
	u := unstructured.Unstructured{Object: map[string]any{}}
	u.SetName(name)
	for value, field := range map[*string][]string{
		&driver: {"spec", "driver"}, &snapshot: {"status", "snapshotHandle"},
		&beforehand: {"spec", "source", "snapshotHandle"}, &volume: {"spec", "source", "volumeHandle"},
	} {
		if *value != "" {
			if err := unstructured.SetNestedField(u.Object, *value, field...); err != nil {
				panic(err)
			}
		}
	}
	return u
}

const id = "00000000-0000-0000-0000-000000000000"

func TestObserve_snapshotsOfLostHosts(t *testing.T) {
	const ours = v1alpha1.DriverLVM
	c, other := clusterOf("a", "uid"), clusterOf("b", "uid-b")
	noMatch := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "snapshot.storage.k8s.io", Kind: "VolumeSnapshotContent"}}
	for name, tt := range map[string]struct {
		items []unstructured.Unstructured
		err   error
		want  []string
		fails bool
	}{
		"by any of their handles": {items: []unstructured.Unstructured{
			content("s3", ours, "", "", "n1/quarry-a/pvc-"+id), content("s1", ours, "n1/quarry-a/snap-"+id, "", "n1/quarry-a/pvc-"+id),
			content("s2", ours, "", "n1/renamed/snap-"+id, ""),
		}, want: []string{"VolumeSnapshotContent s1", "VolumeSnapshotContent s2", "VolumeSnapshotContent s3"}},
		"those of others do not count": {items: []unstructured.Unstructured{
			content("s1", "csi.example.com", "n1/quarry-a/snap-"+id, "", ""), content("s2", ours, "n2/quarry-a/snap-"+id, "", ""),
			content("s3", ours, "n1/quarry-b/snap-"+id, "", ""), content("s4", ours, "not a handle", "", ""), content("s5", ours, "", "", ""),
		}},
		"the API is not installed":     {err: noMatch},
		"the API was removed just now": {err: apierrors.NewNotFound(schema.GroupResource{Resource: "volumesnapshotcontents"}, "")},
		"the API server fails":         {err: errors.New("cut off"), fails: true},
		"the list is forbidden":        {err: apierrors.NewForbidden(schema.GroupResource{}, "", nil), fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			a := &agents{t: t, nodes: map[string]decide.Node{"n1": {Agent: decide.AgentMissing}}}
			w := backend.World{Members: []*v1alpha1.Member{memberOf(c, "n1", "m-uid")}, Others: []v1alpha1.Storage{other, &v1alpha1.Nfs{}}}
			v, err := (&Backend{Agents: a, Client: &reader{t: t, items: tt.items, err: tt.err}}).Observe(context.Background(), c, w, nil)
			if (err != nil) != tt.fails {
				t.Fatalf("error %v", err)
			}
			if tt.fails {
				return
			}
			f := v.Facts("n1")
			if d := cmp.Diff(tt.want, f.Holding); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			if (f.Data == nodestate.DataPresent) != (len(tt.want) > 0) || f.Data == nodestate.DataUnknown {
				t.Errorf("data is %d", f.Data)
			}
		})
	}
}

// changer records calls, and fails the one that it is told to.
type changer struct {
	calls []string
	fail  string
	err   error
}

func (c *changer) call(parts ...string) error {
	c.calls = append(c.calls, strings.Join(parts, " "))
	if c.fail != "" && strings.HasPrefix(c.calls[len(c.calls)-1], c.fail) {
		return c.err
	}
	return nil
}

func paths(devices []decide.Device) string {
	var out []string
	for _, d := range devices {
		out = append(out, d.Path+"="+d.Digest)
	}
	return strings.Join(out, ",")
}

func (c *changer) WipeDevice(ctx context.Context, node string, d decide.Device) (decide.Device, error) {
	// All wipes of a step end while those who put disks on record still wait for them.
	if end, bounded := ctx.Deadline(); !bounded || time.Until(end) > 2*time.Minute {
		return d, errors.New("a wipe may last for ever")
	}
	err := c.call("wipe", node, paths([]decide.Device{d}))
	d.Digest = "clean"
	return d, err
}

func (c *changer) EnsureVolumeGroup(_ context.Context, node string, g decide.GroupRef, devices []decide.Device) error {
	return c.call("ensure", node, g.Name, g.Owner, paths(devices))
}

func (c *changer) EnsureThinPool(_ context.Context, node string, pool decide.ThinPoolSpec) (decide.ThinPool, error) {
	return decide.ThinPool{}, c.call("pool", node, pool.Group, pool.Owner, pool.Name)
}

func (c *changer) ReduceVolumeGroup(_ context.Context, node string, g decide.GroupRef, devices []decide.Device) error {
	return c.call("reduce", node, g.Name, g.Owner, paths(devices))
}

func (c *changer) RemoveVolumeGroup(_ context.Context, node string, g decide.GroupRef, devices []decide.Device) error {
	return c.call("remove", node, g.Name, g.Owner, paths(devices))
}

func (c *changer) ForgetMissingDevice(_ context.Context, node string, g decide.GroupRef, missing, volumes []string) error {
	return c.call("forget", node, g.Name, g.Owner, strings.Join(missing, ","), strings.Join(volumes, ","))
}

func (c *changer) MoveExtents(_ context.Context, node string, g decide.GroupRef, device decide.Device, avoid []string) error {
	return c.call("move", node, g.Name, g.Owner, device.Path, strings.Join(avoid, ","))
}

// TestPerform_moveExtents: the step carries the device that is given up, and those that nothing is moved to.
func TestPerform_moveExtents(t *testing.T) {
	c := &changer{}
	step := lvm.Step{Node: "n1", Does: v1alpha1.ActionMoveExtents, Group: "g", Owner: "uid", Devices: []decide.Device{{Path: "a"}}, Avoid: []string{"b"}}
	none := step
	none.Devices = nil
	done, err := (&Backend{Changer: c}).Perform(context.Background(), "n1", backend.Checked([]backend.Step{step, none}, free))
	if d := cmp.Diff([]string{"move n1 g uid a b"}, c.calls); err == nil || done != 1 || d != "" {
		t.Errorf("%d, %v, -want +got:\n%s", done, err, d)
	}
}

func (c *changer) StampVolumeGroup(_ context.Context, node, group, owner, uuid string) error {
	return c.call("stamp", node, group, owner, uuid)
}

func (c *changer) TakeOverVolumeGroup(_ context.Context, node string, g decide.GroupRef, systemID, from string) error {
	return c.call("take over", node, g.Name, g.Owner, g.UUID, systemID, from)
}

func (c *changer) ImportVolumeGroup(_ context.Context, node, group, owner, uuid, from string) error {
	return c.call("import", node, group, owner, uuid, from)
}

func (c *changer) RepairThinPool(_ context.Context, node string, g decide.GroupRef, pool, digest string) error {
	return c.call("repair", node, g.Name, g.Owner, pool, digest)
}

// TestPerform_repairThinPool: the step carries what its agent condensed the damaged pool to.
func TestPerform_repairThinPool(t *testing.T) {
	c := &changer{}
	step := lvm.Step{Node: "n1", Does: v1alpha1.ActionRepairThinPool, Group: "g", Owner: "uid", Damaged: lvm.Damaged{Name: "p", Digest: "v1:d"}}
	done, err := (&Backend{Changer: c}).Perform(context.Background(), "n1", backend.Checked([]backend.Step{step}, free))
	if d := cmp.Diff([]string{"repair n1 g uid p v1:d"}, c.calls); err != nil || done != 1 || d != "" {
		t.Errorf("%d, %v, -want +got:\n%s", done, err, d)
	}
}

// TestPerform_systemIDs: the steps carry the UUID of the group, and whose it was.
func TestPerform_systemIDs(t *testing.T) {
	c := &changer{}
	steps := []backend.Step{
		lvm.Step{Node: "n1", Does: v1alpha1.ActionStampVolumeGroup, Group: "g", Owner: "uid", UUID: "u1"},
		lvm.Step{Node: "n1", Does: v1alpha1.ActionImportVolumeGroup, Group: "g", Owner: "uid", UUID: "u2", From: "quarry-n2"},
	}
	done, err := (&Backend{Changer: c}).Perform(context.Background(), "n1", backend.Checked(steps, free))
	if d := cmp.Diff([]string{"stamp n1 g uid u1", "import n1 g uid u2 quarry-n2"}, c.calls); err != nil || done != 2 || d != "" {
		t.Errorf("%d, %v, -want +got:\n%s", done, err, d)
	}
}

func todo() []backend.Step {
	step := func(action string, devices ...decide.Device) lvm.Step {
		return lvm.Step{Node: "n1", Does: action, Group: "g", Owner: "uid", Devices: devices}
	}
	a, b := decide.Device{Path: "a", Digest: "da"}, decide.Device{Path: "b", Digest: "db"}
	pool := step(v1alpha1.ActionEnsureThinPool)
	pool.ThinPool = &decide.ThinPoolSpec{Group: "g", Owner: "uid", Name: "p"}
	return []backend.Step{
		step(v1alpha1.ActionEnsureVolumeGroup, b), step(v1alpha1.ActionWipeDevice, a), step(v1alpha1.ActionEnsureVolumeGroup, a, b), pool,
		step(v1alpha1.ActionReduceVolumeGroup, b), step(v1alpha1.ActionRemoveVolumeGroup, a),
	}
}

// free lets every step be taken.
func free(backend.Step) error { return nil }

// Somebody stops the steps after the third.
func TestPerform_stopsWhereAStepMayNotBeTaken(t *testing.T) {
	c, asked, stop := &changer{}, 0, errors.New("maintenance")
	done, err := (&Backend{Changer: c}).Perform(context.Background(), "n1", backend.Checked(todo(), func(backend.Step) error {
		if asked++; asked > 3 {
			return stop
		}
		return nil
	}))
	if !errors.Is(err, stop) || done != 3 || asked != 4 || len(c.calls) != 3 {
		t.Errorf("%d done, %d asked, calls %v, %v", done, asked, c.calls, err)
	}
}

func TestPerform(t *testing.T) {
	c := &changer{}
	done, err := (&Backend{Changer: c}).Perform(context.Background(), "n1", backend.Checked(todo(), free))
	// A device that was wiped is taken as it is then.
	want := []string{
		"ensure n1 g uid b=db", "wipe n1 a=da", "ensure n1 g uid a=clean,b=db", "pool n1 g uid p", "reduce n1 g uid b=db", "remove n1 g uid a=clean",
	}
	if d := cmp.Diff(want, c.calls); err != nil || done != 6 || d != "" {
		t.Errorf("%d, %v, -want +got:\n%s", done, err, d)
	}
}

func TestPerform_stopsAtTheFirstThatFails(t *testing.T) {
	fault := func(kind decide.FaultKind) error {
		return &decide.Fault{Kind: kind, Node: "n1", Call: "c", Message: "m"}
	}
	for name, tt := range map[string]struct {
		call    string
		err     error
		done    int
		reason  string
		passing bool
	}{
		"the world moved":          {"ensure", fault(decide.FaultPrecondition), 0, v1alpha1.ReasonDeviceRefused, true},
		"the disk went away":       {"wipe", fault(decide.FaultNotFound), 1, v1alpha1.ReasonDeviceNotFound, true},
		"the name is taken":        {"ensure n1 g uid a", fault(decide.FaultConflict), 2, v1alpha1.ReasonVolumeGroupConflict, false},
		"the pool does not fit":    {"pool", fault(decide.FaultNoRoom), 3, v1alpha1.ReasonNoRoom, false},
		"data is in the way":       {"reduce", fault(decide.FaultPrecondition), 4, v1alpha1.ReasonVolumesExist, true},
		"the agent went away":      {"remove", fault(decide.FaultUnavailable), 5, v1alpha1.ReasonAgentUnreachable, true},
		"an error that nobody has": {"wipe", errors.New("boom"), 1, v1alpha1.ReasonStepFailed, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := &changer{fail: tt.call, err: tt.err}
			done, err := (&Backend{Changer: c}).Perform(context.Background(), "n1", backend.Checked(todo(), free))
			var failed *backend.StepError
			if !errors.As(err, &failed) || !errors.Is(err, tt.err) || done != tt.done || len(c.calls) != tt.done+1 {
				t.Fatalf("%d done, %d calls, error %v", done, len(c.calls), err)
			}
			if failed.Reason != tt.reason || failed.Passing != tt.passing || failed.Error() != tt.err.Error() {
				t.Errorf("%+v", failed)
			}
		})
	}
}

// strange is a step of another backend.
type strange struct{ backend.Step }

func (strange) Action() string { return "Strange" }
func (strange) Host() string   { return "n1" }

func TestPerform_refusesWhatIsNotItsOwn(t *testing.T) {
	for name, s := range map[string]backend.Step{
		"a step of another backend": strange{},
		"a step of another host":    lvm.Step{Node: "n2", Does: v1alpha1.ActionRemoveVolumeGroup},
		"an unknown action":         lvm.Step{Node: "n1", Does: "Explode"},
		"a pool that is not named":  lvm.Step{Node: "n1", Does: v1alpha1.ActionEnsureThinPool},
	} {
		c := &changer{}
		if done, err := (&Backend{Changer: c}).Perform(context.Background(), "n1", backend.Checked([]backend.Step{s}, free)); err == nil || done != 0 || len(c.calls) != 0 {
			t.Errorf("%s was performed: %v", name, c.calls)
		}
	}
}

func TestBackend_profile(t *testing.T) {
	b := &Backend{}
	if b.Profile().Type != v1alpha1.StorageTypeLVM {
		t.Errorf("%+v", b.Profile())
	}
}
