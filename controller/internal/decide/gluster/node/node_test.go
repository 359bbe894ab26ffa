package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// scene has a node "me" that serves, and another one.
func scene() *Facts {
	return &Facts{
		Node: &v1alpha1.GlusterNode{
			ObjectMeta: metav1.ObjectMeta{Name: "pool-east-1", UID: "me"}, Spec: v1alpha1.GlusterNodeSpec{Zone: "east", Peer: "me"}, Status: v1alpha1.GlusterNodeStatus{Joined: true},
		},
		Standing: gluster.Standing{Flags: nodestate.Of(true, true, false, false)},
		Spec:     metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSpecValid, Message: "Fine."},
		Claims:   gluster.Yes, Workload: gluster.Yes, Address: "10.0.0.1:24008", Devices: []string{"/dev/a", "/dev/b"}, Others: []string{"c", "b"},
		Pool: gluster.Pool{
			Peers:   &[]gluster.Peer{{ID: "me", Zone: "east", Online: true, Addresses: []string{"10.0.0.1:24008"}}, {ID: "b", Zone: "west", Online: true}},
			Devices: &[]gluster.Device{device("/dev/a", true), device("/dev/b", true), {Peer: "b", Path: "/dev/a", Free: 1, Total: 1}},
		},
	}
}

func device(path string, enabled bool) gluster.Device {
	return gluster.Device{Peer: "me", Path: path, Enabled: enabled, Free: 60, Total: 100}
}

// String has the conditions as letters in their order, T, F and U, then the steps.
func (p Plan) String() string {
	var out strings.Builder
	for _, c := range p.Conditions {
		out.WriteString(string(c.Status)[:1])
	}
	for _, s := range p.Steps {
		fmt.Fprintf(&out, " %s", s.Do)
		for _, of := range []string{s.Via, s.Zone, s.Path} {
			if of != "" {
				out.WriteString(":" + of)
			}
		}
	}
	return out.String()
}

type edit func(*Facts)

func state(up, data, quiesce, destroy bool) edit {
	return func(f *Facts) { f.Standing.Flags = nodestate.Of(up, data, quiesce, destroy) }
}

func fresh(f *Facts) {
	f.Node.Status.Joined = false
	*f.Pool.Peers = (*f.Pool.Peers)[1:]
	*f.Pool.Devices = (*f.Pool.Devices)[2:]
}

func disks(status metav1.ConditionStatus, begun bool) edit {
	return func(f *Facts) {
		f.Disks, f.Begun = &metav1.Condition{Status: status, Reason: "WhyNot", Message: "Because."}, begun
	}
}

// barred are disks that glusterd2 must not be told of.
var barred = map[string]Bar{"/dev/b": {Reason: v1alpha1.ReasonAgentUnreachable, Why: "the agent is silent."}}

// lacks has a disk that is gone, and unclear one of which nobody knows. unseen has it not in the pod.
func lacks(f *Facts) {
	f.Unfit = map[string]Bar{"/dev/b": {Reason: v1alpha1.ReasonDeviceNotFound, Why: "/dev/disk/by-id/b: it is gone."}}
}

// forgot says that records may be lost.
func forgot(f *Facts) { f.Forgot = true }

func unclear(f *Facts) { f.Unclear = []string{"/dev/b"} }
func unseen(f *Facts)  { f.Devices, f.Unseen = f.Devices[:1], f.Devices[1:] }

func devicesAre(all ...gluster.Device) edit { return func(f *Facts) { f.Pool.Devices = &all } }

func TestReconcile(t *testing.T) {
	for name, row := range map[string]struct {
		edits  []edit
		want   string
		reason string
	}{
		"it serves":                           {nil, "TTTTTTT", v1alpha1.ReasonReady},
		"a device is not in the pod yet":      {[]edit{devicesAre(device("/dev/a", true)), func(f *Facts) { f.Devices, f.Unseen = f.Devices[:1], f.Devices[1:] }}, "TTTTTFF", v1alpha1.ReasonPending},
		"others are registered meanwhile":     {[]edit{devicesAre(), func(f *Facts) { f.Devices, f.Unseen = f.Devices[:1], f.Devices[1:] }}, "TTTTTFF AddDevice:/dev/a", v1alpha1.ReasonStepTaken},
		"the pod does not have it any more":   {[]edit{func(f *Facts) { f.Devices, f.Unseen = f.Devices[:1], f.Devices[1:] }}, "TTTTTTT", v1alpha1.ReasonReady},
		"its disks are allocated":             {[]edit{disks(metav1.ConditionTrue, false)}, "TTTTTTTT", v1alpha1.ReasonReady},
		"its disks are not allocated":         {[]edit{disks(metav1.ConditionFalse, false)}, "TFUUUUUF", "WhyNot"},
		"nobody knows whose its disks are":    {[]edit{disks(metav1.ConditionUnknown, false)}, "TUUUUUUU", "WhyNot"},
		"one more disk while it serves":       {[]edit{disks(metav1.ConditionFalse, true)}, "TTTTTTFF", "WhyNot"},
		"and while it has devices to enable":  {[]edit{disks(metav1.ConditionFalse, true), devicesAre(device("/dev/a", true), device("/dev/b", false))}, "TTTTTFUF EnableDevice:/dev/b", v1alpha1.ReasonStepTaken},
		"glusterd2 is not told of a disk":     {[]edit{disks(metav1.ConditionTrue, true), devicesAre(device("/dev/a", true)), func(f *Facts) { f.Barred = barred }}, "TTTTTFUF", v1alpha1.ReasonAgentUnreachable},
		"but of another one":                  {[]edit{disks(metav1.ConditionTrue, true), devicesAre(), func(f *Facts) { f.Barred = barred }}, "TTTTTFUF AddDevice:/dev/a", v1alpha1.ReasonStepTaken},
		"one that is registered stays":        {[]edit{disks(metav1.ConditionTrue, true), func(f *Facts) { f.Barred = barred }}, "TTTTTTTT", v1alpha1.ReasonReady},
		"a disk went":                         {[]edit{disks(metav1.ConditionTrue, true), lacks}, "TTTTTFUF DisableDevice:/dev/b", v1alpha1.ReasonStepTaken},
		"a disk is gone":                      {[]edit{disks(metav1.ConditionTrue, true), lacks, devicesAre(device("/dev/a", true), device("/dev/b", false))}, "TTTTTFUF", v1alpha1.ReasonDeviceNotFound},
		"it is not in the pod":                {[]edit{disks(metav1.ConditionTrue, true), lacks, unseen, devicesAre(device("/dev/a", true), device("/dev/b", false))}, "TTTTTFUF", v1alpha1.ReasonDeviceNotFound},
		"it never was registered":             {[]edit{disks(metav1.ConditionTrue, true), lacks, devicesAre(device("/dev/a", true)), func(f *Facts) { f.Barred = barred }}, "TTTTTFUF", v1alpha1.ReasonDeviceNotFound},
		"a disk went from a node offline":     {[]edit{disks(metav1.ConditionTrue, true), lacks, state(false, false, false, false)}, "TTTTTFUF", v1alpha1.ReasonDeviceNotFound},
		"a disk is back":                      {[]edit{disks(metav1.ConditionTrue, true), devicesAre(device("/dev/a", true), device("/dev/b", false))}, "TTTTTFUF EnableDevice:/dev/b", v1alpha1.ReasonStepTaken},
		"nobody knows whether a disk is":      {[]edit{disks(metav1.ConditionTrue, true), unclear}, "TTTTTTTT", v1alpha1.ReasonReady},
		"nor whether it is back":              {[]edit{disks(metav1.ConditionTrue, true), unclear, devicesAre(device("/dev/a", false), device("/dev/b", false))}, "TTTTTFUF EnableDevice:/dev/a", v1alpha1.ReasonStepTaken},
		"so that it waits":                    {[]edit{disks(metav1.ConditionTrue, true), unclear, devicesAre(device("/dev/a", true), device("/dev/b", false))}, "TTTTTUUU", v1alpha1.ReasonAgentUnreachable},
		"no server for want of a disk":        {[]edit{disks(metav1.ConditionTrue, true), lacks, func(f *Facts) { f.Workload = gluster.No }}, "TTFUUUUF", v1alpha1.ReasonPending},
		"the spec is wrong":                   {[]edit{func(f *Facts) { f.Spec.Status, f.Spec.Reason = metav1.ConditionFalse, "InvalidSpec" }}, "FUUUUUF", v1alpha1.ReasonInvalidSpec},
		"nobody knows whether it is":          {[]edit{func(f *Facts) { f.Spec.Status, f.Spec.Reason = metav1.ConditionUnknown, "StepWaits" }}, "UUUUUUU", v1alpha1.ReasonStepWaits},
		"a claim is not bound":                {[]edit{func(f *Facts) { f.Claims = gluster.No }}, "TFUUUUF", v1alpha1.ReasonPending},
		"nobody knows of the claims":          {[]edit{func(f *Facts) { f.Claims = gluster.Unknown }}, "TUUUUUU", v1alpha1.ReasonPending},
		"the server does not run":             {[]edit{func(f *Facts) { f.Workload = gluster.No }}, "TTFUUUF", v1alpha1.ReasonPending},
		"nobody knows of the server":          {[]edit{func(f *Facts) { f.Workload = gluster.Unknown }}, "TTUUUUU", v1alpha1.ReasonPending},
		"G16: the server is another one":      {[]edit{func(f *Facts) { f.Says = "b" }}, "TTFUUUF", v1alpha1.ReasonPeerConflict},
		"G16: it says who it is":              {[]edit{func(f *Facts) { f.Says = "ME" }}, "TTTTTTT", v1alpha1.ReasonReady},
		"G16: no ID is on record":             {[]edit{func(f *Facts) { f.Node.Spec.Peer = "" }}, "TTTUUUU", v1alpha1.ReasonPoolUnknown},
		"the pool is silent":                  {[]edit{func(f *Facts) { f.Pool = gluster.Pool{} }}, "TTTUUUU", v1alpha1.ReasonPoolUnknown},
		"G2: it joins":                        {[]edit{fresh}, "TTTFUUF Join:b:east", v1alpha1.ReasonStepTaken},
		"G2: nobody can take it in":           {[]edit{fresh, func(f *Facts) { (*f.Pool.Peers)[0].Online = false }}, "TTTFUUF", v1alpha1.ReasonPending},
		"G2: nor a stranger":                  {[]edit{fresh, func(f *Facts) { f.Others = nil }}, "TTTFUUF", v1alpha1.ReasonPending},
		"G2: its address is another's":        {[]edit{fresh, func(f *Facts) { (*f.Pool.Peers)[0].Addresses = []string{f.Address} }}, "TTTFUUF", v1alpha1.ReasonPeerConflict},
		"not under maintenance":               {[]edit{fresh, state(false, false, true, false)}, "TTTFUUF", v1alpha1.ReasonStepWaits},
		"nor while it is removed":             {[]edit{fresh, state(false, true, false, true)}, "TTTFUUF", v1alpha1.ReasonStepWaits},
		"it was a member":                     {[]edit{fresh, func(f *Facts) { f.Node.Status.Joined = true }}, "TTTFUUF", v1alpha1.ReasonPeerMissing},
		"its zone is another":                 {[]edit{func(f *Facts) { (*f.Pool.Peers)[0].Zone = "me" }}, "TTTFUUF SetZone:east", v1alpha1.ReasonStepTaken},
		"a node without a zone is its own":    {[]edit{func(f *Facts) { f.Node.Spec.Zone = "" }}, "TTTFUUF SetZone:pool-east-1", v1alpha1.ReasonStepTaken},
		"it is down":                          {[]edit{func(f *Facts) { (*f.Pool.Peers)[0].Online = false }, state(false, true, false, false)}, "TTTTFUF", v1alpha1.ReasonPeerDown},
		"no list of devices":                  {[]edit{func(f *Facts) { f.Pool.Devices = nil }}, "TTTTTUU", v1alpha1.ReasonPoolUnknown},
		"a device is not registered":          {[]edit{devicesAre(device("/dev/a", true))}, "TTTTTFF AddDevice:/dev/b", v1alpha1.ReasonStepTaken},
		"nor is another spelling of it":       {[]edit{devicesAre(device("/dev/a", true), device("/dev/b/", true))}, "TTTTTFF AddDevice:/dev/b", v1alpha1.ReasonStepTaken},
		"one is disabled that it forgot":      {[]edit{forgot, devicesAre(device("/dev/a", true), device("/dev/b", true), device("/dev/lost", false))}, "TTTTTTT", v1alpha1.ReasonReady},
		"and one that it names":               {[]edit{forgot, devicesAre(device("/dev/a", true), device("/dev/b", false), device("/dev/lost", false))}, "TTTTTFF EnableDevice:/dev/b", v1alpha1.ReasonStepTaken},
		"one is disabled that it never named": {[]edit{devicesAre(device("/dev/a", true), device("/dev/b", true), device("/dev/lost", false))}, "TTTTTFF EnableDevice:/dev/lost", v1alpha1.ReasonStepTaken},
		"one is disabled":                     {[]edit{devicesAre(device("/dev/a", true), device("/dev/b", false))}, "TTTTTFF EnableDevice:/dev/b", v1alpha1.ReasonStepTaken},
		"G7: maintenance": {
			[]edit{state(true, true, true, false)},
			"TTTTTFF DisableDevice:/dev/a DisableDevice:/dev/b",
			v1alpha1.ReasonDeviceDisabled,
		},
		"G7: maintenance goes on":              {[]edit{state(true, true, true, false), devicesAre(device("/dev/a", false), device("/dev/b", false))}, "TTTTTFF", v1alpha1.ReasonDeviceDisabled},
		"G7: maintenance ends":                 {[]edit{devicesAre(device("/dev/a", false), device("/dev/b", false))}, "TTTTTFF EnableDevice:/dev/a EnableDevice:/dev/b", v1alpha1.ReasonStepTaken},
		"A7: it is being emptied":              {[]edit{state(true, true, false, true), devicesAre(device("/dev/a", true))}, "TTTTTFF DisableDevice:/dev/a", v1alpha1.ReasonDeviceDisabled},
		"A7: its server is down":               {[]edit{state(false, true, false, true), func(f *Facts) { f.Workload = gluster.No }}, "TTFUUUF DisableDevice:/dev/a DisableDevice:/dev/b", v1alpha1.ReasonPending},
		"nothing is registered while offline":  {[]edit{state(false, true, false, false), devicesAre(device("/dev/a", false))}, "TTTTTFF", v1alpha1.ReasonPending},
		"A19: an external one":                 {[]edit{func(f *Facts) { f.Node.Spec.External = &v1alpha1.GlusterExternal{} }}, "TTT", v1alpha1.ReasonReady},
		"A19: an external one does not answer": {[]edit{func(f *Facts) { f.Node.Spec.External, f.Workload = &v1alpha1.GlusterExternal{}, gluster.No }}, "TFF", v1alpha1.ReasonPeerDown},
		"A19: nobody knows": {[]edit{func(f *Facts) {
			f.Node.Spec.External, f.Workload = &v1alpha1.GlusterExternal{}, gluster.Unknown
		}, state(false, true, true, true)}, "TUU", v1alpha1.ReasonPoolUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			f := scene()
			for _, e := range row.edits {
				e(f)
			}
			p := Reconcile(*f)
			ready := p.Conditions[len(p.Conditions)-1]
			if p.String() != row.want || ready.Reason != row.reason || ready.Type != v1alpha1.ConditionReady {
				t.Errorf("got %q, %s; want %q, %s", p, ready.Reason, row.want, row.reason)
			}
			if (p.Message == "") != (ready.Status == metav1.ConditionTrue) {
				t.Errorf("message %q while Ready is %s", p.Message, ready.Status)
			}
			for _, c := range p.Conditions {
				if c.Message == "" || c.Reason == "" {
					t.Errorf("says too little: %+v", c)
				}
			}
		})
	}
}

func space(free, total uint64) gluster.Space { return gluster.Space{Free: free, Total: total} }

func TestGetFreeSpace(t *testing.T) {
	f := scene()
	for name, row := range map[string]struct {
		devices  *[]gluster.Device
		declared []string
		want     gluster.Space
		fails    string
	}{
		"G8: the sum":                    {f.Pool.Devices, f.Devices, space(120, 200), ""},
		"G8: of enabled ones":            {&[]gluster.Device{device("/dev/a", true), device("/dev/b", false)}, f.Devices, space(60, 100), ""},
		"no list":                        {nil, nil, gluster.Space{}, "does not tell"},
		"a device is missing":            {f.Pool.Devices, []string{"/dev/a", "/dev/c"}, gluster.Space{}, "/dev/c is not registered"},
		"more free than there is (a081)": {&[]gluster.Device{{Peer: "me", Path: "/d", Free: 2, Total: 1, Enabled: true}}, nil, gluster.Space{}, "more is free"},
		"beyond 64 bits":                 {&[]gluster.Device{{Peer: "me", Path: "/d", Total: 1<<64 - 1, Enabled: true}, device("/e", true)}, nil, gluster.Space{}, "cannot be"},
		"large":                          {&[]gluster.Device{{Peer: "me", Path: "/d", Free: 1 << 63, Total: 1 << 63, Enabled: true}}, nil, space(1<<63, 1<<63), ""},
	} {
		got, err := GetFreeSpace(gluster.Pool{Devices: row.devices}, "me", row.declared)
		if got != row.want || (err != nil) != (row.fails != "") || err != nil && !strings.Contains(err.Error(), row.fails) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestSpeaker(t *testing.T) {
	at := func(h int) time.Time { return time.Date(2030, 1, 1, h, 0, 0, 0, time.UTC) }
	one := func(name string, h int, joined bool, answer gluster.Answer) Candidate {
		return Candidate{Name: name, Created: at(h), Joined: joined, Answer: answer}
	}
	condemned := func(c Candidate) Candidate { c.Condemned = true; return c }
	for name, row := range map[string]struct {
		all    []Candidate
		want   string
		begins bool
	}{
		"nobody":                                   {nil, "", false},
		"the oldest begins":                        {[]Candidate{one("b", 2, false, gluster.Yes), one("a", 1, false, gluster.Yes)}, "a", true},
		"of one age, the first by name":            {[]Candidate{one("b", 1, false, gluster.Yes), one("a", 1, false, gluster.Yes)}, "a", true},
		"while it is silent, nobody does":          {[]Candidate{one("a", 1, false, gluster.No), one("b", 2, false, gluster.Yes)}, "", true},
		"nor while nobody knows":                   {[]Candidate{one("a", 1, false, gluster.Unknown), one("b", 2, false, gluster.Yes)}, "", true},
		"one that leaves begins nothing":           {[]Candidate{condemned(one("a", 1, false, gluster.Yes)), one("b", 2, false, gluster.Yes)}, "b", true},
		"a member speaks, not the oldest":          {[]Candidate{one("a", 1, false, gluster.Yes), one("b", 2, true, gluster.Yes)}, "b", false},
		"a silent member, and no other may speak":  {[]Candidate{one("a", 1, false, gluster.Yes), one("b", 2, true, gluster.No)}, "", false},
		"a member that stays speaks":               {[]Candidate{condemned(one("a", 1, true, gluster.Yes)), one("b", 2, true, gluster.Yes)}, "b", false},
		"one that leaves speaks if it is the last": {[]Candidate{condemned(one("a", 1, true, gluster.Yes)), one("b", 2, true, gluster.No)}, "a", false},
	} {
		got, begins := Speaker(row.all)
		if got != row.want || begins != row.begins && got != "" {
			t.Errorf("%s: %q, %t", name, got, begins)
		}
		if awaited, want := Awaited(row.all), map[bool]string{true: "a"}[row.begins && row.want == ""]; awaited != want {
			t.Errorf("%s: waits for %q, want %q", name, awaited, want)
		}
	}
}

// TestRegistered: a list that could not be read says of no device that glusterd2 has it.
func TestRegistered(t *testing.T) {
	f := scene()
	devicesAre(device("/dev/a", true))(f)
	peer := gluster.PeerOf(f.Node)
	if !Registered(f.Pool, peer, []string{"/dev/a"}) || Registered(f.Pool, peer, []string{"/dev/a", "/dev/b"}) || Registered(f.Pool, "another", []string{"/dev/a"}) || Registered(gluster.Pool{}, peer, nil) {
		t.Error("what is registered is not what the pool lists")
	}
	if Unregistered(f.Pool, peer, "/dev/a") || !Unregistered(f.Pool, peer, "/dev/b") || !Unregistered(f.Pool, "another", "/dev/a") || Unregistered(gluster.Pool{}, peer, "/dev/b") || Unregistered(f.Pool, "", "/dev/b") {
		t.Error("what is known not to be registered is what the pool lists, or what nobody knows")
	}
}

// TestReconcile_diskGone: what became of a disk is told with its path on the machine, and what becomes of its bricks, even while no server runs for want of it.
func TestReconcile_diskGone(t *testing.T) {
	const gone, bricks = "/dev/disk/by-id/b: it is gone.", "The bricks there are down"
	f := scene()
	lacks(f)
	devicesAre(device("/dev/a", true), device("/dev/b", false))(f)
	if got := Reconcile(*f).Message; !strings.HasPrefix(got, gone+" "+bricks) {
		t.Errorf("got %q", got)
	}
	contested := f.Unfit["/dev/b"]
	contested.Contested = true
	f.Unfit["/dev/b"] = contested
	if got := Reconcile(*f).Message; got != gone {
		t.Errorf("bricks are called down on a disk that is there: %q", got)
	}
	lacks(f)
	if f.Unfit["/dev/b"].Contested {
		t.Error("the disk is gone, and contested")
	}
	devicesAre(device("/dev/a", true))(f)
	f.Barred = barred
	if got := Reconcile(*f).Message; got != gone {
		t.Errorf("bricks are told of that never were: %q", got)
	}
	f.Workload = gluster.No
	if got := Reconcile(*f).Message; !strings.Contains(got, gone) {
		t.Errorf("got %q", got)
	}
}

// TestPlan_refuse: a device that the last look kept from being registered is told as refused, and not as a step that was taken.
func TestPlan_refuse(t *testing.T) {
	f := scene()
	for _, e := range []edit{disks(metav1.ConditionTrue, true), devicesAre()} {
		e(f)
	}
	p := Reconcile(*f)
	p.Refuse(v1alpha1.ReasonDeviceRefused, "glusterd2 is not told of it: it is open.")
	for _, c := range p.Conditions {
		if refused := c.Type == v1alpha1.ConditionDevicesReady || c.Type == v1alpha1.ConditionReady; refused != (c.Reason == v1alpha1.ReasonDeviceRefused && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, "it is open")) {
			t.Errorf("%+v", c)
		}
	}
	if p.Message != "glusterd2 is not told of it: it is open." {
		t.Errorf("%q", p.Message)
	}
}
