//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// membersOf returns the Members of a Cluster, ordered by node. The API server selects them by name.
func membersOf(ctx context.Context, cluster string) ([]v1alpha1.Member, error) {
	var list v1alpha1.MemberList
	if err := kube.List(ctx, &list, client.MatchingFields{"spec.of.name": cluster}); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.Member) int { return strings.Compare(string(a.Spec.Node), string(b.Spec.Node)) })
	return list.Items, nil
}

// memberOf returns the Member of a node.
func memberOf(ctx context.Context, cluster, node string) (*v1alpha1.Member, error) {
	all, err := membersOf(ctx, cluster)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if string(all[i].Spec.Node) == node {
			return &all[i], nil
		}
	}
	return nil, fmt.Errorf("no Member of %s on %s", cluster, node)
}

// devicesOf returns the stable paths of the devices of a Cluster by node.
func devicesOf(t *testing.T, cluster string) map[string][]string {
	t.Helper()
	all, err := membersOf(t.Context(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, m := range all {
		for _, d := range m.Status.Devices {
			out[string(m.Spec.Node)] = append(out[string(m.Spec.Node)], d.Path)
		}
	}
	return out
}

// describeMembers says how the Members of a Cluster are.
func describeMembers(all []v1alpha1.Member) string {
	var out []string
	for _, m := range all {
		out = append(out, fmt.Sprintf("%s %s: %s", m.Spec.Node, m.Status.State, m.Status.Message))
	}
	return strings.Join(out, "; ")
}
