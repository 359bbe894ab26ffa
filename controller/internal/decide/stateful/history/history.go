// Package history decides which templates of a StatefulCluster are remembered, as ControllerRevisions. They are there to go back to; what becomes of a
// replica never depends on them.
package history

import (
	"cmp"
	"fmt"
	"slices"
)

// DefaultLimit is how many templates are kept that no replica has, as with a StatefulSet.
const DefaultLimit = 10

// Revision is a template that is remembered.
type Revision struct {
	// Name of the object.
	Name string
	// Hash of the template, which the pods have as a label, and Template, its text in one form for all that are equal. Both are empty where the object
	// has no template.
	Hash, Template string
	// Number grows with each change; the highest is the template of the spec.
	Number int64
	// Owner says whose the object is.
	Owner Ownership
}

// Ownership says whose a ControllerRevision is.
type Ownership string

// Ownerships.
const (
	// Ours: the StatefulCluster controls it.
	Ours Ownership = "ours"
	// Nobodys: no controller has it, and it is labelled as one of a StatefulCluster of this name.
	Nobodys Ownership = "nobody's"
	// Others: it is of somebody else, and only its name matters.
	Others Ownership = "others'"
)

// Input is what is decided on.
type Input struct {
	// Owner is the name of the StatefulCluster.
	Owner string
	// Hash and Template are those of the spec.
	Hash, Template string
	// Revisions of the namespace.
	Revisions []Revision
	// Live are the hashes that replicas have.
	Live map[string]bool
	// Limit is how many are kept that no replica has.
	Limit int
}

// Plan is what to do.
type Plan struct {
	// Name and Number that the template of the spec has afterwards.
	Name   string
	Number int64
	// Create says that the object has to be made, Renumber that an older one is the template of the spec again.
	Create, Renumber bool
	// Collisions is how many names were taken by something else.
	Collisions int32
	// Adopt and Delete are names of objects.
	Adopt, Delete []string
}

// Decide chooses the object for the template of the spec, and which others go. The same input gives the same plan, and after a part of it was carried
// out the rest is planned again.
func Decide(in Input) Plan {
	known := slices.DeleteFunc(slices.Clone(in.Revisions), func(r Revision) bool { return r.Owner == Others })
	slices.SortFunc(known, func(a, b Revision) int { return cmp.Or(cmp.Compare(b.Number, a.Number), cmp.Compare(a.Name, b.Name)) })
	var plan Plan
	var highest int64
	if len(known) > 0 {
		highest = known[0].Number
	}
	equal := slices.IndexFunc(known, func(r Revision) bool { return r.Hash == in.Hash && r.Template == in.Template })
	switch {
	case equal < 0:
		plan.Create, plan.Number = true, highest+1
		plan.Name, plan.Collisions = in.free()
	case known[equal].Number < highest || highest == 0:
		plan.Renumber, plan.Name, plan.Number = true, known[equal].Name, highest+1
	default:
		plan.Name, plan.Number = known[equal].Name, highest
	}
	spare := 0
	for _, r := range known {
		switch keep := r.Name == plan.Name || in.Live[r.Hash]; {
		case !keep && spare >= in.Limit:
			plan.Delete = append(plan.Delete, r.Name)
			continue
		case !keep:
			spare++
		}
		if r.Owner == Nobodys {
			plan.Adopt = append(plan.Adopt, r.Name)
		}
	}
	return plan
}

// free returns a name that nothing has yet, and how many were tried before.
func (in Input) free() (name string, collisions int32) {
	name = in.Owner + "-" + in.Hash
	for slices.ContainsFunc(in.Revisions, func(r Revision) bool { return r.Name == name }) {
		collisions++
		name = fmt.Sprintf("%s-%s-%d", in.Owner, in.Hash, collisions)
	}
	return name, collisions
}
