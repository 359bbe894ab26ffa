package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"quarry.storage/quarry/agent/internal/apply"
	applydisk "quarry.storage/quarry/agent/internal/apply/disk"
	applylvm "quarry.storage/quarry/agent/internal/apply/lvm"
	"quarry.storage/quarry/agent/internal/host/disk"
	"quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/agent/internal/inventory"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/volume"
)

const ownerTag = "quarry.storage/cluster=uid"

// groupObserver shows one group, and counts how often the whole node is observed.
type groupObserver struct {
	stubObserver
	group plan.Group
	// gone is true once only the first observation shows the group.
	gone atomic.Bool
}

func (o *groupObserver) Observe(context.Context) (plan.Snapshot, error) {
	if o.observed.Add(1) > 1 && o.gone.Load() {
		return plan.Snapshot{}, nil
	}
	return plan.Snapshot{Groups: []plan.Group{o.group}}, nil
}

// lvmEngine is an engine over the real tools, whose processes are played.
func lvmEngine(t *testing.T, volumes []plan.Volume, script ...run.Step) (*Engine, *run.Fake, *groupObserver) {
	t.Helper()
	device := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(device, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fake := run.NewFake(script...)
	l, err := lvm.New(lvm.Config{Runner: fake, Dir: filepath.Join(t.TempDir(), "lvm")})
	if err != nil {
		t.Fatal(err)
	}
	seen, err := inventory.New(inventory.Config{
		Block: struct{ inventory.Block }{}, Mounts: struct{ inventory.Mounts }{}, Prober: struct{ inventory.Prober }{}, LVM: l,
		Occupants: struct{ inventory.Occupants }{},
	})
	if err != nil {
		t.Fatal(err)
	}
	o := &groupObserver{group: plan.Group{
		Name: "vg", UUID: "vg-uuid", OwnerUID: "uid", SizeBytes: 1 << 30, FreeBytes: 1 << 30, ExtentBytes: 4 << 20,
		PVs: []plan.PV{{Path: device, UUID: "pv-uuid", SizeBytes: 1 << 30, FreeBytes: 1 << 30}}, LogicalVolumes: volumes,
	}.Named()}
	applier := apply.Applier{Adapter: applylvm.Adapter{Tool: l}, Guard: applydisk.Adapter{Tool: disk.New()}}
	return New(Config{Observer: o, Groups: seen, Applier: applier}), fake, o
}

// report is what LVM says about the group, with the volumes in rows.
func report(tags string, rows ...string) run.Step {
	return run.Step{Result: run.Result{Stdout: fmt.Appendf(nil, `{"report":[{
		"vg":[{"vg_name":"vg","vg_uuid":"vg-uuid","vg_size":"1073741824","vg_free":"1069547520","vg_extent_size":"4194304","vg_tags":"%s",
			"vg_missing_pv_count":"0","vg_partial":"0","vg_exported":"0","vg_systemid":"", "vg_seqno":"7"}],
		"pv":[{"pv_name":"/dev/x","pv_uuid":"pv-uuid","pv_major":"8","pv_minor":"0","pv_size":"1073741824","pv_free":"1069547520",
			"pv_used":"4194304","pv_missing":"0","pv_duplicate":"0","vg_name":"vg","vg_uuid":"vg-uuid"}],
		"lv":[%s]}]}`, tags, strings.Join(rows, ","))}}
}

func row(id string) string {
	return fmt.Sprintf(`{"lv_name":"v","lv_uuid":"lv-uuid","vg_uuid":"vg-uuid","lv_size":"4194304","lv_tags":"quarry.storage/volume=%s","lv_layout":"linear",
		"pool_lv":"","origin":"","lv_active_locally":"1","lv_device_open":"0","lv_health_status":"","lv_metadata_size":"","data_percent":"",
		"metadata_percent":"","lv_time":"1700000000","lv_suspended":"0","lv_inactive_table":"0"}`, id)
}

func failed(stderr string) run.Step {
	return run.Step{Result: run.Result{ExitCode: 5, Stderr: []byte(stderr)}}
}

func said(stdout string) run.Step { return run.Step{Result: run.Result{Stdout: []byte(stdout)}} }

func TestChangeVolume_commands(t *testing.T) {
	const exists = `  Logical Volume "v" already exists in volume group "vg"`
	want := volume.Spec{Group: "vg", OwnerUID: "uid", Name: "v", ID: "id", SizeBytes: 4 << 20}
	present := []plan.Volume{{Name: "v", ID: "id", SizeBytes: 4 << 20, Active: true, New: true}}
	larger := want
	larger.SizeBytes = 8 << 20
	tests := map[string]struct {
		known  []plan.Volume
		want   volume.Spec
		decide volume.Decide
		script []run.Step
		runs   string
		err    error
	}{
		"create": {nil, want, volume.Create, []run.Step{said("")}, "lvcreate", nil},
		"create what exists": {
			nil, want, volume.Create, []run.Step{failed(exists), report(ownerTag, row("id"))}, "lvcreate fullreport", nil,
		},
		"create what is known to exist": {
			present, want, volume.Create, []run.Step{report(ownerTag, row("id"))}, "fullreport", nil,
		},
		"create what exists with another id": {
			nil, want, volume.Create, []run.Step{failed(exists), report(ownerTag, row("x"))}, "lvcreate fullreport", plan.ErrAlreadyExists,
		},
		"create in a group that is somebody else's by now": {
			nil, want, volume.Create,
			[]run.Step{failed("  Volume vg/v is not active locally (volume_list activation filter?).\n  Aborting. Failed to wipe start of new LV."), report("quarry.storage/cluster=other")},
			"lvcreate fullreport", plan.ErrNotOurs,
		},
		"create without room after all": {
			nil, want, volume.Create,
			[]run.Step{failed("  Insufficient free space: 1 extents needed, but only 0 available"), report(ownerTag), failed("  Insufficient free space: 1 extents needed, but only 0 available")},
			"lvcreate fullreport lvcreate", plan.ErrNoRoom,
		},
		"delete": {
			present, want, volume.Delete, []run.Step{said("successfully removed")}, "lvremove", nil,
		},
		"delete what is gone": {
			present, want, volume.Delete, []run.Step{failed(`  Failed to find logical volume "vg/v"`), report(ownerTag)}, "lvremove fullreport", nil,
		},
		"delete what is not known": {nil, want, volume.Delete, []run.Step{report(ownerTag)}, "fullreport", nil},
		"delete what is another one by now": {
			present, want, volume.Delete, []run.Step{said(""), report(ownerTag, row("x"))}, "lvremove fullreport", plan.ErrNotOurs,
		},
		"delete what is open by now": {
			present, want, volume.Delete,
			[]run.Step{failed("  Logical volume vg/v in use."), report(ownerTag, strings.Replace(row("id"), `"lv_device_open":"0"`, `"lv_device_open":"1"`, 1))},
			"lvremove fullreport", plan.ErrInUse,
		},
		"resize": {
			present, larger, volume.Resize, []run.Step{report(ownerTag, row("id")), said("")}, "fullreport lvextend", nil,
		},
		"resize to what it is": {
			present, want, volume.Resize, []run.Step{report(ownerTag, row("id"))}, "fullreport", nil,
		},
		"settle": {present, want, volume.Settle, []run.Step{said("changed")}, "lvchange", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e, fake, o := lvmEngine(t, tt.known, tt.script...)
			p, err := e.changeVolume(t.Context(), tt.want, tt.decide)
			if !errors.Is(err, tt.err) {
				t.Errorf("got %+v, %v", p.Volume, err)
			}
			var ran []string
			for _, c := range fake.Calls() {
				ran = append(ran, c.Args[0])
				if !strings.Contains(strings.Join(c.Args, " "), "--devices "+o.group.PVs[0].Path+" ") {
					t.Errorf("sees more than the group's devices: %q", c.Args)
				}
			}
			if got := strings.Join(ran, " "); got != tt.runs || fake.Left() > 0 || o.observed.Load() != 1 {
				t.Errorf("ran %q, not %q; observed the node %d times", got, tt.runs, o.observed.Load())
			}
		})
	}
}

// TestChangeVolume_lacksDevice: a change of a group that lacks a device is looked at again before anybody hears of it, so that it is noted. A volume that such a
// group does not show is not said to be gone.
func TestChangeVolume_lacksDevice(t *testing.T) {
	lacking := func(change string) run.Step {
		r := report(ownerTag, row("id"))
		r.Result.Stdout = []byte(strings.NewReplacer(`"vg_missing_pv_count":"0"`, `"vg_missing_pv_count":"1"`, `"vg_seqno":"7"`, `"vg_seqno":"`+change+`"`,
			`"pv":[`, `"pv":[{"pv_name":"[unknown]","pv_uuid":"pv-gone","pv_major":"","pv_minor":"","pv_size":"1","pv_free":"1","pv_used":"0","pv_missing":"1",`+
				`"pv_duplicate":"0","vg_name":"vg","vg_uuid":"vg-uuid"},`).Replace(string(r.Result.Stdout)))
		return r
	}
	want := volume.Spec{Group: "vg", OwnerUID: "uid", Name: "v", ID: "id"}
	engine := func(script ...run.Step) (*Engine, *run.Fake, *groupObserver) {
		e, fake, o := lvmEngine(t, []plan.Volume{{Name: "v", ID: "id", UUID: "lv-uuid", SizeBytes: 4 << 20, Active: true, New: true}}, script...)
		o.group.Partial = true
		return e, fake, o
	}
	e, fake, o := engine(said("changed"), lacking("8"), lacking("7"))
	if _, err := e.changeVolume(t.Context(), want, volume.Settle); err != nil || len(fake.Calls()) != 2 || fake.Calls()[1].Args[0] != "fullreport" {
		t.Errorf("settle: %v, ran %v", err, fake.Calls())
	}
	// Later a disk is there that does not know of that.
	if _, err := e.cfg.Groups.ObserveGroup(t.Context(), o.group); err == nil {
		t.Error("a state of before is taken for the group")
	}

	// Nobody can say whether it is noted: the group is not seen any more.
	e, fake, o = engine(said("changed"), failed("no such group"))
	o.gone.Store(true)
	if _, err := e.changeVolume(t.Context(), want, volume.Settle); !errors.Is(err, plan.ErrUnsure) || len(fake.Calls()) != 2 {
		t.Errorf("settle in a group that goes: %v, ran %v", err, fake.Calls())
	}

	gone := want
	gone.Name = "w"
	for what, call := range map[string]func(*Engine) error{
		"look it up": func(e *Engine) error { _, err := e.LookupVolume(t.Context(), gone); return err },
		"activate":   func(e *Engine) error { _, err := e.ActivateVolume(t.Context(), gone); return err },
		"settle":     func(e *Engine) error { _, err := e.SettleVolume(t.Context(), gone); return err },
		"resize":     func(e *Engine) error { _, err := e.ResizeVolume(t.Context(), gone); return err },
		"delete":     func(e *Engine) error { return e.DeleteVolume(t.Context(), gone) },
	} {
		e, _, _ := engine(lacking("7"))
		if err := call(e); !errors.Is(err, plan.ErrUnsure) || errors.Is(err, plan.ErrNotFound) {
			t.Errorf("%s what is not seen: %v", what, err)
		}
	}
}
