package lvm

import (
	"slices"
	"strings"
	"testing"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// importCase is a group of node n2 whose disk is in n1.
type importCase struct {
	two     decide.Node
	gone    bool
	node    decide.Node
	record  func(*v1alpha1.Member)
	volumes []backend.Volume
	edit    func(*backend.Member)
	// why is said of a group that cannot be imported; empty when it can.
	why string
}

func (c importCase) decide() backend.Host {
	s := scene{node: c.node, object: memberOf(clusterOf()), volumes: c.volumes, edit: c.edit}
	if c.record != nil {
		c.record(s.object)
	}
	there := memberOf(clusterOf(), records("u2"))
	there.Name, there.UID, there.Spec.Node = "a.n2", "m2-uid", "n2"
	s.world = backend.World{
		Members: []*v1alpha1.Member{there}, Nodes: map[string]backend.Node{"n1": {Name: "n1", Exists: true}, "n2": {Name: "n2", Exists: !c.gone}},
		Volumes: map[string][]backend.Volume{"n1": c.volumes, "n2": {{Name: "v", Claim: "ns/c", Handle: "n2/quarry-a/" + lv, GroupUUID: "u2"}}},
	}
	v := s.view()
	v.seen.Nodes["n2"] = c.two
	return v.Decide(s.member())
}

// TestImport: a moved group becomes this node's by approval, once the node that it names cannot use it any more.
func TestImport(t *testing.T) {
	moved := seesOther(up("n1", nil, held(), device("sdz")), ofNode2("u2", "sdb"))
	partial, unlike := ofNode2("u2", "sdb"), ofNode2("u2", "sdb")
	partial.Partial, unlike.SystemID = true, "san-host"
	missing := decide.Node{Name: "n2", Agent: decide.AgentMissing}
	silent := decide.Node{Name: "n2", Agent: decide.AgentUnreachable}
	unreadable := up("n2", nil, unread("sdq"))
	shared := seesOther(up("n1", nil, sharedDisk(held())), ofNode2("u2", "sdb"))
	own := groupOf("u1", "sda")
	for name, c := range map[string]importCase{
		"the other node reports without it":       {two: up("n2", nil), node: moved},
		"the other node does not exist":           {two: missing, gone: true, node: moved},
		"its own record, as after a move back":    {two: up("n2", nil), node: moved, record: records("u2")},
		"its volumes were made anew before":       {two: up("n2", nil), node: moved, volumes: []backend.Volume{{Name: "w", Handle: "n1/quarry-a/" + lv, GroupUUID: "u2"}}},
		"the other node is silent":                {two: silent, node: moved, why: "node n2 does not answer"},
		"it has no agent, and exists":             {two: missing, node: moved, why: "node n2 does not answer"},
		"nobody knows whether its agent is there": {two: decide.Node{Name: "n2", Agent: decide.AgentConnecting}, gone: true, node: moved, why: "node n2 does not answer"},
		"the other node sees it":                  {two: up("n2", []decide.Group{ofNode2("u2", "sdb")}), node: moved, why: "node n2 sees it too"},
		"a disk there cannot be read":             {two: unreadable, node: moved, why: "cannot be read"},
		"both see its disk":                       {two: up("n2", nil), node: shared, why: "another node sees its disks too"},
		"a disk of it is missing":                 {two: up("n2", nil), node: seesOther(up("n1", nil, held()), partial), why: "disks of it are missing"},
		"it names a stranger":                     {two: up("n2", nil), node: seesOther(up("n1", nil, held()), unlike), why: "nothing is known of the node"},
		"two groups were moved":                   {two: up("n2", nil), node: seesOther(up("n1", nil, held()), ofNode2("u2", "sdb"), ofNode2("u3", "sdc")), why: "disks of several groups"},
		"the host has a group":                    {two: up("n2", nil), node: seesOther(up("n1", []decide.Group{own}, held()), ofNode2("u2", "sdb")), record: records("u1"), why: "has a group of its own"},
		"the host had one":                        {two: up("n2", nil), node: moved, record: records("u1"), why: "-"},
		"the host was making one":                 {two: up("n2", nil), node: moved, record: records("", "pv-x"), why: "has a group of its own"},
		"the host has volumes of nobody knows what": {
			two: up("n2", nil), node: moved, volumes: []backend.Volume{{Name: "w", Handle: "n1/quarry-a/" + lv}}, why: "-",
		},
		"maintenance":        {two: up("n2", nil), node: moved, edit: frozen, why: "-"},
		"the member leaves":  {two: up("n2", nil), node: moved, edit: removed, why: "-"},
		"a spec with a flaw": {two: up("n2", nil), node: moved, edit: func(m *backend.Member) { m.Invalid = &backend.Invalid{Reason: "x"} }, why: "-"},
	} {
		t.Run(name, func(t *testing.T) {
			c.check(t)
		})
	}
}

// check wants the import to be decided alone, with all that moves, or the finding to say why it is not.
func (c importCase) check(t *testing.T) {
	t.Helper()
	h := c.decide()
	i := slices.IndexFunc(h.Steps, func(s backend.Step) bool { return s.Action() == v1alpha1.ActionImportVolumeGroup })
	switch {
	case (i >= 0) != (c.why == ""):
		t.Fatalf("steps %+v; %s", h.Steps, h.Finding.Message)
	case i < 0 && c.why != "-" && !strings.Contains(h.Finding.Message, c.why):
		t.Errorf("%q does not say %q", h.Finding.Message, c.why)
	case i < 0:
		return
	}
	step := h.Steps[i].(Step)
	volumes := step.API().Volumes
	if len(h.Steps) != 1 || !step.Destroys() || step.UUID != "u2" || step.From != "quarry-n2" || len(step.Devices) != 1 {
		t.Errorf("%+v", h.Steps)
	}
	if len(volumes) == 0 || !strings.Contains(volumes[len(volumes)-1], "ns/c") {
		t.Errorf("volumes %v", volumes)
	}
}

// TestImport_isRecorded: once the group names this node it is this node's, even if the Member of the other one and its volumes still tell of it.
// The other node says where it is.
func TestImport_isRecorded(t *testing.T) {
	g := groupOf("u2", "sdb")
	g.SystemID = "quarry-n1"
	h := importCase{two: up("n2", nil), node: up("n1", []decide.Group{g}, ownDisk("sdb"))}.decide()
	if h.Record == nil || h.Record.UUID != "u2" || !h.Finding.IsZero() {
		t.Errorf("record %+v, finding %+v", h.Record, h.Finding)
	}
	g.SystemID = "quarry-n2"
	h = importCase{two: up("n2", nil), node: up("n1", []decide.Group{g}, ownDisk("sdb"))}.decide()
	if h.Record != nil || h.Finding.Reason != v1alpha1.ReasonVolumeGroupConflict {
		t.Errorf("record %+v, finding %+v", h.Record, h.Finding)
	}
}
