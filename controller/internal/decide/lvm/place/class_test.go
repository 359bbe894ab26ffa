package place

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

func TestParse(t *testing.T) {
	const uid, pool, percent = v1alpha1.ParameterCluster, v1alpha1.ParameterThinPool, v1alpha1.ParameterOverprovision
	for name, c := range map[string]struct {
		in   map[string]string
		want Parameters
		says string
	}{
		"nothing": {},
		"all that is known": {
			in:   map[string]string{uid: "u", pool: "thin", percent: "150"},
			want: Parameters{Cluster: "u", Thin: Thin{Pool: "thin", Percent: 150}},
		},
		"thin without a bound": {in: map[string]string{pool: "thin"}, want: Parameters{Thin: Thin{Pool: "thin"}}},
		"unknown ones":         {in: map[string]string{"b": "", "a$(x)": "", uid: "u"}, says: `unknown parameters: "a$(x)", "b"`},
		"an empty Cluster":     {in: map[string]string{uid: ""}, says: "is empty"},
		"an option as pool":    {in: map[string]string{pool: "-x"}, says: "no name of a thin pool"},
		"a path as pool":       {in: map[string]string{pool: "../x"}, says: "no name of a thin pool"},
		"a bound without pool": {in: map[string]string{percent: "100"}, says: "goes with"},
		"a bound of nothing":   {in: map[string]string{pool: "p", percent: "0"}, says: "no number of percent"},
		"a bound in words":     {in: map[string]string{pool: "p", percent: "a lot"}, says: "no number of percent"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(c.in)
			switch {
			case c.says == "" && err != nil, c.says != "" && (kindOf(err) != volume.Invalid || !strings.Contains(err.Error(), c.says)):
				t.Errorf("error is %v, want %q", err, c.says)
			case err == nil && cmp.Diff(c.want, got) != "":
				t.Error(cmp.Diff(c.want, got))
			}
		})
	}
}

func TestRoom(t *testing.T) {
	pool := decide.ThinPool{Name: "thin", SizeBytes: 10 * gib, VirtualBytes: 5 * gib, DataPermyriad: 2500}
	pooled := func(edit func(*decide.ThinPool)) Host {
		p := pool
		edit(&p)
		return with(host("a", 1), func(h *Host) { h.Group.Pools = []decide.ThinPool{p} })
	}
	bounded := Class{Thin: Thin{Pool: "thin", Percent: 200}}
	for name, c := range map[string]struct {
		class Class
		h     Host
		want  int64
	}{
		"linear":               {Class{}, host("a", 7), 7 * gib},
		"not whole extents":    {Class{}, with(host("a", 0), func(h *Host) { h.Group.FreeBytes = gib + 1 }), gib},
		"quiesced":             {Class{}, with(host("a", 7), func(h *Host) { h.State = nodestate.Quiesced }), 0},
		"being deleted":        {Class{Deleting: true}, host("a", 7), 0},
		"up to the limit":      {bounded, pooled(func(*decide.ThinPool) {}), 15 * gib},
		"over the limit":       {bounded, pooled(func(p *decide.ThinPool) { p.VirtualBytes = 30 * gib }), 0},
		"usage not known":      {bounded, pooled(func(p *decide.ThinPool) { p.UsageUnknown = true }), 0},
		"no data room":         {bounded, pooled(func(p *decide.ThinPool) { p.DataPermyriad = 10000 }), 0},
		"no metadata room":     {bounded, pooled(func(p *decide.ThinPool) { p.MetadataPermyriad = 9500 }), 0},
		"without a limit":      {Class{Thin: Thin{Pool: "thin"}}, pooled(func(*decide.ThinPool) {}), 15 * gib / 2},
		"no pool":              {bounded, host("a", 7), 0},
		"more than any number": {Class{Thin: Thin{Pool: "thin", Percent: 100_000}}, pooled(func(p *decide.ThinPool) { p.SizeBytes, p.VirtualBytes = math.MaxInt64, 0 }), math.MaxInt64 / (4 << 20) * (4 << 20)},
	} {
		if got := Room(c.class, c.h); got.Available != c.want || got.Largest != c.want {
			t.Errorf("%s: %+v, want %d", name, got, c.want)
		}
	}
}

// pool returns a Cluster with thin pools and the hosts a and b.
func pool() *v1alpha1.Cluster {
	c := &v1alpha1.Cluster{}
	c.Name, c.UID = "pool", "u"
	c.Spec.Hosts = []v1alpha1.HostName{"b", "a"}
	c.Spec.LVM = &v1alpha1.LVMSpec{ThinPool: &v1alpha1.ThinPoolSpec{OverprovisionRatio: "1.5"}}
	return c
}

func TestHostOf(t *testing.T) {
	c := pool()
	n := decide.Node{Name: "a", Agent: decide.AgentUp, Groups: []decide.Group{{Name: "quarry-pool", UUID: "g", OwnerUID: "u"}}}
	m := &v1alpha1.Member{Spec: v1alpha1.MemberSpec{Of: backend.OwnerOf(c).API(), Node: "a", Group: &v1alpha1.MemberGroup{UUID: "g"}}}
	if h := HostOf(c, m, n, false, nil); h.State != nodestate.Online || h.Group == nil || h.Group.Name != "quarry-pool" || h.problem() != "" {
		t.Errorf("%+v", h)
	}
	if h := HostOf(c, m, n, true, nil); h.State != nodestate.Quiesced {
		t.Errorf("%+v", h)
	}
	for name, edit := range map[string]func(c *v1alpha1.Cluster, m *v1alpha1.Member){
		"deleted":         func(_ *v1alpha1.Cluster, m *v1alpha1.Member) { m.DeletionTimestamp = new(metav1.Now()) },
		"lost":            func(_ *v1alpha1.Cluster, m *v1alpha1.Member) { m.UID, m.Spec.Lost = "1", "1" },
		"Cluster deleted": func(c *v1alpha1.Cluster, _ *v1alpha1.Member) { c.DeletionTimestamp = new(metav1.Now()) },
	} {
		c, m := c.DeepCopy(), m.DeepCopy()
		edit(c, m)
		if h := HostOf(c, m, n, false, nil); h.State != nodestate.Abandoned || h.problem() == "" {
			t.Errorf("%s: %+v", name, h)
		}
	}
	other := m.DeepCopy()
	other.Spec.Group.UUID = "h"
	if h := HostOf(c, other, n, false, nil); h.problem() == "" || !with(h, func(h *Host) { h.Group.Volumes = []string{"v"} }).Has("v") {
		t.Errorf("a group that is not on record: %+v", h)
	}
	two := n
	two.Groups = append([]decide.Group{{Name: "x", OwnerUID: "u"}}, n.Groups...)
	if h := HostOf(c, m, two, false, nil); h.problem() == "" || h.Group == nil || h.Group.UUID != "g" {
		t.Errorf("beside a group that is not on record: %+v", h)
	}
}

// TestHostOf_hidden: a member with a group on record, into which nobody can look.
func TestHostOf_hidden(t *testing.T) {
	c := pool()
	n := decide.Node{Name: "a", Agent: decide.AgentUp, Groups: []decide.Group{{Name: "quarry-pool", UUID: "g", OwnerUID: "u"}}}
	m := &v1alpha1.Member{Spec: v1alpha1.MemberSpec{Of: backend.OwnerOf(c).API(), Node: "a", Group: &v1alpha1.MemberGroup{UUID: "g"}}}
	hidden := func(edit func(m *v1alpha1.Member, n *decide.Node)) bool {
		m, n := m.DeepCopy(), n
		edit(m, &n)
		return HostOf(c, m, n, false, nil).Hidden
	}
	silent := func(_ *v1alpha1.Member, n *decide.Node) { n.Agent = decide.AgentUnreachable }
	for name, tt := range map[string]struct {
		edit func(m *v1alpha1.Member, n *decide.Node)
		want bool
	}{
		"its group is seen":     {func(*v1alpha1.Member, *decide.Node) {}, false},
		"its agent is silent":   {silent, true},
		"its agent is gone":     {func(_ *v1alpha1.Member, n *decide.Node) { n.Agent = decide.AgentMissing }, true},
		"its group is not seen": {func(_ *v1alpha1.Member, n *decide.Node) { n.Groups = nil }, true},
		"LVM cannot be run":     {func(_ *v1alpha1.Member, n *decide.Node) { n.LVMError = "no" }, true},
		"silent, and never had a group": {func(m *v1alpha1.Member, n *decide.Node) {
			silent(m, n)
			m.Spec.Group = nil
		}, false},
		"silent, and declared lost": {func(m *v1alpha1.Member, n *decide.Node) {
			silent(m, n)
			m.UID, m.Spec.Lost = "1", "1"
		}, false},
	} {
		if got := hidden(tt.edit); got != tt.want {
			t.Errorf("%s: hidden is %t", name, got)
		}
	}
}

func TestClassOf(t *testing.T) {
	c := pool()
	want := Class{Cluster: "pool", Owner: "u", Group: "quarry-pool", Thin: Thin{Pool: v1alpha1.ThinPoolName, Percent: 150}}
	if diff := cmp.Diff(want, ClassOf(c)); diff != "" {
		t.Error(diff)
	}
	c.Spec.LVM = &v1alpha1.LVMSpec{VolumeGroup: "vg"}
	if got := ClassOf(c); got.Group != "vg" || got.Thin != (Thin{}) {
		t.Errorf("%+v", got)
	}
}

func TestConditionOf(t *testing.T) {
	n := decide.Node{Name: "a", Groups: []decide.Group{{Name: "vg", Partial: true}, {Name: "ok"}}}
	for name, c := range map[string]struct {
		got      volume.Condition
		abnormal bool
		says     string
	}{
		"partial": {ConditionOf(n, decide.Volume{Group: "vg", Health: "partial"}), true, "is missing"},
		"beside":  {ConditionOf(n, decide.Volume{Group: "vg"}), false, "nothing is wrong"},
		"sick":    {ConditionOf(n, decide.Volume{Group: "ok", Health: "ill"}), true, "ill"},
		"well":    {ConditionOf(n, decide.Volume{Group: "ok"}), false, "nothing is wrong"},
		"away":    {Away(n), true, "does not answer"},
	} {
		if c.got.Abnormal != c.abnormal || !strings.Contains(c.got.Message, c.says) {
			t.Errorf("%s: %+v", name, c.got)
		}
	}
}
