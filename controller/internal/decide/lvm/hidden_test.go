package lvm

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// unread is a device that is refused because it cannot be read, and for other reasons.
func unread(name string, also ...string) decide.Device {
	d := device(name)
	d.Digest = ""
	for _, reason := range append([]string{v1alpha1.RefusalUnreadable}, also...) {
		d.Refusals = append(d.Refusals, v1alpha1.Refusal{Reason: reason})
	}
	return d
}

// onDisk returns an edit that lets the status list a disk.
func onDisk(name string) func(*v1alpha1.Member) {
	return func(m *v1alpha1.Member) {
		m.Status.Devices = append(m.Status.Devices, v1alpha1.MemberDevice{Path: "/dev/disk/by-id/" + name, Identity: "S" + name})
	}
}

// TestHidden: the recorded group is not seen. Whether that means that it is not there decides whether the host holds data, whether the
// removal goes on, and whether the word counts that the host is lost.
func TestHidden(t *testing.T) {
	const goes, held, failed = "", "VolumeGroupUnknown", "StepFailed"
	broken, connecting, elsewhere := up("n1", nil, unread("sda")), decide.Node{Agent: decide.AgentConnecting}, dirty("sda")
	broken.LVMError = "it could not report the volume groups: exit status 5"
	elsewhere.Path, elsewhere.KernelName = "/dev/disk/by-id/other", "sdx"
	locked := up("n1", nil, unread("sda"))
	locked.Unknown = []decide.UnknownGroup{{Name: "quarry-a", UUID: "A", OwnerUID: "uid", Devices: []string{"/dev/disk/by-id/sda"}, Reason: "locked"}}
	damaged := up("n1", nil, unread("sdb"))
	damaged.Unknown = []decide.UnknownGroup{{Devices: []string{"/dev/disk/by-id/sdb"}, Reason: "damaged"}}
	unlisted, taken, untagged := dirty("sda"), dirty("sda"), dirty("sda")
	unlisted.VolumeGroup, unlisted.OwnerUID = "quarry-a", "uid"
	taken.VolumeGroup, taken.OwnerUID = "quarry-b", "uid-b"
	untagged.VolumeGroup = "quarry-a"
	settling := device("sda")
	settling.Refusals = []v1alpha1.Refusal{{Reason: v1alpha1.RefusalSettling}}
	second := decide.Group{Name: "quarry-b", UUID: "B", OwnerUID: "uid-b", PVs: []decide.PV{{Path: taken.Path}}}
	for name, c := range map[string]struct {
		node  decide.Node
		want  string
		sure  bool
		finds string
	}{
		"nothing is left":                         {node: up("n1", nil), want: goes, sure: true},
		"its disk is clean":                       {node: up("n1", nil, device("sda")), want: goes, sure: true},
		"its disk was released a moment ago":      {node: up("n1", nil, settling), want: goes, sure: true},
		"another disk carries a filesystem":       {node: up("n1", nil, dirty("sdb")), want: goes, sure: true},
		"another Cluster has taken its disk":      {node: up("n1", []decide.Group{second}, taken), want: goes, sure: true},
		"a loop device is not read":               {node: up("n1", nil, unread("loop0", v1alpha1.RefusalVirtual)), want: goes, sure: true},
		"a partition is not read":                 {node: up("n1", nil, unread("sda1", v1alpha1.RefusalPartition)), want: goes, sure: true},
		"a stick is not read":                     {node: up("n1", nil, unread("sds", v1alpha1.RefusalRemovable)), want: goes, sure: true},
		"LVM could not report":                    {node: broken, want: failed, finds: "exit status 5"},
		"LVM cannot report it":                    {node: locked, want: held, finds: "volume group quarry-a on /dev/disk/by-id/sda (locked)"},
		"nobody can tell whose a group is":        {node: damaged, want: held, finds: "cannot be read on /dev/disk/by-id/sdb (damaged)"},
		"its disk does not answer":                {node: up("n1", nil, unread("sda")), want: held, finds: "/dev/disk/by-id/sda"},
		"a disk does not answer":                  {node: up("n1", nil, unread("sdb")), want: held, finds: "/dev/disk/by-id/sdb"},
		"a clone of its disk is there":            {node: up("n1", nil, unread("sda", v1alpha1.RefusalLVM), unread("sdb", v1alpha1.RefusalLVM)), want: held, finds: "sdb"},
		"its disk names a group that is not told": {node: up("n1", nil, unlisted), want: held, finds: "only a part"},
		"its disk is in a group without our tag":  {node: up("n1", nil, untagged), want: held, sure: true, finds: "may be on /dev/disk/by-id/sda"},
		"its disk carries something else":         {node: up("n1", nil, dirty("sda")), want: held, sure: true, finds: "clean or taken out"},
		"so it does under another name":           {node: up("n1", nil, elsewhere), want: held, sure: true, finds: "by-id/other"},
	} {
		t.Run(name, func(t *testing.T) {
			leaving := memberOf(clusterOf(), records("A"), onDisk("sda"), func(m *v1alpha1.Member) { m.DeletionTimestamp = new(metav1.NewTime(start)) })
			s := scene{node: c.node, object: leaving, edit: removed}
			f, got := s.view().Facts("n1"), s.decide()
			if absent := f.Data == nodestate.DataAbsent; absent != (c.want == goes) || f.Unsure == c.sure {
				t.Errorf("data %v, unsure %t", f.Data, f.Unsure)
			}
			if got.Finding.Reason != c.want || !strings.Contains(got.Finding.Message, c.finds) || len(got.Steps) > 0 {
				t.Errorf("%+v", got)
			}
			s.object = memberOf(clusterOf(), records("A"), onDisk("sda"), lostMember)
			if told := s.decide().Finding; (told.Reason == v1alpha1.ReasonLost) == c.sure {
				t.Errorf("about the word: %+v", told)
			}
			if Gone(c.node, leaving.Spec.Group) != c.sure {
				t.Errorf("gone: %t", !c.sure)
			}
		})
	}
	recorded := &v1alpha1.MemberGroup{UUID: "A"}
	for name, c := range map[string]struct {
		node decide.Node
		gone bool
	}{
		"it is reported": {up("n1", []decide.Group{groupOf("A")}), false},
		"a disk may hide it, and no device is told": {
			func() decide.Node {
				n := up("n1", []decide.Group{groupOf("B")})
				n.Devices, n.Hiding = nil, []string{"/dev/x"}
				return n
			}(), false,
		},
		"another is reported":    {up("n1", []decide.Group{groupOf("B")}), true},
		"the agent connects":     {connecting, false},
		"the agent is silent":    {away(groupOf("A")), true},
		"no agent runs there":    {decide.Node{}, true},
		"silent since a failure": {decide.Node{Agent: decide.AgentUnreachable, LVMError: "x"}, true},
	} {
		if Gone(c.node, recorded) != c.gone {
			t.Errorf("%s: %t", name, !c.gone)
		}
	}
}

// TestHidden_onlyWhatIsRecorded: without a record nothing is looked for, and a group that was given up is not either.
func TestHidden_onlyWhatIsRecorded(t *testing.T) {
	node := up("n1", nil, unread("sda"))
	givenUp := clusterOf(func(c *v1alpha1.Cluster) { c.Status.LostGroups = []string{"A"} })
	for name, s := range map[string]scene{
		"no record":          {node: node, object: memberOf(clusterOf())},
		"a record of PVs":    {node: node, object: memberOf(clusterOf(), records("", "pv"))},
		"a group given up":   {node: node, cluster: givenUp, object: memberOf(givenUp, records("A"))},
		"the group is there": {node: up("n1", []decide.Group{groupOf("A", "sda")}, unread("sdb")), object: memberOf(clusterOf(), records("A"))},
	} {
		if f := s.view().host(backend.Member{Node: "n1", Object: s.object}).hidden(); !f.IsZero() {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
