package nfs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// maxMissing is how many volumes are named, each with its reason.
const maxMissing = 5

// Question asks which volumes of one owner can be used. There are several where PersistentVolumes name the UID of an earlier Nfs, or another identity
// of the share.
type Question struct {
	Share   sharedvolume.Share
	Volumes []backend.Volume
}

// key tells questions apart and orders them.
func (q Question) key() string {
	return q.Share.Owner + " " + q.Share.ID + " " + sharedvolume.Source(q.Share.Server, q.Share.Path)
}

// HasVolumes reports whether a PersistentVolume names the Nfs by its UID: then its records are on the share.
func HasVolumes(n *v1alpha1.Nfs, w backend.World) bool {
	for _, at := range w.Volumes {
		for _, v := range at {
			if id, err := sharedvolume.Parse(v.Handle); err == nil && id.Owner == string(n.UID) {
				return true
			}
		}
	}
	return false
}

// expected are the PersistentVolumes whose volumes have to be there, ordered, and those that do not say where that is, with the reason.
func (v *View) expected() (out []backend.Volume, silent []string) {
	for _, at := range v.world.Volumes {
		for _, volume := range at {
			if !volume.Expected {
				continue
			}
			if _, err := v.shareOf(volume); err != nil {
				silent = append(silent, fmt.Sprintf("%s: the PersistentVolume does not say where it is: %v", volume, err))
				continue
			}
			out = append(out, volume)
		}
	}
	slices.SortFunc(out, func(a, b backend.Volume) int { return cmp.Compare(a.Name, b.Name) })
	slices.Sort(silent)
	return out, silent
}

// Questions returns what has to be asked now, in order, and how far the records of the first one were read in this round. Nothing is asked while the share
// cannot be reached. What is missing, or was never looked for, is looked for more often than what was there.
func (v *View) Questions(now time.Time) (ask []Question, token string) {
	if v.look.Report.Problem != nil || v.look.At.IsZero() {
		return nil, ""
	}
	expected, _ := v.expected()
	if len(expected) == 0 || !v.compared.due(expected, v.look.At, now) {
		return nil, ""
	}
	byKey := map[string]*Question{}
	for _, volume := range expected {
		share, err := v.shareOf(volume)
		if err != nil {
			continue
		}
		q := Question{Share: share}
		if byKey[q.key()] == nil {
			byKey[q.key()] = &q
		}
		byKey[q.key()].Volumes = append(byKey[q.key()].Volumes, volume)
	}
	next := ""
	if v.compared != nil {
		next, token = v.compared.next, v.compared.token
	}
	keys := slices.Sorted(maps.Keys(byKey))
	if len(keys) > 0 && keys[len(keys)-1] < next {
		next = "" // What was left of the round is on record no more.
	}
	for _, key := range keys {
		if key >= next {
			ask = append(ask, *byKey[key])
		}
	}
	if len(ask) == 0 || ask[0].key() != next {
		token = ""
	}
	return ask, token
}

// shareOf returns the share that a PersistentVolume names, as it was recorded. If it is that of the Nfs, the mount options are those of now.
func (v *View) shareOf(volume backend.Volume) (sharedvolume.Share, error) {
	id, err := sharedvolume.Parse(volume.Handle)
	if err != nil {
		return sharedvolume.Share{}, err
	}
	a, err := sharedvolume.ParseAttributes(volume.Attributes)
	if err != nil {
		return sharedvolume.Share{}, err
	}
	s, now := Recorded(id.Owner, a), ShareOf(v.nfs)
	if s.Server == now.Server && s.Path == now.Path {
		s.MountOptions = now.MountOptions
	}
	return s, nil
}

// WithCompared returns the view with what is known of the volumes at a time. What no PersistentVolume names any more is forgotten.
func (v *View) WithCompared(c *Compared, now time.Time) *View {
	kept := *c
	kept.found = map[string]found{}
	expected, _ := v.expected()
	for _, volume := range expected {
		if f, known := c.found[volume.Name]; known {
			kept.found[volume.Name] = f
		}
	}
	out := *v
	out.compared, out.now = &kept, now
	return &out
}

// Compared returns what is known of the volumes; nil while nothing is.
func (v *View) Compared() *Compared { return v.compared }

// missing names the PersistentVolumes whose volumes no pod can use, with the reasons. It counts those of which nothing is certain yet, and those that nobody could look
// for since long.
func (v *View) missing(expected []backend.Volume) (missing []string, pending, stale int) {
	for _, volume := range expected {
		var f found
		if v.compared != nil {
			f = v.compared.found[volume.Name]
		}
		switch {
		case f.sure:
			missing = append(missing, fmt.Sprintf("%s: %s", volume, f.why))
		case f.at.IsZero(), f.why != "":
			pending++
		case v.compared.problem != "" && v.now.Sub(f.at) >= compareStands:
			stale++
		}
	}
	return missing, pending, stale
}

// volumesPresent names the PersistentVolumes whose volumes no pod can use, as after records or directories were removed on the server, after the server came
// back older than it was, and after a backup of the API server brought back the object of a volume that was deleted. While nobody can look for them, what was
// said of them stands for a while.
func (v *View) volumesPresent() metav1.Condition {
	const t = v1alpha1.ConditionVolumesPresent
	expected, silent := v.expected()
	missing, pending, stale := v.missing(expected)
	missing = append(missing, silent...)
	before := meta.FindStatusCondition(v.nfs.Status.Conditions, t)
	switch {
	case len(missing) > 0:
		return backend.Condition(t, metav1.ConditionFalse, v1alpha1.ReasonVolumesMissing, fmt.Sprintf("No pod can use volumes that PersistentVolumes name: %s. "+
			"Nothing is made in their place. Bring the share back as it was, or delete the claims.", backend.Shorten(missing, maxMissing)))
	case pending > 0 && stale == 0 && before != nil && before.Status != metav1.ConditionUnknown:
		return *before
	case pending+stale > 0:
		text := fmt.Sprintf("Nobody knows yet whether %d volumes that PersistentVolumes name are on the share.", pending+stale)
		if v.compared != nil && v.compared.problem != "" {
			text += " " + v.compared.problem
		}
		return backend.Condition(t, metav1.ConditionUnknown, v1alpha1.ReasonPending, text)
	case len(expected) == 0:
		return backend.Condition(t, metav1.ConditionTrue, v1alpha1.ReasonVolumesPresent, "No volume is known to be missing.")
	}
	return backend.Condition(t, metav1.ConditionTrue, v1alpha1.ReasonVolumesPresent, "Every volume that a PersistentVolume names is on the share.")
}
