package randomtest

import "testing"

// kept are lists of events that once showed that something is wrong, or that are rare. Every run of the tests plays them. What a failure prints goes in
// here with the change that mends it.
var kept = map[string]struct {
	events []event
	// shows is how often the list lets something rare happen, which has to be at least once; nil for one that was kept for what it found.
	shows func(*world) int
}{
	"a moved group becomes another node's": {shows: func(w *world) int { return w.imported }, events: []event{
		{"cluster made", 906735064787637301},
		{"claim", 11123849603918711356},
		{"time passes", 3217028842766438716},
		{"group moves", 12516620335657352906},
		{"cluster made", 4131072080489313015},
		{"group moves", 1851706214438896010},
		{"time passes", 16465929514406900247},
		{"approve", 1734166519525068940},
	}},
	"a disk with a volume is given up, and leaves its group": {shows: func(w *world) int { return w.gaveUp }, events: []event{
		{"time passes", 7064455622548104364},
		{"cluster made", 10019829038793350243},
		{"claim", 13393736271487152055},
		{"disk retired", 2555590720361524179},
	}},
	"a snapshot, and copies of it and of a volume": {shows: func(w *world) int { return min(w.snapped, w.copied-1) }, events: []event{
		{"cluster made", 8827938555021703040},
		{"claim", 2824058093567332606},
		{"claim", 17037888426125017704},
		{"time passes", 8367594546237892474},
		{"copy", 18424337746633840240},
		{"claim", 1235940500636738605},
		{"claim", 14396230179424014845},
		{"claim", 854484376601930305},
		{"copy", 6623277383748204523},
		{"snapshot", 7535105373497243449},
	}},
	"a copy of a volume on a node that leaves": {events: []event{
		{"cluster made", 6922959927400447589},
		{"look fails", 13260895564361780803},
		{"claim", 9985592096614967263},
		{"copy", 17930212181548011342},
		{"hosts change", 1050847358644087393},
	}},
	// The disk that comes back was away while the group was made. It says that the group has no volumes, and the disks with the volumes are in another node.
	"a disk of before is all that is left of a group": {events: []event{
		{"cluster made", 184603710531420398},
		{"agent dies after a step", 1180113550977099117},
		{"devices change", 8665020084522884836},
		{"disk vanishes", 10463593693549278987},
		{"claim", 5764668230806811175},
		{"claim", 13177564463636290028},
		{"disk vanishes", 12623995424169455975},
		{"approve", 5802892649031073178},
		{"disk given up", 15472832923168413817},
		{"group moves", 1378857707164910527},
		{"claim deleted", 8178800192164284946},
	}},
	// The node comes back after its Member is gone: what it holds is nobody's, and nothing is done to it.
	"a node with a volume is declared lost": {shows: func(w *world) int { return min(w.buried, w.forsaken) }, events: []event{
		{"cluster made", 3201617261960746403},
		{"cluster made", 202256601238988516},
		{"claim", 4312670974448789654},
		{"claim", 12509909317974730198},
		{"disk returns", 8345486871085167310},
		{"agent dies", 3489251199328078383},
		{"node declared lost", 8817692741264467679},
	}},
}

func TestKept(t *testing.T) {
	for name, k := range kept {
		t.Run(name, func(t *testing.T) {
			var w *world
			played, found := play(t, k.events, func(is *world) { w = is })
			if found != nil {
				t.Fatalf("event %d of %d: %v", played, len(k.events), found)
			}
			if k.shows != nil && k.shows(w) < 1 {
				t.Error("the list does not show that any more")
			}
		})
	}
}

// TestFixed plays some worlds that show much within seconds. `make random` plays many more.
func TestFixed(t *testing.T) {
	moving := []string{"cluster made", "claim", "group moves", "group returns", "approve", "time passes", "pod ends", "agent dies", "agent starts"}
	carried := 0
	for name, events := range map[string][]event{
		"everything":             generate(1, 120),
		"everything, once more":  generate(2, 120),
		"groups move and return": generate(24, 80, moving...),
		// A group becomes another node's, and goes back to the first one without anybody's approval.
		"a moved group moves on": generate(25, 80, moving...),
		"disks are given up":     generate(1, 80, "cluster made", "claim", "disk retired", "disk added", "time passes", "agent dies after a step", "agent starts"),
		"copies and snapshots":   generate(5, 80, "cluster made", "claim", "snapshot", "copy", "snapshot deleted", "claim deleted", "time passes", "agent dies after a step", "agent starts"),
		"nodes are given up":     generate(5, 80, "cluster made", "claim", "node declared lost", "agent dies", "agent starts", "disk vanishes", "disk returns", "time passes"),
	} {
		t.Run(name, func(t *testing.T) {
			var w *world
			if played, found := play(t, events, func(is *world) { w = is }); found != nil {
				t.Errorf("event %d of %d: %v\nevents:\n%s", played, len(events), found, list(events[:played]))
			}
			carried += w.carried
		})
	}
	if carried == 0 {
		t.Error("no group was moved")
	}
}
