package replica

// Policy says which claims of identities that were given up are deleted.
type Policy struct {
	// Scaled claims go once their pod has ended, Replaced ones (those of rolled replicas, too) once the replacement has the data as well.
	Scaled, Replaced bool
}

// Dispose returns the identities whose claims the policy deletes now. What was not given up on record is never among them, however long it was
// not seen.
func Dispose(in Input, p Policy) []string {
	whole := in.Desired > 0 && Summarize(in).Whole(in.Desired)
	var out []string
	for _, r := range in.Replicas {
		switch {
		case r.Fate == "" || r.Phase != Absent:
		case r.Fate == Scaled && p.Scaled, r.Fate != Scaled && p.Replaced && whole:
			out = append(out, r.Identity)
		}
	}
	return out
}
