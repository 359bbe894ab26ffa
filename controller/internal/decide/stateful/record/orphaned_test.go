package record

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestUnowned(t *testing.T) {
	pod := func(edit func(*corev1.Pod)) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelIdentity: "1"}}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		edit(&p)
		return p
	}
	for name, c := range map[string]struct {
		pod      corev1.Pod
		all, run int
	}{
		"it runs":               {pod(func(*corev1.Pod) {}), 1, 1},
		"it will run":           {pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }), 1, 1},
		"it ends":               {pod(func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }), 1, 1},
		"its node is silent":    {pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodUnknown }), 1, 1},
		"it ended":              {pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), 1, 0},
		"it ended well":         {pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), 1, 0},
		"it is of no replica":   {pod(func(p *corev1.Pod) { p.Labels = nil }), 0, 0},
		"somebody controls it":  {pod(func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{UID: "old", Controller: new(true)}} }), 0, 0},
		"somebody only owns it": {pod(func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{UID: "old"}} }), 1, 1},
	} {
		if all, run := Unowned([]corev1.Pod{c.pod}); len(all) != c.all || run != c.run {
			t.Errorf("%s: %d, %d run", name, len(all), run)
		}
	}
}

// TestUndecided: what a person said of a claim, or did with it, decides. What is on record of its replica from before does not.
func TestUndecided(t *testing.T) {
	n := Naming{UID: "new"}
	claim := func(edit func(*corev1.PersistentVolumeClaim)) corev1.PersistentVolumeClaim {
		c := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: "c", Labels: map[string]string{v1alpha1.LabelStatefulClusterUID: "old", v1alpha1.LabelIdentity: "1"},
			Annotations: map[string]string{v1alpha1.AnnotationReplicaState: v1alpha1.ReplicaFilled, v1alpha1.AnnotationOrphaned: "2030-01-01T00:00:00Z"},
		}}
		edit(&c)
		return c
	}
	state := func(s string) corev1.PersistentVolumeClaim {
		return claim(func(c *corev1.PersistentVolumeClaim) { c.Annotations[v1alpha1.AnnotationReplicaState] = s })
	}
	unmarked := claim(func(c *corev1.PersistentVolumeClaim) { delete(c.Annotations, v1alpha1.AnnotationOrphaned) })
	of := func(identity string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelIdentity: identity}}}
	}
	user := of("2")
	user.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
	for name, c := range map[string]struct {
		claim corev1.PersistentVolumeClaim
		pods  []*corev1.Pod
		named []string
		want  bool
	}{
		"it has the data":                  {claim: state(v1alpha1.ReplicaFilled), want: true},
		"it may have the data":             {claim: state(v1alpha1.ReplicaServed), want: true},
		"it may have got it since":         {claim: state(v1alpha1.ReplicaNew), want: true},
		"nothing is on record":             {claim: state(""), want: true},
		"a word that nobody knows":         {claim: state("Else"), want: true},
		"it was given up before":           {claim: state(v1alpha1.ReplicaScaled)},
		"a person leaves it":               {claim: state(v1alpha1.ReplicaReplaced)},
		"a person named it":                {claim: claim(func(*corev1.PersistentVolumeClaim) {}), named: []string{"b", "c"}},
		"a person deletes it":              {claim: claim(func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = new(metav1.Now()) })},
		"it is our own":                    {claim: claim(func(c *corev1.PersistentVolumeClaim) { c.Labels[v1alpha1.LabelStatefulClusterUID] = "new" })},
		"it was kept, and no pod was seen": {claim: unmarked},
		"the mark is not written yet":      {claim: unmarked, pods: []*corev1.Pod{of("1")}, want: true},
		"a pod of another identity":        {claim: unmarked, pods: []*corev1.Pod{of("2")}},
		"a pod with another label and it":  {claim: unmarked, pods: []*corev1.Pod{user}, want: true},
		"its pod is seen, and it is named": {claim: unmarked, pods: []*corev1.Pod{of("1")}, named: []string{"c"}},
	} {
		labelled := []corev1.PersistentVolumeClaim{c.claim}
		if got := n.Undecided(labelled, n.Abandoned(labelled, c.pods), c.named); slices.Contains(got, "c") != c.want || len(got) > 1 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestCarried: what ran on may have the data, whatever is on record. That it has it is not taken back.
func TestCarried(t *testing.T) {
	for state, want := range map[string]string{
		"": v1alpha1.ReplicaServed, v1alpha1.ReplicaNew: v1alpha1.ReplicaServed, v1alpha1.ReplicaServed: v1alpha1.ReplicaServed,
		v1alpha1.ReplicaFilled: v1alpha1.ReplicaFilled, "Else": v1alpha1.ReplicaFilled,
	} {
		if got := Carried(state); got != want {
			t.Errorf("%q: %s", state, got)
		}
	}
}

func TestOccupier(t *testing.T) {
	i := &Identity{Name: "1", Claims: []*corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "c", Labels: map[string]string{v1alpha1.LabelIdentity: "1"}}}}}
	pod := func(name, claim, controller string, phase corev1.PodPhase) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.LabelIdentity: "2"}}, Status: corev1.PodStatus{Phase: phase}}
		p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
		if controller != "" {
			p.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(controller), Controller: new(true)}}
		}
		return p
	}
	for name, c := range map[string]struct {
		pod  corev1.Pod
		want string
	}{
		"it has the name":                        {pod("db-1", "", "", corev1.PodRunning), "db-1"},
		"it has the name, and somebody controls": {pod("db-1", "", "other", corev1.PodRunning), "db-1"},
		"it has the name, and has ended":         {pod("db-1", "", "", corev1.PodFailed), "db-1"},
		"it is our own":                          {pod("db-1", "c", "uid", corev1.PodRunning), ""},
		"it has the claim":                       {pod("copy", "c", "", corev1.PodPending), "copy"},
		"it had the claim":                       {pod("copy", "c", "", corev1.PodSucceeded), ""},
		"it is of another replica":               {pod("db-2", "d", "", corev1.PodRunning), ""},
	} {
		if got := i.Occupier([]corev1.Pod{c.pod}, "db-1", "uid"); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
