package lvm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/agent/internal/apply"
	hostlvm "quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/volume"
)

func TestMeaning(t *testing.T) {
	for _, tt := range []struct {
		in   meanings
		err  error
		want error
	}{
		{groupErrors, fmt.Errorf("x: %w", hostlvm.ErrInUse), plan.ErrRefused},
		{groupErrors, hostlvm.ErrSignature, plan.ErrRefused},
		{groupErrors, hostlvm.ErrExists, plan.ErrRefused},
		{groupErrors, hostlvm.ErrNotFound, plan.ErrRefused},
		{groupErrors, hostlvm.ErrPartial, plan.ErrRefused},
		{volumeErrors, hostlvm.ErrExists, plan.ErrAlreadyExists},
		{volumeErrors, hostlvm.ErrNoSpace, plan.ErrNoRoom},
		{volumeErrors, hostlvm.ErrInUse, plan.ErrInUse},
		{volumeErrors, hostlvm.ErrNotFound, plan.ErrRefused},
		{volumeErrors, hostlvm.ErrPartial, plan.ErrRefused},
	} {
		if got := meaning(tt.err, tt.in); !errors.Is(got, tt.want) || !errors.Is(got, tt.err) {
			t.Errorf("%v becomes %v, not %v", tt.err, got, tt.want)
		}
	}
	for _, err := range []error{nil, errors.New("exit status 5"), &plan.MismatchError{}, hostlvm.ErrNoSpace} {
		if got := meaning(err, groupErrors); errors.Is(got, plan.ErrRefused) || !errors.Is(got, err) {
			t.Errorf("%v becomes %v", err, got)
		}
	}
}

// refuser shows no device.
type refuser struct{ err error }

func (r refuser) Check(context.Context, string, apply.Verify) error { return r.err }

func adapter(t *testing.T, script ...run.Step) (Adapter, *run.Fake) {
	t.Helper()
	fake := run.NewFake(script...)
	tool, err := hostlvm.New(hostlvm.Config{Runner: fake, Dir: filepath.Join(t.TempDir(), "lvm")})
	if err != nil {
		t.Fatal(err)
	}
	return Adapter{Tool: tool, Devices: refuser{err: plan.ErrMismatch}}, fake
}

func TestPerform_onVolumes(t *testing.T) {
	group := plan.GroupRef{Name: "vg", Tag: "quarry.storage/cluster=uid", Devices: []string{"/dev/a"}}
	const mb = 1 << 20
	for _, tt := range []struct {
		step plan.Step
		says string
		runs string
	}{
		{
			volume.CreateLV{Group: group, Name: "v", Tags: []string{"quarry.storage/volume=id"}, SizeBytes: 4 * mb},
			"",
			"lvcreate -n v --addtag quarry.storage/volume=id -Wy -Zy --yes -L 4194304b vg",
		},
		{
			volume.CreateLV{Group: group, Name: "v", Tags: []string{"quarry.storage/volume=id"}, Source: "w", Snapshot: true},
			"",
			"lvcreate -n v --addtag quarry.storage/volume=id -s -ky -pr vg/w",
		},
		{
			volume.CreateLV{Group: group, Name: "v", Tags: []string{"quarry.storage/volume=id"}, SizeBytes: 4 * mb, Pool: "p"},
			"",
			"lvcreate -n v --addtag quarry.storage/volume=id -Wn -V 4194304b --thinpool p vg",
		},
		{volume.ExtendLV{Group: group, Name: "v", SizeBytes: 8 * mb}, "", "lvextend -L 8388608b vg/v"},
		{
			volume.ExtendLV{Group: group, Name: "p", SizeBytes: 8 * mb, MetadataBytes: 4 * mb},
			"",
			"lvextend -L 8388608b --poolmetadatasize 4194304b vg/p",
		},
		{volume.ActivateLV{Group: group, Name: "v", Tag: "quarry.storage/volume=id"}, "", "lvchange -ay -K vg/v"},
		{
			volume.MarkRemoving{Group: group, Name: "v", Tag: "quarry.storage/volume=id"},
			"changed",
			"lvchange --addtag quarry.storage/removing vg/v",
		},
		{volume.SettleLV{Group: group, Name: "v", Tag: "quarry.storage/volume=id"}, "changed", "lvchange --deltag quarry.storage/new vg/v"},
		{volume.RemoveLV{Group: group, Name: "v", Tag: "quarry.storage/volume=id"}, "successfully removed", "lvremove vg/v"},
		{
			volume.CreatePool{
				Group: group, Name: "p", Tags: []string{plan.TagPool}, SizeBytes: 8 * mb, MetadataBytes: 4 * mb, ChunkBytes: 64 << 10,
			},
			"",
			"lvcreate --type thin-pool -n p --addtag quarry.storage/pool -Zy -L 8388608b --poolmetadatasize 4194304b --chunksize 65536b vg",
		},
		{plan.DeactivatePool{Group: group, Name: "p", Tag: plan.TagPool}, "", "lvchange -an vg/p"},
		{plan.RemovePool{Group: group, Name: "p", Tag: plan.TagPool}, "successfully removed", "lvremove vg/p"},
	} {
		a, fake := adapter(t, run.Step{Result: run.Result{Stdout: []byte(tt.says)}})
		if err := a.Perform(t.Context(), tt.step); err != nil {
			t.Errorf("%s: %v", tt.step, err)
		}
		if diff := cmp.Diff([]string{tt.runs}, commands(fake)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.step, diff)
		}
	}
}

// commands are the calls, without the devices and without what makes LVM look at tags: host/lvm tests those.
func commands(f *run.Fake) []string {
	var out []string
	for _, c := range f.Calls() {
		var args []string
		for i := 0; i < len(c.Args); i++ {
			switch c.Args[i] {
			case "--devices", "--config", "-S":
				i++
			default:
				args = append(args, c.Args[i])
			}
		}
		out = append(out, strings.Join(args, " "))
	}
	return out
}

func TestPerform_refuses(t *testing.T) {
	a, fake := adapter(t)
	if err := a.Perform(t.Context(), plan.CreatePV{Stem: "uuid-1"}); !errors.Is(err, plan.ErrMismatch) {
		t.Errorf("a device that is not as described: %v", err)
	}
	for _, step := range []plan.Step{plan.CreateVG{Name: "vg", Devices: []string{"/dev/sda"}}, plan.ExtendVG{Name: "vg", Devices: []string{"/dev/sda"}}} {
		if err := a.Perform(t.Context(), step); !errors.Is(err, plan.ErrRefused) {
			t.Errorf("%T that nothing permits: %v", step, err)
		}
	}
	for _, step := range []plan.Step{plan.WipeDevice{}, plan.ReleasePV{}, nil} {
		if err := a.Perform(t.Context(), step); !errors.Is(err, apply.ErrUnknown) {
			t.Errorf("%T, a step of another tool: %v", step, err)
		}
	}
	if calls := fake.Calls(); len(calls) > 0 {
		t.Errorf("calls %v", calls)
	}
}

// TestPerform_removedGroup: what was noted of a group goes with it, and a group of which nobody knows the UUID is not removed.
func TestPerform_removedGroup(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lvm")
	fake := run.NewFake(run.Step{})
	tool, err := hostlvm.New(hostlvm.Config{Runner: fake, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	noted, device := filepath.Join(dir, "newest", "uuid"), filepath.Join(t.TempDir(), "disk")
	for _, err := range []error{os.MkdirAll(filepath.Dir(noted), 0o700), os.WriteFile(noted, []byte("7 vg\n"), 0o600), os.WriteFile(device, nil, 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	a := Adapter{Tool: tool}
	if err := a.Perform(t.Context(), plan.RemoveVG{Name: "vg", GroupDevices: []string{device}}); err == nil || len(fake.Calls()) > 0 {
		t.Errorf("removed without a UUID: %v, %v", err, fake.Calls())
	}
	if err := a.Perform(t.Context(), plan.RemoveVG{Name: "vg", UUID: "uuid", GroupDevices: []string{device}}); err != nil || len(fake.Calls()) != 1 {
		t.Errorf("%v, %v", err, fake.Calls())
	}
	if _, err := os.Stat(noted); !os.IsNotExist(err) {
		t.Errorf("it is still noted: %v", err)
	}
}
