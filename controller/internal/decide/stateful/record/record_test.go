package record

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/stateful/replica"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// claim is described as "template identity", with what is on record and how it is after that.
func claim(text string) corev1.PersistentVolumeClaim {
	words := strings.Fields(text)
	c := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "db-" + words[0] + "-" + words[1], Labels: map[string]string{v1alpha1.LabelIdentity: words[1]}, Annotations: map[string]string{},
		CreationTimestamp: metav1.NewTime(noon),
	}}
	for _, w := range words[2:] {
		switch w {
		case "reserved":
			c.Labels[v1alpha1.LabelReserved] = "true"
		case "placed":
			c.Annotations[AnnotationSelectedNode] = "n1"
		case "ending":
			c.DeletionTimestamp = new(metav1.NewTime(noon))
		case "later":
			c.CreationTimestamp = metav1.NewTime(noon.Add(time.Hour))
		case "of-both":
			c.Annotations[v1alpha1.AnnotationClaims] = "data,log"
		case "of-data":
			c.Annotations[v1alpha1.AnnotationClaims] = "data"
		default:
			c.Annotations[v1alpha1.AnnotationReplicaState] = w
		}
	}
	return c
}

// pod of the identity 1.
func pod(phase corev1.PodPhase, state string) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db-1", Labels: map[string]string{v1alpha1.LabelIdentity: "1"}}}
	p.Status.Phase = phase
	if state != "" {
		p.Annotations = map[string]string{v1alpha1.AnnotationReplicaState: state}
	}
	return p
}

func naming(templates ...string) Naming {
	return Naming{Templates: templates, Claim: func(t, i string) string { return "db-" + t + "-" + i }}
}

func gather(n Naming, pods []corev1.Pod, texts ...string) string {
	var claims []corev1.PersistentVolumeClaim
	for _, text := range texts {
		claims = append(claims, claim(text))
	}
	found := Gather(pods, claims, n)
	var out []string
	for _, i := range found {
		out = append(out, fmt.Sprintf("%s %s %d", i.Name, i.State(), i.Whole))
	}
	for _, c := range Orphans(claims, found) {
		out = append(out, "orphan "+c.Name)
	}
	return strings.Join(out, "; ")
}

// TestGather_withoutIdentity: a claim whose label was taken off belongs to nobody.
func TestGather_withoutIdentity(t *testing.T) {
	claim := corev1.PersistentVolumeClaim{}
	claim.Annotations = map[string]string{v1alpha1.AnnotationReplicaState: v1alpha1.ReplicaFilled}
	if got := Gather(nil, []corev1.PersistentVolumeClaim{claim}, naming("data")); len(got) != 0 {
		t.Errorf("%+v", got[0])
	}
}

func TestGather(t *testing.T) {
	none, data, both := naming(), naming("data"), naming("data", "log")
	running := []corev1.Pod{pod(corev1.PodRunning, "")}
	for name, c := range map[string]struct {
		got, want string
	}{
		"a pod and its claim":                       {gather(data, running, "data 1 Filled"), "1 Filled 1"},
		"the pod is gone, and the claim waits":      {gather(data, nil, "data 1 Filled"), "1 Filled 1"},
		"a word that nobody knows":                  {gather(data, nil, "data 1 filled"), "1 Filled 1"},
		"it served, and never told":                 {gather(data, nil, "data 1 Served"), "1 Served 1"},
		"it served, and one of two is filled":       {gather(both, nil, "data 1 Served", "log 1 Filled"), "1 Filled 1"},
		"it served, and one of two was deleted":     {gather(both, nil, "data 1 Served of-both"), "1 Served 2"},
		"it was given up":                           {gather(data, nil, "data 1 Replaced"), "1 Replaced 1; orphan db-data-1"},
		"it was given up, and its pod is there":     {gather(data, running, "data 1 Replaced"), "1 Replaced 1"},
		"a crash left the record on one of two":     {gather(both, nil, "data 1 Filled", "log 1 Scaled"), "1 Scaled 1; orphan db-data-1; orphan db-log-1"},
		"one of two is filled":                      {gather(both, nil, "data 1 New", "log 1 Filled"), "1 Filled 1"},
		"one of two is not made yet":                {gather(both, nil, "data 1 New"), "1 New 2"},
		"one of two was deleted":                    {gather(both, nil, "data 1 Filled of-both"), "1 Filled 2"},
		"a template came later":                     {gather(both, nil, "data 1 Filled of-data"), "1 Filled 1"},
		"a template came later, and its claim":      {gather(both, nil, "data 1 Filled of-data", "log 1 New of-both"), "1 Filled 1"},
		"and was deleted since":                     {gather(both, nil, "data 1 Filled of-both"), "1 Filled 2"},
		"an earlier version: a template came later": {gather(both, nil, "data 1 Filled"), "1 Filled 1"},
		"an earlier version: and all were deleted":  {gather(both, []corev1.Pod{pod(corev1.PodRunning, "Filled")}), "1 Filled 2"},
		"a template is gone, and its claim deleted": {gather(data, nil, "data 1 Filled of-both"), "1 Filled 2"},
		"one is being deleted":                      {gather(both, running, "data 1 Filled", "log 1 Filled ending"), "1 Filled 3"},
		"both were deleted under a pod":             {gather(both, running), "1 Filled 2"},
		"no claims are wanted":                      {gather(none, []corev1.Pod{pod(corev1.PodRunning, "New")}), "1 New 0"},
		"no claims, and given up":                   {gather(none, []corev1.Pod{pod(corev1.PodRunning, "Replaced")}), "1 Replaced 0"},
		"an earlier version: running":               {gather(data, running, "data 1"), "1 Filled 1"},
		"an earlier version: pending":               {gather(data, []corev1.Pod{pod(corev1.PodPending, "")}, "data 1"), "1 New 1"},
		"an earlier version: an orphan stays one":   {gather(data, nil, "data 1"), "orphan db-data-1"},
		"an earlier version: not begun":             {gather(data, nil, "data 1 reserved"), "1 New 1"},
		"an earlier version: begun and gone":        {gather(data, nil, "data 1 reserved placed"), "orphan db-data-1"},
		"orphans, the newest first":                 {gather(data, nil, "data 1", "data 2 later", "data 3 ending"), "orphan db-data-2; orphan db-data-1"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %q, want %q", name, c.got, c.want)
		}
	}
}

// TestUnrecorded: what has a record, or a pod, or is being deleted, is known.
func TestUnrecorded(t *testing.T) {
	var claims []corev1.PersistentVolumeClaim
	for _, text := range []string{"data 1", "data 2 placed reserved", "data 3 reserved", "data 4 Replaced", "data 5 Filled", "data 6 ending", "data 7"} {
		claims = append(claims, claim(text))
	}
	pods := []corev1.Pod{pod(corev1.PodRunning, "")}
	if got := Unrecorded(Orphans(claims, Gather(pods, claims, naming("data")))); got != 2 {
		t.Errorf("%d, and nobody knows of 2 and 7", got)
	}
	if got := Unrecorded(Orphans(claims, Gather(nil, claims, naming("data")))); got != 3 {
		t.Errorf("%d, and nobody knows of 1, 2 and 7", got)
	}
}

// TestMade: what a claim was made of, and what is there, is on record together, and nothing is taken off.
func TestMade(t *testing.T) {
	for name, c := range map[string]struct {
		naming Naming
		claims []string
		want   string
	}{
		"by its record":                {naming("data", "log", "more"), []string{"data 1 Filled of-both"}, "data,log"},
		"a claim more":                 {naming("data", "log"), []string{"data 1 Filled of-data", "log 1 New of-both"}, "data,log"},
		"a claim more, not on record":  {naming("data", "log"), []string{"data 1 Filled of-data", "log 1 New"}, "data,log"},
		"an earlier version":           {naming("data", "log"), []string{"data 1 Filled"}, "data"},
		"a template that is not there": {naming("data"), []string{"data 1 Filled of-both"}, "data,log"},
	} {
		var claims []corev1.PersistentVolumeClaim
		for _, text := range c.claims {
			claims = append(claims, claim(text))
		}
		if got := strings.Join(Gather(nil, claims, c.naming)[0].Made, ","); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestGather_givenUp: when a replica was given up is read from whichever claim says so.
func TestGather_givenUp(t *testing.T) {
	claims := []corev1.PersistentVolumeClaim{claim("data 1 Scaled"), claim("log 1 Scaled"), claim("data 2 Scaled")}
	claims[1].Annotations[v1alpha1.AnnotationGivenUp] = noon.Format(time.RFC3339)
	claims[2].Annotations[v1alpha1.AnnotationGivenUp] = "yesterday"
	found := Gather(nil, claims, naming("data", "log"))
	if !found[0].GivenUp.Equal(noon) || !found[1].GivenUp.IsZero() {
		t.Errorf("%s, %s", found[0].GivenUp, found[1].GivenUp)
	}
}

// TestState_neverGoesBack: what was given up is given up, and what had data had it.
func TestState_neverGoesBack(t *testing.T) {
	for _, state := range []string{v1alpha1.ReplicaNew, v1alpha1.ReplicaServed, v1alpha1.ReplicaFilled, v1alpha1.ReplicaScaled, v1alpha1.ReplicaReplaced, v1alpha1.ReplicaRolled} {
		found := Gather(nil, []corev1.PersistentVolumeClaim{claim("data 1 " + state)}, naming("data"))
		if len(found) != 1 || found[0].State() != state {
			t.Fatalf("%s: %+v", state, found)
		}
		if given := found[0].Fate != replica.Fate(""); given && !found[0].Filled {
			t.Errorf("%s: nobody knows whether it had data", state)
		}
	}
}

// TestGather_adopted: once a claim says that its replica was adopted, what the others have on record does not count, and they belong to it.
func TestGather_adopted(t *testing.T) {
	of := func(name, uid, state, adopted string) corev1.PersistentVolumeClaim {
		c := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{v1alpha1.LabelIdentity: "1", v1alpha1.LabelStatefulClusterUID: uid},
			Annotations: map[string]string{v1alpha1.AnnotationReplicaState: state, v1alpha1.AnnotationClaims: "data,log", v1alpha1.AnnotationGivenUp: "2030-01-01T00:00:00Z"},
		}}
		if adopted != "" {
			c.Annotations[v1alpha1.AnnotationAdopted] = adopted
			delete(c.Annotations, v1alpha1.AnnotationGivenUp)
		}
		return c
	}
	n := naming("data", "log")
	n.UID = "new"
	for name, tc := range map[string]struct {
		claims []corev1.PersistentVolumeClaim
		want   string
	}{
		"of a deleted one, not begun":            {[]corev1.PersistentVolumeClaim{of("db-data-1", "old", "Filled", ""), of("db-log-1", "old", "Filled", "")}, ""},
		"of a deleted one, half":                 {[]corev1.PersistentVolumeClaim{of("db-data-1", "new", "Served", "new"), of("db-log-1", "old", "Replaced", "")}, "1 Served true whole: true"},
		"its own, half":                          {[]corev1.PersistentVolumeClaim{of("db-data-1", "new", "Replaced", ""), of("db-log-1", "new", "Served", "new")}, "1 Served true whole: true"},
		"both, and given up again on one":        {[]corev1.PersistentVolumeClaim{of("db-data-1", "new", "Filled", "new"), of("db-log-1", "new", "Replaced", "new")}, "1 Replaced true whole: true"},
		"adopted by one that is gone, and after": {[]corev1.PersistentVolumeClaim{of("db-data-1", "new", "Replaced", "old"), of("db-log-1", "new", "Filled", "old")}, "1 Replaced false whole: true"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, i := range Gather(nil, n.Of(tc.claims), n) {
				got += fmt.Sprintf("%s %s %t whole: %t", i.Name, i.State(), i.Adopted, i.Whole == replica.ClaimsWhole)
				if i.Adopted && !i.GivenUp.IsZero() {
					t.Errorf("given up at %v", i.GivenUp)
				}
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestHeld: what was given up, or is of no StatefulCluster that wants replicas, is not waited for.
func TestHeld(t *testing.T) {
	claim := func(edit func(*corev1.PersistentVolumeClaim)) corev1.PersistentVolumeClaim {
		c := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{v1alpha1.LabelStatefulClusterUID: "uid"}, Annotations: map[string]string{v1alpha1.AnnotationReplicaState: v1alpha1.ReplicaFilled},
		}}
		c.Spec.VolumeName = "pv"
		edit(&c)
		return c
	}
	for name, c := range map[string]struct {
		claim corev1.PersistentVolumeClaim
		want  int
	}{
		"it has the data": {claim(func(*corev1.PersistentVolumeClaim) {}), 1},
		"it was given up": {claim(func(c *corev1.PersistentVolumeClaim) {
			c.Annotations[v1alpha1.AnnotationReplicaState] = v1alpha1.ReplicaReplaced
		}), 0},
		"nothing is on record":         {claim(func(c *corev1.PersistentVolumeClaim) { c.Annotations = nil }), 0},
		"it has no volume":             {claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "" }), 0},
		"somebody deletes it":          {claim(func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = new(metav1.Now()) }), 0},
		"it is of one that wants none": {claim(func(c *corev1.PersistentVolumeClaim) { c.Labels[v1alpha1.LabelStatefulClusterUID] = "other" }), 0},
	} {
		if got := Held([]corev1.PersistentVolumeClaim{c.claim}, func(uid string) bool { return uid == "uid" }); len(got) != c.want {
			t.Errorf("%s: %d", name, len(got))
		}
	}
}
