// Package conformance is what every node must do, whatever is behind the agent's server: the fake host of agenttest, in every unit
// test, and a real one with real disks, in a run as root. It keeps the fake honest.
package conformance

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/agent/agenttest/turn"
	"quarry.storage/quarry/pkg/refusal"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// Node is what the suite runs against.
type Node interface {
	// Conn is a connection with the controller's certificate to the agent as it runs now.
	Conn(t *testing.T) grpc.ClientConnInterface
	// Disks are the stable paths of at least two spare disks of at least 64 MiB.
	Disks() []string
	// Reset brings the spare disks back, empties them and removes what was made on them, by force.
	Reset(t *testing.T)
	// Dirty writes data of no known format on a disk.
	Dirty(t *testing.T, path string)
	// OpenDisk lets a program have a disk open, not exclusively, until it is closed.
	OpenDisk(t *testing.T, path string) (closeIt func())
	// ForeignGroup makes a volume group without our tag on a disk.
	ForeignGroup(t *testing.T, name, path string)
	// Detach takes a disk away from the agent and from LVM, with what is on it; Attach brings it back.
	Detach(t *testing.T, path string)
	Attach(t *testing.T, path string)
	// SetSystemID makes a group of ours, of which nothing is active, that of another node by its LVM system ID, or nobody's when it is empty.
	SetSystemID(t *testing.T, group, id string)
	// AddVolume makes a small logical volume on a disk of a group, RemoveVolume removes it.
	AddVolume(t *testing.T, group, name, path string)
	RemoveVolume(t *testing.T, group, name string)
	Kernel
	// Commands counts the LVM commands that calls on volumes ran so far.
	Commands() int
	// Steps counts the changes that the agent made so far.
	Steps() int
	// Crash lets the agent die before or after the n-th change from now; zero takes it back.
	Crash(n int, after bool)
	// Restart starts the agent again.
	Restart(t *testing.T)
}

// Names that the suite uses on the node.
const (
	groupName = "quarry-conformance"
	otherName = "quarry-conformance-other"
	owner     = "7a1c6d1e-0000-4000-8000-000000000001"
	stranger  = "7a1c6d1e-0000-4000-8000-000000000002"
)

const (
	callTimeout   = time.Minute
	settleTimeout = 20 * time.Second
	settlePause   = 50 * time.Millisecond
)

// Run runs all behaviours.
func Run(t *testing.T, node Node) {
	Groups(t, node)
	Deaths(t, node)
	VolumeDeaths(t, node)
	Volumes(t, node)
}

// Groups runs the behaviours of disks and groups, one after the other, each on empty disks.
func Groups(t *testing.T, node Node) {
	run(t, node, []behaviour{
		{"node tells who it is", describesNode},
		{"empty disk is clean", emptyDiskIsClean},
		{"ensure makes a group once", ensureMakesGroup},
		{"ensure extends a group", ensureExtends},
		{"ensure refuses all when one disk is dirty", ensureRefusesDirty},
		{"ensure refuses another disk than described", ensureRefusesAnother},
		{"ensure refuses an absent disk", ensureRefusesAbsent},
		{"ensure refuses bad paths", refusesBadPaths},
		{"ensure refuses a name that is taken", ensureRefusesTakenName},
		{"ensure refuses a disk of another group", ensureRefusesOwned},
		{"reduce takes a disk out once", reduceTakesOut},
		{"reduce refuses the last disk", reduceRefusesLast},
		{"reduce refuses a disk with data", reduceRefusesData},
		{"remove leaves clean disks", removeLeavesClean},
		{"remove refuses a group with volumes", removeRefusesVolumes},
		{"remove leaves alone what is not ours", removeLeavesOthers},
		{"remove leaves a missing disk behind", removeWithoutDisk},
		{"remove refuses a group with volumes that lacks a disk", removeRefusesMissingVolume},
		{"wipe makes a dirty disk clean once", wipeCleans},
		{"wipe refuses another disk than described", wipeRefusesAnother},
		{"wipe refuses a disk of ours", wipeRefusesOwned},
		{"nothing is done to a disk that a program has open", openDiskIsLeftAlone},
		{"an inspection sees who opened a disk after it was found unused", inspectSeesNow},
		{"an inspection refuses another disk than described", inspectRefusesAnother},
		{"watch shows a change", watchShowsChange},
		{"a group names its node", groupNamesNode},
		{"a call that means another group of the name changes nothing", groupIsTheOneMeant},
		{"a group that names no node is used, and stamped once", stampsGroup},
		{"a group of another node is left alone until it is imported", importsGroup},
		{"a group of an owner that is gone becomes another's, and keeps whose it was", takesGroupOver},
	})
}

// Volumes runs the other behaviours of logical volumes.
func Volumes(t *testing.T, node Node) {
	run(t, node, []behaviour{
		{"volume is made once, and removed once", createMakesVolume},
		{"create refuses bad requests", createRefuses},
		{"delete refuses what is open or not ours", deleteRefuses},
		{"resize grows and never shrinks", resizeGrows},
		{"thin pool takes volumes, snapshots and copies up to its limit", thinVolumes},
		{"a disk that is gone leaves what is beside it usable", deadDiskLeavesOthers},
		{"a group forgets a disk that is gone, with what is named", forgetsDeadDisk},
		{"a group forgets a disk that is gone and held nothing, and loses nothing", forgetsEmptyDisk},
		{"a volume leaves a disk of the group, and works as before", movesExtents},
		{"a volume that a killed command left suspended is resumed", suspendedIsResumed},
		{"the host activates nothing of ours by itself", hostActivatesNothing},
		{"how full a pool is is not known until it is active", inactivePool},
		{"a thin pool with damaged metadata is not activated, and shown, and repaired when asked for", damagedPool},
		{"a thin pool of which nothing is left is not repaired", ruinedPool},
		{"nobody reads what another wrote", nobodyReadsOthers},
		{"a volume that is being zeroed can be removed", zeroingGoesWithVolume},
		{"a volume whose removal began is removed, and nothing else", removalIsRemembered},
	})
}

// behaviour is something that every node does.
type behaviour struct {
	name  string
	check func(*suite)
}

// turns is how many runs share the behaviours.
const turns = 3

func run(t *testing.T, node Node, behaviours []behaviour) {
	for i, b := range behaviours {
		t.Run(b.name, func(t *testing.T) {
			turn.Share(t, i, turns)
			node.Reset(t)
			b.check(&suite{T: t, Node: node})
		})
	}
	node.Reset(t)
}

// suite is one behaviour's view of the node.
type suite struct {
	*testing.T
	Node
}

func (s *suite) ctx() context.Context {
	ctx, cancel := context.WithTimeout(s.Context(), callTimeout)
	s.Cleanup(cancel)
	return ctx
}

func (s *suite) devices() agentv1.DeviceServiceClient {
	return agentv1.NewDeviceServiceClient(s.Conn(s.T))
}

func (s *suite) groups() agentv1.VolumeGroupServiceClient {
	return agentv1.NewVolumeGroupServiceClient(s.Conn(s.T))
}

// device is the device as it is seen now.
func (s *suite) device(path string) *agentv1.Device {
	s.Helper()
	resp, err := s.devices().ListDevices(s.ctx(), &agentv1.ListDevicesRequest{})
	if err != nil {
		s.Fatalf("ListDevices: %v", err)
	}
	for _, d := range resp.GetDevices() {
		if d.GetPath() == path {
			return d
		}
	}
	s.Fatalf("device %s is not listed", path)
	return nil
}

// settled is the device when it is as wanted: udev's database follows a change of the content with some delay.
func (s *suite) settled(path string, wanted func(*agentv1.Device) bool) *agentv1.Device {
	s.Helper()
	for deadline := time.Now().Add(settleTimeout); ; time.Sleep(settlePause) {
		d := s.device(path)
		if wanted(d) {
			return d
		}
		if time.Now().After(deadline) {
			s.Fatalf("device %s stays %v", path, d)
		}
	}
}

// clean waits until the device can be taken, and describes it.
func (s *suite) clean(path string) *agentv1.DeviceIdentity {
	s.Helper()
	return identity(s.settled(path, func(d *agentv1.Device) bool { return len(d.GetRefusals()) == 0 }))
}

// dirty makes the device dirty and describes it.
func (s *suite) dirty(path string) *agentv1.DeviceIdentity {
	s.Helper()
	s.Dirty(s.T, path)
	return identity(s.settled(path, func(d *agentv1.Device) bool {
		return len(d.GetRefusals()) > 0 && d.GetDigest() != "" && !refusedFor(d, refusal.Busy)
	}))
}

// group is the group as it is seen now, nil when there is none.
func (s *suite) group() *agentv1.VolumeGroup {
	s.Helper()
	resp, err := s.groups().ListVolumeGroups(s.ctx(), &agentv1.ListVolumeGroupsRequest{})
	if err != nil {
		s.Fatalf("ListVolumeGroups: %v", err)
	}
	for _, g := range resp.GetGroups() {
		if g.GetName() == groupName {
			return g
		}
	}
	return nil
}

func (s *suite) ensure(name, uid string, devices ...*agentv1.DeviceIdentity) error {
	_, err := s.groups().EnsureVolumeGroup(s.ctx(), &agentv1.EnsureVolumeGroupRequest{Name: name, OwnerUid: uid, Devices: devices})
	return err
}

func (s *suite) reduce(uid string, devices ...*agentv1.DeviceIdentity) error {
	_, err := s.groups().ReduceVolumeGroup(s.ctx(), &agentv1.ReduceVolumeGroupRequest{Name: groupName, OwnerUid: uid, Devices: devices})
	return err
}

func (s *suite) remove(name, uid string, devices ...*agentv1.DeviceIdentity) error {
	_, err := s.groups().RemoveVolumeGroup(s.ctx(), &agentv1.RemoveVolumeGroupRequest{Name: name, OwnerUid: uid, Devices: devices})
	return err
}

func (s *suite) wipe(device *agentv1.DeviceIdentity) error {
	_, err := s.devices().WipeDevice(s.ctx(), &agentv1.WipeDeviceRequest{Device: device})
	return err
}

func (s *suite) inspect(device *agentv1.DeviceIdentity) (*agentv1.Device, error) {
	resp, err := s.devices().InspectDevice(s.ctx(), &agentv1.InspectDeviceRequest{Device: device})
	return resp.GetDevice(), err
}

// must fails the test on an error.
func (s *suite) must(what string, err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// refused wants the code, and that nothing was changed since before.
func (s *suite) refused(what string, err error, want codes.Code, before int) {
	s.Helper()
	if got := status.Code(err); got != want {
		s.Errorf("%s: %v, want code %s", what, err, want)
	}
	if n := s.Steps() - before; n != 0 {
		s.Errorf("%s: refused after %d changes", what, n)
	}
}

// holds wants the suite's group to have exactly these devices.
func (s *suite) holds(paths ...string) {
	s.Helper()
	g := s.group()
	if g == nil {
		s.Fatalf("group %s does not exist", groupName)
	}
	in := map[string]bool{}
	for _, pv := range g.GetPhysicalVolumes() {
		in[pv.GetPath()] = true
	}
	if len(in) != len(paths) || g.GetPartial() || g.GetFreeBytes() > g.GetSizeBytes() || g.GetSizeBytes() == 0 {
		s.Errorf("group: %v, want the devices %v", g, paths)
	}
	for _, p := range paths {
		if !in[p] {
			s.Errorf("group does not hold %s: %v", p, g)
		}
	}
}
