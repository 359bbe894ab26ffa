package inventory

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/agent/internal/host/block"
	"quarry.storage/quarry/agent/internal/host/disk"
	"quarry.storage/quarry/agent/internal/host/disk/format"
	"quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/agent/internal/host/occupant"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/pkg/quarry"
)

var errBroken = errors.New("broken")

// fake is a host in memory; it is all sources.
type fake struct {
	devices  []block.Device
	listErr  error
	table    mount.Table
	mountErr error
	facts    map[string]disk.Facts
	probeErr map[string]error
	hang     chan struct{}
	hanging  string
	vgs      []lvm.VG
	pvs      []lvm.PV
	lvmErr   error
	// node is a host whose LVM is asked about some devices only; nil for one that says the same whatever it is asked.
	node *lvmNode

	mu     sync.Mutex
	probed map[string]bool
	opened []string
	// busy: no device can be opened exclusively. released counts those that were closed.
	busy     bool
	released int
	reports  [][]string

	triggered []string
	sought    []occupant.Device

	uevents, mounts chan struct{}
}

func (f *fake) List(context.Context) ([]block.Device, error)     { return f.devices, f.listErr }
func (f *fake) Uevents(context.Context) (<-chan struct{}, error) { return f.uevents, f.listErr }
func (f *fake) Changes(context.Context) (<-chan struct{}, error) { return f.mounts, f.mountErr }
func (f *fake) Read() (mount.Table, error)                       { return f.table, f.mountErr }
func (f *fake) Report(ctx context.Context, d []string) ([]lvm.VG, []lvm.PV, error) {
	f.mu.Lock()
	f.reports = append(f.reports, d)
	f.mu.Unlock()
	if f.node != nil {
		return f.node.report(ctx, d)
	}
	return f.vgs, f.pvs, f.lvmErr
}

func (f *fake) Device(uint32, uint32) (block.Device, error) { return f.devices[0], f.listErr }
func (f *fake) Idle() bool                                  { return true }

func (f *fake) Trigger(number string) error {
	f.triggered = append(f.triggered, number)
	return nil
}

func (f *fake) Exclusive(_ context.Context, path string) (bool, error) {
	f.opened = append(f.opened, path)
	return true, nil
}

func (f *fake) OpenExclusive(_ context.Context, path string) (*os.File, func() error, error) {
	f.opened = append(f.opened, path)
	if f.busy {
		return nil, nil, disk.ErrBusy
	}
	// It is no block device: what is read of one is for tests with real ones.
	file, err := os.Open(os.DevNull)
	if err != nil {
		return nil, nil, err
	}
	return file, func() error { f.released++; return file.Close() }, nil
}

func (f *fake) Find(_ context.Context, disks []occupant.Device) ([][]string, error) {
	f.sought = append(f.sought, disks...)
	return [][]string{{"somebody"}}, f.listErr
}

func (f *fake) Probe(_ context.Context, path string) (disk.Facts, error) {
	f.mu.Lock()
	if f.probed == nil {
		f.probed = map[string]bool{}
	}
	f.probed[path] = true
	f.mu.Unlock()
	if path == f.hanging {
		<-f.hang
	}
	return f.facts[path], f.probeErr[path]
}

func (f *fake) inventory(t *testing.T) *Inventory {
	t.Helper()
	i, err := New(Config{Block: f, Mounts: f, Prober: f, LVM: f, Occupants: f, ProbeTimeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func (f *fake) observe(t *testing.T) map[string]plan.Device {
	t.Helper()
	snap, err := f.inventory(t).Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return byName(snap)
}

func byName(s plan.Snapshot) map[string]plan.Device {
	out := map[string]plan.Device{}
	for _, d := range s.Devices {
		out[d.KernelName] = d
	}
	return out
}

const size = 1 << 30

// newFake makes a host with disks of that names, all clean.
func newFake(names ...string) *fake {
	f := &fake{facts: map[string]disk.Facts{}, probeErr: map[string]error{}}
	for n, name := range names {
		f.devices = append(f.devices, block.Device{
			Name: name, Node: "/dev/" + name, Path: "/dev/disk/by-id/" + name, Type: "disk", Major: 8, Minor: uint32(16 * n), SizeBytes: size,
		})
		f.facts["/dev/"+name] = disk.Facts{SizeBytes: size, SectorBytes: 512, HeadTailZero: true, ContentDigest: "d"}
	}
	return f
}

// label puts a physical volume on a disk.
func (f *fake) label(name, uuid string) {
	facts := f.facts["/dev/"+name]
	facts.PVUUID, facts.HeadTailZero, facts.ContentDigest = uuid, false, ""
	facts.Signatures = []format.Signature{{Type: "LVM2_member", Offset: 536, UUID: uuid}}
	f.facts["/dev/"+name] = facts
}

func TestObserve_cleanDiskStartsNoProcess(t *testing.T) {
	f := newFake("sda")
	got := f.observe(t)["sda"]
	want := plan.Device{
		Path: "/dev/disk/by-id/sda", KernelName: "sda", Major: 8, Type: "disk", SizeBytes: size,
		HeadTailZero: true, ContentDigest: "d",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(f.reports) > 0 {
		t.Errorf("LVM was asked about %v", f.reports)
	}
}

// TestObserve_opensNoPartitions: the kernel would not read the partition table of the disk again meanwhile.
func TestObserve_opensNoPartitions(t *testing.T) {
	f := newFake("sda", "sdb", "sdb1", "sdb2")
	for n := range f.devices[2:] {
		f.devices[n+2].Type, f.devices[n+2].Parent = "partition", "sdb"
	}
	f.devices[3].Udev = map[string]string{"ID_FS_TYPE": "LVM2_member"}
	got := f.observe(t)
	want := map[string]bool{"/dev/sda": true, "/dev/sdb": true, "/dev/sdb2": true}
	if diff := cmp.Diff(want, f.probed); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	if !cmp.Equal(got["sdb1"].Unreadable, []string{"content: partitions are not opened"}) {
		t.Errorf("%q", got["sdb1"].Unreadable)
	}
	if len(f.opened) > 0 {
		t.Errorf("opened exclusively: %v", f.opened)
	}
}

// TestInspected_isWhatAnObservationSees: the digest of the device under the exclusive open is the one that was observed.
func TestInspected_isWhatAnObservationSees(t *testing.T) {
	f := newFake("sda")
	f.devices[0].Model, f.devices[0].Serial, f.devices[0].Partitions = "m", "s", []string{"sda1"}
	facts := disk.Facts{
		SizeBytes: size, ContentDigest: "c", Signatures: []format.Signature{{Type: "ext4", Offset: 1, UUID: "u", Label: "l"}},
	}
	for name, change := range map[string]func(*disk.Facts){
		"as it is":                 func(*disk.Facts) {},
		"with the mark of a wipe":  func(f *disk.Facts) { f.Wipe = &disk.Mark{Digest: "v1:d"} },
		"with another size":        func(f *disk.Facts) { f.SizeBytes++ },
		"empty":                    func(f *disk.Facts) { f.HeadTailZero, f.Signatures = true, nil },
		"with data of no format":   func(f *disk.Facts) { f.Signatures = nil },
		"with a second filesystem": func(f *disk.Facts) { f.Signatures = append(f.Signatures, format.Signature{Type: "xfs"}) },
	} {
		seen := facts
		change(&seen)
		f.facts["/dev/sda"] = seen
		observed, inspected := f.observe(t)["sda"], inspected(f.devices[0], seen)
		if plan.Digest(observed) != plan.Digest(inspected) || (plan.Digest(observed) == "") != (seen.SizeBytes != size) {
			t.Errorf("%s: observed %q, inspected %q", name, plan.Digest(observed), plan.Digest(inspected))
		}
		observed.Use = plan.Unused
		if diff := cmp.Diff(observed, inspected); diff != "" {
			t.Errorf("%s (-observed +inspected):\n%s", name, diff)
		}
	}
	pv := disk.Facts{SizeBytes: size, PVUUID: "u", PVInGroup: true}
	if d := inspected(f.devices[0], pv); d.PVUUID != "u" || d.Group == "" {
		t.Errorf("a physical volume in a group: %+v", d)
	}
}

func TestInspect_wantsADevice(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if d, err := newFake("sda").inventory(t).Inspect(t.Context(), f); err == nil {
		t.Errorf("%+v", d)
	}
}

func TestInventory_singleDevices(t *testing.T) {
	f := newFake("sda")
	i := f.inventory(t)
	d := plan.Device{Path: "/dev/disk/by-id/sda", KernelName: "sda", Major: 8, Minor: 16}
	free, err := i.Exclusive(t.Context(), d)
	if err != nil || !free || !i.Idle() || i.Trigger(d) != nil {
		t.Errorf("%t, %v", free, err)
	}
	if !cmp.Equal(f.opened, []string{d.Path}) || !cmp.Equal(f.triggered, []string{"8:16"}) {
		t.Errorf("opened %v, triggered %v", f.opened, f.triggered)
	}
	users, err := i.Users(t.Context(), []plan.Device{d})
	if err != nil || !cmp.Equal(users, [][]string{{"somebody"}}) || !cmp.Equal(f.sought, []occupant.Device{{Major: 8, Minor: 16}}) {
		t.Errorf("users %v of %v, %v", users, f.sought, err)
	}
}

// TestLook_opensExclusively: a look opens the disk, and closes it whatever comes of it.
func TestLook_opensExclusively(t *testing.T) {
	f := newFake("sda")
	i, d := f.inventory(t), plan.Device{Path: "/dev/disk/by-id/sda", KernelName: "sda"}
	if _, err := i.Look(t.Context(), d); err == nil || errors.Is(err, plan.ErrTaken) || f.released != 1 {
		t.Errorf("%v, closed %d times", err, f.released)
	}
	f.busy = true
	if _, err := i.Look(t.Context(), d); !errors.Is(err, plan.ErrTaken) || f.released != 1 {
		t.Errorf("%v, closed %d times", err, f.released)
	}
	if !cmp.Equal(f.opened, []string{d.Path, d.Path}) {
		t.Errorf("opened %v", f.opened)
	}
}

func TestObserve_mounts(t *testing.T) {
	f := newFake("sda", "sdb")
	f.devices = append(f.devices, block.Device{
		Name: "sda1", Node: "/dev/sda1", Path: "/dev/sda1", Type: "partition", Parent: "sda", Major: 8, Minor: 1, SizeBytes: size,
	})
	f.facts["/dev/sda1"] = f.facts["/dev/sda"]
	f.table = mount.Table{Uses: []mount.Use{
		{Device: mount.Device{Major: 8, Minor: 1}, Where: "/data"},
		{Device: mount.Device{Major: 8, Minor: 16}, Where: mount.Swap},
	}}
	got := f.observe(t)
	for name, where := range map[string]string{"sda": "/data", "sda1": "/data", "sdb": "[swap]"} {
		if d := got[name]; !cmp.Equal(d.Mounts, []string{where}) {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func TestObserve_whatCannotBeReadIsNamed(t *testing.T) {
	tests := map[string]struct {
		change func(f *fake)
		want   string
	}{
		"the mount table":         {func(f *fake) { f.mountErr = errBroken }, "mounts: broken"},
		"one mount":               {func(f *fake) { f.table.Unresolved = []string{"mount /x"} }, "mounts: mount /x"},
		"the content":             {func(f *fake) { f.probeErr["/dev/sda"] = errBroken }, "content: broken"},
		"a virtual device":        {func(f *fake) { f.devices[0].Type = "dm" }, "content: devices of type dm are not opened"},
		"a suspended device":      {func(f *fake) { f.devices[0].Suspended = true }, "content: the device is suspended"},
		"a lost connection":       {func(f *fake) { f.devices[0].Held = "blocked" }, "content: its connection is lost (blocked), and the kernel keeps all requests"},
		"a device new to udev":    {func(f *fake) { f.devices[0].Pending = true }, "content: udev has not finished with the device"},
		"an empty drive":          {func(f *fake) { f.devices[0].SizeBytes = 0 }, "content: the device has no size"},
		"two sizes":               {func(f *fake) { f.devices[0].SizeBytes = 512 }, "size: sysfs says 512 bytes, the device 1073741824"},
		"a fact of the kernel":    {func(f *fake) { f.devices[0].Unreadable = []string{"ro: broken"} }, "ro: broken"},
		"LVM":                     {func(f *fake) { f.label("sda", "u"); f.lvmErr = errBroken }, "volume group: broken"},
		"LVM without the device":  {func(f *fake) { f.label("sda", "u") }, "volume group: LVM does not report it"},
		"LVM with another device": {func(f *fake) { f.label("sda", "u"); f.pvs = []lvm.PV{{UUID: "u", Major: 9}} }, "volume group: LVM reports the physical volume on 9:0"},
		"LVM with a missing one":  {func(f *fake) { f.label("sda", "u"); f.pvs = []lvm.PV{{UUID: "u", Missing: true}} }, "volume group: LVM does not report it"},
		"LVM with a duplicate":    {func(f *fake) { f.label("sda", "u"); f.pvs = []lvm.PV{{UUID: "u", Duplicate: true}} }, "volume group: LVM reports the physical volume twice"},
		"LVM without the group":   {func(f *fake) { f.label("sda", "u"); f.pvs = []lvm.PV{{UUID: "u", Major: 8, VGName: "g", VGUUID: "G"}} }, "volume group: LVM does not report group g"},
		"a damaged label":         {func(f *fake) { f.label("sda", "") }, "volume group: the LVM label is damaged"},
	}
	for name, tt := range tests {
		f := newFake("sda")
		tt.change(f)
		got := f.observe(t)["sda"]
		if !cmp.Equal(got.Unreadable, []string{tt.want}) {
			t.Errorf("%s: %q", name, got.Unreadable)
		}
		if strings.HasPrefix(tt.want, "content") && (got.HeadTailZero || got.ContentDigest != "") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestObserve_twoGroupsOfOneName(t *testing.T) {
	f := newFake("sda", "sdb")
	f.label("sda", "a")
	f.label("sdb", "b")
	f.pvs = []lvm.PV{{UUID: "a", Major: 8, VGName: "g", VGUUID: "A"}, {UUID: "b", Major: 8, Minor: 16, VGName: "g", VGUUID: "B"}}
	f.vgs = []lvm.VG{{Name: "g", UUID: "A", Tags: []string{quarry.TagCluster + "uid"}}, {Name: "g", UUID: "B"}}
	got := f.observe(t)
	if a, b := got["sda"], got["sdb"]; a.OwnerUID != "uid" || b.OwnerUID != "" || a.Group != "g" || b.Group != "g" || len(a.Unreadable)+len(b.Unreadable) > 0 {
		t.Errorf("%+v\n%+v", a, b)
	}
}

func TestObserve_failsOnlyWithoutAList(t *testing.T) {
	f := newFake("sda")
	f.listErr = errBroken
	if _, err := f.inventory(t).Observe(t.Context()); !errors.Is(err, errBroken) {
		t.Errorf("%v", err)
	}
	if _, err := f.inventory(t).Watch(t.Context()); !errors.Is(err, errBroken) {
		t.Errorf("watch: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newFake("sda").inventory(t).Observe(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := New(Config{}); err == nil {
		t.Error("a configuration without sources is accepted")
	}
}

func TestObserve_hungDiskHoldsNobodyUp(t *testing.T) {
	f := newFake("sda", "sdb", "sdc")
	f.hanging, f.hang = "/dev/sdb", make(chan struct{})
	i := f.inventory(t)
	for range 2 {
		began := time.Now()
		snap, err := i.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := byName(snap)
		if time.Since(began) > 5*time.Second || len(got["sda"].Unreadable)+len(got["sdc"].Unreadable) > 0 {
			t.Errorf("after %v: %+v", time.Since(began), got)
		}
		if !cmp.Equal(got["sdb"].Unreadable, []string{"content: the device does not answer"}) {
			t.Errorf("%q", got["sdb"].Unreadable)
		}
	}
	close(f.hang)
	for range 100 {
		snap, err := i.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(byName(snap)["sdb"].Unreadable) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("a disk that answers again stays unreadable")
}

func TestWatch_passesBothSourcesOn(t *testing.T) {
	f := &fake{uevents: make(chan struct{}), mounts: make(chan struct{})}
	signals, err := f.inventory(t).Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, source := range map[string]chan struct{}{"kernel": f.uevents, "mounts": f.mounts} {
		source <- struct{}{}
		select {
		case <-signals:
		case <-time.After(5 * time.Second):
			t.Errorf("a change told by %s is lost", name)
		}
	}
	close(f.mounts)
	select {
	case _, open := <-signals:
		if open {
			t.Error("a signal without a change")
		}
	case <-time.After(5 * time.Second):
		t.Error("the watch goes on with one source only")
	}
}
