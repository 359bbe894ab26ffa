package pin

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOfVolume(t *testing.T) {
	now := metav1.Now()
	type pair struct {
		c *corev1.PersistentVolumeClaim
		v *corev1.PersistentVolume
	}
	for name, c := range map[string]struct {
		change func(p pair)
		known  bool
	}{
		"both name each other":                 {func(pair) {}, true},
		"the source is not bound":              {func(p pair) { p.c.Status.Phase = corev1.ClaimPending }, false},
		"the source is being deleted":          {func(p pair) { p.c.DeletionTimestamp = &now }, false},
		"the source has another volume":        {func(p pair) { p.c.Spec.VolumeName = "other" }, false},
		"the volume is of no claim":            {func(p pair) { p.v.Spec.ClaimRef = nil }, false},
		"the volume is of another claim":       {func(p pair) { p.v.Spec.ClaimRef.Name = "other" }, false},
		"the volume is of another namespace's": {func(p pair) { p.v.Spec.ClaimRef.Namespace = "other" }, false},
		"the volume has no driver":             {func(p pair) { p.v.Spec.CSI = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := pair{&corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}}
			p.c.Namespace, p.c.Name, p.c.Spec.VolumeName, p.c.Status.Phase = "ns", "origin", "pv", corev1.ClaimBound
			p.v.Name, p.v.Spec.ClaimRef = "pv", &corev1.ObjectReference{Namespace: "ns", Name: "origin"}
			p.v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}
			c.change(p)
			want := Origin{}
			if c.known {
				want = Origin{Driver: "d", Handle: "h"}
			}
			if got := OfVolume(p.c, p.v); got != want {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestOfSnapshot(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Snapshot, *Content)
		known  bool
	}{
		"both name each other":                  {func(*Snapshot, *Content) {}, true},
		"the snapshot cannot be used yet":       {func(s *Snapshot, _ *Content) { s.Ready = false }, false},
		"the snapshot is being deleted":         {func(s *Snapshot, _ *Content) { s.Deleting = true }, false},
		"the snapshot has no content":           {func(s *Snapshot, c *Content) { s.Content, c.Name = "", "" }, false},
		"the snapshot has another content":      {func(s *Snapshot, _ *Content) { s.Content = "other" }, false},
		"the content is of an earlier snapshot": {func(_ *Snapshot, c *Content) { c.Of.UID = "old" }, false},
		"the content is of another one":         {func(_ *Snapshot, c *Content) { c.Of.Name = "other" }, false},
		"the content is of another namespace's": {func(_ *Snapshot, c *Content) { c.Of.Namespace = "other" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := Snapshot{Namespace: "ns", Name: "s", UID: "u", Ready: true, Content: "c"}
			content := Content{Name: "c", Driver: "d", Handle: "h"}
			content.Of.Namespace, content.Of.Name, content.Of.UID = "ns", "s", "u"
			c.change(&s, &content)
			want := Origin{}
			if c.known {
				want = Origin{Driver: "d", Handle: "h"}
			}
			if got := OfSnapshot(s, content); got != want {
				t.Errorf("got %+v", got)
			}
		})
	}
}
