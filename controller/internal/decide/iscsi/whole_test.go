package iscsi

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// twin is another Iscsi of the same target, made some hours from now.
func twin(hours int) *v1alpha1.Iscsi {
	i := &v1alpha1.Iscsi{ObjectMeta: metav1.ObjectMeta{Name: "twin", UID: "twin", CreationTimestamp: metav1.NewTime(now.Add(time.Duration(hours) * time.Hour))}}
	i.Spec.IQN = iqn
	return i
}

// elsewhere is a Member of another Iscsi that has the same LUN on record, through another target.
func elsewhere() *v1alpha1.Member {
	m := &v1alpha1.Member{}
	m.Spec.Of, m.Spec.Node = v1alpha1.MemberOwner{Kind: v1alpha1.KindIscsi, Name: "other", UID: "other"}, "n7"
	m.Spec.Lun = &v1alpha1.MemberLun{WWID: disk.WWID, Serial: disk.Serial, Size: disk.SizeBytes, IQN: "iqn.2026-01.lab.quarry:other"}
	return m
}

func pv(s *scene) {
	s.o.World.Volumes[""] = []backend.Volume{{Name: "pv", Handle: groupUUID + "/v1"}}
}

// missing is the PersistentVolume of a volume that is not on the LUN.
func missing(s *scene) {
	s.o.World.Volumes = map[string][]backend.Volume{"": {{Name: "pvc-1", Claim: "shop/db", Handle: groupUUID + "/db", Expected: true}}}
}

// strange is a PersistentVolume that somebody made by hand, of another group.
func strange(s *scene) {
	s.o.World.Volumes[""] = append(s.o.World.Volumes[""], backend.Volume{Name: "by-hand", Handle: "Zz3dEf-1234-5678-9abc-DEFG-hijk-LMNOPQ/v1"})
}

func TestWhole_steps(t *testing.T) {
	leaving := func(node string) func(*scene) {
		return func(s *scene) {
			v := sharedlun.Volume{Name: "v", UUID: "u", HeldBy: node, Leaving: true}
			s.volume(v)
			s.last = s.view()
			s.o.Now = now.Add(time.Minute)
		}
	}
	both := func(all ...func(*scene)) func(*scene) {
		return func(s *scene) {
			for _, f := range all {
				f(s)
			}
		}
	}
	silent := func(s *scene) { s.silence("n2", false) }
	tainted := func(s *scene) { s.silence("n2", true) }
	holds := func(s *scene) { s.volume(sharedlun.Volume{Name: "v", UUID: "u", HeldBy: "n2"}) }
	fenced := func(s *scene) {
		s.member("n2").Spec.Reservation.Fenced = true
		s.o.Reading.Keys.Keys = []uint64{10}
	}
	back := func(s *scene) { s.o.Reading.Keys.Keys = []uint64{10, 11} }
	asked := func(s *scene) { s.member("n2").Spec.Reservation.Registering = "1" }
	reader := func(node string) func(*scene) {
		return func(s *scene) {
			s.volume(sharedlun.Volume{Name: "v", UUID: "u", Readers: []sharedlun.Boot{{Node: node, ID: "boot-" + node}}})
		}
	}
	earlier := func(s *scene) {
		s.member("n2").Spec.Reservation.Previous = []string{"0000000000000063"}
		s.o.Reading.Keys.Keys = append(s.o.Reading.Keys.Keys, 99)
	}
	of := func(machine string) func(*scene) {
		return func(s *scene) {
			s.member("n2").Spec.Reservation.Machines = map[string]string{"0000000000000063": uuid(machine)}
		}
	}
	machine := func(is string) func(*scene) {
		return func(s *scene) { s.host("n2", func(h *Host) { h.Machine = uuid(is) }) }
	}
	tells := func(node, machine string) func(*scene) { return func(s *scene) { s.o.Machines[node] = uuid(machine) } }
	before := func(node, machine string) func(*scene) {
		return func(s *scene) {
			s.member(node).Spec.Reservation.Machines = map[string]string{"0000000000000062": uuid(machine)}
		}
	}
	otherStorage := func(node, machine string) func(*scene) {
		return func(s *scene) {
			m := &v1alpha1.Member{}
			m.Spec.Node, m.Spec.Reservation = v1alpha1.HostName(node), &v1alpha1.MemberReservation{Machine: uuid(machine)}
			s.o.World.OtherMembers = append(s.o.World.OtherMembers, m)
		}
	}
	unset := func(node string) func(*scene) {
		const none = "03000200-0400-0500-0006-000700080009"
		return func(s *scene) {
			s.member(node).Spec.Reservation.Machine, s.o.Machines[node] = none, none
			s.host(node, func(h *Host) { h.Machine = none })
		}
	}
	booted := func(s *scene) { s.host("n2", func(h *Host) { h.BootID = "next" }) }
	granted := func(s *scene) {
		s.member("n2").Spec.Reservation = &v1alpha1.MemberReservation{Key: "000000000000000f", BootID: "next", Previous: []string{"000000000000000b"}}
	}
	late := func(s *scene) {
		s.last = s.view()
		s.o.Now = now.Add(bootFor)
	}
	unknown := func(s *scene) {
		s.member("n2").Spec.Reservation = nil
		s.o.Reading.Keys.Keys = []uint64{10}
	}
	ready := func(s *scene) { s.volume(sharedlun.Volume{Name: "v", UUID: "u", HeldBy: "n2", ReadyBytes: 1}) }
	attached := func(handle string) func(*scene) {
		return func(s *scene) { s.o.World.Attached = map[string][]backend.Volume{"n2": {{Name: "pv", Handle: handle}}} }
	}
	content := func(s *scene) { s.o.Reading.Contents.Content, s.o.Reading.Contents.Digest = "ext4", "v1:x" }
	for name, c := range map[string]struct {
		scene  *scene
		change func(*scene)
		want   []string
		// destroys is true when the first step needs a person.
		destroys bool
	}{
		"all may write":                    {keyed("n1", "n2"), nil, []string{"CreateSharedGroup"}, false},
		"one may not":                      {keyed("n1", "n2"), func(s *scene) { s.o.Reading.Keys.Keys = []uint64{10} }, nil, false},
		"one is away":                      {keyed("n1", "n2"), silent, nil, false},
		"volumes of the class exist":       {keyed("n1"), pv, nil, false},
		"something is on the LUN":          {keyed("n1"), content, nil, false},
		"something that a person gives up": {keyed("n1"), both(content, func(s *scene) { s.o.Iscsi.Spec.Wipe = disk.WWID }), []string{"CreateSharedGroup"}, true},
		"given up, and used on a node":     {keyed("n1", "n2"), both(content, func(s *scene) { s.o.Iscsi.Spec.Wipe = disk.WWID; s.use("process dd") }), nil, false},
		"another Iscsi has the LUN": {keyed("n1"), func(s *scene) {
			s.o.World.OtherMembers = []*v1alpha1.Member{elsewhere()}
			s.member("n1").Spec.Lun = nil
		}, nil, false},
		"an Iscsi that is gone had it":    {keyed("n1"), func(s *scene) { s.o.World.OtherMembers = []*v1alpha1.Member{elsewhere()} }, []string{"CreateSharedGroup"}, false},
		"the consent is for another LUN":  {keyed("n1"), both(content, func(s *scene) { s.o.Iscsi.Spec.Wipe = "naa.9" }), nil, false},
		"it cannot be read":               {keyed("n1"), both(content, func(s *scene) { s.o.Iscsi.Spec.Wipe, s.o.Reading.Contents.Digest = disk.WWID, "" }), nil, false},
		"the group is there":              {made("n1"), nil, nil, false},
		"the group on record is gone":     {made("n1"), func(s *scene) { s.o.Reading.Contents.Group = nil }, nil, false},
		"the younger Iscsi":               {keyed("n1"), func(s *scene) { s.o.World.Others = []v1alpha1.Storage{twin(-9)}; s.member("n1").Spec.Lun = nil }, nil, false},
		"a silent node holds a volume":    {made("n1", "n2"), both(holds, silent), nil, false},
		"a person says that it is off":    {made("n1", "n2"), both(holds, tainted), []string{"FenceNode"}, false},
		"nothing waits for it":            {made("n1", "n2"), tainted, nil, false},
		"a change may still run there":    {made("n1", "n2"), both(tainted, func(s *scene) { s.o.Record.Pending = []string{"n2"} }), []string{"FenceNode"}, false},
		"the writer had the turn":         {made("n1", "n2"), both(tainted, func(s *scene) { s.o.Record.Writer, s.o.Record.Taken = "n2", "csi/1" }), []string{"FenceNode"}, false},
		"it is fenced already":            {made("n1", "n2"), both(holds, tainted, fenced), nil, false},
		"it answers all the same":         {made("n1", "n2"), both(holds, func(s *scene) { s.host("n2", func(h *Host) { h.OutOfService = true }) }), nil, false},
		"Kubernetes knows no such node":   {made("n1", "n2"), both(holds, silent, func(s *scene) { s.o.World.Nodes["n2"] = backend.Node{Name: "n2"} }), []string{"FenceNode"}, true},
		"the target has no reservations":  {made("n1", "n2"), both(holds, tainted, unreserved), []string{"FenceNode"}, true},
		"nobody could fence it":           {made("n1", "n2"), both(holds, tainted, func(s *scene) { s.o.Reading.Keys.Keys = nil }), nil, false},
		"a volume leaves, unmapped":       {made("n1", "n2"), leaving("n2"), []string{"ReleaseVolumes"}, false},
		"a volume leaves, since just now": {made("n1", "n2"), both(leaving("n2"), func(s *scene) { s.last = nil }), nil, false},
		"a volume leaves, mapped":         {made("n1", "n2"), both(leaving("n2"), func(s *scene) { s.host("n2", func(h *Host) { h.Mappings = []sharedlun.Mapping{{VolumeUUID: "u"}} }) }), nil, false},
		"a volume leaves, being zeroed": {made("n1", "n2"), both(leaving("n2"), func(s *scene) {
			s.host("n2", func(h *Host) {
				h.Mappings = []sharedlun.Mapping{{VolumeUUID: "u", Part: sharedlun.PartNew, InUse: true}}
			})
		}), nil, false},
		"a volume leaves, mapped unknown":        {made("n1", "n2"), both(leaving("n2"), func(s *scene) { s.host("n2", func(h *Host) { h.Mapped = false }) }), nil, false},
		"a volume leaves a silent node":          {made("n1", "n2"), both(leaving("n2"), silent), nil, false},
		"a volume leaves a fenced node":          {made("n1", "n2"), both(leaving("n2"), silent, fenced), []string{"ReleaseVolumes"}, false},
		"deleted":                                {made("n1"), (*scene).delete, []string{"RemoveSharedGroup"}, false},
		"deleted, a volume is on the LUN":        {made("n1"), both((*scene).delete, func(s *scene) { s.volume(sharedlun.Volume{Name: "v"}) }), nil, false},
		"deleted, a PersistentVolume":            {made("n1"), both((*scene).delete, pv), nil, false},
		"deleted, the LUN is not read":           {made("n1"), both((*scene).delete, func(s *scene) { s.o.Reading = Reading{} }), nil, false},
		"deleted, another group":                 {made("n1"), both((*scene).delete, func(s *scene) { s.o.Reading.Contents.Group.UUID = "x" }), nil, false},
		"deleted, and removed":                   {made("n1"), removedGroup, nil, false},
		"deleted, removed, and a node is silent": {made("n1", "n2"), both(removedGroup, silent), []string{"FenceNode"}, false},
		"deleted, removed, and its key is gone":  {made("n1", "n2"), both(removedGroup, silent, fenced), nil, false},
		"given up, and a node is silent":         {made("n1", "n2"), both(released, silent), nil, false},
		"given up, and a node is off":            {made("n1", "n2"), both(released, tainted), []string{"FenceNode"}, false},
		"given up, and a node is gone":           {made("n1", "n2"), both(released, silent, func(s *scene) { s.o.World.Nodes["n2"] = backend.Node{Name: "n2"} }), []string{"FenceNode"}, true},
		"deleted while it was being made":        {keyed("n1"), both((*scene).delete, content, func(s *scene) { s.member("n1").Spec.Group = &v1alpha1.MemberGroup{Name: "vg"} }), []string{"CreateSharedGroup"}, false},
		"deleted before anything was begun":      {keyed("n1"), (*scene).delete, nil, false},
		"its key came back":                      {made("n1", "n2"), both(fenced, back), []string{"FenceNode"}, false},
		"it was asked, and did not answer":       {made("n1", "n2"), both(holds, tainted, asked), []string{"FenceNode"}, true},
		"it was asked, and is fenced":            {made("n1", "n2"), both(holds, tainted, asked, fenced), []string{"FenceNode"}, true},
		"it was asked, fenced, and answers":      {made("n1", "n2"), both(holds, asked, fenced), nil, false},
		"a key of nobody":                        {made("n1", "n2"), func(s *scene) { s.o.Reading.Keys.Keys = append(s.o.Reading.Keys.Keys, 99) }, []string{"PreemptKeys"}, true},
		"a key of an earlier boot":               {made("n1", "n2"), earlier, nil, false},
		"a key of before, and a volume":          {made("n1", "n2"), both(holds, earlier), []string{"PreemptKeys"}, true},
		"a reader that is away":                  {made("n1", "n2"), both(reader("n2"), tainted, fenced), []string{"ForgetReaders"}, true},
		"a reader that is silent":                {made("n1", "n2"), both(reader("n2"), silent, fenced), nil, false},
		"a reader that answers":                  {made("n1", "n2"), reader("n2"), nil, false},
		"a reader that is no member":             {made("n1", "n2"), reader("n9"), []string{"ForgetReaders"}, true},
		"a volume leaves, and a key of before":   {made("n1", "n2"), both(leaving("n2"), earlier), []string{"PreemptKeys"}, true},
		"a volume leaves, a key of nobody":       {made("n1", "n2"), both(leaving("n2"), silent, fenced, func(s *scene) { s.o.Reading.Keys.Keys = []uint64{10, 99} }), []string{"PreemptKeys"}, true},
		// A turn knows the Members alone, and would refuse it.
		"a volume leaves, a key just granted":  {made("n1", "n2"), both(leaving("n2"), silent, fenced, func(s *scene) { s.o.Reading.Keys.Keys, s.o.Granted = []uint64{10, 99}, []uint64{99} }), nil, false},
		"unmapped, with a key of nobody":       {made("n1", "n2"), both(leaving("n2"), func(s *scene) { s.o.Reading.Keys.Keys = []uint64{10, 11, 99} }), []string{"PreemptKeys"}, true},
		"a volume leaves another boot":         {made("n1", "n2"), both(leaving("n2"), booted), nil, false},
		"a volume, and no key after a boot":    {made("n1", "n2"), both(holds, booted, late), []string{"PreemptKeys"}, false},
		"no key, and the machine is not known": {made("n1", "n2"), both(holds, booted, machine(""), late), []string{"PreemptKeys"}, true},
		"no key, and it is another machine":    {made("n1", "n2"), both(holds, booted, machine("m"), late), []string{"PreemptKeys"}, true},
		"no key, and it is not alone with it":  {made("n1", "n2"), both(holds, booted, func(s *scene) { s.member("n1").Spec.Reservation.Machine = uuid("machine-n2") }, late), []string{"PreemptKeys"}, true},
		"no key, and another node had it":      {made("n1", "n2"), both(holds, booted, before("n1", "machine-n2"), late), []string{"PreemptKeys"}, true},
		"no key, and it is no initiator's too": {made("n1", "n2"), both(holds, booted, tells("n9", "machine-n2"), late), []string{"PreemptKeys"}, true},
		"no key, and one of another storage":   {made("n1", "n2"), both(holds, booted, otherStorage("n9", "machine-n2"), late), []string{"PreemptKeys"}, true},
		"no key, and no Node was read":         {made("n1", "n2"), both(holds, booted, func(s *scene) { s.o.Machines = nil }, late), []string{"PreemptKeys"}, true},
		"no key, and a UUID of many machines":  {made("n1", "n2"), both(holds, booted, unset("n2"), late), []string{"PreemptKeys"}, true},
		"a key of before, of its machine":      {made("n1", "n2"), both(holds, earlier, of("machine-n2")), []string{"PreemptKeys"}, false},
		"a key of before, of another machine":  {made("n1", "n2"), both(holds, earlier, of("m")), []string{"PreemptKeys"}, true},
		"keys of before, of its and of nobody": {made("n1", "n2"), both(holds, earlier, of("machine-n2"), func(s *scene) {
			r := s.member("n2").Spec.Reservation
			r.Previous, s.o.Reading.Keys.Keys = append(r.Previous, "0000000000000062"), append(s.o.Reading.Keys.Keys, 98)
		}), []string{"PreemptKeys", "PreemptKeys"}, false},
		"of its machine, and it is silent":     {made("n1", "n2"), both(holds, earlier, of("machine-n2"), silent), nil, false},
		"of its machine, and no node works":    {made("n1", "n2"), both(holds, earlier, of("machine-n2"), func(s *scene) { s.silence("n1", false); s.o.Reading.Keys.Type = 0 }), nil, false},
		"no volume, and no key after a boot":   {made("n1", "n2"), both(booted, late), nil, false},
		"a key is granted, and not registered": {made("n1", "n2"), both(holds, booted, granted, late), []string{"PreemptKeys"}, true},
		"booted, and the key of before is off": {made("n1", "n2"), both(holds, booted, func(s *scene) { s.o.Reading.Keys.Keys = []uint64{10} }, late), nil, false},
		"booted, and silent by now":            {made("n1", "n2"), both(holds, booted, late, silent), nil, false},
		"no key on record, and off":            {made("n1", "n2"), both(holds, unknown, tainted), []string{"FenceNode"}, true},
		"no key on record, and gone":           {made("n1", "n2"), both(holds, unknown, silent, func(s *scene) { s.o.World.Nodes["n2"] = backend.Node{Name: "n2"} }), []string{"FenceNode"}, true},
		"no key on record, and silent":         {made("n1", "n2"), both(holds, unknown, silent), nil, false},
		"no key on record, and no volume":      {made("n1", "n2"), both(unknown, tainted), nil, false},
		"no key on record, and a change":       {made("n1", "n2"), both(unknown, tainted, func(s *scene) { s.o.Record.Pending = []string{"n2"} }), []string{"FenceNode"}, true},
		"no key on record, and it answers":     {made("n1", "n2"), both(holds, unknown), nil, false},
		"fenced, and no attachment":            {made("n1", "n2"), both(ready, tainted, fenced, late), []string{"ReleaseVolumes"}, false},
		"fenced, and no attachment just now":   {made("n1", "n2"), both(ready, tainted, fenced), nil, false},
		"fenced, and attached":                 {made("n1", "n2"), both(ready, tainted, fenced, attached(groupUUID+"/v"), late), nil, false},
		"fenced, and attached of nobody knows": {made("n1", "n2"), both(ready, tainted, fenced, attached(""), late), nil, false},
		"fenced, and another one is attached":  {made("n1", "n2"), both(ready, tainted, fenced, attached(groupUUID+"/w"), late), []string{"ReleaseVolumes"}, false},
		"no attachment, and a key of nobody":   {made("n1", "n2"), both(ready, tainted, fenced, func(s *scene) { s.o.Reading.Keys.Keys = []uint64{10, 99} }, late), []string{"PreemptKeys"}, true},
		"no attachment, and not fenced":        {made("n1", "n2"), both(ready, silent, late), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if c.change != nil {
				c.change(c.scene)
			}
			w := c.scene.whole()
			if c.want == nil {
				c.want = []string{}
			}
			if d := cmp.Diff(c.want, actions(w.Steps)); d != "" {
				t.Fatalf("steps (-want +got):\n%s", d)
			}
			if len(w.Steps) > 0 && (w.Steps[0].Destroys() != c.destroys || w.Steps[0].Via() == "" || w.Steps[0].Host() != "") {
				t.Errorf("%+v", w.Steps[0])
			}
		})
	}
}

// TestWhole_via: steps run on the node that the LUN was read through: a writer that has lost it runs none.
func TestWhole_via(t *testing.T) {
	for name, c := range map[string]struct {
		via    string
		change func(s *scene)
		want   string
	}{
		"the writer":                         {"n2", nil, "n2"},
		"the writer could not read":          {"n3", nil, "n3"},
		"nobody read":                        {"", nil, "n2"},
		"who read may not change the group":  {"n3", func(s *scene) { s.member("n3").Spec.Reservation.Fenced = true }, "n2"},
		"nor may the writer, that went away": {"n3", func(s *scene) { s.silence("n2", false); s.silence("n3", false) }, "n1"},
	} {
		s := made("n1", "n2", "n3")
		s.o.Record.Writer, s.o.Reading.Via = "n2", c.via
		s.o.Reading.Keys.Keys = append(s.o.Reading.Keys.Keys, 99)
		if c.change != nil {
			c.change(s)
		}
		if w := s.whole(); len(w.Steps) == 0 || w.Steps[0].Via() != c.want {
			t.Errorf("%s: %+v, want a step on %s", name, w.Steps, c.want)
		}
	}
}

func unreserved(s *scene) {
	s.o.Reading.Keys = sharedlun.Reservation{}
	for _, m := range s.o.World.Members {
		m.Spec.Reservation.Unfenced = true
	}
}

func TestWhole_conditions(t *testing.T) {
	down := func(s *scene) {
		for n := range s.o.Hosts {
			s.host(n, func(h *Host) {
				h.Seen.Sessions[0].State, h.Seen.Sessions[0].Message = sharedlun.SessionDown, "its connection failed."
			})
		}
		s.o.Reading.Known, s.o.Reading.Problem = false, "no path."
	}
	for name, c := range map[string]struct {
		scene  *scene
		change func(*scene)
		of     string
		status metav1.ConditionStatus
		reason string
		says   string
	}{
		"unique":               {made("n1"), nil, v1alpha1.ConditionTargetUnique, "True", v1alpha1.ReasonTargetUnique, ""},
		"not unique":           {fresh("n1"), func(s *scene) { s.o.World.Others = []v1alpha1.Storage{twin(-9)} }, v1alpha1.ConditionTargetUnique, "False", v1alpha1.ReasonSameTarget, "twin"},
		"the LUN is another's": {loggedIn("n1"), func(s *scene) { s.o.World.OtherMembers = []*v1alpha1.Member{elsewhere()} }, v1alpha1.ConditionTargetUnique, "False", v1alpha1.ReasonSameTarget, "Iscsi other"},
		"used on a node":       {loggedIn("n1", "n2"), func(s *scene) { s.use("process dd") }, v1alpha1.ConditionLunReady, "False", v1alpha1.ReasonLunInUse, "n2 by process dd"},
		"reached":              {made("n1"), nil, v1alpha1.ConditionTargetReachable, "True", v1alpha1.ReasonTargetReachable, "n1"},
		"not tried yet":        {fresh("n1"), nil, v1alpha1.ConditionTargetReachable, "Unknown", v1alpha1.ReasonPending, ""},
		"the target is down":   {made("n1", "n2"), down, v1alpha1.ConditionTargetReachable, "False", sharedlun.ReasonTargetUnreachable, "connection failed"},
		"the group is read":    {made("n1"), nil, v1alpha1.ConditionLunReady, "True", v1alpha1.ReasonLunReady, groupUUID},
		"the LUN grew": {made("n1"), func(s *scene) {
			s.host("n1", func(h *Host) { h.Seen.Luns[0].SizeBytes += 1 << 30 })
		}, v1alpha1.ConditionLunReady, "True", v1alpha1.ReasonLunGrown, "make another Iscsi"},
		"the group is not read":   {made("n1"), down, v1alpha1.ConditionLunReady, "False", v1alpha1.ReasonGroupUnreadable, "no path"},
		"the group is gone":       {made("n1"), func(s *scene) { s.o.Reading.Contents.Group = nil }, v1alpha1.ConditionLunReady, "False", v1alpha1.ReasonVolumeGroupLost, "not on the LUN"},
		"another group is there":  {made("n1"), func(s *scene) { s.o.Reading.Contents.Group.UUID = "x" }, v1alpha1.ConditionLunReady, "False", v1alpha1.ReasonVolumeGroupLost, "x is on the LUN"},
		"something is on it":      {loggedIn("n1"), func(s *scene) { s.o.Reading.Contents.Content = "It carries ext4." }, v1alpha1.ConditionLunReady, "False", v1alpha1.ReasonLunNotEmpty, "ext4"},
		"an initiator is missing": {keyed("n1", "n2"), func(s *scene) { s.silence("n2", false) }, v1alpha1.ConditionLunReady, "Unknown", v1alpha1.ReasonPending, "Missing: n2 (it does not answer)."},
		"the group is being made": {keyed("n1"), nil, v1alpha1.ConditionLunReady, "Unknown", v1alpha1.ReasonPending, "is being made"},
		"initiators see different LUNs": {loggedIn("n1", "n2"), func(s *scene) {
			s.host("n2", func(h *Host) { h.Seen.Luns[0].WWID = "naa.9" })
		}, v1alpha1.ConditionLunReady, "False", v1alpha1.ReasonOtherLun, "LUN naa.6001 with serial number s1 is seen by n1; LUN naa.9 with serial number s1 is seen by n2"},
		"another LUN by now on one node": {made("n1", "n2"), func(s *scene) {
			s.host("n2", func(h *Host) { h.OtherLun = "path sdb through 10.0.0.1:3260: another LUN" })
		}, v1alpha1.ConditionLunReady, "False", v1alpha1.ReasonOtherLun, "Node n2: path sdb through 10.0.0.1:3260: another LUN: devices of volumes that stand on it return errors"},
		"two LUNs": {loggedIn("n1"), func(s *scene) {
			s.host("n1", func(h *Host) { h.Seen.Luns = append(h.Seen.Luns, h.Seen.Luns[0]) })
			s.o.Reading = Reading{}
		}, v1alpha1.ConditionLunReady, "False", v1alpha1.ReasonSeveralLuns, "exactly one"},
		"a volume of another group": {made("n1"), strange, v1alpha1.ConditionVolumesOfGroup, "False", v1alpha1.ReasonOtherGroup, "by-hand"},
		"a volume is missing":       {made("n1"), missing, v1alpha1.ConditionVolumesPresent, "False", v1alpha1.ReasonVolumesMissing, "(claim shop/db)"},
		"one that was just made": {made("n1"), func(s *scene) {
			missing(s)
			s.o.World.Volumes[""][0].Expected = false
		}, v1alpha1.ConditionVolumesPresent, "True", v1alpha1.ReasonVolumesPresent, ""},
		"it is there": {made("n1"), func(s *scene) { missing(s); s.volume(sharedlun.Volume{Name: "db", UUID: "u"}) }, v1alpha1.ConditionVolumesPresent, "True", v1alpha1.ReasonVolumesPresent, "Every"},
		"the LUN is not read, and one was missing": {made("n1"), func(s *scene) {
			missing(s)
			s.o.Reading.Known = false
			s.o.Iscsi.Status.Conditions = []metav1.Condition{no(v1alpha1.ConditionVolumesPresent, v1alpha1.ReasonVolumesMissing, "before")}
		}, v1alpha1.ConditionVolumesPresent, "False", v1alpha1.ReasonVolumesMissing, "before"},
		"it stops nothing": {made("n1"), strange, v1alpha1.ConditionLunReady, "True", v1alpha1.ReasonLunReady, groupUUID},
		"nobody has the group on record": {
			made("n1"), func(s *scene) { pv(s); strange(s); s.member("n1").Spec.Group = nil }, v1alpha1.ConditionLunReady, "False",
			v1alpha1.ReasonRecordConflict, "no Member has a volume group",
		},
		"no agent answers": {
			made("n1"), func(s *scene) { s.silence("n1", false) }, v1alpha1.ConditionTargetReachable, "False", v1alpha1.ReasonAgentUnreachable, "n1: it does not answer",
		},
		"no agent runs": {
			made("n1"), func(s *scene) { s.o.Hosts["n1"] = Host{Agent: decide.AgentMissing} }, v1alpha1.ConditionTargetReachable, "False", v1alpha1.ReasonAgentMissing, "no agent runs",
		},
		"every path": {made("n1"), nil, v1alpha1.ConditionPathsHealthy, "True", v1alpha1.ReasonPathsHealthy, ""},
		"a path is down": {made("n1", "n2"), func(s *scene) {
			s.host("n2", func(h *Host) { h.Seen.Luns[0].Paths = []sharedlun.Path{{Portal: portal, Device: "sdb"}} })
		}, v1alpha1.ConditionPathsHealthy, "False", v1alpha1.ReasonPathDown, "n2: path sdb"},
		"a path through another target": {made("n1", "n2"), func(s *scene) {
			s.host("n2", func(h *Host) {
				own := h.Seen.Luns[0].Paths[0]
				own.Target = iqn
				h.Seen.Luns[0].Paths = []sharedlun.Path{own, {Target: "iqn.other", Portal: "10.9.9.9:3260", Device: "sdq", Up: true}}
			})
		}, v1alpha1.ConditionPathsHealthy, "False", v1alpha1.ReasonOtherTarget, "n2: path sdq through portal 10.9.9.9:3260 leads to the LUN through target iqn.other"},
		"a session that nobody serves": {made("n1", "n2"), func(s *scene) {
			s.host("n2", func(h *Host) { h.Seen.Sessions[0].Unserved, h.Initiator.OfHost = true, true })
		}, v1alpha1.ConditionPathsHealthy, "False", v1alpha1.ReasonSessionNotServed, "n2: iscsid does not serve the session with portal " + portal + ", so that it is not connected again"},
		"a session that our iscsid does not serve": {made("n1"), func(s *scene) {
			s.host("n1", func(h *Host) { h.Seen.Sessions[0].Unserved = true })
		}, v1alpha1.ConditionPathsHealthy, "False", v1alpha1.ReasonSessionNotServed, "end the pod of the agent there"},
		"a path of an agent that tells no target": {made("n1"), nil, v1alpha1.ConditionPathsHealthy, "True", v1alpha1.ReasonPathsHealthy, ""},
		"a session is down":                       {made("n1", "n2"), down, v1alpha1.ConditionPathsHealthy, "False", v1alpha1.ReasonPathDown, "n2: portal " + portal},
		"fencing":                                 {made("n1"), nil, v1alpha1.ConditionFencingPossible, "True", v1alpha1.ReasonFencingPossible, ""},
		"no fencing":                              {made("n1"), unreserved, v1alpha1.ConditionFencingPossible, "False", v1alpha1.ReasonNoReservations, "vouches"},
		"no fencing any more":                     {made("n1"), func(s *scene) { s.o.Reading.Keys = sharedlun.Reservation{} }, v1alpha1.ConditionFencingPossible, "False", v1alpha1.ReasonReservationsGone, ""},
		"a key of somebody else":                  {made("n1"), func(s *scene) { s.o.Reading.Keys.Keys = []uint64{10, 99} }, v1alpha1.ConditionFencingPossible, "False", v1alpha1.ReasonForeignKeys, "1 keys"},
		"a key granted just now":                  {made("n1"), func(s *scene) { s.o.Reading.Keys.Keys = []uint64{10, 99}; s.o.Granted = []uint64{99} }, v1alpha1.ConditionFencingPossible, "True", v1alpha1.ReasonFencingPossible, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if c.change != nil {
				c.change(c.scene)
			}
			w := c.scene.whole()
			got := meta.FindStatusCondition(append(w.Facts, w.Warnings...), c.of)
			if got == nil || got.Status != c.status || got.Reason != c.reason || !strings.Contains(got.Message, c.says) {
				t.Errorf("%+v, want %s %s that says %q", got, c.status, c.reason, c.says)
			}
		})
	}
}

// TestWhole_afterAStart: what an earlier controller wrote stands until the agents had time to connect.
func TestWhole_afterAStart(t *testing.T) {
	s := made("n1")
	s.o.World.Started, s.o.Reading = now, Reading{Problem: "nobody answers."}
	s.o.Iscsi.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionLunReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonLunReady, Message: "before"}}
	for want, since := range map[string]time.Duration{"before": time.Second, "The volume group cannot be read: nobody answers.": time.Minute} {
		s.o.Now = now.Add(since)
		if c := meta.FindStatusCondition(s.whole().Facts, v1alpha1.ConditionLunReady); c.Message != want {
			t.Errorf("after %s: %+v", since, c)
		}
	}
}

func TestWhole_deletion(t *testing.T) {
	s := made("n1")
	s.delete()
	pv(s)
	s.volume(sharedlun.Volume{Name: "v1"})
	s.volume(sharedlun.Volume{Name: "v2"})
	w := s.whole()
	if len(w.Holding) != 2 || !strings.Contains(w.Holding[0], "volume v2 on the LUN") || !strings.Contains(w.Holding[1], v1alpha1.AnnotationRemove+"="+owner) || w.Silent {
		t.Errorf("%+v", w.Holding)
	}
	s.o.Reading = Reading{}
	if w := s.whole(); !w.Silent {
		t.Error("the deletion may end although nobody knows what is on the LUN")
	}
	s.o.Iscsi.Annotations = map[string]string{v1alpha1.AnnotationRemove: owner}
	if w := s.whole(); w.Silent || len(w.Holding) > 0 {
		t.Errorf("a person let it go: %+v", w)
	}
}

func TestView_fill(t *testing.T) {
	s := made("n1")
	pv(s)
	i := &v1alpha1.Iscsi{}
	s.view().Fill(i)
	if i.Status.VolumeCount != 1 || i.Status.Writer != "n1" || i.Status.Epoch != 1 || i.Status.Lun == nil || i.Status.Lun.WWID != disk.WWID || !i.Status.Lun.Reservations {
		t.Errorf("%+v", i.Status)
	}
	w := s.whole()
	if !w.Serves || w.Class.Parameters[v1alpha1.ParameterIscsi] != owner || w.Capacity.Total == nil || w.Capacity.Total.Value() != 1000<<20 {
		t.Errorf("%+v", w)
	}
}

func TestTargetOf(t *testing.T) {
	i := &v1alpha1.Iscsi{}
	i.Spec.IQN, i.Spec.Targets = iqn, []v1alpha1.PortalAddress{"10.0.0.1", "FD00::0001"}
	want := sharedlun.Target{IQN: iqn, Portals: []string{"10.0.0.1:3260", "[fd00::1]:3260"}}
	if d := cmp.Diff(want, TargetOf(i)); d != "" {
		t.Error(d)
	}
	if err := TargetOf(i).Check(); err != nil {
		t.Error(err)
	}
	if i.Spec.Port = 860; TargetOf(i).Portals[0] != "10.0.0.1:860" {
		t.Error(TargetOf(i))
	}
}

// TestStep_told: people are told of what ends what somebody else can do, and of nothing else.
func TestStep_told(t *testing.T) {
	for name, c := range map[string]struct {
		step         Step
		reason, says string
	}{
		"a fence":                 {Step{Does: v1alpha1.ActionFenceNode, Victim: "n2"}, v1alpha1.ReasonFenced, "Node n2 is fenced: its key is off the LUN"},
		"a fence by word":         {Step{Does: v1alpha1.ActionFenceNode, Victim: "n2", RecordOnly: true}, v1alpha1.ReasonFenced, "by the word of a person"},
		"a key of a dead node":    {Step{Does: v1alpha1.ActionFenceNode, Victim: "n2", GroupGone: true}, v1alpha1.ReasonFenced, "The key of node n2 is off the LUN"},
		"keys of nobody":          {Step{Does: v1alpha1.ActionPreemptKeys, Keys: []string{"0063"}}, v1alpha1.ReasonKeysPreempted, "0063"},
		"readers":                 {Step{Does: v1alpha1.ActionForgetReaders, Victim: "n2", Volumes: []sharedlun.Volume{{Name: "v1"}}}, v1alpha1.ReasonReadersForgotten, "v1"},
		"a wipe":                  {Step{Does: v1alpha1.ActionCreateSharedGroup, Wipe: "d", Lost: "ext4"}, v1alpha1.ReasonLunWiped, "ext4"},
		"a group on an empty LUN": {Step{Does: v1alpha1.ActionCreateSharedGroup}, "", ""},
		"a login":                 {Step{Does: v1alpha1.ActionLogin}, "", ""},
	} {
		if reason, message := c.step.Told(); reason != c.reason || !strings.Contains(message, c.says) {
			t.Errorf("%s: %s %q", name, reason, message)
		}
	}
}

// TestWake: what waits for a person, or for volumes that hold a deletion, is not looked at every second: what ends it is seen when it happens.
func TestWake(t *testing.T) {
	manual := func(s *scene) { s.o.Iscsi.Spec.Approval = v1alpha1.ApprovalManual }
	silent := func(s *scene) {
		s.volume(sharedlun.Volume{Name: "v", UUID: "u", HeldBy: "n2"})
		s.silence("n2", true)
	}
	asked := func(s *scene) { silent(s); s.member("n2").Spec.Reservation.Registering = "1" }
	for name, c := range map[string]struct {
		scene   *scene
		changes []func(*scene)
		// whole and node are when the whole and n1 are looked at again; 0 leaves that to the whole.
		whole, node time.Duration
	}{
		"all is well":                       {made("n1", "n2"), nil, Every, 0},
		"a fence":                           {made("n1", "n2"), []func(*scene){silent}, soon, 0},
		"a fence that a person vouches for": {made("n1", "n2"), []func(*scene){asked}, Every, 0},
		"a fence, where all is approved":    {made("n1", "n2"), []func(*scene){silent, manual}, Every, 0},
		"a login":                           {fresh("n1"), nil, Every, soon},
		"a login that is to be approved":    {fresh("n1"), []func(*scene){manual}, Every, 0},
		"sessions after a boot":             {made("n1"), []func(*scene){n1(func(h *Host) { h.Seen.Sessions[0].State = sharedlun.SessionNone }), manual}, Every, soon},
		"a deletion":                        {made("n1"), []func(*scene){(*scene).delete}, soon, 0},
		"a deletion that a volume holds": {made("n1"), []func(*scene){(*scene).delete, func(s *scene) {
			s.volume(sharedlun.Volume{Name: "v", UUID: "u"})
		}}, Every, 0},
		"a deletion that is to be approved": {made("n1"), []func(*scene){(*scene).delete, manual}, Every, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, change := range c.changes {
				change(c.scene)
			}
			if whole, node := c.scene.whole().Wake, c.scene.decide("n1").Wake; whole != c.whole || node != c.node {
				t.Errorf("the whole is looked at in %v, want %v, n1 in %v, want %v", whole, c.whole, node, c.node)
			}
		})
	}
}

// TestCopies: who looks at a Member sees how far a copy is, no device is mapped of it, and a snapshot holds the deletion by its name.
func TestCopies(t *testing.T) {
	s := made("n1", "n2")
	copied := sharedlun.Volume{
		Name: "snap-1", UUID: "u", SizeBytes: 3 << 30, CopiedBytes: 1 << 30, HeldBy: "n1", Snapshot: true, Origin: sharedlun.Origin{Name: "v", UUID: "w", Bytes: 3 << 30},
	}
	s.volume(copied)
	got := s.decide("n1")
	if len(got.Zeroing) != 1 || got.Zeroing[0] != "snap-1, copied from v: 1Gi of 3Gi" || slices.Contains(actions(got.Steps), v1alpha1.ActionMapVolumes) {
		t.Errorf("%q, %q", got.Zeroing, actions(got.Steps))
	}
	s.delete()
	if w := s.whole(); len(w.Holding) == 0 || w.Holding[0] != "snapshot snap-1 of volume v on the LUN" || slices.Contains(actions(w.Steps), v1alpha1.ActionRemoveSharedGroup) {
		t.Errorf("%q, %q", w.Holding, actions(w.Steps))
	}
}
