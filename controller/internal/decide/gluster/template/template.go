// Package template decides how many nodes a template of a GlusterCluster has. It is pure: it says what to make and which node to delete, and the next pass
// looks again.
package template

import (
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// Node is a node of the template.
type Node struct {
	Name    string
	Created time.Time
	// State of the node. One that is failed or abandoned is condemned.
	State nodestate.State
	// Joined is false while the node is being made: it was never in the pool, or its devices were never all registered.
	Joined bool
	// Data is what is known of data on it.
	Data nodestate.Data
	// Space of its devices; nil when glusterd2 did not say it of every device.
	Space *gluster.Space
}

func (n Node) condemned() bool { return n.State == nodestate.Failed || n.State == nodestate.Abandoned }

// away reports whether a node is under maintenance or down. Its devices are disabled, or nobody can use them, so that less is free for a while only.
func (n Node) away() bool {
	return n.Joined && (n.State == nodestate.Quiesced || n.State == nodestate.Offline)
}

// Template is one template with what is known of its nodes.
type Template struct {
	Threshold v1alpha1.GlusterThreshold
	// Capacity of each node that is made, in bytes.
	Capacity uint64
	Nodes    []Node
	// Condemned names a node of the cluster, of any template or of none, that is being emptied or removed; empty when there is none. Nodes go one at a time.
	Condemned string
}

// Decision is what is done about the number of nodes. At most one of Create and Remove is set.
type Decision struct {
	// Create is how many nodes to make.
	Create int
	// Remove is the node to delete.
	Remove string
	// Sized is true when there is nothing left to do. Reason and Message say it, or what is done, or why nothing is.
	Sized           bool
	Reason, Message string
}

// GetNodes returns the nodes that count: those that are not condemned, the ones being made included.
func (t Template) GetNodes() []Node {
	var all []Node
	for _, n := range t.Nodes {
		if !n.condemned() {
			all = append(all, n)
		}
	}
	return all
}

// GetFreeSpace returns what is free on all nodes that count. A node that is being made counts with the capacity that it will have, so that none is made twice
// for the same space. It fails when a node that joined does not report.
func (t Template) GetFreeSpace() (uint64, error) {
	var free uint64
	for _, n := range t.GetNodes() {
		one := t.Capacity
		if n.Joined {
			switch {
			case n.Space == nil:
				return 0, fmt.Errorf("node %s does not report what is free", n.Name)
			case n.Space.Total == 0:
				// Nodes that bring nothing would be made without end.
				return 0, fmt.Errorf("node %s has devices without a size", n.Name)
			case n.Space.Free > n.Space.Total:
				return 0, fmt.Errorf("node %s reports more free than it has", n.Name)
			}
			one = n.Space.Free
		}
		free = add(free, one)
	}
	return free, nil
}

// add and sub do not go beyond what can be counted.
func add(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}

func sub(a, b uint64) uint64 {
	if a < b {
		return 0
	}
	return a - b
}

// ValidateSpec says why a template cannot be sized; the API refuses such a one, too. A template that says nothing would grow without a bound.
func (t Template) ValidateSpec() error {
	h := t.Threshold
	dynamic := h.MinNodes != nil || h.MaxNodes != nil || h.FreeStorageMin != nil || h.FreeStorageMax != nil
	switch {
	case h.Nodes == nil && !dynamic:
		return fmt.Errorf("threshold is empty: give nodes, or bounds")
	case h.Nodes != nil && dynamic:
		return fmt.Errorf("threshold.nodes is a fixed number, and excludes all bounds")
	case negative(h.Nodes), negative(h.MinNodes), negative(h.MaxNodes):
		return fmt.Errorf("threshold has a negative number of nodes")
	case h.MinNodes != nil && h.MaxNodes != nil && *h.MinNodes >= *h.MaxNodes:
		return fmt.Errorf("threshold.minNodes must be less than threshold.maxNodes")
	case t.Capacity == 0:
		return fmt.Errorf("storage.capacity must be more than 0")
	}
	return validateSpace(h.FreeStorageMin, h.FreeStorageMax)
}

func validateSpace(least, most *resource.Quantity) error {
	for _, q := range []*resource.Quantity{least, most} {
		if q != nil && q.Sign() <= 0 {
			return fmt.Errorf("threshold has a size that is not more than 0")
		}
	}
	if least != nil && most != nil && least.Cmp(*most) >= 0 {
		return fmt.Errorf("threshold.freeStorageMin must be less than threshold.freeStorageMax")
	}
	return nil
}

func negative(n *int32) bool { return n != nil && *n < 0 }

// Reconcile decides what is done about the number of nodes. The first rule that has something to say wins.
func (t Template) Reconcile() Decision {
	if err := t.ValidateSpec(); err != nil {
		return say(v1alpha1.ReasonInvalidSpec, "Nothing is done about the number of nodes: %v.", err)
	}
	if t.Threshold.Nodes != nil {
		return t.fixed(int(*t.Threshold.Nodes))
	}
	return t.bounded()
}

func say(reason, format string, args ...any) Decision {
	return Decision{Reason: reason, Message: fmt.Sprintf(format, args...)}
}
