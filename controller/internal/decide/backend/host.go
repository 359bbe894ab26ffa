package backend

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Node is what matters of a Kubernetes node.
type Node struct {
	Name string
	// Exists is true when the API server knows the node; Labels are empty otherwise.
	Exists bool
	Labels map[string]string
	// Maintenance is asked for on the StorageNode.
	Maintenance bool
}

// Wants reports whether a spec wants a node: by name, or by a selector that the labels of an existing node match.
func Wants(c v1alpha1.StorageCommon, n Node) bool {
	if slices.Contains(c.Hosts, v1alpha1.HostName(n.Name)) {
		return true
	}
	return n.Exists && selects(c.Selector, n.Labels)
}

// Unwanted says why a spec does not want a node that is a member; an empty reason when it does. A selector says nothing about a node
// that does not exist: it may come back as it was.
func Unwanted(c v1alpha1.StorageCommon, n Node) (reason, message string) {
	switch {
	case Wants(c, n), c.Selector != nil && !n.Exists, Unreadable(c) != "":
		return "", ""
	case c.Selector != nil:
		return v1alpha1.ReasonHostNotSelected, "The node does not match spec.hostSelector any more."
	}
	return v1alpha1.ReasonHostNotListed, "The spec does not list the node."
}

func selects(s *metav1.LabelSelector, set map[string]string) bool {
	if s == nil {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(set))
}

// Unreadable says why the selector of a spec cannot be read; empty when it can. Which nodes such a spec wants is not known: the schema takes
// selectors with an operator that does not exist, or with values that no label can have.
func Unreadable(c v1alpha1.StorageCommon) string {
	if c.Selector == nil {
		return ""
	}
	if _, err := metav1.LabelSelectorAsSelector(c.Selector); err != nil {
		return "spec.hostSelector cannot be read, and nothing is done until it can: " + err.Error()
	}
	return ""
}

// NoHost says that the selector of a spec selects none of the nodes; empty when it selects one, or when the spec has none.
func NoHost(c v1alpha1.StorageCommon, nodes map[string]Node) string {
	if c.Selector == nil {
		return ""
	}
	for _, n := range nodes {
		if n.Exists && selects(c.Selector, n.Labels) {
			return ""
		}
	}
	return fmt.Sprintf("spec.hostSelector selects no node; to see: kubectl get nodes --selector='%s'", metav1.FormatLabelSelector(c.Selector))
}

// Claimant is what matters of a storage when hosts are shared out.
type Claimant struct {
	Owner Owner
	// Type and Exclusive of its profile.
	Type      v1alpha1.StorageType
	Exclusive bool
	Created   time.Time
	// Deleting is true once a person deleted it.
	Deleting bool
	// Spec is the common part of its spec.
	Spec v1alpha1.StorageCommon
	// Members are the nodes on which it has a part.
	Members []string
}

// Invalid is why a host may not be used.
type Invalid struct {
	// Reason is HostNotFound, HostConflict or NameTaken.
	Reason string
	// Message is one sentence.
	Message string
}

// Judge says why a storage may not use a node; nil when it may.
func (c Claimant) Judge(n Node, others []Claimant) *Invalid {
	if !n.Exists {
		return &Invalid{v1alpha1.ReasonHostNotFound, "Kubernetes knows no node of this name"}
	}
	for _, o := range others {
		if o.Owner.UID == c.Owner.UID || !c.excludes(o) || !o.claims(n) {
			continue
		}
		if o.before(c, n.Name) {
			return &Invalid{v1alpha1.ReasonHostConflict, fmt.Sprintf(
				"is used by %s %s of type %s already; storages of different types never share a host", o.Owner.Kind, o.Owner.Name, o.Type)}
		}
	}
	return nil
}

func (c Claimant) excludes(o Claimant) bool {
	return c.Type != "" && o.Type != "" && c.Type != o.Type && (c.Exclusive || o.Exclusive)
}

// claims reports whether the storage uses a node, or wants to.
func (c Claimant) claims(n Node) bool {
	return slices.Contains(c.Members, n.Name) || !c.Deleting && Wants(c.Spec, n)
}

// before reports whether the claim on a host wins: who has a part there comes first, then the older, then the name
// and the kind.
func (c Claimant) before(o Claimant, host string) bool {
	mine, theirs := slices.Contains(c.Members, host), slices.Contains(o.Members, host)
	switch {
	case mine != theirs:
		return mine
	case !c.Created.Equal(o.Created):
		return c.Created.Before(o.Created)
	case c.Owner.Name != o.Owner.Name:
		return c.Owner.Name < o.Owner.Name
	}
	return c.Owner.Kind < o.Owner.Kind
}

// Labelled reports whether a node keeps the label of a type: some other storage of that type uses it.
func Labelled(n Node, t v1alpha1.StorageType, others []Claimant) bool {
	return slices.ContainsFunc(others, func(c Claimant) bool { return c.Type == t && c.claims(n) })
}
