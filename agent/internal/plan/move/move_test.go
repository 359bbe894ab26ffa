package move

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"quarry.storage/quarry/agent/internal/plan"
)

const owner = "uid-a"

func scene(edits ...func(*plan.Group)) plan.Snapshot {
	g := plan.Group{
		Name: "g", UUID: "u", OwnerUID: owner, Access: plan.AccessOwn, ExtentBytes: 4 << 20,
		PVs: []plan.PV{
			{Path: "/dev/a", UUID: "p1", SizeBytes: 100, FreeBytes: 40},
			{Path: "/dev/b", UUID: "p2", SizeBytes: 100, FreeBytes: 50},
			{Path: "/dev/c", UUID: "p3", SizeBytes: 100, FreeBytes: 100},
		},
	}
	for _, edit := range edits {
		edit(&g)
	}
	return plan.Snapshot{Groups: []plan.Group{g}, Devices: []plan.Device{
		{Path: "/dev/a", PVUUID: "p1", Serial: "A", SizeBytes: 1}, {Path: "/dev/b", PVUUID: "p2"}, {Path: "/dev/c", PVUUID: "p3"}, {Path: "/dev/z"},
	}}
}

func moving(from string, bytes int64) func(*plan.Group) {
	return func(g *plan.Group) { g.Moving = &plan.Moving{FromUUID: from, Bytes: bytes} }
}

func oldDevice(g *plan.Group) {
	g.LogicalVolumes = []plan.Volume{{Name: "lv-1", Stale: true, Open: true}}
}

func TestNext(t *testing.T) {
	id := plan.Identity{Path: "/dev/a", Serial: "A", SizeBytes: 1}
	for name, c := range map[string]struct {
		edit    func(*plan.Group)
		want    Spec
		to      string // devices that extents are moved to; "go on" for a move that is finished, "" for nothing
		err     error
		because string
	}{
		"to all others":                     {to: "/dev/b /dev/c"},
		"not to one that is retired too":    {want: Spec{Avoid: []string{"/dev/b"}}, to: "/dev/c"},
		"nothing is on it":                  {edit: func(g *plan.Group) { g.PVs[0].FreeBytes = 100 }},
		"no room":                           {want: Spec{Avoid: []string{"/dev/c"}}, err: plan.ErrNoRoom, because: "10 are short"},
		"a move was cut off":                {edit: moving("p1", 4), to: "go on"},
		"a move of another device was":      {edit: moving("p2", 4), err: plan.ErrMoving},
		"a person's move of it was":         {edit: moving("p1", plan.SliceBytes+1), err: plan.ErrMoving, because: "a person began it"},
		"a device is missing":               {edit: func(g *plan.Group) { g.Partial = true }, err: plan.ErrPartial},
		"a volume leads to a lost disk":     {edit: oldDevice, err: plan.ErrPartial, because: "lv-1"},
		"it does, and a move was cut off":   {edit: func(g *plan.Group) { oldDevice(g); moving("p1", 4)(g) }, err: plan.ErrPartial},
		"a thin pool is in the group":       {edit: func(g *plan.Group) { g.Pools = []plan.Pool{{Name: "p"}} }, err: plan.ErrThinPool},
		"another disk is in its place":      {want: Spec{Device: plan.Identity{Path: "/dev/a", Serial: "B", SizeBytes: 1}}, err: plan.ErrMismatch},
		"the device is not in the group":    {want: Spec{Device: plan.Identity{Path: "/dev/z"}}, err: plan.ErrNotFound},
		"the device is not there":           {want: Spec{Device: plan.Identity{Path: "/dev/y"}}, err: plan.ErrNotFound},
		"the group is somebody else's":      {edit: func(g *plan.Group) { g.OwnerUID = "x" }, err: plan.ErrNotOurs},
		"the group is another node's":       {edit: func(g *plan.Group) { g.Access, g.SystemID = plan.AccessOther, "quarry-x" }, err: plan.ErrOtherNode},
		"the group is unknown on this node": {edit: func(g *plan.Group) { g.Name = "other" }, err: plan.ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			s := scene()
			if c.edit != nil {
				s = scene(c.edit)
			}
			c.want.Group, c.want.OwnerUID = "g", owner
			if c.want.Device.Path == "" {
				c.want.Device = id
			}
			p, err := Next(s, c.want)
			if !errors.Is(err, c.err) || err != nil && !strings.Contains(err.Error(), c.because) {
				t.Fatalf("got %v, want %v because %q", err, c.err, c.because)
			}
			got := ""
			for _, step := range p.Steps {
				e := step.(Extents)
				if got = strings.Join(e.To, " "); e.GoOn {
					got = "go on"
				}
				if e.Device != "/dev/a" || e.Most != 64 || len(e.GroupDevices) != 3 {
					t.Errorf("%+v", e)
				}
			}
			if got != c.to {
				t.Errorf("got %q, want %q", got, c.to)
			}
		})
	}
}

// TestFinish: what was cut off is finished, unless a person began it.
func TestFinish(t *testing.T) {
	for name, c := range map[string]struct {
		edits []func(*plan.Group)
		want  bool
	}{
		"nothing":             {},
		"ours":                {[]func(*plan.Group){moving("p2", plan.SliceBytes)}, true},
		"a person's":          {[]func(*plan.Group){moving("p2", plan.SliceBytes+1)}, false},
		"nobody knows whence": {[]func(*plan.Group){moving("", 1)}, false},
		"a device is missing": {[]func(*plan.Group){moving("p2", 1), func(g *plan.Group) { g.Partial = true }}, false},
		"a stale volume":      {[]func(*plan.Group){moving("p2", 1), oldDevice}, false},
		"another node's":      {[]func(*plan.Group){moving("p2", 1), func(g *plan.Group) { g.Access = plan.AccessOther }}, false},
	} {
		t.Run(name, func(t *testing.T) {
			steps := Finish(scene(c.edits...), "u").Steps
			for _, s := range steps {
				if to := s.(Extents).To; !slices.Equal(to, []string{"/dev/a", "/dev/c"}) {
					t.Errorf("to %v", to)
				}
			}
			if slices.ContainsFunc(steps, func(s plan.Step) bool { return s.(Extents).GoOn && s.(Extents).Device == "/dev/b" }) != c.want {
				t.Errorf("%v", steps)
			}
		})
	}
}

// TestLeft: whoever reads why a move is left alone knows what to do about it. What the agent ends by itself is not among it.
func TestLeft(t *testing.T) {
	partial := func(g *plan.Group) { g.Partial = true }
	gone := func(g *plan.Group) { g.Partial, g.PVs[1].Path = true, "" }
	for name, c := range map[string]struct {
		edits []func(*plan.Group)
		from  string
		why   string
	}{
		"nothing is moved":                        {},
		"the agent ends it":                       {[]func(*plan.Group){moving("p2", plan.SliceBytes)}, "/dev/b", ""},
		"a person's":                              {[]func(*plan.Group){moving("p2", plan.SliceBytes+1)}, "/dev/b", "off /dev/b is larger than any that the agent begins, so that a person began it, and it is left alone: look at what lies where, then finish it by hand with pvmove"},
		"nobody knows whence":                     {[]func(*plan.Group){moving("", 1)}, "", "LVM does not say off which device, so the agent leaves the move alone: look at what lies where"},
		"its device is not the group's":           {[]func(*plan.Group){moving("p9", 1)}, "", "LVM does not say off which device"},
		"its device is missing":                   {[]func(*plan.Group){moving("p2", 1), gone}, "", "the device that they are moved off is missing; once it is back the move is finished. If it is gone for ever, LVM can neither finish"},
		"another device is missing":               {[]func(*plan.Group){moving("p2", 1), partial}, "/dev/b", "a device of the group is missing; the move is finished once it is back or"},
		"nobody knows whence, and one is missing": {[]func(*plan.Group){moving("", 1), gone}, "", "a device of the group is missing"},
		"a stale volume":                          {[]func(*plan.Group){moving("p2", 1), oldDevice}, "/dev/b", "the move off /dev/b waits until whoever has lv-1 open ends"},
	} {
		t.Run(name, func(t *testing.T) {
			s := scene(c.edits...)
			g := s.Groups[0]
			if got := g.MoveLeft(); (got == "") != (c.why == "") || !strings.Contains(got, c.why) {
				t.Errorf("got %q, want %q", got, c.why)
			}
			if got := g.MovingFrom(); got != c.from {
				t.Errorf("from %q, want %q", got, c.from)
			}
			if steps := Finish(s, "u").Steps; g.Moving != nil && (len(steps) > 0) != (c.why == "") {
				t.Errorf("steps %v beside %q", steps, c.why)
			}
		})
	}
}

// TestFinish_emptied: what a move left goes, unless a move is under way, or LVM may not be told.
func TestFinish_emptied(t *testing.T) {
	left := func(g *plan.Group) { g.Emptied = "pvmove0" }
	for name, c := range map[string]struct {
		edits []func(*plan.Group)
		want  string
	}{
		"it is left":                          {[]func(*plan.Group){left}, "remove pvmove0 from group g"},
		"beside a volume that leads nowhere":  {[]func(*plan.Group){left, oldDevice}, "remove pvmove0 from group g"},
		"while a move was cut off":            {[]func(*plan.Group){left, moving("p2", 1)}, "finish the move of extents off /dev/b in group g"},
		"while a device is missing":           {[]func(*plan.Group){left, func(g *plan.Group) { g.Partial = true }}, ""},
		"in a group of another node":          {[]func(*plan.Group){left, func(g *plan.Group) { g.Access = plan.AccessOther }}, ""},
		"in a group that somebody else named": {[]func(*plan.Group){left, func(g *plan.Group) { g.UUID = "other" }}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, s := range Finish(scene(c.edits...), "u").Steps {
				got += s.String()
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
