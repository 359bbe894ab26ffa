package conformance_test

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"

	"quarry.storage/quarry/agent/agenttest"
	"quarry.storage/quarry/agent/agenttest/conformance"
)

// fakeNode is the suite's view of agenttest's host.
type fakeNode struct {
	*agenttest.Agent
	names map[string]string
	paths []string
	t     *testing.T // of the whole suite, which the connections last for
	conn  grpc.ClientConnInterface
}

func TestFakeHost(t *testing.T) {
	for name, opts := range map[string]agenttest.Options{"port": {}, "memory": {Network: &agenttest.Network{}}} {
		t.Run(name, func(t *testing.T) { conformance.Run(t, newFakeNode(t, opts)) })
	}
}

// TestFakeHost_udevMissesEveryChange: what was done to a disk is known to udev because the agent tells it, also after a death before it
// could, and of changes that others made. Disks have to be left alone for a moment besides.
func TestFakeHost_udevMissesEveryChange(t *testing.T) {
	n := newFakeNode(t, agenttest.Options{Network: &agenttest.Network{}, Quiet: 5 * time.Millisecond})
	for _, name := range n.names {
		n.Deafen(name)
	}
	conformance.Run(t, n)
}

func newFakeNode(t *testing.T, opts agenttest.Options) *fakeNode {
	n := &fakeNode{t: t, Agent: agenttest.New(t, opts), names: map[string]string{}}
	for _, disk := range []string{"sdb", "sdc"} {
		path := n.AddDisk(agenttest.Disk{Name: disk})
		n.paths, n.names[path] = append(n.paths, path), disk
	}
	n.conn = n.Dial(t)
	return n
}

// Conn is one connection, until the agent starts anew.
func (n *fakeNode) Conn(*testing.T) grpc.ClientConnInterface { return n.conn }

// Disks are two of them.
func (n *fakeNode) Disks() []string { return n.paths }

// Reset plugs both in and empties them.
func (n *fakeNode) Reset(t *testing.T) {
	n.Crash(0, false)
	for _, name := range n.names {
		n.Clear(name)
		n.Plug(name)
	}
	for _, g := range n.Groups() {
		n.DropGroup(g.Name)
	}
}

// Detach unplugs a disk.
func (n *fakeNode) Detach(_ *testing.T, path string) { n.Unplug(n.names[path]) }

// Attach plugs it in again.
func (n *fakeNode) Attach(_ *testing.T, path string) { n.Plug(n.names[path]) }

// Dirty writes something.
func (n *fakeNode) Dirty(_ *testing.T, path string) { n.Scribble(n.names[path], "somebody's data") }

// OpenDisk lets a program open it.
func (n *fakeNode) OpenDisk(_ *testing.T, path string) func() {
	n.Open(n.names[path], "qemu")
	return func() { n.Open(n.names[path], "") }
}

// ForeignGroup makes a group that is not ours.
func (n *fakeNode) ForeignGroup(_ *testing.T, name, path string) {
	n.AddForeignGroup(name, n.names[path])
}

// SetSystemID writes it into the model.
func (n *fakeNode) SetSystemID(_ *testing.T, group, id string) { n.Agent.SetSystemID(group, id) }

// AddVolume makes a volume on that very disk.
func (n *fakeNode) AddVolume(_ *testing.T, group, name, path string) {
	n.AddVolumeOn(group, name, n.names[path], 4<<20)
}

// RemoveVolume removes it.
func (n *fakeNode) RemoveVolume(_ *testing.T, group, name string) { n.Agent.RemoveVolume(group, name) }

// Crash arms a death.
func (n *fakeNode) Crash(step int, after bool) {
	switch {
	case step == 0:
		n.Disarm()
	case after:
		n.CrashAfter(step)
	default:
		n.CrashBefore(step)
	}
}

// Restart starts the agent again.
func (n *fakeNode) Restart(t *testing.T) {
	n.Agent.Restart(t)
	n.conn = n.Dial(n.t)
}

// Activates is true: the model has devices.
func (n *fakeNode) Activates() bool { return true }

// Autoactivate writes it into the model.
func (n *fakeNode) Autoactivate(_ *testing.T, group string) { n.Agent.Autoactivate(group) }

// ActivateAll does it.
func (n *fakeNode) ActivateAll(*testing.T) { n.Agent.ActivateAll() }

// DamagePool does it.
func (n *fakeNode) DamagePool(_ *testing.T, group string) { n.Agent.DamagePool(group) }

// RuinPool does it.
func (n *fakeNode) RuinPool(_ *testing.T, group string) { n.Agent.RuinPool(group) }

// Deactivate does it.
func (n *fakeNode) Deactivate(_ *testing.T, group string) { n.Agent.Deactivate(group) }

// SuspendVolume suspends it.
func (n *fakeNode) SuspendVolume(_ *testing.T, group, name string) {
	n.Agent.SuspendVolume(group, name)
}

// Suspended looks at the volume.
func (n *fakeNode) Suspended(_ *testing.T, group, name string) bool {
	return slices.ContainsFunc(n.Volumes(group), func(v agenttest.Volume) bool { return v.Name == name && v.Suspended })
}

// WriteVolume writes into it.
func (n *fakeNode) WriteVolume(_ *testing.T, group, name, text string) {
	n.Agent.WriteVolume(group, name, text)
}

// Reads looks into it.
func (n *fakeNode) Reads(_ *testing.T, group, name, text string) bool {
	return slices.Contains(n.ReadVolume(group, name), text)
}

// OpenVolume opens it.
func (n *fakeNode) OpenVolume(_ *testing.T, group, name string) func() {
	n.Agent.OpenVolume(group, name)
	return func() { n.CloseVolume(group, name) }
}
