package view

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/osdrecord"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
	"quarry.storage/quarry/pkg/nodestate"
	"quarry.storage/quarry/pkg/osd"
)

// forgotten is the Cluster of joined after the record of its OSD was lost, with the UUID of that.
func forgotten(t *testing.T) (o Observation, uuid string) {
	t.Helper()
	const uid = "22222222-2222-4333-8444-555555555555"
	o = joined(v1alpha1.ClusterSpec{})
	o.Cluster.UID = uid
	for a := range o.Cluster.Annotations {
		o.Cluster.Annotations[a] = uid
	}
	m := o.World.Members[0]
	m.Spec.Of.UID, m.Spec.Ceph.OSDs = types.UID(uid), nil
	carries := &o.Nodes["n1"].Devices[0]
	carries.Refusals = []v1alpha1.Refusal{{Reason: v1alpha1.RefusalCeph}}
	r, err := osdrecord.New(uid, "n1", *carries, false)
	if err != nil {
		t.Fatal(err)
	}
	o.Ceph.Map.OSDs = []ceph.OSD{{ID: 1, UUID: r.UUID, Host: "n1"}}
	o.Verdicts = map[string]osd.Verdict{r.UUID: {Kind: osd.Ready, Making: "first"}}
	o.Workloads.Daemons = nil
	o.Workloads.Config = bare(o).config()
	return o, r.UUID
}

// TestDecide_adopts: an OSD that the monitors know comes on record again only where its own disk carries it whole, and nobody else has it in hand.
func TestDecide_adopts(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(o *Observation, uuid string)
		want   bool
	}{
		"its record is lost": {func(*Observation, string) {}, true},
		"its daemon is deployed, and runs": {func(o *Observation, uuid string) {
			o.Ceph.Map.OSDs[0].Up, o.Workloads.OSDPods = true, map[string]bool{uuid: true}
		}, true},
		"Ceph says yet that it runs here":   {func(o *Observation, _ string) { o.Ceph.Map.OSDs[0].Up = true }, true},
		"it ran on a host that is gone":     {func(o *Observation, _ string) { o.Ceph.Map.OSDs[0].Host = "n9" }, true},
		"it runs on another host":           {func(o *Observation, _ string) { o.Ceph.Map.OSDs[0].Up, o.Ceph.Map.OSDs[0].Host = true, "n9" }, false},
		"nobody has looked at the disk":     {func(o *Observation, uuid string) { delete(o.Verdicts, uuid) }, false},
		"nobody knows what is on the disk":  {func(o *Observation, uuid string) { o.Verdicts[uuid] = osd.Verdict{Message: "damaged"} }, false},
		"the disk carries another OSD":      {func(o *Observation, uuid string) { o.Verdicts[uuid] = osd.Verdict{Kind: osd.Other} }, false},
		"the making of the OSD did not end": {func(o *Observation, uuid string) { o.Verdicts[uuid] = osd.Verdict{Kind: osd.Unfinished} }, false},
		"what Ceph said is old":             {func(o *Observation, _ string) { o.Current = false }, false},
		"Ceph said nothing":                 {func(o *Observation, _ string) { o.Ceph, o.Current = nil, false }, false},
		"the monitors do not know it":       {func(o *Observation, _ string) { o.Ceph.Map.OSDs = nil }, false},
		"a person keeps the disk out": {func(o *Observation, _ string) {
			o.World.Members[0].Spec.Retire = []v1alpha1.RetiredDevice{{Path: "/dev/sdb"}}
		}, false},
		"another host seems to have the disk, too": {func(o *Observation, _ string) { twin(o) }, false},
		"its Cluster is being deleted": {func(o *Observation, _ string) {
			o.Cluster.DeletionTimestamp = new(metav1.NewTime(o.Now))
		}, true},
		"it is on record as that of another Member": {func(o *Observation, uuid string) { other(o, uuid) }, false},
	} {
		o, uuid := forgotten(t)
		tt.change(&o, uuid)
		m := backend.Member{Node: "n1", Object: o.World.Members[0], Flags: nodestate.Flags{}}
		var got []Step
		for _, s := range New(o).Decide(m).Steps {
			if s := s.(Step); s.Does == v1alpha1.ActionAdoptOSD {
				got = append(got, s)
			}
		}
		if len(got) > 1 || (len(got) == 1) != tt.want {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		if tt.want && (got[0].Destroys() || got[0].Ceph.UUID != uuid || got[0].Ceph.ID != 1 || len(got[0].Takes()) != 1 || got[0].Takes()[0].Path != "/dev/sdb" || !strings.Contains(got[0].API().Reason, "no record")) {
			t.Errorf("%s: %+v", name, got[0])
		}
	}
}

// twin has another host of the Cluster tell of the same disk.
func twin(o *Observation) {
	m := o.World.Members[0].DeepCopy()
	m.Name, m.Spec.Node = "files.n2", "n2"
	o.World.Members = append(o.World.Members, m)
	o.Nodes["n2"] = o.Nodes["n1"]
}

// other puts the OSD on record of a host that has no such disk now.
func other(o *Observation, uuid string) {
	m := o.World.Members[0].DeepCopy()
	m.Name, m.Spec.Node = "files.n2", "n2"
	m.Spec.Ceph.OSDs = []v1alpha1.MemberOSD{{UUID: uuid, Path: "/dev/sdb", WWN: "b", Serial: "b", Size: 1 << 40}}
	o.World.Members = append(o.World.Members, m)
	o.Workloads.Daemons = append(o.Workloads.Daemons, Workload{Kind: cephname.DaemonTools, ID: "n1", Node: "n1"})
}

// TestDecide_wipesNoneThatComesBack: consent to a wipe that was given before the OSD was made says nothing of the OSD, and neither is a clean disk taken in its place.
func TestDecide_wipesNoneThatComesBack(t *testing.T) {
	const path = "/dev/disk/by-path/b"
	for name, change := range map[string]func(o *Observation, uuid string){
		"it comes on record":              func(*Observation, string) {},
		"nobody knows what is on it":      func(o *Observation, uuid string) { delete(o.Verdicts, uuid) },
		"it carries something else":       func(o *Observation, uuid string) { o.Verdicts[uuid] = osd.Verdict{Kind: osd.Other} },
		"what Ceph said is old":           func(o *Observation, _ string) { o.Current = false },
		"Ceph said nothing since a start": func(o *Observation, _ string) { o.Ceph, o.Current = nil, false },
		"another OSD is on record, and Ceph says nothing": func(o *Observation, _ string) {
			o.World.Members[0].Spec.Ceph.OSDs = []v1alpha1.MemberOSD{{UUID: diskUUID, Path: "/dev/sdz", Serial: "z", Size: 1}}
			o.Ceph, o.Current = nil, false
		},
	} {
		o, uuid := forgotten(t)
		o.Cluster.Spec.Devices = &v1alpha1.DeviceSelector{Wipe: []v1alpha1.WipeConsent{{Host: "n1", Path: path}}}
		d := &o.Nodes["n1"].Devices[0]
		d.Links, d.Wipeable = []string{path}, true
		change(&o, uuid)
		for _, s := range New(o).Decide(backend.Member{Node: "n1", Object: o.World.Members[0]}).Steps {
			if s := s.(Step); s.Does != v1alpha1.ActionAdoptOSD {
				t.Errorf("%s: %s of %+v", name, s.Does, s.Devices)
			}
		}
	}
}

// TestFacts_unrecorded: a host whose disks may carry an OSD of the Cluster is not empty, even if nothing is on record.
func TestFacts_unrecorded(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(o *Observation)
		want   nodestate.Data
	}{
		"it carries one":                 {func(*Observation) {}, nodestate.DataPresent},
		"nobody has looked":              {func(o *Observation) { o.Verdicts = nil }, nodestate.DataPresent},
		"Ceph has not said anything":     {func(o *Observation) { o.Ceph, o.Current = nil, false }, nodestate.DataUnknown},
		"the monitors do not know it":    {func(o *Observation) { o.Ceph.Map.OSDs = nil }, nodestate.DataAbsent},
		"a person keeps the disk out":    {func(o *Observation) { o.World.Members[0].Spec.Retire = []v1alpha1.RetiredDevice{{Path: "/dev/sdb"}} }, nodestate.DataAbsent},
		"all of the Cluster is given up": {func(o *Observation) { o.Cluster.Annotations[v1alpha1.AnnotationCephRemoved] = string(o.Cluster.UID) }, nodestate.DataAbsent},
	} {
		o, _ := forgotten(t)
		tt.change(&o)
		if got := New(o).Facts("n1").Data; got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// TestMadeBefore: a restore from a backup that is older than the monitors makes no second Ceph cluster beside disks and volumes of the first. Nothing of that is wiped, taken or given up.
func TestMadeBefore(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(o *Observation, uuid string)
		says   string
		// wipes: the disk is wiped, to which a person consented.
		wipes bool
	}{
		"a disk carries an OSD":     {func(*Observation, string) {}, "disk /dev/sdb of n1 carries an OSD of it", false},
		"whose making did not end":  {func(o *Observation, uuid string) { o.Suspected["n1/sdb/"+uuid] = osd.Verdict{Kind: osd.Unfinished} }, "carries an OSD of it", false},
		"nobody has looked at it":   {func(o *Observation, uuid string) { delete(o.Suspected, "n1/sdb/"+uuid) }, "the agent of n1 has not said what is on disk /dev/sdb", false},
		"nobody can say what it is": {func(o *Observation, uuid string) { o.Suspected["n1/sdb/"+uuid] = osd.Verdict{Message: "Damaged."} }, "disk /dev/sdb of n1 may carry an OSD of it. Damaged. Clear it", true},
		"it carries one of another size": {func(o *Observation, uuid string) {
			o.Suspected["n1/sdb/"+uuid] = osd.Verdict{Kind: osd.Other, Carries: diskUUID}
		}, "carries an OSD of it", false},
		"it is something else": {func(o *Observation, uuid string) { o.Suspected["n1/sdb/"+uuid] = osd.Verdict{Kind: osd.Other} }, "", true},
		"its agent is of an earlier version": {func(o *Observation, uuid string) {
			o.Suspected["n1/sdb/"+uuid] = osd.Verdict{Kind: osd.Other, Blind: true}
		}, "the agent of n1 is of an earlier version", false},
		"its host does not answer":    {func(o *Observation, _ string) { silence(o) }, "the agent of n1 does not answer", false},
		"it is kept out, and unknown": {func(o *Observation, uuid string) { retired(o); o.Suspected["n1/sdb/"+uuid] = osd.Verdict{} }, "", false},
		"it is kept out, and carries": {func(o *Observation, _ string) { retired(o) }, "carries an OSD of it", false},
		"a PersistentVolume names one": {func(o *Observation, uuid string) {
			o.Suspected["n1/sdb/"+uuid] = osd.Verdict{Kind: osd.Other}
			handled(o)
		}, "PersistentVolumes name volumes in it", false},
		"it is on record, and carries one":    {func(o *Observation, uuid string) { recorded(o, uuid, osd.Verdict{Kind: osd.Ready}) }, "disk /dev/sdb of n1 carries an OSD of it", false},
		"it is on record, and nobody can say": {func(o *Observation, uuid string) { recorded(o, uuid, osd.Verdict{Message: "Damaged."}) }, "is on record, and may carry an OSD of it. Damaged.", false},
		"it is on record, and away": {func(o *Observation, uuid string) {
			recorded(o, uuid, osd.Verdict{})
			o.Verdicts = nil
			n := o.Nodes["n1"]
			n.Devices = nil
			o.Nodes["n1"] = n
		}, "is on record, and may carry an OSD of it", false},
		"its host leaves": {func(o *Observation, _ string) {
			o.World.Members[0].DeletionTimestamp = &metav1.Time{Time: o.Now}
		}, "disk /dev/sdb of n1 carries an OSD of it", false},
		"a listed host is no node": {func(o *Observation, uuid string) {
			o.Suspected["n1/sdb/"+uuid] = osd.Verdict{Kind: osd.Other}
			o.Cluster.Spec.Hosts, o.World.Nodes["n2"] = append(o.Cluster.Spec.Hosts, "n2"), backend.Node{Name: "n2"}
		}, "host n2 is no node of Kubernetes", false},
		"a listed host without a Member does not answer": {func(o *Observation, uuid string) {
			o.Suspected["n1/sdb/"+uuid] = osd.Verdict{Kind: osd.Other}
			o.Cluster.Spec.Hosts, o.World.Nodes["n2"] = append(o.Cluster.Spec.Hosts, "n2"), backend.Node{Name: "n2", Exists: true}
		}, "the agent of n2 does not answer", false},
		"a listed host without a Member has a disk with one": {func(o *Observation, uuid string) {
			o.Suspected["n1/sdb/"+uuid] = osd.Verdict{Kind: osd.Other}
			o.Cluster.Spec.Hosts, o.World.Nodes["n2"] = append(o.Cluster.Spec.Hosts, "n2"), backend.Node{Name: "n2", Exists: true}
			o.Nodes["n2"], o.Suspected["n2/sdb/"+uuid] = o.Nodes["n1"], osd.Verdict{Kind: osd.Ready}
		}, "disk /dev/sdb of n2 carries an OSD of it", false},
		"a person names the monitors": {func(o *Observation, _ string) {
			o.Cluster.Spec.Ceph = &v1alpha1.CephSpec{TakeUp: &v1alpha1.CephTakeUp{FSID: string(o.Cluster.UID), Monitors: []v1alpha1.CephTakeUpMonitor{{Name: "a", Host: "n1"}}}}
		}, "", false},
	} {
		for _, keys := range []bool{false, true} {
			o := restored(t, keys, tt.change)
			v := New(o)
			want := v1alpha1.ActionPrepareCeph
			switch {
			case tt.says != "", keys && o.Cluster.TakesUp():
				want = ""
			case keys:
				want = v1alpha1.ActionStartMonitor
			}
			begins := among(v.Whole(nil).Steps, v1alpha1.ActionStartMonitor, v1alpha1.ActionPrepareCeph)
			waits := strings.Join(v.plan.waits, " ")
			if begins != want || !strings.Contains(waits, tt.says) || strings.Contains(waits, "OSD of ") != strings.Contains(tt.says, "OSD of ") {
				t.Errorf("%s, keys %t: begins %q, want %q, waits: %s", name, keys, begins, want, waits)
			}
			steps := v.Decide(backend.Member{Node: "n1", Object: o.World.Members[0]}).Steps
			if wipes := among(steps, v1alpha1.ActionWipeDevice) != ""; wipes != tt.wipes || tt.says != "" && !wipes && len(steps) > 0 {
				t.Errorf("%s, keys %t: the host's steps are %v", name, keys, steps)
			}
		}
	}
}

// restored is a Cluster of which a backup has nothing but its keys, or not even them. Its host has a disk with an OSD, to whose wipe the spec consents.
func restored(t *testing.T, keys bool, change func(o *Observation, uuid string)) Observation {
	t.Helper()
	const path = "/dev/disk/by-path/b"
	o, uuid := forgotten(t)
	if o.Cluster.Annotations = nil; keys {
		o.Cluster.Annotations = map[string]string{v1alpha1.AnnotationCephKeys: string(o.Cluster.UID)}
	}
	o.Ceph, o.Current = nil, false
	o.Suspected = map[string]osd.Verdict{"n1/sdb/" + uuid: {Kind: osd.Ready}}
	o.Cluster.Spec.Devices = &v1alpha1.DeviceSelector{Wipe: []v1alpha1.WipeConsent{{Host: "n1", Path: path}}}
	d := &o.Nodes["n1"].Devices[0]
	d.Links, d.Wipeable = []string{path}, true
	change(&o, uuid)
	o.Workloads.Config = bare(o).config()
	return o
}

// recorded puts the disk on record, and says what its agent says of it.
func recorded(o *Observation, uuid string, verdict osd.Verdict) {
	o.World.Members[0].Spec.Ceph.OSDs = []v1alpha1.MemberOSD{{UUID: uuid, Path: "/dev/sdb", WWN: "b", Serial: "b", Size: 1 << 40}}
	o.Verdicts, o.Suspected = map[string]osd.Verdict{uuid: verdict}, map[string]osd.Verdict{}
}

// among are the actions of some kinds among steps, in their order.
func among(steps []backend.Step, kinds ...string) (out string) {
	for _, s := range steps {
		if slices.Contains(kinds, s.Action()) {
			out += s.Action()
		}
	}
	return out
}

// silence has the agent of the host answer no more.
func silence(o *Observation) {
	n := o.Nodes["n1"]
	n.Agent = decide.AgentUnreachable
	o.Nodes["n1"] = n
}

// retired has a person keep the disk out of all storages.
func retired(o *Observation) {
	o.World.Members[0].Spec.Retire = []v1alpha1.RetiredDevice{{Path: "/dev/sdb"}}
}

// handled has a PersistentVolume that a restore brought back name a volume of the Cluster.
func handled(o *Observation) {
	o.World.Volumes = map[string][]backend.Volume{"": {{Name: "kept", Handle: string(o.Cluster.UID) + "/quarry/quarry/pvc-11111111-2222-4333-8444-555555555555"}}}
}

// TestDecide_wipesNoStranger: an OSD that the monitors have is not wiped with the disk that it is on, even if the disk has other names than when the OSD was made, and a person consents.
func TestDecide_wipesNoStranger(t *testing.T) {
	const path = "/dev/disk/by-path/b"
	for name, tt := range map[string]struct {
		verdict osd.Verdict
		looked  bool
		// known: the monitors have the OSD that the disk carries.
		known bool
		wipes bool
		says  string
	}{
		"an OSD that they have":              {osd.Verdict{Kind: osd.Other, Carries: diskUUID}, true, true, false, "/dev/sdb carries osd.7, and is not wiped"},
		"an OSD that they have no more":      {osd.Verdict{Kind: osd.Other, Carries: diskUUID}, true, false, true, ""},
		"an OSD of another Cluster":          {osd.Verdict{Kind: osd.Other, FSIDs: []string{"another"}}, true, false, false, "/dev/sdb carries an OSD of the Ceph cluster of another Cluster"},
		"an OSD of a Cluster that is gone":   {osd.Verdict{Kind: osd.Other, FSIDs: []string{"gone"}}, true, false, true, ""},
		"something else":                     {osd.Verdict{Kind: osd.Other}, true, true, true, ""},
		"nobody has looked":                  {osd.Verdict{}, false, true, false, "/dev/sdb is not wiped before its agent has said"},
		"nobody can tell":                    {osd.Verdict{Message: "Damaged."}, true, true, true, ""},
		"its agent is of an earlier version": {osd.Verdict{Kind: osd.Other, Blind: true}, true, true, false, "an agent of an earlier version cannot"},
	} {
		o, uuid := forgotten(t)
		o.Ceph.Map.OSDs = nil
		o.World.Others = []v1alpha1.Storage{&v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "another", UID: "another"}}}
		if tt.known {
			o.Ceph.Map.OSDs = []ceph.OSD{{ID: 7, UUID: diskUUID, Host: "n2"}}
		}
		if o.Verdicts, o.Suspected = map[string]osd.Verdict{}, map[string]osd.Verdict{}; tt.looked {
			o.Suspected["n1/sdb/"+uuid] = tt.verdict
		}
		o.Cluster.Spec.Devices = &v1alpha1.DeviceSelector{Wipe: []v1alpha1.WipeConsent{{Host: "n1", Path: path}}}
		d := &o.Nodes["n1"].Devices[0]
		d.Links, d.Wipeable = []string{path}, true
		h := New(o).Decide(backend.Member{Node: "n1", Object: o.World.Members[0]})
		wipes := slices.ContainsFunc(h.Steps, func(s backend.Step) bool { return s.Action() == v1alpha1.ActionWipeDevice })
		if wipes != tt.wipes || !strings.Contains(h.Finding.Message, tt.says) || strings.Contains(h.Finding.Message, "not wiped") != (tt.says != "") {
			t.Errorf("%s: wipes %t, says %q", name, wipes, h.Finding.Message)
		}
	}
}

// TestForm_second: monitors that are seen for the first time and know of no OSD are not taken for the Cluster's where a disk carries one.
func TestForm_second(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(o *Observation, key string)
		forms  bool
	}{
		"they know it":        {func(*Observation, string) {}, true},
		"they know of no OSD": {func(o *Observation, _ string) { o.Ceph.Map.OSDs = nil }, false},
		"the disk carries none": {func(o *Observation, key string) {
			o.Ceph.Map.OSDs = nil
			o.Suspected[key] = osd.Verdict{Kind: osd.Other}
		}, true},
		"Ceph does not say which it has": {func(o *Observation, _ string) { o.Ceph.Map = nil }, false},
		"nobody has looked at the disk":  {func(o *Observation, key string) { o.Ceph.Map.OSDs = nil; delete(o.Suspected, key) }, false},
		"an agent cannot say": {func(o *Observation, key string) {
			o.Ceph.Map.OSDs = nil
			o.Suspected[key] = osd.Verdict{Kind: osd.Other, Blind: true}
		}, false},
		"a host does not answer": {func(o *Observation, key string) {
			o.Ceph.Map.OSDs = nil
			delete(o.Suspected, key)
			silence(o)
		}, false},
		"it is on record, and carries one": {func(o *Observation, key string) {
			o.Ceph.Map.OSDs = nil
			recorded(o, key[len("n1/sdb/"):], osd.Verdict{Kind: osd.Ready})
		}, false},
		"a person names them": {func(o *Observation, _ string) {
			o.Ceph.Map.OSDs = nil
			o.Cluster.Spec.Ceph = &v1alpha1.CephSpec{TakeUp: &v1alpha1.CephTakeUp{FSID: string(o.Cluster.UID), Monitors: []v1alpha1.CephTakeUpMonitor{{Name: "a", Host: "n1"}}}}
		}, false},
		"a person names them, and they know it": {func(o *Observation, _ string) {
			o.Cluster.Spec.Ceph = &v1alpha1.CephSpec{TakeUp: &v1alpha1.CephTakeUp{FSID: string(o.Cluster.UID), Monitors: []v1alpha1.CephTakeUpMonitor{{Name: "a", Host: "n1"}}}}
		}, true},
		"that was on record before": {func(o *Observation, _ string) {
			o.Ceph.Map.OSDs = nil
			o.Cluster.Annotations[v1alpha1.AnnotationCephFormed] = string(o.Cluster.UID)
		}, true},
	} {
		o, uuid := forgotten(t)
		delete(o.Cluster.Annotations, v1alpha1.AnnotationCephFormed)
		key := "n1/sdb/" + uuid
		o.Suspected = map[string]osd.Verdict{key: {Kind: osd.Ready}}
		o.Workloads.Daemons = []Workload{{Kind: cephname.DaemonMonitor, ID: "a", Node: "n1", First: true}}
		o.World.Members[0].Spec.Ceph.Monitor = &v1alpha1.MemberMonitor{Name: "a", Address: "10.0.0.1"}
		tt.change(&o, key)
		o.Workloads.Config = bare(o).config()
		v := New(o)
		forms := slices.ContainsFunc(v.Whole(nil).Steps, func(s backend.Step) bool { return s.Action() == v1alpha1.ActionFormCeph })
		if told := strings.Contains(strings.Join(v.plan.waits, " "), "The monitors "); forms != tt.forms || told == tt.forms {
			t.Errorf("%s: forms %t, waits %q", name, forms, v.plan.waits)
		}
	}
}

// TestPrepared_lostWord: a Cluster that lost nothing but its annotations has them written again, as long as its keys are there.
func TestPrepared_lostWord(t *testing.T) {
	for _, keys := range []bool{false, true} {
		o := restored(t, false, func(o *Observation, uuid string) {
			// Nothing but the monitor says that there is a Ceph cluster.
			o.Suspected["n1/sdb/"+uuid] = osd.Verdict{Kind: osd.Other}
		})
		o.World.Members[0].Spec.Ceph.Monitor = &v1alpha1.MemberMonitor{Name: "a", Address: "10.0.0.1"}
		o.Workloads.Keys = keys
		if got := among(New(o).Whole(nil).Steps, v1alpha1.ActionPrepareCeph) != ""; got != keys {
			t.Errorf("keys there %t: prepares %t", keys, got)
		}
	}
}
