// Package prep decides how a disk becomes an OSD of Ceph, and how it is given back. Like package plan it is pure: no clock, no files, no processes,
// no network.
package prep

import (
	"errors"
	"fmt"
	"slices"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/pkg/osd"
	"quarry.storage/quarry/pkg/pvuuid"
	"quarry.storage/quarry/pkg/refusal"
)

// ErrNoTools means that the container with Ceph's programs does not run on the node. Nothing was changed.
var ErrNoTools = errors.New("the programs of Ceph are not there")

// ErrNoEncryption means that disks cannot be encrypted on the node: the image of Ceph, or the kernel, lacks what it takes. Nothing was changed.
var ErrNoEncryption = errors.New("disks cannot be encrypted on this node")

// Spec is an OSD that a Cluster wants on a disk, or wants to be rid of.
type Spec struct {
	// Device as the caller decided on it.
	Device plan.Identity
	// Node is the name of this node.
	Node string
	// ClusterUID is the FSID of the Ceph cluster: the UID of the Cluster, or of the earlier one whose Ceph cluster it took up. The UUIDs of OSDs follow from it.
	ClusterUID string
	// Want is the OSD. Its UUID has to be the one of this Cluster on this disk.
	Want osd.Wanted
	// Tools is the ID of the container that has Ceph's programs, of the version of the Cluster.
	Tools string
	// Key opens the disk of an encrypted OSD. It is needed to make one, and for nothing else.
	Key osd.Key
	// Fresh is the caller's word that Ceph has never seen the OSD run.
	Fresh bool
	// Making is the one that is to be cleared, as Inspect named it.
	Making string
}

// Look says what a device is to the Cluster that wants the OSD.
func Look(d plan.Device, want osd.Wanted, p plan.Policy) osd.Verdict {
	switch {
	case d.IscsiLUN || len(d.Unreadable) > 0 || d.SizeBytes <= 0:
		return osd.Verdict{Kind: osd.Unknown, Message: "Not everything about the device could be read."}
	case d.Wipe != nil:
		return osd.Verdict{Kind: osd.Unknown, Message: "A wipe of the device has not finished."}
	case d.PVUUID != "":
		return osd.Verdict{Kind: osd.Other, Message: "The device is a physical volume of LVM."}
	}
	// Whether somebody has the disk open is tested only once it has been quiet for a while. Who changes it asks for that, too.
	c := osd.Contents{SizeBytes: d.SizeBytes, Clean: plan.Promising(d, p) && d.Use != plan.Used, Blank: d.HeadTailZero, Labels: d.Labels, Headers: d.Headers}
	for _, s := range d.Signatures {
		if !isMark(d, s) {
			c.Others = append(c.Others, osd.Mark{Type: s.Type, Offset: s.Offset})
		}
	}
	return osd.Judge(want, c)
}

// bluestore is the type of the signature that a label of Ceph is.
const bluestore = "ceph_bluestore"

// Inspect says what the described disk is to the Cluster that wants the OSD on it.
func Inspect(s plan.Snapshot, spec Spec, p plan.Policy) (osd.Verdict, error) {
	d, err := find(s, spec)
	if err != nil {
		return osd.Verdict{}, err
	}
	v := Look(d, spec.Want, p)
	v.Stale = stale(s, d.Path, spec.Want)
	return v, nil
}

// Prepare plans how the disk comes to carry the OSD. A disk that does so already needs nothing. One on which the making of this very OSD did not end
// is cleared and made anew: no daemon ever ran there. One that has but a copy of the OSD's label is refused: it may hold data, and no daemon starts on it. A clean one is taken if it is as described. Anything else is left alone.
//
// Neither is done unless the caller says that the OSD never ran: if it did, its data are gone from this disk, or are on another one that stood in the same slot, and
// Ceph must not take the empty OSD for the one that it knows.
func Prepare(s plan.Snapshot, spec Spec, p plan.Policy) (plan.Plan, error) {
	d, err := find(s, spec)
	if err != nil {
		return plan.Plan{}, err
	}
	token := Token{device: spec.Device, want: spec.Want, policy: p, kinds: []osd.Kind{osd.Empty}}
	token.device.Path = d.Path
	v := Look(d, spec.Want, p)
	if (v.Kind == osd.Unfinished || v.Kind == osd.Empty) && !spec.Fresh {
		return plan.Plan{}, &plan.MismatchError{Path: d.Path, Differences: []string{"it carries no whole OSD, and Ceph knows the OSD as one that ran"}}
	}
	switch v.Kind {
	case osd.Ready:
		if !whole(d) {
			return plan.Plan{}, refused(d, osd.Verdict{Kind: osd.Unknown, Message: "On the disk " + headless + "."}, p)
		}
		return plan.Plan{Notes: []string{fmt.Sprintf("Device %s carries the OSD already.", d.Path)}}, nil
	case osd.Unfinished:
		if stay := append(obstacles(d, p), onPartitions(s, d)...); len(stay) > 0 {
			return plan.Plan{}, &plan.NotCleanError{Path: d.Path, Refusals: stay}
		}
		// An OSD that is made now is found by the size that the disk has now.
		if !osd.Is(spec.Want.UUID, spec.ClusterUID, diskOf(d, spec), names(d, spec)...) {
			return plan.Plan{}, &plan.MismatchError{Path: d.Path, Differences: []string{"its size is another one than when the making of the OSD began"}}
		}
		return again(d, spec, token)
	case osd.Empty:
		if refusals := plan.Judge(d, p); len(refusals) > 0 {
			return plan.Plan{}, &plan.NotCleanError{Path: d.Path, Refusals: refusals}
		}
		if err := plan.Match(d, spec.Device); err != nil {
			return plan.Plan{}, err
		}
		if err := unsealable(d, spec); err != nil {
			return plan.Plan{}, err
		}
		steps := making(d, spec, token, "the disk is clean and as described")
		if spec.Want.Encrypted {
			steps = append([]plan.Step{FindTools{Tools: spec.Tools, Encryption: true, device: d.Path, Reason: "without them the disk would be encrypted for nothing"}}, steps...)
		}
		return plan.Plan{Steps: steps}, nil
	default:
		return plan.Plan{}, refused(d, v, p)
	}
}

// again plans how a disk on which the making did not end is cleared, and made the OSD.
func again(d plan.Device, spec Spec, token Token) (plan.Plan, error) {
	if err := unsealable(d, spec); err != nil {
		return plan.Plan{}, err
	}
	clear := token
	clear.kinds = []osd.Kind{osd.Unfinished}
	token.device.Digest = ""
	steps := []plan.Step{FindTools{Tools: spec.Tools, Encryption: spec.Want.Encrypted, device: d.Path, Reason: "without them the disk would be cleared for nothing"}}
	if spec.Want.Encrypted {
		steps = append(steps, closing(d, spec.Want.UUID, "the making of the OSD may have left it open"))
	}
	steps = append(steps, ClearOSD{token: clear, Reason: "the making of the OSD did not end, and no daemon ran on it"})
	return plan.Plan{Steps: append(steps, making(d, spec, token, "the disk is cleared by the step before")...)}, nil
}

// Zap plans how the disk becomes clean again, whatever the OSD on it holds: the caller has made sure that Ceph can do without. A clean disk needs
// nothing. A disk that carries anything but this very OSD is left alone, and so is one that carries another making of it than the caller was told of: between that and now somebody may have
// given the disk back, and made the OSD on it anew.
func Zap(s plan.Snapshot, spec Spec, p plan.Policy) (plan.Plan, error) {
	d, err := find(s, spec)
	if err != nil {
		return plan.Plan{}, err
	}
	switch v := Look(d, spec.Want, p); v.Kind {
	case osd.Ready, osd.Unfinished:
		if stay := append(obstacles(d, p), onPartitions(s, d)...); len(stay) > 0 {
			return plan.Plan{}, &plan.NotCleanError{Path: d.Path, Refusals: stay}
		}
		if err := madeAnew(d, v, spec.Making); err != nil {
			return plan.Plan{}, err
		}
		token := Token{device: spec.Device, want: spec.Want, policy: p, kinds: []osd.Kind{osd.Ready, osd.Unfinished}, making: spec.Making}
		token.device.Path = d.Path
		steps := []plan.Step{ClearOSD{token: token, Reason: "the caller is done with the OSD on it"}}
		if spec.Want.Encrypted {
			steps = append([]plan.Step{closing(d, spec.Want.UUID, "its daemon is gone, and nobody closed it")}, steps...)
		}
		return plan.Plan{Steps: steps}, nil
	case osd.Empty:
		return plan.Plan{Notes: []string{fmt.Sprintf("Device %s is clean already.", d.Path)}}, nil
	default:
		return plan.Plan{}, refused(d, v, p)
	}
}

// madeAnew refuses a disk that carries another making of the OSD than the one that is meant.
func madeAnew(d plan.Device, v osd.Verdict, meant string) error {
	switch {
	case meant == "":
		return &plan.MismatchError{Path: d.Path, Differences: []string{"the request does not say which making of the OSD is meant: the controller is of an earlier version, or saw the disk clean"}}
	case v.Making != meant:
		return &plan.MismatchError{Path: d.Path, Differences: []string{"the OSD on it is not the one that the request is about: it was made anew since"}}
	}
	return nil
}

// find returns the device, and refuses another disk than the described one, and a UUID that is not the OSD's there.
func find(s plan.Snapshot, spec Spec) (plan.Device, error) {
	d, ok := s.Find(spec.Device.Path)
	if !ok {
		return plan.Device{}, fmt.Errorf("device %s: %w", spec.Device.Path, plan.ErrNotFound)
	}
	if err := plan.MatchHardware(d, spec.Device); err != nil {
		return plan.Device{}, err
	}
	if own := names(d, spec); !osd.Is(spec.Want.UUID, spec.ClusterUID, diskOf(d, spec), own...) && !grown(d, spec, own) {
		return plan.Device{}, fmt.Errorf("OSD %s is not the one of the Cluster with UID %s on device %s: %w", spec.Want.UUID, spec.ClusterUID, d.Path, plan.ErrInvalid)
	}
	return unmapped(s, d, spec.Want), nil
}

func diskOf(d plan.Device, spec Spec) osd.Disk {
	return osd.Disk{WWN: d.WWN, Serial: d.Serial, SizeBytes: d.SizeBytes, Node: spec.Node}
}

// names are all paths of the device.
func names(d plan.Device, spec Spec) []string {
	return append([]string{d.Path, spec.Device.Path, pvuuid.Kernel(d.KernelName)}, d.Links...)
}

// grown reports whether the device was smaller when the OSD was made on it: the labels, or headers, say how large it was, and with that size the UUID is the
// OSD's.
func grown(d plan.Device, spec Spec, names []string) bool {
	was := func(size int64) bool {
		then := diskOf(d, spec)
		then.SizeBytes = size
		return size < d.SizeBytes && osd.Is(spec.Want.UUID, spec.ClusterUID, then, names...)
	}
	return slices.ContainsFunc(d.Labels, func(f osd.Found) bool {
		return f.Err == nil && f.Label.UUID == spec.Want.UUID && was(f.Label.SizeBytes)
	}) || slices.ContainsFunc(d.Headers, func(h osd.Header) bool { return h.Err == nil && h.UUID == spec.Want.UUID && was(h.SizeBytes) })
}

// whole reports whether the first label stands at the start of the device. The daemon reads that one, and starts from no copy of it. That of an encrypted OSD
// is behind its header.
func whole(d plan.Device) bool {
	return len(d.Headers) > 0 || len(d.Labels) > 0 && d.Labels[0].Offset == 0
}

// headless says what a disk lacks that is not whole.
const headless = "the label of the OSD at its start is gone, and no daemon starts from a copy"

// phantom reports whether the partitions that the kernel shows on a disk are none. A label, or a header, at the start of the disk leaves no place to a table that is read from there, and tables elsewhere are signatures; but kernels that know
// the tables of Atari take one label in some hundred for such a table (https://github.com/rook/rook/issues/7940). Whoever mounts or holds such a partition, or has it open, still keeps the disk, and so does what somebody made on one.
func phantom(d plan.Device) bool {
	return len(d.Headers) > 0 && d.Headers[0].Offset == 0 || len(d.Labels) > 0 && d.Labels[0].Offset == 0
}

// onPartitions says what somebody made on the partitions that the kernel shows on a disk, as far as udev tells: nobody opens partitions for an observation. ClearOSD looks at them itself. One that the snapshot does not have went away while it was made.
func onPartitions(s plan.Snapshot, d plan.Device) (out []plan.Refusal) {
	for _, x := range s.Devices {
		if !slices.Contains(d.Partitions, x.KernelName) || x.SizeBytes == 0 {
			continue
		}
		// udev gives a partition what it says of its disk, where it finds nothing on it.
		if tag := x.UdevTags["ID_FS_TYPE"]; x.PVUUID != "" || tag != "" && tag != d.UdevTags["ID_FS_TYPE"] {
			out = append(out, plan.Refusal{
				Reason:  refusal.PartitionTable,
				Message: fmt.Sprintf("The kernel shows partition %s on the disk of an OSD, and something is on it. If nobody needs that, wipe its signatures (wipefs --all /dev/%[1]s).", x.KernelName),
			})
		}
	}
	return out
}

// refused says why the device is left alone: as another's if it is, else by its refusals.
func refused(d plan.Device, v osd.Verdict, p plan.Policy) error {
	refusals := plan.Judge(d, p)
	if hasMark(d) {
		refusals = append(refusals, plan.Refusal{Reason: refusal.Ceph, Message: v.Message})
	}
	err := &plan.NotCleanError{Path: d.Path, Refusals: refusals}
	if v.Kind == osd.Other && hasMark(d) {
		return fmt.Errorf("%w: %w", plan.ErrNotOurs, err)
	}
	return err
}

// harmless are the refusals that a disk with an OSD of ours may have: what stands on it is ours, even if data of the OSD look like something else,
// and what the disk is was judged when it was taken.
var harmless = []string{
	refusal.Ceph, refusal.Filesystem, refusal.RAID, refusal.ZFS, refusal.Bcache, refusal.Encrypted, refusal.Signature, refusal.TooSmall,
	refusal.Removable, refusal.NoIdentity, refusal.Virtual, refusal.Zoned,
}

// obstacles are the reasons not to touch a disk that carries an OSD of ours.
func obstacles(d plan.Device, p plan.Policy) []plan.Refusal {
	var out []plan.Refusal
	for _, r := range plan.Judge(d, p) {
		mark := r.Reason == refusal.PartitionTable && (len(d.Partitions) == 0 || phantom(d)) || r.Reason == refusal.Swap && len(d.Mounts) == 0
		if !mark && !slices.Contains(harmless, r.Reason) {
			out = append(out, r)
		}
	}
	return out
}
