package backend

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

const gib = 1 << 30

// words of a backend that takes disks.
var words = Readiness{Preparing: "its disks are being prepared", Unapproved: "changes of its disks wait for approval"}

// hostOf returns a host that serves 10 GiB with 4 GiB free.
func hostOf(name string, edits ...func(*HostHealth)) HostHealth {
	h := HostHealth{
		Node: name, Words: words, Object: &v1alpha1.Member{}, Flags: nodestate.Of(true, false, false, false), State: nodestate.Online, Facts: Facts{Up: true},
		Decided: Host{Serves: true, Reports: true, Size: 10 * gib, Free: 4 * gib},
	}
	for _, e := range edits {
		e(&h)
	}
	return h
}

func down(h *HostHealth) {
	h.Facts = Facts{Reason: v1alpha1.ReasonAgentUnreachable, Problem: "the agent does not answer: connection refused"}
	h.Flags, h.State = nodestate.Of(false, true, false, false), nodestate.Offline
	h.Decided.Reports, h.Decided.Size, h.Decided.Free = false, 0, 0
}

// was returns an edit that makes the Member not ready for a reason, as it was written in the pass before.
func was(reason string) func(*HostHealth) {
	return func(h *HostHealth) {
		h.Object = h.Object.DeepCopy()
		h.Object.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: "it was " + reason,
		}}
	}
}

// bare takes away what the host holds.
func bare(h *HostHealth) { h.Decided = Host{Reports: h.Facts.Up} }

// finds returns an edit with a finding of the backend.
func finds(reason, message string) func(*HostHealth) {
	return func(h *HostHealth) { h.Decided.Finding = Finding{Bad, reason, message} }
}

func refuses(h *HostHealth) {
	bare(h)
	finds(v1alpha1.ReasonNoCleanDevice, "no clean device")(h)
}

// works gives the host steps that run.
func works(h *HostHealth) {
	h.Decided.Steps = []Step{take("a")}
	h.Verdict = Verdict{Run: h.Decided.Steps}
}

func preparing(h *HostHealth) { bare(h); works(h) }

// held gives the host steps that wait for approval.
func held(h *HostHealth) {
	h.Decided.Steps = []Step{wipe("a"), take("a")}
	h.Verdict = Verdict{Plan: &v1alpha1.Plan{Digest: "h"}}
}

// goes makes the host one that is being removed and holds volumes.
func goes(holding ...string) func(*HostHealth) {
	return func(h *HostHealth) {
		h.Flags, h.State, h.Holding = nodestate.Of(h.Facts.Up, len(holding) > 0, false, true), nodestate.Failed, holding
	}
}

// forgotten is of a backend that moves data.
func forgotten(h *HostHealth) { h.Words.Forgets = "Ceph has forgotten" }

func broken(h *HostHealth) {
	works(h)
	h.Failure, h.FailureReason = "no room for metadata", v1alpha1.ReasonStepFailed
}

func quiesced(h *HostHealth) {
	h.State, h.Sources = nodestate.Quiesced, []v1alpha1.MaintenanceSource{v1alpha1.KindCluster}
}

func leaves(h *HostHealth) {
	h.Leaving = Leaving{Active: true, Reason: v1alpha1.ReasonHostNotListed, Message: "Not listed."}
	h.State = nodestate.Quiesced
}

func invalid(h *HostHealth) { h.Invalid = &Invalid{v1alpha1.ReasonHostNotFound, "no such node"} }

func early(h *HostHealth) {
	h.Facts = Facts{TooEarly: true}
	h.Object.Status.Message = "as before"
	h.Object.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
}

// unwritten takes away what the status of a Member says, as a restore from a backup may.
func unwritten(h *HostHealth) { h.Object.Status = v1alpha1.MemberStatus{} }

// summaryOf returns the summary of a storage with members.
func summaryOf(hosts ...HostHealth) Summary {
	s := Summary{
		Profile: Profile{Type: v1alpha1.StorageTypeLVM, Members: &Readiness{
			Condition: v1alpha1.ConditionDisksReady, Reason: v1alpha1.ReasonDisksReady, Message: "Every host holds its part.", None: "No host holds any yet.",
		}},
		Owner: Owner{Kind: "Cluster", Name: "c"}, Hosts: hosts, Driver: DriverState{Exists: true, Ready: true}, Whole: Whole{Pending: "Not yet."},
	}
	for _, h := range hosts {
		s.Whole.Serves = s.Whole.Serves || h.Decided.Serves && !h.Flags.ShouldDestroy()
	}
	return s
}

func TestSummary(t *testing.T) {
	exists, plan := Class{Exists: true}, &v1alpha1.Plan{Digest: "d1", Count: 2, Steps: make([]v1alpha1.PlanStep, 2)}
	const approve = "2 steps wait for approval, see status.plan. To approve: kubectl annotate --overwrite cluster.quarry.storage c quarry.storage/approve=d1"
	with := func(s Summary, edit func(*Summary)) Summary { edit(&s); return s }
	classed := func(hosts ...HostHealth) Summary {
		return with(summaryOf(hosts...), func(s *Summary) { s.Class = exists })
	}
	for name, c := range map[string]struct {
		in   Summary
		want string
	}{
		"all is well":                    {classed(hostOf("n1")), "Running Ready"},
		"the first disks are prepared":   {summaryOf(hostOf("n1", preparing)), "Creating Preparing | n1: its disks are being prepared"},
		"no host at all":                 {summaryOf(), "Creating Pending"},
		"nothing to do and nothing held": {summaryOf(hostOf("n1", bare)), "Creating Pending"},
		"a further host is prepared":     {classed(hostOf("n1"), hostOf("n2", preparing)), "Updating Preparing | n2: its disks are being prepared"},
		"one host without a clean disk is a warning": {
			classed(hostOf("n1"), hostOf("n2", refuses)), "Warning NoCleanDevice | n2: no clean device",
		},
		"no host with a clean disk fails": {summaryOf(hostOf("n2", refuses)), "Failed NoCleanDevice | n2: no clean device"},
		"one bad host does not fail what is being created": {
			summaryOf(hostOf("n1", preparing), hostOf("n2", refuses)),
			"Creating NoCleanDevice | n2: no clean device | n1: its disks are being prepared",
		},
		"a host that is down is a warning": {
			classed(hostOf("n1"), hostOf("n2", down)), "Warning AgentUnreachable | n2: the agent does not answer: connection refused",
		},
		"all hosts down are a warning, for they hold the data": {
			classed(hostOf("n2", down)), "Warning AgentUnreachable | n2: the agent does not answer: connection refused",
		},
		"a host without an agent": {
			summaryOf(hostOf("n1", bare, func(h *HostHealth) {
				h.Facts = Facts{Missing: true, Reason: v1alpha1.ReasonAgentMissing, Problem: "no agent runs on this node"}
			})), "Failed AgentMissing | n1: no agent runs on this node",
		},
		"a host of which nothing is known": {
			summaryOf(hostOf("n1", bare, func(h *HostHealth) { h.Facts = Facts{} })), "Failed AgentUnreachable | n1: the agent does not answer",
		},
		"a host under maintenance may be down": {
			classed(hostOf("n1"), hostOf("n2", down, quiesced)), "Running Ready | n2: is under maintenance and not reachable",
		},
		"too early to say": {classed(hostOf("n1", early)), "Running Ready | n1: as before"},
		"too early to say of a host that was not ready": {classed(hostOf("n1", early, was(v1alpha1.ReasonVolumeLost))), "Warning VolumeLost | n1: it was VolumeLost"},
		"too early to say of a host that was away":      {classed(hostOf("n1", early, was(v1alpha1.ReasonAgentMissing))), "Warning AgentMissing | n1: it was AgentMissing"},
		"too early to say of a host that was at work":   {classed(hostOf("n1", early, was(v1alpha1.ReasonPreparing))), "Updating Preparing | n1: it was Preparing"},
		"a host under maintenance that was leaving": {
			classed(hostOf("n1"), hostOf("n2", down, quiesced, was(v1alpha1.ReasonDeleting))), "Running Ready | n2: is under maintenance and not reachable",
		},
		"a host under maintenance whose node was gone": {
			classed(hostOf("n1"), hostOf("n2", down, quiesced, was(v1alpha1.ReasonHostNotFound))), "Running Ready | n2: is under maintenance and not reachable",
		},
		"too early to say after maintenance":          {classed(hostOf("n1", early, was(v1alpha1.ReasonMaintenance))), "Updating Pending | n1: the connection to the agent is being made"},
		"too early to say of a host without a status": {classed(hostOf("n1", early, unwritten)), "Updating Pending | n1: the connection to the agent is being made"},
		"too early to say of a host without a Member": {
			classed(hostOf("n1", early, func(h *HostHealth) { h.Object = nil })), "Updating Pending | n1: the connection to the agent is being made",
		},
		"a host under maintenance that lacked a volume": {
			classed(hostOf("n1"), hostOf("n2", down, quiesced, was(v1alpha1.ReasonVolumeLost))), "Warning VolumeLost | n2: it was VolumeLost",
		},
		"a host under maintenance that was away": {
			classed(hostOf("n1"), hostOf("n2", down, quiesced, was(v1alpha1.ReasonAgentUnreachable))), "Running Ready | n2: is under maintenance and not reachable",
		},
		"too early to say of a new host": {summaryOf(hostOf("n1", bare, early)), "Creating Pending | n1: the connection to the agent is being made"},
		"an unknown host":                {classed(hostOf("n1"), hostOf("nx", bare, invalid)), "Warning HostNotFound | nx: no such node"},
		"a step that failed":             {classed(hostOf("n1", broken)), "Warning StepFailed | n1: no room for metadata"},
		"what the backend finds":         {classed(hostOf("n1", finds(v1alpha1.ReasonPartial, "a disk is missing"))), "Warning VolumeGroupPartial | n1: a disk is missing"},
		"a conflict of names": {
			with(summaryOf(hostOf("n1")), func(s *Summary) { s.Class.Conflict = "The name is taken." }), "Failed NameConflict | The name is taken.",
		},
		"the first plan waits": {
			with(summaryOf(hostOf("n1", bare, held)), func(s *Summary) { s.Plan = plan }),
			"Creating ApprovalRequired | " + approve + " | n1: changes of its disks wait for approval",
		},
		"a later plan waits": {
			with(classed(hostOf("n1", held)), func(s *Summary) { s.Plan = plan }),
			"Warning ApprovalRequired | " + approve + " | n1: changes of its disks wait for approval",
		},
		"an approved plan is carried out": {
			with(classed(hostOf("n1", works)), func(s *Summary) { s.Plan = &v1alpha1.Plan{Digest: "d1", Approved: true} }),
			"Updating Preparing | n1: its disks are being prepared",
		},
		"a host that the storage holds back": {
			classed(hostOf("n1", works, func(h *HostHealth) { h.Held = "waits for n2" })), "Updating Pending | n1: waits for n2",
		},
		"a host that is being removed waits for its volumes": {
			classed(hostOf("n1"), hostOf("n2", goes("v1", "v2"))),
			"Warning VolumesExist | n2: is being removed and waits until its volumes are deleted: v1, v2",
		},
		"a lost host whose data are moved waits for those who still know it": {
			classed(hostOf("n1"), hostOf("n2", goes("monitor a", "osd.3"), forgotten)),
			"Warning Draining | n2: is being removed and stays until Ceph has forgotten what it had: monitor a, osd.3. No volume has to be deleted",
		},
		"the same, and the backend says why it does not go on": {
			classed(hostOf("n1"), hostOf("n2", goes("osd.3"), forgotten, finds(v1alpha1.ReasonOSDWaiting, "is being emptied: no room"))),
			"Warning OSDWaiting | n2: is being removed and stays until Ceph has forgotten what it had: osd.3. No volume has to be deleted. It is being emptied: no room",
		},
		"a host that is being removed waits for its agent": {
			classed(hostOf("n1"), hostOf("n2", down, goes())),
			"Warning AgentUnreachable | n2: is being removed and waits for its agent: the agent does not answer: connection refused",
		},
		"a host that is being removed, and may have been used before": {
			classed(hostOf("n1"), hostOf("n2", down, goes(), func(h *HostHealth) {
				h.Object = &v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationUnreported: "true"}}}
			})),
			"Warning AgentUnreachable | n2: is being removed and waits for its agent: the agent does not answer: connection refused. " +
				"The node may have been used before this Member was made, and its agent has not reported since. " +
				"If the node is gone for ever, delete its Node, or declare the Member lost",
		},
		"a removal that failed": {
			classed(hostOf("n1"), hostOf("n2", broken, goes())), "Warning StepFailed | n2: no room for metadata",
		},
		"a removal that waits for approval": {
			classed(hostOf("n1"), hostOf("n2", held, goes())), "Warning ApprovalRequired | n2: its removal waits for approval",
		},
		"a removal that the backend cannot carry out": {
			classed(hostOf("n1"), hostOf("n2", goes(), finds(v1alpha1.ReasonStepFailed, "LVM cannot be run"))), "Warning StepFailed | n2: LVM cannot be run",
		},
		"a removed host that is listed again": {
			classed(hostOf("n1"), hostOf("n2", goes(), func(h *HostHealth) { h.WantedAgain = true })),
			"Updating Preparing | n2: is being removed; as the spec lists it again, it is used afresh afterwards",
		},
		"a host that is gone is not shown": {
			classed(hostOf("n1"), hostOf("n2", bare, down, goes(), func(h *HostHealth) { h.Removed = true })), "Running Ready",
		},
		"a host that leaves": {classed(hostOf("n1"), hostOf("n2", leaves)), "Running Ready | n2: Not listed."},
		"a host that leaves, of which the backend finds something": {
			classed(hostOf("n1"), hostOf("n2", leaves, finds(v1alpha1.ReasonPartial, "a disk is missing"))),
			"Warning VolumeGroupPartial | n2: a disk is missing",
		},
		"a host that leaves and may not be used": {classed(hostOf("n1"), hostOf("n2", leaves, invalid)), "Running Ready | n2: Not listed."},
		"a deletion that volumes hold up": {
			with(summaryOf(hostOf("n1", goes("v1"))), func(s *Summary) { s.Deleting, s.Blocked = true, "Volumes exist." }),
			"Deleting Deleting | Volumes exist. | n1: is being removed and waits until its volumes are deleted: v1",
		},
		"a deletion that goes on": {
			with(summaryOf(hostOf("n1", goes())), func(s *Summary) { s.Deleting = true }), "Deleting Deleting | n1: is being removed",
		},
	} {
		t.Run(name, func(t *testing.T) {
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
