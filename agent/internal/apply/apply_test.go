package apply_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/agent/internal/apply"
	applylvm "quarry.storage/quarry/agent/internal/apply/lvm"
	"quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/agent/internal/plan"
)

// recorder is the tools of a node: it notes the commands of LVM and the changes to devices, and fails at one of them. It shows verify
// the devices of the snapshot.
type recorder struct {
	snapshot plan.Snapshot
	calls    []string
	failAt   int
	// held is what the guard was asked for, refuse its error, released the error of the context at the release.
	held     []string
	refuse   error
	released error
}

var errTool = errors.New("tool failed")

func (r *recorder) call(words ...string) error {
	r.calls = append(r.calls, strings.Join(words, " "))
	if len(r.calls) == r.failAt {
		return errTool
	}
	return nil
}

// Run notes a command of LVM.
func (r *recorder) Run(_ context.Context, cmd run.Command) (run.Result, error) {
	return run.Result{}, r.call(cmd.Args...)
}

// Perform makes devices clean.
func (r *recorder) Perform(_ context.Context, step plan.Step) error {
	switch s := step.(type) {
	case plan.WipeDevice:
		return r.verified("wipe", s.Token().Device().Path, s.Token().Device().Digest[:2], s.Token().Verify)
	case plan.ReleasePV:
		return r.verified("release", s.Token().Device().Path, s.PVUUID(), s.Token().Verify)
	}
	return apply.ErrUnknown
}

// Check looks at a device before LVM writes on it.
func (r *recorder) Check(_ context.Context, path string, verify apply.Verify) error {
	return r.verified("check", path, "", verify)
}

func (r *recorder) verified(verb, path, arg string, verify apply.Verify) error {
	d, _ := r.snapshot.Find(path)
	d.Group, d.OwnerUID = "", ""
	if err := verify(d); err != nil {
		return err
	}
	return r.call(verb, path, arg)
}

// Hold notes what is held, and with what context it is released.
func (r *recorder) Hold(_ context.Context, p plan.Plan) (func(context.Context), error) {
	if r.refuse != nil {
		return nil, r.refuse
	}
	r.held = append(r.held, strings.Join(p.Touches(), " "))
	return func(ctx context.Context) {
		r.held = append(r.held, "released")
		r.released = ctx.Err()
	}, nil
}

// applier performs steps with the real adapter of LVM and the recorder.
func (r *recorder) applier(t *testing.T) apply.Applier {
	t.Helper()
	tool, err := lvm.New(lvm.Config{Runner: r, Dir: filepath.Join(t.TempDir(), "lvm")})
	if err != nil {
		t.Fatal(err)
	}
	return apply.Applier{Adapter: apply.Adapters{r, applylvm.Adapter{Tool: tool, Devices: r}}, Guard: r}
}

func disk(name string) plan.Device {
	return plan.Device{
		Path: "/dev/" + name, KernelName: name, Type: "disk", SizeBytes: 8, Serial: name, ContentDigest: name, HeadTailZero: true, Use: plan.Unused,
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
		held     string
	}{
		"create": {
			plan.Snapshot{Devices: []plan.Device{disk("sda")}},
			func(s plan.Snapshot) (plan.Plan, error) { return plan.EnsureGroup(s, spec(disk("sda")), plan.Policy{}) },
			[]string{
				"check /dev/sda ",
				"pvcreate --devices /dev/sda --uuid " + plan.PVUUID("uid", plan.IdentityOf(disk("sda"))) + " --norestorefile /dev/sda",
				"vgcreate --devices /dev/sda --addtag quarry.storage/cluster=uid vg /dev/sda",
			},
			"/dev/sda",
		},
		"extend": {
			plan.Snapshot{Devices: []plan.Device{pv("sda"), disk("sdb")}, Groups: group(pv("sda"))},
			func(s plan.Snapshot) (plan.Plan, error) { return plan.EnsureGroup(s, spec(disk("sdb")), plan.Policy{}) },
			[]string{
				"check /dev/sdb ",
				"pvcreate --devices /dev/sdb --uuid " + plan.PVUUID("uid", plan.IdentityOf(disk("sdb"))) + " --norestorefile /dev/sdb",
				"vgextend --devices /dev/sda --devices /dev/sdb vg /dev/sdb",
			},
			"/dev/sda /dev/sdb",
		},
		"reduce": {
			plan.Snapshot{Devices: []plan.Device{pv("sda"), pv("sdb")}, Groups: group(pv("sda"), pv("sdb"))},
			func(s plan.Snapshot) (plan.Plan, error) { return plan.ReduceGroup(s, spec(pv("sdb")), plan.Policy{}) },
			[]string{"vgreduce --devices /dev/sda --devices /dev/sdb vg /dev/sdb", "release /dev/sdb pv-sdb"},
			"/dev/sda /dev/sdb",
		},
		"remove": {
			plan.Snapshot{Devices: []plan.Device{pv("sda")}, Groups: group(pv("sda"))},
			func(s plan.Snapshot) (plan.Plan, error) { return plan.RemoveGroup(s, spec(), plan.Policy{}) },
			[]string{"vgremove --devices /dev/sda vg", "release /dev/sda pv-sda"},
			"/dev/sda",
		},
		"remove without a device": {
			plan.Snapshot{Devices: []plan.Device{pv("sda")}, Groups: lacking(group(pv("sda"))[0])},
			func(s plan.Snapshot) (plan.Plan, error) { return plan.RemoveGroup(s, spec(), plan.Policy{}) },
			[]string{"vgreduce --devices /dev/sda --removemissing vg", "vgremove --devices /dev/sda vg", "release /dev/sda pv-sda"},
			"/dev/sda",
		},
		"wipe": {
			plan.Snapshot{Devices: []plan.Device{dirty}},
			func(s plan.Snapshot) (plan.Plan, error) { return plan.Wipe(s, plan.IdentityOf(dirty), plan.Policy{}) },
			[]string{"wipe /dev/sdx v1"},
			"/dev/sdx",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := tt.decide(tt.snapshot)
			if err != nil {
				t.Fatal(err)
			}
			for fail := range len(tt.want) + 1 {
				r := &recorder{snapshot: tt.snapshot, failAt: fail}
				err := r.applier(t).Apply(t.Context(), p)
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
				if diff := cmp.Diff([]string{tt.held, "released"}, r.held); diff != "" {
					t.Errorf("held with a failure at %d (-want +got):\n%s", fail, diff)
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
	if err := r.applier(t).Apply(t.Context(), p); !errors.Is(err, plan.ErrMismatch) {
		t.Errorf("error %v", err)
	}
	if len(r.calls) > 0 {
		t.Errorf("calls %q", r.calls)
	}
}

func TestApply_refusesStepsThatNoPlanMade(t *testing.T) {
	r := &recorder{snapshot: plan.Snapshot{Devices: []plan.Device{disk("sda")}}}
	for _, step := range []plan.Step{plan.CreatePV{UUID: "uuid-1"}, plan.ReleasePV{}, nil} {
		if err := r.applier(t).Apply(t.Context(), plan.Plan{Steps: []plan.Step{step}}); err == nil {
			t.Errorf("%T was performed", step)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	steps := []plan.Step{plan.RemoveVG{Name: "vg"}}
	if err := r.applier(t).Apply(ctx, plan.Plan{Steps: steps}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the context ended: %v", err)
	}
	if len(r.calls) > 0 {
		t.Errorf("calls %q", r.calls)
	}
}

func TestApply_holdsTheDevicesOfAPlan(t *testing.T) {
	a, b := pv("sda"), pv("sdb")
	s := plan.Snapshot{Devices: []plan.Device{a, b}, Groups: group(a, b)}
	p, err := plan.ReduceGroup(s, spec(b), plan.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{snapshot: s}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.applier(t).Apply(ctx, p); !errors.Is(err, context.Canceled) {
		t.Errorf("after the caller went away: %v", err)
	}
	if diff := cmp.Diff([]string{"/dev/sda /dev/sdb", "released"}, r.held); diff != "" || r.released != nil {
		t.Errorf("released with a context with %v; held (-want +got):\n%s", r.released, diff)
	}
	r = &recorder{snapshot: s, refuse: plan.ErrRefused}
	if err := r.applier(t).Apply(t.Context(), p); !errors.Is(err, plan.ErrRefused) || len(r.calls) > 0 {
		t.Errorf("another program has the device: %v, calls %q", err, r.calls)
	}
	if err := r.applier(t).Apply(t.Context(), plan.Plan{}); err != nil {
		t.Errorf("a plan without steps: %v", err)
	}
}
