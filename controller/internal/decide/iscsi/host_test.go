package iscsi

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
	"quarry.storage/quarry/pkg/sharedlun"
)

type hostCase struct {
	scene  *scene
	change func(*scene)
	// want are the actions of n1, reason that of its finding.
	want   []string
	reason string
}

func (c hostCase) run(t *testing.T) {
	t.Helper()
	if c.change != nil {
		c.change(c.scene)
	}
	got := c.scene.decide("n1")
	if c.want == nil {
		c.want = []string{}
	}
	if d := cmp.Diff(c.want, actions(got.Steps)); d != "" || got.Finding.Reason != c.reason {
		t.Errorf("finding %+v, want %q; steps (-want +got):\n%s", got.Finding, c.reason, d)
	}
}

// n1 changes what is known of n1.
func n1(change func(*Host)) func(*scene) { return func(s *scene) { s.host("n1", change) } }

func TestDecide_join(t *testing.T) {
	for name, c := range map[string]hostCase{
		"nothing was done yet":  {fresh("n1"), nil, []string{"Login"}, ""},
		"a blank LUN":           {loggedIn("n1", "n2"), nil, []string{"GrantKey", "RegisterKey"}, ""},
		"the LUN was not read":  {loggedIn("n1"), func(s *scene) { s.o.Reading = Reading{} }, nil, v1alpha1.ReasonPreparing},
		"the key is registered": {keyed("n1"), nil, nil, v1alpha1.ReasonPending},
		"the group is made":     {made("n1", "n2"), nil, nil, ""},
		"the agent is away":     {made("n1"), func(s *scene) { s.silence("n1", true) }, nil, ""},
		"the agent cannot tell": {made("n1"), n1(func(h *Host) { h.Failed = "no answer" }), nil, v1alpha1.ReasonStepFailed},
		"no modules":            {fresh("n1"), n1(func(h *Host) { h.Initiator.Problem = sharedlun.NewProblem(sharedlun.ReasonNoModules, "none") }), nil, sharedlun.ReasonNoModules},
		"one name of two nodes": {fresh("n1", "n2"), n1(func(h *Host) { h.Initiator.Name = "iqn.n2" }), nil, v1alpha1.ReasonInitiatorNameTaken},
		"the name of a silent node": {made("n1", "n2"), func(s *scene) {
			s.member("n2").Spec.Reservation.Initiator = "IQN.n1"
			s.silence("n2", false)
		}, nil, v1alpha1.ReasonInitiatorNameTaken},
		"another name than on record": {made("n1"), func(s *scene) { s.member("n1").Spec.Reservation.Initiator = "iqn.before" }, nil, v1alpha1.ReasonInitiatorRenamed},
		"no Secret":                   {fresh("n1"), func(s *scene) { s.o.Chap = Chap{Problem: "There is none."} }, nil, v1alpha1.ReasonChapSecretInvalid},
		"no Secret, logged in":        {made("n1"), func(s *scene) { s.o.Chap = Chap{Problem: "There is none."} }, nil, ""},
		"another Secret":              {made("n1"), func(s *scene) { s.o.Chap = Chap{Version: "u/2"} }, []string{"Login"}, ""},
		"a session is down":           {made("n1"), n1(func(h *Host) { h.Seen.Sessions[0].State = sharedlun.SessionDown }), nil, sharedlun.ReasonTargetUnreachable},
		"a boot":                      {made("n1"), n1(func(h *Host) { h.BootID = "next" }), []string{"GrantKey", "RegisterKey"}, ""},
		"a boot, still mapped":        {made("n1"), n1(func(h *Host) { h.BootID, h.Mappings = "next", []sharedlun.Mapping{{VolumeUUID: "u"}} }), nil, v1alpha1.ReasonMappedWithoutKey},
		"a boot, mapped unknown":      {made("n1"), n1(func(h *Host) { h.BootID, h.Mapped = "next", false }), nil, v1alpha1.ReasonMappedWithoutKey},
		"fenced":                      {made("n1"), func(s *scene) { s.member("n1").Spec.Reservation.Fenced = true }, nil, v1alpha1.ReasonFenced},
		"fenced, and booted": {made("n1"), func(s *scene) {
			s.member("n1").Spec.Reservation.Fenced = true
			s.host("n1", func(h *Host) { h.BootID = "next" })
		}, []string{"GrantKey", "RegisterKey"}, ""},
		"another machine":                      {made("n1"), n1(func(h *Host) { h.BootID, h.Machine = "next", uuid("other") }), []string{"GrantKey"}, ""},
		"a machine that is not known any more": {made("n1"), n1(func(h *Host) { h.BootID, h.Machine = "next", "" }), []string{"GrantKey"}, ""},
		"a Node that is late":                  {made("n1"), n1(func(h *Host) { h.BootID, h.Machine, h.MachineLate = "next", "", true }), nil, v1alpha1.ReasonPending},
		"a machine that was not on record":     {made("n1"), func(s *scene) { s.member("n1").Spec.Reservation.Machine = "" }, []string{"RecordMachine"}, ""},
		"the key is gone":                      {made("n1"), func(s *scene) { s.o.Reading.Keys.Keys = nil }, []string{"RegisterKey"}, ""},
		"the key is gone, mapped": {made("n1"), func(s *scene) {
			s.o.Reading.Keys.Keys = nil
			s.host("n1", func(h *Host) { h.Mappings = []sharedlun.Mapping{{}} })
		}, nil, v1alpha1.ReasonKeyLost},
		"the controller was started anew": {made("n1"), func(s *scene) {
			s.host("n1", func(h *Host) { h.RegisteredPaths = "" })
			s.member("n1").Spec.Reservation.Paths = "q=sdc," + portal + "=sdb/0"
		}, nil, ""},
		"a path came back":              {made("n1"), n1(func(h *Host) { h.RegisteredPaths = "" }), []string{"RegisterKey"}, ""},
		"reservations are gone":         {made("n1"), func(s *scene) { s.o.Reading.Keys = sharedlun.Reservation{} }, nil, v1alpha1.ReasonReservationsGone},
		"no reservations":               {loggedIn("n1"), func(s *scene) { s.o.Reading.Keys = sharedlun.Reservation{} }, []string{"GrantKey"}, ""},
		"another initiator sees no LUN": {loggedIn("n1", "n2"), func(s *scene) { s.host("n2", func(h *Host) { h.Seen.Luns = nil }) }, nil, v1alpha1.ReasonPending},
		"another initiator is away":     {loggedIn("n1", "n2"), func(s *scene) { s.silence("n2", false) }, nil, v1alpha1.ReasonPending},
		"another one is away for maintenance": {loggedIn("n1", "n2"), func(s *scene) {
			s.silence("n2", false)
			s.member("n2").Spec.Maintenance = true
		}, []string{"GrantKey", "RegisterKey"}, ""},
		"another one is away, and the LUN is on record": {keyed("n1", "n2"), func(s *scene) {
			s.silence("n2", false)
			s.member("n1").Spec.Reservation = nil
			s.o.Reading.Keys.Keys = []uint64{11}
		}, []string{"GrantKey", "RegisterKey"}, ""},
		"data on the LUN":       {loggedIn("n1"), func(s *scene) { s.o.Reading.Contents.Content = "ext4" }, nil, v1alpha1.ReasonLunNotEmpty},
		"keys of somebody else": {loggedIn("n1"), func(s *scene) { s.o.Reading.Keys.Keys = []uint64{77} }, nil, v1alpha1.ReasonForeignKeys},
		"data, and consent": {loggedIn("n1"), func(s *scene) {
			s.o.Reading.Contents.Content, s.o.Iscsi.Spec.Wipe = "ext4", disk.WWID
		}, []string{"GrantKey", "RegisterKey"}, ""},
		"keys of somebody else, and consent": {loggedIn("n1"), func(s *scene) {
			s.o.Reading.Contents.Content, s.o.Iscsi.Spec.Wipe, s.o.Reading.Keys.Keys = "ext4", disk.WWID, []uint64{77}
		}, nil, v1alpha1.ReasonForeignKeys},
		"in use on another node": {loggedIn("n1", "n2"), func(s *scene) { s.use("mount /srv of sdb") }, nil, v1alpha1.ReasonLunInUse},
		"in use, and consent":    {loggedIn("n1", "n2"), func(s *scene) { s.use("mount /srv of sdb"); s.o.Iscsi.Spec.Wipe = disk.WWID }, nil, v1alpha1.ReasonLunInUse},
		"in use perhaps": {loggedIn("n1", "n2"), func(s *scene) {
			s.host("n2", func(h *Host) { h.Seen.Luns[0].UsersError = "no" })
		}, nil, v1alpha1.ReasonLunInUse},
		"the group is in use, of course": {made("n1", "n2"), func(s *scene) { s.use("device dm-3") }, nil, ""},
	} {
		t.Run(name, c.run)
	}
}

// use lets somebody use the LUN on n2.
func (s *scene) use(by string) {
	s.host("n2", func(h *Host) { h.Seen.Luns[0].Users = []string{by} })
}

func TestDecide_lun(t *testing.T) {
	lun := func(change func(*sharedlun.Lun)) func(*scene) {
		return n1(func(h *Host) { change(&h.Seen.Luns[0]) })
	}
	second := func(h *Host) {
		l := h.Seen.Luns[0]
		l.WWID, l.Serial = "naa.9", "s9"
		h.Seen.Luns = append([]sharedlun.Lun{l}, h.Seen.Luns...)
	}
	for name, c := range map[string]hostCase{
		"none":                       {loggedIn("n1"), n1(func(h *Host) { h.Seen.Luns = nil }), nil, v1alpha1.ReasonNoLun},
		"none, one is on record":     {made("n1"), n1(func(h *Host) { h.Seen.Luns = nil }), nil, v1alpha1.ReasonNoLun},
		"two":                        {loggedIn("n1"), n1(second), nil, v1alpha1.ReasonSeveralLuns},
		"two, one is on record":      {made("n1"), n1(second), nil, ""},
		"another one":                {made("n1"), lun(func(l *sharedlun.Lun) { l.WWID = "naa.9" }), nil, v1alpha1.ReasonOtherLun},
		"it shrank":                  {made("n1"), lun(func(l *sharedlun.Lun) { l.SizeBytes-- }), nil, v1alpha1.ReasonOtherLun},
		"it grew":                    {made("n1"), lun(func(l *sharedlun.Lun) { l.SizeBytes++ }), nil, ""},
		"read-only":                  {loggedIn("n1"), lun(func(l *sharedlun.Lun) { l.ReadOnly = true }), nil, v1alpha1.ReasonLunUnusable},
		"no serial number":           {loggedIn("n1"), lun(func(l *sharedlun.Lun) { l.Serial = "" }), nil, v1alpha1.ReasonLunUnusable},
		"no map joins its paths":     {loggedIn("n1"), lun(func(l *sharedlun.Lun) { l.Device = "" }), nil, sharedlun.ReasonMultipathMissing},
		"the first sees another one": {loggedIn("n0", "n1"), lun(func(l *sharedlun.Lun) { l.WWID = "naa.9" }), nil, v1alpha1.ReasonOtherLun},
		"another one by now":         {made("n1"), n1(func(h *Host) { h.OtherLun = "path sdb" }), nil, v1alpha1.ReasonOtherLun},
		"the last sees another one": {loggedIn("n1", "n2"), func(s *scene) {
			s.host("n2", func(h *Host) { h.Seen.Luns[0].WWID = "naa.9" })
		}, nil, v1alpha1.ReasonOtherLun},
	} {
		t.Run(name, c.run)
	}
}

func TestDecide_paths(t *testing.T) {
	half := func(s *scene) {
		s.o.Iscsi.Spec.Targets = append(s.o.Iscsi.Spec.Targets, "10.0.0.2")
		s.host("n1", func(h *Host) { h.Seen.Sessions = append(h.Seen.Sessions, sharedlun.Session{Portal: "10.0.0.2:3260"}) })
	}
	for name, c := range map[string]hostCase{
		"one is missing":             {made("n1"), half, []string{"Login"}, ""},
		"one is missing, just tried": {made("n1"), func(s *scene) { half(s); s.host("n1", func(h *Host) { h.LoginAt = now }) }, nil, ""},
		"multipathd is wanted": {made("n1"), func(s *scene) {
			s.o.Iscsi.Spec.Multipath = true
			s.host("n1", func(h *Host) { h.Initiator.Multipath = false })
		}, nil, sharedlun.ReasonMultipathMissing},
		"two portals without multipathd": {made("n1"), func(s *scene) { half(s); s.host("n1", func(h *Host) { h.Initiator.Multipath = false }) }, nil, sharedlun.ReasonMultipathMissing},
	} {
		t.Run(name, c.run)
	}
	mapped := n1(func(h *Host) { h.Mappings = []sharedlun.Mapping{{VolumeUUID: "u1"}} })
	for name, c := range map[string]hostCase{
		"one is missing, mapped": {made("n1"), func(s *scene) { half(s); mapped(s) }, nil, ""},
		"another Secret, mapped": {made("n1"), func(s *scene) { mapped(s); s.o.Chap = Chap{Version: "u/2"} }, nil, ""},
		"one is missing, and it zeroes": {made("n1"), func(s *scene) {
			half(s)
			s.host("n1", func(h *Host) {
				h.Mappings = []sharedlun.Mapping{{VolumeUUID: "u1", Part: sharedlun.PartNew, InUse: true}}
			})
		}, nil, ""},
		"one is missing, mapped, no keys":     {made("n1"), func(s *scene) { half(s); mapped(s); unreserved(s) }, []string{"Login"}, ""},
		"one is missing, mapped is not known": {made("n1"), func(s *scene) { half(s); s.host("n1", func(h *Host) { h.Mapped = false }) }, nil, ""},
		"all are missing, mapped on a dead map": {made("n1"), func(s *scene) {
			mapped(s)
			s.host("n1", func(h *Host) { h.Seen.Sessions[0].State = sharedlun.SessionNone })
		}, []string{"Login"}, ""},
	} {
		t.Run(name, c.run)
	}
	for name, change := range map[string]func(*scene){"with keys": func(*scene) {}, "without": unreserved} {
		s := made("n1")
		mapped(s)
		change(s)
		s.o.Chap = Chap{Version: "u/2"}
		if got := s.decide("n1"); slices.Contains(actions(got.Steps), v1alpha1.ActionLogin) || !strings.Contains(got.Finding.Message, "other credentials") || !strings.Contains(got.Finding.Message, "drain the node") {
			t.Errorf("%s: the only session is in use, and keeps the credentials that it was made with. Nobody says so: %v, %+v", name, actions(got.Steps), got.Finding)
		}
	}
	s := made("n1")
	half(s)
	mapped(s)
	if got := s.decide("n1"); got.Finding.Kind != 0 || !strings.Contains(got.Finding.Message, "drain the node") {
		t.Errorf("nobody says why the path is missing: %+v", got.Finding)
	}
	s = made("n1")
	half(s)
	if got := s.decide("n1"); got.Finding.Kind != 0 || got.Finding.Message == "" {
		t.Errorf("a node that serves over one path is not well: %+v", got.Finding)
	}
}

func TestDecide_volumes(t *testing.T) {
	v := sharedlun.Volume{Name: "v1", UUID: "u1", SizeBytes: 10, ReadyBytes: 10, HeldBy: "n1"}
	with := func(change func(*sharedlun.Volume, *Host)) func(*scene) {
		return func(s *scene) {
			volume := v
			s.host("n1", func(h *Host) { change(&volume, h) })
			s.volume(volume)
		}
	}
	for name, c := range map[string]hostCase{
		"not mapped": {made("n1"), with(func(*sharedlun.Volume, *Host) {}), []string{"MapVolumes"}, ""},
		"mapped":     {made("n1"), with(func(_ *sharedlun.Volume, h *Host) { h.Mappings = []sharedlun.Mapping{{VolumeUUID: "u1"}} }), nil, ""},
		"what grew is zeroed, and it is not mapped": {made("n1"), with(func(_ *sharedlun.Volume, h *Host) {
			h.Mappings = []sharedlun.Mapping{{VolumeUUID: "u1", Part: sharedlun.PartNew, InUse: true}}
		}), []string{"MapVolumes"}, ""},
		"leaving":           {made("n1"), with(func(v *sharedlun.Volume, _ *Host) { v.Leaving = true }), nil, ""},
		"of another node":   {made("n1", "n2"), with(func(v *sharedlun.Volume, _ *Host) { v.HeldBy = "n2" }), nil, ""},
		"nothing is ready":  {made("n1"), with(func(v *sharedlun.Volume, _ *Host) { v.ReadyBytes = 0 }), nil, ""},
		"mapped is unknown": {made("n1"), with(func(_ *sharedlun.Volume, h *Host) { h.Mapped = false }), nil, ""},
		"a key of nobody": {made("n1"), func(s *scene) {
			s.volume(v)
			s.o.Reading.Keys.Keys = append(s.o.Reading.Keys.Keys, 99)
		}, nil, ""},
		"without a key": {made("n1"), with(func(_ *sharedlun.Volume, h *Host) { h.BootID = "next" }), []string{"GrantKey", "RegisterKey"}, ""},
	} {
		t.Run(name, c.run)
	}
}

// TestDecide_reports: how many volumes a node has is known as long as the group is, also while the node is silent. No space is the node's own.
func TestDecide_reports(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*scene)
		reports bool
		volumes int
	}{
		"it answers":               {func(*scene) {}, true, 1},
		"it is silent":             {func(s *scene) { s.silence("n1", false) }, true, 1},
		"the group is not known":   {func(s *scene) { s.o.Reading.Known = false }, false, 0},
		"the group is another one": {func(s *scene) { s.o.Reading.Contents.Group.UUID = "other" }, false, 0},
	} {
		s := made("n1", "n2")
		s.volume(sharedlun.Volume{Name: "v", UUID: "u", ReadyBytes: 1, HeldBy: "n1"})
		c.change(s)
		if got := s.decide("n1"); got.Reports != c.reports || got.Volumes != c.volumes || got.Size != 0 {
			t.Errorf("%s: reports %t, %d volumes, %d bytes", name, got.Reports, got.Volumes, got.Size)
		}
	}
}

// TestDecide_leaveWithKeyBack: a key of a fenced node that is on the LUN again is taken off before its record goes.
func TestDecide_leaveWithKeyBack(t *testing.T) {
	for name, back := range map[string]bool{"the key is gone": false, "the key came back": true} {
		t.Run(name, func(t *testing.T) {
			s := made("n1", "n2")
			s.o.Iscsi.Spec.Initiators = []v1alpha1.HostName{"n2"}
			s.remove("n1")
			r := s.member("n1").Spec.Reservation
			r.Fenced = true
			if !back {
				s.o.Reading.Keys.Keys = slices.DeleteFunc(s.o.Reading.Keys.Keys, func(k uint64) bool { return sharedlun.FormatKey(k) == r.Key })
			}
			for _, one := range s.decide("n1").Steps {
				if step, ok := one.(Step); ok && step.Does == v1alpha1.ActionUnregisterKey && step.RecordOnly != back {
					return
				}
			}
			t.Errorf("steps %+v", s.decide("n1").Steps)
		})
	}
}

func TestDecide_leave(t *testing.T) {
	leaves := func(change func(*scene)) func(*scene) {
		return func(s *scene) {
			s.o.Iscsi.Spec.Initiators = []v1alpha1.HostName{"n2"}
			s.remove("n1")
			if change != nil {
				change(s)
			}
		}
	}
	all := []string{"UnregisterKey", "Logout"}
	for name, c := range map[string]hostCase{
		"nothing is held":          {made("n1", "n2"), leaves(nil), all, ""},
		"a volume is held":         {made("n1", "n2"), leaves(func(s *scene) { s.volume(sharedlun.Volume{Name: "v", HeldBy: "n1"}) }), nil, ""},
		"a volume is mapped":       {made("n1", "n2"), leaves(n1(func(h *Host) { h.Mappings = []sharedlun.Mapping{{}} })), nil, ""},
		"the LUN cannot be read":   {made("n1", "n2"), leaves(func(s *scene) { s.o.Reading.Known = false }), nil, ""},
		"not logged in":            {made("n1", "n2"), leaves(n1(func(h *Host) { h.Seen.Sessions[0].State, h.Seen.Luns = 0, nil })), []string{"Login", "UnregisterKey", "Logout"}, ""},
		"nobody else may write":    {made("n1", "n2"), leaves(func(s *scene) { s.silence("n2", false) }), nil, v1alpha1.ReasonPending},
		"a change may still run":   {made("n1", "n2"), leaves(func(s *scene) { s.o.Record.Pending = []string{"n1"} }), nil, v1alpha1.ReasonPending},
		"it is changing the group": {made("n1", "n2"), leaves(func(s *scene) { s.o.Record.Taken = "csi/1" }), nil, v1alpha1.ReasonPending},
		"fenced, and waited for": {made("n1", "n2"), leaves(func(s *scene) {
			s.member("n1").Spec.Reservation.Fenced, s.o.Record.Pending = true, []string{"n1"}
		}), nil, v1alpha1.ReasonPending},
		"the group is removed, and the record is old": {made("n1"), func(s *scene) { removedGroup(s); s.o.Record.Pending = []string{"n1"} }, all, ""},
		"fenced":                 {made("n1", "n2"), leaves(func(s *scene) { s.member("n1").Spec.Reservation.Fenced = true }), all, ""},
		"the whole goes":         {made("n1", "n2"), (*scene).delete, nil, ""},
		"the whole goes, no key": {made("n1"), func(s *scene) { s.delete(); s.host("n1", func(h *Host) { h.BootID = "next" }) }, []string{"GrantKey", "RegisterKey"}, ""},
		"the group is removed":   {made("n1"), removedGroup, all, ""},
		"a person lets it go": {made("n1"), func(s *scene) {
			s.delete()
			s.o.Iscsi.Annotations = map[string]string{v1alpha1.AnnotationRemove: owner}
		}, all, ""},
		"a person lets it go, and it was booted": {made("n1", "n2"), func(s *scene) {
			released(s)
			s.host("n1", func(h *Host) { h.BootID, h.Seen.Sessions[0].State, h.Seen.Luns = "next", sharedlun.SessionNone, nil })
		}, []string{"Login", "UnregisterKey", "Logout"}, ""},
		"a person lets it go, it was booted alone": {made("n1"), func(s *scene) {
			released(s)
			s.host("n1", func(h *Host) { h.BootID, h.Seen.Sessions[0].State, h.Seen.Luns = "next", sharedlun.SessionNone, nil })
		}, []string{"UnregisterKey"}, ""},
		"a person lets it go, a volume is held": {made("n1"), func(s *scene) {
			released(s)
			s.volume(sharedlun.Volume{Name: "v", UUID: "u", HeldBy: "n1"})
		}, all, ""},
		"a person lets it go, a volume is mapped": {made("n1"), func(s *scene) {
			released(s)
			s.host("n1", func(h *Host) { h.Mappings = []sharedlun.Mapping{{}} })
		}, nil, ""},
		"a person lets it go, the LUN is not read": {made("n1"), func(s *scene) {
			released(s)
			s.o.Reading.Known = false
		}, []string{"UnregisterKey", "Logout"}, ""},
		"a person lets it go, a silent node has a key": {made("n1", "n2"), func(s *scene) { released(s); s.silence("n2", false) }, nil, v1alpha1.ReasonPending},
		"a person lets it go, a lost node has a key": {made("n1", "n2"), func(s *scene) {
			released(s)
			s.silence("n2", false)
			s.member("n2").UID, s.member("n2").Spec.Lost = "m2", "m2"
		}, all, ""},
		"the group is removed, a silent node has a key":     {made("n1", "n2"), func(s *scene) { removedGroup(s); s.silence("n2", false) }, nil, v1alpha1.ReasonPending},
		"the group is removed, another one takes its key":   {made("n0", "n1", "n2"), func(s *scene) { removedGroup(s); s.silence("n2", false) }, all, ""},
		"the group is removed, a silent node has none":      {made("n1", "n2"), func(s *scene) { removedGroup(s); s.silence("n2", false); s.o.Reading.Keys.Keys = []uint64{10} }, all, ""},
		"the group is removed, a node that answers has one": {made("n1", "n2"), removedGroup, all, ""},
		"a person names another":                            {made("n1"), func(s *scene) { s.delete(); s.o.Iscsi.Annotations = map[string]string{v1alpha1.AnnotationRemove: "x"} }, nil, ""},
		"nothing was ever made":                             {loggedIn("n1"), (*scene).delete, []string{"Logout"}, ""},
		"a logout was cut off after it ended the session": {fresh("n1"), func(s *scene) {
			s.host("n1", func(h *Host) { h.Seen.Recorded = true })
			s.member("n1").Annotations = map[string]string{v1alpha1.AnnotationChap: ""}
			s.delete()
		}, []string{"Logout"}, ""},
		"somebody else made the records of the target": {fresh("n1"), func(s *scene) {
			s.host("n1", func(h *Host) { h.Seen.Recorded = true })
			s.delete()
		}, nil, ""},
		"no node ever logged in":  {fresh("n1"), (*scene).delete, nil, ""},
		"the making was cut off":  {keyed("n1"), func(s *scene) { s.delete(); s.member("n1").Spec.Group = &v1alpha1.MemberGroup{Name: "vg"} }, all, ""},
		"keys were granted alone": {keyed("n1"), (*scene).delete, all, ""},
	} {
		t.Run(name, c.run)
	}
}

// released has a person give the LUN up as it is.
func released(s *scene) {
	s.delete()
	s.o.Iscsi.Annotations = map[string]string{v1alpha1.AnnotationRemove: owner}
}

// TestDecide_restores: where every plan is approved, nobody is asked again for what a node had before it was booted.
func TestDecide_restores(t *testing.T) {
	v := sharedlun.Volume{Name: "v1", UUID: "u1", SizeBytes: 10, ReadyBytes: 10, HeldBy: "n1"}
	for name, c := range map[string]struct {
		scene  *scene
		change func(*scene)
		// free are the steps that nobody is asked for, bound the others.
		free, bound []string
	}{
		"the first login":         {fresh("n1"), nil, nil, []string{"Login"}},
		"the first key":           {loggedIn("n1"), nil, nil, []string{"GrantKey", "RegisterKey"}},
		"a login after a boot":    {made("n1"), n1(func(h *Host) { h.Seen.Sessions[0].State, h.Seen.Luns = 0, nil }), []string{"Login"}, nil},
		"a key after a boot":      {made("n1"), n1(func(h *Host) { h.BootID = "next" }), []string{"GrantKey", "RegisterKey"}, nil},
		"volumes after a boot":    {made("n1"), func(s *scene) { s.volume(v) }, []string{"MapVolumes"}, nil},
		"other credentials":       {made("n1"), func(s *scene) { s.o.Chap = Chap{Version: "u/2"} }, nil, []string{"Login"}},
		"a key after one without": {without("n1"), nil, nil, []string{"GrantKey"}},
		"it leaves":               {made("n1"), removedGroup, nil, []string{"UnregisterKey", "Logout"}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.change != nil {
				c.change(c.scene)
			}
			var free, bound []string
			for _, s := range c.scene.decide("n1").Steps {
				if backend.Restores(s) {
					free = append(free, s.Action())
				} else {
					bound = append(bound, s.Action())
				}
			}
			if d := cmp.Diff([][]string{c.free, c.bound}, [][]string{free, bound}); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestDecide_attaching: a volume is on the LUN before its device is on the node. A member that serves does not stop to be ready meanwhile.
func TestDecide_attaching(t *testing.T) {
	s := made("n1")
	s.volume(sharedlun.Volume{Name: "v1", UUID: "u1", SizeBytes: 3 << 30, ReadyBytes: 1 << 30, HeldBy: "n1"})
	got := s.decide("n1")
	if got.Finding.Kind != backend.Well || !strings.Contains(got.Finding.Message, "gets the devices") || len(got.Steps) != 1 {
		t.Errorf("%+v", got.Finding)
	}
	if len(got.Zeroing) != 1 || got.Zeroing[0] != "v1: 1Gi of 3Gi" {
		t.Errorf("%q", got.Zeroing)
	}
}

func removedGroup(s *scene) {
	s.delete()
	s.o.Reading.Contents.Group = nil
	s.o.Iscsi.Annotations = map[string]string{v1alpha1.AnnotationGroupRemoved: groupUUID}
}

func TestDecide_refusals(t *testing.T) {
	for name, c := range map[string]hostCase{
		"an older Iscsi":                {fresh("n1"), func(s *scene) { s.o.World.Others = []v1alpha1.Storage{twin(-2)} }, nil, v1alpha1.ReasonSameTarget},
		"a younger one":                 {fresh("n1"), func(s *scene) { s.o.World.Others = []v1alpha1.Storage{twin(0)} }, []string{"Login"}, ""},
		"an older one that was changed": {made("n1"), func(s *scene) { s.o.World.Others = []v1alpha1.Storage{twin(-2)} }, nil, ""},
		"another target":                {made("n1"), func(s *scene) { s.o.Iscsi.Spec.IQN = "iqn.2026-01.lab.quarry:other" }, nil, v1alpha1.ReasonTargetChanged},
		"two LUNs on record":            {made("n1", "n2"), func(s *scene) { s.member("n2").Spec.Lun.WWID = "naa.9" }, nil, v1alpha1.ReasonRecordConflict},
		"two groups on record":          {made("n1", "n2"), func(s *scene) { s.member("n2").Spec.Group.UUID = "other" }, nil, v1alpha1.ReasonRecordConflict},
	} {
		t.Run(name, c.run)
	}
}

func TestFacts(t *testing.T) {
	held := func(s *scene) { s.volume(sharedlun.Volume{Name: "v", HeldBy: "n1"}) }
	for name, c := range map[string]struct {
		scene  *scene
		change func(*scene)
		want   nodestate.Data
	}{
		"nothing is held":                    {made("n1"), nil, nodestate.DataAbsent},
		"a volume is held":                   {made("n1"), held, nodestate.DataPresent},
		"a volume is held, agent away":       {made("n1", "n2"), func(s *scene) { held(s); s.silence("n1", false) }, nodestate.DataPresent},
		"nothing is held, agent away":        {made("n1", "n2"), func(s *scene) { s.silence("n1", false) }, nodestate.DataAbsent},
		"a device is there":                  {made("n1"), n1(func(h *Host) { h.Mappings = []sharedlun.Mapping{{}} }), nodestate.DataPresent},
		"the devices are not known":          {made("n1"), n1(func(h *Host) { h.Mapped = false }), nodestate.DataUnknown},
		"the LUN cannot be read":             {made("n1"), func(s *scene) { s.o.Reading = Reading{Problem: "no"} }, nodestate.DataUnknown},
		"another group is there":             {made("n1"), func(s *scene) { s.o.Reading.Contents.Group.UUID = "x" }, nodestate.DataUnknown},
		"the group is gone":                  {made("n1"), func(s *scene) { s.o.Reading.Contents.Group = nil }, nodestate.DataUnknown},
		"the group goes with the Iscsi":      {made("n1"), (*scene).delete, nodestate.DataPresent},
		"the group is removed":               {made("n1"), removedGroup, nodestate.DataAbsent},
		"the group is removed, asked nobody": {made("n1"), func(s *scene) { removedGroup(s); s.host("n1", func(h *Host) { h.Failed = "no" }) }, nodestate.DataUnknown},
		"a blank LUN":                        {loggedIn("n1"), nil, nodestate.DataAbsent},
		"never logged in":                    {fresh("n1"), nil, nodestate.DataAbsent},
	} {
		t.Run(name, func(t *testing.T) {
			if c.change != nil {
				c.change(c.scene)
			}
			if got := c.scene.view().Facts("n1"); got.Data != c.want {
				t.Errorf("%+v, want data %d", got, c.want)
			}
		})
	}
}

// TestDecide_devices: the LUN is missing where the node says so. What its status has of a node that tells nothing stays as it is, and nobody takes it for seen.
func TestDecide_devices(t *testing.T) {
	state := func(s *scene) v1alpha1.DeviceState {
		t.Helper()
		got := s.decide("n1")
		if watched := s.view().Facts("n1").Up && s.o.Hosts["n1"].Asked(); got.Watched != watched {
			t.Errorf("watched %t", got.Watched)
		}
		if len(got.Devices) != 1 {
			t.Fatalf("%+v", got.Devices)
		}
		return got.Devices[0].State
	}
	s := made("n1", "n2")
	s.member("n1").Status.Devices = s.decide("n1").Devices
	if got := state(s); got != v1alpha1.DevicePresent {
		t.Errorf("it is there: %s", got)
	}
	s.silence("n1", false)
	if got := state(s); got != v1alpha1.DevicePresent {
		t.Errorf("it was there, and the node is silent: %s", got)
	}
	s.o.Hosts["n1"] = Host{Agent: decide.AgentUp, At: now, Failed: "timeout"}
	if got := state(s); got != v1alpha1.DevicePresent {
		t.Errorf("it was there, and the agent returns an error: %s", got)
	}
	s = made("n1", "n2")
	s.host("n1", func(h *Host) { h.Seen.Luns = nil })
	if got := state(s); got != v1alpha1.DeviceMissing {
		t.Errorf("the node does not see it: %s", got)
	}
}

func TestFacts_missing(t *testing.T) {
	s := made("n1", "n2")
	s.o.Hosts["n1"] = Host{Agent: decide.AgentMissing}
	if f := s.view().Facts("n1"); f.Missing {
		t.Error("a node with a key on the LUN is forgotten")
	}
	s.o.Reading.Keys.Keys = []uint64{11}
	if f := s.view().Facts("n1"); !f.Missing || f.Reason != v1alpha1.ReasonAgentMissing {
		t.Errorf("%+v", f)
	}
	s.o.Record.Pending = []string{"n1"}
	if f := s.view().Facts("n1"); f.Missing {
		t.Error("a node that may still have a change is forgotten")
	}
	s.o.Record.Pending = nil
	s.volume(sharedlun.Volume{Name: "v", HeldBy: "n1"})
	if f := s.view().Facts("n1"); f.Missing {
		t.Error("a node that holds a volume is forgotten")
	}
	if f := s.view().Facts("n9"); !f.TooEarly {
		t.Errorf("%+v", f)
	}
	removedGroup(s)
	s.o.Reading.Contents.Group = &sharedlun.Group{}
	s.o.Reading.Keys.Keys = []uint64{10, 11}
	if f := s.view().Facts("n1"); f.Missing {
		t.Error("a node is forgotten whose key another one can take off the LUN")
	}
	s.o.Reading.Known = false
	if f := s.view().Facts("n1"); !f.Missing {
		t.Error("a node is waited for whose key nobody can take off the LUN")
	}
}

// TestFacts_fenced: a status says that a silent node is fenced.
func TestFacts_fenced(t *testing.T) {
	s := made("n1", "n2")
	s.silence("n1", true)
	s.member("n1").Spec.Reservation.Fenced = true
	if f := s.view().Facts("n1"); f.Reason != v1alpha1.ReasonFenced || !strings.Contains(f.Problem, "is fenced") || !strings.Contains(f.Problem, "it does not answer") {
		t.Errorf("%+v", f)
	}
}

// TestDecide_cut: a device that returns errors is made anew once nobody has it open; one that holds I/O back goes on at once.
func TestDecide_cut(t *testing.T) {
	for name, c := range map[string]struct {
		device sharedlun.Mapping
		want   []string
		says   string
	}{
		"it serves":                      {sharedlun.Mapping{InUse: true}, nil, ""},
		"it returns errors":              {sharedlun.Mapping{Cut: true}, []string{"MapVolumes"}, "gets the devices"},
		"it returns errors, and is open": {sharedlun.Mapping{Cut: true, InUse: true}, nil, "end the pods"},
		"it holds I/O back":              {sharedlun.Mapping{Suspended: true, InUse: true}, []string{"MapVolumes"}, "gets the devices"},
	} {
		t.Run(name, func(t *testing.T) {
			s := made("n1")
			s.volume(sharedlun.Volume{Name: "v", UUID: "u", HeldBy: "n1", SizeBytes: 8, ReadyBytes: 8})
			c.device.VolumeUUID = "u"
			s.host("n1", func(h *Host) { h.Mappings = []sharedlun.Mapping{c.device} })
			out := s.decide("n1")
			s.host("n1", func(h *Host) {
				h.Mappings = append(h.Mappings, sharedlun.Mapping{VolumeUUID: "u", Part: sharedlun.PartNew, Cut: true, InUse: true})
			})
			if again := s.decide("n1"); again.Finding != out.Finding {
				t.Errorf("what is zeroed is taken for what pods use: %+v", again.Finding)
			}
			if got := actions(out.Steps); !slices.Equal(got, c.want) || !strings.Contains(out.Finding.Message, c.says) || c.says == "" && !out.Finding.IsZero() {
				t.Errorf("%v, %+v", got, out.Finding)
			}
		})
	}
}
