package iscsi_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"quarry.storage/quarry/agent/internal/csi/csitest"
	"quarry.storage/quarry/agent/internal/csi/iscsi"
	"quarry.storage/quarry/agent/internal/sharedgroup/decide"
	"quarry.storage/quarry/pkg/sharedlun"
)

// TestLife: a volume that is used on one node is shown to several pods of it, unless it may have one only.
func TestLife(t *testing.T) {
	r := newRig(t)
	id := r.attach(t)
	for range 2 {
		must(t, r.Stage(t, id, mounted))
		must(t, r.Publish(t, id, "pod/a", mounted, false))
		must(t, r.Publish(t, id, "pod/b", mounted, true))
	}
	r.wantMounts(t, "staging/globalmount", "pod/a", "pod/b (ro)")
	if v := r.volume("a"); v.Content != "ext4" || v.UUID == "" {
		t.Errorf("%+v", v)
	}
	r.volume("a").Data = "of a pod"
	for range 2 {
		must(t, r.Unpublish(t, id, "pod/a"))
		must(t, r.Unpublish(t, id, "pod/b"))
		must(t, r.Unstage(t, id))
	}
	r.wantMounts(t)
	must(t, r.Stage(t, id, alone))
	must(t, r.Publish(t, id, "pod/a", alone, false))
	wantCode(t, r.Publish(t, id, "pod/b", alone, false), codes.FailedPrecondition)
	if v := r.volume("a"); v.Data != "of a pod" {
		t.Errorf("it was formatted once more: %+v", v)
	}
}

func TestRaw(t *testing.T) {
	r := newRig(t)
	id := r.unused(t)
	r.apply(t, sharedlun.Change{Used: &sharedlun.Hold{Name: "a", Node: "n1"}})
	for range 2 {
		must(t, r.Stage(t, id, raw))
		must(t, r.Publish(t, id, "pod/a", raw, false))
	}
	r.wantMounts(t, "pod/a")
	if v := r.volume("a"); v.Content != "" {
		t.Errorf("something was made on a raw device: %+v", v)
	}
	r.making = true
	wantCode(t, r.Publish(t, id, "pod/b", raw, false), codes.Aborted)
	r.making = false
	// What is taken from the node meanwhile is shown to nobody else.
	r.apply(t, sharedlun.Change{Leave: &sharedlun.Hold{Name: "a", Node: "n1"}})
	wantCode(t, r.Publish(t, id, "pod/b", raw, false), codes.FailedPrecondition)
	must(t, r.Unpublish(t, id, "pod/a"))
	must(t, r.Unstage(t, id))
	r.wantMounts(t)
}

// TestStage_refuses: nothing is used that the LUN does not give to this node, or that is not what the LUN says.
func TestStage_refuses(t *testing.T) {
	shift := func(m *decide.Mapped) { m.Ranges[0].Start += 4 * mib }
	for name, c := range map[string]struct {
		change func(t *testing.T, r *rig)
		code   codes.Code
	}{
		"held by another node": {func(t *testing.T, r *rig) {
			r.release(t, "a")
			r.apply(t, sharedlun.Change{Hold: &sharedlun.Hold{Name: "a", Node: "n2"}})
		}, codes.FailedPrecondition},
		"held by none": {func(t *testing.T, r *rig) { r.release(t, "a") }, codes.FailedPrecondition},
		"leaving": {func(t *testing.T, r *rig) {
			r.apply(t, sharedlun.Change{Leave: &sharedlun.Hold{Name: "a", Node: "n1"}})
		}, codes.FailedPrecondition},
		"another one of its name": {func(_ *testing.T, r *rig) {
			r.Attached[r.handle("a")] = sharedlun.Attached{Ref: r.ref, UUID: r.lun.Group().Volume("b").UUID}.Map()
		}, codes.NotFound},
		"not told where it is":      {func(_ *testing.T, r *rig) { delete(r.Attached, r.handle("a")) }, codes.InvalidArgument},
		"not mapped since the boot": {func(t *testing.T, r *rig) { r.node.Boot(t, 0xa1) }, codes.Unavailable},
		"a LUN that cannot be read": {func(_ *testing.T, r *rig) { r.blind = true }, codes.Unavailable},
		"another LUN":               {func(_ *testing.T, r *rig) { r.lun.Swap("other") }, codes.FailedPrecondition},
		"the LUN is another device": {func(_ *testing.T, r *rig) { r.number = "8:32" }, codes.FailedPrecondition},
		"a device elsewhere":        {func(_ *testing.T, r *rig) { r.change = shift }, codes.FailedPrecondition},
		"a device that is cut":      {func(_ *testing.T, r *rig) { r.change = func(m *decide.Mapped) { m.Cut, m.Linear = true, false } }, codes.Unavailable},
		"a suspended device":        {func(_ *testing.T, r *rig) { r.change = func(m *decide.Mapped) { m.Suspended = true } }, codes.Unavailable},
		"a device of more than is ready": {func(t *testing.T, r *rig) {
			g := r.apply(t, sharedlun.Change{Grow: &sharedlun.Grow{Name: "a", SizeBytes: 16 * mib}})
			ranges := g.Volume("a").Ranges
			r.change = func(m *decide.Mapped) { m.Ranges = ranges }
		}, codes.FailedPrecondition},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			id := r.attach(t)
			r.make(t, "b", 8*mib)
			r.volume("a").Data = "of a pod"
			c.change(t, r)
			for _, want := range []*csipb.VolumeCapability{mounted, raw} {
				wantCode(t, r.Stage(t, id, want), c.code)
			}
			r.wantMounts(t)
			if v := r.volume("a"); v.Data != "of a pod" {
				t.Errorf("it was formatted: %+v", v)
			}
		})
	}
}

// release takes a volume from the node by its tags alone: the node was fenced, and its device is left.
func (r *rig) release(t *testing.T, name string) {
	t.Helper()
	r.apply(t, sharedlun.Change{Leave: &sharedlun.Hold{Name: name, Node: "n1"}})
	r.apply(t, sharedlun.Change{Release: &sharedlun.Release{Hold: sharedlun.Hold{Name: name, Node: "n1"}}})
}

// TestFirstUse: no filesystem is made on the node by itself, and nothing is shown of which the LUN does not say that it was used.
func TestFirstUse(t *testing.T) {
	for name, c := range map[string]struct {
		used    bool
		content string
		code    codes.Code
	}{
		"with its filesystem":              {true, "ext4", codes.OK},
		"with another one":                 {true, "xfs", codes.OK},
		"it was used, and nothing is left": {true, "", codes.FailedPrecondition},
		"it was used, and holds something": {true, csitest.Garbage, codes.FailedPrecondition},
		"nothing is on it yet":             {false, "", codes.Unavailable},
		"it is being made":                 {false, csitest.Garbage, codes.Unavailable},
		"it was made, and nobody said so":  {false, "ext4", codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			id := r.unused(t)
			if c.used {
				r.apply(t, sharedlun.Change{Used: &sharedlun.Hold{Name: "a", Node: "n1"}})
			}
			r.volume("a").Content, r.volume("a").Data = c.content, "x"
			wantCode(t, r.Stage(t, id, mounted), c.code)
			if v := r.volume("a"); v.Content != c.content || v.Data != "x" {
				t.Errorf("%+v", v)
			}
			if !c.used {
				wantCode(t, r.Stage(t, id, raw), codes.Unavailable)
				r.wantMounts(t)
			}
		})
	}
}

// TestExpand: the filesystem gets what the device shows, and no more.
func TestExpand(t *testing.T) {
	r := newRig(t)
	id := r.attach(t)
	must(t, r.Stage(t, id, mounted))
	expand := func() error {
		_, err := r.NodeExpandVolume(t.Context(), &csipb.NodeExpandVolumeRequest{
			VolumeId: id, VolumePath: r.Path(t, csitest.StagingPath), CapacityRange: &csipb.CapacityRange{RequiredBytes: 16 * mib},
		})
		return err
	}
	wantCode(t, expand(), codes.OutOfRange)
	r.apply(t, sharedlun.Change{Grow: &sharedlun.Grow{Name: "a", SizeBytes: 16 * mib}})
	r.apply(t, sharedlun.Change{Ready: &sharedlun.Ready{Name: "a", Bytes: 16 * mib}})
	r.mapped(t, "a")
	r.volume("a").Size = 16 * mib
	must(t, expand())
	if v := r.volume("a"); v.Files != 16*mib {
		t.Errorf("%+v", v)
	}
}

// TestRestart: what is needed to end the use of a volume outlives the agent; after a boot nothing is taken for there that is not.
func TestRestart(t *testing.T) {
	r := newRig(t)
	records := filepath.Join(t.TempDir(), "volumes")
	r.Stop()
	r.start(t, records)
	id := r.attach(t)
	must(t, r.Stage(t, id, mounted))
	must(t, r.Publish(t, id, "pod/a", mounted, false))
	r.Stop()
	attached := r.Attached
	r.start(t, records)
	_, err := r.NodeGetVolumeStats(t.Context(), &csipb.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: r.Path(t, "pod/a")})
	must(t, err)
	// Even without the LUN.
	r.blind = true
	must(t, r.Unpublish(t, id, "pod/a"))
	must(t, r.Unstage(t, id))
	r.wantMounts(t)
	r.blind = false
	r.node.Boot(t, 0xa1)
	r.host.Restart()
	r.Attached = attached
	wantCode(t, r.Stage(t, id, mounted), codes.Unavailable)
	wantCode(t, r.Publish(t, id, "pod/a", mounted, false), codes.NotFound)
}

func TestRecords(t *testing.T) {
	records := iscsi.Records{Dir: filepath.Join(t.TempDir(), "a", "volumes")}
	id := sharedlun.ID{Group: "EJOuKj-cD6h-GGXp-49EQ-tSM8-Xxrl-JtVpvn", Name: "pvc-1"}
	if got, err := records.Load(id); err != nil || got != (iscsi.Record{}) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, want := range []iscsi.Record{{UUID: "8AD8Uh-gR3m-AUdI-S0r1-Eqzm-EZDO-qI0cBB"}, {UUID: "jEZoDe-bC5T-H2qz-YsIR-0vc2-AYmI-KLnJvB"}} {
		must(t, records.Save(id, want))
		if got, err := records.Load(id); err != nil || got != want {
			t.Errorf("%+v, %v", got, err)
		}
	}
	for _, text := range []string{"", "{", `{"uuid":"x"}`} {
		must(t, os.WriteFile(filepath.Join(records.Dir, id.Group, id.Name), []byte(text), 0o600))
		if _, err := records.Load(id); !errors.Is(err, sharedlun.ErrUnread) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestRecords_forgotten: a volume is forgotten once it is unstaged, and one that the LUN does not have any more when the next one is staged.
func TestRecords_forgotten(t *testing.T) {
	r := newRig(t)
	dir := filepath.Join(t.TempDir(), "volumes")
	r.Stop()
	r.start(t, dir)
	id := r.attach(t)
	records, of := iscsi.Records{Dir: dir}, func(name string) sharedlun.ID { return sharedlun.ID{Group: r.ref.UUID, Name: name} }
	r.make(t, "b", 8*mib)
	for _, name := range []string{"b", "gone", "fresh"} {
		must(t, records.Save(of(name), iscsi.Record{UUID: "8AD8Uh-gR3m-AUdI-S0r1-Eqzm-EZDO-qI0cBB"}))
		if name != "fresh" {
			long := time.Now().Add(-2 * time.Hour)
			must(t, os.Chtimes(filepath.Join(dir, r.ref.UUID, name), long, long))
		}
	}
	remembered := func(name string) bool {
		got, err := records.Load(of(name))
		must(t, err)
		return got.UUID != ""
	}
	must(t, r.Stage(t, id, mounted))
	for name, want := range map[string]bool{"a": true, "b": true, "fresh": true, "gone": false} {
		if remembered(name) != want {
			t.Errorf("%s is remembered: %t", name, !want)
		}
	}
	for range 2 {
		must(t, r.Unstage(t, id))
	}
	if remembered("a") {
		t.Error("it is remembered after it was unstaged")
	}
}
