package ceph

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/ceph/view"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// TestCount_opened: a pod has its disk open once the container that opens it ended, and until the pod ends. It counts once its daemon ended as well.
func TestCount_opened(t *testing.T) {
	now := metav1.Now()
	for name, tt := range map[string]struct {
		status  corev1.ConditionStatus
		restart int32
		ends    *metav1.Time
		want    bool
	}{
		"it opens the disk":      {corev1.ConditionFalse, 0, nil, false},
		"the daemon begins":      {corev1.ConditionTrue, 0, nil, false},
		"the daemon ended in it": {corev1.ConditionTrue, 1, nil, true},
		"it ends":                {corev1.ConditionTrue, 1, &now, false},
	} {
		w := &view.Workloads{OSDPods: map[string]bool{}, Opened: map[string]bool{}, Pods: map[string][]string{}, Stuck: map[string][]string{}}
		count(w, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: tt.ends, Labels: map[string]string{cephname.LabelDaemon: cephname.DaemonOSD}, Annotations: map[string]string{cephname.AnnotationOSD: "u", cephname.AnnotationNode: "n1"}},
			Status: corev1.PodStatus{
				Conditions:        []corev1.PodCondition{{Type: corev1.PodReady}, {Type: corev1.PodInitialized, Status: tt.status}},
				ContainerStatuses: []corev1.ContainerStatus{{Name: "osd", RestartCount: tt.restart}},
			},
		})
		if w.Opened["u"] != tt.want || !w.OSDPods["u"] || !slices.Equal(w.Pods[cephname.DaemonOSD], []string{"n1"}) {
			t.Errorf("%s: %+v", name, w)
		}
	}
}

// TestAway: since when no pod of a Deployment is ready is what its controller says, and since it was made as long as nobody says anything.
func TestAway(t *testing.T) {
	made, since := time.Unix(1e9, 0), time.Unix(2e9, 0)
	says := func(kind appsv1.DeploymentConditionType, status corev1.ConditionStatus) appsv1.DeploymentCondition {
		return appsv1.DeploymentCondition{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(since)}
	}
	for name, tt := range map[string]struct {
		conditions []appsv1.DeploymentCondition
		ready      int32
		want       time.Time
	}{
		"it runs":         {[]appsv1.DeploymentCondition{says(appsv1.DeploymentProgressing, corev1.ConditionFalse), says(appsv1.DeploymentAvailable, corev1.ConditionTrue)}, 1, time.Time{}},
		"it does not":     {[]appsv1.DeploymentCondition{says(appsv1.DeploymentProgressing, corev1.ConditionTrue), says(appsv1.DeploymentAvailable, corev1.ConditionFalse)}, 0, since},
		"nobody said yet": {nil, 0, made},
		"but it runs":     {nil, 1, time.Time{}},
	} {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(made)}, Status: appsv1.DeploymentStatus{ReadyReplicas: tt.ready, Conditions: tt.conditions}}
		if got := away(d); !got.Equal(tt.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestCount_sweep: a pod that removes the data of a monitor is told if it does not start.
func TestCount_sweep(t *testing.T) {
	for reason, want := range map[string]string{"": "", "ErrImagePull": "the pod p with image i does not start: ErrImagePull."} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{cephname.LabelDaemon: cephname.DaemonSweep, cephname.LabelID: "b"}}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Image: "i", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
		w := &view.Workloads{Sweeps: map[string]string{}}
		if count(w, p); w.Sweeps["b"] != want || len(w.Sweeps) != 1 {
			t.Errorf("%q: %+v", reason, w.Sweeps)
		}
	}
}

// TestSweep_ended: a pod that the kubelet ended, as where its node was switched off, is made again, and the monitor stays on record until one has done the work.
func TestSweep_ended(t *testing.T) {
	b, _, m, s := keyed(t, nil)
	s.Daemon.Kind, s.Daemon.ID, s.Daemon.Node = cephname.DaemonSweep, "b", "n1"
	m.Spec.Ceph.Swept = []string{"b"}
	if err := b.Client.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	pods := func() []corev1.Pod {
		var all corev1.PodList
		if err := b.Client.List(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		return all.Items
	}
	swept := func() []string {
		if err := b.Client.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil {
			t.Fatal(err)
		}
		return m.Spec.Ceph.Swept
	}
	for round, phase := range []corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded} {
		if err := b.sweep(t.Context(), s); err != nil || len(pods()) != 1 {
			t.Fatalf("round %d: %d pods, %v", round, len(pods()), err)
		}
		p := pods()[0]
		p.Status.Phase = phase
		if err := b.Client.Status().Update(t.Context(), &p); err != nil {
			t.Fatal(err)
		}
		if err := b.sweep(t.Context(), s); err != nil || len(pods()) != 0 || (len(swept()) == 0) != (phase == corev1.PodSucceeded) {
			t.Errorf("%s: %d pods, on record %q, %v", phase, len(pods()), swept(), err)
		}
	}
}

// TestSweep_image: the pod runs the image of its node's agent, if that is known. One that does not start is replaced by one with Ceph's image, and that by one with the agent's.
func TestSweep_image(t *testing.T) {
	b, c, _, s := keyed(t, nil)
	s.Daemon.Kind, s.Daemon.ID, s.Daemon.Node = cephname.DaemonSweep, "b", "n1"
	agent := ""
	b.AgentImage = func(_ context.Context, node string) (string, error) {
		if node != "n1" {
			t.Errorf("asked about %q", node)
		}
		return agent, nil
	}
	b.memory.of(c.UID)
	begins, runs := corev1.PodStatus{Phase: corev1.PodPending}, corev1.PodStatus{Phase: corev1.PodRunning}
	waits := corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}}}}
	for round, tt := range []struct {
		agent string
		// status that the kubelet writes after the look, and the image of the pod that there is.
		status corev1.PodStatus
		want   string
	}{
		{"", begins, v1alpha1.CephImage},
		{"agent:1", waits, v1alpha1.CephImage},
		{"agent:1", waits, ""},
		{"agent:1", waits, "agent:1"},
		{"agent:1", waits, ""},
		{"agent:1", waits, v1alpha1.CephImage},
		{"agent:1", waits, ""},
		{"agent:1", runs, "agent:1"},
		{"", runs, "agent:1"},
	} {
		agent = tt.agent
		if err := b.sweep(t.Context(), s); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		var all corev1.PodList
		if err := b.Client.List(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		got := ""
		for i := range all.Items {
			p := &all.Items[i]
			got += p.Spec.Containers[0].Image
			p.Status = tt.status
			if err := b.Client.Status().Update(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		if got != tt.want {
			t.Errorf("round %d: image %q, want %q", round, got, tt.want)
		}
	}
}

// TestStuck: a pod that does not start is told in the words of the kubelet and of its program, on one line, and one that only has not started yet is not.
func TestStuck(t *testing.T) {
	waits := func(reason, message string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Image: "i", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
	}
	crashed := waits("CrashLoopBackOff", "")
	crashed.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 255, Message: "exec /bin/sh:\n exec format error"}
	// As an image of something else, with a shell and without one.
	other, bare := waits("CrashLoopBackOff", ""), waits("CrashLoopBackOff", "")
	other.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 127, Reason: "Error", Message: "/bin/sh: 6: monmaptool: not found\n"}
	bare.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 128, Reason: "StartError", Message: "failed to create containerd task: failed to create shim task: OCI runtime create failed: " +
		`runc create failed: unable to start container process: error during container init: exec: "/bin/sh": stat /bin/sh: no such file or directory: unknown`}
	// As an OSD whose disk is gone.
	gone := waits("CrashLoopBackOff", "back-off 2s restarting failed container=osd pod=ceph-dead-osd-4-67d77f55df-qhwkq_quarry-ceph(1adb6d89-4292-44bb-b0ed-70d3f0a33a38)")
	gone.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, Message: strings.Repeat("2026-11-26T19:04:59.436+0000 41b52a40  0 ceph version 20.2.4\n", 9) +
		"2026-11-26T19:04:59.446+0000 41b52a40 -1 \x1b[0;31m ** ERROR: unable to open OSD superblock on /var/lib/ceph/osd/ceph-4: (2) No such file or directory\x1b[0m\n"}
	for name, tt := range map[string]struct {
		begin, main []corev1.ContainerStatus
		want        string
	}{
		"nothing is known yet":    {nil, nil, ""},
		"it is being made":        {nil, []corev1.ContainerStatus{waits("ContainerCreating", "")}, ""},
		"it waits for its turn":   {[]corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}, []corev1.ContainerStatus{waits("PodInitializing", "")}, ""},
		"no such image":           {[]corev1.ContainerStatus{waits("ErrImagePull", "not found")}, []corev1.ContainerStatus{waits("PodInitializing", "")}, "the pod p with image i does not start: ErrImagePull: not found."},
		"of another architecture": {[]corev1.ContainerStatus{crashed}, nil, "the pod p with image i does not start: CrashLoopBackOff; it said last: exec /bin/sh: exec format error."},
		"it is not Ceph":          {[]corev1.ContainerStatus{other}, []corev1.ContainerStatus{waits("PodInitializing", "")}, "the pod p with image i does not start: CrashLoopBackOff; it said last: /bin/sh: 6: monmaptool: not found."},
		"not Ceph, nor a shell": {[]corev1.ContainerStatus{bare}, []corev1.ContainerStatus{waits("PodInitializing", "")}, "the pod p with image i does not start: CrashLoopBackOff; it said last: " +
			`… runc create failed: unable to start container process: error during container init: exec: "/bin/sh": stat /bin/sh: no such file or directory: unknown.`},
		"the end of what it said": {nil, []corev1.ContainerStatus{gone}, "the pod p with image i does not start: CrashLoopBackOff: back-off 2s restarting failed container=osd pod=ceph-dead-osd-4-67d77f55df-qhwkq_quarry-ceph(1adb6d89-4292-44bb-b0ed-70d…; it said last: " +
			"…ion 20.2.4 2026-11-26T19:04:59.446+0000 41b52a40 -1 ** ERROR: unable to open OSD superblock on /var/lib/ceph/osd/ceph-4: (2) No such file or directory."},
		"it runs":                  {nil, []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}, ""},
		"its program is not there": {nil, []corev1.ContainerStatus{waits("RunContainerError", `exec: "/usr/bin/ceph-mon"`)}, `the pod p with image i does not start: RunContainerError: exec: "/usr/bin/ceph-mon".`},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: corev1.PodStatus{InitContainerStatuses: tt.begin, ContainerStatuses: tt.main}}
		if got := stuck(p); got != tt.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestStuck_unscheduled: a pod that no node takes is told in the words of the scheduler.
func TestStuck_unscheduled(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes are available: 1 node(s) had untolerated taint(s).",
	}}
	if got := stuck(p); !strings.Contains(got, "the pod p does not start: no node is found for it: 0/3 nodes are available: 1 node(s) had untolerated taint(s).") {
		t.Errorf("%q", got)
	}
}

// TestMarkFailing: a daemon fails if a pod of it does not start, and not for a pod that goes, or for one of another daemon.
func TestMarkFailing(t *testing.T) {
	now := metav1.Now()
	pod := func(kind, id, reason string, ends *metav1.Time) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: ends, Labels: map[string]string{cephname.LabelDaemon: kind, cephname.LabelID: id}}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
		return p
	}
	w := &view.Workloads{Daemons: []view.Workload{
		{Kind: cephname.DaemonMonitor, ID: "a"}, {Kind: cephname.DaemonMonitor, ID: "b"}, {Kind: cephname.DaemonOSD, ID: "1"}, {Kind: cephname.DaemonOSD, ID: "2"},
	}}
	markFailing(w, []corev1.Pod{
		pod(cephname.DaemonMonitor, "a", "CrashLoopBackOff", nil), pod(cephname.DaemonMonitor, "b", "ImagePullBackOff", &now), pod(cephname.DaemonMonitor, "b", "ContainerCreating", nil),
		pod(cephname.DaemonOSD, "1", "CrashLoopBackOff", nil), pod(cephname.DaemonOSD, "1", "", nil),
	})
	for i, want := range []bool{true, false, true, false} {
		if d := w.Daemons[i]; d.Failing != want {
			t.Errorf("%s.%s: %t", d.Kind, d.ID, d.Failing)
		}
	}
}
