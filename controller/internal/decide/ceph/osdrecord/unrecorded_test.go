package osdrecord

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const (
	uid     = "11111111-2222-4333-8444-555555555555"
	another = "22222222-2222-4333-8444-555555555555"
)

// disk is one that carries something. It has a WWN if it has a serial number.
func disk(path, serial string, size int64, reasons ...string) decide.Device {
	d := decide.Device{Path: path, WWN: serial, Serial: serial, SizeBytes: size, Type: "disk", Digest: "d"}
	for _, r := range reasons {
		d.Refusals = append(d.Refusals, v1alpha1.Refusal{Reason: r})
	}
	return d
}

func member(of, node string, osds ...v1alpha1.MemberOSD) *v1alpha1.Member {
	m := &v1alpha1.Member{}
	m.Spec.Of.UID, m.Spec.Node, m.Spec.Ceph = types.UID(of), v1alpha1.HostName(node), &v1alpha1.MemberCeph{OSDs: osds}
	return m
}

// TestFind: an OSD that the monitors know, and that is on no record, is looked for on the disk that its UUID follows from, and on no other.
func TestFind(t *testing.T) {
	const node = "n1"
	carrying, nameless := disk("/dev/sdb", "b", 1<<40, v1alpha1.RefusalCeph), disk("/dev/sdb", "", 1<<40, v1alpha1.RefusalCeph)
	linked := nameless
	linked.Path, linked.Links = "/dev/sdz", []string{"/dev/disk/by-path/one", "/dev/sdb"}
	encrypted, grown, clean, part := disk("/dev/sdb", "b", 1<<40, v1alpha1.RefusalEncrypted, v1alpha1.RefusalHeld), disk("/dev/sdb", "b", 1<<41, v1alpha1.RefusalCeph), disk("/dev/sdb", "b", 1<<40), carrying
	part.Type = "partition"
	// The kernel of user mode calls its disks otherwise.
	nameless.Type, linked.Type = "ubd", "ubd"
	record := func(of, node string, d decide.Device) v1alpha1.MemberOSD {
		o, err := New(of, node, d, false)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	own := record(uid, node, carrying)
	for name, tt := range map[string]struct {
		uuid    string
		device  decide.Device
		members []*v1alpha1.Member
		agent   decide.AgentState
		want    string
	}{
		"it is there":                           {own.UUID, carrying, []*v1alpha1.Member{member(uid, node)}, decide.AgentUp, "/dev/sdb"},
		"it is encrypted, and open":             {own.UUID, encrypted, []*v1alpha1.Member{member(uid, node)}, decide.AgentUp, "/dev/sdb"},
		"another OSD is on record":              {own.UUID, carrying, []*v1alpha1.Member{member(uid, node, v1alpha1.MemberOSD{UUID: another})}, decide.AgentUp, "/dev/sdb"},
		"it is on record":                       {own.UUID, carrying, []*v1alpha1.Member{member(uid, node, own)}, decide.AgentUp, ""},
		"it is on record elsewhere":             {own.UUID, carrying, []*v1alpha1.Member{member(uid, node), member(uid, "n2", own)}, decide.AgentUp, ""},
		"its host is of another Cluster":        {own.UUID, carrying, []*v1alpha1.Member{member(another, node)}, decide.AgentUp, ""},
		"it is of another Cluster":              {record(another, node, carrying).UUID, carrying, []*v1alpha1.Member{member(uid, node)}, decide.AgentUp, ""},
		"its agent does not answer":             {own.UUID, carrying, []*v1alpha1.Member{member(uid, node)}, decide.AgentUnreachable, ""},
		"the disk grew":                         {own.UUID, grown, []*v1alpha1.Member{member(uid, node)}, decide.AgentUp, ""},
		"the disk is clean":                     {own.UUID, clean, []*v1alpha1.Member{member(uid, node)}, decide.AgentUp, ""},
		"it is a partition":                     {own.UUID, part, []*v1alpha1.Member{member(uid, node)}, decide.AgentUp, ""},
		"nothing but its path names it":         {record(uid, node, nameless).UUID, nameless, []*v1alpha1.Member{member(uid, node)}, decide.AgentUp, "/dev/sdb"},
		"nothing but another of its paths does": {record(uid, node, nameless).UUID, linked, []*v1alpha1.Member{member(uid, node)}, decide.AgentUp, "/dev/sdz"},
		"that path is of another host":          {record(uid, "n2", nameless).UUID, nameless, []*v1alpha1.Member{member(uid, node)}, decide.AgentUp, ""},
		"the monitors know of no UUID":          {"", carrying, []*v1alpha1.Member{member(uid, node)}, decide.AgentUp, ""},
	} {
		nodes := map[string]decide.Node{node: {Name: node, Agent: tt.agent, Devices: []decide.Device{disk("/dev/sda", "a", 1<<40, v1alpha1.RefusalFilesystem), tt.device}}}
		got := Find(uid, uid, nodes, tt.members, &ceph.Map{OSDs: []ceph.OSD{{ID: 4, UUID: tt.uuid}}})
		if (len(got) == 1) != (tt.want != "") || len(got) > 1 {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		if tt.want == "" {
			continue
		}
		encrypted := name == "it is encrypted, and open"
		want := v1alpha1.MemberOSD{UUID: tt.uuid, Path: v1alpha1.DevicePath(tt.want), WWN: tt.device.WWN, Serial: tt.device.Serial, Size: 1 << 40, Encrypted: encrypted, Keyed: encrypted}
		if u := got[0]; u.Node != node || u.Device.Path != tt.want || u.OSD.ID != 4 || u.Record != want {
			t.Errorf("%s: %+v, want %+v", name, u, want)
		}
		if d, there := Device(nodes[node], got[0].Record); !there || d.Path != tt.want {
			t.Errorf("%s: by its record the disk is %+v", name, d)
		}
	}
	if got := Find(uid, uid, nil, nil, nil); got != nil {
		t.Errorf("without a map: %+v", got)
	}
}

// TestSuspects: without an answer of Ceph a disk with a sign of Ceph or of encryption may carry the OSD that is made on it, unless that is on record.
func TestSuspects(t *testing.T) {
	const node = "n1"
	carrying, nameless, part := disk("/dev/sdb", "b", 1<<40, v1alpha1.RefusalCeph), disk("/dev/sdb", "", 1<<40, v1alpha1.RefusalCeph), disk("/dev/sdb", "b", 1<<40, v1alpha1.RefusalCeph)
	nameless.Links, part.Type = []string{"/dev/disk/by-path/one"}, "partition"
	own, err := New(uid, node, carrying, false)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		device  decide.Device
		members []*v1alpha1.Member
		agent   decide.AgentState
		want    int
	}{
		"a sign of Ceph":                  {carrying, []*v1alpha1.Member{member(uid, node)}, decide.AgentUp, 1},
		"it is encrypted":                 {disk("/dev/sdb", "b", 1<<40, v1alpha1.RefusalEncrypted), []*v1alpha1.Member{member(uid, node)}, decide.AgentUp, 1},
		"each name gives it another UUID": {nameless, []*v1alpha1.Member{member(uid, node)}, decide.AgentUp, 2},
		"another sign":                    {disk("/dev/sdb", "b", 1<<40, v1alpha1.RefusalFilesystem), []*v1alpha1.Member{member(uid, node)}, decide.AgentUp, 0},
		"it is clean":                     {disk("/dev/sdb", "b", 1<<40), []*v1alpha1.Member{member(uid, node)}, decide.AgentUp, 0},
		"it is a partition":               {part, []*v1alpha1.Member{member(uid, node)}, decide.AgentUp, 0},
		"it is on record elsewhere":       {carrying, []*v1alpha1.Member{member(uid, node), member(another, "n2", own)}, decide.AgentUp, 0},
		"its host has no Member yet":      {carrying, nil, decide.AgentUp, 1},
		"its host is of another Cluster":  {carrying, []*v1alpha1.Member{member(another, node)}, decide.AgentUp, 1},
		"its agent does not answer":       {carrying, []*v1alpha1.Member{member(uid, node)}, decide.AgentUnreachable, 0},
	} {
		nodes := map[string]decide.Node{node: {Name: node, Agent: tt.agent, Devices: []decide.Device{tt.device}}}
		got := Suspects(uid, []string{node}, nodes, tt.members)
		if len(got) != tt.want {
			t.Errorf("%s: %+v", name, got)
		}
		for _, u := range got {
			if d, there := Device(nodes[node], u.Record); u.Node != node || !there || d.Path != "/dev/sdb" || u.Record.Encrypted != d.RefusedFor(v1alpha1.RefusalEncrypted) {
				t.Errorf("%s: %+v", name, u)
			}
		}
	}
}

// TestSuspects_twins: two disks that nothing but their hosts tell apart are two suspects, whatever the agent of one says of its own.
func TestSuspects_twins(t *testing.T) {
	d := disk("/dev/sdb", "b", 1<<40, v1alpha1.RefusalCeph)
	nodes := map[string]decide.Node{}
	for _, n := range []string{"n1", "n2"} {
		nodes[n] = decide.Node{Name: n, Agent: decide.AgentUp, Devices: []decide.Device{d}}
	}
	got := Suspects(uid, []string{"n1", "n2"}, nodes, []*v1alpha1.Member{member(uid, "n1"), member(uid, "n2")})
	if len(got) != 2 || got[0].Key() == got[1].Key() || got[0].Record.UUID != got[1].Record.UUID {
		t.Errorf("%+v", got)
	}
}

// TestSuspects_twinsOfAHost: of two disks of one host with one serial number the second is a suspect even if the OSD that is made there is on record: the record is taken for the first, and either may carry it.
func TestSuspects_twinsOfAHost(t *testing.T) {
	first, second := disk("/dev/sdb", "b", 1<<40, v1alpha1.RefusalCeph), disk("/dev/sdc", "b", 1<<40, v1alpha1.RefusalCeph)
	first.KernelName, second.KernelName = "sdb", "sdc"
	own, err := New(uid, "n1", first, false)
	if err != nil {
		t.Fatal(err)
	}
	nodes := map[string]decide.Node{"n1": {Name: "n1", Agent: decide.AgentUp, Devices: []decide.Device{first, second}}}
	for _, recorded := range []bool{false, true} {
		m, want := member(uid, "n1"), []string{"sdb", "sdc"}
		if recorded {
			m, want = member(uid, "n1", own), []string{"sdc"}
		}
		var got []string
		for _, u := range Suspects(uid, []string{"n1"}, nodes, []*v1alpha1.Member{m}) {
			got = append(got, u.Device.KernelName)
		}
		if !slices.Equal(got, want) {
			t.Errorf("on record %t: suspects %q, want %q", recorded, got, want)
		}
	}
}

// TestSuspects_serialAlone: disks of two hosts that have nothing but one serial number are two, and each may carry the OSD of an earlier version, whose UUID has no node in it.
func TestSuspects_serialAlone(t *testing.T) {
	d := disk("/dev/sdb", "drive-scsi1", 1<<40, v1alpha1.RefusalCeph)
	d.WWN = ""
	nodes, own := map[string]decide.Node{}, map[string]v1alpha1.MemberOSD{}
	for _, n := range []string{"n1", "n2"} {
		nodes[n] = decide.Node{Name: n, Agent: decide.AgentUp, Devices: []decide.Device{d}}
		o, err := New(uid, n, d, false)
		if err != nil {
			t.Fatal(err)
		}
		own[n] = o
	}
	if own["n1"].UUID == own["n2"].UUID {
		t.Fatalf("both OSDs have the UUID %s", own["n1"].UUID)
	}
	earlier := suspects(uid, "n1", d)[1].Record
	for name, tt := range map[string]struct {
		n1, n2 []v1alpha1.MemberOSD
		want   []string
	}{
		"none is on record":             {nil, nil, []string{"n1/" + own["n1"].UUID, "n1/" + earlier.UUID, "n2/" + own["n2"].UUID, "n2/" + earlier.UUID}},
		"one is on record":              {[]v1alpha1.MemberOSD{own["n1"]}, nil, []string{"n2/" + own["n2"].UUID, "n2/" + earlier.UUID}},
		"an earlier one is on record":   {[]v1alpha1.MemberOSD{earlier}, nil, []string{"n2/" + own["n2"].UUID}},
		"both are on record, as of now": {[]v1alpha1.MemberOSD{own["n1"]}, []v1alpha1.MemberOSD{own["n2"]}, nil},
	} {
		var got []string
		for _, u := range Suspects(uid, []string{"n1", "n2"}, nodes, []*v1alpha1.Member{member(uid, "n1", tt.n1...), member(uid, "n2", tt.n2...)}) {
			got = append(got, u.Node+"/"+u.Record.UUID)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: suspects %q, want %q", name, got, tt.want)
		}
	}
}

// TestFind_serialAlone: of disks that repeat a serial number on several hosts each is found for its own OSD, even if an OSD of an earlier version, whose UUID fits all of them, is on no record either. One that its host has on record is
// found for none.
func TestFind_serialAlone(t *testing.T) {
	d := disk("/dev/sdb", "drive-scsi1", 1<<40, v1alpha1.RefusalCeph)
	d.WWN = ""
	nodes, own := map[string]decide.Node{}, map[string]v1alpha1.MemberOSD{}
	for _, n := range []string{"n1", "n2", "n3"} {
		nodes[n] = decide.Node{Name: n, Agent: decide.AgentUp, Devices: []decide.Device{d}}
		o, err := New(uid, n, d, false)
		if err != nil {
			t.Fatal(err)
		}
		own[n] = o
	}
	earlier := suspects(uid, "n1", d)[1].Record
	known := &ceph.Map{OSDs: []ceph.OSD{{ID: 0, UUID: earlier.UUID}, {ID: 1, UUID: own["n2"].UUID}, {ID: 2, UUID: own["n3"].UUID}}}
	for name, tt := range map[string]struct {
		n2, n3 []v1alpha1.MemberOSD
		want   []string
	}{
		"none is on record":       {nil, nil, []string{"n1 0", "n2 1", "n3 2"}},
		"the others are":          {[]v1alpha1.MemberOSD{own["n2"]}, []v1alpha1.MemberOSD{own["n3"]}, []string{"n1 0"}},
		"the earlier one is n2's": {[]v1alpha1.MemberOSD{earlier}, nil, []string{"n3 2"}},
	} {
		var got []string
		for _, u := range Find(uid, uid, nodes, []*v1alpha1.Member{member(uid, "n1"), member(uid, "n2", tt.n2...), member(uid, "n3", tt.n3...)}, known) {
			got = append(got, fmt.Sprintf("%s %d", u.Node, u.OSD.ID))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
