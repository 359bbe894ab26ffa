package drain

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Lack is what a volume lacks, as a condition tells it.
type Lack struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

// Lacks says why a volume is not whole; nil when it is: all of its bricks run, it heals itself, nothing is left to heal, and every brick has as much as the others of
// its subvolume. Nobody reads or writes one that is stopped, and what has one copy has nothing to heal.
func Lacks(p gluster.Pool, v gluster.Volume) *Lack {
	if !v.Sound() {
		return unsure("What the pool tells of volume %q is cut.", v.Name).lack()
	}
	if !v.Started {
		return nil
	}
	if why := (emptying{Facts: Facts{Pool: p}}).serving(v); why != nil {
		return why.lack()
	}
	if !slices.ContainsFunc(v.Subvolumes, func(s gluster.Subvolume) bool { return s.Kind != gluster.Distribute }) {
		return nil
	}
	switch v.SelfHeal {
	case gluster.Unknown:
		return unsure("Whether volume %s heals itself is not known.", v.Name).lack()
	case gluster.No:
		return no(v1alpha1.ReasonHealing, "Volume %s does not heal itself: run glustercli volume set --advanced %s cluster/replicate.self-heal-daemon on.", v.Name, v.Name).lack()
	}
	if why := healed(v); why != nil {
		return why.lack()
	}
	for _, s := range v.Subvolumes {
		for _, b := range s.Bricks {
			if why := complete(v, s, b); why != nil {
				return why.lack()
			}
		}
	}
	return nil
}

// lack is a block as who does not move bricks tells it.
func (b *block) lack() *Lack { return &Lack{Status: b.status, Reason: b.reason, Message: b.message} }

// complete says why a brick may not have all that the others of its subvolume have.
func complete(v gluster.Volume, sub gluster.Subvolume, b gluster.Brick) *block {
	switch full, why := filled(sub, b); full {
	case gluster.Unknown:
		return unsure("Whether brick %s of volume %s has all data is not known: %s.", b.Path, v.Name, why)
	case gluster.No:
		return lasting(no(v1alpha1.ReasonHealing, "Brick %s of volume %s may not have all data: %s. Have the whole volume healed: glustercli volume heal full %s.", b.Path, v.Name, why, v.Name))
	}
	return nil
}
