package node

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/volume"
)

// TestLookupVolume_reports counts the reports that LVM is asked for.
func TestLookupVolume_reports(t *testing.T) {
	used := plan.Volume{Name: "v", ID: "id", UUID: "lv-uuid", SizeBytes: 4 << 20}
	with := func(edit func(*plan.Volume)) []plan.Volume {
		v := used
		edit(&v)
		return []plan.Volume{v}
	}
	for name, c := range map[string]struct {
		known   []plan.Volume
		reports int
		want    error
	}{
		"a volume that is in use":         {known: []plan.Volume{used}},
		"a new one":                       {known: with(func(v *plan.Volume) { v.New = true }), reports: 1},
		"one that LVM has not named yet":  {known: with(func(v *plan.Volume) { v.UUID = "" }), reports: 1},
		"a suspended one":                 {known: with(func(v *plan.Volume) { v.Suspended = true }), reports: 1},
		"one without our tag":             {known: with(func(v *plan.Volume) { v.ID = "" }), reports: 1},
		"one that is not known yet":       {reports: 1},
		"one of which LVM says otherwise": {known: with(func(v *plan.Volume) { v.Health = "partial" }), reports: 1},
	} {
		t.Run(name, func(t *testing.T) {
			var script []run.Step
			for range c.reports {
				script = append(script, report(ownerTag, row("id")))
			}
			e, fake, o := lvmEngine(t, c.known, script...)
			v, err := e.LookupVolume(t.Context(), volume.Spec{Group: "vg", Name: "v"})
			if !errors.Is(err, c.want) || err == nil && v.ID != "id" {
				t.Errorf("%+v, %v", v, err)
			}
			if fake.Left() > 0 || len(fake.Calls()) != c.reports || o.observed.Load() != 1 {
				t.Errorf("%d reports, %d left; observed the node %d times", len(fake.Calls()), fake.Left(), o.observed.Load())
			}
		})
	}
}

// TestLookupVolume_sharesOneFlight: calls at the same time share a report, whichever volumes of the group they are about.
func TestLookupVolume_sharesOneFlight(t *testing.T) {
	const callers = 20
	var script []run.Step
	for range callers + 1 {
		script = append(script, report(ownerTag, row("id"), strings.ReplaceAll(row("other"), `"v"`, `"w"`)))
	}
	e, fake, _ := lvmEngine(t, []plan.Volume{{Name: "v", ID: "id", UUID: "lv-uuid", New: true}, {Name: "w", ID: "other", UUID: "lv-uuid", New: true}}, script...)
	seen, err := e.hub.current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// One report is under way while all the others ask.
	gate, entered := make(chan struct{}), make(chan struct{}, 1)
	fl := e.looks.of("vg", func(ctx context.Context) (plan.Snapshot, error) {
		select {
		case entered <- struct{}{}:
		default:
		}
		<-gate
		return e.refresh(ctx, seen, "vg")
	})
	var all sync.WaitGroup
	lookup := func(name, id string) {
		all.Go(func() {
			if v, err := e.LookupVolume(t.Context(), volume.Spec{Group: "vg", Name: name}); err != nil || v.ID != id {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
	lookup("v", "id")
	<-entered
	for i := range callers {
		if i%2 == 0 {
			lookup("v", "id")
		} else {
			lookup("w", "other")
		}
	}
	for !fl.Awaited() {
		time.Sleep(50 * time.Millisecond)
	}
	close(gate)
	all.Wait()
	if n := len(fake.Calls()); n > callers/2 {
		t.Errorf("%d reports for %d calls", n, callers+1)
	}
}

// TestLookup_beside: a volume that no seen group of the name has may be in a group that LVM cannot report, unless that has another name.
func TestLookup_beside(t *testing.T) {
	seen := plan.Group{Name: "vg", LogicalVolumes: []plan.Volume{{Name: "v", ID: "id"}}}
	for name, c := range map[string]struct {
		unknown []plan.UnknownGroup
		want    error
	}{
		"nothing":                   {nil, plan.ErrNotFound},
		"one of another name":       {[]plan.UnknownGroup{{Name: "other", OwnerUID: "uid"}}, plan.ErrNotFound},
		"one of the name":           {[]plan.UnknownGroup{{Name: "vg", OwnerUID: "uid"}}, plan.ErrUnsure},
		"nobody can tell which one": {[]plan.UnknownGroup{{Reason: "damaged"}}, plan.ErrUnsure},
		"somebody's without a name": {[]plan.UnknownGroup{{OwnerUID: "uid"}}, plan.ErrUnsure},
	} {
		s := plan.Snapshot{Groups: []plan.Group{seen}, UnknownGroups: c.unknown}
		if _, err := lookup(s, volume.Spec{Group: "vg", Name: "gone"}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if v, err := lookup(s, volume.Spec{Group: "vg", Name: "v"}); err != nil || v.ID != "id" {
			t.Errorf("%s, and the volume is seen: %+v, %v", name, v, err)
		}
	}
}

// TestLookup_otherGroup: the only volume of the name is in a group that is not the recorded one.
func TestLookup_otherGroup(t *testing.T) {
	s := plan.Snapshot{Groups: []plan.Group{{
		Name: "vg", UUID: "u2", OwnerUID: "me", OwnersBefore: []string{"before"}, LogicalVolumes: []plan.Volume{{Name: "v", ID: "id"}},
	}}}
	for name, c := range map[string]struct {
		owner, uuid string
		want        error
	}{
		"nothing is recorded": {},
		"the recorded group":  {"me", "u2", nil},
		"another UUID":        {"me", "u1", plan.ErrOtherGroup},
		"another owner":       {"you", "u2", plan.ErrOtherGroup},
		"an earlier owner":    {"before", "u2", nil},
		"its other group":     {"before", "u1", plan.ErrOtherGroup},
	} {
		want := volume.Spec{Group: "vg", Name: "v", OwnerUID: c.owner, GroupUUID: c.uuid}
		if _, err := lookup(s, want); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLookup_inTwoGroups: which of two copies of a volume is meant nobody can tell. No group is unknown.
func TestLookup_inTwoGroups(t *testing.T) {
	holds := []plan.Volume{{Name: "v", ID: "id"}}
	s := plan.Snapshot{Groups: []plan.Group{{Name: "vg", UUID: "u1", LogicalVolumes: holds}, {Name: "vg", UUID: "u2", LogicalVolumes: holds}}}
	_, err := lookup(s, volume.Spec{Group: "vg", Name: "v", GroupUUID: "u1"})
	if !errors.Is(err, plan.ErrUntold) || errors.Is(err, plan.ErrUnsure) || errors.Is(err, plan.ErrNotFound) {
		t.Error(err)
	}
}

// TestLookup_recordedGroupIsAway: what other groups do not have, and what no group has, is not absent while the recorded one is not seen.
func TestLookup_recordedGroupIsAway(t *testing.T) {
	other := plan.Group{Name: "vg", UUID: "u2", OwnerUID: "me"}
	for name, c := range map[string]struct {
		groups []plan.Group
		uuid   string
		want   error
	}{
		"another group is in its place":  {[]plan.Group{other}, "u1", plan.ErrOtherGroup},
		"there is no group":              {nil, "u1", plan.ErrOtherGroup},
		"a person renamed it":            {[]plan.Group{{Name: "renamed", UUID: "u1", OwnerUID: "me"}}, "u1", plan.ErrOtherGroup},
		"the recorded one does not have": {[]plan.Group{other}, "u2", plan.ErrNotFound},
		"nothing is recorded":            {[]plan.Group{other}, "", plan.ErrNotFound},
	} {
		if _, err := lookup(plan.Snapshot{Groups: c.groups}, volume.Spec{Group: "vg", Name: "v", GroupUUID: c.uuid}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
