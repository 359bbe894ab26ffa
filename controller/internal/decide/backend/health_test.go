package health

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/device"
	"quarry.storage/quarry/controller/internal/decide/host"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const gib = 1 << 30

// hostOf returns a host that holds a group of 10 GiB with 4 GiB free.
func hostOf(name string, edits ...func(*Host)) Host {
	h := Host{
		Name: name, Member: v1alpha1.ClusterMember{Node: name, State: "online", Flags: v1alpha1.MemberFlags{IsUp: true}},
		Node: decide.Node{Name: name, Agent: decide.AgentUp}, Recorded: []string{"/dev/disk/by-id/" + name},
		Groups: []decide.Group{{Name: "g", SizeBytes: 10 * gib, FreeBytes: 4 * gib, PVs: []decide.PV{{Path: "/dev/disk/by-id/" + name}}}},
	}
	for _, e := range edits {
		e(&h)
	}
	return h
}

func down(h *Host) {
	h.Node.Agent, h.Node.Problem = decide.AgentUnreachable, "the agent does not answer: connection refused"
	h.Member.State, h.Member.Flags = "offline", v1alpha1.MemberFlags{HasData: true}
}

// bare takes away what the host holds.
func bare(h *Host) { h.Groups, h.Recorded = nil, nil }

func refuses(h *Host) {
	bare(h)
	h.Choice.Refused = []device.Refused{
		{Path: "/dev/sda", Reason: v1alpha1.ReasonDeviceRefused, Message: "mounted (Mounted)"},
		{Path: "/dev/sdb", Reason: v1alpha1.ReasonDeviceRefused, Message: "ext4 (Filesystem)"},
	}
}

func preparing(h *Host) { bare(h); h.Steps = 1 }

func held(h *Host) { h.Steps, h.Held = 2, true }

func leaves(waits string) func(*Host) {
	return func(h *Host) {
		h.Member.State, h.Waits = "failed", waits
		h.Member.Flags.ShouldDestroy = true
	}
}

func broken(h *Host) {
	h.Steps, h.Failure, h.FailureReason = 1, "no room for metadata", v1alpha1.ReasonStepFailed
}

func TestCluster(t *testing.T) {
	exists, plan := Class{Exists: true}, &v1alpha1.Plan{Digest: "d1", Steps: make([]v1alpha1.PlanStep, 2)}
	for name, c := range map[string]struct {
		in   Cluster
		want string
	}{
		"all is well": {Cluster{Hosts: []Host{hostOf("n1")}, Class: exists}, "Running Ready"},
		"the first disks are prepared": {
			Cluster{Hosts: []Host{hostOf("n1", preparing)}}, "Creating DisksPreparing | n1: its disks are being prepared",
		},
		"a further host is prepared": {
			Cluster{Hosts: []Host{hostOf("n1"), hostOf("n2", preparing)}, Class: exists},
			"Updating DisksPreparing | n2: its disks are being prepared",
		},
		"one host without a clean disk is a warning": {
			Cluster{Hosts: []Host{hostOf("n1"), hostOf("n2", refuses)}, Class: exists},
			"Warning NoCleanDevice | n2: no clean device: /dev/sda: mounted (Mounted); /dev/sdb: ext4 (Filesystem)",
		},
		"no host with a clean disk fails": {
			Cluster{Hosts: []Host{hostOf("n2", refuses)}},
			"Failed NoCleanDevice | n2: no clean device: /dev/sda: mounted (Mounted); /dev/sdb: ext4 (Filesystem)",
		},
		"one bad host does not fail what is being created": {
			Cluster{Hosts: []Host{hostOf("n1", preparing), hostOf("n2", refuses)}},
			"Creating NoCleanDevice | n1: its disks are being prepared | n2: no clean device: /dev/sda: mounted (Mounted); /dev/sdb: ext4 (Filesystem)",
		},
		"a host that is down is a warning": {
			Cluster{Hosts: []Host{hostOf("n1"), hostOf("n2", down)}, Class: exists},
			"Warning AgentUnreachable | n2: the agent does not answer: connection refused",
		},
		"all hosts down are a warning, for they hold the data": {
			Cluster{Hosts: []Host{hostOf("n2", down)}, Class: exists},
			"Warning AgentUnreachable | n2: the agent does not answer: connection refused",
		},
		"a host without an agent": {
			Cluster{Hosts: []Host{hostOf("n1", bare, func(h *Host) { h.Node = decide.Node{} })}},
			"Failed AgentMissing | n1: no agent runs on this node",
		},
		"a host under maintenance may be down": {
			Cluster{Hosts: []Host{hostOf("n1"), hostOf("n2", down, func(h *Host) { h.Member.State = "quiesced" })}, Class: exists},
			"Running Ready | n2: is under maintenance and not reachable",
		},
		"too early to say": {
			Cluster{Hosts: []Host{hostOf("n1", func(h *Host) { h.Node.Agent = decide.AgentConnecting })}, Class: exists}, "Running Ready",
		},
		"an unknown host": {
			Cluster{Hosts: []Host{hostOf("n1"), hostOf("nx", bare, func(h *Host) {
				h.Invalid = &host.Invalid{Reason: v1alpha1.ReasonHostNotFound, Message: "no such node"}
			})}, Class: exists}, "Warning HostNotFound | nx: no such node",
		},
		"a step that failed": {
			Cluster{Hosts: []Host{hostOf("n1", broken)}, Class: exists}, "Warning StepFailed | n1: no room for metadata",
		},
		"a missing disk": {
			Cluster{Hosts: []Host{hostOf("n1", func(h *Host) { h.Groups[0].Partial = true })}, Class: exists},
			"Warning VolumeGroupPartial | n1: a disk of volume group g is missing; nothing is changed on it until the disk is back",
		},
		"a conflict of names": {
			Cluster{Hosts: []Host{hostOf("n1")}, Class: Class{Conflict: "The name is taken."}}, "Failed NameConflict | The name is taken.",
		},
		"the first plan waits": {
			Cluster{Name: "c", Hosts: []Host{hostOf("n1", bare, held)}, Plan: plan},
			"Creating ApprovalRequired | 2 steps wait for approval, see status.plan. To approve: kubectl annotate --overwrite " +
				"clusters.quarry.storage c quarry.storage/approve=d1 | n1: changes of its disks wait for approval",
		},
		"a later plan waits": {
			Cluster{Name: "c", Hosts: []Host{hostOf("n1", held)}, Plan: plan, Class: exists},
			"Warning ApprovalRequired | 2 steps wait for approval, see status.plan. To approve: kubectl annotate --overwrite " +
				"clusters.quarry.storage c quarry.storage/approve=d1 | n1: changes of its disks wait for approval",
		},
		"a host that leaves waits for its volumes": {
			Cluster{Hosts: []Host{hostOf("n1"), hostOf("n2", leaves("waits for v1"))}, Class: exists}, "Warning VolumesExist | n2: waits for v1",
		},
		"a deletion that volumes hold up": {
			Cluster{Deleting: true, Hosts: []Host{hostOf("n1", leaves("waits for v1"))}, Blocked: "Volumes exist."},
			"Deleting Deleting | Volumes exist. | n1: waits for v1",
		},
		"a deletion that goes on": {
			Cluster{Deleting: true, Hosts: []Host{hostOf("n1", leaves(""))}}, "Deleting Deleting | n1: is being removed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.in.Driver = Driver{Exists: true, Ready: true}
			conditions := c.in.Conditions()
			ready := conditions[len(conditions)-1]
			if ready.Type != v1alpha1.ConditionReady || len(conditions) != 6 {
				t.Fatalf("conditions: %+v", conditions)
			}
			got := fmt.Sprintf("%s %s", c.in.Phase(), ready.Reason)
			if m := c.in.Message(); m != "" {
				got += " | " + strings.ReplaceAll(m, "\n", " | ")
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			if (ready.Status == metav1.ConditionTrue) != (c.in.Phase() == v1alpha1.PhaseRunning) {
				t.Errorf("Ready is %s in phase %s", ready.Status, c.in.Phase())
			}
			for _, x := range conditions {
				if x.Reason == "" || x.Message == "" || len(x.Message) > 32768 {
					t.Errorf("condition lacks a reason or a message: %+v", x)
				}
			}
		})
	}
}

func TestCapacity_sumsTheHostsThatReport(t *testing.T) {
	last := &v1alpha1.Instance{Host: "n2", Stat: true, Info: space(20*gib, 5*gib)}
	c := Cluster{Hosts: []Host{
		hostOf("n1"), hostOf("n2", down, func(h *Host) { h.Last = last }), hostOf("n3", refuses), hostOf("n4"),
		hostOf("n5", func(h *Host) { h.Removed = true }),
	}}
	got := c.Capacity()
	if s := fmt.Sprintf("%s %s %s", got.Total.Total, got.Total.Used, got.Total.Free); s != "20Gi 12Gi 8Gi" {
		t.Errorf("total %s", s)
	}
	var lines []string
	for _, i := range got.Instances {
		lines = append(lines, fmt.Sprintf("%s %t %v %s", i.Host, i.Stat, i.Info.Total, i.Dev))
	}
	want := []string{
		"n1 true 10Gi /dev/disk/by-id/n1", "n2 false 20Gi /dev/disk/by-id/n2", "n3 false <nil> ", "n4 true 10Gi /dev/disk/by-id/n4",
	}
	if d := cmp.Diff(want, lines); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestConfig_keepsWhatCannotBeSeen(t *testing.T) {
	more := func(h *Host) { h.Recorded = append(h.Recorded, "/dev/disk/by-id/lost") }
	c := Cluster{Hosts: []Host{
		hostOf("n1", more),
		hostOf("n2", more, down),
		hostOf("n3", more, func(h *Host) { h.Groups[0].Partial = true }),
		hostOf("n4", more, leaves("")),
		hostOf("n5", refuses),
	}}
	want := []v1alpha1.HostDevices{
		{NodeName: "n1", BlockDevices: []string{"/dev/disk/by-id/n1"}},
		{NodeName: "n2", BlockDevices: []string{"/dev/disk/by-id/lost", "/dev/disk/by-id/n2"}},
		{NodeName: "n3", BlockDevices: []string{"/dev/disk/by-id/lost", "/dev/disk/by-id/n3"}},
		{NodeName: "n4", BlockDevices: []string{"/dev/disk/by-id/lost", "/dev/disk/by-id/n4"}},
	}
	if d := cmp.Diff(want, c.Config()); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestUnsupported(t *testing.T) {
	c := Unsupported(v1alpha1.StorageTypeCephFS)
	if len(c) != 1 || c[0].Reason != v1alpha1.ReasonNotYetSupported || c[0].Status != metav1.ConditionFalse {
		t.Errorf("%+v", c)
	}
}

func TestText_isBounded(t *testing.T) {
	lines := make([]string, 500)
	for i := range lines {
		lines[i] = strings.Repeat("ä", 300)
	}
	if s := text(lines); len(s) > 17<<10 || !strings.HasSuffix(s, "…") {
		t.Errorf("%d bytes", len(s))
	}
	if s := text(lines[:1]); s != lines[0] {
		t.Error("a short message was changed")
	}
}

func TestFailureReason(t *testing.T) {
	for _, c := range []struct {
		action string
		kind   decide.FaultKind
		want   string
	}{
		{v1alpha1.ActionEnsureVolumeGroup, decide.FaultConflict, v1alpha1.ReasonVolumeGroupConflict},
		{v1alpha1.ActionEnsureVolumeGroup, decide.FaultPrecondition, v1alpha1.ReasonDeviceRefused},
		{v1alpha1.ActionRemoveVolumeGroup, decide.FaultPrecondition, v1alpha1.ReasonVolumesExist},
		{v1alpha1.ActionEnsureVolumeGroup, decide.FaultNotFound, v1alpha1.ReasonDeviceNotFound},
		{v1alpha1.ActionEnsureVolumeGroup, decide.FaultUnavailable, v1alpha1.ReasonAgentUnreachable},
		{v1alpha1.ActionWipeDevice, decide.FaultInternal, v1alpha1.ReasonStepFailed},
	} {
		if got := FailureReason(c.action, c.kind); got != c.want {
			t.Errorf("%s, %d: %s, want %s", c.action, c.kind, got, c.want)
		}
	}
}
