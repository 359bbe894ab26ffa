package place

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/nodestate"
	"quarry.storage/quarry/pkg/volumeid"
)

const gib = 1 << 30

// host is online and has so many GiB free, and the volumes.
func host(name string, free int64, volumes ...string) Host {
	return Host{
		Node: decide.Node{Name: name, Agent: decide.AgentUp}, State: nodestate.Online,
		Group: &decide.Group{Name: "vg", FreeBytes: free * gib, ExtentBytes: 4 << 20, Volumes: volumes},
	}
}

func with(h Host, edit func(*Host)) Host {
	edit(&h)
	return h
}

func kindOf(err error) volume.Kind {
	var r *volume.Refusal
	if errors.As(err, &r) {
		return r.Kind
	}
	return 0
}

func TestChoose(t *testing.T) {
	a, b, c := host("a", 10), host("b", 20), host("c", 30)
	offline := func(h *Host) {
		h.Node.Agent, h.State, h.Node.Problem = decide.AgentUnreachable, nodestate.Offline, "no answer."
	}
	hidden := func(h *Host) { offline(h); h.Hidden = true }
	stray := func(h *Host) { h.Stray = true }
	connecting := func(h *Host) { h.Node.Agent, h.State = decide.AgentConnecting, nodestate.Offline }
	blind := func(h *Host) { h.Refusal, h.Unknown = "LVM cannot report volume group vg", true }
	soon := func(h *Host) { h.Refusal, h.Soon = "its volume group is not on record yet", true }
	thin := Class{Cluster: "pool", Group: "vg", Thin: Thin{Pool: "thin"}}
	bounded := Class{Cluster: "pool", Group: "vg", Thin: Thin{Pool: "thin", Percent: 100}}
	pool := func(name string, free, size int64) Host {
		return with(host(name, free), func(h *Host) { h.Group.Pools = []decide.ThinPool{{Name: "thin", SizeBytes: size * gib}} })
	}
	from := &volumeid.ID{Node: "b", Group: "vg", Name: "pvc"}
	for name, test := range map[string]struct {
		r     Request
		hosts []Host
		want  []string
		kind  volume.Kind
	}{
		"without topology the most room comes first": {hosts: []Host{a, c, b}, want: []string{"c", "b", "a"}},
		"preferred comes before requisite": {
			r: Request{Topology: volume.Topology{Requisite: []string{"a", "b"}, Preferred: []string{"b"}}}, hosts: []Host{a, b, c}, want: []string{"b", "a"},
		},
		"preferred that is not requisite is not tried": {
			r: Request{Topology: volume.Topology{Requisite: []string{"a"}, Preferred: []string{"c"}}}, hosts: []Host{a, b, c}, want: []string{"a"},
		},
		"later hosts without room are not tried": {
			r: Request{Range: volume.Range{Given: true, Required: 15 * gib}}, hosts: []Host{a, b, c}, want: []string{"c", "b"},
		},
		"the first is tried whatever is known of its room": {
			r: Request{Range: volume.Range{Given: true, Required: 99 * gib}}, hosts: []Host{a, b, c}, want: []string{"c"},
		},
		"a volume that exists stays": {r: Request{Name: "x"}, hosts: []Host{c, host("a", 0, "x")}, want: []string{"a"}},
		"a volume that exists stays also on a quiesced host": {
			r: Request{Name: "x"}, hosts: []Host{c, with(host("a", 0, "x"), func(h *Host) { h.State = nodestate.Quiesced })}, want: []string{"a"},
		},
		"a volume that exists where it may not be": {
			r: Request{Name: "x", Topology: volume.Topology{Requisite: []string{"c"}}}, hosts: []Host{c, host("a", 0, "x")}, kind: volume.Conflict,
		},
		"a volume that exists on a host that is away":               {r: Request{Name: "x"}, hosts: []Host{c, with(host("a", 0, "x"), offline)}, kind: volume.Unavailable},
		"offline hosts are passed over":                             {hosts: []Host{with(c, offline), a}, want: []string{"a"}},
		"a host that cannot tell what is in its group":              {hosts: []Host{with(c, blind), a}, kind: volume.Unavailable},
		"one where the volume may not be":                           {r: Request{Topology: volume.Topology{Requisite: []string{"a"}}}, hosts: []Host{with(c, blind), a}, want: []string{"a"}},
		"only offline hosts":                                        {hosts: []Host{with(c, offline)}, kind: volume.Exhausted},
		"only hosts that may have it already, and nobody can look":  {hosts: []Host{with(c, hidden)}, kind: volume.Unavailable},
		"the same in a Cluster that is being deleted":               {r: Request{Class: Class{Deleting: true}}, hosts: []Host{with(c, hidden), a}, kind: volume.Unavailable},
		"one that may have it, where the claim may not be":          {r: Request{Topology: volume.Topology{Requisite: []string{"a"}}}, hosts: []Host{with(c, hidden), with(a, offline)}, kind: volume.Exhausted},
		"one that may have it, beside another one":                  {hosts: []Host{with(c, hidden), a}, want: []string{"a"}},
		"a stray where the claim may not be any more":               {r: Request{Name: "x", Topology: volume.Topology{Requisite: []string{"c"}}}, hosts: []Host{with(host("a", 9, "x"), stray), c}, want: []string{"c"}},
		"a volume where it may be goes before one where it may not": {r: Request{Name: "x", Topology: volume.Topology{Requisite: []string{"c"}}}, hosts: []Host{host("a", 9, "x"), host("c", 9, "x")}, want: []string{"c"}},
		"a volume on a host that is away, where the claim may not be": {
			r: Request{Name: "x", Topology: volume.Topology{Requisite: []string{"c"}}}, hosts: []Host{with(host("a", 9, "x"), offline), c}, kind: volume.Unavailable,
		},
		"hosts that may come yet":           {hosts: []Host{with(c, connecting)}, kind: volume.Unavailable},
		"a group that is not on record yet": {hosts: []Host{with(c, soon), with(a, offline)}, kind: volume.Unavailable},
		"the same beside another host":      {hosts: []Host{with(c, soon), a}, want: []string{"a"}},
		"the same on a host that is not allowed": {
			r: Request{Topology: volume.Topology{Requisite: []string{"b"}}}, hosts: []Host{with(c, soon), with(b, offline)}, kind: volume.Exhausted,
		},
		"no group":                        {hosts: []Host{with(c, func(h *Host) { h.Group = nil })}, kind: volume.Exhausted},
		"a partial group":                 {hosts: []Host{with(c, func(h *Host) { h.Group = &decide.Group{Partial: true} })}, kind: volume.Exhausted},
		"no hosts":                        {kind: volume.Exhausted},
		"a node that is no host":          {r: Request{Topology: volume.Topology{Requisite: []string{"z"}}}, hosts: []Host{a}, kind: volume.Exhausted},
		"a Cluster that is being deleted": {r: Request{Class: Class{Deleting: true}}, hosts: []Host{a}, kind: volume.Precondition},
		"a copy goes to its source":       {r: Request{Class: thin, Source: from}, hosts: []Host{a, b, c}, want: []string{"b"}},
		"a copy that may not be with its source": {
			r: Request{Class: thin, Source: from, Topology: volume.Topology{Requisite: []string{"a"}}}, hosts: []Host{a, b, c}, kind: volume.Exhausted,
		},
		"a host that may come yet, beside another one": {hosts: []Host{with(c, connecting), a}, kind: volume.Unavailable},
		"the pool with the most room comes first":      {r: Request{Class: thin}, hosts: []Host{pool("a", 5, 30), pool("b", 9, 10), pool("c", 1, 20)}, want: []string{"a", "c", "b"}},
		"later pools without room are not tried": {
			r: Request{Class: bounded, Range: volume.Range{Given: true, Required: 15 * gib}}, hosts: []Host{pool("a", 99, 10), pool("b", 5, 20), pool("c", 5, 30)}, want: []string{"c", "b"},
		},
		"a handle that is too long": {r: Request{Class: thin, Name: strings.Repeat("v", 99)}, hosts: []Host{pool("a-node-with-a-long-name-of-its-own", 5, 30), pool("b", 9, 10)}, want: []string{"b"}},
		"a copy whose source is in maintenance": {
			r: Request{Class: thin, Source: from}, hosts: []Host{a, with(b, func(h *Host) { h.State = nodestate.Quiesced }), c}, kind: volume.Unavailable,
		},
		"a copy whose source's group lacks a disk": {
			r: Request{Class: thin, Source: from, Topology: volume.Topology{Requisite: []string{"b"}}}, hosts: []Host{a, with(b, func(h *Host) { h.Refusal = "a disk of its volume group is missing" }), c},
			kind: volume.Unavailable,
		},
		"a copy whose source's node does not answer": {
			r: Request{Class: thin, Source: from, Topology: volume.Topology{Requisite: []string{"b"}}}, hosts: []Host{with(b, offline)}, kind: volume.Unavailable,
		},
		"a copy with the name of another volume": {r: Request{Class: thin, Source: from, Name: "x"}, hosts: []Host{host("a", 9, "x"), b}, kind: volume.Conflict},
		"a copy of a linear volume":              {r: Request{Class: Class{Group: "vg"}, Source: from}, hosts: []Host{b}, kind: volume.Invalid},
		"a copy from another group":              {r: Request{Class: Class{Group: "other", Thin: thin.Thin}, Source: from}, hosts: []Host{b}, kind: volume.Invalid},
		"a limit that no extent fits": {
			r: Request{Range: volume.Range{Given: true, Required: gib + 1, Limit: gib + 2}}, hosts: []Host{a}, kind: volume.OutOfRange,
		},
	} {
		t.Run(name, func(t *testing.T) {
			choices, err := Choose(test.r, test.hosts)
			var got []string
			for _, c := range choices {
				got = append(got, c.Host.Node.Name)
			}
			if diff := cmp.Diff(test.want, got); diff != "" || kindOf(err) != test.kind || (err != nil) != (test.kind != 0) {
				t.Errorf("kind %d, want %d: %v\n%s", kindOf(err), test.kind, err, diff)
			}
		})
	}
}
