package replica

// Summary counts the replicas that are not being deleted.
type Summary struct {
	Live, Ready, Available, Updated int
	// Revisions counts the live replicas by the template that they were made from.
	Revisions map[string]int
}

// Summarize counts.
func Summarize(in Input) Summary {
	v := look(in)
	s := Summary{Live: len(v.live), Revisions: map[string]int{}}
	for _, r := range v.live {
		s.Revisions[r.Revision]++
		if r.serves() {
			s.Ready++
		}
		if r.health == Available {
			s.Available++
		}
		if !r.old {
			s.Updated++
		}
	}
	return s
}
