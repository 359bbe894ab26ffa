package kube

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// MemberOwner is the field by which the API server chooses Members of one owner. A cache needs an index of that name.
const MemberOwner = "spec.of.uid"

// MembersOf returns the Members of one storage, by its UID. Those of all others are not sent.
func MembersOf(ctx context.Context, r client.Reader, owner types.UID) ([]v1alpha1.Member, error) {
	var list v1alpha1.MemberList
	if err := r.List(ctx, &list, client.MatchingFields{MemberOwner: string(owner)}); err != nil {
		return nil, fmt.Errorf("list members: %w", err)
	}
	// What something between here and the API server sends beside is another storage's.
	return slices.DeleteFunc(list.Items, func(m v1alpha1.Member) bool { return m.Spec.Of.UID != owner }), nil
}
