package lvm

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// ofNode1 returns a group of Cluster "a" that names node n1, with one volume.
func ofNode1(uuid string, devices ...string) decide.Group {
	g := groupOf(uuid, devices...)
	g.SystemID, g.Volumes = "quarry-n1", []string{lv}
	return g
}

// earlier returns an edit that records groups which were given up.
func earlier(uuids ...string) func(*v1alpha1.Member) {
	return func(m *v1alpha1.Member) { m.Spec.Group.Earlier = uuids }
}

// adoptCase is a host with group B, whose record names group A.
type adoptCase struct {
	in scene
	// elsewhere is what node n2 reports; nothing when it is nil.
	elsewhere *decide.Node
	// why is said of a group that cannot be adopted; "-" when nothing is said, and empty when it can.
	why string
}

func (c adoptCase) decide() backend.Host {
	v := c.in.view()
	if c.elsewhere != nil {
		v.seen.Nodes["n2"] = *c.elsewhere
	}
	return v.Decide(c.in.member())
}

func (c adoptCase) check(t *testing.T) {
	t.Helper()
	h := c.decide()
	i := slices.IndexFunc(h.Steps, func(s backend.Step) bool { return s.Action() == v1alpha1.ActionAdoptVolumeGroup })
	switch {
	case (i >= 0) != (c.why == ""):
		t.Fatalf("steps %+v; %s", h.Steps, h.Finding.Message)
	case i < 0 && c.why != "-" && !strings.Contains(h.Finding.Message, c.why):
		t.Errorf("%q does not say %q", h.Finding.Message, c.why)
	case i < 0:
		return
	case len(h.Steps) != 1 || h.Record != nil || !h.Steps[0].Destroys() || h.Finding.Kind != backend.Bad:
		t.Errorf("%s", tell(h))
	case !strings.Contains(h.Finding.Message, "approve the plan with AdoptVolumeGroup"):
		t.Errorf("%q does not say the way out", h.Finding.Message)
	}
}

// TestAdopt: the one group that is here takes the place of a recorded one that is not, by approval. Whatever may hide the recorded one, or
// makes it unsure which group this is, is a refusal.
func TestAdopt(t *testing.T) {
	b := ofNode1("B", "sdb")
	partial, unreported, unnamed := b, b, b
	partial.Partial, unreported.Unknown, unnamed.SystemID = true, true, ""
	node := up("n1", []decide.Group{b}, ownDisk("sdb"), device("sdz"))
	record := memberOf(clusterOf(), records("A"))
	with := func(edit func(*decide.Node)) decide.Node {
		n := node
		edit(&n)
		return n
	}
	away, there := up("n2", []decide.Group{groupOf("A", "sda")}), seesOther(up("n2", nil), ofNode2("A", "sda"))
	silent := decide.Node{Name: "n2", Agent: decide.AgentUnreachable}
	hiding := device("sda")
	hiding.Refusals = []v1alpha1.Refusal{{Reason: v1alpha1.RefusalUnreadable}}
	full := slices.Repeat([]string{"X"}, maxEarlier)
	for name, c := range map[string]adoptCase{
		"an older record":                            {in: scene{node: node, object: record}},
		"only volumes tell of another group":         {in: scene{node: node, object: memberOf(clusterOf()), volumes: []backend.Volume{pinned("v", "A")}}},
		"the record fits, and volumes are elsewhere": {in: scene{node: node, object: memberOf(clusterOf(), records("B")), volumes: []backend.Volume{pinned("v", "A")}}},
		"another group was being made":               {in: scene{node: node, object: memberOf(clusterOf(), records("", "pv-sda"))}},
		"another node is silent":                     {in: scene{node: node, object: record}, elsewhere: &silent},
		"this group was being made":                  {in: scene{node: node, object: memberOf(clusterOf(), records("", "pv-sdb"))}, why: "-"},
		"the record fits":                            {in: scene{node: node, object: memberOf(clusterOf(), records("B"))}, why: "-"},
		"no record":                                  {in: scene{node: node, object: memberOf(clusterOf())}, why: "-"},
		"nothing is here":                            {in: scene{node: up("n1", nil, device("sdz")), object: record}, why: "-"},
		"two groups are here":                        {in: scene{node: with(func(n *decide.Node) { n.Groups = append(n.Groups, ofNode1("C", "sdc")) }), object: record}, why: "not exactly one"},
		"another node's group is here too":           {in: scene{node: seesOther(node, ofNode2("C", "sdc")), object: record}, why: "not exactly one"},
		"the group lacks a disk":                     {in: scene{node: with(func(n *decide.Node) { n.Groups = []decide.Group{partial} }), object: record}, why: "is missing"},
		"LVM cannot report the group":                {in: scene{node: with(func(n *decide.Node) { n.Groups = []decide.Group{unreported} }), object: record}, why: "LVM cannot report"},
		"the group names no node":                    {in: scene{node: with(func(n *decide.Node) { n.Groups = []decide.Group{unnamed} }), object: record}, why: "does not name this node"},
		"a disk cannot be read":                      {in: scene{node: with(func(n *decide.Node) { n.Devices = append(slices.Clone(n.Devices), hiding) }), object: record}, why: "cannot be read"},
		"a group cannot be reported":                 {in: scene{node: with(func(n *decide.Node) { n.Unknown = []decide.UnknownGroup{{Name: "x"}} }), object: record}, why: "-"},
		"LVM cannot be run":                          {in: scene{node: with(func(n *decide.Node) { n.LVMError = "no" }), object: record}, why: "-"},
		"another node sees the disk":                 {in: scene{node: with(func(n *decide.Node) { n.Devices = []decide.Device{sharedDisk(ownDisk("sdb"))} }), object: record}, why: "another node sees"},
		"the recorded group is on another node":      {in: scene{node: node, object: record}, elsewhere: &away, why: "its disks are on node n2"},
		"its disks are in another node":              {in: scene{node: node, object: record}, elsewhere: &there, why: "its disks are on node n2"},
		"the agent is silent":                        {in: scene{node: with(func(n *decide.Node) { n.Agent = decide.AgentUnreachable }), object: record}, why: "-"},
		"maintenance":                                {in: scene{node: node, object: record, edit: frozen}, why: "-"},
		"the member leaves":                          {in: scene{node: node, object: record, edit: removed}, why: "-"},
		"the member is declared lost":                {in: scene{node: node, object: record, edit: func(m *backend.Member) { m.Lost = true }}, why: "-"},
		"a host that the spec does not have":         {in: scene{node: node, object: record, edit: func(m *backend.Member) { m.Invalid = &backend.Invalid{Reason: "x"} }}, why: "-"},
		"too many were given up":                     {in: scene{node: node, object: memberOf(clusterOf(), records("A"), earlier(full...))}, why: "too many"},
	} {
		t.Run(name, func(t *testing.T) { c.check(t) })
	}
}

// TestAdopt_namesBoth: the step names both groups, and the volumes and claims of both. Its digest is of exactly that.
func TestAdopt_namesBoth(t *testing.T) {
	kept := backend.Volume{Name: "k", Claim: "ns/k", Handle: "n1/quarry-a/" + lv, GroupUUID: "B", Expected: true}
	in := scene{node: up("n1", []decide.Group{ofNode1("B", "sdb")}, ownDisk("sdb")), object: memberOf(clusterOf(), records("A")), volumes: []backend.Volume{kept, pinned("v", "A")}}
	in.object.Name = "a.n1"
	step := in.decide().Steps[0].(Step)
	api := step.API()
	if d := cmp.Diff([]string{"lost: v (claim ns/v)", "kept: k (claim ns/k)"}, api.Volumes); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if api.GroupUUID != "B" || !slices.Equal(api.Replaces, []string{"A"}) || len(api.Devices) != 1 || !strings.Contains(api.Reason, "UUID A") || !strings.Contains(api.Reason, "UUID B") {
		t.Errorf("%+v", api)
	}
	want := Adoption{Member: "a.n1", Node: "n1", UID: "m-uid", Replaces: []string{"A"}, Lost: []string{pinned("v", "A").Handle}}
	if d := cmp.Diff(&want, step.Adoption); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	for name, edit := range map[string]func(*scene){
		"another recorded group": func(s *scene) { s.object = memberOf(clusterOf(), records("Z")) },
		"another group":          func(s *scene) { s.node.Groups = []decide.Group{ofNode1("Z", "sdb")} },
		"another Member":         func(s *scene) { s.object = memberOf(clusterOf(), records("A")); s.object.UID = "later" },
		"another lost volume": func(s *scene) {
			w := pinned("w", "A")
			w.Handle = "n1/x/y"
			s.volumes = append([]backend.Volume{w}, s.volumes...)
		},
	} {
		changed := in
		edit(&changed)
		if changed.decide().Steps[0].Digest() == step.Digest() {
			t.Errorf("%s has the same digest", name)
		}
	}
}

// TestAdopt_silentNodes: the disks of the recorded group may be in a node that nobody can ask. The plan and the condition name each.
func TestAdopt_silentNodes(t *testing.T) {
	in := scene{node: up("n1", []decide.Group{ofNode1("B", "sdb")}, ownDisk("sdb")), object: memberOf(clusterOf(), records("A"))}
	const says = "Its disks may be in a node that does not answer now: "
	for name, c := range map[string]struct {
		others []decide.Node
		want   string
	}{
		"all answer":      {},
		"one is silent":   {[]decide.Node{{Name: "n2", Agent: decide.AgentUnreachable}}, says + "n2."},
		"two are":         {[]decide.Node{{Name: "n2", Agent: decide.AgentMissing}, {Name: "n3", Agent: decide.AgentConnecting}, up("n4", nil)}, says + "n2, n3."},
		"another answers": {[]decide.Node{up("n2", nil), up("n3", nil)}, ""},
	} {
		v := in.view()
		for _, n := range c.others {
			v.seen.Nodes[n.Name] = n
		}
		h := v.Decide(in.member())
		if len(h.Steps) != 1 {
			t.Fatalf("%s: %s", name, tell(h))
		}
		for _, text := range []string{h.Steps[0].API().Reason, h.Finding.Message} {
			if c.want == "" && strings.Contains(text, says) || !strings.Contains(text, c.want) {
				t.Errorf("%s: %q", name, text)
			}
		}
		if h.Steps[0].Digest() != in.decide().Steps[0].Digest() {
			t.Errorf("%s: another digest", name)
		}
	}
}

// TestAdopt_afterwards: volumes of the group that was given up hold nothing back. Should that group come back, nothing grows.
func TestAdopt_afterwards(t *testing.T) {
	b := ofNode1("B", "sdb")
	lost := pinned("v", "A")
	lost.Expected = true
	after := scene{node: up("n1", []decide.Group{b}, ownDisk("sdb"), device("sdz")), object: memberOf(clusterOf(), records("B"), earlier("A")), volumes: []backend.Volume{lost}}
	if got := tell(after.decide()); got != "EnsureVolumeGroup quarry-a sdz\n" {
		t.Error(got)
	}
	// Without the word of a person the same volume holds the host back.
	before := after
	before.object = memberOf(clusterOf(), records("B"))
	if h := before.decide(); h.Finding.Reason != v1alpha1.ReasonVolumeGroupLost {
		t.Errorf("%s", tell(h))
	}
	after.node.Groups = append(after.node.Groups, ofNode1("A", "sda"))
	if h := after.decide(); h.Finding.Reason != v1alpha1.ReasonVolumeGroupConflict || len(h.Steps) != 0 {
		t.Errorf("%s", tell(h))
	}
	// Only the earlier one is here: it can be adopted in its turn.
	after.node.Groups = []decide.Group{ofNode1("A", "sda")}
	after.node.Devices = []decide.Device{ownDisk("sda")}
	h := after.decide()
	if len(h.Steps) != 1 || h.Steps[0].API().GroupUUID != "A" || !slices.Equal(h.Steps[0].API().Replaces, []string{"B"}) {
		t.Errorf("%s", tell(h))
	}
}

// TestGivenUpAbsent: what was given up is away only while the host says so without a doubt. A disk that comes back brings its volumes back.
func TestGivenUpAbsent(t *testing.T) {
	node := up("n1", []decide.Group{ofNode1("B", "sdb")}, ownDisk("sdb"))
	hiding := device("sda")
	hiding.Refusals = []v1alpha1.Refusal{{Reason: v1alpha1.RefusalUnreadable}}
	stranger := ofNode1("A", "sda")
	stranger.OwnerUID = "another"
	object := memberOf(clusterOf(), records("B"), earlier("X", "A"))
	for name, c := range map[string]struct {
		edit      func(*decide.Node)
		elsewhere []decide.Group
		object    *v1alpha1.Member
		want      metav1.ConditionStatus
	}{
		"nothing is seen of it":              {want: metav1.ConditionTrue},
		"one of them is back":                {edit: func(n *decide.Node) { n.Groups = append(n.Groups, ofNode1("A", "sda")) }, want: metav1.ConditionFalse},
		"back, and another's by its tag":     {edit: func(n *decide.Node) { n.Groups = append(n.Groups, stranger) }, want: metav1.ConditionFalse},
		"back, and another node's":           {edit: func(n *decide.Node) { n.OtherNodes = []decide.Group{ofNode2("A", "sda")} }, want: metav1.ConditionFalse},
		"another node has it":                {elsewhere: []decide.Group{groupOf("A", "sda")}, want: metav1.ConditionFalse},
		"a disk cannot be read":              {edit: func(n *decide.Node) { n.Devices = append(n.Devices, hiding) }, want: metav1.ConditionUnknown},
		"a group cannot be reported":         {edit: func(n *decide.Node) { n.Unknown = []decide.UnknownGroup{{Name: "x"}} }, want: metav1.ConditionUnknown},
		"LVM cannot be run":                  {edit: func(n *decide.Node) { n.LVMError = "no" }, want: metav1.ConditionUnknown},
		"the agent is silent":                {edit: func(n *decide.Node) { n.Agent = decide.AgentUnreachable }, want: metav1.ConditionUnknown},
		"the agent connects":                 {edit: func(n *decide.Node) { n.Agent = decide.AgentConnecting }, want: metav1.ConditionUnknown},
		"the host has another record by now": {object: memberOf(clusterOf(), records("A"), earlier("B")), want: metav1.ConditionFalse},
		"nothing was given up":               {object: memberOf(clusterOf(), records("B"))},
		"no record":                          {object: memberOf(clusterOf())},
	} {
		in := scene{node: node, object: object}
		if c.object != nil {
			in.object = c.object
		}
		if c.edit != nil {
			in.node.Groups, in.node.Devices = slices.Clone(node.Groups), slices.Clone(node.Devices)
			c.edit(&in.node)
		}
		v := in.view()
		v.seen.Nodes["n2"] = up("n2", c.elsewhere)
		got := v.Decide(in.member()).GivenUp
		switch {
		case got == nil && c.want != "":
			t.Errorf("%s: nothing is told", name)
		case got != nil && (got.Status != c.want || got.Type != v1alpha1.ConditionGivenUpAbsent || got.Reason == "" || got.Message == ""):
			t.Errorf("%s: %+v", name, got)
		}
	}
}
