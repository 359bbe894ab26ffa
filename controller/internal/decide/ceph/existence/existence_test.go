package existence

import (
	"strings"
	"testing"
)

// TestOf: what carries an OSD, or names a volume, proves that the Ceph cluster exists, and whatever nobody can tell leaves a doubt. A person's consent to a wipe settles only that nobody can tell what is on a disk which is on no record.
func TestOf(t *testing.T) {
	up, looked := Host{Name: "n1", Known: true, Up: true}, Sign{Node: "n1", Path: "/dev/sdb", Looked: true}
	sign := func(change func(*Sign)) []Sign {
		s := looked
		change(&s)
		return []Sign{s}
	}
	for name, tt := range map[string]struct {
		evidence     Evidence
		proof, doubt string
		wipes        bool
	}{
		"nothing":                          {Evidence{Hosts: []Host{up}}, "", "", false},
		"a disk that carries none":         {Evidence{Hosts: []Host{up}, Signs: sign(func(*Sign) {})}, "", "", false},
		"a disk that carries one":          {Evidence{Hosts: []Host{up}, Signs: sign(func(s *Sign) { s.Carries = "x" })}, "disk /dev/sdb of n1 carries an OSD", "", false},
		"it is kept out all the same":      {Evidence{Hosts: []Host{up}, Signs: sign(func(s *Sign) { s.Carries, s.Kept = "x", true })}, "carries an OSD", "", false},
		"it is on record":                  {Evidence{Hosts: []Host{up}, Signs: sign(func(s *Sign) { s.Carries, s.Recorded = "x", true })}, "carries an OSD", "", false},
		"a PersistentVolume":               {Evidence{Named: true}, "PersistentVolumes name volumes", "", false},
		"nobody has looked":                {Evidence{Hosts: []Host{up}, Signs: sign(func(s *Sign) { s.Looked = false })}, "", "has not said what is on disk /dev/sdb", false},
		"its agent cannot say":             {Evidence{Hosts: []Host{up}, Signs: sign(func(s *Sign) { s.Blind = true })}, "", "of an earlier version", false},
		"nobody can tell":                  {Evidence{Hosts: []Host{up}, Signs: sign(func(s *Sign) { s.Unclear, s.Why = true, "Damaged." })}, "", "may carry an OSD of it. Damaged. Clear it", true},
		"nobody can tell, and it is kept":  {Evidence{Hosts: []Host{up}, Signs: sign(func(s *Sign) { s.Unclear, s.Kept = true, true })}, "", "", false},
		"nobody can tell, and on record":   {Evidence{Hosts: []Host{up}, Signs: sign(func(s *Sign) { s.Unclear, s.Recorded = true, true })}, "", "is on record, and may carry an OSD", false},
		"a host that does not answer":      {Evidence{Hosts: []Host{up, {Name: "n2", Known: true}}}, "", "the agent of n2 does not answer", false},
		"a host that leaves":               {Evidence{Hosts: []Host{up, {Name: "n2", Known: true, Leaving: true}}}, "", "", false},
		"a host that is no node":           {Evidence{Hosts: []Host{up, {Name: "n2"}}}, "", "host n2 is no node of Kubernetes", false},
		"a node that is gone, and answers": {Evidence{Hosts: []Host{{Name: "n2", Up: true}}}, "", "", false},
		"no host":                          {Evidence{}, "", "no host yet", false},
		"a doubt that no consent settles": {
			Evidence{Hosts: []Host{{Name: "n2", Known: true}}, Signs: sign(func(s *Sign) { s.Unclear = true })}, "", "the agent of n2 does not answer", false,
		},
		"a proof after a doubt": {Evidence{Hosts: []Host{up}, Signs: append(sign(func(s *Sign) { s.Looked = false }), sign(func(s *Sign) { s.Carries = "x" })...)}, "carries an OSD", "", false},
	} {
		got := Of(tt.evidence)
		if got.Wipes != tt.wipes || (got.Proof == "") != (tt.proof == "") || (got.Doubt == "") != (tt.doubt == "") || !strings.Contains(got.Proof, tt.proof) || !strings.Contains(got.Doubt, tt.doubt) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
