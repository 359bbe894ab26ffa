package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/volume"
	"quarry.storage/quarry/pkg/csirpc"
)

// blank says of every volume that nobody used it.
type blank struct{}

func (blank) Unused(context.Context, string, plan.Volume) error { return nil }

// udev looks at a volume that was just activated: a deletion in that moment succeeds a little later. One that a pod uses stays.
func TestEngine_DeleteVolume_waitsForAShortLook(t *testing.T) {
	want := volume.Spec{Group: "vg", OwnerUID: "uid", Name: "v", ID: "id", SizeBytes: 4 << 20}
	unused := want
	unused.OnlyUnused = true
	fresh := strings.Replace(row("id"), `"lv_tags":"`, `"lv_tags":"`+plan.TagNew+`,`, 1)
	isOpen := func(row string) run.Step {
		return report(ownerTag, strings.Replace(row, `"lv_device_open":"0"`, `"lv_device_open":"1"`, 1))
	}
	refused, removed := failed("  Logical volume vg/v in use."), said("successfully removed")
	for name, tt := range map[string]struct {
		want   volume.Spec
		script []run.Step
		waits  time.Duration
	}{
		"closed":                           {want, []run.Step{removed}, 0},
		"closed soon":                      {want, []run.Step{refused, isOpen(row("id")), removed}, openPause},
		"one that nobody used":             {unused, []run.Step{report(ownerTag, fresh), report(ownerTag, fresh), removed}, 0},
		"one at which udev looks at first": {unused, []run.Step{isOpen(fresh), report(ownerTag, fresh), report(ownerTag, fresh), removed}, openPause},
		"one at which udev looks later":    {unused, []run.Step{report(ownerTag, fresh), isOpen(fresh), report(ownerTag, fresh), removed}, openPause},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, fake, _ := lvmEngine(t, []plan.Volume{{Name: "v", ID: "id", SizeBytes: 4 << 20, Active: true}}, tt.script...)
				e.cfg.Contents = blank{}
				began := time.Now()
				if err := e.DeleteVolume(t.Context(), tt.want); err != nil || fake.Left() > 0 || time.Since(began) != tt.waits {
					t.Errorf("%v; %d commands were not run; after %v", err, fake.Left(), time.Since(began))
				}
			})
		})
	}
	t.Run("open for good", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var script []run.Step
			for range openPatience/openPause + 2 {
				script = append(script, refused, isOpen(row("id")))
			}
			e, _, _ := lvmEngine(t, []plan.Volume{{Name: "v", ID: "id", SizeBytes: 4 << 20, Active: true}}, script...)
			began := time.Now()
			if err := e.DeleteVolume(t.Context(), want); !errors.Is(err, plan.ErrOpen) || time.Since(began) > openPatience+2*openPause {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
		})
	})
}

// TestEngine_DeleteVolume_unlessItCanBeRead: one that is to be removed only unused stays while nobody can look at what is on it.
func TestEngine_DeleteVolume_unlessItCanBeRead(t *testing.T) {
	want := volume.Spec{Group: "vg", OwnerUID: "uid", Name: "v", ID: "id", OnlyUnused: true}
	v := plan.Volume{Name: "v", ID: "id", SizeBytes: 4 << 20, New: true, Active: true}
	e, fake, _ := lvmEngine(t, []plan.Volume{v})
	if err := e.DeleteVolume(t.Context(), want); !errors.Is(err, plan.ErrUntold) || errors.Is(err, plan.ErrUnsure) || len(fake.Calls()) > 0 {
		t.Errorf("with nothing that can look: %v, commands %v", err, fake.Calls())
	}
	e.cfg.Contents = blank{}
	for name, edit := range map[string]func(*plan.Volume){
		"it has no device":                  func(v *plan.Volume) { v.Active = false },
		"it is suspended":                   func(v *plan.Volume) { v.Suspended = true },
		"it leads to a disk that is not it": func(v *plan.Volume) { v.Stale = true },
	} {
		v := v
		edit(&v)
		s := plan.Snapshot{Groups: []plan.Group{{Name: "vg", OwnerUID: "uid", LogicalVolumes: []plan.Volume{v}}}}
		if err := e.looksUnused(t.Context(), s, want); !errors.Is(err, plan.ErrUntold) || errors.Is(err, plan.ErrUnsure) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// watchedUses are locks that tell which commands were run while one was held.
type watchedUses struct {
	csirpc.Locks
	fake *run.Fake
	held []string
}

func (u *watchedUses) TryLock(handle string) (func(), error) {
	unlock, err := u.Locks.TryLock(handle)
	before := len(u.fake.Calls())
	return func() {
		for _, c := range u.fake.Calls()[before:] {
			u.held = append(u.held, strings.Join(c.Args, " "))
		}
		unlock()
	}, err
}

// TestEngine_DeleteVolume_isNotBegunWhileTheVolumeIsMadeReady: a call that has looked at a volume, and did not see the mark, may be about to mount it. Such
// a call does not begin while the mark is written.
func TestEngine_DeleteVolume_isNotBegunWhileTheVolumeIsMadeReady(t *testing.T) {
	want := volume.Spec{Group: "vg", OwnerUID: "uid", Name: "v", ID: "n1/vg/v", Discard: true}
	for name, taken := range map[string]time.Duration{"for long": time.Hour, "for a moment": openPause / 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, fake, _ := lvmEngine(t, []plan.Volume{{Name: "v", ID: want.ID, UUID: "lv-uuid", SizeBytes: 4 << 20, Active: true}},
					report(ownerTag, row(want.ID)), failed("VG vg metadata too large"), said("successfully removed"))
				uses := &watchedUses{fake: fake}
				e.cfg.Uses = uses
				staged, err := uses.Locks.TryLock(want.ID)
				if err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(taken, staged)
				err = e.DeleteVolume(t.Context(), want)
				if taken > openPatience {
					if !errors.Is(err, plan.ErrBusy) || len(fake.Calls()) > 0 {
						t.Errorf("%v, commands %v", err, fake.Calls())
					}
					time.Sleep(taken)
					err = e.DeleteVolume(t.Context(), want)
				}
				if marks := slices.ContainsFunc(uses.held, func(c string) bool { return strings.Contains(c, "--addtag "+plan.TagRemoving) }); err != nil || !marks {
					t.Errorf("%v; commands while the volume could not be made ready: %q", err, uses.held)
				}
				if slices.ContainsFunc(uses.held, func(c string) bool { return strings.HasPrefix(c, "lvremove") }) {
					t.Errorf("the volume is locked longer than for the mark: %q", uses.held)
				}
				if _, err := uses.Locks.TryLock(want.ID); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestEngine_DeleteVolume_marksOnlyWhatIsClosed: what is remembered of a volume may be of before its use. One that somebody has open by now gets no tag
// that keeps it from being used, and one that is closed gets it before it is discarded.
func TestEngine_DeleteVolume_marksOnlyWhatIsClosed(t *testing.T) {
	want := volume.Spec{Group: "vg", OwnerUID: "uid", Name: "v", ID: "id", Discard: true}
	known := []plan.Volume{{Name: "v", ID: "id", UUID: "lv-uuid", SizeBytes: 4 << 20, Active: true}}
	open := report(ownerTag, strings.Replace(row("id"), `"lv_device_open":"0"`, `"lv_device_open":"1"`, 1))
	for name, tt := range map[string]struct {
		script []run.Step
		marks  bool
	}{
		"open": {slices.Repeat([]run.Step{open}, int(openPatience/openPause)+2), false},
		// The metadata of the group is full: only the removal makes room there. Without the mark nothing is discarded.
		"no room for the mark": {
			[]run.Step{open, report(ownerTag, row("id")), failed("VG vg metadata too large"), said("successfully removed")}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, fake, _ := lvmEngine(t, known, tt.script...)
				if err := e.DeleteVolume(t.Context(), want); errors.Is(err, plan.ErrOpen) == tt.marks || tt.marks && err != nil {
					t.Errorf("%v", err)
				}
				var changes []string
				for _, c := range fake.Calls() {
					if c.Args[0] != "fullreport" {
						changes = append(changes, strings.Join(c.Args, " "))
					}
				}
				if tt.marks != (len(changes) == 2 && strings.Contains(changes[0], "--addtag "+plan.TagRemoving) && strings.HasPrefix(changes[1], "lvremove")) || !tt.marks && len(changes) > 0 {
					t.Errorf("%q", changes)
				}
			})
		})
	}
}
