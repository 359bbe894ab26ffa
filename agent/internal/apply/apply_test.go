package apply_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/agent/internal/apply"
	applylvm "quarry.storage/quarry/agent/internal/apply/lvm"
	"quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/pkg/pvuuid"
)

// recorder is the tools of a node: it notes the commands of LVM and the changes to devices, and fails at one of them. It shows verify
// the devices of the snapshot.
type recorder struct {
	snapshot plan.Snapshot
	calls    []string
	failAt   int
	// made are the physical volumes that LVM made.
	made []made
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
	words := slices.Clone(cmd.Args)
	if i := slices.Index(words, "--uuid"); words[0] == "pvcreate" && i > 0 {
		r.made = append(r.made, made{path: words[len(words)-1], uuid: words[i+1]})
		// The rest is random.
		words[i+1] = words[i+1][:len(stemOf("sda"))]
	}
	return run.Result{}, r.call(words...)
}

// made is a physical volume with the device that it is on.
type made struct{ path, uuid string }

func stemOf(name string) string {
	d := disk(name)
	return pvuuid.Stem("uid", pvuuid.Disk{WWN: d.WWN, Serial: d.Serial, SizeBytes: d.SizeBytes}, d.Path)
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
	for _, m := range r.made {
		if m.path == path {
			d.PVUUID = m.uuid
		}
	}
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
		Path: "/dev/" + name, KernelName: name, Type: "disk", SizeBytes: 100 << 20, Serial: name, ContentDigest: name, HeadTailZero: true, Use: plan.Unused,
	}
}

// sized is the end of a pvcreate of a disk.
const sized = " --norestorefile --setphysicalvolumesize 103809024b "

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
	g := plan.Group{Name: "vg", UUID: "uuid-vg", OwnerUID: "uid"}
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
				"pvcreate --devices /dev/sda --uuid " + stemOf("sda") + sized + "/dev/sda",
				"check /dev/sda ",
				"vgcreate --devices /dev/sda --setautoactivation n --addtag quarry.storage/cluster=uid --vgmetadatacopies 4 vg /dev/sda",
			},
			"/dev/sda",
		},
		"extend": {
			plan.Snapshot{Devices: []plan.Device{pv("sda"), disk("sdb")}, Groups: group(pv("sda"))},
			func(s plan.Snapshot) (plan.Plan, error) { return plan.EnsureGroup(s, spec(disk("sdb")), plan.Policy{}) },
			[]string{
				"check /dev/sdb ",
				"pvcreate --devices /dev/sdb --uuid " + stemOf("sdb") + sized + "/dev/sdb",
				"check /dev/sdb ",
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

// TestApply_looksAgainBeforeAGroupTakesDevices: vgcreate and vgextend make physical volumes of whatever they are given.
func TestApply_looksAgainBeforeAGroupTakesDevices(t *testing.T) {
	orphan := disk("sda")
	orphan.PVUUID, orphan.HeadTailZero = pvuuid.Complete(stemOf("sda")), false
	for name, change := range map[string]func(*plan.Device){
		"somebody took the label off":        func(d *plan.Device) { d.PVUUID = "" },
		"another physical volume is there":   func(d *plan.Device) { d.PVUUID = pvuuid.Complete(stemOf("sda")) },
		"another disk stands under the path": func(d *plan.Device) { d.Serial = "other" },
	} {
		for _, groups := range [][]plan.Group{nil, group(pv("sdb"))} {
			s := plan.Snapshot{Devices: []plan.Device{orphan, pv("sdb")}, Groups: groups}
			p, err := plan.EnsureGroup(s, spec(orphan), plan.Policy{})
			if err != nil || len(p.Steps) != 1 {
				t.Fatalf("plan %v, %v", p, err)
			}
			r := &recorder{snapshot: plan.Snapshot{Devices: slices.Clone(s.Devices)}}
			change(&r.snapshot.Devices[0])
			if err := r.applier(t).Apply(t.Context(), p); !errors.Is(err, plan.ErrMismatch) || len(r.calls) > 0 {
				t.Errorf("%s: error %v, calls %q", name, err, r.calls)
			}
		}
	}
}

func TestApply_refusesStepsThatNoPlanMade(t *testing.T) {
	r := &recorder{snapshot: plan.Snapshot{Devices: []plan.Device{disk("sda")}}}
	for _, step := range []plan.Step{plan.CreatePV{Stem: "uuid-1"}, plan.ReleasePV{}, nil} {
		if err := r.applier(t).Apply(t.Context(), plan.Plan{Steps: []plan.Step{step}}); err == nil {
			t.Errorf("%T was performed", step)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	steps := []plan.Step{plan.RemoveVG{Name: "vg", UUID: "uuid-vg"}}
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
