// Package systemid says which LVM system ID the groups of a node carry. LVM changes a group with a system ID only on the host that has it.
package systemid

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
)

const (
	// prefix keeps an ID apart from those of others. LVM takes no ID that begins with "localhost".
	prefix = "quarry-"
	// maxLength is the length of the longest ID: LVM cuts longer ones without a word.
	maxLength = 128
	// kept is how much of a long name is in its ID. The rest of the length is for a dash and the hash.
	kept = 100
)

// plain are the names of which LVM keeps every character. It leaves others out without a word.
var plain = regexp.MustCompile(`^[A-Za-z0-9._-]*$`)

// Of returns the system ID of the groups of a node. IDs of different nodes differ.
func Of(node string) string {
	id := prefix + node
	if len(id) <= maxLength && plain.MatchString(node) {
		return id
	}
	sum := sha256.Sum256([]byte(node))
	head := []byte(id[:min(len(id), kept)])
	for i, c := range head {
		if !plain.Match([]byte{c}) {
			head[i] = '_'
		}
	}
	return string(head) + "-" + hex.EncodeToString(sum[:8])
}

// Node returns the node whose groups carry a system ID, and reports whether the ID tells: one of a long name does not, nor one that is not
// ours.
func Node(id string) (node string, ok bool) {
	node, ok = strings.CutPrefix(id, prefix)
	if !ok || node == "" || len(id) >= kept || Of(node) != id {
		return "", false
	}
	return node, true
}

// Describe names the node of a system ID for a person: "node n1". Where the ID does not tell the node, it names the ID.
func Describe(id string) string {
	if node, ok := Node(id); ok {
		return "node " + node
	}
	return fmt.Sprintf("the host with LVM system ID %q", id)
}
