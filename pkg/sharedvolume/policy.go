package sharedvolume

import "fmt"

// Policy says what becomes of a volume's directory when the volume is deleted.
type Policy string

// The policies, each safer than the one before it.
const (
	// Delete removes the directory and everything in it.
	Delete Policy = "delete"
	// Archive renames the directory to "archived-<name>-<date>" beside its old place.
	Archive Policy = "archive"
	// Retain leaves the directory where it is. It belongs to no volume afterwards.
	Retain Policy = "retain"
)

// ParsePolicy reads a policy. The empty text is Delete, which is the default of Nfs.spec.onDelete.
func ParsePolicy(text string) (Policy, error) {
	switch p := Policy(text); p {
	case "":
		return Delete, nil
	case Delete, Archive, Retain:
		return p, nil
	}
	return "", fmt.Errorf("onDelete %.50q: one of delete, retain, archive is expected: %w", text, ErrInvalid)
}

// Safer returns the policy that loses less; an empty one counts for nothing. It decides where the policy of a request and the recorded
// one differ.
func Safer(a, b Policy) Policy {
	if b.rank() > a.rank() {
		return b
	}
	return a
}

func (p Policy) rank() int {
	switch p {
	case Retain:
		return 3
	case Archive:
		return 2
	case Delete:
		return 1
	}
	return 0
}
