package noted

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestTakesUp: which Ceph cluster a Cluster has is on record once it has begun, whatever its spec says later. Before the keys were found nothing of another one is its own.
func TestTakesUp(t *testing.T) {
	const uid, earlier, third = "11111111-2222-4333-8444-555555555555", "22222222-2222-4333-8444-555555555555", "33333333-2222-4333-8444-555555555555"
	keys, taken := v1alpha1.AnnotationCephKeys, v1alpha1.AnnotationCephTakenUp
	for name, tt := range map[string]struct {
		spec                  string
		record                map[string]string
		fsid                  string
		formed, served, begun bool
	}{
		"it makes its own":                       {"", nil, uid, false, false, false},
		"it has its own":                         {"", map[string]string{keys: uid, v1alpha1.AnnotationCephFormed: uid, v1alpha1.AnnotationCephServed: uid}, uid, true, true, true},
		"it is to take one up":                   {earlier, nil, earlier, true, false, false},
		"it ended before the keys were used":     {earlier, map[string]string{taken: uid + "/" + earlier}, earlier, true, false, false},
		"it has begun":                           {earlier, map[string]string{taken: uid + "/" + earlier, keys: uid}, earlier, true, true, true},
		"the spec names another one since":       {third, map[string]string{taken: uid + "/" + earlier, keys: uid}, earlier, true, true, true},
		"the spec names one, and it has its own": {earlier, map[string]string{keys: uid}, uid, false, false, true},
		"a restore forgot all of its own":        {uid, nil, uid, true, false, false},
		"a restore forgot its own monitors":      {uid, map[string]string{keys: uid}, uid, true, true, true},
		"its own monitors were seen":             {uid, map[string]string{keys: uid, v1alpha1.AnnotationCephFormed: uid}, uid, true, false, true},
		"its own was taken up":                   {"", map[string]string{taken: uid + "/" + uid, keys: uid}, uid, true, true, true},
		"a manifest brought a record along":      {"", map[string]string{taken: third + "/" + earlier, keys: third}, uid, false, false, false},
	} {
		c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{UID: uid, Annotations: tt.record}, Spec: v1alpha1.ClusterSpec{Ceph: &v1alpha1.CephSpec{}}}
		if tt.spec != "" {
			c.Spec.Ceph.TakeUp = &v1alpha1.CephTakeUp{FSID: tt.spec}
		}
		if got := c.FSID(); got != tt.fsid || Formed(c) != tt.formed || Served(c) != tt.served || Begun(c) != tt.begun {
			t.Errorf("%s: FSID %s, formed %t, served %t, begun %t", name, got, Formed(c), Served(c), Begun(c))
		}
	}
}
