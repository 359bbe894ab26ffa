package gluster

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func ago(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-d)} }

// node is one that was seen up, or down, and its state is known.
func node(up bool) *v1alpha1.GlusterNode {
	return &v1alpha1.GlusterNode{
		ObjectMeta: metav1.ObjectMeta{UID: "me"},
		Status:     v1alpha1.GlusterNodeStatus{Flags: &v1alpha1.MemberFlags{IsUp: up}},
	}
}

func sight(online Answer, data nodestate.Data) Sight {
	return Sight{Online: online, Answers: online, Data: data, Started: now.Add(-24 * time.Hour), Now: now}
}

func volumeOn(peers ...string) Volume {
	v := Volume{Name: "v", Started: true}
	for i, p := range peers {
		v.Subvolumes = append(v.Subvolumes, Subvolume{Kind: Distribute, Bricks: []Brick{{ID: string(rune('a' + i)), Peer: p}}})
	}
	return v
}

// TestData has G6, and what A9 says of what cannot be determined.
func TestData(t *testing.T) {
	none := &[]Volume{}
	on := func(peers ...string) *[]Volume { return &[]Volume{volumeOn(peers...)} }
	cut := &[]Volume{{Name: "cut"}}
	for name, row := range map[string]struct {
		volumes, snapshots *[]Volume
		want               nodestate.Data
		bricks             int
	}{
		"G6: no volumes at all":               {none, none, nodestate.DataAbsent, 0},
		"G6: bricks of others only":           {on("b", "c"), none, nodestate.DataAbsent, 0},
		"G6: a brick in the second subvolume": {on("b", "me"), none, nodestate.DataPresent, 1},
		"G6: no list":                         {nil, none, nodestate.DataUnknown, 0},
		"a brick of a snapshot":               {on("b"), on("me", "me"), nodestate.DataPresent, 2},
		"no list of snapshots":                {none, nil, nodestate.DataUnknown, 0},
		"a brick, and no list of snapshots":   {on("me"), nil, nodestate.DataPresent, 1},
		"a volume without bricks":             {cut, none, nodestate.DataUnknown, 0},
		"a snapshot without bricks":           {none, cut, nodestate.DataUnknown, 0},
		"a brick without a peer":              {on(""), none, nodestate.DataUnknown, 0},
		"an ID in capital letters":            {on("ME"), none, nodestate.DataPresent, 1},
	} {
		data, holding, bricks := Pool{Volumes: row.volumes, Snapshots: row.snapshots, Named: &[]Named{}}.Data("me")
		if data != row.want || bricks != row.bricks || (len(holding) > 0) != (bricks > 0) {
			t.Errorf("%s: got %d, %v, %d bricks", name, data, holding, bricks)
		}
	}
	if data, _, _ := (Pool{Volumes: none, Snapshots: none, Named: &[]Named{}}).Data(""); data != nodestate.DataUnknown {
		t.Error("nobody knows who holds nothing")
	}
}

// TestData_named: a store that was put back lists no volume that a PersistentVolume names. What a node holds is unknown then, and never nothing (G31).
func TestData_named(t *testing.T) {
	named := func(all ...Named) *[]Named { return &all }
	v, w, block := Named{PersistentVolume: "pv-v", Volume: "v"}, Named{PersistentVolume: "pv-w", Volume: "w"}, Named{PersistentVolume: "pv-b", Volume: "b", Block: true}
	none, some := []Volume{}, []Volume{volumeOn("b", "c")}
	mine := []Volume{volumeOn("me")}
	for name, row := range map[string]struct {
		volumes []Volume
		named   *[]Named
		want    nodestate.Data
		doubt   string
	}{
		"none is named":                            {some, named(), nodestate.DataAbsent, ""},
		"all that are named are listed":            {some, named(v), nodestate.DataAbsent, ""},
		"one is not listed":                        {some, named(v, w), nodestate.DataUnknown, "PersistentVolume pv-w names the volume w"},
		"no volume is listed":                      {none, named(v), nodestate.DataUnknown, "PersistentVolume pv-v names the volume v"},
		"one is not listed, and a brick is seen":   {mine, named(w), nodestate.DataPresent, "pv-w"},
		"nobody could list them":                   {some, nil, nodestate.DataUnknown, "Nobody could list the PersistentVolumes"},
		"a block volume, and volumes that have it": {some, named(block), nodestate.DataAbsent, ""},
		"a block volume, and no volume":            {none, named(block), nodestate.DataUnknown, "block volume b"},
	} {
		p := Pool{Volumes: &row.volumes, Snapshots: &[]Volume{}, Named: row.named}
		if data, _, _ := p.Data("me"); data != row.want {
			t.Errorf("%s: %d, want %d", name, data, row.want)
		}
		if doubt := p.Doubt(); !strings.Contains(doubt, row.doubt) || (row.doubt == "") != (doubt == "") {
			t.Errorf("%s: %q", name, doubt)
		}
	}
	if _, unlisted := (Pool{Named: named(v)}).Unlisted(); unlisted != Unknown {
		t.Error("a list that could not be read lacks nothing")
	}
}

// TestStand_follows: isUp follows what glusterd2 says after a minute.
func TestStand_follows(t *testing.T) {
	for name, row := range map[string]struct {
		up      bool
		since   *metav1.Time
		sight   Sight
		wantUp  bool
		waiting bool
	}{
		"up stays up":                        {true, nil, sight(Yes, 0), true, false},
		"down stays down":                    {false, nil, sight(No, 0), false, false},
		"down for the first time":            {true, nil, sight(No, 0), true, true},
		"down for less than a minute":        {true, ago(59 * time.Second), sight(No, 0), true, true},
		"down for a minute":                  {true, ago(time.Minute), sight(No, 0), false, false},
		"up for less than a minute":          {false, ago(time.Second), sight(Yes, 0), false, true},
		"up for a minute":                    {false, ago(time.Minute), sight(Yes, 0), true, false},
		"a flap ends the time":               {true, ago(time.Minute), sight(Yes, 0), true, false},
		"nobody knows":                       {true, nil, sight(Unknown, 0), true, false},
		"nobody knows, which ends the time":  {true, ago(time.Hour), sight(Unknown, 0), true, false},
		"nobody knows of one that is down":   {false, ago(time.Hour), sight(Unknown, 0), false, false},
		"a time in the future begins anew":   {true, ago(-time.Hour), sight(No, 0), true, true},
		"nobody looked before this leader":   {true, ago(time.Hour), Sight{Online: No, Started: now.Add(-time.Second), Now: now}, true, true},
		"nobody speaks, its pod is down":     {true, nil, Sight{Silent: true, Answers: No, Started: now.Add(-time.Hour), Now: now}, true, true},
		"so it has been for a minute":        {true, ago(time.Minute), Sight{Silent: true, Answers: No, Started: now.Add(-time.Hour), Now: now}, false, false},
		"nobody speaks, its pod is there":    {true, ago(time.Hour), Sight{Silent: true, Started: now.Add(-time.Hour), Now: now}, true, false},
		"somebody speaks, and not of it":     {true, ago(time.Hour), Sight{Answers: No, Started: now.Add(-time.Hour), Now: now}, true, false},
		"nobody speaks, it answers itself":   {false, ago(time.Hour), Sight{Silent: true, Answers: Yes, Started: now.Add(-time.Hour), Now: now}, false, false},
		"and this leader looks for a minute": {true, ago(time.Hour), Sight{Online: No, Started: now.Add(-time.Minute), Now: now}, false, false},
	} {
		n := node(row.up)
		n.Status.OtherSince = row.since
		s := Stand(n, row.sight)
		if s.Flags.IsUp() != row.wantUp || (s.OtherSince != nil) != row.waiting || (s.Wake > 0) != row.waiting || s.Wake > Debounce {
			t.Errorf("%s: %+v", name, s)
		}
	}
	for online, want := range map[Answer]bool{Yes: true, No: false, Unknown: false} {
		if s := Stand(&v1alpha1.GlusterNode{}, sight(online, 0)); s.Flags.IsUp() != want {
			t.Errorf("a new node that is %s online: %+v", online, s)
		}
	}
}

// TestStand_transitions goes every way of the graph of states, and those that are none.
func TestStand_transitions(t *testing.T) {
	type step struct {
		what  string
		edit  func(*v1alpha1.GlusterNode)
		sight Sight
		want  nodestate.State
	}
	keep := func(*v1alpha1.GlusterNode) {}
	disable := func(n *v1alpha1.GlusterNode) { n.Spec.DesiredState = v1alpha1.GlusterDisabled }
	enable := func(n *v1alpha1.GlusterNode) { n.Spec.DesiredState = v1alpha1.GlusterEnabled }
	unset := func(n *v1alpha1.GlusterNode) { n.Spec.DesiredState = "" }
	remove := func(n *v1alpha1.GlusterNode) { n.DeletionTimestamp = ago(0) }
	isLost := func(n *v1alpha1.GlusterNode) { n.Spec.Lost = "me" }
	up, down := sight(Yes, nodestate.DataPresent), sight(No, nodestate.DataPresent)
	upEmpty, downEmpty, blind := sight(Yes, nodestate.DataAbsent), sight(No, nodestate.DataAbsent), sight(Unknown, nodestate.DataUnknown)
	for name, steps := range map[string][]step{
		"down and up":                   {{"begins", keep, up, nodestate.Online}, {"falls", keep, down, nodestate.Offline}, {"comes back", keep, up, nodestate.Online}},
		"maintenance while up":          {{"begins", keep, up, nodestate.Online}, {"disabled", disable, up, nodestate.Quiesced}, {"enabled", enable, up, nodestate.Online}},
		"maintenance while down":        {{"begins", keep, down, nodestate.Offline}, {"disabled", disable, down, nodestate.Quiesced}, {"not disabled any more", unset, down, nodestate.Offline}},
		"falls in maintenance":          {{"begins", disable, up, nodestate.Quiesced}, {"falls", keep, down, nodestate.Quiesced}, {"enabled", enable, down, nodestate.Offline}},
		"comes up in maintenance":       {{"begins", disable, down, nodestate.Quiesced}, {"comes up", keep, up, nodestate.Quiesced}, {"enabled", enable, up, nodestate.Online}},
		"deleted while up":              {{"begins", keep, up, nodestate.Online}, {"deleted", remove, up, nodestate.Failed}, {"emptied", keep, upEmpty, nodestate.Abandoned}},
		"deleted while down":            {{"begins", keep, down, nodestate.Offline}, {"deleted", remove, down, nodestate.Failed}, {"lost", isLost, down, nodestate.Abandoned}},
		"deleted in maintenance":        {{"begins", disable, up, nodestate.Quiesced}, {"deleted", remove, up, nodestate.Failed}, {"emptied", keep, upEmpty, nodestate.Abandoned}},
		"A10: deleted while empty":      {{"begins", keep, upEmpty, nodestate.Online}, {"deleted", remove, upEmpty, nodestate.Abandoned}},
		"A10: empty and down":           {{"begins", keep, downEmpty, nodestate.Offline}, {"deleted", remove, downEmpty, nodestate.Abandoned}},
		"A10: empty in maintenance":     {{"begins", disable, upEmpty, nodestate.Quiesced}, {"deleted", remove, upEmpty, nodestate.Abandoned}},
		"A10: data come back":           {{"begins", remove, upEmpty, nodestate.Abandoned}, {"data are seen", keep, up, nodestate.Failed}},
		"A9: nobody knows":              {{"begins", remove, upEmpty, nodestate.Abandoned}, {"nobody answers", keep, blind, nodestate.Failed}},
		"A6: maintenance is no failure": {{"begins", disable, down, nodestate.Quiesced}, {"still", keep, down, nodestate.Quiesced}},
	} {
		t.Run(name, func(t *testing.T) {
			n := &v1alpha1.GlusterNode{ObjectMeta: metav1.ObjectMeta{UID: "me"}}
			for _, one := range steps {
				one.edit(n)
				// A minute in which the same was seen has passed.
				n.Status.OtherSince = ago(Debounce)
				s := Stand(n, one.sight)
				if s.State() != one.want {
					t.Errorf("%s: %s, want %s", one.what, s.State(), one.want)
				}
				f := s.Flags
				n.Status.Flags = &v1alpha1.MemberFlags{IsUp: f.IsUp(), HasData: f.HasData(), ShouldQuiesce: f.ShouldQuiesce(), ShouldDestroy: f.ShouldDestroy()}
			}
		})
	}
}

func TestStand_dataOfMoves(t *testing.T) {
	n := node(true)
	n.DeletionTimestamp = ago(0)
	n.Spec.Move = &v1alpha1.GlusterMove{Brick: "b"}
	if s := Stand(n, sight(Yes, nodestate.DataAbsent)); s.State() != nodestate.Failed {
		t.Errorf("a brick that is not whole elsewhere is no data: %s", s.State())
	}
	n.Spec.Move.Whole = true
	if s := Stand(n, sight(Yes, nodestate.DataAbsent)); s.State() != nodestate.Abandoned {
		t.Errorf("a brick that is whole elsewhere is data: %s", s.State())
	}
	n.Annotations = map[string]string{v1alpha1.AnnotationPeerLeft: "me"}
	for data, want := range map[nodestate.Data]nodestate.State{
		nodestate.DataUnknown: nodestate.Abandoned, nodestate.DataAbsent: nodestate.Abandoned, nodestate.DataPresent: nodestate.Failed,
	} {
		if s := Stand(n, sight(Unknown, data)); s.State() != want {
			t.Errorf("one that left, with data %d: %s", data, s.State())
		}
	}
	n.Annotations[v1alpha1.AnnotationPeerLeft] = "another"
	if s := Stand(n, sight(Unknown, nodestate.DataUnknown)); s.State() != nodestate.Failed {
		t.Errorf("the record of another counts: %s", s.State())
	}
}

func TestStand_lost(t *testing.T) {
	for name, row := range map[string]struct {
		word            string
		up              bool
		online, answers Answer
		silent          bool
		want            bool
	}{
		"no word":                          {"", false, No, No, false, false},
		"the word about another":           {"you", false, No, No, false, false},
		"down":                             {"me", false, No, No, false, true},
		"online":                           {"me", false, Yes, No, false, false},
		"the server answers":               {"me", false, No, Yes, false, false},
		"down for less than a minute":      {"me", true, No, No, false, false},
		"nobody could ask":                 {"me", false, Unknown, Unknown, false, false},
		"the pool is silent, and so is it": {"me", true, Unknown, No, false, true},
		"nobody speaks for less than a minute, and its pod is down": {"me", true, Unknown, No, true, false},
		"nobody speaks for a minute, and its pod is down":           {"me", false, Unknown, No, true, true},
		"nobody speaks, and its pod is there":                       {"me", false, Unknown, Unknown, true, false},
		"the pool says so, nobody asked":                            {"me", false, No, Unknown, false, true},
	} {
		n := node(row.up)
		n.Spec.Lost = row.word
		s := Stand(n, Sight{Online: row.online, Answers: row.answers, Silent: row.silent, Data: nodestate.DataPresent, Started: now.Add(-time.Hour), Now: now})
		if s.Lost != row.want || (s.LostRefused != "") != (!row.want && row.word != "") {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestOverdue(t *testing.T) {
	hour := &metav1.Duration{Duration: time.Hour}
	heard := now.Add(-24 * time.Hour)
	for name, row := range map[string]struct {
		after *metav1.Duration
		state nodestate.State
		since *metav1.Time
		heard time.Time
		give  bool
		wake  time.Duration
	}{
		"off by default":          {nil, nodestate.Offline, ago(1000 * time.Hour), heard, false, 0},
		"for long enough":         {hour, nodestate.Offline, ago(time.Hour), heard, true, 0},
		"not for long enough":     {hour, nodestate.Offline, ago(time.Minute), heard, false, 59 * time.Minute},
		"maintenance":             {hour, nodestate.Quiesced, ago(1000 * time.Hour), heard, false, 0},
		"it is back":              {hour, nodestate.Online, ago(1000 * time.Hour), heard, false, 0},
		"nobody knows since when": {hour, nodestate.Offline, nil, heard, false, 0},
		"nobody spoke before":     {hour, nodestate.Offline, ago(1000 * time.Hour), now.Add(-time.Minute), false, 59 * time.Minute},
		"nobody speaks":           {hour, nodestate.Offline, ago(1000 * time.Hour), time.Time{}, false, 0},
	} {
		n := node(false)
		n.Status.OfflineSince = row.since
		if give, wake := Overdue(n, row.state, row.after, row.heard, now); give != row.give || wake != row.wake {
			t.Errorf("%s: %t, %s", name, give, wake)
		}
	}
	n := node(false)
	n.Status.OfflineSince, n.Spec.Storage = ago(1000*time.Hour), []v1alpha1.GlusterStorage{{Device: "/dev/disk/by-id/wwn-0x5"}}
	for _, joined := range []bool{false, true} {
		n.Status.Joined = joined
		if give, _ := Overdue(n, nodestate.Offline, hour, heard, now); give != joined {
			t.Errorf("a node with a disk of its machine, joined %t: %t", joined, give)
		}
	}
}

// wanderer is a node to which things happen.
type wanderer struct {
	t               *testing.T
	rand            *rand.Rand
	node            *v1alpha1.GlusterNode
	clock, changed  time.Time
	online, answers Answer
	silent          bool
	data            nodestate.Data
	last            nodestate.State
	seen            map[[2]nodestate.State]bool
}

// happen changes what is seen, or wanted.
func (w *wanderer) happen() {
	w.clock = w.clock.Add(time.Duration(1+w.rand.IntN(30)) * time.Second)
	if w.rand.IntN(6) == 0 {
		w.online = Answer(w.rand.IntN(3))
		w.silent, w.answers = w.online == Unknown && w.rand.IntN(2) == 0, Answer(w.rand.IntN(3))
	}
	if w.rand.IntN(20) == 0 {
		w.data = nodestate.Data(w.rand.IntN(3))
	}
	switch w.rand.IntN(100) {
	case 0, 1:
		w.node.Spec.DesiredState = v1alpha1.GlusterDisabled
	case 2, 3:
		w.node.Spec.DesiredState = v1alpha1.GlusterEnabled
	case 4:
		w.node.DeletionTimestamp = &metav1.Time{Time: w.clock}
	}
}

// look decides, and checks what was decided.
func (w *wanderer) look() {
	s := Stand(w.node, Sight{Online: w.online, Answers: w.answers, Silent: w.silent, Data: w.data, Started: now, Now: w.clock})
	if old := w.node.Status.Flags; old != nil && old.IsUp != s.Flags.IsUp() {
		if w.clock.Sub(w.changed) < Debounce {
			w.t.Fatalf("isUp changes after %s", w.clock.Sub(w.changed))
		}
		w.changed = w.clock
	}
	state := s.State()
	if deleted := w.node.DeletionTimestamp != nil; deleted != (state == nodestate.Failed || state == nodestate.Abandoned) {
		w.t.Fatalf("deleted %t, and %s", deleted, state)
	}
	if state == nodestate.Abandoned && w.data != nodestate.DataAbsent {
		w.t.Fatalf("abandoned with data %d", w.data)
	}
	if w.last != state {
		w.seen[[2]nodestate.State{w.last, state}] = true
	}
	w.last = state
	w.node.Status.Flags, w.node.Status.OtherSince = &v1alpha1.MemberFlags{IsUp: s.Flags.IsUp()}, s.OtherSince
}

// TestStand_random: whatever is seen, a deleted node stays so, data that nobody can look for are data, and the flag isUp never changes twice in a minute.
func TestStand_random(t *testing.T) {
	seen := map[[2]nodestate.State]bool{}
	for seed := range uint64(200) {
		w := wanderer{
			t: t, rand: rand.New(rand.NewPCG(seed, 4)), seen: seen, online: Yes, data: nodestate.DataPresent, //nolint:gosec // No secret.
			node: &v1alpha1.GlusterNode{ObjectMeta: metav1.ObjectMeta{UID: "me"}}, clock: now, changed: now.Add(-time.Hour),
		}
		for range 300 {
			w.happen()
			w.look()
		}
	}
	const up, down, quiet, failed, abandoned = nodestate.Online, nodestate.Offline, nodestate.Quiesced, nodestate.Failed, nodestate.Abandoned
	for _, edge := range [][2]nodestate.State{
		{up, down},
		{down, up},
		{up, quiet},
		{quiet, up},
		{down, quiet},
		{quiet, down},
		{up, failed},
		{down, failed},
		{quiet, failed},
		{failed, abandoned},
		{abandoned, failed},
	} {
		if !seen[edge] {
			t.Errorf("never seen: %s to %s", edge[0], edge[1])
		}
	}
}
