package osd_test

import (
	"testing"

	"google.golang.org/grpc"

	"quarry.storage/quarry/agent/agenttest"
	contract "quarry.storage/quarry/agent/agenttest/osd"
	"quarry.storage/quarry/pkg/osd"
)

const tools = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// fakeNode is the model.
type fakeNode struct {
	*agenttest.Agent
	t    *testing.T
	conn *grpc.ClientConn
}

func TestFakeHost(t *testing.T) {
	for name, opts := range map[string]agenttest.Options{"port": {}, "memory": {Network: &agenttest.Network{}}} {
		t.Run(name, func(t *testing.T) {
			n := &fakeNode{t: t, Agent: agenttest.New(t, opts)}
			n.AddDisk(agenttest.Disk{Name: "sdb"})
			n.conn = n.Dial(t)
			contract.Contract(t, n)
		})
	}
}

func TestFakeHost_encrypted(t *testing.T) {
	n := &fakeNode{t: t, Agent: agenttest.New(t, agenttest.Options{Network: &agenttest.Network{}})}
	n.AddDisk(agenttest.Disk{Name: "sdb"})
	n.conn = n.Dial(t)
	contract.Encrypted(t, n)
	n.RemoveEncryption(true)
	t.Run("nothing is done where disks cannot be encrypted", func(t *testing.T) { contract.RefusesUnable(t, n) })
}

// TestFakeHost_withoutSerial: only its place tells the disk from others.
func TestFakeHost_withoutSerial(t *testing.T) {
	n := &fakeNode{t: t, Agent: agenttest.New(t, agenttest.Options{Network: &agenttest.Network{}})}
	n.AddDisk(agenttest.Disk{Name: "sdb", Anonymous: true})
	n.conn = n.Dial(t)
	contract.Contract(t, n)
}

// Conn is one connection, until the agent starts anew.
func (n *fakeNode) Conn(*testing.T) grpc.ClientConnInterface { return n.conn }

// Disk is the only one.
func (n *fakeNode) Disk() string { return n.Path("sdb") }

// Tools is a container.
func (n *fakeNode) Name() string { return "node-1" }

func (n *fakeNode) Tools() string { return tools }

// StopTools stops it.
func (n *fakeNode) StopTools(*testing.T) { n.AddTools("") }

// Reset empties the disk.
func (n *fakeNode) Reset(*testing.T) {
	n.Crash(0, false)
	n.Agent.Open("sdb", "")
	n.Clear("sdb")
	n.AddTools(tools)
}

// Dirty writes something.
func (n *fakeNode) Dirty(*testing.T) { n.Scribble("sdb", "somebody's data") }

// Foreign writes the labels.
func (n *fakeNode) Foreign(_ *testing.T, uuid, fsid string) {
	for _, off := range osd.Places(100 << 30) {
		n.AddOSD("sdb", off, osd.Label{UUID: uuid, FSID: fsid, ID: "3", SizeBytes: 100 << 30, Description: "main", Ready: true, Epoch: 15})
	}
}

// ZeroEnds zeroes.
func (n *fakeNode) ZeroEnds(*testing.T) { n.Agent.ZeroEnds("sdb") }

// ShowPartition shows one.
func (n *fakeNode) ShowPartition(*testing.T) { n.Partition("sdb", "", 1) }

// Open lets a program open the disk.
func (n *fakeNode) Open(*testing.T) func() {
	n.Agent.Open("sdb", "ceph-osd")
	return func() { n.Agent.Open("sdb", "") }
}

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

// CutOff lets the agent die after the first write.
func (n *fakeNode) CutOff(t *testing.T, call func() error) {
	n.Crash(1, true)
	if call() == nil {
		t.Fatal("the agent did not die")
	}
	n.Restart(t)
}
