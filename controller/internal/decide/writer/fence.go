package writer

import (
	"fmt"
	"slices"

	"quarry.storage/quarry/pkg/sharedlun"
)

// KeyRecord is what the Member of a node says of the node's key.
type KeyRecord struct {
	Node string
	// Key that was granted; 0 when none was, or when it is registered nowhere. Previous are the keys of earlier boots that may still be on the LUN.
	Key      uint64
	Previous []uint64
	// Fenced is true once the key was taken off, until the node gets another one.
	Fenced bool
	// Registering is true from before the node is asked to register the key until it has answered, which it does once no such command is under way any more: one
	// that waits in its kernel reaches the target after the key was taken off. Once a request had no answer, it stays true until the next key.
	Registering bool
}

// Equal reports whether two records say the same.
func (k KeyRecord) Equal(o KeyRecord) bool {
	return k.Node == o.Node && k.Key == o.Key && slices.Equal(k.Previous, o.Previous) && k.Fenced == o.Fenced && k.Registering == o.Registering
}

// Has reports whether a key is one of the node's, of this boot or of an earlier one.
func (k KeyRecord) Has(key uint64) bool {
	return key != 0 && (key == k.Key || slices.Contains(k.Previous, key))
}

// Owner returns the record of the node that has a key. Whatever is decided about whose a key is, is decided by it.
func Owner(records []KeyRecord, key uint64) (KeyRecord, bool) {
	i := slices.IndexFunc(records, func(k KeyRecord) bool { return k.Has(key) })
	if i < 0 {
		return KeyRecord{}, false
	}
	return records[i], true
}

// Disbelief returns why what a node says does not count, by the keys that are on the LUN now as the writer, whose own key is given, has read them; empty
// when it counts. A node is known by its name: another machine that has the name may answer while the earlier one still writes. earlier are the node's keys
// of boots before the one in which it said it, as far as they are on record. Once the API server was restored, some may not be: any key that is no
// member's may be one.
func Disbelief(node string, earlier []uint64, records []KeyRecord, own uint64, r sharedlun.Reservation) string {
	if unkeyed(records, r) {
		// Nothing tells one machine of a name from another.
		return ""
	}
	for _, key := range r.Keys {
		if slices.Contains(earlier, key) {
			return fmt.Sprintf("its key of an earlier boot (%s) is on the LUN: another machine of its name may still write. "+
				"It goes on once the node has registered its new key, or the earlier one is fenced", sharedlun.FormatKey(key))
		}
		if _, known := Owner(records, key); !known {
			return fmt.Sprintf("key %s on the LUN is no member's: it may be that of another machine that had the name %s. "+
				"It goes on once that key is taken off, by approval", sharedlun.FormatKey(key), node)
		}
	}
	if err := r.Writable(own); err != nil {
		return fmt.Sprintf("nobody is kept from writing to the LUN: %v", err)
	}
	return ""
}

// unkeyed reports whether there are no keys: neither on record nor on the LUN.
func unkeyed(records []KeyRecord, r sharedlun.Reservation) bool {
	keyed := slices.ContainsFunc(records, func(g KeyRecord) bool { return g.Key != 0 || len(g.Previous) > 0 })
	return !keyed && len(r.Keys) == 0 && !r.Held()
}

// Doubt returns why the fence of a node does not count, by the keys that are on the LUN now as the writer, whose own key is given, has read them;
// empty when the node cannot write, whatever the Members say. Every key on the LUN has to be one of another member that is not fenced: any
// other one may be that of the node. A node may have two records, of which one says that it is fenced, and the other one has a key: each of them counts.
func Doubt(node string, records []KeyRecord, own uint64, r sharedlun.Reservation) string {
	if unkeyed(records, r) {
		// There are no keys: a person vouches that the node is off.
		return ""
	}
	if err := r.Writable(own); err != nil {
		return err.Error()
	}
	if slices.ContainsFunc(records, func(g KeyRecord) bool { return g.Node == node && g.Registering }) {
		return fmt.Sprintf("%s was asked to register its key and did not answer: that may still reach the target", node)
	}
	for _, key := range r.Keys {
		if _, known := Owner(records, key); !known {
			return fmt.Sprintf("key %s on the LUN is no member's: it may be that of %s", sharedlun.FormatKey(key), node)
		}
		for _, g := range records {
			if g.Has(key) && (g.Fenced || g.Node == node) {
				return fmt.Sprintf("key %s of %s, which is fenced, is on the LUN", sharedlun.FormatKey(key), g.Node)
			}
		}
	}
	return ""
}
