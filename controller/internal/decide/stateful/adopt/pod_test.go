package adopt

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// leftPod is a pod of a replica of a deleted StatefulCluster db that runs on its claims of these templates.
func leftPod(identity, templates string, change ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "db-" + identity,
		Labels: map[string]string{
			"app": "db", v1alpha1.LabelStatefulCluster: "db", v1alpha1.LabelIdentity: identity, appsv1.ControllerRevisionHashLabelKey: "of-before",
		},
	}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	for _, t := range strings.Fields(templates) {
		mount(&p, "db-"+t+"-"+identity)
	}
	for _, f := range change {
		f(&p)
	}
	return p
}

func mount(p *corev1.Pod, claim string) {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}})
}

// controlled has a pod be of the StatefulCluster, or of somebody else.
func controlled(uid types.UID) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "theirs", UID: uid, Controller: new(true)}}
	}
}

func TestPods(t *testing.T) {
	type claims = []corev1.PersistentVolumeClaim
	type pods = []corev1.Pod
	changed := func(f func(*corev1.PersistentVolumeClaim)) claims { return claims{keptClaim("data", "a", f)} }
	state := func(s string) claims {
		return changed(func(c *corev1.PersistentVolumeClaim) { c.Annotations[v1alpha1.AnnotationReplicaState] = s })
	}
	taken := func(c *corev1.PersistentVolumeClaim) { c.Labels[v1alpha1.LabelStatefulClusterUID] = "uid" }
	both := func(c *corev1.PersistentVolumeClaim) { c.Annotations[v1alpha1.AnnotationClaims] = "data,log" }
	whole := claims{keptClaim("data", "a")}
	for name, tc := range map[string]struct {
		pods   pods
		claims claims
		change func(*Input)
		// want has the pod and how many claims of it are taken, says is what is told.
		want, says string
		givenUp    bool
	}{
		"nothing is there":               {},
		"it runs on its claim":           {pods: pods{leftPod("a", "data")}, claims: whole, want: "db-a:1"},
		"it ended":                       {pods: pods{leftPod("a", "data", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })}, claims: whole, want: "db-a:1"},
		"somebody else only owns it":     {pods: pods{leftPod("a", "data", func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{UID: "x"}} })}, claims: whole, want: "db-a:1"},
		"it uses a claim of nobody, too": {pods: pods{leftPod("a", "data", func(p *corev1.Pod) { mount(p, "shared") })}, claims: whole, want: "db-a:1"},
		"it lacks the claim of a template that came later": {
			pods: pods{leftPod("a", "data")}, claims: changed(func(c *corev1.PersistentVolumeClaim) { c.Annotations[v1alpha1.AnnotationClaims] = "data" }), want: "db-a:1",
		},
		"nothing is on record of its claims": {pods: pods{leftPod("a", "data")}, claims: changed(func(c *corev1.PersistentVolumeClaim) { c.Annotations = nil }), want: "db-a:1"},
		"both claims": {
			pods: pods{leftPod("a", "data log")}, claims: claims{keptClaim("data", "a", both), keptClaim("log", "a", both)}, want: "db-a:2",
		},
		"the controller ended between two claims": {
			pods: pods{leftPod("a", "data log")}, claims: claims{keptClaim("data", "a", both, taken), keptClaim("log", "a", both)}, want: "db-a:1",
		},
		"the controller ended before the pod":          {pods: pods{leftPod("a", "data")}, claims: claims{keptClaim("data", "a", taken)}, want: "db-a:0"},
		"the claims of one that was adopted follow it": {pods: pods{leftPod("a", "data", controlled("uid"))}, claims: whole, want: "db-a:1"},
		"one that is ours is as it should be":          {pods: pods{leftPod("a", "data", controlled("uid"))}, claims: claims{keptClaim("data", "a", taken)}},
		"nothing is told of one that is ours":          {pods: pods{leftPod("a", "data", controlled("uid"))}, claims: state(v1alpha1.ReplicaScaled)},
		"it has no claims, and none are wanted":        {pods: pods{leftPod("a", "")}, change: func(in *Input) { in.Templates = nil }, want: "db-a:0"},
		"two of them":                                  {pods: pods{leftPod("b", "data"), leftPod("a", "data")}, claims: claims{keptClaim("data", "a"), keptClaim("data", "b")}, want: "db-a:1 db-b:1"},
		"one that is refused holds up no other": {
			pods: pods{leftPod("a", "data"), leftPod("b", "data", func(p *corev1.Pod) { p.Labels["app"] = "other" })}, claims: claims{keptClaim("data", "a"), keptClaim("data", "b")},
			want: "db-a:1", says: "db-b (spec.selector does not match its labels)",
		},
		"it is of no replica":             {pods: pods{leftPod("a", "data", func(p *corev1.Pod) { delete(p.Labels, v1alpha1.LabelIdentity) })}, claims: whole},
		"somebody else controls it":       {pods: pods{leftPod("a", "data", controlled("other"))}, claims: whole, says: "db-a (ReplicaSet theirs controls it)"},
		"it is being deleted":             {pods: pods{leftPod("a", "data", func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) })}, claims: whole, says: "it is being deleted"},
		"it has another name":             {pods: pods{leftPod("a", "data", func(p *corev1.Pod) { p.Name = "db-copy" })}, claims: whole, says: "db-copy (it is not called after"},
		"it has no hash of a template":    {pods: pods{leftPod("a", "data", func(p *corev1.Pod) { delete(p.Labels, appsv1.ControllerRevisionHashLabelKey) })}, claims: whole, says: "no label controller-revision-hash"},
		"the selector does not match":     {pods: pods{leftPod("a", "data")}, claims: whole, change: func(in *Input) { in.Selector = labels.Set{"app": "web"}.AsSelector() }, says: "spec.selector does not match"},
		"it has no claim, and needs one":  {pods: pods{leftPod("a", "")}, says: "it has no claim"},
		"its claim is gone":               {pods: pods{leftPod("a", "data")}, says: "its claim db-data-a is not there"},
		"its claim lost its labels":       {pods: pods{leftPod("a", "data")}, claims: claims{keptClaim("data", "b")}, says: "its claim db-data-a is not there"},
		"a claim that is not the pod's":   {pods: pods{leftPod("a", "data")}, claims: claims{keptClaim("data", "a"), keptClaim("log", "a")}, says: "claim db-log-a: it is of the same identity, and the pod does not use it"},
		"it uses the claim of another":    {pods: pods{leftPod("a", "data", func(p *corev1.Pod) { mount(p, "db-data-b") })}, claims: claims{keptClaim("data", "a"), keptClaim("data", "b")}, says: "claim db-data-b: it is of another identity, b"},
		"another claim was there once":    {pods: pods{leftPod("a", "data")}, claims: claims{keptClaim("data", "a", both)}, says: "its replica had another claim, db-log-a"},
		"another pod uses the claim, too": {pods: pods{leftPod("a", "data"), leftPod("b", "", func(p *corev1.Pod) { mount(p, "db-data-a") })}, claims: whole, says: "pod db-b uses its claims, too"},
		"a template that is no more":      {pods: pods{leftPod("a", "data old")}, claims: claims{keptClaim("data", "a"), keptClaim("old", "a")}, says: "claim db-old-a: it is not called after a claim template"},
		"the claim is being deleted":      {pods: pods{leftPod("a", "data")}, claims: changed(func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = new(metav1.Now()) }), says: "claim db-data-a: it is being deleted"},
		"the claim, ours, is being deleted": {
			pods: pods{leftPod("a", "data")}, claims: claims{keptClaim("data", "a", taken, func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = new(metav1.Now()) })}, says: "it is being deleted",
		},
		"the claim has no volume yet": {pods: pods{leftPod("a", "data")}, claims: changed(func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimPending }), says: "it has no volume"},
		"the claim never had a UID":   {pods: pods{leftPod("a", "data")}, claims: changed(func(c *corev1.PersistentVolumeClaim) { delete(c.Labels, v1alpha1.LabelStatefulClusterUID) }), says: "it has no label"},
		"the claim goes with another": {pods: pods{leftPod("a", "data")}, claims: changed(func(c *corev1.PersistentVolumeClaim) {
			c.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "j", UID: "x"}}
		}), says: "it goes with Job j"},
		"the claim is of another class": {pods: pods{leftPod("a", "data")}, claims: changed(func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("slow") }), says: `its StorageClass is "slow"`},
		"it was given up":               {pods: pods{leftPod("a", "data")}, claims: state(v1alpha1.ReplicaReplaced), says: "its replica was given up on record", givenUp: true},
		"a word that nobody knows":      {pods: pods{leftPod("a", "data")}, claims: state("Else"), want: "db-a:1"},
	} {
		t.Run(name, func(t *testing.T) {
			in := inputOf("", tc.claims...)
			in.Pods, in.Selector = tc.pods, labels.Set{"app": "db"}.AsSelector()
			if tc.change != nil {
				tc.change(&in)
			}
			taken, strays := Pods(in)
			var got []string
			for _, one := range taken {
				got = append(got, one.Pod.Name+":"+string(rune('0'+len(one.Claims))))
				for _, c := range one.Claims {
					if c.Labels[v1alpha1.LabelStatefulClusterUID] == "uid" || !strings.HasSuffix(c.Name, one.Pod.Labels[v1alpha1.LabelIdentity]) {
						t.Errorf("takes %s", c.Name)
					}
				}
			}
			told := Tell(strays)
			if strings.Join(got, " ") != tc.want || !strings.Contains(told, tc.says) || (told == "") != (tc.says == "") {
				t.Errorf("taken %v, told %q", got, told)
			}
			for _, s := range strays {
				if s.GivenUp != tc.givenUp {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}

// TestStanding: what was given up, has ended, is somebody else's or is counted anyway stands in the place of nobody.
func TestStanding(t *testing.T) {
	runs, ended := leftPod("a", ""), leftPod("a", "", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	has := func(identity string) bool { return identity == "ours" }
	for name, c := range map[string]struct {
		taken  []Takeover
		strays []Stray
		want   int
	}{
		"one that is to be adopted, and one that is not": {[]Takeover{{Pod: &runs}}, []Stray{{Identity: "b", Runs: true}}, 2},
		"they ended":                   {[]Takeover{{Pod: &ended}}, []Stray{{Identity: "b"}}, 0},
		"one is the StatefulCluster's": {[]Takeover{{Pod: &runs, Controlled: true}}, nil, 0},
		"one was given up":             {nil, []Stray{{Identity: "b", Runs: true, GivenUp: true}}, 0},
		"its claims are taken by now":  {nil, []Stray{{Identity: "ours", Runs: true}}, 0},
	} {
		if got := Standing(c.taken, c.strays, has); got != c.want {
			t.Errorf("%s: %d", name, got)
		}
	}
}

// TestTell: many are shortened.
func TestTell(t *testing.T) {
	var strays []Stray
	for _, name := range strings.Fields("a b c d e f g") {
		strays = append(strays, Stray{Pod: name, Why: "so"})
	}
	if got := Tell(strays); !strings.HasSuffix(got, "e (so), 2 more.") {
		t.Error(got)
	}
}
