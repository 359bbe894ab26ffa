package randomtest

import "testing"

// kept are lists of events that once showed that something is wrong, or that are rare. Every run of the tests plays them. What a failure prints goes in
// here with the change that mends it.
var kept = map[string]struct {
	events []event
	// imports is true if a group with a volume is to become another node's by approval.
	imports bool
}{
	"a moved group becomes another node's": {imports: true, events: []event{
		{"cluster made", 906735064787637301},
		{"claim", 11123849603918711356},
		{"time passes", 3217028842766438716},
		{"group moves", 12516620335657352906},
		{"cluster made", 4131072080489313015},
		{"group moves", 1851706214438896010},
		{"time passes", 16465929514406900247},
		{"approve", 1734166519525068940},
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
			if k.imports && w.imported == 0 {
				t.Error("no group became another node's: the list does not show that any more")
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
