package adopt

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// keptClaim is a claim of a replica of a deleted StatefulCluster db.
func keptClaim(template, identity string, change ...func(*corev1.PersistentVolumeClaim)) corev1.PersistentVolumeClaim {
	c := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name:        "db-" + template + "-" + identity,
		Labels:      map[string]string{v1alpha1.LabelStatefulCluster: "db", v1alpha1.LabelStatefulClusterUID: "old", v1alpha1.LabelIdentity: identity},
		Annotations: map[string]string{v1alpha1.AnnotationReplicaState: v1alpha1.ReplicaFilled, v1alpha1.AnnotationClaims: template},
	}}
	c.Spec.StorageClassName, c.Spec.VolumeName = new("fast"), "pv"
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	c.Status.Phase = corev1.ClaimBound
	for _, f := range change {
		f(&c)
	}
	return c
}

func inputOf(named string, claims ...corev1.PersistentVolumeClaim) Input {
	template := keptClaim("data", "x").Spec
	template.VolumeName = ""
	return Input{
		Owner: "db", UID: "uid", Named: strings.Fields(named), Claims: claims, Live: map[string]bool{}, Users: map[string]string{},
		Templates: map[string]corev1.PersistentVolumeClaimSpec{"data": template, "log": template},
		ClaimName: func(template, identity string) string { return "db-" + template + "-" + identity },
	}
}

func TestChoose_adopts(t *testing.T) {
	both := func(c *corev1.PersistentVolumeClaim) { c.Annotations[v1alpha1.AnnotationClaims] = "data,log" }
	for name, tc := range map[string]struct {
		named  string
		claims []corev1.PersistentVolumeClaim
		change func(*Input)
		// want is the identity, and how many claims it has.
		want  string
		count int
		says  string
	}{
		"nothing is named": {claims: []corev1.PersistentVolumeClaim{keptClaim("data", "a")}},
		"the first that is named": {
			named: "db-data-b db-data-a", claims: []corev1.PersistentVolumeClaim{keptClaim("data", "a"), keptClaim("data", "b")}, want: "b", count: 1,
		},
		"one that was adopted is not adopted again": {
			named: "db-data-a db-data-b", want: "b", count: 1, says: "db-data-a of spec.adopt cannot be adopted: its replica was adopted before, and given up since",
			claims: []corev1.PersistentVolumeClaim{
				keptClaim("data", "a", func(c *corev1.PersistentVolumeClaim) { c.Annotations[v1alpha1.AnnotationAdopted] = "uid" }), keptClaim("data", "b"),
			},
		},
		"one that another StatefulCluster adopted is": {
			named: "db-data-a", want: "a", count: 1,
			claims: []corev1.PersistentVolumeClaim{keptClaim("data", "a", func(c *corev1.PersistentVolumeClaim) { c.Annotations[v1alpha1.AnnotationAdopted] = "old" })},
		},
		"one of a replica that is there is not": {
			named: "db-data-a", claims: []corev1.PersistentVolumeClaim{keptClaim("data", "a")}, change: func(in *Input) { in.Live["a"] = true },
		},
		"all claims of a replica": {
			named: "db-log-a db-data-a", claims: []corev1.PersistentVolumeClaim{keptClaim("data", "a", both), keptClaim("log", "a", both)}, want: "a", count: 2,
		},
		"a second claim that is not named": {
			named: "db-data-a", claims: []corev1.PersistentVolumeClaim{keptClaim("data", "a", both), keptClaim("log", "a", both)}, says: "Claim db-log-a of spec.adopt cannot be adopted: it is of the same replica",
		},
		"a second claim that is gone": {
			named: "db-data-a", claims: []corev1.PersistentVolumeClaim{keptClaim("data", "a", both)}, says: "another claim, of the template log",
		},
		"one that is refused does not hold up the next": {
			named: "db-data-z db-data-b", claims: []corev1.PersistentVolumeClaim{keptClaim("data", "b")}, want: "b", count: 1, says: "db-data-z of spec.adopt cannot be adopted: there is no claim",
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := inputOf(tc.named, tc.claims...)
			if tc.change != nil {
				tc.change(&in)
			}
			got := Choose(in)
			if got.Identity != tc.want || len(got.Claims) != tc.count || !strings.Contains(got.Text(), tc.says) || tc.says == "" && len(got.Refused) > 0 {
				t.Errorf("got %q with %d claims, %s", got.Identity, len(got.Claims), got.Text())
			}
		})
	}
}

// TestChoose_refused: each property that makes a claim unfit refuses it alone.
func TestChoose_refused(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*corev1.PersistentVolumeClaim)
		users   map[string]string
		says    string
		passing bool
	}{
		"no identity":      {change: func(c *corev1.PersistentVolumeClaim) { delete(c.Labels, v1alpha1.LabelIdentity) }, says: "no label quarry.storage/identity"},
		"another identity": {change: func(c *corev1.PersistentVolumeClaim) { c.Labels[v1alpha1.LabelIdentity] = "b" }, says: "not called after a claim template and the identity b"},
		"no UID":           {change: func(c *corev1.PersistentVolumeClaim) { delete(c.Labels, v1alpha1.LabelStatefulClusterUID) }, says: "no label quarry.storage/statefulcluster-uid"},
		"an end":           {change: func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = new(metav1.Now()) }, says: "being deleted"},
		"no volume":        {change: func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "" }, says: "no volume"},
		"a lost volume":    {change: func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }, says: "no volume"},
		"an owner": {change: func(c *corev1.PersistentVolumeClaim) {
			c.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulCluster", Name: "db", UID: "old"}}
		}, says: "goes with StatefulCluster db"},
		"another class":   {change: func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("slow") }, says: `StorageClass is "slow"`},
		"no class":        {change: func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }, says: `StorageClass is ""`},
		"another mode":    {change: func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) }, says: "volume mode is Block"},
		"no access":       {change: func(c *corev1.PersistentVolumeClaim) { c.Spec.AccessModes = nil }, says: "lacks the access mode ReadWriteOnce"},
		"a pod that uses": {users: map[string]string{"db-data-a": "backup"}, says: "pod backup uses it", passing: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := keptClaim("data", "a")
			if tc.change != nil {
				tc.change(&c)
			}
			in := inputOf("db-data-a", c)
			in.Users = tc.users
			got := Choose(in)
			if got.Identity != "" || len(got.Refused) != 1 || !strings.Contains(got.Text(), tc.says) || got.Refused[0].Passing != tc.passing {
				t.Errorf("%+v", got)
			}
			if got.Stops(false) == "" || (got.Stops(true) != "") != tc.passing {
				t.Errorf("stops %q, and %q once the data is known", got.Stops(false), got.Stops(true))
			}
		})
	}
	mine := keptClaim("data", "a", func(c *corev1.PersistentVolumeClaim) {
		c.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulCluster", Name: "db", UID: "uid"}}
	})
	if got := Choose(inputOf("db-data-a", mine)); got.Identity != "a" || got.Stops(false) != "" {
		t.Errorf("%+v", got)
	}
}
