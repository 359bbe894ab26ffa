package ceph_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/controller/internal/ceph"
	"quarry.storage/quarry/controller/internal/ceph/cephtest"
)

// TestStandIn_isLikeCeph: what the model prints has no field that a real Ceph did not print in the same place, with a value of the same type.
func TestStandIn_isLikeCeph(t *testing.T) {
	c := cephtest.New(t, fsid, "n0", "n1", "n2")
	c.Servers = []string{"m", "n"}
	c.Pools = []cephtest.Pool{{Name: "data", Size: 3, MinSize: 2, Bulk: true}}
	c.OSDs = append(c.OSDs, cephtest.OSD{ID: 3, UUID: cephtest.UUID(3), New: true, In: true})
	c.Monitors["c"], c.Degraded = false, 24
	for _, line := range []string{
		"quorum_status", "status", "osd dump", "osd tree", "osd df", "osd crush rule dump", "fs dump", "mon metadata", "mgr metadata", "osd metadata", "mds metadata",
		"osd safe-to-destroy 1", "osd ok-to-stop 2",
	} {
		args := strings.Fields(line)
		real := recordedIn(t, "down", strings.ReplaceAll(strings.Join(args, "_"), "-", "_"))
		if diff := unlike("", printed(t, c, args...), real); diff != "" {
			t.Errorf("ceph %s: %s", line, diff)
		}
	}
	c.NoOut["n1"] = true
	if diff := unlike("", printed(t, c, "osd", "dump"), recordedIn(t, "whole", "noout_group_dump")); diff != "" {
		t.Errorf("ceph osd dump with a flag: %s", diff)
	}
	if diff := unlike("", printed(t, c, "osd", "new", cephtest.UUID(9)), recordedIn(t, "new", "osd_new")); diff != "" {
		t.Errorf("ceph osd new: %s", diff)
	}
}

// TestStandIn_diesLikeCeph: of an OSD that died the model says what was recorded, as long as copies are missing, afterwards, and once it is back.
func TestStandIn_diesLikeCeph(t *testing.T) {
	c := cephtest.New(t, fsid, "n0", "n1", "n2", "n3")
	o := &c.OSDs[3]
	for _, step := range []struct {
		state  string
		change func()
	}{
		{"dying", func() { o.Up, c.Groups = false, map[string]int{"active+undersized+degraded": 17} }},
		{"dead", func() { o.In, o.AutoOut, c.Groups = false, true, map[string]int{"active+clean": 17} }},
		{"returned", func() { o.Start("n3", 2<<30) }},
	} {
		step.change()
		if diff := cmp.Diff(recordedIn(t, step.state, "safe_to_destroy_3"), printed(t, c, "osd", "safe-to-destroy", "3")); diff != "" {
			t.Errorf("%s (-recorded +model):\n%s", step.state, diff)
		}
		find := func(dump any) any { return dump.(map[string]any)["osds"].([]any)[3] }
		real, model := find(recordedIn(t, step.state, "osd_dump")), find(printed(t, c, "osd", "dump"))
		for _, key := range []string{"up", "in"} {
			if diff := cmp.Diff(real.(map[string]any)[key], model.(map[string]any)[key]); diff != "" {
				t.Errorf("%s, %s (-recorded +model):\n%s", step.state, key, diff)
			}
		}
	}
}

// TestStandIn_refusesLikeCeph: the exit codes of the model are those that were recorded, and so is what it says of the cause.
func TestStandIn_refusesLikeCeph(t *testing.T) {
	c := cephtest.New(t, fsid, "n0", "n1", "n2")
	c.OSDs[0].Needed = true
	c.Pools = []cephtest.Pool{{Name: "data", Size: 3, MinSize: 2}}
	for line, recorded := range map[string]string{
		"osd ok-to-stop 0": "down/ok_to_stop_0", "osd purge 1 --yes-i-really-mean-it": "out/purge_up", "osd crush rm n1": "whole/crush_rm_full",
		"osd pool set absent size 3": "scratch/pool_size_absent", "osd pool set data size 1": "scratch/pool_size_one", "osd set-group noout n9": "whole/noout_group_absent",
		"osd require-osd-release squid": "whole/require_older",
	} {
		said, err := os.ReadFile(filepath.Join("testdata", recorded+".exit"))
		if err != nil {
			t.Fatal(err)
		}
		var code int
		var word, errno string
		if _, err := fmt.Sscanf(string(said), "%d\n%s %s", &code, &word, &errno); err != nil {
			t.Fatalf("%s: %v in %q", recorded, err, said)
		}
		got := run(t, c, strings.Fields(line)...)
		if got.ExitCode != code || !strings.HasPrefix(string(got.Stderr), word+" "+errno) {
			t.Errorf("ceph %s: %d, %s; Ceph ends with %s", line, got.ExitCode, got.Stderr, said)
		}
	}
	for line, recorded := range map[string]string{
		"mon rm q": "out/mon_rm_again", "mon ok-to-rm q": "whole/mon_ok_to_rm_absent", "osd purge 9 --yes-i-really-mean-it": "out/purge_again",
		"osd crush rm n9": "out/crush_rm_again", "osd out 9": "whole/out_absent", "osd unset-group noout n1": "whole/noout_unset_again",
	} {
		if _, err := os.Stat(filepath.Join("testdata", recorded+".json")); err != nil {
			t.Errorf("%s: Ceph refuses it: %v", line, err)
		}
		if got := run(t, c, strings.Fields(line)...); got.ExitCode != 0 {
			t.Errorf("ceph %s: %d, %s", line, got.ExitCode, got.Stderr)
		}
	}
}

// TestDashboard_isLikeCeph: what the model says of the dashboard, and of which modules its managers have, is what a real Ceph said.
func TestDashboard_isLikeCeph(t *testing.T) {
	c, client := onDashboard(t)
	saw := func(name string) {
		t.Helper()
		if diff := unlike("", printed(t, c, "mgr", "dump"), recordedIn(t, "dashboard", name)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	saw("mgr_dump_without_certificate")
	c.Modules["dashboard"] = false
	if off, err := os.ReadFile(filepath.Join("testdata", "dashboard", "show_off.exit")); err != nil {
		t.Error(err)
	} else if got := run(t, c, "dashboard", "ac-user-show"); fmt.Sprintf("%d\n%s", got.ExitCode, got.Stderr) != string(off) {
		t.Errorf("off: %d, %s", got.ExitCode, got.Stderr)
	}
	c.Modules["dashboard"] = true
	for _, step := range []struct{ line, input, recorded string }{
		{"dashboard ac-user-show", "", "show_none"},
		{"config-key exists mgr/dashboard/key", "", "key_absent"},
		{"dashboard ac-user-create u read-only", "short", "create_weak"},
		{"dashboard ac-user-create u nonsense", password, "create_unknown_role"},
		{"dashboard ac-user-set-password u", password, "set_password_absent"},
		{"dashboard ac-user-create u read-only", password, "create"},
		{"dashboard ac-user-set-password u", password, "set_password"},
		{"dashboard ac-user-show", "", "show"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		got, err := c.Run(ctx, ceph.Command{Args: strings.Fields(step.line), Input: []byte(step.input)})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		if said, err := os.ReadFile(filepath.Join("testdata", "dashboard", step.recorded+".exit")); err == nil {
			if want := fmt.Sprintf("%d\n%s", got.ExitCode, got.Stderr); want != string(said) {
				t.Errorf("ceph %s: %q; Ceph ends with %q", step.line, want, said)
			}
			continue
		}
		var answer any
		if err := json.Unmarshal(got.Stdout, &answer); err != nil || got.ExitCode != 0 {
			t.Fatalf("ceph %s: %d, %v", step.line, got.ExitCode, err)
		}
		if diff := unlike("", answer, recordedIn(t, "dashboard", step.recorded)); diff != "" {
			t.Errorf("ceph %s: %s", step.line, diff)
		}
	}
	c.Dashboard.Certificate = true
	saw("mgr_dump")
	if f, err := client.Facts(t.Context()); err != nil || f.Dashboard == "" {
		t.Errorf("%q, %v", f.Dashboard, err)
	}
}

func run(t *testing.T, c *cephtest.Cluster, args ...string) ceph.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	r, err := c.Run(ctx, ceph.Command{Args: args})
	if err != nil {
		t.Fatalf("ceph %q: %v", args, err)
	}
	return r
}

func printed(t *testing.T, c *cephtest.Cluster, args ...string) any {
	t.Helper()
	r := run(t, c, args...)
	if r.ExitCode != 0 {
		t.Fatalf("ceph %q: %+v", args, r)
	}
	return parsed(t, r.Stdout)
}

func parsed(t *testing.T, b []byte) any {
	t.Helper()
	var out any
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return out
}

func recordedIn(t *testing.T, state, name string) any {
	t.Helper()
	for _, n := range []string{name, strings.TrimPrefix(name, "osd_")} {
		if b, err := os.ReadFile(filepath.Join("testdata", state, n+".json")); err == nil {
			return parsed(t, b)
		}
	}
	t.Fatalf("%s was not recorded in state %s", name, state)
	return nil
}

// unlike says where the model's answer has something that the real one has not; empty if it has nothing of that. Keys that are names of things are
// alike if what they lead to is.
func unlike(path string, model, real any) string {
	switch m := model.(type) {
	case map[string]any:
		r, ok := real.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s is %T", path, real)
		}
		for key, value := range m {
			found, there := r[key]
			if strings.HasSuffix(path, ".info") {
				for _, found = range r {
					there = true
				}
			}
			if !there {
				return fmt.Sprintf("%s.%s is not there", path, key)
			}
			if diff := unlike(path+"."+key, value, found); diff != "" {
				return diff
			}
		}
	case []any:
		r, ok := real.([]any)
		if !ok {
			return fmt.Sprintf("%s is %T", path, real)
		}
		for i, value := range m {
			diff := fmt.Sprintf("%s[%d]: the real one is empty", path, i)
			for _, found := range r {
				if diff = unlike(fmt.Sprintf("%s[%d]", path, i), value, found); diff == "" {
					break
				}
			}
			if diff != "" {
				return diff
			}
		}
	default:
		if fmt.Sprintf("%T", model) != fmt.Sprintf("%T", real) {
			return fmt.Sprintf("%s is %T, and %T in the model", path, real, model)
		}
	}
	return ""
}
