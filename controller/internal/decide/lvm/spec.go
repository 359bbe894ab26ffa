// Package lvm decides about storage on local volume groups: one group on every host, owned by the tag on it. It is pure: it is given what
// the API server and the agents report, and returns steps, findings and records.
package lvm

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/class"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/filesystem"
	"quarry.storage/quarry/pkg/volumeid"
)

// Spec is what matters of a Cluster to its volume groups.
type Spec struct {
	Owner   backend.Owner
	Created time.Time
	// Deleting is true once a person deleted the Cluster.
	Deleting bool
	// Type is the backend of the Cluster. A Cluster of another type has no groups and claims no devices.
	Type v1alpha1.StorageType
	// Common is the part of the spec that every storage has.
	Common v1alpha1.StorageCommon
	// Group is what the Cluster's group is called, or is to be called, on every host.
	Group string
	// ThinPool that every group is to have, without group and owner; nil when none is wanted.
	ThinPool *decide.ThinPoolSpec
	// OverprovisionPercent bounds the sum of the sizes in the pool in percent of its size; 0 without a pool.
	OverprovisionPercent int32
	// Devices chooses devices; nil chooses every clean disk.
	Devices *v1alpha1.DeviceSelector
	// FSType is the filesystem of volumes that are not raw blocks.
	FSType string
	// MountOptions and MkfsOptions are those of the filesystems of new volumes.
	MountOptions, MkfsOptions []string
	// Lost are the UUIDs of groups of members that a person declared lost. They are foreign, even if they carry our tag.
	Lost []string
}

// Of returns what matters of a Cluster. Nothing else reads these fields of a Cluster.
func Of(c *v1alpha1.Cluster) Spec {
	s := Spec{
		Owner: backend.OwnerOf(c), Created: c.CreationTimestamp.Time, Deleting: !c.DeletionTimestamp.IsZero(), Type: c.Spec.StorageType,
		Common: c.Common(), Group: v1alpha1.DefaultVolumeGroupPrefix + c.Name, Devices: c.Spec.Devices, FSType: filesystem.Default,
		Lost: backend.LostGroups(c),
	}
	if l := c.Spec.LVM; l != nil {
		if l.VolumeGroup != "" {
			s.Group = l.VolumeGroup
		}
		if s.ThinPool = poolOf(l.ThinPool); s.ThinPool != nil {
			s.OverprovisionPercent = overprovision(l.ThinPool)
		}
	}
	if sc := c.Spec.StorageClass; sc != nil {
		s.FSType = cmp.Or(sc.FSType, s.FSType)
		for _, o := range sc.MountOptions {
			s.MountOptions = append(s.MountOptions, string(o))
		}
		for _, o := range sc.MkfsOptions {
			s.MkfsOptions = append(s.MkfsOptions, string(o))
		}
	}
	return s
}

// UID returns the UID of the Cluster, the owner in the tag of its groups.
func (s Spec) UID() string { return string(s.Owner.UID) }

// Class returns what the Cluster wants of its StorageClass.
func (s Spec) Class() class.Wish {
	w := class.Wish{
		Parameters: map[string]string{class.ParameterFSType: s.FSType, v1alpha1.ParameterCluster: s.UID()},
		Binding:    storagev1.VolumeBindingWaitForFirstConsumer, MountOptions: s.MountOptions, Invalid: s.invalidOptions(),
	}
	if len(s.MkfsOptions) > 0 {
		w.Parameters[v1alpha1.ParameterMkfsOptions] = filesystem.JoinOptions(s.MkfsOptions)
	}
	if s.ThinPool != nil {
		w.Parameters[v1alpha1.ParameterThinPool] = s.ThinPool.Name
		w.Parameters[v1alpha1.ParameterOverprovision] = strconv.Itoa(int(s.OverprovisionPercent))
	}
	return w
}

// invalidOptions says which options of the spec are not taken; empty when all are.
func (s Spec) invalidOptions() string {
	if err := filesystem.CheckClassOptions(s.FSType, s.MountOptions); err != nil {
		return fmt.Sprintf("spec.storageClass.mountOptions: %v. The StorageClass stays as it is.", err)
	}
	if _, err := filesystem.ParseMkfsOptions(s.FSType, s.MkfsOptions); err != nil {
		return fmt.Sprintf("spec.storageClass.mkfsOptions: %v. The StorageClass stays as it is.", err)
	}
	return ""
}

// Profile returns what the engine has to know of this backend.
func Profile() backend.Profile {
	return backend.Profile{
		Type: v1alpha1.StorageTypeLVM, Exclusive: true,
		Driver: backend.Driver{
			Name: v1alpha1.DriverLVM, Deployment: "quarry-csi-lvm",
			Topology: true, Capacity: true, Snapshots: true, NodeOf: nodeOf, InGroup: inGroup,
		},
		Members: &backend.Readiness{
			Condition: v1alpha1.ConditionDisksReady, Reason: v1alpha1.ReasonDisksReady,
			Message: "Every host holds its part of the volume group.", None: "No host holds a volume group yet.",
			Preparing: "its disks are being prepared", Unapproved: "changes of its disks wait for approval",
		},
		Effects: map[string]backend.Effect{
			v1alpha1.ActionWipeDevice:          {Takes: true, Wipes: true},
			v1alpha1.ActionEnsureVolumeGroup:   {Takes: true},
			v1alpha1.ActionForgetMissingDevice: {GivesUp: true},
		},
	}
}

// nodeOf returns the node that the handle of a volume names; empty for what is no handle of the driver.
func nodeOf(handle string) string {
	id, err := volumeid.Parse(handle)
	if err != nil {
		return ""
	}
	return id.Node
}

// inGroup reports whether a volume that says of no Cluster that it is its own is in a group of that name by its handle: a person made its PersistentVolume.
func inGroup(handle string, attributes map[string]string, group string) bool {
	id, err := volumeid.Parse(handle)
	return err == nil && id.Group == group && attributes[v1alpha1.ParameterCluster] == ""
}

// Snapshots reports whether a storage gets a VolumeSnapshotClass: only thin volumes have snapshots.
func Snapshots(s v1alpha1.Storage) bool {
	c, ok := s.(*v1alpha1.Cluster)
	return ok && c.Spec.LVM != nil && c.Spec.LVM.ThinPool != nil
}

// poolOf returns the thin pool that a spec asks for, without group and owner; nil when it asks for none.
func poolOf(spec *v1alpha1.ThinPoolSpec) *decide.ThinPoolSpec {
	if spec == nil {
		return nil
	}
	p := &decide.ThinPoolSpec{Name: v1alpha1.ThinPoolName}
	switch {
	case spec.Size != nil:
		p.SizeBytes = spec.Size.Value()
	case spec.Percent != nil:
		p.Percent = *spec.Percent
	default:
		p.Percent = v1alpha1.DefaultThinPoolPercent
	}
	if spec.ChunkSize != nil {
		p.ChunkBytes = spec.ChunkSize.Value()
	}
	return p
}

// describePool returns a wanted pool for a person: "name (size)".
func describePool(p decide.ThinPoolSpec) string {
	if p.SizeBytes > 0 {
		return fmt.Sprintf("%s (%s)", p.Name, decide.Bytes(p.SizeBytes))
	}
	return fmt.Sprintf("%s (%d %% of the group)", p.Name, p.Percent)
}

// overprovision returns the bound on the sum of the sizes in the pool in percent of its size. A ratio that is missing, or that the
// schema would have refused, means no overprovisioning.
func overprovision(spec *v1alpha1.ThinPoolSpec) int32 {
	const least, most = 100, 10000
	whole, fraction, _ := strings.Cut(spec.OverprovisionRatio, ".")
	if len(fraction) > 2 {
		return least
	}
	n, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", 2-len(fraction)), 10, 32)
	if err != nil {
		return least
	}
	return int32(min(max(n, least), most))
}

// claimant is a Cluster with what it wants of hosts.
type claimant struct {
	spec   Spec
	listed map[string]bool
	// departing are the hosts whose Member of the Cluster is being deleted or leaves.
	departing map[string]bool
	// recorded are the hosts whose Member records a group of the Cluster.
	recorded map[string]bool
}

func claimantOf(c *v1alpha1.Cluster, members []*v1alpha1.Member) claimant {
	out := claimant{spec: Of(c), listed: map[string]bool{}, departing: map[string]bool{}, recorded: map[string]bool{}}
	for _, h := range out.spec.Common.Hosts {
		out.listed[string(h)] = true
	}
	for _, m := range members {
		if out.spec.Owner.Owns(m) && departs(m) {
			out.departing[string(m.Spec.Node)] = true
		}
		if r := m.Spec.Group; r != nil && r.UUID != "" && out.spec.Owner.Owns(m) {
			out.recorded[string(m.Spec.Node)] = true
		}
	}
	return out
}

// departs reports whether a Member is being deleted, or leaves.
func departs(m *v1alpha1.Member) bool {
	return !m.DeletionTimestamp.IsZero() || meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionLeaving)
}

// wants reports whether the Cluster is to use a host.
func (c claimant) wants(n backend.Node) bool {
	switch {
	case c.spec.Deleting || c.spec.Type != v1alpha1.StorageTypeLVM:
		return false
	case c.spec.Common.Selector == nil:
		return c.listed[n.Name]
	}
	return backend.Wants(c.spec.Common, n)
}

// on returns what the Cluster wants of the devices of a host, of which the agent reports seen.
func (c claimant) on(n backend.Node, seen decide.Node) disk.Claim {
	return disk.Claim{
		Name: c.spec.Owner.Name, UID: c.spec.UID(), Created: c.spec.Created, Selector: c.spec.Devices, Host: n.Name,
		Idle: !c.wants(n) || c.departing[n.Name], Joined: c.recorded[n.Name] || len(ownGroups(c.spec, seen)) > 0,
	}
}

// retired returns the devices that Members give up, by host. Whose Member says so does not matter.
func retired(lists ...[]*v1alpha1.Member) map[string][]disk.Retired {
	out := map[string][]disk.Retired{}
	for _, list := range lists {
		for _, m := range list {
			for _, d := range m.Spec.Retire {
				out[string(m.Spec.Node)] = append(out[string(m.Spec.Node)], disk.Retired{Member: m.Name, Device: d})
			}
		}
	}
	return out
}
