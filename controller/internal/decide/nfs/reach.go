package nfs

import (
	"errors"
	"slices"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// perNode are the reasons that another node may not meet: names, routes, exports, and the work of the agent differ from node to node.
var perNode = []string{
	sharedvolume.ReasonUnreachable, sharedvolume.ReasonNameUnresolved, sharedvolume.ReasonRefused, sharedvolume.ReasonNotExported,
	sharedvolume.ReasonNotNFS, sharedvolume.ReasonReadOnly, sharedvolume.ReasonRootSquashed,
	sharedvolume.ReasonTooManyCalls,
}

// OtherNode reports whether an agent on another node may succeed where one failed with this error.
func OtherNode(err error) bool {
	var f *decide.Fault
	if !errors.As(err, &f) {
		return false
	}
	if f.Reason != "" {
		return slices.Contains(perNode, f.Reason)
	}
	switch f.Kind {
	case decide.FaultUnavailable, decide.FaultInternal, decide.FaultDenied:
		return true
	}
	return false
}

// Order returns the nodes to try, at most so many: the preferred ones that are online first, then the others, beginning at another one
// every turn, so that repeated attempts reach all.
func Order(online, preferred []string, turn, most int) []string {
	var first []string
	for _, n := range preferred {
		if slices.Contains(online, n) && !slices.Contains(first, n) {
			first = append(first, n)
		}
	}
	rest := slices.DeleteFunc(slices.Clone(online), func(n string) bool { return slices.Contains(first, n) })
	slices.Sort(rest)
	if len(rest) > 0 {
		at := turn % len(rest)
		rest = slices.Concat(rest[at:], rest[:at])
	}
	out := slices.Concat(first, rest)
	return out[:min(len(out), most)]
}
