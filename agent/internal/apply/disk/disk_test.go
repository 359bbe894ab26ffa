package disk

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"quarry.storage/quarry/agent/internal/apply"
	hostdisk "quarry.storage/quarry/agent/internal/host/disk"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/prep"
	"quarry.storage/quarry/pkg/osd"
	"quarry.storage/quarry/pkg/osd/osdtest"
)

// still shows one device, whatever the file.
type still struct {
	device plan.Device
	err    error
}

func (s still) Inspect(context.Context, *os.File) (plan.Device, error) { return s.device, s.err }

func TestRefused(t *testing.T) {
	for _, err := range []error{hostdisk.ErrBusy, hostdisk.ErrMark, hostdisk.ErrNotOurs} {
		if got := refused(err); !errors.Is(got, plan.ErrRefused) || !errors.Is(got, err) {
			t.Errorf("%v becomes %v", err, got)
		}
	}
	for _, err := range []error{nil, errors.New("input/output error"), &plan.MismatchError{}} {
		if got := refused(err); errors.Is(got, plan.ErrRefused) || !errors.Is(got, err) {
			t.Errorf("%v becomes %v", err, got)
		}
	}
}

// image is a device of 4 MiB that carries data of no known format.
func image(t *testing.T) plan.Device {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk")
	if err := errors.Join(os.WriteFile(path, []byte("somebody's data"), 0o600), os.Truncate(path, 4<<20)); err != nil {
		t.Fatal(err)
	}
	return plan.Device{
		Path: path, KernelName: "sda", Type: "disk", Serial: "S", SizeBytes: 4 << 20, ContentDigest: "data", Use: plan.Unused,
	}
}

func wipe(t *testing.T, d plan.Device) plan.Step {
	t.Helper()
	p, err := plan.Wipe(plan.Snapshot{Devices: []plan.Device{d}}, plan.IdentityOf(d), plan.Policy{})
	if err != nil || len(p.Steps) != 1 {
		t.Fatalf("plan %v, %v", p, err)
	}
	return p.Steps[0]
}

func TestPerform_wipesWhatTheTokenNames(t *testing.T) {
	d := image(t)
	other := d
	other.ContentDigest = "other data"
	for _, tt := range []struct {
		seen    still
		want    error
		cleaned bool
	}{
		{still{device: other}, plan.ErrMismatch, false},
		{still{err: os.ErrPermission}, os.ErrPermission, false},
		{still{device: d}, nil, true},
	} {
		a := Adapter{Tool: hostdisk.New(), Devices: tt.seen}
		if err := a.Perform(t.Context(), wipe(t, d)); !errors.Is(err, tt.want) {
			t.Errorf("seen %+v: %v, want %v", tt.seen, err, tt.want)
		}
		facts, err := a.Tool.Probe(t.Context(), d.Path)
		if err != nil || facts.Clean() != tt.cleaned {
			t.Errorf("seen %+v: clean %t, %v", tt.seen, facts.Clean(), err)
		}
	}
	if err := (Adapter{Tool: hostdisk.New()}).Perform(t.Context(), prep.ClearOSD{}); err == nil || errors.Is(err, apply.ErrUnknown) {
		t.Errorf("a step without a token: %v", err)
	}
	if err := (Adapter{Tool: hostdisk.New()}).Perform(t.Context(), plan.RemoveVG{Name: "vg"}); !errors.Is(err, apply.ErrUnknown) {
		t.Errorf("a step of another tool: %v", err)
	}
}

func TestCheck_asksVerify(t *testing.T) {
	d, no := image(t), errors.New("no")
	a := Adapter{Tool: hostdisk.New(), Devices: still{device: d}}
	seen := ""
	if err := a.Check(t.Context(), d.Path, func(d plan.Device) error { seen = d.Serial; return no }); !errors.Is(err, no) || seen != "S" {
		t.Errorf("saw %q: %v", seen, err)
	}
	if err := a.Check(t.Context(), d.Path+"x", func(plan.Device) error { return nil }); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an absent device: %v", err)
	}
}

func TestHold_keepsTestsForUsersAway(t *testing.T) {
	d := image(t)
	a := Adapter{Tool: hostdisk.New(), Devices: still{device: d}, Udev: &udev{t: t}}
	exclusive := func() bool {
		free, err := a.Tool.Exclusive(t.Context(), d.Path)
		if err != nil {
			t.Error(err)
		}
		return free
	}
	p := plan.Plan{Steps: []plan.Step{wipe(t, d), wipe(t, d)}}
	release, err := a.Hold(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	during := exclusive()
	release(t.Context())
	if during || !exclusive() {
		t.Errorf("opened exclusively: %t while it was held, %t after it", during, exclusive())
	}
	if err := os.Remove(d.Path); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Hold(t.Context(), p); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an absent device: %v", err)
	}
}

// TestPerform_clearsTheOSDThatTheTokenNames: what the device is at the moment of the step decides.
func TestPerform_clearsTheOSDThatTheTokenNames(t *testing.T) {
	const cluster, size = "0d4f0fb1-f7d4-4f0c-9d52-1f5ef2b55d5f", 2 << 30
	d := image(t)
	d.SizeBytes = size
	uuid, err := osd.UUID(cluster, osd.Disk{Serial: d.Serial, SizeBytes: size, Node: "n1"}, d.Path)
	if err != nil {
		t.Fatal(err)
	}
	label := osd.Label{UUID: uuid, SizeBytes: size, Description: "main"}
	if err := errors.Join(os.WriteFile(d.Path, osdtest.Block(label, nil), 0o600), os.Truncate(d.Path, size)); err != nil {
		t.Fatal(err)
	}
	d.Labels, d.Signatures = []osd.Found{{Label: label}}, []plan.Signature{{Type: "ceph_bluestore", UUID: uuid}}
	want := osd.Wanted{UUID: uuid, FSID: cluster, ID: 7}
	p, err := prep.Zap(plan.Snapshot{Devices: []plan.Device{d}}, prep.Spec{
		Node:   "n1",
		Device: plan.IdentityOf(d), ClusterUID: cluster, Want: want, Making: prep.Look(d, want, plan.Policy{}).Making,
	}, plan.Policy{})
	if err != nil || len(p.Steps) != 1 {
		t.Fatalf("%+v, %v", p, err)
	}
	foreign := d
	foreign.Labels = []osd.Found{{Label: osd.Label{UUID: cluster, SizeBytes: size, Description: "main"}}}
	for _, tt := range []struct {
		seen    plan.Device
		want    error
		cleaned bool
	}{{foreign, plan.ErrMismatch, false}, {d, nil, true}} {
		a := Adapter{Tool: hostdisk.New(), Devices: still{device: tt.seen}}
		if err := a.Perform(t.Context(), p.Steps[0]); !errors.Is(err, tt.want) {
			t.Errorf("%v, want %v", err, tt.want)
		}
		facts, err := a.Tool.Probe(t.Context(), d.Path)
		if err != nil || facts.Clean() != tt.cleaned {
			t.Errorf("clean %t, %v", facts.Clean(), err)
		}
	}
}
