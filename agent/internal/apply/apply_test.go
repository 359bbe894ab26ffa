package apply_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/agent/internal/apply"
	"quarry.storage/quarry/agent/internal/plan"
)

// recorder notes what is called, and fails at one call. It shows verify the devices of the snapshot.
type recorder struct {
	snapshot plan.Snapshot
	calls    []string
	failAt   int
}

var errTool = errors.New("tool failed")

func (r *recorder) call(words ...string) error {
	line := ""
	for _, w := range words {
		line += " " + w
	}
	r.calls = append(r.calls, line[1:])
	if len(r.calls) == r.failAt {
		return errTool
	}
	return nil
}

func (r *recorder) CreatePV(_ context.Context, device, uuid string) error {
	return r.call("pvcreate", device, uuid[:6])
}

func (r *recorder) CreateVG(_ context.Context, name string, tags, devices []string) error {
	return r.call(append(append([]string{"vgcreate", name}, tags...), devices...)...)
}

func (r *recorder) ExtendVG(_ context.Context, name string, group, devices []string) error {
	return r.call(append(append(append([]string{"vgextend", name}, group...), "+"), devices...)...)
}

func (r *recorder) ReduceVG(_ context.Context, name string, group, devices []string) error {
	return r.call(append(append(append([]string{"vgreduce", name}, group...), "-"), devices...)...)
}

func (r *recorder) ReduceMissing(_ context.Context, name string, group []string) error {
	return r.call(append([]string{"vgreduce", name, "missing"}, group...)...)
}

func (r *recorder) RemoveVG(_ context.Context, name string, group []string) error {
	return r.call(append([]string{"vgremove", name}, group...)...)
}

func (r *recorder) verified(verb, path, arg string, verify apply.Verify) error {
	d, _ := r.snapshot.Find(path)
	d.Group, d.OwnerUID = "", ""
	if err := verify(d); err != nil {
		return err
	}
	return r.call(verb, path, arg)
}

func (r *recorder) Check(_ context.Context, path string, verify apply.Verify) error {
	return r.verified("check", path, "", verify)
}

func (r *recorder) Wipe(_ context.Context, path, digest string, verify apply.Verify) error {
	return r.verified("wipe", path, digest[:2], verify)
}

func (r *recorder) Release(_ context.Context, path, uuid string, verify apply.Verify) error {
	return r.verified("release", path, uuid, verify)
}

func disk(name string) plan.Device {
	return plan.Device{
		Path: "/dev/" + name, KernelName: name, Type: "disk", SizeBytes: 8, Serial: name, ContentDigest: name, HeadTailZero: true, ExclusiveOK: true,
	}
}

func pv(name string) plan.Device {
	d := disk(name)
	d.PVUUID, d.Group, d.OwnerUID, d.HeadTailZero = "pv-"+name, "vg", "uid", false
	return d
}

func spec(devices ...plan.Device) plan.GroupSpec {
	w := plan.GroupSpec{Name: "vg", OwnerUID: "uid"}
	for _, d := range devices {
		w.Devices = append(w.Devices, plan.IdentityOf(d))
	}
	return w
}

func group(devices ...plan.Device) []plan.Group {
	g := plan.Group{Name: "vg", OwnerUID: "uid"}
	for _, d := range devices {
		g.PVs = append(g.PVs, plan.PV{Path: d.Path, UUID: d.PVUUID})
	}
	return []plan.Group{g}
}

// lacking is the group with a device more, which is missing.
func lacking(g plan.Group) []plan.Group {
	g.Partial, g.PVs = true, append(g.PVs, plan.PV{UUID: "pv-gone"})
	return []plan.Group{g}
}

func TestApply_performsStepsInOrder(t *testing.T) {
	dirty := disk("sdx")
	dirty.HeadTailZero = false
	for name, tt := range map[string]struct {
		snapshot plan.Snapshot
		decide   func(plan.Snapshot) (plan.Plan, error)
		want     []string
	}{
		"create": {
			plan.Snapshot{Devices: []plan.Device{disk("sda")}},
			func(s plan.Snapshot) (plan.Plan, error) { return plan.EnsureGroup(s, spec(disk("sda")), plan.Policy{}) },
			[]string{
				"check /dev/sda ", "pvcreate /dev/sda " + plan.PVUUID("uid", plan.IdentityOf(disk("sda")))[:6],
				"vgcreate vg quarry.storage/cluster=uid /dev/sda",
			},
		},
		"extend": {
			plan.Snapshot{Devices: []plan.Device{pv("sda"), disk("sdb")}, Groups: group(pv("sda"))},
			func(s plan.Snapshot) (plan.Plan, error) { return plan.EnsureGroup(s, spec(disk("sdb")), plan.Policy{}) },
			[]string{
				"check /dev/sdb ", "pvcreate /dev/sdb " + plan.PVUUID("uid", plan.IdentityOf(disk("sdb")))[:6],
				"vgextend vg /dev/sda + /dev/sdb",
			},
		},
		"reduce": {
			plan.Snapshot{Devices: []plan.Device{pv("sda"), pv("sdb")}, Groups: group(pv("sda"), pv("sdb"))},
			func(s plan.Snapshot) (plan.Plan, error) { return plan.ReduceGroup(s, spec(pv("sdb")), plan.Policy{}) },
			[]string{"vgreduce vg /dev/sda /dev/sdb - /dev/sdb", "release /dev/sdb pv-sdb"},
		},
		"remove": {
			plan.Snapshot{Devices: []plan.Device{pv("sda")}, Groups: group(pv("sda"))},
			func(s plan.Snapshot) (plan.Plan, error) { return plan.RemoveGroup(s, spec(), plan.Policy{}) },
			[]string{"vgremove vg /dev/sda", "release /dev/sda pv-sda"},
		},
		"remove without a device": {
			plan.Snapshot{Devices: []plan.Device{pv("sda")}, Groups: lacking(group(pv("sda"))[0])},
			func(s plan.Snapshot) (plan.Plan, error) { return plan.RemoveGroup(s, spec(), plan.Policy{}) },
			[]string{"vgreduce vg missing /dev/sda", "vgremove vg /dev/sda", "release /dev/sda pv-sda"},
		},
		"wipe": {
			plan.Snapshot{Devices: []plan.Device{dirty}},
			func(s plan.Snapshot) (plan.Plan, error) { return plan.Wipe(s, plan.IdentityOf(dirty), plan.Policy{}) },
			[]string{"wipe /dev/sdx v1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := tt.decide(tt.snapshot)
			if err != nil {
				t.Fatal(err)
			}
			for fail := range len(tt.want) + 1 {
				r := &recorder{snapshot: tt.snapshot, failAt: fail}
				err := apply.Applier{Groups: r, Disks: r}.Apply(t.Context(), p)
				want := tt.want
				var step *apply.StepError
				if fail > 0 {
					want = want[:fail]
					if !errors.As(err, &step) || !errors.Is(err, errTool) || step.Number < 1 {
						t.Errorf("failure at call %d: %v", fail, err)
					}
				} else if err != nil {
					t.Error(err)
				}
				if diff := cmp.Diff(want, r.calls); diff != "" {
					t.Errorf("calls with a failure at %d (-want +got):\n%s", fail, diff)
				}
			}
		})
	}
}

func TestApply_comparesAgain(t *testing.T) {
	s := plan.Snapshot{Devices: []plan.Device{disk("sda")}}
	p, err := plan.EnsureGroup(s, spec(disk("sda")), plan.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	s.Devices[0].ContentDigest = "changed meanwhile"
	r := &recorder{snapshot: s}
	if err := (apply.Applier{Groups: r, Disks: r}).Apply(t.Context(), p); !errors.Is(err, plan.ErrMismatch) {
		t.Errorf("error %v", err)
	}
	if len(r.calls) > 0 {
		t.Errorf("calls %q", r.calls)
	}
}

func TestApply_refusesStepsThatNoPlanMade(t *testing.T) {
	r := &recorder{snapshot: plan.Snapshot{Devices: []plan.Device{disk("sda")}}}
	for _, step := range []plan.Step{plan.CreatePV{UUID: "uuid-1"}, plan.ReleasePV{}, nil} {
		if err := (apply.Applier{Groups: r, Disks: r}).Apply(t.Context(), plan.Plan{Steps: []plan.Step{step}}); err == nil {
			t.Errorf("%T was performed", step)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	steps := []plan.Step{plan.RemoveVG{Name: "vg"}}
	if err := (apply.Applier{Groups: r, Disks: r}).Apply(ctx, plan.Plan{Steps: steps}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the context ended: %v", err)
	}
	if len(r.calls) > 0 {
		t.Errorf("calls %q", r.calls)
	}
}
