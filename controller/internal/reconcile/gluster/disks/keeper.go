package disks

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/gluster/device"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Keeper keeps the records of disks.
type Keeper struct {
	// Client writes, and reads from a cache; Live reads from the API server itself. A cache may be late: before a record is written, or glusterd2 is told of a disk, Live has to say the same.
	Client client.Client
	Live   client.Reader
	// Agents may be nil: then no disk is taken.
	Agents Agents
	Now    func() time.Time
}

// Kept is what became of the disks of a node.
type Kept struct {
	Decision device.Decision
	// Without are the devices that the template of the server leaves out.
	Without []v1alpha1.DevicePath
	// Written: records were. Dropped: the API server did not keep them, so that there are none.
	Written, Dropped bool
}

// Keep decides about the disks of a node, and writes what goes on record. The node then has the records that the API server has. Before anything is done with a disk for the first time, the API server
// itself is read, and the agent looks at the disk.
func (k Keeper) Keep(ctx context.Context, s Subject) (Kept, error) {
	f, err := k.look(ctx, k.Client, s, false)
	if err != nil {
		return Kept{}, err
	}
	d := device.Decide(f)
	if len(d.Looks()) > 0 || d.Asks() {
		if f, err = k.look(ctx, k.Live, s, true); err != nil {
			return Kept{}, err
		}
		d = k.inspectAll(ctx, &f)
	}
	out := Kept{Decision: d, Without: device.Without(f, d)}
	if d.Records == nil {
		return out, nil
	}
	kept, err := k.write(ctx, s.Node, d.Records)
	out.Written, out.Dropped = err == nil && kept, err == nil && !kept
	return out, err
}

const (
	// patience is for how long a pass waits, longer than an agent takes for one look, for agents that look at the disks of one node, once their agent said what there is: all nodes of the pool wait for it. What was not looked at by then
	// waits for the next pass.
	patience = 25 * time.Second
	// atOnce is how many disks of a node are looked at at a time: one that hangs must not keep the others waiting.
	atOnce = 4
)

// inspectAll has the agent look at the disks that wait for it, and decides anew.
func (k Keeper) inspectAll(ctx context.Context, f *device.Facts) device.Decision {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	d := device.Decide(*f)
	for looks := d.Looks(); len(looks) > 0 && limited.Err() == nil; looks = d.Looks() {
		k.inspect(limited, f, looks[:min(len(looks), atOnce)])
		d = device.Decide(*f)
	}
	return d
}

// MayRegister reports whether glusterd2 may be told of a device on record at this moment, by what the API server itself and the agent say, or says why not.
func (k Keeper) MayRegister(ctx context.Context, s Subject, r v1alpha1.GlusterDevice) (may bool, reason, why string, err error) {
	f, err := k.look(ctx, k.Live, s, true)
	if err != nil {
		return false, "", "", err
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	k.inspect(limited, &f, []device.Look{{Device: r.Device, Path: string(r.Path)}})
	may, reason, why = device.Decide(f).Registers(r.Device)
	return may, reason, why, nil
}

// write puts records on a node, those that are new with the time of the write, and reports whether the API server kept them. One whose definition of GlusterNodes is of an earlier version
// drops them without an error. Its reply is decoded into what was sent, so only another read tells.
func (k Keeper) write(ctx context.Context, n *v1alpha1.GlusterNode, records []v1alpha1.GlusterDevice) (kept bool, err error) {
	records = slices.Clone(records)
	for i := range records {
		// A pass may have begun long ago, and others are left their time from the write on.
		if r := &records[i]; !slices.ContainsFunc(n.Spec.Devices, func(have v1alpha1.GlusterDevice) bool { return have.Device == r.Device }) {
			r.Recorded = metav1.NewTime(k.Now())
		}
	}
	if _, err := kube.Patch(ctx, k.Client, n, func(n *v1alpha1.GlusterNode) { n.Spec.Devices = records }); err != nil {
		return false, err
	}
	var have v1alpha1.GlusterNode
	if err := k.Live.Get(ctx, client.ObjectKeyFromObject(n), &have); err != nil {
		return false, fmt.Errorf("read the records of glusternode %s again: %w", n.Name, err)
	}
	n.Spec.Devices = have.Spec.Devices
	return len(have.Spec.Devices) >= len(records), nil
}
