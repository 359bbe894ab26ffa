package health

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Driver is how the CSI driver of a Cluster's class is.
type Driver struct {
	// Exists is true while its Deployment does.
	Exists bool
	// Ready is true when it serves.
	Ready bool
	// Failed says why it will not be ready by itself; empty when it may be.
	Failed string
	// Progress says what it waits for; may be empty.
	Progress string
}

func (c Cluster) csiReady() metav1.Condition {
	switch {
	case c.Driver.Failed != "":
		return condition(v1alpha1.ConditionCSIReady, metav1.ConditionFalse, v1alpha1.ReasonCSIFailed, c.Driver.Failed)
	case c.Driver.Ready:
		return condition(v1alpha1.ConditionCSIReady, metav1.ConditionTrue, v1alpha1.ReasonCSIReady, "The CSI driver serves.")
	case c.Deleting && !c.Driver.Exists:
		return condition(v1alpha1.ConditionCSIReady, metav1.ConditionFalse, v1alpha1.ReasonDeleting, "The CSI driver is removed.")
	}
	return condition(v1alpha1.ConditionCSIReady, metav1.ConditionFalse, v1alpha1.ReasonCSIDeploying,
		sentence(c.Driver.Progress, "The CSI driver is being deployed."))
}

// poolsHealthy is for Clusters that have thin pools only.
func (c Cluster) poolsHealthy() []metav1.Condition {
	if full := c.fullPools(); len(full) > 0 {
		return []metav1.Condition{condition(v1alpha1.ConditionThinPoolsHealthy, metav1.ConditionFalse,
			v1alpha1.ReasonThinPoolNearlyFull, text(full))}
	}
	for _, h := range c.Hosts {
		if i, _, _ := h.instance(); i.ThinPool != nil && !h.Removed {
			return []metav1.Condition{condition(v1alpha1.ConditionThinPoolsHealthy, metav1.ConditionTrue,
				v1alpha1.ReasonThinPoolsHealthy, fmt.Sprintf("Every thin pool is less than %d %% full.", v1alpha1.ThinPoolWarnPercent))}
		}
	}
	return nil
}

// fullPools returns one line for every pool that is nearly full.
func (c Cluster) fullPools() []string {
	var lines []string
	for _, h := range c.Hosts {
		i, _, _ := h.instance()
		if u := i.ThinPool; u != nil && u.NearlyFull() && !h.Removed {
			lines = append(lines, h.Name+": "+DescribePool(*u))
		}
	}
	return lines
}

// DescribePool says how full a pool is, and what can be done.
func DescribePool(u v1alpha1.ThinPoolUsage) string {
	return fmt.Sprintf("thin pool %s is nearly full, data %d %%, metadata %d %%: add a disk, or delete volumes or snapshots",
		u.Name, u.DataPercent, u.MetadataPercent)
}
