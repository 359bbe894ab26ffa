package v1alpha1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CephImage is the image of the Ceph daemons when the spec names none.
const CephImage = "quay.io/ceph/ceph:v20.2.4"

// FailureDomain is what copies of the same object never share: with "host", a host that is away takes no more than one copy of anything with it. With "osd" it may take all.
// +kubebuilder:validation:Enum=host;osd
type FailureDomain string

// Failure domains.
const (
	FailureDomainHost FailureDomain = "host"
	FailureDomainOSD  FailureDomain = "osd"
)

// PGPolicy says who chooses how many placement groups the pools have.
// +kubebuilder:validation:Enum=autoscale;legacy
type PGPolicy string

// Policies of placement groups.
const (
	// PGPolicyAutoscale lets Ceph choose, by what is stored; PGPolicyLegacy chooses by a table, by the number of OSDs.
	PGPolicyAutoscale PGPolicy = "autoscale"
	PGPolicyLegacy    PGPolicy = "legacy"
)

// CephSpec says how Ceph is run.
type CephSpec struct {
	// Image of the Ceph daemons, of version 20 or later; quay.io/ceph/ceph:v20.2.4 when not given. If its tag names an earlier version, nothing is begun with it. Whoever chooses it chooses programs that run with all
	// rights on the hosts.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.matches('^[a-z0-9][a-zA-Z0-9._:/@-]*$')",message="image must be a reference of an image, such as quay.io/ceph/ceph:v20.2.4"
	Image string `json:"image,omitempty"`
	// Copies of everything; as many as there are hosts (with failureDomain osd: disks), and at most 3, when not given. With 1 what is on a disk that fails is lost, with 2 what is
	// written while one copy is away is on one disk only: the condition CopiesSafe tells. Fewer copies than before are made only once a person approves that.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5
	Replicas int32 `json:"replicas,omitempty"`
	// What copies never share: host, the default, or osd. With osd each copy is on another disk, and all of them may be on one host: what is on it is not served while it is away, and is
	// lost with it. The condition CopiesSafe tells. It cannot be changed later.
	// +optional
	FailureDomain FailureDomain `json:"failureDomain,omitempty"`
	// Who chooses how many placement groups the pools of the filesystem have. With autoscale, the default, Ceph does, by what is stored; the option
	// global.osd_pool_default_pg_autoscale_mode in config can say off or warn. With legacy both pools have 50 for each OSD, divided by the copies, as earlier systems
	// have it: 75 with 3 OSDs and 2 copies. Each change of that number moves data.
	// +optional
	PGPolicy PGPolicy `json:"pgPolicy,omitempty"`
	// Monitors; 3 when not given, and 1 where a Cluster begins with fewer than 3 hosts. Those that are there do not become fewer because hosts leave. An odd number: one more monitor makes an even number no safer.
	// Each is on a host of its own: with fewer hosts there are as many as the largest odd number of hosts, and status.ceph.waits says so.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9
	// +kubebuilder:validation:XValidation:rule="self % 2 == 1",message="mons must be odd: with an even number no more monitors may fail than with one fewer"
	Mons int32 `json:"mons,omitempty"`
	// Metadata servers: one serves, the others stand by. 2 when not given, and never more than there are hosts.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9
	MDS int32 `json:"mds,omitempty"`
	// AutoReplace gives an OSD that died up without a person's approval, where nothing can be lost by it: it is down and Ceph itself marked it out, its disk is clean, or was missing for an hour without a break while
	// its host ran, every placement group has all of its copies elsewhere, Ceph says that it is safe to destroy, and no other OSD leaves. In all other cases a person approves ReplaceOSD, as without this.
	// +optional
	AutoReplace bool `json:"autoReplace,omitempty"`
	// Encrypted has the disks encrypted (LUKS2) that become OSDs from now on. The key of each is in a Secret of its own, ceph-NAME-osd-UUID-RANDOM in namespace quarry-ceph: if that is lost, what
	// is on the disk is lost, so these Secrets belong into a backup. OSDs that are there stay as they are, even if this is taken back; the condition DisksEncrypted tells of
	// them. The stores of the monitors, and the network, are not encrypted by it.
	// +optional
	Encrypted bool `json:"encrypted,omitempty"`
	// Metrics of Ceph are served by its managers, at port 9283 of their nodes, without encryption and to everybody who can connect. The Service ceph-NAME-metrics in namespace quarry-ceph
	// names them.
	// +optional
	Metrics bool `json:"metrics,omitempty"`
	// Dashboard of Ceph is served by the manager that is active, at port 8443 of its node, over TLS with a certificate that Ceph makes for itself. The Secret ceph-NAME-dashboard in namespace
	// quarry-ceph has a user who may look and change nothing but that password. The Service of the same name selects the manager. An image without the dashboard is told in the condition
	// CephConfigured.
	// +optional
	Dashboard bool `json:"dashboard,omitempty"`
	// TakeUp has the Cluster take up a Ceph cluster that an earlier Cluster made, with all that is in it, in place of making one: as after the API server was lost, or a restore gave the Cluster another
	// UID. It is obeyed by a Cluster that has no Ceph cluster yet. No keys and no first monitor are made then, and no disk is taken before the monitors are a quorum.
	// +optional
	TakeUp *CephTakeUp `json:"takeUp,omitempty"`
	// Resources of the daemons. A daemon that is given none gets 0.1 CPUs and the memory that it needs.
	// +optional
	Resources *CephResources `json:"resources,omitempty"`
	// Config are options of Ceph, as "ceph config set" takes them: the key is whom an option is for and its name, such as osd.bluestore_cache_size or
	// global.ms_async_op_threads. One that Ceph refuses is told in the condition CephConfigured. An option that is taken off the list has again what it has without the list.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^(global|mon|mgr|osd|mds|client)[.][a-z][a-z0-9_]*$'))",message="a key of config is global, mon, mgr, osd, mds or client, a dot, and the name of an option"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !(k.substring(k.indexOf('.') + 1) in ['fsid', 'mon_host', 'mon_initial_members', 'public_addr', 'cluster_addr', 'keyring', 'key', 'keyfile', 'mon_allow_pool_delete', 'mon_allow_pool_size_one', 'auth_cluster_required', 'auth_service_required', 'auth_client_required', 'osd_pool_default_size', 'osd_pool_default_min_size', 'osd_crush_chooseleaf_type', 'mon_warn_on_pool_no_redundancy', 'auth_allow_insecure_global_id_reclaim', 'mon_cluster_log_to_file', 'log_to_file', 'log_to_stderr', 'err_to_stderr', 'crash_dir']))",message="the controller sets this option itself, or it must not be set: fsid, mon_host, addresses, keys, auth_*_required, mon_allow_pool_*, osd_pool_default_size, and what its configuration file has: where daemons log, crash_dir, osd_crush_chooseleaf_type and the like"
	Config map[string]CephOption `json:"config,omitempty"`
}

// CephTakeUp says which Ceph cluster is taken up. The Secret ceph-NAME-keys in namespace quarry-ceph has to be there with its keys.
type CephTakeUp struct {
	// FSID of the Ceph cluster: the UID of the Cluster that made it. It is the Cluster's own UID where a restore forgot that its monitors were made.
	// +kubebuilder:validation:MaxLength=36
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`
	FSID string `json:"fsid"`
	// Monitors of it, and the host that each is on: more than half of those that it has. The others come on record by themselves. They count until the monitors were seen as a quorum.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=9
	Monitors []CephTakeUpMonitor `json:"monitors"`
}

// CephTakeUpMonitor is a monitor of a Ceph cluster that is taken up.
type CephTakeUpMonitor struct {
	// Name of the monitor, as Quarry gives them: a, b, c and so on.
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:Pattern=`^[a-z]+$`
	Name string `json:"name"`
	// Host that it is on. The host has the address that it had when the monitor was made.
	Host HostName `json:"host"`
}

// CephOption is the value of an option of Ceph.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=256
// +kubebuilder:validation:Pattern=`^[^\x00-\x1f]*$`
type CephOption string

// CephResources are the resources of the daemons, by their kind.
type CephResources struct {
	// Monitors.
	// +optional
	Mon *corev1.ResourceRequirements `json:"mon,omitempty"`
	// Managers.
	// +optional
	Mgr *corev1.ResourceRequirements `json:"mgr,omitempty"`
	// Each OSD.
	// +optional
	OSD *corev1.ResourceRequirements `json:"osd,omitempty"`
	// Metadata servers.
	// +optional
	MDS *corev1.ResourceRequirements `json:"mds,omitempty"`
}

// CephStatus is what is known of the Ceph cluster of a Cluster.
type CephStatus struct {
	// FSID of the Ceph cluster: the UID of the Cluster, or spec.ceph.takeUp.fsid.
	// +optional
	FSID string `json:"fsid,omitempty"`
	// Monitors are the addresses of those on record, as "10.0.0.1:3300", ordered.
	// +optional
	// +listType=atomic
	Monitors []string `json:"monitors,omitempty"`
	// Health is what Ceph says: HEALTH_OK, HEALTH_WARN or HEALTH_ERR. While nobody can ask, it is what was said last.
	// +optional
	Health string `json:"health,omitempty"`
	// AskedAt is when Ceph was asked last and answered, to the minute.
	// +optional
	AskedAt *metav1.Time `json:"askedAt,omitempty"`
	// Checks are what Ceph says in its own words, the first 16: the name of a health check, and its summary.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Checks []string `json:"checks,omitempty"`
	// OSDs counts them, as Ceph knows them.
	// +optional
	OSDs CephOSDs `json:"osds,omitempty"`
	// Version that the daemons run, such as 20.2.4. While they differ, as during an upgrade, each of them, the lowest first: 20.2.4, 20.2.5.
	// Empty while none is known.
	// +optional
	Version string `json:"version,omitempty"`
	// Dashboard is where the manager says that it serves the dashboard; empty while it serves none.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Dashboard string `json:"dashboard,omitempty"`
	// Waits are up to 10 sentences: the first about what the controller waits for before it goes on, and after them what the spec asks for and does not get.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Waits []string `json:"waits,omitempty"`
}

// CephOSDs counts OSDs.
type CephOSDs struct {
	// Total of them, whether they run or not.
	Total int32 `json:"total"`
	// Up are those whose daemon runs.
	Up int32 `json:"up"`
	// In are those that data are placed on.
	In int32 `json:"in"`
}

// MaxMemberOSDs is the number of OSDs that a member has at most.
const MaxMemberOSDs = 64

// MemberCeph is the record of a member of a Cluster of type cephfs.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.osds) || oldSelf.osds.all(o, o.purged || (has(self.osds) && self.osds.exists(n, n.uuid == o.uuid)))",message="an OSD stays on record until it is purged"
type MemberCeph struct {
	// Monitor of the member; empty while it has none. It is written before the monitor is deployed, and taken away once it is out of the map and stopped.
	// +optional
	Monitor *MemberMonitor `json:"monitor,omitempty"`
	// OSDs are the disks that are OSDs of the Cluster, or become such. Each is written before Ceph knows of it.
	// +optional
	// +listType=map
	// +listMapKey=uuid
	// +kubebuilder:validation:MaxItems=64
	OSDs []MemberOSD `json:"osds,omitempty"`
	// Swept are monitors that the member had, and whose data are still to be removed from the node.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=8
	// +kubebuilder:validation:items:Pattern=`^[a-z]{1,8}$`
	Swept []string `json:"swept,omitempty"`
	// NoOut is true from before the flag noout is set for the OSDs of the host until it was taken back.
	// +optional
	NoOut bool `json:"noOut,omitempty"`
}

// HasJoined reports whether the host has an OSD that stays, or one that no person gave up. One that a person gave up may wait for the disk in its place: where each host has one, no
// other place is left for its copies.
func (r MemberCeph) HasJoined() bool {
	return slices.ContainsFunc(r.OSDs, func(o MemberOSD) bool { return !o.Replaced || o.AutoReplaced })
}

// MemberMonitor is the record of a monitor.
//
// +kubebuilder:validation:XValidation:rule="self.name != oldSelf.name || self.address == oldSelf.address",message="a monitor keeps its address: another one is another monitor"
type MemberMonitor struct {
	// Name that no other monitor of the Cluster ever had.
	// +kubebuilder:validation:Pattern=`^[a-z]{1,8}$`
	Name string `json:"name"`
	// Address of the node: an IP address.
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=45
	Address string `json:"address"`
}

// MemberOSD is the record of an OSD.
//
// +kubebuilder:validation:XValidation:rule="(has(self.encrypted) && self.encrypted) == (has(oldSelf.encrypted) && oldSelf.encrypted)",message="an OSD stays encrypted, or in the clear, as long as it is on record"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.keyed) || !oldSelf.keyed || !has(oldSelf.secret) || (has(self.secret) && self.secret == oldSelf.secret)",message="the Secret with the key of a disk stays on record as long as the key may open the disk; a controller of an earlier version does not know it"
type MemberOSD struct {
	// UUID of the OSD.
	// +kubebuilder:validation:MaxLength=36
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`
	UUID string `json:"uuid"`
	// Path of the disk when it was taken.
	Path DevicePath `json:"path"`
	// WWN of the disk when it was taken. Another disk at the same path is another one.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	WWN string `json:"wwn,omitempty"`
	// Serial number of the disk when it was taken.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Serial string `json:"serial,omitempty"`
	// Size of the disk in bytes when it was taken. A disk may grow; one that is smaller is another one.
	// +kubebuilder:validation:Minimum=1
	Size int64 `json:"size"`
	// Outed is written before Ceph is asked to mark the OSD out. It ends when the OSD is registered anew, or brought in.
	// +optional
	Outed bool `json:"outed"`
	// Replaced: the OSD, which died, is given up. It leaves as those of a host that leaves do.
	// +optional
	Replaced bool `json:"replaced,omitempty"`
	// AutoReplaced: no person approved that, spec.ceph.autoReplace did. If the disk comes back before the OSD is purged, the OSD stays. If it comes back later, a person approves that it
	// is cleared.
	// +optional
	AutoReplaced bool `json:"autoReplaced,omitempty"`
	// Purged is written before Ceph is asked to forget the OSD. It ends when the OSD is registered anew, or kept.
	// +optional
	Purged bool `json:"purged"`
	// Encrypted: the disk is encrypted, and the OSD in it.
	// +optional
	Encrypted bool `json:"encrypted,omitempty"`
	// Secret is the name of the Secret with the key of the disk, in namespace quarry-ceph. It is written before the Secret is made, and no OSD is given a name that was given before: whoever is
	// late with removing a Secret never removes one in use. An encrypted OSD of an earlier version has none on record: its Secret is ceph-NAME-osd-UUID.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Secret string `json:"secret,omitempty"`
	// Keyed: the key may have encrypted the disk. It is written before the key is used, and no other key is made until the disk is clean.
	// +optional
	Keyed bool `json:"keyed,omitempty"`
	// KeyDigest tells the key that encrypted the disk from others, and says nothing of it. It is written with keyed. Where it is not known, any key counts.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	KeyDigest string `json:"keyDigest,omitempty"`
}
