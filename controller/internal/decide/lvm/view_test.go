package lvm

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

func lostMember(m *v1alpha1.Member) { m.Spec.Lost = string(m.UID) }

func away(groups ...decide.Group) decide.Node {
	return decide.Node{Name: "n1", Agent: decide.AgentUnreachable, Problem: "cut off", Groups: groups}
}

// unreported is a host where LVM cannot report a group of an owner.
func unreported(owner string, groups ...decide.Group) decide.Node {
	n := up("n1", groups)
	n.Unknown = []decide.UnknownGroup{{OwnerUID: owner, Devices: []string{"/dev/disk/by-id/sdz"}, Reason: "locked"}}
	return n
}

func filled(g decide.Group, volumes ...string) decide.Group {
	g.Volumes = volumes
	return g
}

func TestFacts(t *testing.T) {
	const present, absent, unknown = nodestate.DataPresent, nodestate.DataAbsent, nodestate.DataUnknown
	full := filled(groupOf("A", "sda"), "v2", "v1")
	foreign := filled(decide.Group{Name: "x", UUID: "X", OwnerUID: "other"}, "v")
	recorded := memberOf(clusterOf(), records("A"))
	lost := memberOf(clusterOf(), records("A"), lostMember)
	names := []string{"quarry-a/v1", "quarry-a/v2"}
	before := groupOf("A")
	before.OwnerUID = "uid-before"
	for name, c := range map[string]struct {
		in        scene
		snapshots []string
		want      backend.Facts
	}{
		"an empty host":            {scene{node: up("n1", nil)}, nil, backend.Facts{Up: true, Data: absent}},
		"an empty group":           {scene{node: up("n1", []decide.Group{groupOf("A")})}, nil, backend.Facts{Up: true, Data: absent}},
		"a group with volumes":     {scene{node: up("n1", []decide.Group{full})}, nil, backend.Facts{Up: true, Data: present, Holding: names}},
		"a group of somebody else": {scene{node: up("n1", []decide.Group{foreign})}, nil, backend.Facts{Up: true, Data: absent}},
		"the recorded group":       {scene{node: up("n1", []decide.Group{full}), object: recorded}, nil, backend.Facts{Up: true, Data: present, Holding: names, Recorded: true}},
		"another than the recorded group": {
			scene{node: up("n1", []decide.Group{groupOf("B")}), object: recorded}, nil, backend.Facts{Up: true, Data: absent},
		},
		"a host where LVM cannot be asked": {scene{node: decide.Node{Agent: decide.AgentUp, LVMError: "no lvm"}}, nil, backend.Facts{Up: true, Data: unknown, Unsure: true}},
		"a host where LVM cannot report the group": {
			scene{node: unreported("uid", full)}, nil, backend.Facts{Up: true, Data: unknown, Holding: names, Unsure: true},
		},
		"a host where nobody can tell whose a group is": {
			scene{node: unreported("", full)}, nil, backend.Facts{Up: true, Data: unknown, Holding: names, Unsure: true},
		},
		"a host where LVM cannot report a group of another Cluster": {
			scene{node: unreported("other", full)}, nil, backend.Facts{Up: true, Data: present, Holding: names, Unsure: true},
		},
		"a group with the tag of before a restore, which only volumes record": {
			scene{node: up("n1", []decide.Group{before}), world: backend.World{Volumes: map[string][]backend.Volume{"n1": {pinned("v", "A")}}}}, nil, backend.Facts{Up: true, Data: absent, Unsure: true},
		},
		"a host that does not answer": {
			scene{node: away(full), object: recorded},
			nil,
			backend.Facts{Data: unknown, Holding: names, Reason: v1alpha1.ReasonAgentUnreachable, Problem: "cut off"},
		},
		"a host without an agent": {
			scene{node: decide.Node{}},
			nil,
			backend.Facts{Missing: true, Data: unknown, Reason: v1alpha1.ReasonAgentMissing, Problem: "no agent runs on this node"},
		},
		"too early to say": {scene{node: decide.Node{Agent: decide.AgentConnecting}}, nil, backend.Facts{TooEarly: true, Data: unknown}},
		"a lost host has no data": {
			scene{node: away(full), object: lost}, nil, backend.Facts{Data: absent, Reason: v1alpha1.ReasonAgentUnreachable, Problem: "cut off"},
		},
		"a lost host has snapshots in the API server": {
			scene{node: away(full), object: lost},
			[]string{"s1"},
			backend.Facts{Data: present, Holding: []string{"s1"}, Reason: v1alpha1.ReasonAgentUnreachable, Problem: "cut off"},
		},
		"the word counts for nothing while it is too early to say": {
			scene{node: decide.Node{Agent: decide.AgentConnecting, Groups: []decide.Group{full}}, object: lost},
			nil,
			backend.Facts{TooEarly: true, Data: unknown, Holding: names},
		},
		"the word counts for nothing while the host answers": {
			scene{node: up("n1", []decide.Group{full}), object: lost}, nil, backend.Facts{Up: true, Data: present, Holding: names, Recorded: true},
		},
		"the word about an earlier Member counts for nothing": {
			scene{node: away(full), object: memberOf(clusterOf(), records("A"), func(m *v1alpha1.Member) { m.Spec.Lost = "earlier" })},
			nil,
			backend.Facts{Data: unknown, Holding: names, Reason: v1alpha1.ReasonAgentUnreachable, Problem: "cut off"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := c.in.view()
			v.seen.Snapshots = map[string][]string{"n1": c.snapshots}
			if d := cmp.Diff(c.want, v.Facts("n1")); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
	if f := (scene{}).view().Facts("n9"); !f.TooEarly || f.Up || f.Data != unknown {
		t.Errorf("a host that was not asked: %+v", f)
	}
}

// TestFacts_twoMembersOfANode: a person made another Member of the node by hand. Its word and its record do not count.
func TestFacts_twoMembersOfANode(t *testing.T) {
	own, byHand := memberOf(clusterOf(), records("A")), memberOf(clusterOf(), records("B"), lostMember)
	for _, name := range []string{"0-by-hand", "z-by-hand"} {
		byHand.Name = name
		for _, members := range [][]*v1alpha1.Member{{own, byHand}, {byHand, own}} {
			v := scene{node: decide.Node{Name: "n1"}, world: backend.World{Members: members}}.view()
			if f := v.Facts("n1"); f.Data != nodestate.DataUnknown {
				t.Errorf("%s: its word was taken: %+v", members[0].Name, f)
			}
			v = scene{node: up("n1", []decide.Group{groupOf("A", "sda")}), world: backend.World{Members: members}}.view()
			if f := v.Facts("n1"); !f.Recorded {
				t.Errorf("%s: its record outranks that of the Member: %+v", members[0].Name, f)
			}
		}
	}
}

func TestHosts(t *testing.T) {
	c := clusterOf(func(c *v1alpha1.Cluster) { c.Status.LostGroups = []string{"L"} })
	v := NewView(Observation{Cluster: c, Holders: []string{"n3", "n1", "n2", "n4"}, Nodes: map[string]decide.Node{
		"n1": away(groupOf("A")), "n2": up("n2", []decide.Group{groupOf("L")}), "n3": up("n3", []decide.Group{groupOf("L"), groupOf("B")}), "n4": up("n4", nil),
	}})
	if got := v.Hosts(); !slices.Equal(got, []string{"n1", "n3"}) {
		t.Errorf("%v", got)
	}
}

func TestDecide(t *testing.T) {
	one := groupOf("A", "sda")
	partial := one
	partial.Partial = true
	recorded := memberOf(clusterOf(), records("A"))
	refusing := up("n1", nil, dirty("sda"))
	named := clusterOf(func(c *v1alpha1.Cluster) {
		c.Spec.Devices = &v1alpha1.DeviceSelector{Paths: []v1alpha1.DevicePath{"/dev/disk/by-id/gone"}}
	})
	unlisted := clusterOf(func(c *v1alpha1.Cluster) { c.Spec.Hosts = c.Spec.Hosts[1:] })
	invalid := func(m *backend.Member) { m.Invalid = &backend.Invalid{Reason: v1alpha1.ReasonHostConflict} }
	const remove = "RemoveVolumeGroup quarry-a\n"
	for name, c := range map[string]struct {
		in   scene
		want string
	}{
		"a clean disk is taken": {
			scene{node: up("n1", nil, device("sda"))}, "record \"\" quarry-a 1\nEnsureVolumeGroup quarry-a sda\n",
		},
		"a frozen member takes nothing":            {scene{node: up("n1", nil, device("sda")), edit: frozen}, ""},
		"an invalid host takes nothing":            {scene{node: up("n1", nil, device("sda")), edit: invalid}, ""},
		"an invalid host is not told of its disks": {scene{node: refusing, edit: invalid}, ""},
		"a host that is not listed takes nothing":  {scene{cluster: unlisted, node: up("n1", nil, device("sda"))}, ""},
		"an agent that is away gets no steps":      {scene{node: away(one), object: recorded}, ""},
		"no clean disk":                            {scene{node: refusing}, "NoCleanDevice: no clean device: /dev/disk/by-id/sda: carries ext4 (Filesystem)\n"},
		"a frozen host without a clean disk":       {scene{node: refusing, edit: frozen}, "NoCleanDevice: no clean device: /dev/disk/by-id/sda: carries ext4 (Filesystem)\n"},
		"no disk at all":                           {scene{node: up("n1", nil)}, "NoCleanDevice: no device is chosen by spec.devices\n"},
		"no device of the name": {
			scene{cluster: named, node: up("n1", nil)}, "DeviceNotFound: no clean device: /dev/disk/by-id/gone: no such device on this host\n",
		},
		"no device of the name, and a group": {
			scene{cluster: named, node: up("n1", []decide.Group{one}), object: recorded}, "DeviceNotFound: /dev/disk/by-id/gone: no such device on this host\n",
		},
		"a group that has all": {scene{node: up("n1", []decide.Group{one}), object: recorded}, ""},
		"a missing disk": {
			scene{node: up("n1", []decide.Group{partial}, device("sdz")), object: recorded},
			"VolumeGroupPartial: a disk of volume group quarry-a is missing; no volume is known to have a part on it; the other volumes work and can be deleted; LVM makes none, and none larger, until the disk is back or the group has forgotten it\n",
		},
		"LVM cannot be run": {
			scene{node: decide.Node{Agent: decide.AgentUp, LVMError: "no lvm", Devices: []decide.Device{device("sda")}}},
			"StepFailed: LVM cannot be run: no lvm\n",
		},
		"LVM cannot report a group": {
			scene{node: unreported("uid"), object: recorded},
			"VolumeGroupUnknown: LVM cannot report a volume group whose metadata cannot be read on /dev/disk/by-id/sdz (locked); nothing is changed here until it can, or until what cannot be read is taken out of the node\n",
		},
		"removal while nobody can tell whose a group is": {
			scene{node: unreported("", one), object: recorded, edit: removed},
			"VolumeGroupUnknown: LVM cannot report a volume group whose metadata cannot be read on /dev/disk/by-id/sdz (locked); nothing is changed here until it can, or until what cannot be read is taken out of the node\n",
		},
		"removal while LVM cannot report a group of another Cluster": {scene{node: unreported("other", one), object: recorded, edit: removed}, remove},
		"a member that is being removed and empty":                   {scene{node: up("n1", []decide.Group{one}), object: recorded, edit: removed}, remove},
		"maintenance does not protect from removal":                  {scene{node: up("n1", []decide.Group{one}), object: recorded, edit: func(m *backend.Member) { removed(m); frozen(m) }}, remove},
		"an invalid host is cleared all the same":                    {scene{node: up("n1", []decide.Group{one}), object: recorded, edit: func(m *backend.Member) { removed(m); invalid(m) }}, remove},
		"a member that is being removed and holds data":              {scene{node: up("n1", []decide.Group{filled(one, "v")}), object: recorded, edit: failing}, ""},
		"volumes that appeared stop the removal":                     {scene{node: up("n1", []decide.Group{filled(one, "v")}), object: recorded, edit: removed}, ""},
		"volumes of the API server stop the removal":                 {scene{node: up("n1", []decide.Group{one}), object: recorded, edit: removed, volumes: []backend.Volume{pinned("v", "A")}}, ""},
		"removal without LVM": {
			scene{node: decide.Node{Agent: decide.AgentUp, LVMError: "no lvm", Groups: []decide.Group{one}}, object: recorded, edit: removed},
			"StepFailed: LVM cannot be run: no lvm\n",
		},
		"removal of what is not the recorded group": {scene{node: up("n1", []decide.Group{groupOf("B", "sdb")}), object: recorded, edit: removed}, remove},
		"removal of a group that is not seen":       {scene{node: up("n1", nil), object: recorded, edit: removed}, ""},
		"removal of a partial group":                {scene{node: up("n1", []decide.Group{partial}), object: recorded, edit: removed}, remove},
		"a lost member whose group is reported": {
			scene{node: up("n1", []decide.Group{one}), object: memberOf(clusterOf(), records("A"), lostMember), edit: frozen},
			"Lost: is declared lost, but its agent reports the recorded volume group quarry-a (UUID A): the word is not taken as long as it does, but will be once the agent is silent. Empty spec.lost of the Member, unless that is meant\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, tell(c.in.decide())); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestDecide_serves(t *testing.T) {
	one := groupOf("A", "sda")
	recorded, forming := memberOf(clusterOf(), records("A")), memberOf(clusterOf(), records("", "pv"))
	for name, c := range map[string]struct {
		in     scene
		serves bool
	}{
		"nothing at all":                         {scene{node: up("n1", nil)}, false},
		"nothing at all, away":                   {scene{node: away()}, false},
		"a record without anything":              {scene{node: away(), object: memberOf(clusterOf(), func(m *v1alpha1.Member) { m.Spec.Group = &v1alpha1.MemberGroup{} })}, false},
		"a group":                                {scene{node: up("n1", []decide.Group{one})}, true},
		"a group that was seen, away":            {scene{node: away(one)}, true},
		"a recorded group, away":                 {scene{node: away(), object: recorded}, true},
		"a recorded group, LVM cannot be asked":  {scene{node: decide.Node{Agent: decide.AgentUp, LVMError: "x"}, object: recorded}, true},
		"a recorded group, LVM cannot report it": {scene{node: unreported("uid"), object: recorded}, true},
		"a recorded group that is not seen":      {scene{node: up("n1", nil), object: recorded}, false},
		"a group that is being made, away":       {scene{node: away(), object: forming}, false},
		"volumes only":                           {scene{node: away(), volumes: []backend.Volume{pinned("v", "")}}, false},
		"a group that is not the recorded one":   {scene{node: up("n1", []decide.Group{groupOf("B")}), object: recorded}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.in.decide(); got.Serves != c.serves {
				t.Errorf("serves %t", got.Serves)
			}
		})
	}
}

func TestDecide_rivalsAndRetired(t *testing.T) {
	older := clusterOf(func(c *v1alpha1.Cluster) {
		c.Name, c.UID, c.CreationTimestamp = "old", "uid-old", metav1.NewTime(start.Add(-time.Hour))
	})
	deleted := metav1.NewTime(start)
	leaving := []metav1.Condition{{Type: v1alpha1.ConditionLeaving, Status: metav1.ConditionTrue}}
	const taken = "record \"\" quarry-a 1\nEnsureVolumeGroup quarry-a sda\n"
	const conflict = "DeviceConflict: no clean device: /dev/disk/by-id/sda: is also chosen by Cluster old, which is older\n"
	for name, c := range map[string]struct {
		edit   func(*v1alpha1.Cluster)
		member *v1alpha1.Member
		want   string
	}{
		"the older one wants the host":            {func(*v1alpha1.Cluster) {}, nil, conflict},
		"it is being deleted":                     {func(c *v1alpha1.Cluster) { c.DeletionTimestamp = &deleted }, nil, taken},
		"it is of another type":                   {func(c *v1alpha1.Cluster) { c.Spec.StorageType = v1alpha1.StorageTypeCephFS }, nil, taken},
		"it does not list the host":               {func(c *v1alpha1.Cluster) { c.Spec.Hosts = []v1alpha1.HostName{"n9"} }, nil, taken},
		"its selector chooses the host":           {selects("ssd"), nil, conflict},
		"its selector does not choose the host":   {selects("tape"), nil, taken},
		"its Member there is being deleted":       {func(*v1alpha1.Cluster) {}, memberOf(older, func(m *v1alpha1.Member) { m.DeletionTimestamp = &deleted }), taken},
		"its Member there leaves":                 {func(*v1alpha1.Cluster) {}, memberOf(older, func(m *v1alpha1.Member) { m.Status.Conditions = leaving }), taken},
		"its Member on another host leaves":       {func(*v1alpha1.Cluster) {}, memberOf(older, func(m *v1alpha1.Member) { m.Spec.Node, m.Status.Conditions = "n2", leaving }), conflict},
		"the Member of one of its name leaves":    {func(*v1alpha1.Cluster) {}, memberOf(older, func(m *v1alpha1.Member) { m.Spec.Of.UID, m.Status.Conditions = "gone", leaving }), conflict},
		"its Member retires the device":           {selects("tape"), memberOf(older, retires("/dev/disk/by-id/sda")), "NoCleanDevice: no clean device: /dev/disk/by-id/sda: is retired by Member old.n1, which lists it under spec.retire\n"},
		"its Member retires a device of its host": {selects("tape"), memberOf(older, retires("/dev/disk/by-id/sda"), func(m *v1alpha1.Member) { m.Spec.Node = "n2" }), taken},
	} {
		t.Run(name, func(t *testing.T) {
			rival := older.DeepCopy()
			c.edit(rival)
			w := backend.World{Nodes: map[string]backend.Node{"n1": {Name: "n1", Exists: true, Labels: map[string]string{"disk": "ssd"}}}}
			w.Others = []v1alpha1.Storage{&v1alpha1.Nfs{}, rival}
			if c.member != nil {
				w.OtherMembers = []*v1alpha1.Member{c.member}
			}
			if d := cmp.Diff(c.want, tell(scene{node: up("n1", nil, device("sda")), world: w}.decide())); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// TestDecide_recorded: a disk that is on record as that of a GlusterNode is not taken, and a step for it is known as one that takes it.
func TestDecide_recorded(t *testing.T) {
	n := v1alpha1.GlusterNode{ObjectMeta: metav1.ObjectMeta{Namespace: "gluster", Name: "g1"}}
	n.Spec.Devices = []v1alpha1.GlusterDevice{{Device: "/dev/disk/by-id/sda", Path: "/dev/disk/by-id/sda", Node: "n1", Serial: "Ssda"}}
	records := disk.RecordsOf([]v1alpha1.GlusterNode{n})
	s := scene{node: up("n1", nil, device("sda"), device("sdb"))}
	whole := s.decide()
	if len(whole.Steps) != 1 {
		t.Fatalf("%+v", whole.Steps)
	}
	if step, ok := whole.Steps[0].(Step); !ok || disk.TakesRecorded(step, records) != "/dev/disk/by-id/sda is on record as a device of GlusterNode gluster/g1" || disk.TakesRecorded(step, nil) != "" {
		t.Errorf("%+v", step)
	}
	s.world.Records = records
	if got := tell(s.decide()); !strings.Contains(got, "EnsureVolumeGroup quarry-a sdb\n") {
		t.Errorf("got:\n%s", got)
	}
	mine := Step{Node: "n1", Does: v1alpha1.ActionEnsureVolumeGroup, Owner: "u", Devices: []decide.Device{{Path: "/dev/disk/by-id/sda", OwnerUID: "u"}}}
	if why := disk.TakesRecorded(mine, records); why != "" {
		t.Errorf("a group is kept from what it has: %s", why)
	}
}

func selects(value string) func(*v1alpha1.Cluster) {
	return func(c *v1alpha1.Cluster) {
		c.Spec.Hosts, c.Spec.HostSelector = nil, &metav1.LabelSelector{MatchLabels: map[string]string{"disk": value}}
	}
}

func retires(path string) func(*v1alpha1.Member) {
	return func(m *v1alpha1.Member) { m.Spec.Retire = []v1alpha1.RetiredDevice{{Path: v1alpha1.DevicePath(path)}} }
}

func TestDecide_diskThatIsElsewhere(t *testing.T) {
	names := func(c *v1alpha1.Cluster) {
		c.Spec.Devices = &v1alpha1.DeviceSelector{Paths: []v1alpha1.DevicePath{"/dev/disk/by-id/sda", "/dev/disk/by-id/far"}}
	}
	labels := map[string]string{"disk": "ssd"}
	world := backend.World{Nodes: map[string]backend.Node{
		"n1": {Name: "n1", Exists: true, Labels: labels}, "n2": {Name: "n2", Exists: true, Labels: labels}, "n3": {Name: "n3", Exists: true},
	}}
	for name, c := range map[string]struct {
		cluster *v1alpha1.Cluster
		nodes   map[string]decide.Node
		missed  bool
	}{
		"it is on no host":                     {clusterOf(names), map[string]decide.Node{"n2": up("n2", nil)}, true},
		"it is on another host":                {clusterOf(names), map[string]decide.Node{"n2": up("n2", nil, device("far"))}, false},
		"another host does not answer":         {clusterOf(names), map[string]decide.Node{"n2": away()}, false},
		"another host was not asked":           {clusterOf(names), nil, false},
		"it is on a host that is not used":     {clusterOf(names), map[string]decide.Node{"n2": up("n2", nil), "n3": up("n3", nil, device("far"))}, true},
		"it is on a selected host":             {clusterOf(names, selects("ssd")), map[string]decide.Node{"n2": up("n2", nil, device("far"))}, false},
		"it is on a host that is not selected": {clusterOf(names, selects("ssd")), map[string]decide.Node{"n2": up("n2", nil), "n3": up("n3", nil, device("far"))}, true},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := map[string]decide.Node{"n1": up("n1", nil, device("sda"))}
			for n, v := range c.nodes {
				nodes[n] = v
			}
			got := NewView(Observation{Cluster: c.cluster, World: world, Nodes: nodes}).Decide(backend.Member{Node: "n1"}).Finding
			if strings.Contains(got.Message, "far: no such device") != c.missed {
				t.Errorf("%+v", got)
			}
		})
	}
}
