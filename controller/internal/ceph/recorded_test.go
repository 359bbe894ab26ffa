package ceph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"quarry.storage/quarry/controller/internal/decide/ceph"
)

const fsid = "7a1c6d1e-0000-4000-8000-000000000001"

// recording answers with what a real Ceph 20.2.4 printed in one state; see test/ceph/record.sh.
type recording struct {
	t     testing.TB
	state string
}

// read returns an answer: what was printed, and the exit code with what was said.
func (r recording) read(args []string) (Result, error) {
	name := strings.ReplaceAll(strings.Join(args, "_"), "-", "_")
	for _, n := range []string{name, strings.TrimPrefix(name, "osd_")} {
		path := filepath.Join("testdata", r.state, n)
		if said, err := os.ReadFile(path + ".exit"); err == nil {
			code, rest, _ := strings.Cut(string(said), "\n")
			n, err := strconv.Atoi(code)
			return Result{ExitCode: n, Stderr: []byte(rest)}, err
		}
		if out, err := os.ReadFile(path + ".json"); err == nil {
			return Result{Stdout: out}, nil
		}
	}
	return Result{}, fmt.Errorf("ceph %q was not recorded in state %s", args, r.state)
}

// Run answers.
func (r recording) Run(_ context.Context, cmd Command) (Result, error) {
	res, err := r.read(cmd.Args)
	if err != nil {
		r.t.Error(err)
	}
	return res, err
}

func client(t testing.TB, r Runner) *Client {
	t.Helper()
	c, err := New(Config{Runner: r, FSID: fsid})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func state(t *testing.T, name string, stopping ...int) ceph.Facts {
	t.Helper()
	f, err := client(t, recording{t, name}).Facts(t.Context(), stopping...)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return f
}

// serves is an OSD of the recorded cluster, with changes.
func serves(id int, changes ...func(*ceph.OSD)) ceph.OSD {
	o := ceph.OSD{ID: id, Host: fmt.Sprintf("n%d", id), Up: true, In: true}
	for _, change := range changes {
		change(&o)
	}
	return o
}

// unsteady are what differs from one recording to the next.
var unsteady = cmpopts.IgnoreFields(ceph.OSD{}, "UUID", "UsedBytes", "TotalBytes")

func TestFacts_recorded(t *testing.T) {
	whole := state(t, "whole", 0)
	want := ceph.Facts{
		Quorum: &ceph.Quorum{Monitors: []ceph.Monitor{{Name: "a", In: true, Address: "10.99.0.1"}, {Name: "b", In: true, Address: "10.99.0.2"}, {Name: "c", In: true, Address: "10.99.0.3"}}, MinRelease: 20},
		Map: &ceph.Map{
			OSDs:      []ceph.OSD{serves(0, func(o *ceph.OSD) { o.OKToStop = ceph.Yes }), serves(1), serves(2)},
			Pools:     []ceph.Pool{{Name: ".mgr", Size: 3, MinSize: 2}, {Name: "cephfs.meta", Size: 3, MinSize: 2}, {Name: "cephfs.data", Size: 3, MinSize: 2}},
			Flags:     []string{"pglog_hardlimit", "purged_snapdirs", "recovery_deletes", "sortbitwise"},
			HostFlags: map[string][]string{}, Domains: map[string]string{".mgr": "host", "cephfs.meta": "host", "cephfs.data": "host"}, Hosts: []string{"n0", "n1", "n2"}, RequireRelease: 20,
			Bulk:   []string{"cephfs.data"},
			Groups: map[string]ceph.PoolGroups{".mgr": {Count: 1, Scale: ceph.ScaleOff}, "cephfs.meta": {Count: 8, Scale: ceph.ScaleOff}, "cephfs.data": {Count: 8, Scale: ceph.ScaleOff}},
		},
		Groups: &ceph.Groups{Total: 17, Clean: 17},
	}
	if diff := cmp.Diff(want, whole, unsteady, cmpopts.IgnoreFields(ceph.Facts{}, "Daemons")); diff != "" {
		t.Errorf("whole (-want +got):\n%s", diff)
	}
	for _, o := range whole.Map.OSDs {
		if o.TotalBytes != 2<<30 || o.UsedBytes <= 0 || o.UUID == "" {
			t.Errorf("osd.%d: %+v", o.ID, o)
		}
	}
	var daemons []string
	for _, d := range *whole.Daemons {
		if !d.Running || d.Version != (ceph.Version{Major: 20, Minor: 2, Patch: 4}) {
			t.Errorf("%s: %+v", d, d)
		}
		daemons = append(daemons, d.String())
	}
	slices.Sort(daemons)
	if got := strings.Join(daemons, " "); got != "mds.m mds.n mgr.x mgr.y mon.a mon.b mon.c osd.0 osd.1 osd.2" {
		t.Errorf("daemons: %s", got)
	}
}

// TestFacts_recordedStates reads the states in which an OSD and a monitor were taken away.
func TestFacts_recordedStates(t *testing.T) {
	never := func(o *ceph.OSD) { o.Up, o.New, o.Host = false, true, "" }
	down, out, safe := func(o *ceph.OSD) { o.Up = false }, func(o *ceph.OSD) { o.In = false }, func(o *ceph.OSD) { o.SafeToDestroy = ceph.Yes }
	for name, want := range map[string]struct {
		osds   []ceph.OSD
		in     string
		groups ceph.Groups
		hosts  string
	}{
		"new":     {[]ceph.OSD{serves(0), serves(1), serves(2), serves(3, never)}, "abc", ceph.Groups{Total: 17}, "n0 n1 n2"},
		"down":    {[]ceph.OSD{serves(0), serves(1), serves(2, down), serves(3, never)}, "ab", ceph.Groups{Total: 17, Short: 17, Undersized: 17, Degraded: 24}, "n0 n1 n2"},
		"out":     {[]ceph.OSD{serves(0), serves(1), serves(2), serves(3, out, safe)}, "ab", ceph.Groups{Total: 17, Clean: 17}, "n0 n1 n2 n3"},
		"stopped": {[]ceph.OSD{serves(0), serves(1), serves(2), serves(3, out, down, safe)}, "ab", ceph.Groups{Total: 17, Clean: 17}, "n0 n1 n2 n3"},
		"gone":    {[]ceph.OSD{serves(0), serves(1), serves(2)}, "ab", ceph.Groups{Total: 17, Clean: 17}, "n0 n1 n2"},
	} {
		f := state(t, name)
		// How fast Ceph was is another number in each recording.
		f.Groups.Recovering = 0
		if name == "new" {
			// An OSD was out for a moment before. How far the groups are with that differs from one recording to the next.
			f.Groups.Clean, f.Groups.Inactive, f.Groups.Short, f.Groups.Undersized = 0, 0, 0, 0
		}
		if diff := cmp.Diff(want.osds, f.Map.OSDs, unsteady); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		in := ""
		for _, m := range f.Quorum.Monitors {
			if m.In {
				in += m.Name
			}
		}
		if in != want.in || *f.Groups != want.groups || strings.Join(f.Map.Hosts, " ") != want.hosts {
			t.Errorf("%s: monitors %s, groups %+v, hosts %s", name, in, *f.Groups, f.Map.Hosts)
		}
	}
}

// TestRecorded_traps: what Ceph says must not be taken for more than it is.
func TestRecorded_traps(t *testing.T) {
	c := client(t, recording{t, "down"})
	if got, err := c.safeToDestroy(t.Context(), 2); got != ceph.No || err != nil {
		t.Errorf("an OSD that is down and has the only third copy, exit code 0: %s, %v", got, err)
	}
	if got, err := c.okToStop(t.Context(), 0); got != ceph.No || err != nil {
		t.Errorf("one of the two that are left: %s, %v", got, err)
	}
	if got, err := client(t, recording{t, "whole"}).okToStop(t.Context(), 0, 1); got != ceph.No || err != nil {
		t.Errorf("two of three at once: %s, %v", got, err)
	}
	absent := recording{t, "whole"}
	if r, err := absent.read([]string{"safe_to_destroy_absent"}); err != nil || !strings.Contains(string(r.Stdout), `"safe_to_destroy":[9]`) {
		t.Errorf("Ceph calls an OSD safe that it does not know: %s, %v", r.Stdout, err)
	}
	if r, err := (recording{t, "down"}).read([]string{"purge_in_use"}); err != nil || r.ExitCode != 0 {
		t.Errorf("Ceph purges an OSD that is down, whatever it holds: %+v, %v", r, err)
	}
}

// TestRecorded_silence: what nobody can say now is not what somebody said last.
func TestRecorded_silence(t *testing.T) {
	g, err := client(t, recording{t, "nomgr"}).groups(t.Context())
	if g != nil || !errors.Is(err, ErrUnreachable) {
		t.Errorf("the state that a dead manager left is believed: %+v, %v", g, err)
	}
	var status struct {
		PGMap struct {
			NumPGs int `json:"num_pgs"`
		} `json:"pgmap"`
	}
	if r, err := (recording{t, "nomgr"}).read([]string{"status"}); err != nil || json.Unmarshal(r.Stdout, &status) != nil || status.PGMap.NumPGs != 17 {
		t.Errorf("without a manager the monitors repeat what it said: %s, %v", r.Stdout, err)
	}
}

// TestRecorded_dead: an OSD died, and nobody marked it out. Ceph does after its own interval, and says that the OSD is safe to destroy once all placement groups are clean without it. An
// OSD that comes back is in again.
func TestRecorded_dead(t *testing.T) {
	for name, want := range map[string]struct {
		osd   ceph.OSD
		clean bool
	}{
		"dying":    {serves(3, func(o *ceph.OSD) { o.Up = false }), false},
		"dead":     {serves(3, func(o *ceph.OSD) { o.Up, o.In, o.AutoOut, o.SafeToDestroy = false, false, true, ceph.Yes }), true},
		"returned": {serves(3), true},
	} {
		f := state(t, name)
		if diff := cmp.Diff(want.osd, f.Map.OSDs[3], unsteady); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if clean := f.Groups.Total == f.Groups.Clean; clean != want.clean || f.Groups.Total != 17 || (f.Groups.Short == 0) != want.clean {
			t.Errorf("%s: groups %+v", name, f.Groups)
		}
	}
	for name, want := range map[string]ceph.Answer{"dying": ceph.No, "leaving": ceph.No, "dead": ceph.Yes, "returned": ceph.No} {
		if got, err := client(t, recording{t, name}).safeToDestroy(t.Context(), 3); got != want || err != nil {
			t.Errorf("%s: safe to destroy: %s, %v", name, got, err)
		}
	}
}

// TestRecorded_domains: the rules that a first monitor makes, and one that a person made.
func TestRecorded_domains(t *testing.T) {
	for name, want := range map[string]map[string]string{
		"whole": {".mgr": "host", "cephfs.meta": "host", "cephfs.data": "host"},
		"disks": {".mgr": "host", "cephfs.meta": "host", "cephfs.data": "host", "disks": "osd"},
	} {
		c := client(t, recording{t, name})
		d, err := c.dumped(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m := ceph.Map{Domains: map[string]string{}}
		if err := c.domains(t.Context(), d, &m); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, m.Domains); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	var rules []rule
	if err := client(t, recording{t, "shared"}).ask(t.Context(), &rules, "osd", "crush", "rule", "dump"); err != nil || len(rules) != 1 || rules[0].domain() != "osd" {
		t.Errorf("osd_crush_chooseleaf_type = 0: %+v, %v", rules, err)
	}
	twice := rule{Steps: slices.Concat(rules[0].Steps, rules[0].Steps)}
	if got := twice.domain(); got != "" {
		t.Errorf("a rule that chooses twice: %q", got)
	}
}
