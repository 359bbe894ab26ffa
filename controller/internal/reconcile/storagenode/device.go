package storagenode

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/transport"
)

// Bounds of what a status holds, so that no node, whatever is plugged into it, makes an object that the API server refuses.
const (
	// maxDeviceBytes and maxGroupBytes are the lengths of the lists as the API server stores them, see sizeOf.
	maxDeviceBytes = 144 << 10
	maxGroupBytes  = 32 << 10
	// maxRefusals is the number of reasons that are shown of a device, maxReason the length of the sentence of each.
	maxRefusals = 6
	maxReason   = 200
	// maxKinds is the number of kinds of which other devices are counted.
	maxKinds = 24
	// maxPools is the number of thin pools that are shown of a group.
	maxPools = 8
)

// owners names storages by their UID.
type owners map[string]string

// name returns the storage of a UID as a person knows it.
func (o owners) name(uid string) string {
	if name, ok := o[uid]; ok {
		return name
	}
	return fmt.Sprintf("a Cluster with UID %s, which does not exist any more", backend.Cut(uid, 64))
}

// view is what people are shown of the devices of a node.
type view struct {
	devices                 []v1alpha1.NodeDevice
	total, available, inUse int
	// others counts the devices that are not shown, by kind.
	others map[string]int
}

// look sorts out which devices people know, and says about each of these how it is. The order of the devices is kept.
func look(devices []decide.Device, of owners) view {
	v := view{others: map[string]int{}}
	for _, d := range devices {
		if !known(d) {
			v.others[kindOf(d)]++
			continue
		}
		shown := deviceOf(d, of)
		v.devices = append(v.devices, shown)
		if len((decide.Node{Devices: devices}).PathsBefore(d)) == 0 {
			v.total++
		}
		switch {
		case shown.InUseBy != "":
			v.inUse++
		case shown.Available:
			v.available++
		}
	}
	v.bound()
	return v
}

// reserve shows devices that are on record as those of objects which are no storage. Nobody else takes them.
func (v *view) reserve(n decide.Node, records []disk.Record) {
	for i := range v.devices {
		d, _ := n.Device("/dev/" + v.devices[i].KernelName)
		if at := slices.IndexFunc(records, func(r disk.Record) bool { return r.Is(n.Name, d) }); at >= 0 {
			v.showInUse(i, records[at].Holder, nil)
		}
	}
}

// share shows the LUNs that Members of an Iscsi have on record. A LUN is several nodes', and its volume group no node's: neither keeps anybody from it whom it is meant for.
func (v *view) share(n decide.Node, iscsi func(decide.Device) string) {
	for i := range v.devices {
		d, _ := n.Device("/dev/" + v.devices[i].KernelName)
		if of := iscsi(d); of != "" {
			v.showInUse(i, of, append(slices.Clone(ours), v1alpha1.RefusalOtherNode, v1alpha1.RefusalLVM, v1alpha1.RefusalSharedDisk))
		}
	}
}

// showInUse shows that somebody has a device of whom the device itself does not tell. Refusals that are implied by that are left out.
func (v *view) showInUse(i int, holder string, implied []string) {
	shown := &v.devices[i]
	if shown.InUseBy != "" {
		return
	}
	if shown.Available {
		v.available--
	}
	v.inUse++
	var reasons []string
	shown.Refusals = slices.DeleteFunc(shown.Refusals, func(r v1alpha1.Refusal) bool { return slices.Contains(implied, r.Reason) })
	for _, r := range shown.Refusals {
		reasons = append(reasons, r.Reason)
	}
	shown.InUseBy, shown.Available = holder, false
	shown.Verdict = verdict(*shown, backend.Shorten(reasons, maxRefusals))
}

// known reports whether people know a device: disks, and what may be chosen. Volumes, loop devices, partitions and the like are not. A
// device of a storage is always shown, and so is one of which not even the kind is certain.
func known(d decide.Device) bool {
	if d.OwnerUID != "" || d.Type == "" {
		return true
	}
	return !d.RefusedFor(v1alpha1.RefusalPartition) && !d.RefusedFor(v1alpha1.RefusalVirtual)
}

// mapped is the link that udev makes to a device of the device mapper. The UUID in it begins with the name of the program that made the
// device: LVM, CRYPT, mpath.
var mapped = regexp.MustCompile(`^/dev/disk/by-id/dm-uuid-([A-Za-z]{1,12})-`)

// kindOf names the kind of a device that is counted only.
func kindOf(d decide.Device) string {
	if d.Type != "dm" {
		return d.Type
	}
	for _, link := range append([]string{d.Path}, d.Links...) {
		if m := mapped.FindStringSubmatch(link); m != nil {
			return strings.ToLower(m[1])
		}
	}
	return d.Type
}

// bound keeps the list within its limits. When there are too many, those in use come first, then those that can be taken.
func (v *view) bound() {
	order := make([]int, len(v.devices))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank(v.devices[a]), rank(v.devices[b])) })
	budget := maxDeviceBytes
	var keep []int
	for _, i := range order {
		if size := sizeOf(v.devices[i], "path"); len(keep) < v1alpha1.MaxNodeDevices && size <= budget {
			keep, budget = append(keep, i), budget-size
			continue
		}
		v.others[v.devices[i].Type]++
	}
	slices.Sort(keep)
	var kept []v1alpha1.NodeDevice
	for _, i := range keep {
		kept = append(kept, v.devices[i])
	}
	v.devices = kept
}

func rank(d v1alpha1.NodeDevice) int {
	switch {
	case d.InUseBy != "":
		return 0
	case d.Available:
		return 1
	}
	return 2
}

// sizeOf returns how much larger an entry of a list makes the object that the API server stores: by its JSON, with what separates it from the next one, and by what managedFields have
// of the entry, which is its key and the name of each of its fields. key is the field by which the list tells entries apart.
func sizeOf(value any, key string) int {
	raw, err := json.Marshal(value)
	var fields map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(raw, &fields)
	}
	if err != nil {
		// It cannot happen with the types of the API. If it does, the value is not shown.
		return maxDeviceBytes + maxGroupBytes
	}
	size := len(raw) + 1 + len(`"k:{\"\":\"\"}":{".":{}},`) + len(key) + len(fields[key])
	for name := range fields {
		size += len(`"f:":{},`) + len(name)
	}
	return size
}

// summary returns what is not shown: "8 loop, 12 lvm, 3 partition".
func (v *view) summary() string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(v.others)) {
		parts = append(parts, fmt.Sprintf("%d %s", v.others[kind], cmp.Or(kind, "unknown")))
	}
	return backend.Shorten(parts, maxKinds)
}

// ours are the refusals that say no more about a device of ours than that it is in use.
var ours = []string{v1alpha1.RefusalOwned, v1alpha1.RefusalHeld, v1alpha1.RefusalBusy}

func deviceOf(d decide.Device, of owners) v1alpha1.NodeDevice {
	out := v1alpha1.NodeDevice{
		Path: d.Path, KernelName: d.KernelName, Type: d.Type, Size: *quantity(d.SizeBytes), Model: d.Model, Serial: d.Serial,
		WWN: d.WWN, Transport: d.Transport, Rotational: d.Rotational, Available: d.Clean() && d.OwnerUID == "", VolumeGroup: d.VolumeGroup,
	}
	if d.OwnerUID != "" {
		out.InUseBy = of.name(d.OwnerUID)
	}
	var reasons []string
	for _, r := range d.Refusals {
		if d.OwnerUID != "" && slices.Contains(ours, r.Reason) {
			continue
		}
		reasons = append(reasons, r.Reason)
		if len(out.Refusals) < maxRefusals {
			out.Refusals = append(out.Refusals, v1alpha1.Refusal{Reason: r.Reason, Message: backend.Cut(r.Message, maxReason)})
		}
	}
	out.Verdict = verdict(out, backend.Shorten(reasons, maxRefusals))
	if out.Available && transport.OnRequest(d.Transport) {
		out.Verdict = "available on request: attached over " + d.Transport
	}
	return out
}

// verdict sums up for a person how a device is.
func verdict(d v1alpha1.NodeDevice, reasons string) string {
	switch {
	case d.InUseBy != "" && reasons != "":
		return fmt.Sprintf("in use by %s; %s", d.InUseBy, reasons)
	case d.InUseBy != "":
		return "in use by " + d.InUseBy
	case d.Available:
		return "available"
	}
	return "refused: " + cmp.Or(reasons, v1alpha1.RefusalUnreadable)
}
