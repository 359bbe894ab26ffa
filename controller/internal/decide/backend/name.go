package backend

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Owner is the storage that members belong to.
type Owner struct {
	Kind, Name string
	UID        types.UID
}

// OwnerOf returns the owner that a storage is.
func OwnerOf(s v1alpha1.Storage) Owner {
	return Owner{Kind: s.StorageKind(), Name: s.GetName(), UID: s.GetUID()}
}

// API returns the owner as a Member names it.
func (o Owner) API() v1alpha1.MemberOwner {
	return v1alpha1.MemberOwner{Kind: o.Kind, Name: o.Name, UID: o.UID}
}

// Owns reports whether a Member belongs to the owner. One of an owner of the same name that is gone does not.
func (o Owner) Owns(m *v1alpha1.Member) bool { return m.Spec.Of == o.API() }

// MemberName returns the name of the Member of a node: "owner.node". An owner with a dot in its name could be confused with another
// one, and a long name does not fit: both get a hash.
func (o Owner) MemberName(node string) string {
	const limit = 253
	name := o.Name + "." + node
	if !strings.Contains(o.Name, ".") && len(name) <= limit {
		return name
	}
	sum := sha256.Sum256([]byte(o.Kind + "/" + o.Name + "/" + node))
	suffix := "-" + hex.EncodeToString(sum[:4])
	if len(name)+len(suffix) > limit {
		name = strings.TrimRight(name[:limit-len(suffix)], ".-")
	}
	return name + suffix
}

// Prefer returns which of two Members of one node counts: the one that has the name that the controller gives. A person may have made another
// one by hand. have is nil where none was found yet.
func (o Owner) Prefer(have, m *v1alpha1.Member) *v1alpha1.Member {
	want := o.MemberName(string(m.Spec.Node))
	if have == nil || m.Name == want || have.Name != want && m.Name < have.Name {
		return m
	}
	return have
}
