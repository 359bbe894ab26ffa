package storagenode

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/systemid"
)

// groupsOf returns the volume groups as they are shown, within the limits of a status. A UUID that is reported twice is shown once: the
// list has it as its key.
func groupsOf(n decide.Node, of owners) []v1alpha1.NodeVolumeGroup {
	budget := maxGroupBytes
	seen := map[string]bool{}
	var out []v1alpha1.NodeVolumeGroup
	for i, g := range slices.Concat(n.Groups, n.OtherNodes) {
		shown := groupOf(g, of)
		if i >= len(n.Groups) {
			shown.BelongsTo = backend.Cut(systemid.Describe(g.SystemID), maxReason)
		}
		size := sizeOf(shown, "uuid")
		if seen[g.UUID] || len(out) == v1alpha1.MaxNodeGroups || size > budget {
			continue
		}
		seen[g.UUID], budget = true, budget-size
		out = append(out, shown)
	}
	return out
}

func groupOf(g decide.Group, of owners) v1alpha1.NodeVolumeGroup {
	out := v1alpha1.NodeVolumeGroup{
		UUID: g.UUID, Name: g.Name, OwnerUID: g.OwnerUID, Owner: of.name(g.OwnerUID), Size: *quantity(g.SizeBytes), Free: *quantity(g.FreeBytes),
		Volumes: int32(len(g.Volumes)), Partial: g.Partial,
	}
	for _, p := range g.Pools {
		if len(out.ThinPools) < maxPools {
			out.ThinPools = append(out.ThinPools, p.Usage(nil))
		}
	}
	return out
}

func quantity(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.BinarySI) }
