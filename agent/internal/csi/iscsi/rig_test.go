package iscsi_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	model "quarry.storage/quarry/agent/agenttest/sharedgroup"
	"quarry.storage/quarry/agent/internal/csi"
	"quarry.storage/quarry/agent/internal/csi/csitest"
	"quarry.storage/quarry/agent/internal/csi/iscsi"
	"quarry.storage/quarry/agent/internal/sharedgroup/decide"
	"quarry.storage/quarry/pkg/sharedlun"
	"quarry.storage/quarry/pkg/volumeid"
)

const (
	mib   = 1 << 20
	owner = "6d1f8f3e-0000-4000-8000-000000000001"
	// lunNumber is the number of the LUN's device on the node.
	lunNumber = "8:16"
)

// rig is a node with the driver, over the model of a SAN and that of a node's filesystems.
type rig struct {
	*csitest.Client
	host *csitest.Host
	lun  *model.LUN
	node *model.Node
	ref  sharedlun.Ref

	mu sync.Mutex
	// change, if set, changes how a device looks.
	change func(*decide.Mapped)
	// number of the LUN's device.
	number string
	// making is true while a program makes a filesystem.
	making bool
	// blind is true while the LUN cannot be read.
	blind bool
}

func newRig(t *testing.T) *rig {
	t.Helper()
	san := model.NewSAN()
	r := &rig{lun: san.AddLUN("lun1", 500*mib), node: san.AddNode(t, 0xa1), host: csitest.NewHost(csitest.KubeletDir(t)), number: lunNumber}
	r.lun.Reserve(0xa1)
	r.ref = sharedlun.Ref{Lun: r.lun.Identity(), OwnerUID: owner}
	g, err := r.node.Create(t.Context(), r.ref, "quarry-"+owner, r.mandate(), "")
	must(t, err)
	r.ref.UUID = g.UUID
	r.start(t, filepath.Join(t.TempDir(), "shared", "volumes"))
	return r
}

// start runs the driver.
func (r *rig) start(t *testing.T, records string) {
	cfg := r.host.Config()
	cfg.Source = iscsi.New(iscsi.Config{
		Node: "n1", Groups: r, Luns: r, Devices: r, Records: iscsi.Records{Dir: records},
	})
	r.Client = csitest.Start(t, cfg)
}

func (r *rig) mandate() sharedlun.Mandate {
	return sharedlun.Mandate{Epoch: 1, Credential: r.credential(), Timeout: time.Minute}
}

func (r *rig) credential() sharedlun.Credential { return sharedlun.Credential{Key: 0xa1} }

// Get reads the group, unless the LUN cannot be read.
func (r *rig) Get(ctx context.Context, ref sharedlun.Ref) (sharedlun.Contents, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.blind {
		return sharedlun.Contents{}, fmt.Errorf("%w: no path is up", sharedlun.ErrUnread)
	}
	return r.node.Get(ctx, ref)
}

// Making reports whether a program makes a filesystem.
func (r *rig) Making(ctx context.Context, ref sharedlun.Ref, volume string) (bool, error) {
	making, err := r.node.Making(ctx, ref, volume)
	return making || r.making, err
}

// Device is the path of the LUN.
func (r *rig) Device(context.Context, sharedlun.Identity) (string, error) { return "/dev/lun", nil }

// place is how the model of filesystems calls a volume.
func place(uuid string) volumeid.ID { return csitest.ID(uuid) }

// List tells the devices of the group.
func (r *rig) List(ctx context.Context, group string) ([]decide.Mapped, error) {
	all, err := r.node.Mappings(ctx, r.ref)
	if err != nil || group != r.ref.UUID {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []decide.Mapped
	for _, m := range all {
		if m.Part != sharedlun.PartShown {
			out = append(out, decide.Mapped{VolumeUUID: m.VolumeUUID, Part: m.Part, Path: m.Device, Ranges: m.Ranges, Lun: lunNumber, Live: true, Linear: true, InUse: true})
			continue
		}
		d, err := r.host.Find(place(m.VolumeUUID).Group, place(m.VolumeUUID).Name)
		if err != nil {
			return nil, err
		}
		seen := decide.Mapped{VolumeUUID: m.VolumeUUID, Path: d.Path, Ranges: m.Ranges, Lun: lunNumber, Live: true, Linear: true, InUse: m.InUse}
		if r.change != nil {
			r.change(&seen)
		}
		out = append(out, seen)
	}
	return out, nil
}

// Number is the number of a device.
func (r *rig) Number(ctx context.Context, device string) (string, int64, error) {
	if device == "/dev/lun" {
		return r.number, r.lun.Identity().SizeBytes, nil
	}
	all, err := r.node.Mappings(ctx, r.ref)
	for _, m := range all {
		d, err := r.host.Find(place(m.VolumeUUID).Group, place(m.VolumeUUID).Name)
		if err == nil && d.Path == device {
			sum := int64(0)
			for _, part := range m.Ranges {
				sum += part.Size
			}
			return fmt.Sprintf("%d:%d", d.Major, d.Minor), sum, nil
		}
	}
	return "", 0, errors.Join(fmt.Errorf("%w: %s", sharedlun.ErrNotFound, device), err)
}

// apply makes a change. Its volume is the one of that name.
func (r *rig) apply(t testing.TB, c sharedlun.Change) sharedlun.Group {
	t.Helper()
	g := r.lun.Group()
	uuid := func(name string) string { return g.Volume(name).UUID }
	switch {
	case c.Grow != nil:
		c.Grow.UUID = uuid(c.Grow.Name)
	case c.Ready != nil:
		c.Ready.UUID = uuid(c.Ready.Name)
	case c.Hold != nil:
		c.Hold.UUID = uuid(c.Hold.Name)
	case c.Making != nil:
		c.Making.UUID = uuid(c.Making.Name)
	case c.Used != nil:
		c.Used.UUID = uuid(c.Used.Name)
	case c.Leave != nil:
		c.Leave.UUID = uuid(c.Leave.Name)
	case c.Release != nil:
		c.Release.UUID = uuid(c.Release.Name)
	}
	now, err := r.node.Change(t.Context(), r.ref, r.mandate(), g.Sequence, c)
	if err != nil {
		t.Fatal(err)
	}
	return now
}

func (r *rig) handle(name string) string { return sharedlun.ID{Group: r.ref.UUID, Name: name}.String() }

// make makes a volume of which all is ready.
func (r *rig) make(t testing.TB, name string, bytes int64) *sharedlun.Volume {
	t.Helper()
	r.apply(t, sharedlun.Change{Create: &sharedlun.Create{Name: name, SizeBytes: bytes}})
	g := r.apply(t, sharedlun.Change{Ready: &sharedlun.Ready{Name: name, Bytes: bytes}})
	v := g.Volume(name)
	h := r.host.Add(place(v.UUID), bytes)
	h.Content, h.New = "", false
	return v
}

// attach makes the volume "a", and attaches it as the controller does, with a filesystem on it.
func (r *rig) attach(t testing.TB) string {
	t.Helper()
	id := r.unused(t)
	r.formatted(r.volume("a"), "a")
	r.apply(t, sharedlun.Change{Used: &sharedlun.Hold{Name: "a", Node: "n1"}})
	return id
}

// unused makes the volume "a", and attaches it before it has a filesystem.
func (r *rig) unused(t testing.TB) string {
	t.Helper()
	r.make(t, "a", 8*mib)
	r.apply(t, sharedlun.Change{Hold: &sharedlun.Hold{Name: "a", Node: "n1"}})
	r.apply(t, sharedlun.Change{Making: &sharedlun.Hold{Name: "a", Node: "n1"}})
	r.mapped(t, "a")
	return r.handle("a")
}

// formatted gives a volume its first filesystem.
func (r *rig) formatted(v *csitest.Volume, name string) {
	v.Content, v.UUID, v.Files = "ext4", decide.FilesystemUUID(r.lun.Group().Volume(name).UUID), v.Size
}

// mapped has a volume mapped, and tells the driver of its attachment.
func (r *rig) mapped(t testing.TB, name string) {
	t.Helper()
	g := r.lun.Group()
	v := *g.Volume(name)
	if _, err := r.node.Map(t.Context(), r.ref, r.credential(), v, g.Sequence); err != nil {
		t.Fatal(err)
	}
	r.Attached[r.handle(name)] = sharedlun.Attached{Ref: r.ref, UUID: v.UUID}.Map()
}

// volume is what the model of filesystems knows of a volume.
func (r *rig) volume(name string) *csitest.Volume {
	return r.host.Add(place(r.lun.Group().Volume(name).UUID), 0)
}

func (r *rig) wantMounts(t *testing.T, want ...string) {
	t.Helper()
	if got := csitest.MountedBelow(t, r.Dir, r.host.Mounter); strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("mounts are %q, want %q", got, want)
	}
}

func capability(mode csipb.VolumeCapability_AccessMode_Mode, block bool) *csipb.VolumeCapability {
	c := &csipb.VolumeCapability{AccessMode: &csipb.VolumeCapability_AccessMode{Mode: mode}}
	if block {
		c.AccessType = &csipb.VolumeCapability_Block{Block: &csipb.VolumeCapability_BlockVolume{}}
	} else {
		c.AccessType = &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{}}
	}
	return c
}

var (
	mounted = capability(csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, false)
	raw     = capability(csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, true)
	alone   = capability(csipb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER, false)
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("code is %s, want %s: %v", got, want, err)
	}
}

var (
	_ iscsi.Devices = (*rig)(nil)
	_ iscsi.Luns    = (*rig)(nil)
	_ iscsi.Groups  = (*rig)(nil)
	_ csi.Devices   = (*iscsi.Source)(nil)
)
