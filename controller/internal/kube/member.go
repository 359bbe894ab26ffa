package kube

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// MemberOwner is the field by which the API server chooses Members of one owner. A cache needs an index of that name.
const MemberOwner = "spec.of.uid"

// MemberNode is the field by which Members on one node are chosen. A cache needs an index of that name.
const MemberNode = "spec.node"

// MembersOf returns the Members of one storage, by its UID. Those of all others are not sent.
func MembersOf(ctx context.Context, r client.Reader, owner types.UID) ([]v1alpha1.Member, error) {
	var list v1alpha1.MemberList
	if err := r.List(ctx, &list, client.MatchingFields{MemberOwner: string(owner)}); err != nil {
		return nil, fmt.Errorf("list members: %w", err)
	}
	// What something between here and the API server sends beside is another storage's.
	return slices.DeleteFunc(list.Items, func(m v1alpha1.Member) bool { return m.Spec.Of.UID != owner }), nil
}

// GlusterNodes returns all GlusterNodes, which are to Gluster what Members are to storages. There are none where the API server knows no such kind: an installation may do without Gluster. What
// else keeps them from being read is an error: then nobody knows. They must not be changed.
func GlusterNodes(ctx context.Context, r client.Reader) ([]v1alpha1.GlusterNode, error) {
	var list v1alpha1.GlusterNodeList
	switch err := r.List(ctx, &list, client.UnsafeDisableDeepCopy); {
	case meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("list glusternodes: %w", err)
	}
	return list.Items, nil
}
