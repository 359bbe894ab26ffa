//go:build hostroot

package sharedgroup

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/agent/internal/host/block"
	"quarry.storage/quarry/agent/internal/host/disk"
	hostiscsi "quarry.storage/quarry/agent/internal/host/iscsi"
	"quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/agent/internal/host/lvm/shared"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/agent/internal/host/occupant"
	"quarry.storage/quarry/agent/internal/host/reservation"
	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/agent/internal/lun"
	"quarry.storage/quarry/agent/internal/sharedgroup"
	"quarry.storage/quarry/agent/internal/sharedgroup/epoch"
	"quarry.storage/quarry/agent/internal/sharedgroup/tools"
	"quarry.storage/quarry/pkg/sharedlun"
	"quarry.storage/quarry/pkg/systemid"
	"quarry.storage/quarry/test/lio"
)

const (
	lateIQN  = "iqn.2026-01.storage.quarry.lab:late"
	lateBoot = "4f3c1f3e-0000-4000-8000-000000000001"
	// lateDevice stands over the path of the node whose writes are late.
	lateDevice = "quarry-test-late"
)

// initiator is a node with a session of its own with a real target: all of it is real but the kernel, which both nodes share.
type initiator struct {
	*lun.Node
	service *sharedgroup.Service
	name    string
	key     uint64
	// path is the device of the LUN here, if it is not the one of the session.
	path string
}

// apart are the tools of a node that does not see the processes of the other one, as behind another kernel.
type apart struct{ tools.Groups }

func (apart) Quiet(context.Context, string) error { return nil }

// newInitiator makes a node. Each has locks of LVM of its own, as two kernels have.
func newInitiator(t *testing.T, iface string, key uint64) *initiator {
	t.Helper()
	lio.Iface(t, iface)
	dir := t.TempDir()
	i := &initiator{name: lio.InitiatorName(iface), key: key, Node: lun.New(lun.Config{
		NodeName: iface, BootID: lateBoot, Dev: "/dev", Reservations: reservation.New(),
		Initiator: hostiscsi.New(hostiscsi.Config{Runner: run.Real{}, NodeName: iface, Iface: iface}),
		Uses: lun.HostUses{Tools: lun.Tools{
			Sys: "/sys", Dev: "/dev", Block: block.New(block.Config{}), Mounts: mount.New(mount.Config{}),
			Occupants: occupant.New(occupant.Config{}),
		}},
	})}
	l, err := lvm.New(lvm.Config{Runner: run.Real{}, Dir: filepath.Join(dir, "lvm"), LockDir: filepath.Join(dir, "lock"), SystemID: systemid.Of(iface)})
	must(t, err)
	i.service = sharedgroup.New(context.WithoutCancel(t.Context()), sharedgroup.Config{
		Node: iface, Luns: i, Groups: apart{tools.Groups{LVM: shared.New(l), Disks: disk.New()}}, Epochs: epoch.Files{Dir: filepath.Join(dir, "shared")},
	})
	t.Cleanup(i.service.Close)
	return i
}

// Device is that of the session, or what stands over it.
func (i *initiator) Device(ctx context.Context, id sharedlun.Identity) (string, error) {
	path, err := i.Node.Device(ctx, id)
	if i.path != "" && err == nil {
		path = i.path
	}
	return path, err
}

// login makes the session of a node, and returns the LUN.
func (i *initiator) login(t *testing.T) sharedlun.Lun {
	t.Helper()
	seen, err := i.Login(t.Context(), sharedlun.Target{IQN: lateIQN, Portals: lio.Portals[:1]}, nil, nil)
	must(t, err)
	if len(seen.Luns) != 1 {
		t.Fatalf("%+v", seen)
	}
	return seen.Luns[0]
}

// delay puts a device over the node's path that lets reads pass, and keeps writes back until release is called.
func (i *initiator) delay(t *testing.T, device string) (release func()) {
	t.Helper()
	lio.Run(t, "modprobe", "dm-delay")
	size := strings.TrimSpace(output(t, "blockdev", "--getsz", device))
	// Nothing waits as long as this: release ends it.
	const forever = 3600_000
	table := fmt.Sprintf("0 %s delay %[2]s 0 0 %[2]s 0 %[3]d", size, device, forever)
	lio.Run(t, "dmsetup", "create", lateDevice, "--table", table)
	released := false
	release = func() {
		if released {
			return
		}
		released = true
		// What is kept back is sent when the device is suspended.
		lio.Run(t, "dmsetup", "suspend", "--nolockfs", lateDevice)
		lio.Run(t, "dmsetup", "load", lateDevice, "--table", fmt.Sprintf("0 %s linear %s 0", size, device))
		lio.Run(t, "dmsetup", "resume", lateDevice)
	}
	t.Cleanup(func() {
		release()
		lio.Run(t, "dmsetup", "remove", "--retry", lateDevice)
	})
	i.path = "/dev/mapper/" + lateDevice
	return release
}

// waitHeldBack waits until a write is on its way.
func waitHeldBack(t *testing.T) {
	t.Helper()
	for range 300 {
		// Start, size, kind, and then the numbers of reads, writes and flushes that are kept back.
		if f := strings.Fields(output(t, "dmsetup", "status", lateDevice)); len(f) > 4 && f[4] != "0" {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("nobody writes")
}

func output(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, out)
	}
	return string(out)
}

// lateWriter is the scene: A changes the group, and its first write is late. Meanwhile B becomes the writer, and makes a change of its own.
type lateWriter struct {
	*testing.T
	a, b  *initiator
	ref   sharedlun.Ref
	group sharedlun.Group
	// unfenced is true for a target without reservations.
	unfenced bool
}

func newLateWriter(t *testing.T, reservations bool) *lateWriter {
	target := lio.New(t, lateIQN)
	target.Reservations(reservations)
	s := &lateWriter{T: t, a: newInitiator(t, "quarry-a", 0xa1), b: newInitiator(t, "quarry-b", 0xb1), unfenced: !reservations}
	s.ref = sharedlun.Ref{Lun: s.a.login(t).Identity, OwnerUID: contractOwner}
	s.b.login(t)
	for _, i := range []*initiator{s.a, s.b} {
		if !s.unfenced {
			_, err := i.Register(t.Context(), s.ref.Lun, sharedlun.Grant{Key: i.key, BootID: lateBoot, Initiator: i.name, Reserve: true})
			must(t, err)
		}
	}
	g, err := s.a.service.Create(t.Context(), s.ref, contractGroup, s.mandate(s.a, 1), "")
	must(t, err)
	s.group, s.ref.UUID = g, g.UUID
	return s
}

func (s *lateWriter) mandate(i *initiator, epoch uint64) sharedlun.Mandate {
	return sharedlun.Mandate{Epoch: epoch, Credential: sharedlun.Credential{Key: i.key, Unfenced: s.unfenced}, Timeout: 5 * time.Minute}
}

// change makes a change as the writer of an epoch.
func (s *lateWriter) change(i *initiator, epoch uint64, c sharedlun.Change) error {
	g, err := i.service.Change(s.Context(), s.ref, s.mandate(i, epoch), s.group.Sequence, c)
	if err == nil {
		s.group = g
	}
	return err
}

// play has A's write come late, and returns the group that is on the LUN in the end, and what A was told.
func (s *lateWriter) play() (end sharedlun.Group, told error) {
	s.Helper()
	device, err := s.a.Node.Device(s.Context(), s.ref.Lun)
	must(s.T, err)
	release := s.a.delay(s.T, device)
	answer := make(chan error, 1)
	before := s.group.Sequence
	go func() {
		create := sharedlun.Change{Create: &sharedlun.Create{Name: "from-a", SizeBytes: 8 * mib}}
		_, err := s.a.service.Change(s.Context(), s.ref, s.mandate(s.a, 1), before, create)
		answer <- err
	}()
	waitHeldBack(s.T)
	if !s.unfenced {
		_, err := s.b.Preempt(s.Context(), s.ref.Lun, s.b.key, s.a.key)
		must(s.T, err)
	}
	must(s.T, s.change(s.b, 2, sharedlun.Change{TakeOver: true}))
	must(s.T, s.change(s.b, 2, sharedlun.Change{Create: &sharedlun.Create{Name: "from-b", SizeBytes: 8 * mib}}))
	if s.group.Volume("from-b") == nil || s.group.Volume("from-a") != nil {
		s.Fatalf("before the late write: %+v", s.group)
	}
	release()
	told = <-answer
	seen, err := s.b.service.Get(s.Context(), s.ref)
	must(s.T, err)
	if seen.Group == nil {
		s.Fatalf("no group is left: %+v", seen)
	}
	return *seen.Group, told
}

// TestRealHost_lateWriterIsFenced: the write of an earlier writer that was kept back in its kernel comes after the next writer's change. The target refuses it.
func TestRealHost_lateWriterIsFenced(t *testing.T) {
	s := newLateWriter(t, true)
	end, told := s.play()
	t.Logf("the late writer was told: %v", told)
	if !errors.Is(told, sharedlun.ErrUnknown) {
		t.Errorf("the late writer was told %v", told)
	}
	if v := end.Volume("from-b"); v == nil || end.Volume("from-a") != nil || end.Epoch != 2 || end.Sequence != s.group.Sequence {
		t.Errorf("the group is %+v, the second writer left %+v", end, s.group)
	}
	// The writer goes on, and so does nobody else.
	must(t, s.change(s.b, 2, sharedlun.Change{Create: &sharedlun.Create{Name: "more", SizeBytes: 4 * mib}}))
	if err := s.change(s.a, 1, sharedlun.Change{Create: &sharedlun.Create{Name: "again", SizeBytes: 4 * mib}}); !errors.Is(err, sharedlun.ErrNoKey) {
		t.Errorf("the fenced node changes the group: %v", err)
	}
}

// TestRealHost_lateWriterWithoutFence shows what the fence is for. Without it the same late write is taken: the second writer's volume, which was
// acknowledged, is gone, and the first one's has its place on the LUN. Should this fail one day, the test above proves nothing.
func TestRealHost_lateWriterWithoutFence(t *testing.T) {
	s := newLateWriter(t, false)
	end, told := s.play()
	acknowledged := s.group.Volume("from-b")
	t.Logf("the late writer was told: %v", told)
	late := end.Volume("from-a")
	if end.Volume("from-b") != nil || late == nil || end.Epoch != 1 {
		t.Fatalf("nothing was lost: %+v", end)
	}
	if len(late.Ranges) != 1 || len(acknowledged.Ranges) != 1 || late.Ranges[0] != acknowledged.Ranges[0] {
		t.Errorf("the late volume lies at %v, the lost one at %v", late.Ranges, acknowledged.Ranges)
	}
}
