package ceph_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/controller/internal/ceph"
	"quarry.storage/quarry/controller/internal/ceph/cephtest"
	decided "quarry.storage/quarry/controller/internal/decide/ceph"
)

const (
	fsid  = "7a1c6d1e-0000-4000-8000-000000000001"
	other = "7a1c6d1e-0000-4000-8000-000000000002"
)

func newClient(t *testing.T, r ceph.Runner) *ceph.Client {
	t.Helper()
	c, err := ceph.New(ceph.Config{Runner: r, FSID: fsid, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNew_refuses(t *testing.T) {
	for _, bad := range []string{"", "x", strings.ToUpper(fsid), "00000000-0000-0000-0000-000000000000"} {
		if _, err := ceph.New(ceph.Config{FSID: bad}); err == nil {
			t.Errorf("FSID %q is taken", bad)
		}
	}
}

// osdStep is a step on an OSD of the stand-in.
func osdStep(do decided.Action, id int) decided.Step {
	return decided.Step{Do: do, ID: id, UUID: cephtest.UUID(id)}
}

func TestDo(t *testing.T) {
	drained := func(c *cephtest.Cluster) { c.OSDs[2].In, c.OSDs[2].Up, c.OSDs[2].Holds = false, false, false }
	pool := func(size, least int) func(*cephtest.Cluster) {
		return func(c *cephtest.Cluster) { c.Pools = []cephtest.Pool{{Name: "data", Size: size, MinSize: least}} }
	}
	servers := func(names ...string) func(*cephtest.Cluster) {
		return func(c *cephtest.Cluster) { c.Servers = names }
	}
	scaled := func(c *cephtest.Cluster) {
		c.Pools = []cephtest.Pool{{Name: "data", Size: 3, MinSize: 2, Groups: 50, Scale: "off"}}
	}
	for name, tt := range map[string]struct {
		before func(*cephtest.Cluster)
		step   decided.Step
		want   []string
		err    error
	}{
		"a monitor goes":                 {nil, decided.Step{Do: decided.RemoveMonitor, Name: "c"}, []string{"mon rm c"}, nil},
		"a dead monitor goes":            {func(c *cephtest.Cluster) { c.Monitors["c"] = false }, decided.Step{Do: decided.RemoveMonitor, Name: "c"}, []string{"mon rm c"}, nil},
		"another monitor died meanwhile": {func(c *cephtest.Cluster) { c.Monitors["b"] = false }, decided.Step{Do: decided.RemoveMonitor, Name: "c"}, nil, ceph.ErrUnsafe},
		"a monitor that went":            {nil, decided.Step{Do: decided.RemoveMonitor, Name: "q"}, nil, nil},
		"an OSD gets a number":           {nil, osdStep(decided.RegisterOSD, 7), []string{"osd new " + cephtest.UUID(7)}, nil},
		"an OSD has a number":            {nil, osdStep(decided.RegisterOSD, 1), nil, nil},
		"an OSD goes out":                {nil, osdStep(decided.OutOSD, 1), []string{"osd out 1"}, nil},
		"an OSD is out":                  {drained, osdStep(decided.OutOSD, 2), nil, nil},
		"an OSD comes in":                {drained, osdStep(decided.InOSD, 2), []string{"osd in 2"}, nil},
		"the number is another OSD's":    {nil, decided.Step{Do: decided.OutOSD, ID: 1, UUID: other}, nil, ceph.ErrUnsafe},
		"the OSD has another number":     {nil, decided.Step{Do: decided.OutOSD, ID: 7, UUID: cephtest.UUID(1)}, nil, ceph.ErrUnsafe},
		"no such OSD goes out":           {nil, osdStep(decided.OutOSD, 7), nil, ceph.ErrUnsafe},
		"a drained OSD is purged":        {drained, osdStep(decided.PurgeOSD, 2), []string{"osd purge 2 --yes-i-really-mean-it"}, nil},
		"a purged OSD":                   {nil, osdStep(decided.PurgeOSD, 7), nil, nil},
		"an OSD that is up":              {nil, osdStep(decided.PurgeOSD, 2), nil, ceph.ErrUnsafe},
		"an OSD that is in":              {func(c *cephtest.Cluster) { c.OSDs[2].Up = false }, osdStep(decided.PurgeOSD, 2), nil, ceph.ErrUnsafe},
		"an OSD with copies": {func(c *cephtest.Cluster) {
			drained(c)
			c.Groups = map[string]int{"active+clean": 7, "active+undersized+degraded": 1}
		}, osdStep(decided.PurgeOSD, 2), nil, ceph.ErrUnsafe},
		"nobody says whether it has copies": {func(c *cephtest.Cluster) { drained(c); c.Managers = nil }, osdStep(decided.PurgeOSD, 2), nil, ceph.ErrUnreachable},
		"nobody can purge one that never ran": {func(c *cephtest.Cluster) {
			drained(c)
			c.OSDs[2].New, c.Managers = true, nil
		}, osdStep(decided.PurgeOSD, 2), nil, ceph.ErrUnreachable},
		"another OSD has its number now": {drained, decided.Step{Do: decided.PurgeOSD, ID: 2, UUID: other}, nil, ceph.ErrUnsafe},
		"an OSD that never ran":          {func(c *cephtest.Cluster) { drained(c); c.OSDs[2].In, c.OSDs[2].New = true, true }, osdStep(decided.PurgeOSD, 2), []string{"osd purge 2 --yes-i-really-mean-it"}, nil},
		"a host goes":                    {func(c *cephtest.Cluster) { c.OSDs = c.OSDs[:2] }, decided.Step{Do: decided.RemoveHost, Host: "n2"}, []string{"osd crush rm n2"}, nil},
		"a host with OSDs":               {nil, decided.Step{Do: decided.RemoveHost, Host: "n2"}, []string{"osd crush rm n2"}, ceph.ErrUnsafe},
		"a host that went":               {nil, decided.Step{Do: decided.RemoveHost, Host: "n9"}, nil, nil},
		"a pool":                         {nil, decided.Step{Do: decided.CreatePool, Name: "data", Value: 3, Bulk: true}, []string{"osd pool create data --size=3 --bulk"}, nil},
		"a pool that holds little":       {nil, decided.Step{Do: decided.CreatePool, Name: "meta", Value: 3}, []string{"osd pool create meta --size=3"}, nil},
		"a pool that is there":           {pool(3, 2), decided.Step{Do: decided.CreatePool, Name: "data", Value: 3}, nil, nil},
		"a pool with one copy": {nil, decided.Step{Do: decided.CreatePool, Name: "data", Value: 1, Bulk: true}, []string{
			"osd pool create data --size=1 --bulk --yes-i-really-mean-it",
		}, nil},
		"a pool grows, and serves meanwhile": {pool(2, 1), decided.Step{Do: decided.SetSize, Name: "data", Value: 3}, []string{
			"osd pool set data size 3", "osd pool set data min_size 1",
		}, nil},
		"a pool shrinks": {pool(3, 1), decided.Step{Do: decided.SetSize, Name: "data", Value: 2}, []string{"osd pool set data size 2"}, nil},
		"a pool shrinks, and copies move by now": {func(c *cephtest.Cluster) {
			pool(3, 1)(c)
			c.Groups = map[string]int{"active+clean": 7, "active+remapped+backfilling": 1}
		}, decided.Step{Do: decided.SetSize, Name: "data", Value: 2}, nil, ceph.ErrUnsafe},
		"a pool shrinks, and a group serves nothing by now": {func(c *cephtest.Cluster) {
			pool(3, 2)(c)
			c.Groups = map[string]int{"active+clean": 7, "undersized+degraded+peered": 1}
		}, decided.Step{Do: decided.SetSize, Name: "data", Value: 2}, nil, ceph.ErrUnsafe},
		"a pool shrinks, and no manager says how the groups are": {func(c *cephtest.Cluster) {
			pool(3, 1)(c)
			c.Managers = nil
		}, decided.Step{Do: decided.SetSize, Name: "data", Value: 2}, nil, ceph.ErrUnreachable},
		"a pool shrinks to one copy": {pool(2, 1), decided.Step{Do: decided.SetSize, Name: "data", Value: 1}, []string{
			"config set global mon_allow_pool_size_one true", "osd pool set data size 1 --yes-i-really-mean-it",
		}, nil},
		"a pool has its size":               {pool(3, 2), decided.Step{Do: decided.SetSize, Name: "data", Value: 3}, nil, nil},
		"a pool needs more copies":          {pool(3, 1), decided.Step{Do: decided.SetMinSize, Name: "data", Value: 2}, []string{"osd pool set data min_size 2"}, nil},
		"the table chooses":                 {pool(3, 2), decided.Step{Do: decided.SetScale, Name: "data", Mode: "off"}, []string{"osd pool set data pg_autoscale_mode off"}, nil},
		"Ceph chooses already":              {pool(3, 2), decided.Step{Do: decided.SetScale, Name: "data", Mode: "on"}, nil, nil},
		"groups of a pool that Ceph scales": {pool(3, 2), decided.Step{Do: decided.SetGroups, Name: "data", Value: 75}, nil, ceph.ErrUnsafe},
		"groups":                            {scaled, decided.Step{Do: decided.SetGroups, Name: "data", Value: 75}, []string{"osd pool set data pg_num 75"}, nil},
		"as many groups":                    {scaled, decided.Step{Do: decided.SetGroups, Name: "data", Value: 50}, nil, nil},
		"groups of no pool":                 {nil, decided.Step{Do: decided.SetGroups, Name: "data", Value: 50}, nil, ceph.ErrUnsafe},
		"a pool gives the flag back":        {func(c *cephtest.Cluster) { pool(3, 2)(c); c.Pools[0].Bulk = true }, decided.Step{Do: decided.UnsetBulk, Name: "data"}, []string{"osd pool set data bulk false"}, nil},
		"a pool without the flag":           {pool(3, 2), decided.Step{Do: decided.UnsetBulk, Name: "data"}, nil, nil},
		"the flag of no pool":               {nil, decided.Step{Do: decided.UnsetBulk, Name: "data"}, nil, nil},
		"no such pool":                      {nil, decided.Step{Do: decided.SetSize, Name: "data", Value: 2}, nil, ceph.ErrUnsafe},
		"maintenance":                       {nil, decided.Step{Do: decided.SetNoOut, Host: "n1"}, []string{"osd set-group noout n1"}, nil},
		"maintenance again":                 {func(c *cephtest.Cluster) { c.NoOut["n1"] = true }, decided.Step{Do: decided.SetNoOut, Host: "n1"}, nil, nil},
		"maintenance ends":                  {func(c *cephtest.Cluster) { c.NoOut["n1"] = true }, decided.Step{Do: decided.UnsetNoOut, Host: "n1"}, []string{"osd unset-group noout n1"}, nil},
		"maintenance ended":                 {nil, decided.Step{Do: decided.UnsetNoOut, Host: "n1"}, nil, nil},
		"another one serves":                {servers("m", "n"), decided.Step{Do: decided.FailOver, Name: "m"}, []string{"mds fail m"}, nil},
		"another one serves already":        {servers("n", "m"), decided.Step{Do: decided.FailOver, Name: "m"}, nil, nil},
		"no other one stands by":            {servers("m"), decided.Step{Do: decided.FailOver, Name: "m"}, nil, ceph.ErrUnsafe},
		"the floor rises":                   {func(c *cephtest.Cluster) { c.Release = "squid" }, decided.Step{Do: decided.RequireRelease, Value: 20}, []string{"osd require-osd-release tentacle"}, nil},
		"the floor is there":                {nil, decided.Step{Do: decided.RequireRelease, Value: 20}, nil, nil},
		"an OSD is too old for it":          {nil, decided.Step{Do: decided.RequireRelease, Value: 21}, nil, ceph.ErrUnsafe},
		"a step of a workload":              {nil, decided.Step{Do: decided.StartOSD}, nil, ceph.ErrNotTheirs},
		"a step of nobody":                  {nil, decided.Step{}, nil, ceph.ErrNotTheirs},
		"the monitors of somebody else ":    {func(c *cephtest.Cluster) { c.FSID = other }, osdStep(decided.OutOSD, 1), nil, ceph.ErrForeign},
	} {
		t.Run(name, func(t *testing.T) {
			c := cephtest.New(t, fsid, "n0", "n1", "n2")
			if tt.before != nil {
				tt.before(c)
			}
			err := newClient(t, c).Do(t.Context(), tt.step)
			if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
				t.Errorf("%v, want %v", err, tt.err)
			}
			if got := c.Changes(); !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if tt.err == nil {
				// What was done is done: the same step changes nothing any more.
				if err := newClient(t, c).Do(t.Context(), tt.step); err != nil || len(c.Changes()) > len(tt.want) {
					t.Errorf("repeated: %v, %q", err, c.Changes())
				}
			}
		})
	}
}

// TestDo_foreign: nothing is changed on the monitors of another cluster, whatever the step.
func TestDo_foreign(t *testing.T) {
	for _, do := range []decided.Action{
		decided.RemoveMonitor, decided.RegisterOSD, decided.OutOSD, decided.InOSD, decided.PurgeOSD, decided.RemoveHost, decided.CreatePool, decided.SetSize,
		decided.SetMinSize, decided.UnsetBulk, decided.SetNoOut, decided.UnsetNoOut, decided.RequireRelease, decided.FailOver,
	} {
		c := cephtest.New(t, other, "n0", "n1", "n2")
		err := newClient(t, c).Do(t.Context(), decided.Step{Do: do, Name: "c", Host: "n1", ID: 1, UUID: cephtest.UUID(1), Value: 2})
		if !errors.Is(err, ceph.ErrForeign) || len(c.Changes()) > 0 {
			t.Errorf("%s: %v, %q", do, err, c.Changes())
		}
	}
}

// TestFacts_unreadable fails each command in turn: what it would have told is unknown, and never something else.
func TestFacts_unreadable(t *testing.T) {
	broken := errors.New("broken")
	fresh := func() *cephtest.Cluster {
		c := cephtest.New(t, fsid, "n0", "n1", "n2")
		c.OSDs[2].In, c.OSDs[2].Holds = false, false
		c.Servers = []string{"m", "n"}
		c.Pools = []cephtest.Pool{{Name: "data", Size: 3, MinSize: 2}}
		return c
	}
	whole, err := newClient(t, fresh()).Facts(t.Context(), 1)
	if err != nil || whole.Groups == nil || whole.Daemons == nil || whole.Map.OSDs[2].SafeToDestroy != decided.Yes || whole.Map.OSDs[1].OKToStop != decided.Yes {
		t.Fatalf("%+v, %v", whole, err)
	}
	for command, unknown := range map[string]func(f decided.Facts) bool{
		"quorum_status": func(f decided.Facts) bool {
			return f.Quorum == nil && f.Map == nil && f.Groups == nil && f.Daemons == nil
		},
		"osd dump":              func(f decided.Facts) bool { return f.Map == nil },
		"osd tree":              func(f decided.Facts) bool { return f.Map == nil },
		"mgr dump":              func(f decided.Facts) bool { return f.Groups == nil && f.Daemons == nil },
		"osd crush rule dump":   func(f decided.Facts) bool { return f.Map != nil && len(f.Map.Domains) == 0 },
		"osd df":                func(f decided.Facts) bool { return f.Map.OSDs[0].TotalBytes == 0 },
		"osd safe-to-destroy 2": func(f decided.Facts) bool { return f.Map.OSDs[2].SafeToDestroy == decided.Unknown },
		"osd ok-to-stop 1":      func(f decided.Facts) bool { return f.Map.OSDs[1].OKToStop == decided.Unknown },
		"status":                func(f decided.Facts) bool { return f.Groups == nil },
		"fs dump":               func(f decided.Facts) bool { return f.Daemons == nil },
		"mon metadata":          func(f decided.Facts) bool { return f.Daemons == nil },
		"mgr metadata":          func(f decided.Facts) bool { return f.Daemons == nil },
		"osd metadata":          func(f decided.Facts) bool { return f.Daemons == nil },
		"mds metadata":          func(f decided.Facts) bool { return f.Daemons == nil },
	} {
		c := fresh()
		c.Fail = func(args []string) error {
			if strings.Join(args, " ") == command {
				return broken
			}
			return nil
		}
		if f, err := newClient(t, c).Facts(t.Context(), 1); !errors.Is(err, broken) || !unknown(f) {
			t.Errorf("without %s: %+v, %v", command, f, err)
		}
	}
}

// TestFacts_destroyed: an OSD that somebody destroyed by hand has no UUID any more. All else is known as before.
func TestFacts_destroyed(t *testing.T) {
	c := cephtest.New(t, fsid, "n0", "n1", "n2")
	c.OSDs[1].Destroyed, c.OSDs[1].Up, c.OSDs[1].In = true, false, false
	f, err := newClient(t, c).Facts(t.Context())
	if err != nil || f.Map == nil || len(f.Map.OSDs) != 3 || f.Map.OSDs[1].UUID != "" || f.Map.OSDs[1].ID != 1 || f.Map.OSDs[2].UUID != cephtest.UUID(2) {
		t.Errorf("%+v, %v", f.Map, err)
	}
}

// silent is a cluster whose monitors have not heard of the active metadata server for a while. Ceph leaves such a one in its place while none stands by.
type silent struct{ *cephtest.Cluster }

func (s silent) Run(ctx context.Context, cmd ceph.Command) (ceph.Result, error) {
	r, err := s.Cluster.Run(ctx, cmd)
	if strings.Join(cmd.Args, " ") == "fs dump" {
		r.Stdout = bytes.Replace(r.Stdout, []byte(`"state":"up:active"`), []byte(`"state":"up:active","laggy_since":"2026-11-28T05:00:00.000000+0000"`), 1)
	}
	return r, err
}

// TestFacts_laggy: a metadata server that the monitors do not hear of serves nothing, whatever place it has in their map.
func TestFacts_laggy(t *testing.T) {
	model := cephtest.New(t, fsid, "n0")
	model.Servers = []string{"m"}
	for runner, runs := range map[ceph.Runner]bool{model: true, silent{model}: false} {
		f, err := newClient(t, runner).Facts(t.Context())
		if err != nil || f.Daemons == nil {
			t.Fatalf("%+v, %v", f.Daemons, err)
		}
		if got := slices.ContainsFunc(*f.Daemons, func(d decided.Daemon) bool { return d.Name == "m" && d.Active && d.Running }); got != runs {
			t.Errorf("it serves: %t, want %t: %+v", got, runs, *f.Daemons)
		}
	}
}

// partial is a cluster whose answers to osd dump lack a list.
type partial struct {
	*cephtest.Cluster
	lacks string
}

func (p partial) Run(ctx context.Context, cmd ceph.Command) (ceph.Result, error) {
	r, err := p.Cluster.Run(ctx, cmd)
	if strings.Join(cmd.Args, " ") == "osd dump" {
		r.Stdout = bytes.Replace(r.Stdout, []byte(`"`+p.lacks+`"`), []byte(`"other"`), 1)
	}
	return r, err
}

// TestFacts_partial: an answer without a list does not say that the list is empty.
func TestFacts_partial(t *testing.T) {
	for lacks, known := range map[string]bool{"nothing": true, "osds": false, "pools": false} {
		c, err := ceph.New(ceph.Config{Runner: partial{cephtest.New(t, fsid, "n0"), lacks}, FSID: fsid})
		if err != nil {
			t.Fatal(err)
		}
		if f, err := c.Facts(t.Context()); (err == nil) != known || (f.Map != nil) != known {
			t.Errorf("without %s: %+v, %v", lacks, f.Map, err)
		}
	}
}

// TestFacts_recovering: what is moved, and how fast. Ceph says nothing of what is none.
func TestFacts_recovering(t *testing.T) {
	c := cephtest.New(t, fsid, "n0", "n1", "n2")
	if f, err := newClient(t, c).Facts(t.Context()); err != nil || f.Groups.Recovering != 0 || f.Groups.Misplaced != 0 {
		t.Errorf("%+v, %v", f.Groups, err)
	}
	c.Misplaced, c.Degraded, c.Recovering = 30, 20, 7
	if f, err := newClient(t, c).Facts(t.Context()); err != nil || f.Groups.Recovering != 7 || f.Groups.Misplaced != 30 || f.Groups.Degraded != 20 {
		t.Errorf("%+v, %v", f.Groups, err)
	}
}

// TestFacts_noManager: nobody waits for a manager that is not there, and nothing of what the last one said counts.
// TestFacts_paused: Ceph names two flags where a person sets one.
func TestFacts_paused(t *testing.T) {
	model := cephtest.New(t, fsid, "n0")
	model.Flags = []string{"pauserd", "pausewr", "norecover"}
	f, err := newClient(t, model).Facts(t.Context())
	if err != nil || f.Map == nil || !slices.Equal(f.Map.Flags, []string{"sortbitwise", "pause", "norecover"}) {
		t.Errorf("%v: %+v", err, f.Map)
	}
}

func TestFacts_noManager(t *testing.T) {
	c := cephtest.New(t, fsid, "n0", "n1", "n2")
	c.Managers, c.OSDs[2].In = nil, false
	c.Fail = func(args []string) error {
		if line := strings.Join(args, " "); line == "osd df" || strings.HasPrefix(line, "osd safe-to-destroy") || strings.HasPrefix(line, "osd ok-to-stop") {
			t.Errorf("ceph %s is asked: that waits for a manager", line)
		}
		return nil
	}
	f, err := newClient(t, c).Facts(t.Context(), 1)
	if !errors.Is(err, ceph.ErrUnreachable) || f.Map == nil || f.Groups != nil || f.Map.OSDs[2].SafeToDestroy != decided.Unknown || f.Map.OSDs[1].OKToStop != decided.Unknown {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestFacts_noQuorum(t *testing.T) {
	c := cephtest.New(t, fsid, "n0")
	c.Monitors["a"], c.Monitors["b"] = false, false
	if f, err := newClient(t, c).Facts(t.Context()); !errors.Is(err, ceph.ErrUnreachable) || f.Quorum != nil || f.Map != nil {
		t.Errorf("%+v, %v", f, err)
	}
}

// answers prints the same for every command.
type answers string

func (a answers) Run(context.Context, ceph.Command) (ceph.Result, error) {
	return ceph.Result{Stdout: []byte(a)}, nil
}

// TestFacts_nonsense: an answer that lacks what is asked for tells nothing.
func TestFacts_nonsense(t *testing.T) {
	for _, a := range []answers{"", "{}", "[]", "null", "x", `{"fsid":"` + fsid + `","monmap":{"fsid":"` + fsid + `"}}`} {
		if f, err := newClient(t, a).Facts(t.Context()); err == nil || f.Map != nil || f.Quorum != nil {
			t.Errorf("%q: %+v, %v", a, f, err)
		}
		if o, err := newClient(t, a).Overview(t.Context()); err == nil || o.Health != "" {
			t.Errorf("%q: %+v, %v", a, o, err)
		}
	}
}

func TestOKToStop(t *testing.T) {
	c := cephtest.New(t, fsid, "n0", "n1", "n2")
	c.OSDs[2].Needed = true
	f, err := newClient(t, c).Facts(t.Context(), 0, 2, 9)
	if err != nil {
		t.Fatal(err)
	}
	// One that is not in the map is not asked about, nor one that nobody wants to stop.
	for id, want := range []decided.Answer{decided.Yes, decided.Unknown, decided.No} {
		i := slices.IndexFunc(*f.Daemons, func(d decided.Daemon) bool { return d.String() == fmt.Sprintf("osd.%d", id) })
		if got := f.Map.OSDs[id].OKToStop; got != want || i < 0 || (*f.Daemons)[i].OKToStop != want {
			t.Errorf("osd.%d: %s, daemons %+v", id, got, *f.Daemons)
		}
	}
	if o, err := newClient(t, c).Overview(t.Context()); o.Health != "HEALTH_OK" || err != nil {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestRest: hosts are asked about in order, and nobody asks on once one may rest. One that cannot be told is none that may.
func TestRest(t *testing.T) {
	for name, tt := range map[string]struct {
		needed, broken []int
		want           map[string]decided.Answer
		asked          []string
	}{
		"the first may":        {want: map[string]decided.Answer{"n0": decided.Yes}, asked: []string{"osd ok-to-stop 0"}},
		"the second may":       {needed: []int{0}, want: map[string]decided.Answer{"n0": decided.No, "n1": decided.Yes}, asked: []string{"osd ok-to-stop 0", "osd ok-to-stop 1"}},
		"the first is unknown": {broken: []int{0}, want: map[string]decided.Answer{"n1": decided.Yes}, asked: []string{"osd ok-to-stop 0", "osd ok-to-stop 1"}},
	} {
		c := cephtest.New(t, fsid, "n0", "n1", "n2")
		f, err := newClient(t, c).Facts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range tt.needed {
			c.OSDs[i].Needed = true
		}
		var asked []string
		broken := errors.New("broken")
		c.Fail = func(args []string) error {
			asked = append(asked, strings.Join(args, " "))
			if slices.Contains(tt.broken, len(asked)-1) {
				return broken
			}
			return nil
		}
		got, err := newClient(t, c).Rest(t.Context(), *f.Map, "n0", "n1", "n2")
		if !maps.Equal(got, tt.want) || !slices.Equal(asked, tt.asked) || errors.Is(err, broken) != (len(tt.broken) > 0) {
			t.Errorf("%s: %v, asked %q, %v", name, got, asked, err)
		}
	}
}
