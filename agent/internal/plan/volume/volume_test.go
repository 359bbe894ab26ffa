package volume

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/agent/internal/plan"
)

const (
	mb       = 1 << 20
	me       = "uid-me"
	somebody = "uid-somebody"
)

// lines are the steps of a plan as text.
func lines(p plan.Plan) []string {
	var out []string
	for _, s := range p.Steps {
		out = append(out, s.String())
	}
	return out
}

// stocked is a group of mine of 1000 MiB, with a linear volume of 100 MiB, a thin pool of 400 MiB, two thin volumes and a snapshot
// in it, and a volume that is nobody's.
func stocked() plan.Group {
	return plan.Group{
		Name: "vg", UUID: "vg", OwnerUID: me, SizeBytes: 1000 * mb, FreeBytes: 300 * mb, ExtentBytes: 4 * mb,
		PVs: []plan.PV{{Path: "/dev/a", UUID: "pv", SizeBytes: 1000 * mb, FreeBytes: 300 * mb}},
		LogicalVolumes: []plan.Volume{
			{Name: "clone", ID: "id-clone", SizeBytes: 200 * mb, Pool: "pool", Source: "thin", Active: true},
			{Name: "lin", ID: "id-lin", SizeBytes: 100 * mb, Active: true, New: true},
			{Name: "open", ID: "id-open", SizeBytes: 8 * mb, Active: true, Open: true},
			{Name: "other", SizeBytes: 4 * mb},
			{Name: "snap", ID: "id-snap", SizeBytes: 200 * mb, Pool: "pool", Source: "thin", Snapshot: true},
			{Name: "thin", ID: "id-thin", SizeBytes: 200 * mb, Pool: "pool", Active: true},
		},
		Pools: []plan.Pool{
			{Name: "alien", SizeBytes: 40 * mb},
			{Name: "pool", Ours: true, SizeBytes: 400 * mb, MetadataBytes: 4 * mb, VirtualBytes: 600 * mb, Volumes: 3, Active: true},
		},
	}.Named()
}

func volume(name string, mib int64, edit ...func(*Spec)) Spec {
	w := Spec{Group: "vg", OwnerUID: me, Name: name, ID: "id-" + name, SizeBytes: mib * mb}
	for _, e := range edit {
		e(&w)
	}
	return w
}

// volumeCase is one row of the tables: what the plan does, or why it does nothing.
type volumeCase struct {
	group   func(*plan.Group)
	want    Spec
	steps   []string
	err     error
	because string
}

func checkVolumes(t *testing.T, decide Decide, tests map[string]volumeCase) {
	t.Helper()
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g := stocked()
			if tt.group != nil {
				tt.group(&g)
			}
			p, err := decide(plan.Snapshot{Groups: []plan.Group{g}, ForeignGroups: []string{"foreign"}}, tt.want)
			if !errors.Is(err, tt.err) || err != nil && !strings.Contains(err.Error(), tt.because) {
				t.Fatalf("got %v, want %v because %q", err, tt.err, tt.because)
			}
			if diff := cmp.Diff(tt.steps, lines(p.Plan)); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			for _, s := range p.Steps {
				if s.Why() == "" {
					t.Errorf("%s has no reason", s)
				}
				if diff := cmp.Diff([]string{"/dev/a"}, s.Touches()); diff != "" {
					t.Errorf("%s touches other devices than those of its group:\n%s", s, diff)
				}
			}
		})
	}
}

func TestCreateVolume(t *testing.T) {
	thin := func(w *Spec) { w.Pool = "pool" }
	from := func(source string) func(*Spec) { return func(w *Spec) { w.Source = source } }
	snapshot := func(w *Spec) { w.Snapshot = true }
	limit := func(percent int32) func(*Spec) { return func(w *Spec) { w.OverprovisionPercent = percent } }
	bytes := func(n int64) func(*Spec) { return func(w *Spec) { w.SizeBytes = n } }
	id := func(text string) func(*Spec) { return func(w *Spec) { w.ID = text } }
	checkVolumes(t, Create, map[string]volumeCase{
		"a linear volume is rounded up to extents": {
			want: volume("n", 0, bytes(100*mb+1)), steps: []string{"create volume vg/n of 109051904 bytes"},
		},
		"one that takes all the room fits":  {want: volume("n", 300), steps: []string{"create volume vg/n of 314572800 bytes"}},
		"one that takes an extent more not": {want: volume("n", 0, bytes(300*mb+1)), err: plan.ErrNoRoom, because: "has 314572800 of 1048576000 bytes free"},
		"a size that cannot be counted":     {want: volume("n", 0, bytes(math.MaxInt64)), err: plan.ErrNoRoom},
		"the same again":                    {want: volume("lin", 100)},
		"the same, rounded to the same":     {want: volume("lin", 0, bytes(96*mb+1))},
		"the same, smaller":                 {want: volume("lin", 96), err: plan.ErrAlreadyExists, because: "has 104857600 bytes"},
		"the same, larger":                  {want: volume("lin", 104), err: plan.ErrAlreadyExists, because: "has 104857600 bytes"},
		"the name of another id":            {want: volume("lin", 100, id("x")), err: plan.ErrAlreadyExists, because: `has the id "id-lin"`},
		"the name of a foreign volume":      {want: volume("other", 4), err: plan.ErrAlreadyExists, because: "carries no id of ours"},
		"the name of a pool":                {want: volume("pool", 4), err: plan.ErrAlreadyExists, because: "is a thin pool"},
		"a linear one that is thin":         {want: volume("lin", 100, thin), err: plan.ErrAlreadyExists, because: `is in pool ""`},
		"a thin one that is linear":         {want: volume("thin", 200), err: plan.ErrAlreadyExists, because: `is in pool "pool"`},
		"a volume that is a snapshot":       {want: volume("snap", 200, thin), err: plan.ErrAlreadyExists, because: "is a snapshot"},
		"a group that is not there":         {want: volume("n", 4, func(w *Spec) { w.Group = "gone" }), err: plan.ErrNotFound},
		"a group without our tag":           {want: volume("n", 4, func(w *Spec) { w.Group = "foreign" }), err: plan.ErrNotOurs},
		"a group of somebody else":          {want: volume("n", 4, func(w *Spec) { w.OwnerUID = somebody }), err: plan.ErrNotOurs},
		"a group that is not complete":      {group: func(g *plan.Group) { g.Partial = true }, want: volume("n", 4), err: plan.ErrPartial},
		"the same in a group that is not complete": {
			group: func(g *plan.Group) { g.Partial = true }, want: volume("lin", 100),
		},

		"a thin volume": {want: volume("n", 100, thin), steps: []string{"create volume vg/n of 104857600 bytes in pool pool"}},
		"up to the limit of the pool": {
			want: volume("n", 200, thin, limit(200)), steps: []string{"create volume vg/n of 209715200 bytes in pool pool"},
		},
		"over the limit of the pool": {
			want: volume("n", 204, thin, limit(200)), err: plan.ErrNoRoom, because: "its limit is 838860800 bytes, which is 200 % of 419430400, and 629145600 are given out",
		},
		"in no pool":                 {want: volume("n", 4, func(w *Spec) { w.Pool = "x" }), err: plan.ErrNotFound},
		"in a pool that is not ours": {want: volume("n", 4, func(w *Spec) { w.Pool = "alien" }), err: plan.ErrNotOurs},
		"in a pool that is full": {
			group: func(g *plan.Group) { g.Pools[1].DataPermyriad = 10000 }, want: volume("n", 4, thin), err: plan.ErrNoRoom, because: "is full (data 100.00 %",
		},
		"in a pool that has to be repaired": {
			group: func(g *plan.Group) { g.Pools[1].Health = "needs check" }, want: volume("n", 4, thin), err: plan.ErrNoRoom, because: "needs check",
		},

		"a copy":                        {want: volume("n", 200, from("thin")), steps: []string{"create volume vg/n as a copy of thin"}},
		"a copy in the pool it is in":   {want: volume("n", 200, from("thin"), thin), steps: []string{"create volume vg/n as a copy of thin"}},
		"a copy without a size":         {want: volume("n", 0, from("thin")), steps: []string{"create volume vg/n as a copy of thin"}},
		"a copy of a snapshot":          {want: volume("n", 200, from("snap")), steps: []string{"create volume vg/n as a copy of snap"}},
		"a larger copy":                 {want: volume("n", 300, from("thin")), steps: []string{"create volume vg/n as a copy of thin", "extend vg/n to 314572800 bytes"}},
		"a larger copy, interrupted":    {want: volume("clone", 300, from("thin")), steps: []string{"extend vg/clone to 314572800 bytes"}},
		"a copy again":                  {want: volume("clone", 200, from("thin"))},
		"a copy again, of another":      {want: volume("clone", 200, from("snap")), err: plan.ErrAlreadyExists, because: `is a copy of "thin"`},
		"a copy again, as no copy":      {want: volume("clone", 200, thin), err: plan.ErrAlreadyExists, because: `is a copy of "thin"`},
		"a copy of nothing":             {want: volume("n", 200, from("x")), err: plan.ErrNotFound},
		"a copy of a linear volume":     {want: volume("n", 100, from("lin")), err: plan.ErrNotThin},
		"a copy of a foreign volume":    {want: volume("n", 100, from("other")), err: plan.ErrNotOurs},
		"a copy into another pool":      {want: volume("n", 200, from("thin"), func(w *Spec) { w.Pool = "alien" }), err: plan.ErrInvalid},
		"a copy over the limit":         {want: volume("n", 200, from("thin"), limit(150)), err: plan.ErrNoRoom, because: "its limit is 629145600 bytes"},
		"a snapshot":                    {want: volume("n", 0, from("thin"), snapshot), steps: []string{"create snapshot vg/n of thin"}},
		"a snapshot of an open volume":  {group: func(g *plan.Group) { g.LogicalVolumes[5].Open = true }, want: volume("n", 0, from("thin"), snapshot), steps: []string{"create snapshot vg/n of thin"}},
		"a snapshot again":              {want: volume("snap", 0, from("thin"), snapshot)},
		"a snapshot again, larger":      {want: volume("snap", 300, from("thin"), snapshot), err: plan.ErrAlreadyExists},
		"a snapshot larger than it can": {want: volume("n", 204, from("thin"), snapshot), err: plan.ErrInvalid},
	})
}

func TestCreateVolume_tagsSayWhatItIs(t *testing.T) {
	for name, tt := range map[string]struct {
		want   Spec
		tags   []string
		active bool
	}{
		"an empty one is new": {volume("n", 4), []string{"quarry.storage/volume=id-n", "quarry.storage/new"}, true},
		"a copy is not":       {volume("n", 0, func(w *Spec) { w.Source = "thin" }), []string{"quarry.storage/volume=id-n"}, true},
		"a snapshot neither": {
			volume("n", 0, func(w *Spec) { w.Source, w.Snapshot = "thin", true }),
			[]string{"quarry.storage/volume=id-n", "quarry.storage/snapshot", "quarry.storage/source=thin"},
			false,
		},
	} {
		p, err := Create(plan.Snapshot{Groups: []plan.Group{stocked()}}, tt.want)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		step, ok := p.Steps[0].(CreateLV)
		if diff := cmp.Diff(tt.tags, step.Tags); !ok || diff != "" || p.Volume.Active != tt.active {
			t.Errorf("%s: active %t, tags %s", name, p.Volume.Active, diff)
		}
		wantRef := plan.GroupRef{Name: "vg", Tag: "quarry.storage/cluster=" + me, Devices: []string{"/dev/a"}}
		if diff := cmp.Diff(wantRef, step.Group); diff != "" {
			t.Errorf("%s: group (-want +got):\n%s", name, diff)
		}
	}
}

// TestTwoGroupsOfOneName: a disk came back, and the node has the group that took its place too. Each serves what it holds; only what is new, or
// grows, waits until there is one.
func TestTwoGroupsOfOneName(t *testing.T) {
	first, second := stocked(), plan.Group{
		Name: "vg", UUID: "vg-2", OwnerUID: me, SizeBytes: 1000 * mb, FreeBytes: 900 * mb, ExtentBytes: 4 * mb,
		PVs:            []plan.PV{{Path: "/dev/b", UUID: "pv-b"}},
		LogicalVolumes: []plan.Volume{{Name: "later", ID: "id-later", SizeBytes: 100 * mb, New: true}},
	}
	inactive := func(g *plan.Group) { g.LogicalVolumes[1].Active = false }
	inactive(&first)
	copied := second
	copied.LogicalVolumes = []plan.Volume{{Name: "lin", ID: "id-lin", SizeBytes: 100 * mb}}
	foreign := second
	foreign.OwnerUID = somebody
	for name, tt := range map[string]struct {
		decide Decide
		second plan.Group
		want   Spec
		// in is the UUID of the group that the step works in; empty when nothing is to be done.
		in  string
		err error
	}{
		"a volume of the first is activated":        {Activate, second, volume("lin", 0), "vg", nil},
		"a volume of the second is activated":       {Activate, second, volume("later", 0), "vg-2", nil},
		"a volume of the first is settled":          {Settle, second, volume("lin", 0), "vg", nil},
		"a volume of the first is deleted":          {Delete, second, volume("lin", 0), "vg", nil},
		"a volume of the second is deleted":         {Delete, second, volume("later", 0), "vg-2", nil},
		"one that exists is not made again":         {Create, second, volume("later", 100), "", nil},
		"beside a group of another Cluster":         {Activate, foreign, volume("lin", 0), "vg", nil},
		"a volume is in both":                       {Activate, copied, volume("lin", 0), "", plan.ErrUntold},
		"a volume is in both and is to be deleted":  {Delete, copied, volume("lin", 0), "", plan.ErrUntold},
		"a volume with another id":                  {Delete, second, volume("lin", 0, func(w *Spec) { w.ID = "x" }), "", plan.ErrNotOurs},
		"a volume is in neither":                    {Delete, second, volume("n", 0), "", plan.ErrNotOurs},
		"a new volume waits":                        {Create, second, volume("n", 4), "", plan.ErrNotOurs},
		"a volume does not grow":                    {Resize, second, volume("lin", 200), "", plan.ErrNotOurs},
		"a volume that is large enough is answered": {Resize, second, volume("lin", 100), "", nil},
	} {
		for _, groups := range [][]plan.Group{{first, tt.second}, {tt.second, first}} {
			p, err := tt.decide(plan.Snapshot{Groups: groups}, tt.want)
			in := ""
			if len(p.Steps) > 0 {
				in = p.GroupUUID
			}
			if !errors.Is(err, tt.err) || in != tt.in {
				t.Errorf("%s: in %q, %v", name, in, err)
			}
		}
	}
}

func TestDeleteVolume(t *testing.T) {
	unused := func(w *Spec) { w.OnlyUnused = true }
	checkVolumes(t, Delete, map[string]volumeCase{
		"an active volume":               {want: volume("lin", 0), steps: []string{"remove volume vg/lin"}},
		"a snapshot, which is not":       {want: volume("snap", 0), steps: []string{"remove volume vg/snap"}},
		"a source of others":             {want: volume("thin", 0), steps: []string{"remove volume vg/thin"}},
		"one that is absent":             {want: volume("n", 0)},
		"one that is open":               {want: volume("open", 0), err: plan.ErrInUse, because: "mounted, or open as a device"},
		"one of another id":              {want: volume("lin", 0, func(w *Spec) { w.ID = "x" }), err: plan.ErrNotOurs, because: `has the id "id-lin"`},
		"one that is nobody's":           {want: volume("other", 0), err: plan.ErrNotOurs},
		"a pool":                         {want: volume("pool", 0), err: plan.ErrNotOurs, because: "is a thin pool"},
		"in a group of somebody else":    {want: volume("lin", 0, func(w *Spec) { w.OwnerUID = somebody }), err: plan.ErrNotOurs},
		"in a group that is not there":   {want: volume("lin", 0, func(w *Spec) { w.Group = "gone" }), err: plan.ErrNotFound},
		"in a group that is partial":     {group: lacking(), want: volume("lin", 0), steps: []string{"remove volume vg/lin"}},
		"one that lacks a part":          {group: lacking("lin"), want: volume("lin", 0), steps: []string{"remove volume vg/lin"}},
		"absent, in one that is partial": {group: lacking(), want: volume("n", 0), err: plan.ErrPartial, because: "may know more"},
		"only if unused":                 {want: volume("lin", 0, unused), steps: []string{"remove volume vg/lin"}},
		"only if unused, and it was":     {want: volume("thin", 0, unused), err: plan.ErrInUse, because: "was used, or holds a copy"},
		"only if unused, a copy":         {want: volume("snap", 0, unused), err: plan.ErrInUse, because: "was used, or holds a copy"},
		"only if unused, and it is gone": {want: volume("n", 0, unused)},
		"only if unused, a new snapshot": {
			group: func(g *plan.Group) { g.LogicalVolumes[4].New = true }, want: volume("snap", 0, unused), err: plan.ErrInUse,
		},
		"in a pool that is not active": {
			group: inactive, want: volume("thin", 0), steps: []string{"activate pool vg/pool", "remove volume vg/thin"},
		},
		"in a pool that lacks a part": {group: lacking("pool"), want: volume("thin", 0), err: plan.ErrPartial, because: "a part of the pool was on it"},
	})
}

// TestDelete_beside: that a volume is not in its group says nothing while another group may be the one of that name. One that is there is removed.
func TestDelete_beside(t *testing.T) {
	for name, c := range map[string]struct {
		unknown plan.UnknownGroup
		want    error
	}{
		"nobody can tell which one":      {plan.UnknownGroup{Devices: []string{"/dev/z"}, Reason: "damaged"}, plan.ErrUnsure},
		"one of the name":                {plan.UnknownGroup{Name: "vg", OwnerUID: me}, plan.ErrUnsure},
		"one of another name":            {plan.UnknownGroup{Name: "other", OwnerUID: me}, nil},
		"one without a name, somebody's": {plan.UnknownGroup{OwnerUID: somebody}, nil},
	} {
		s := plan.Snapshot{Groups: []plan.Group{stocked()}, UnknownGroups: []plan.UnknownGroup{c.unknown}}
		for _, unused := range []bool{false, true} {
			only := func(w *Spec) { w.OnlyUnused = unused }
			if p, err := Delete(s, volume("n", 0, only)); !errors.Is(err, c.want) || len(p.Steps) > 0 {
				t.Errorf("%s: absent: %v, %v", name, lines(p.Plan), err)
			}
			if p, err := Delete(s, volume("lin", 0, only)); err != nil || len(p.Steps) != 1 {
				t.Errorf("%s: present: %v, %v", name, lines(p.Plan), err)
			}
		}
	}
}

func TestResizeVolume(t *testing.T) {
	limit := func(w *Spec) { w.OverprovisionPercent = 200 }
	checkVolumes(t, Resize, map[string]volumeCase{
		"to more":                     {want: volume("lin", 101), steps: []string{"extend vg/lin to 109051904 bytes"}},
		"to as much":                  {want: volume("lin", 100)},
		"to less":                     {want: volume("lin", 4)},
		"to all the room":             {want: volume("lin", 400), steps: []string{"extend vg/lin to 419430400 bytes"}},
		"to more than the room":       {want: volume("lin", 404), err: plan.ErrNoRoom, because: "has 314572800 of 1048576000 bytes free"},
		"an open one":                 {want: volume("open", 12), steps: []string{"extend vg/open to 12582912 bytes"}},
		"a thin one":                  {want: volume("thin", 1000), steps: []string{"extend vg/thin to 1048576000 bytes"}},
		"a thin one up to the limit":  {want: volume("thin", 400, limit), steps: []string{"extend vg/thin to 419430400 bytes"}},
		"a thin one over the limit":   {want: volume("thin", 404, limit), err: plan.ErrOverLimit, because: "its limit is 838860800 bytes"},
		"a snapshot":                  {want: volume("snap", 400), err: plan.ErrInvalid},
		"one that is absent":          {want: volume("n", 4), err: plan.ErrNotFound},
		"one of another id":           {want: volume("lin", 104, func(w *Spec) { w.ID = "x" }), err: plan.ErrNotOurs},
		"in a group that is partial":  {group: func(g *plan.Group) { g.Partial = true }, want: volume("lin", 104), err: plan.ErrPartial},
		"to what cannot be counted":   {want: volume("lin", 0, func(w *Spec) { w.SizeBytes = math.MaxInt64 }), err: plan.ErrNoRoom},
		"in a group of somebody else": {want: volume("lin", 104, func(w *Spec) { w.OwnerUID = somebody }), err: plan.ErrNotOurs},
	})
}

// lacking is a group that lacks a device, on which the named volumes and pools had a part.
func lacking(names ...string) func(*plan.Group) {
	return func(g *plan.Group) {
		g.Partial = true
		for i := range g.LogicalVolumes {
			if slices.Contains(names, g.LogicalVolumes[i].Name) {
				g.LogicalVolumes[i].Health = plan.HealthPartial
			}
		}
		for i := range g.Pools {
			if slices.Contains(names, g.Pools[i].Name) {
				g.Pools[i].Health = plan.HealthPartial
			}
		}
	}
}

// TestDeadDeviceLeavesOthersUsable: what has no extents on a missing device is used as before.
func TestDeadDeviceLeavesOthersUsable(t *testing.T) {
	checkVolumes(t, Activate, map[string]volumeCase{
		"one beside it":                      {group: lacking("lin"), want: volume("snap", 0), steps: []string{"activate vg/snap"}},
		"one that lacks a part":              {group: lacking("snap"), want: volume("snap", 0), err: plan.ErrPartial, because: "cannot be used until the device is back"},
		"one that lacks a part and is there": {group: lacking("lin"), want: volume("lin", 0), err: plan.ErrPartial},
	})
	checkVolumes(t, Settle, map[string]volumeCase{
		"one beside it": {group: lacking("thin"), want: volume("lin", 0), steps: []string{"settle vg/lin"}},
	})
	checkVolumes(t, Create, map[string]volumeCase{
		"one that is there":            {group: lacking("thin"), want: volume("lin", 100)},
		"a new one is not made by LVM": {group: lacking(), want: volume("n", 4), err: plan.ErrPartial, because: "the group has forgotten it"},
	})
	g := stocked()
	lacking("lin", "pool")(&g)
	if diff := cmp.Diff([]string{"lin", "pool"}, g.Lost()); diff != "" {
		t.Error(diff)
	}
}

func TestActivateAndSettleVolume(t *testing.T) {
	checkVolumes(t, Activate, map[string]volumeCase{
		"an active one":      {want: volume("lin", 0)},
		"an inactive one":    {want: volume("snap", 0), steps: []string{"activate vg/snap"}},
		"one that is absent": {want: volume("n", 0), err: plan.ErrNotFound},
		"one of another id":  {want: volume("snap", 0, func(w *Spec) { w.ID = "x" }), err: plan.ErrNotOurs},
	})
	checkVolumes(t, Settle, map[string]volumeCase{
		"a new one":          {want: volume("lin", 0), steps: []string{"settle vg/lin"}},
		"a used one":         {want: volume("thin", 0)},
		"one that is absent": {want: volume("n", 0), err: plan.ErrNotFound},
	})
}
