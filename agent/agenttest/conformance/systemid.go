package conformance

import (
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"quarry.storage/quarry/pkg/refusal"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

const (
	accessNone  = agentv1.VolumeGroupAccess_VOLUME_GROUP_ACCESS_NONE
	accessOwn   = agentv1.VolumeGroupAccess_VOLUME_GROUP_ACCESS_OWN
	accessOther = agentv1.VolumeGroupAccess_VOLUME_GROUP_ACCESS_OTHER
	// elsewhere is the system ID of another node, and of one more.
	elsewhere  = "quarry-elsewhere"
	elsewhere2 = "quarry-elsewhere-2"
)

func (s *suite) stamp(uid, uuid string) error {
	_, err := s.groups().StampVolumeGroup(s.ctx(), &agentv1.StampVolumeGroupRequest{Name: groupName, OwnerUid: uid, Uuid: uuid})
	return err
}

func (s *suite) importFrom(from, uuid string) error {
	_, err := s.groups().ImportVolumeGroup(s.ctx(), &agentv1.ImportVolumeGroupRequest{
		Name: groupName, OwnerUid: owner, Uuid: uuid, FromSystemId: from,
	})
	return err
}

// accessIs wants the group to be seen like that.
func (s *suite) accessIs(want agentv1.VolumeGroupAccess, id string) {
	s.Helper()
	if g := s.group(); g.GetAccess() != want || id != "" && g.GetSystemId() != id || (g.GetSystemId() == "") != (want == accessNone) {
		s.Errorf("group: %v, want access %s", g, want)
	}
}

func groupNamesNode(s *suite) {
	a := s.clean(s.Disks()[0])
	s.must("ensure", s.ensure(groupName, owner, a))
	s.accessIs(accessOwn, "")
	before := s.Steps()
	s.must("stamp", s.stamp(owner, s.group().GetUuid()))
	s.refused("stamp another group of the name", s.stamp(owner, "another"), codes.NotFound, before)
	s.refused("stamp another owner's group", s.stamp(stranger, s.group().GetUuid()), codes.PermissionDenied, before)
}

// stampsGroup: a group of an earlier agent serves as it is, and goes on while it is stamped.
func stampsGroup(s *suite) {
	a, b := s.clean(s.Disks()[0]), s.clean(s.Disks()[1])
	s.must("ensure", s.ensure(groupName, owner, a))
	s.SetSystemID(s.T, groupName, "")
	s.accessIs(accessNone, "")
	s.must("extend", s.ensure(groupName, owner, a, b))
	s.must("reduce", s.reduce(owner, b))
	closeIt := func() {}
	if s.Activates() {
		_, err := s.create(volumeSpec("v1", 20))
		s.must("create", err)
		closeIt = s.OpenVolume(s.T, groupName, "v1")
	}
	before := s.Steps()
	s.must("stamp", s.stamp(owner, s.group().GetUuid()))
	s.must("stamp again", s.stamp(owner, s.group().GetUuid()))
	if n := s.Steps() - before; n != 1 {
		s.Errorf("%d changes, not 1", n)
	}
	s.accessIs(accessOwn, "")
	if s.Activates() {
		if v := s.listed("v1"); !v.GetActive() || !v.GetOpen() {
			s.Errorf("the volume in use became %v", v)
		}
		closeIt()
		s.must("delete", s.delete("v1"))
	}
	s.must("remove", s.remove(groupName, owner, a))
	s.clean(a.GetPath())
}

// importsGroup: LVM shows a group of another node and changes nothing in it. Neither does the agent, until it is told whose it was.
func importsGroup(s *suite) {
	a, b := s.clean(s.Disks()[0]), s.clean(s.Disks()[1])
	s.must("ensure", s.ensure(groupName, owner, a))
	uuid := s.group().GetUuid()
	s.AddVolume(s.T, groupName, "precious", a.GetPath())
	s.SetSystemID(s.T, groupName, elsewhere)
	s.accessIs(accessOther, elsewhere)
	d := s.device(a.GetPath())
	if !refusedFor(d, refusal.OtherNode) || !refusedFor(d, refusal.Owned) || d.GetWipeable() {
		s.Errorf("device: %v", d)
	}
	before := s.Steps()
	for what, call := range map[string]struct {
		err  error
		code codes.Code
	}{
		"extend":                                 {s.ensure(groupName, owner, a, b), codes.AlreadyExists},
		"ensure":                                 {s.ensure(groupName, owner, b), codes.AlreadyExists},
		"take the disk":                          {s.ensure(otherName, owner, a), codes.FailedPrecondition},
		"reduce":                                 {s.reduce(owner, a), codes.PermissionDenied},
		"remove":                                 {s.remove(groupName, owner, a), codes.PermissionDenied},
		"wipe":                                   {s.wipe(identity(d)), codes.FailedPrecondition},
		"stamp":                                  {s.stamp(owner, uuid), codes.FailedPrecondition},
		"delete its volume":                      {s.delete("precious"), codes.PermissionDenied},
		"import from nobody":                     {s.importFrom("", uuid), codes.InvalidArgument},
		"import from a node that is not the one": {s.importFrom(elsewhere2, uuid), codes.FailedPrecondition},
		"import another group":                   {s.importFrom(elsewhere, "another"), codes.NotFound},
	} {
		s.refused(what, call.err, call.code, before)
		if named := what == "ensure" || what == "remove" || what == "take the disk"; named && !strings.Contains(call.err.Error(), "node elsewhere") {
			s.Errorf("%s does not name the node: %v", what, call.err)
		}
	}
	s.must("import", s.importFrom(elsewhere, uuid))
	s.must("import again", s.importFrom(elsewhere, uuid))
	s.accessIs(accessOwn, "")
	if g := s.group(); len(g.GetLogicalVolumes()) != 1 || g.GetUuid() != uuid {
		s.Errorf("group: %v", g)
	}
	s.RemoveVolume(s.T, groupName, "precious")
	s.must("remove", s.remove(groupName, owner, a))
	s.clean(a.GetPath())
}

// takeOver makes the group of one owner the suite's.
func (s *suite) takeOver(from, uuid, systemID string) error {
	_, err := s.groups().ImportVolumeGroup(s.ctx(), &agentv1.ImportVolumeGroupRequest{
		Name: groupName, OwnerUid: owner, Uuid: uuid, FromSystemId: systemID, FromOwnerUid: from,
	})
	return err
}

// takesGroupOver: the owner of a group is gone. Another one gets exactly that group, with what is in it, and changes it from then on.
func takesGroupOver(s *suite) {
	a, b := s.clean(s.Disks()[0]), s.clean(s.Disks()[1])
	s.must("ensure", s.ensure(groupName, stranger, a))
	uuid, here := s.group().GetUuid(), s.group().GetSystemId()
	s.AddVolume(s.T, groupName, "precious", a.GetPath())
	before := s.Steps()
	for what, call := range map[string]struct {
		err  error
		code codes.Code
	}{
		"extend":                          {s.ensure(groupName, owner, a, b), codes.AlreadyExists},
		"import without a former owner":   {s.importFrom(here, uuid), codes.PermissionDenied},
		"from another owner":              {s.takeOver("7a1c6d1e-0000-4000-8000-000000000003", uuid, here), codes.PermissionDenied},
		"another group":                   {s.takeOver(stranger, "another", here), codes.NotFound},
		"a group of another node":         {s.takeOver(stranger, uuid, elsewhere), codes.FailedPrecondition},
		"from itself":                     {s.takeOver(owner, uuid, here), codes.InvalidArgument},
		"from what is no UID of an owner": {s.takeOver("a b", uuid, here), codes.InvalidArgument},
	} {
		s.refused(what, call.err, call.code, before)
	}
	s.must("take over", s.takeOver(stranger, uuid, here))
	s.must("take over again", s.takeOver(stranger, uuid, here))
	if n := s.Steps() - before; n != 1 {
		s.Errorf("%d changes, not 1", n)
	}
	if g := s.group(); len(g.GetLogicalVolumes()) != 1 || g.GetUuid() != uuid || g.GetOwnerUid() != owner {
		s.Errorf("group: %v", g)
	}
	s.must("extend", s.ensure(groupName, owner, a, b))
	s.RemoveVolume(s.T, groupName, "precious")
	s.must("remove", s.remove(groupName, owner, a, b))
	s.clean(a.GetPath())
}

func claimSurvives(s *suite) {
	path, uuid := s.Disks()[0], ""
	begin := func(id string) {
		s.must("ensure", s.ensure(groupName, owner, s.clean(path)))
		uuid = s.group().GetUuid()
		s.SetSystemID(s.T, groupName, id)
	}
	s.survives(func() func() error {
		begin("")
		return func() error { return s.stamp(owner, uuid) }
	}, func() { s.accessIs(accessOwn, "") })
	s.survives(func() func() error {
		begin(elsewhere)
		return func() error { return s.importFrom(elsewhere, uuid) }
	}, func() { s.accessIs(accessOwn, "") })
	s.survives(func() func() error {
		s.must("ensure", s.ensure(groupName, stranger, s.clean(path)))
		uuid = s.group().GetUuid()
		here := s.group().GetSystemId()
		return func() error { return s.takeOver(stranger, uuid, here) }
	}, func() {
		if g := s.group(); g.GetOwnerUid() != owner || g.GetUuid() != uuid {
			s.Errorf("group: %v", g)
		}
	})
}

// hostActivatesNothing: at a boot, and whenever it sees a device, a host activates what is in groups. The agent does that itself, and it keeps the
// host from it, also in groups that older agents made.
func hostActivatesNothing(s *suite) {
	s.stage()
	_, err := s.create(volumeSpec("v1", 20))
	s.must("create", err)
	boot := func() bool {
		s.Deactivate(s.T, groupName)
		s.ActivateAll(s.T)
		return s.listed("v1").GetActive()
	}
	if boot() {
		s.Error("the host activated the volume of a new group")
	}
	before := s.Steps()
	s.Autoactivate(s.T, groupName)
	s.Restart(s.T)
	for deadline := time.Now().Add(settleTimeout); boot(); time.Sleep(settlePause) {
		if time.Now().After(deadline) {
			s.Fatal("the host activates the volume of an older group")
		}
	}
	if n := s.Steps() - before; n != 1 {
		s.Errorf("%d changes, not 1", n)
	}
	if node, ok := s.Node.(Activating); ok {
		s.must("activate", node.Activate(s.T, groupName, "v1"))
		if !s.listed("v1").GetActive() {
			s.Error("the agent does not activate the volume")
		}
	}
	s.must("delete", s.delete("v1"))
}
