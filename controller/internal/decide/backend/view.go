package backend

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/class"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// View is one observation of a backend, and the decisions on it. All of its methods are pure.
type View interface {
	// Hosts returns the hosts that hold a part of the storage by what is on them, whatever the API server says; ordered.
	Hosts() []string
	// Facts returns what is known about a host.
	Facts(host string) Facts
	// Decide returns what is to be done on a host. Only steps that are possible now are among it, and those that are shown early.
	Decide(m Member) Host
	// Whole returns what concerns the storage as a whole. hosts are all hosts in the order of their names, with what was decided about
	// each; those that are being removed are among them.
	Whole(hosts []HostHealth) Whole
}

// Member is what the engine knows about one host when a backend decides about it.
type Member struct {
	Node string
	// Object is the Member as it was read; nil while there is none.
	Object *v1alpha1.Member
	// Flags and State as decided in this pass.
	Flags nodestate.Flags
	State nodestate.State
	// Frozen is true while no step may be taken: under maintenance, and while the member leaves.
	Frozen bool
	// Lost is true when a person said that the host and what it holds are gone.
	Lost bool
	// Volumes are the PersistentVolumes that live on the host or are attached to it, ordered by name.
	Volumes []Volume
	// Invalid is why the host may not be used; nil when it may.
	Invalid *Invalid
}

// Record returns the record of the member's group; nil when none was ever made.
func (m Member) Record() *v1alpha1.MemberGroup {
	if m.Object == nil {
		return nil
	}
	return m.Object.Spec.Group
}

// Host is what a backend decided about one host.
type Host struct {
	// Steps to take, in order.
	Steps []Step
	// Finding of the backend; the engine has findings of its own that come first.
	Finding Finding
	// Record is what spec.group of the Member has to be before any step runs; nil when it stays as it is.
	Record *v1alpha1.MemberGroup
	// Devices of the host.
	Devices []v1alpha1.MemberDevice
	// Size and Free in bytes, over what the host reports; 0 for a host that has no space of its own.
	Size, Free int64
	// Reports is true when size, free and volumes are what the host reports now.
	Reports bool
	// Watched is true when the host itself says how its devices are now, and whether its part of the storage is there. What stands of them in the status of
	// its Member is else what was seen before.
	Watched bool
	// ThinPool is how full the host's pool is; nil when it has none.
	ThinPool *v1alpha1.ThinPoolUsage
	// Zeroing tells of volumes that are zeroed before anybody sees them, how far that is.
	Zeroing []string
	// Retired tells how far the devices are that the Member gives up; nil when it gives up none.
	Retired *metav1.Condition
	// GivenUp tells whether the groups that a person gave up are away; nil when none was given up.
	GivenUp *metav1.Condition
	// Volumes is the number of volumes on the host.
	Volumes int
	// Serves is true when the host has, or had when it was last seen, its part of the storage.
	Serves bool
	// Wake is when to look again even if nothing happens; 0 leaves that to the engine.
	Wake time.Duration
	// Unread is true when a device of the host would be taken if somebody knew that it is on record as nobody else's (World.Unread).
	Unread bool
}

// Whole is what concerns a storage as a whole.
type Whole struct {
	// Steps of no host. Each of them names the host that it runs on.
	Steps []Step
	// Silent is true while nobody can say which steps of the whole are left: their plan is neither over nor void.
	Silent bool
	// Hold are hosts whose steps wait although each of them could run, with the reason.
	Hold map[string]string
	// Holding names what of the storage exists and belongs to no host: it holds the deletion up.
	Holding []string
	// Serves is true when volumes can be made, so that a StorageClass is wanted. Pending says what that waits for.
	Serves  bool
	Pending string
	// Served is true while nobody can say whether volumes can be made, and they could.
	Served bool
	// Failing is true when the whole has failed by its own word, even if its StorageClass exists.
	Failing bool
	// Class is what the backend wants of the StorageClass.
	Class class.Wish
	// Facts are conditions that Ready depends on, Warnings those that it does not. Risks are shown like Warnings, and change no phase: the spec asks for them.
	Facts, Warnings, Risks []metav1.Condition
	// Notes are sentences about fields of the spec that say nothing. All else works.
	Notes []string
	// Wake is when the storage has to be looked at again even if nothing happens; 0 leaves that to the engine.
	Wake time.Duration
	// Capacity of a storage whose capacity is not that of its members; nil otherwise.
	Capacity *v1alpha1.Space
}

// World is what the API server says about everything that matters to one storage.
type World struct {
	// Nodes by name: those of the storage's hosts, existing or not.
	Nodes map[string]Node
	// Members of the storage, ordered by node.
	Members []*v1alpha1.Member
	// Others are the other storages of all kinds, OtherMembers their Members and those of storages that do not exist any more.
	Others       []v1alpha1.Storage
	OtherMembers []*v1alpha1.Member
	// Volumes are the PersistentVolumes of the storage by the node that they live on, ordered by name; those without a node are under "".
	Volumes map[string][]Volume
	// Attached are the volumes of the storage by the node that they are attached to, ordered by name; nil for a driver that does not attach.
	// Each VolumeAttachment counts from the moment that it exists until it is gone, whatever its status says. Of a volume whose
	// PersistentVolume is gone only the name is known, and whose it was is not: it is among those of every storage of the driver.
	Attached map[string][]Volume
	// Records are those of the devices of objects that are no storages. No storage takes one of these. A backend whose Profile says that it takes none is not told of them.
	Records []disk.Record
	// Unread says why nobody knows these, in words that stay the same; empty when they are known. No storage takes a device then.
	Unread string
	// Started is when this leader began: a delay never counts time in which nobody looked.
	Started time.Time
}

// On returns the volumes that hold a node: those that live on it, and those that are attached to it.
func (w World) On(node string) []Volume { return slices.Concat(w.Volumes[node], w.Attached[node]) }

// Held returns the nodes that volumes hold, in no order.
func (w World) Held() []string {
	var nodes []string
	for _, held := range []map[string][]Volume{w.Volumes, w.Attached} {
		for n := range held {
			if n != "" {
				nodes = append(nodes, n)
			}
		}
	}
	return nodes
}
