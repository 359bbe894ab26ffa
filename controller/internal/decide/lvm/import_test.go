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

// heirCase is a host of Cluster "a", UID "uid", with group B of the owner "uid-before", in which a volume of the Cluster is recorded.
type heirCase struct {
	node    decide.Node
	object  *v1alpha1.Member
	volumes []backend.Volume
	others  []v1alpha1.Storage
	members []*v1alpha1.Member
	// on are the volumes of the Cluster on other nodes.
	on   []backend.Volume
	edit func(*backend.Member)
	// why is said of a group that does not become the Cluster's; "-" when nothing is said, and empty when it does.
	why string
}

func (c heirCase) decide() backend.Host {
	if c.object == nil {
		c.object = memberOf(clusterOf())
	}
	return scene{node: c.node, object: c.object, volumes: c.volumes, edit: c.edit, world: backend.World{
		Others: c.others, OtherMembers: c.members, Volumes: map[string][]backend.Volume{"n1": c.volumes, "n2": c.on},
	}}.decide()
}

func (c heirCase) check(t *testing.T) {
	t.Helper()
	h := c.decide()
	i := slices.IndexFunc(h.Steps, func(s backend.Step) bool { return s.Action() == v1alpha1.ActionImportVolumeGroup })
	switch {
	case (i >= 0) != (c.why == ""):
		t.Fatalf("%s", tell(h))
	case i < 0 && c.why != "-" && !strings.Contains(h.Finding.Message, c.why):
		t.Errorf("%q does not say %q", h.Finding.Message, c.why)
	case i < 0:
		return
	}
	checkInherits(t, h)
}

// checkInherits wants the import to be decided alone, and the finding to say so.
func checkInherits(t *testing.T, h backend.Host) {
	t.Helper()
	step := h.Steps[0].(Step)
	if len(h.Steps) != 1 || h.Record != nil || !step.Destroys() || step.UUID != "B" || step.From != "quarry-n1" || step.FromOwner != "uid-before" ||
		len(step.Devices) != 1 || step.Adoption == nil || step.Adoption.UID != "m-uid" || step.Owner != "uid" {
		t.Errorf("%+v", h.Steps)
	}
	if !strings.Contains(h.Finding.Message, "Approve the plan with ImportVolumeGroup") || h.Finding.Kind != backend.Bad {
		t.Errorf("%+v", h.Finding)
	}
}

// TestImport_ofAnOwnerThatIsGone: a Cluster came back from a backup with another UID. The group of this very node, in which its volumes are recorded,
// becomes its own by approval. Nothing that may be another storage's does.
func TestImport_ofAnOwnerThatIsGone(t *testing.T) {
	b := ofNode1("B", "sdb")
	b.OwnerUID = "uid-before"
	change := func(edit func(*decide.Group)) decide.Group {
		g := b
		edit(&g)
		return g
	}
	disk := ownDisk("sdb")
	disk.OwnerUID = "uid-before"
	holds := func(groups ...decide.Group) decide.Node { return up("n1", groups, disk, device("sdz")) }
	node := holds(b)
	volume := pinned("v", "B")
	elsewhere := pinned("w", "Z")
	elsewhere.Handle, elsewhere.Attributes = "n2/quarry-a/"+lv, map[string]string{v1alpha1.ParameterCluster: "uid-before"}
	mine := []backend.Volume{volume}
	rival := clusterOf(func(c *v1alpha1.Cluster) { c.Name, c.UID = "rival", "uid-before" })
	share := &v1alpha1.Nfs{}
	share.Name, share.UID = "share", "uid-before"
	records2 := memberOf(clusterOf(), records("B"))
	records2.Name, records2.UID, records2.Spec.Of.UID = "b.n1", "other", "uid-c"
	hiding := device("sdq")
	hiding.Refusals = []v1alpha1.Refusal{{Reason: v1alpha1.RefusalUnreadable}}
	withDisk := func(d decide.Device) decide.Node { return up("n1", []decide.Group{b}, disk, d) }
	own := ofNode1("A", "sda")
	for name, c := range map[string]heirCase{
		"a volume is recorded in it":                   {node: node, volumes: mine},
		"volumes elsewhere name its owner":             {node: node, on: []backend.Volume{elsewhere}},
		"the record was written ahead":                 {node: node, object: memberOf(clusterOf(), records("B"))},
		"the record was written ahead, and its volume": {node: node, object: memberOf(clusterOf(), records("B")), volumes: mine},
		"nothing of the Cluster tells of it":           {node: node, why: "-"},
		"volumes elsewhere name another owner":         {node: holds(change(func(g *decide.Group) { g.OwnerUID = "uid-x" })), on: []backend.Volume{elsewhere}, why: "-"},
		"its owner lives":                              {node: node, volumes: mine, others: []v1alpha1.Storage{rival}, why: "-"},
		"its owner lives, and is of another kind":      {node: node, volumes: mine, others: []v1alpha1.Storage{share}, why: "-"},
		"nobody knows its owner":                       {node: holds(change(func(g *decide.Group) { g.OwnerUID = "" })), volumes: mine, why: "-"},
		"a Member of another storage records it":       {node: node, volumes: mine, members: []*v1alpha1.Member{records2}, why: "member b.n1"},
		"it names another node":                        {node: holds(change(func(g *decide.Group) { g.SystemID = "quarry-n2" })), volumes: mine, why: "does not name this node"},
		"it names no node":                             {node: holds(change(func(g *decide.Group) { g.SystemID = "" })), volumes: mine, why: "does not name this node"},
		"it lacks a disk":                              {node: holds(change(func(g *decide.Group) { g.Partial = true })), volumes: mine, why: "is missing"},
		"LVM cannot report it":                         {node: holds(change(func(g *decide.Group) { g.Unknown = true })), volumes: mine, why: "LVM cannot report"},
		"another node sees its disk":                   {node: up("n1", []decide.Group{b}, sharedDisk(disk)), volumes: mine, why: "another node sees"},
		"a disk cannot be read":                        {node: withDisk(hiding), volumes: mine, why: "cannot be read"},
		"the host has a group of its own":              {node: holds(b, own), object: memberOf(clusterOf(), records("A")), on: []backend.Volume{elsewhere}, why: "-"},
		"the host had another group":                   {node: node, object: memberOf(clusterOf(), records("A")), on: []backend.Volume{elsewhere}, why: "has a group of its own"},
		"a volume of the host is elsewhere":            {node: node, volumes: []backend.Volume{volume, pinned("w", "C")}, why: "has a group of its own"},
		"a volume tells no group":                      {node: node, volumes: []backend.Volume{volume, pinned("w", "")}, why: "has a group of its own"},
		"two of them are here":                         {node: holds(b, change(func(g *decide.Group) { g.UUID, g.Name = "C", "h" })), on: []backend.Volume{elsewhere}, why: "several groups"},
		"maintenance":                                  {node: node, volumes: mine, edit: frozen, why: "-"},
		"the member leaves":                            {node: node, volumes: mine, edit: removed, why: "-"},
		"a spec with a flaw":                           {node: node, volumes: mine, edit: func(m *backend.Member) { m.Invalid = &backend.Invalid{Reason: "x"} }, why: "-"},
		"the agent is silent":                          {node: decide.Node{Name: "n1", Agent: decide.AgentUnreachable, Groups: []decide.Group{b}}, volumes: mine, why: "-"},
	} {
		t.Run(name, func(t *testing.T) { c.check(t) })
	}
}

// TestImport_besideAnOwnerThatIsGone: no group is made beside one that may be what the host is to have, even if another host has one already.
func TestImport_besideAnOwnerThatIsGone(t *testing.T) {
	b := ofNode1("B", "sdb")
	b.OwnerUID = "uid-before"
	there := memberOf(clusterOf(), records("A"))
	there.Name, there.UID, there.Spec.Node = "a.n2", "m2", "n2"
	elsewhere := pinned("w", "A")
	elsewhere.Handle, elsewhere.Attributes = "n2/quarry-a/"+lv, map[string]string{v1alpha1.ParameterCluster: "uid-before"}
	h := scene{node: up("n1", []decide.Group{b}, ownDisk("sdb"), device("sdz")), object: memberOf(clusterOf()), world: backend.World{
		Members: []*v1alpha1.Member{there}, Volumes: map[string][]backend.Volume{"n2": {elsewhere}},
	}}.decide()
	if h.Finding.Reason != v1alpha1.ReasonVolumeGroupLost || len(h.Steps) != 1 || h.Steps[0].Action() != v1alpha1.ActionImportVolumeGroup {
		t.Errorf("%s", tell(h))
	}
}
