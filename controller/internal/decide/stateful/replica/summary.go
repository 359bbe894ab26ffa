package replica

// Summary counts the replicas that were not given up.
type Summary struct {
	// Live counts identities, Pods those of them whose pod is there and is not being deleted.
	Live, Pods, Ready, Available, Synced, Updated int
	// Revisions counts them by the template that their pods were made from.
	Revisions map[string]int
	// Full are the identities that have the data, which goes on record.
	Full []string
	// Served are those that are available and do not tell that they have the data. That goes on record, too.
	Served []string
}

// Summarize counts.
func Summarize(in Input) Summary {
	v := look(in)
	s := Summary{Live: len(v.live), Revisions: map[string]int{}}
	for _, r := range v.live {
		if r.Phase != Absent && !r.Terminating {
			s.Pods++
			s.Revisions[r.Revision]++
			if !r.old {
				s.Updated++
			}
		}
		if r.serves() {
			s.Ready++
		}
		if r.health == Available {
			s.Available++
		}
		if r.synced {
			s.Synced++
			s.Full = append(s.Full, r.Identity)
		} else if r.health == Available {
			s.Served = append(s.Served, r.Identity)
		}
	}
	return s
}

// Whole reports whether as many replicas as wanted are available and have the data.
func (s Summary) Whole(desired int) bool { return s.Available >= desired && s.Synced >= desired }
