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

const (
	// compareEvery is how often what PersistentVolumes name is compared with the share, and compareShare which part of the time that may take.
	compareEvery = time.Minute
	compareShare = 50
	// maxMissing is how many volumes are named, each with its reason.
	maxMissing = 5
)

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

// Compared is what is known of the volumes that PersistentVolumes name. It is learnt in rounds, each of which may take several looks.
type Compared struct {
	// gone says of each volume that was looked for, by its handle, why it cannot be used; empty when it can.
	gone map[string]string
	// at is when something was asked last, took how long the last round took, spent how long this one has.
	at          time.Time
	took, spent time.Duration
	// problem says why the last page could not be read; empty when it could.
	problem string
	// next is where the round goes on: the first question has this key or a later one, and its records were read up to the token.
	next, token string
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

// expected are the PersistentVolumes whose volumes have to be there, ordered.
func (v *View) expected() (out []backend.Volume) {
	for _, at := range v.world.Volumes {
		for _, volume := range at {
			if volume.Expected {
				out = append(out, volume)
			}
		}
	}
	slices.SortFunc(out, func(a, b backend.Volume) int { return cmp.Compare(a.Handle, b.Handle) })
	return out
}

// Questions returns what has to be asked now, in order, and how far the records of the first one were read in this round. Nothing is asked while the share
// cannot be reached. What is missing, or was never looked for, is looked for at every look; a volume that is there, once in a while.
func (v *View) Questions(now time.Time) (ask []Question, token string) {
	if v.look.Report.Problem != nil || v.look.At.IsZero() {
		return nil, ""
	}
	expected := v.expected()
	if len(expected) == 0 || !v.compared.due(expected, now) {
		return nil, ""
	}
	byKey := map[string]*Question{}
	for _, volume := range expected {
		share, err := v.shareOf(volume)
		if err != nil {
			continue // missing says so.
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

// shareOf returns the share that a PersistentVolume names, as it was recorded, with the mount options of now.
func (v *View) shareOf(volume backend.Volume) (sharedvolume.Share, error) {
	id, err := sharedvolume.Parse(volume.Handle)
	if err != nil {
		return sharedvolume.Share{}, err
	}
	a, err := sharedvolume.ParseAttributes(volume.Attributes)
	if err != nil {
		return sharedvolume.Share{}, err
	}
	s := Recorded(id.Owner, a)
	s.MountOptions = ShareOf(v.nfs).MountOptions
	return s, nil
}

func (c *Compared) due(expected []backend.Volume, now time.Time) bool {
	if c == nil || now.Before(c.at) {
		return true
	}
	wait := max(compareEvery, compareShare*c.took)
	for _, volume := range expected {
		if why, known := c.gone[volume.Handle]; !known || why != "" {
			wait = max(Every, c.took)
		}
	}
	if c.next != "" {
		wait = Every
	}
	return now.Sub(c.at) >= wait
}

// Answer is what one page of records says of the volumes of a question.
type Answer struct {
	Question Question
	// After and Next are the tokens of the page: it has the names behind After, up to Next; to the end where that is empty.
	After, Next string
	Records     []sharedvolume.Directory
	// Refused says why the share has no record of the owner: it is another share, or lacks them. Failed says why nobody can tell now.
	Refused, Failed string
}

// Add returns what is known after an answer that came at a time, and took so long.
func (c *Compared) Add(a Answer, at time.Time, took time.Duration) *Compared {
	out := &Compared{gone: map[string]string{}}
	if c != nil {
		out.gone, out.took, out.spent = maps.Clone(c.gone), c.took, c.spent
	}
	out.at, out.spent, out.problem = at, out.spent+took, a.Failed
	out.next, out.token = a.Question.key(), a.Next
	switch {
	case a.Failed != "":
		out.token = a.After
		return out
	case a.Next == "":
		out.next += "\x00" // Behind this one.
	}
	records := map[string]sharedvolume.Directory{}
	for _, d := range a.Records {
		records[d.Name] = d
	}
	for _, volume := range a.Question.Volumes {
		id, err := sharedvolume.Parse(volume.Handle)
		if err != nil || id.Name <= a.After || a.Next != "" && id.Name > a.Next {
			continue
		}
		if out.gone[volume.Handle] = a.Refused; a.Refused == "" {
			d, found := records[id.Name]
			out.gone[volume.Handle] = unusable(volume, d, found)
		}
	}
	return out
}

// End returns what is known at the end of a round.
func (c *Compared) End() *Compared {
	out := *c
	out.took, out.spent, out.next, out.token = c.spent, 0, "", ""
	return &out
}

// unusable says why no pod can use a volume; empty when pods can.
func unusable(volume backend.Volume, d sharedvolume.Directory, found bool) string {
	directory := volume.Attributes[sharedvolume.KeyDirectory]
	switch {
	case !found:
		return fmt.Sprintf("the share has no record of it, its directory was %q", directory)
	case d.State != sharedvolume.Made:
		return fmt.Sprintf("its directory %q is %s", d.Directory, d.State)
	case d.Directory != directory:
		return fmt.Sprintf("the share has directory %q on record, and the PersistentVolume %q", d.Directory, directory)
	}
	return d.Problem
}

// WithCompared returns the view with what is known of the volumes. What no PersistentVolume names any more is forgotten.
func (v *View) WithCompared(c *Compared) *View {
	kept := *c
	kept.gone = map[string]string{}
	for _, volume := range v.expected() {
		if why, known := c.gone[volume.Handle]; known {
			kept.gone[volume.Handle] = why
		}
	}
	out := *v
	out.compared = &kept
	return &out
}

// Compared returns what is known of the volumes; nil while nothing is.
func (v *View) Compared() *Compared { return v.compared }

// volumesPresent names the PersistentVolumes whose volumes no pod can use, as after records or directories were removed on the server, after the server came
// back older than it was, and after a backup of the API server brought back the object of a volume that was deleted. While nobody can look for them, what was
// said of them stands.
func (v *View) volumesPresent() metav1.Condition {
	const t = v1alpha1.ConditionVolumesPresent
	expected := v.expected()
	var missing []string
	unknown := 0
	for _, volume := range expected {
		if _, err := v.shareOf(volume); err != nil {
			missing = append(missing, fmt.Sprintf("%s: the PersistentVolume does not say where it is: %v", volume, err))
			continue
		}
		why, known := "", false
		if v.compared != nil {
			why, known = v.compared.gone[volume.Handle]
		}
		switch {
		case !known:
			unknown++
		case why != "":
			missing = append(missing, fmt.Sprintf("%s: %s", volume, why))
		}
	}
	before := meta.FindStatusCondition(v.nfs.Status.Conditions, t)
	switch {
	case len(missing) > 0:
		return backend.Condition(t, metav1.ConditionFalse, v1alpha1.ReasonVolumesMissing, fmt.Sprintf("No pod can use volumes that PersistentVolumes name: %s. "+
			"Nothing is made in their place. Bring the share back as it was, or delete the claims.", backend.Shorten(missing, maxMissing)))
	case unknown > 0 && before != nil:
		return *before
	case unknown > 0:
		text := "Nobody has looked yet whether the volumes that PersistentVolumes name are on the share."
		if v.compared != nil && v.compared.problem != "" {
			text += " " + v.compared.problem
		}
		return backend.Condition(t, metav1.ConditionUnknown, v1alpha1.ReasonPending, text)
	case len(expected) == 0:
		return backend.Condition(t, metav1.ConditionTrue, v1alpha1.ReasonVolumesPresent, "No volume is known to be missing.")
	}
	return backend.Condition(t, metav1.ConditionTrue, v1alpha1.ReasonVolumesPresent, "Every volume that a PersistentVolume names is on the share.")
}
