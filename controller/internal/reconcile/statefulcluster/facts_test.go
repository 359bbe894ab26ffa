package statefulcluster

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"quarry.storage/quarry/controller/internal/decide/stateful/record"
	"quarry.storage/quarry/controller/internal/decide/stateful/replica"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func at(minutes int) metav1.Time {
	return metav1.NewTime(noon.Add(time.Duration(minutes) * time.Minute))
}

func TestReplicaOf_readiness(t *testing.T) {
	status := func(phase corev1.PodPhase, ready corev1.ConditionStatus, since int, containers ...corev1.ContainerStatus) corev1.PodStatus {
		return corev1.PodStatus{
			Phase: phase, ContainerStatuses: containers,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: at(since)}},
		}
	}
	running := func(restarts int32, started int) corev1.ContainerStatus {
		return corev1.ContainerStatus{RestartCount: restarts, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(started)}}}
	}
	crashed := corev1.ContainerStatus{RestartCount: 1, LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: at(7)}}}
	for name, c := range map[string]struct {
		status corev1.PodStatus
		phase  replica.Phase
		ready  replica.Readiness
		since  int
	}{
		"nothing is known yet":               {corev1.PodStatus{Phase: corev1.PodPending}, replica.Pending, replica.NotReady, 0},
		"ready":                              {status(corev1.PodRunning, corev1.ConditionTrue, 5), replica.Running, replica.Ready, 5},
		"not ready any more":                 {status(corev1.PodRunning, corev1.ConditionFalse, 5), replica.Running, replica.NotReady, 5},
		"a slow pull is not held against it": {status(corev1.PodRunning, corev1.ConditionFalse, 1, running(0, 9)), replica.Running, replica.NotReady, 9},
		"its first start was this long ago":  {status(corev1.PodRunning, corev1.ConditionFalse, 1, crashed), replica.Running, replica.NotReady, 7},
		"restarts do not begin anew":         {status(corev1.PodRunning, corev1.ConditionFalse, 1, running(5, 9)), replica.Running, replica.NotReady, 1},
		"nobody tells":                       {status(corev1.PodRunning, corev1.ConditionUnknown, 5), replica.Running, replica.Unknown, 5},
		"an unknown phase":                   {corev1.PodStatus{Phase: corev1.PodUnknown}, replica.Running, replica.Unknown, 0},
		"preparing itself": {corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{
			{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}, {State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		}}, replica.Pending, replica.NotReady, 0},
		"evicted by its kubelet": {status(corev1.PodFailed, corev1.ConditionFalse, 5), replica.Finished, replica.NotReady, 5},
		"ended":                  {status(corev1.PodSucceeded, corev1.ConditionFalse, 5), replica.Finished, replica.NotReady, 5},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", CreationTimestamp: at(0)}, Status: c.status}
		p.Annotations = map[string]string{corev1.PodDeletionCost: "7"}
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "synced", Status: corev1.ConditionTrue})
		want := replica.Replica{
			Name: "p", Identity: "1", Created: noon, Phase: c.phase, Readiness: c.ready, ReadinessSince: at(c.since).Time, PendingSince: noon, Cost: 7, InSync: true,
			Busy: len(c.status.InitContainerStatuses) > 0,
		}
		if diff := cmp.Diff(want, replicaOf("p", &record.Identity{Name: "1", Pod: p}, "synced")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestReplicaOf_absent: without a pod an identity is as old as its first claim.
func TestReplicaOf_absent(t *testing.T) {
	i := &record.Identity{Name: "1", Filled: true, Fate: replica.Scaled, Whole: replica.ClaimsEnding}
	for _, minutes := range []int{5, 3, 4} {
		i.Claims = append(i.Claims, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(minutes)}})
	}
	want := replica.Replica{
		Name: "p", Identity: "1", Filled: true, Fate: replica.Scaled, Claims: replica.ClaimsEnding, Phase: replica.Absent, Created: at(3).Time,
	}
	if diff := cmp.Diff(want, replicaOf("p", i, "")); diff != "" {
		t.Error(diff)
	}
}

func TestCurrent(t *testing.T) {
	sum := func(live int, revisions map[string]int) replica.Summary {
		return replica.Summary{Pods: live, Updated: revisions["new"], Revisions: revisions}
	}
	for name, c := range map[string]struct {
		was, want string
		sum       replica.Summary
	}{
		"none are there":              {"old", "new", sum(0, nil)},
		"all are new":                 {"old", "new", sum(2, map[string]int{"new": 2})},
		"one is left":                 {"old", "old", sum(2, map[string]int{"new": 1, "old": 1})},
		"that which was is not there": {"older", "old", sum(2, map[string]int{"new": 1, "old": 1})},
		"a change in a change":        {"new", "a", sum(3, map[string]int{"new": 1, "b": 1, "a": 1})},
		"the status was lost":         {"", "old", sum(1, map[string]int{"old": 1})},
	} {
		if got := current(c.was, "new", c.sum); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestNodeChanged(t *testing.T) {
	node := func(status corev1.ConditionStatus, label string) client.Object {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"x": label}},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastHeartbeatTime: metav1.Now()}}},
		}
	}
	for name, c := range map[string]struct {
		before, after client.Object
		want          bool
	}{
		"a heartbeat":           {node("True", "a"), node("True", "a"), false},
		"it falls silent":       {node("True", "a"), node("Unknown", "a"), true},
		"another label":         {node("True", "a"), node("True", "b"), true},
		"it is ready no longer": {node("True", "a"), node("False", "a"), true},
	} {
		if got := nodeChanged.Update(event.TypedUpdateEvent[client.Object]{ObjectOld: c.before, ObjectNew: c.after}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestNewIdentity(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		id := NewIdentity()
		if len(id) != 16 || strings.Trim(id, "0123456789abcdef") != "" || seen[id] {
			t.Fatal(id)
		}
		seen[id] = true
	}
}
