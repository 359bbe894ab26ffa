package conformance

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// Activating is a node whose volumes can be activated as for a pod, and of which a group can be deactivated as by a reboot.
type Activating interface {
	Node
	Activate(t *testing.T, group, name string) error
}

// TwoGroups runs what a node does with two groups of one name, and is no part of Run: the model knows groups by their names.
func TwoGroups(t *testing.T, node Activating) {
	run(t, node, []behaviour{{"two groups of one name serve what they hold", func(s *suite) { twoGroupsServe(s, node) }}})
}

// twoGroupsServe makes a group on a disk, takes that disk away, makes the group anew on another one, and brings the first disk back. Both groups
// serve what they hold, and nothing else is done until there is one.
func twoGroupsServe(s *suite, node Activating) {
	if !s.Activates() {
		s.Skip("this kernel has no device-mapper, so nothing can be activated; make conformance runs it on one that has")
	}
	first, second := s.Disks()[0], s.Disks()[1]
	s.must("ensure the first", s.ensure(groupName, owner, s.clean(first)))
	_, err := s.create(volumeSpec("v1", 20))
	s.must("create v1", err)
	node.Deactivate(s.T, groupName)
	s.Detach(s.T, first)
	for deadline := time.Now().Add(settleTimeout); s.group() != nil; time.Sleep(settlePause) {
		if time.Now().After(deadline) {
			s.Fatalf("the group is seen without its disk: %v", s.group())
		}
	}
	s.must("ensure the second", s.ensure(groupName, owner, s.clean(second)))
	_, err = s.create(volumeSpec("v2", 20))
	s.must("create v2", err)
	s.Attach(s.T, first)
	for _, path := range []string{first, second} {
		s.settled(path, func(d *agentv1.Device) bool { return d.GetOwnerUid() == owner && d.GetVolumeGroup() == groupName })
	}
	resp, err := s.groups().ListVolumeGroups(s.ctx(), &agentv1.ListVolumeGroupsRequest{})
	s.must("list", err)
	if len(resp.GetGroups()) != 2 || resp.GetGroups()[0].GetUuid() == resp.GetGroups()[1].GetUuid() {
		s.Fatalf("groups: %v", resp.GetGroups())
	}

	s.refusesAnythingNew(first, second)
	for _, name := range []string{"v1", "v2"} {
		s.must("activate "+name, node.Activate(s.T, groupName, name))
		_, err := s.create(volumeSpec(name, 20))
		s.must("create again "+name, err)
		s.OpenVolume(s.T, groupName, name)()
		s.must("delete "+name, s.delete(name))
	}
	resp, err = s.groups().ListVolumeGroups(s.ctx(), &agentv1.ListVolumeGroupsRequest{})
	s.must("list", err)
	for _, g := range resp.GetGroups() {
		if len(g.GetLogicalVolumes()) != 0 {
			s.Errorf("%s is left", g.GetLogicalVolumes())
		}
	}
}

// refusesAnythingNew wants new volumes, growth and changes of the groups to be refused without an effect.
func (s *suite) refusesAnythingNew(first, second string) {
	s.Helper()
	before := s.Steps()
	_, err := s.create(volumeSpec("v3", 4))
	s.refused("create", err, codes.PermissionDenied, before)
	_, err = s.volumes().ResizeLogicalVolume(s.ctx(), &agentv1.ResizeLogicalVolumeRequest{
		Group: groupName, OwnerUid: owner, Name: "v2", Id: "node/v2", SizeBytes: 40 * mib,
	})
	s.refused("resize", err, codes.PermissionDenied, before)
	s.refused("ensure", s.ensure(groupName, owner, identity(s.device(first)), identity(s.device(second))), codes.AlreadyExists, before)
	s.refused("remove", s.remove(groupName, owner), codes.PermissionDenied, before)
}
