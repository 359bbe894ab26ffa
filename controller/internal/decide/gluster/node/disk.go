package node

import (
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// Bar says why glusterd2 must not be told of a device now, or must not use it, as a condition does. Contested: the disk is there, and somebody else has it too.
type Bar struct {
	Reason, Why string
	Contested   bool
}

// withDisks adds the stage of the disks of a node of Kubernetes. Nothing is made before the server has them. Once it runs, one that is added, or that went, keeps it from nothing else.
func (f Facts) withDisks(stages []stage) []stage {
	if f.Disks == nil {
		return stages
	}
	own := stage{v1alpha1.ConditionDevicesAllocated, func(*Plan) outcome { return outcome{f.Disks.Status, f.Disks.Reason, f.Disks.Message} }}
	if f.Begun {
		return append(stages, own)
	}
	return slices.Insert(stages, 1, own)
}

// Refuse says that a device was not registered after all, as the last look before it found why not.
func (p *Plan) Refuse(reason, why string) {
	for i := range p.Conditions {
		if c := &p.Conditions[i]; c.Reason == v1alpha1.ReasonStepTaken && (c.Type == v1alpha1.ConditionDevicesReady || c.Type == v1alpha1.ConditionReady) {
			p.Message = strings.Replace(p.Message, c.Message, "", 1)
			c.Reason, c.Message = reason, why
		}
	}
	p.Message = strings.TrimSpace(why + " " + strings.TrimSpace(p.Message))
}

// steps registers devices, and enables and disables them. A disk that is not there gets no bricks; one of which nobody knows stays as it is.
func (f Facts) steps(id string, own []gluster.Device) []Step {
	allowed := slices.DeleteFunc(slices.Clone(f.Devices), func(path string) bool { _, barred := f.Barred[path]; return barred })
	all := ReconcileStorageDevices(f.Pool, id, allowed, f.Standing.State())
	if f.Standing.State() != nodestate.Online {
		return all
	}
	all = slices.DeleteFunc(all, func(s Step) bool {
		_, unfit := f.Unfit[s.Path]
		unnamed := f.Forgot && !slices.Contains(f.Devices, s.Path)
		return s.Do == EnableDevice && (unnamed || unfit || slices.Contains(f.Unclear, s.Path))
	})
	for _, d := range own {
		if _, unfit := f.Unfit[d.Path]; unfit && d.Enabled {
			all = append(all, Step{Do: DisableDevice, Path: d.Path})
		}
	}
	return all
}

// unfit says which disks cannot be used, and what becomes of their bricks; nothing if there is none.
func (f Facts) unfit(own []gluster.Device) *outcome {
	var told []string
	reason, bricks := "", false
	for _, path := range slices.Concat(f.Devices, f.Unseen) {
		bar, unfit := f.Unfit[path]
		if !unfit {
			continue
		}
		if reason == "" {
			reason = bar.Reason
		}
		bricks = bricks || !bar.Contested && len(absent(own, []string{path})) == 0
		told = append(told, strings.TrimSuffix(bar.Why, ".")+".")
	}
	if len(told) == 0 {
		return nil
	}
	out := no(reason, "%s", strings.Join(told, " "))
	if bricks {
		out.message += " The bricks there are down, and glusterd2 makes no others on it. Their volumes go on where they have other copies. If the disk does not come back, delete the GlusterNode: its bricks are made again on other nodes."
	}
	return &out
}

// unclear says of which registered disks nobody knows whether they are there, and that they are disabled; empty if there is none.
func (f Facts) unclear(own []gluster.Device) string {
	for _, d := range own {
		if !d.Enabled && slices.Contains(f.Unclear, d.Path) {
			return fmt.Sprintf("Whether the disk of device %s is there is not known, as the agent is not heard, or whether the server has it, as it may have been plugged in later. It stays disabled until then.", d.Path)
		}
	}
	return ""
}
