package nfs

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedvolume"
)

const (
	// compareEvery is how often what PersistentVolumes name is compared with the share, and compareRatio how many times as long as a round takes it is until
	// the next one.
	compareEvery = time.Minute
	compareRatio = 50
	// hurryRatio is the same while something is missing, or was not looked for yet.
	hurryRatio = 10
	// compareMost and hurryMost bound both: a machine may have stood still in a round.
	compareMost = time.Hour
	hurryMost   = 10 * time.Minute
	// compareStands is how long the result stands for a volume that nobody can look for.
	compareStands = 15 * time.Minute
)

// Compared is what is known of the volumes that PersistentVolumes name. It is learnt in rounds, each of which may take several looks.
type Compared struct {
	// found has each volume that was looked for, by the name of its PersistentVolume.
	found map[string]found
	// at is when something was asked last, took how long the last round took, spent how long this one has.
	at          time.Time
	took, spent time.Duration
	// problem says why some records could not be read in this round, or in the last one; empty when all could.
	problem string
	// next is where the round goes on: the first question has this key or a later one, and its records were read up to the token.
	next, token string
}

// found is one volume as it was found.
type found struct {
	// why it cannot be used; empty when it can. sure is true once it was found so twice: a volume that is deleted goes before its PersistentVolume, which is read
	// before the share is.
	why  string
	sure bool
	at   time.Time
}

// due reports whether something is to be asked after a look: the rest of a round after each, and what is missing, too, unless a round takes long.
func (c *Compared) due(expected []backend.Volume, look, now time.Time) bool {
	if c == nil || now.Before(c.at) {
		return true
	}
	since := now.Sub(c.at)
	missing := slices.ContainsFunc(expected, func(volume backend.Volume) bool {
		f, known := c.found[volume.Name]
		return !known || f.why != ""
	})
	return since >= min(compareMost, max(compareEvery, compareRatio*c.took)) ||
		look.After(c.at) && (c.next != "" || (missing || c.problem != "") && since >= min(hurryMost, hurryRatio*c.took))
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
	out := &Compared{found: map[string]found{}}
	if c != nil {
		out.found, out.took, out.spent = maps.Clone(c.found), c.took, c.spent
		if c.next != "" {
			out.problem = c.problem
		}
	}
	out.at = at
	out.next, out.token = a.Question.key(), a.Next
	if a.Next == "" {
		out.next += "\x00" // Behind this one.
	}
	if a.Failed != "" {
		// The others are asked all the same.
		out.problem = a.Failed
		return out
	}
	out.spent += took
	records := map[string]sharedvolume.Directory{}
	for _, d := range a.Records {
		records[d.Name] = d
	}
	for _, volume := range a.Question.Volumes {
		id, err := sharedvolume.Parse(volume.Handle)
		if err != nil || id.Name <= a.After || a.Next != "" && id.Name > a.Next {
			continue
		}
		f, before := found{why: a.Refused, at: at}, out.found[volume.Name]
		if a.Refused == "" {
			d, recorded := records[id.Name]
			f.why = unusable(volume, d, recorded)
		}
		f.sure = f.why != "" && before.why != ""
		out.found[volume.Name] = f
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
func unusable(volume backend.Volume, d sharedvolume.Directory, recorded bool) string {
	directory := volume.Attributes[sharedvolume.KeyDirectory]
	switch {
	case d.Problem != "":
		return d.Problem
	case !recorded:
		return fmt.Sprintf("the share has no record of it, its directory was %q", directory)
	case d.State != sharedvolume.Made:
		return fmt.Sprintf("its directory %q is %s", d.Directory, d.State)
	case d.Directory != directory:
		return fmt.Sprintf("the share has directory %q on record, and the PersistentVolume %q", d.Directory, directory)
	}
	return ""
}

// afterProblem returns what is still known once a share could not be looked at. The server may come back with another state; an agent that is away says nothing of it.
func (c *Compared) afterProblem(p *sharedvolume.Problem) *Compared {
	own := []string{v1alpha1.ReasonNoAgent, v1alpha1.ReasonAgentUnreachable, sharedvolume.ReasonTooManyCalls}
	if c == nil || slices.Contains(own, p.Reason) {
		return c
	}
	out := *c
	out.found = map[string]found{}
	return &out
}
