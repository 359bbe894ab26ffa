package module

import (
	"os"
	"path/filepath"
	"testing"

	"quarry.storage/quarry/agent/internal/host/run"
)

func TestState(t *testing.T) {
	root := t.TempDir()
	sys, proc := filepath.Join(root, "sys"), filepath.Join(root, "proc")
	for _, dir := range []string{filepath.Join(sys, "module/dm_mod"), proc} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(proc, "filesystems"), []byte("nodev\tsysfs\n\text4\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, name string
		// modprobe is what the host's says; nil where it is not asked.
		modprobe *run.Result
		want     State
	}{
		{"loaded", "dm_mod", nil, Present},
		{"a filesystem that is built in", "ext4", nil, Present},
		{"a filesystem without a device", "sysfs", nil, Present},
		{"found", "iscsi_tcp", &run.Result{}, Loadable},
		{"not found", "ceph", &run.Result{ExitCode: 1}, Missing},
		{"a part of a name is no name", "ext", &run.Result{ExitCode: 1}, Missing},
		{"no modprobe on the host", "ceph", &run.Result{ExitCode: 127, Stderr: []byte("nsenter: failed to execute modprobe")}, Unknown},
		{"the host's mounts cannot be entered", "ceph", &run.Result{ExitCode: 1, Stderr: []byte("nsenter: cannot open /proc/1/ns/mnt")}, Unknown},
	} {
		fake := run.NewFake()
		if c.modprobe != nil {
			fake = run.NewFake(run.Step{Result: *c.modprobe, Argv: []string{
				nsenter, "--mount=" + proc + "/1/ns/mnt", "--", "modprobe", "--dry-run", "--quiet", c.name,
			}})
		}
		got, err := New(Config{Runner: fake, Sys: sys, Proc: proc}).State(t.Context(), c.name)
		if got != c.want || (err != nil) != (c.want == Unknown) || fake.Left() != 0 {
			t.Errorf("%s: %v, %v, want %v", c.what, got, err, c.want)
		}
	}
	if got, err := New(Config{Runner: run.NewFake(), Sys: sys, Proc: root}).State(t.Context(), "dm_thin_pool"); got != Unknown || err == nil {
		t.Errorf("a /proc that cannot be read: %v, %v", got, err)
	}
}
