package writer

import (
	"fmt"
	"slices"

	"quarry.storage/quarry/pkg/sharedlun"
)

// KeyRecord is what the Member of a node says of the node's key.
type KeyRecord struct {
	Node string
	// Key that was granted; 0 when none was. Unfenced is true on a target without reservations: nobody has a key.
	Key      uint64
	Unfenced bool
	// Fenced is true once the key was taken off, until the node gets another one.
	Fenced bool
	// Registering is true from before the node is asked to register the key until it has answered, which it does once no such command is under way any more: one
	// that waits in its kernel reaches the target after the key was taken off. Once a request had no answer, it stays true until the next key.
	Registering bool
}

// Doubt returns why the fence of a node does not count, by the keys that are on the LUN now as the writer, whose own key is given, has read them;
// empty when the node cannot write, whatever the Members say. Every key on the LUN has to be the current one of a member that is not fenced: any
// other one may be that of the node.
func Doubt(node string, records []KeyRecord, own uint64, r sharedlun.Reservation) string {
	if !r.Supported && !slices.ContainsFunc(records, func(g KeyRecord) bool { return !g.Unfenced }) {
		// There are no keys: a person vouches that the node is off.
		return ""
	}
	if err := r.Writable(own); err != nil {
		return err.Error()
	}
	holder := map[uint64]KeyRecord{}
	for _, g := range records {
		if g.Node == node && g.Registering {
			return fmt.Sprintf("%s was asked to register its key and did not answer: that may still reach the target", node)
		}
		holder[g.Key] = g
	}
	for _, key := range r.Keys {
		switch g, known := holder[key]; {
		case !known:
			return fmt.Sprintf("key %#x on the LUN is no member's: it may be that of %s", key, node)
		case g.Fenced:
			return fmt.Sprintf("key %#x of %s, which is fenced, is on the LUN", key, g.Node)
		}
	}
	return ""
}
