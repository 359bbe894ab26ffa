package pods

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/controller/internal/decide/gluster/device"
	"quarry.storage/quarry/controller/internal/decide/gluster/rollout"
	"quarry.storage/quarry/controller/internal/decide/gluster/workload"
)

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// scene is a workload with its pod, which is ready for an hour, and a claim that both have.
type scene struct {
	set    *appsv1.StatefulSet
	pod    *corev1.Pod
	claims map[string]*corev1.PersistentVolumeClaim
}

func newScene() *scene {
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}, Volumes: []corev1.Volume{
		{Name: "state", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "state"}}}, {Name: "run"},
	}}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", Generation: 3}, Status: appsv1.StatefulSetStatus{ObservedGeneration: 3, UpdateRevision: "n-2"}}
	set.Spec.Template.Spec = *spec.DeepCopy()
	spec.NodeName = "machine"
	return &scene{
		set: set, claims: map[string]*corev1.PersistentVolumeClaim{"state": {Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}},
		pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: "n-0", CreationTimestamp: metav1.NewTime(now), Labels: map[string]string{appsv1.StatefulSetRevisionLabel: "n-2"},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))},
			},
			Spec: spec,
			Status: corev1.PodStatus{
				Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)}},
				ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
			},
		},
	}
}

func (s *scene) state(c corev1.ContainerState) { s.pod.Status.ContainerStatuses[0].State = c }

func TestLook(t *testing.T) {
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
	for name, row := range map[string]struct {
		edit func(*scene)
		want func(*rollout.Pod)
	}{
		"it is current":                 {func(*scene) {}, func(*rollout.Pod) {}},
		"it is of an earlier template":  {func(s *scene) { s.set.Status.UpdateRevision = "n-3" }, func(p *rollout.Pod) { p.Current = gluster.No }},
		"nobody looked at the workload": {func(s *scene) { s.set.Generation++ }, func(p *rollout.Pod) { p.Current = gluster.Unknown }},
		"it says no revision":           {func(s *scene) { s.set.Status.UpdateRevision = "" }, func(p *rollout.Pod) { p.Current = gluster.Unknown }},
		"the pod has none":              {func(s *scene) { s.pod.Labels = nil }, func(p *rollout.Pod) { p.Current = gluster.Unknown }},
		"it is somebody else's":         {func(s *scene) { s.pod.OwnerReferences = nil }, func(p *rollout.Pod) { p.Current = gluster.Unknown }},
		"it has no workload":            {func(s *scene) { s.set = nil }, func(p *rollout.Pod) { p.Current = gluster.Unknown }},
		"there is none":                 {func(s *scene) { s.pod = nil }, func(p *rollout.Pod) { *p = rollout.Pod{Name: "n-0", Node: "n", Missing: true} }},
		"it was asked to end": {func(s *scene) {
			s.pod.DeletionTimestamp, s.pod.DeletionGracePeriodSeconds = &metav1.Time{Time: now}, new(int64(60))
		}, func(p *rollout.Pod) { p.Ended = now.Add(-time.Minute) }},
		"it is not ready":                {func(s *scene) { s.pod.Status.Conditions[0].Status = corev1.ConditionFalse }, func(p *rollout.Pod) { p.Ready = time.Time{} }},
		"nobody says whether it is":      {func(s *scene) { s.pod.Status.Conditions[0].Status = corev1.ConditionUnknown }, func(p *rollout.Pod) { p.Ready = time.Time{} }},
		"its image cannot be had":        {func(s *scene) { s.state(waiting) }, func(p *rollout.Pod) { p.Idle = true }},
		"it ended, and starts again":     {func(s *scene) { s.state(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}) }, func(p *rollout.Pod) { p.Idle = true }},
		"nobody says how a container is": {func(s *scene) { s.state(corev1.ContainerState{}) }, func(*rollout.Pod) {}},
		"one of two runs": {func(s *scene) {
			s.pod.Status.ContainerStatuses = append(s.pod.Status.ContainerStatuses, corev1.ContainerStatus{State: waiting})
		}, func(*rollout.Pod) {}},
		"the kubelet said nothing yet": {func(s *scene) { s.pod.Status.ContainerStatuses = nil }, func(*rollout.Pod) {}},
		"it is on no machine": {func(s *scene) {
			s.pod.Status.ContainerStatuses, s.pod.Spec.NodeName, s.pod.Status.Phase = nil, "", corev1.PodPending
		}, func(p *rollout.Pod) { p.Idle = true }},
		"its claim is gone":         {func(s *scene) { delete(s.claims, "state") }, func(p *rollout.Pod) { p.Claims = false }},
		"its claim was deleted":     {func(s *scene) { s.claims["state"].DeletionTimestamp = &metav1.Time{Time: now} }, func(p *rollout.Pod) { p.Claims = false }},
		"its claim lost its volume": {func(s *scene) { s.claims["state"].Status.Phase = corev1.ClaimLost }, func(p *rollout.Pod) { p.Claims = false }},
		"its claim is not bound":    {func(s *scene) { s.claims["state"].Status.Phase = corev1.ClaimPending }, func(*rollout.Pod) {}},
		"the next one needs one that is not there": {func(s *scene) {
			s.set.Spec.Template.Spec.Volumes = append(s.set.Spec.Template.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "more"}}})
		}, func(p *rollout.Pod) { p.Claims = false }},
	} {
		s := newScene()
		row.edit(s)
		want := rollout.Pod{Name: "n-0", Node: "n", Current: gluster.Yes, Made: now, Ready: now, Claims: true}
		row.want(&want)
		if got := Look("n", "n", s.set, s.pod, s.claims); got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}

func TestHas(t *testing.T) {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{VolumeDevices: []corev1.VolumeDevice{{DevicePath: "/dev/a"}, {DevicePath: "/dev/x"}}}}}}
	here, missing := Has(p, []string{"/dev/a", "/dev/b"})
	if !slices.Equal(here, []string{"/dev/a"}) || !slices.Equal(missing, []string{"/dev/b"}) {
		t.Errorf("%v, %v", here, missing)
	}
	if here, missing = Has(nil, []string{"/dev/a"}); here != nil || len(missing) != 1 {
		t.Errorf("without a pod: %v, %v", here, missing)
	}
}

// TestServer: since when a server runs, or no container of its pod does. A pod that ends is none of the two.
func TestServer(t *testing.T) {
	const disk = "/dev/disk/by-id/a"
	creating := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	later := metav1.NewTime(now.Add(time.Hour))
	server := func(s *scene, state corev1.ContainerState) {
		s.pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: workload.PartServer, State: state}}
	}
	for name, row := range map[string]struct {
		edit func(*scene)
		want device.Pod
	}{
		"it runs": {func(s *scene) {
			server(s, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: later}})
		}, device.Pod{Workload: true, Has: []string{disk}, Started: later.Time}},
		"it is being made":    {func(s *scene) { server(s, creating); s.pod.Status.Conditions = nil }, device.Pod{Workload: true, Has: []string{disk}, Idle: now}},
		"it ran before":       {func(s *scene) { server(s, creating); s.pod.Status.Conditions[0].LastTransitionTime = later }, device.Pod{Workload: true, Has: []string{disk}, Idle: later.Time}},
		"nothing is known":    {func(s *scene) { s.pod.Status.ContainerStatuses = nil }, device.Pod{Workload: true, Has: []string{disk}}},
		"it was asked to end": {func(s *scene) { server(s, creating); s.pod.DeletionTimestamp = &later }, device.Pod{Workload: true, Has: []string{disk}}},
		"it has no pod":       {func(s *scene) { s.pod = nil }, device.Pod{Workload: true, Has: []string{disk}}},
		"it has no workload":  {func(s *scene) { s.pod, s.set = nil, nil }, device.Pod{}},
	} {
		s := newScene()
		s.set.Spec.Template.Spec.Volumes = append(s.set.Spec.Template.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: disk}}})
		row.edit(s)
		if diff := cmp.Diff(row.want, Server(s.set, s.pod)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestContainer: each container that runs differs from those before it, in the same pod or another one.
func TestContainer(t *testing.T) {
	at := metav1.NewTime(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}}
	if got := Container(p); got != "" {
		t.Errorf("none runs: %q", got)
	}
	seen := map[string]bool{}
	for _, change := range []func(*corev1.ContainerStatus){
		func(c *corev1.ContainerStatus) { c.ContainerID = "x" }, func(c *corev1.ContainerStatus) { c.RestartCount++ },
		func(c *corev1.ContainerStatus) { c.State.Running.StartedAt = metav1.NewTime(at.Add(time.Second)) }, func(*corev1.ContainerStatus) { p.UID = "b" },
	} {
		c := corev1.ContainerStatus{Name: workload.PartServer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}}}
		change(&c)
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "other"}, c}
		if id := Container(p); id == "" || seen[id] || id != Container(p) {
			t.Errorf("%q again, or none", id)
		} else {
			seen[id] = true
		}
	}
}
