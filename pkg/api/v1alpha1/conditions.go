package v1alpha1

// Condition types of a storage. Ready is computed from the others.
const (
	// ConditionReady: the storage serves volumes, from every host that it should where it has hosts.
	ConditionReady = "Ready"
	// ConditionHostsValid: every host exists and may be used, and maintenance names no other. Only storages with members have it.
	ConditionHostsValid = "HostsValid"
	// ConditionPlanApproved: no step waits for approval. Only storages with members have it.
	ConditionPlanApproved = "PlanApproved"
	// ConditionStorageClassReady: the StorageClass exists and is ours.
	ConditionStorageClassReady = "StorageClassReady"
	// ConditionCSIReady: the CSI driver of the StorageClass is deployed and serves.
	ConditionCSIReady = "CSIReady"
)

// Condition types of a Cluster, beside those of every storage.
const (
	// ConditionDisksReady: every host holds its part of the volume group.
	ConditionDisksReady = "DisksReady"
	// ConditionThinPoolsHealthy: no thin pool is nearly full. Volumes are served all the same, so Ready does not depend on it. Only
	// Clusters with thin pools have it.
	ConditionThinPoolsHealthy = "ThinPoolsHealthy"
)

// Condition types of a Cluster of type cephfs, beside those of every storage.
const (
	// ConditionOSDsReady: every disk of every host is an OSD whose daemon runs.
	ConditionOSDsReady = "OSDsReady"
	// ConditionMonitorsReady: the monitors answer, and all of those that the Cluster wants are in the quorum.
	ConditionMonitorsReady = "MonitorsReady"
	// ConditionFilesystemReady: the filesystem exists, and a metadata server serves it.
	ConditionFilesystemReady = "FilesystemReady"
	// ConditionCephHealthy: Ceph says HEALTH_OK. Volumes are served with HEALTH_WARN all the same, so Ready depends on HEALTH_ERR only.
	ConditionCephHealthy = "CephHealthy"
	// ConditionCephConfigured: Ceph took every option of spec.ceph.config. Volumes are served all the same, so Ready does not depend on it.
	ConditionCephConfigured = "CephConfigured"
	// ConditionBlocklistKnown: the record of the Cluster says why each address on Ceph's blocklist is there. Ready does not depend on it.
	ConditionBlocklistKnown = "BlocklistKnown"
	// ConditionDisksEncrypted: the disk of every OSD is encrypted, and the Secret of each has its key. Only a Cluster that wants or wanted encrypted disks has it. Ready does not depend on it.
	ConditionDisksEncrypted = "DisksEncrypted"
	// ConditionCopiesSafe: there are as many copies of everything as survive one loss while another host is away. Ready does not depend on it.
	ConditionCopiesSafe = "CopiesSafe"
	// ConditionDaemonsCurrent: every daemon has the image and the resources of the spec. Ready does not depend on it.
	ConditionDaemonsCurrent = "DaemonsCurrent"
)

// Condition types of an Nfs, beside those of every storage.
const (
	// ConditionShareReachable: an agent reached the share within the last minute, and may write to it.
	ConditionShareReachable = "ShareReachable"
	// ConditionShareUnique: no older Nfs names the same share, and none a share inside or around this one. Volumes are served all the same, so Ready does not depend on it.
	ConditionShareUnique = "ShareUnique"
)

// Condition types of an Iscsi, beside those of every storage.
const (
	// ConditionInitiatorsReady: every initiator sees the LUN, and may write to it.
	ConditionInitiatorsReady = "InitiatorsReady"
	// ConditionTargetReachable: at least one initiator has a session with the target, and reads the LUN.
	ConditionTargetReachable = "TargetReachable"
	// ConditionTargetUnique: no older Iscsi names the same target.
	ConditionTargetUnique = "TargetUnique"
	// ConditionLunReady: the LUN is the recorded one, and holds the volume group of the Iscsi.
	ConditionLunReady = "LunReady"
	// ConditionPathsHealthy: every initiator has every path. Volumes are served all the same, so Ready does not depend on it.
	ConditionPathsHealthy = "PathsHealthy"
	// ConditionVolumesPresent: every volume that a PersistentVolume names is on the shared LUN, on the share of an Nfs, or in the filesystem of a Cluster of type cephfs.
	ConditionVolumesPresent = "VolumesPresent"
	// ConditionVolumesOfGroup: every PersistentVolume of the class names the volume group that is on record. One that names another cannot be used, and is no
	// matter of the others.
	ConditionVolumesOfGroup = "VolumesOfGroup"
	// ConditionFencingPossible: the target keeps persistent reservations, by which a node that fell silent is kept from writing. Volumes are served all the
	// same, so Ready does not depend on it.
	ConditionFencingPossible = "FencingPossible"
)

// Condition types of a Member, beside Ready.
const (
	// ConditionLeaving: the member was taken off the spec, and is removed after spec.removalDelay once it holds no data.
	ConditionLeaving = "Leaving"
	// ConditionRetired: nothing lies on the devices that spec.retire lists, and none is in the member's volume group. Only members that list one
	// have it. Volumes are served all the same, so Ready does not depend on it.
	ConditionRetired = "Retired"
	// ConditionRecordReported: the host reports what the member has on record. Unknown: the host answers, and what it reports leaves that open, or
	// nobody can say yet. A word that the member is lost is refused unless it is False.
	ConditionRecordReported = "RecordReported"
	// ConditionGivenUpAbsent: none of the groups that spec.group.earlier lists is on the host or on another one, so nothing can serve the volumes that are
	// recorded in them. Unknown: the host does not say so for sure. Only members that gave up a group have it. Ready does not depend on it.
	ConditionGivenUpAbsent = "GivenUpAbsent"
	// ConditionSound is False, with what was wrong the last time that the host could say, as a volume that is lost. It stays while the host is silent, also under
	// maintenance, and keeps Ready of the storage from being True. Only members of which something was wrong have it, and none of a storage that moves data.
	ConditionSound = "Sound"
)

// Reasons of conditions and events.
const (
	ReasonReady               = "Ready"
	ReasonPending             = "Pending"
	ReasonNotYetSupported     = "NotYetSupported"
	ReasonHostNotFound        = "HostNotFound"
	ReasonHostConflict        = "HostConflict"
	ReasonHostsValid          = "HostsValid"
	ReasonNoHost              = "NoHost"
	ReasonAgentMissing        = "AgentMissing"
	ReasonAgentUnreachable    = "AgentUnreachable"
	ReasonAgentConnected      = "AgentConnected"
	ReasonNoCleanDevice       = "NoCleanDevice"
	ReasonDeviceNotFound      = "DeviceNotFound"
	ReasonDeviceRefused       = "DeviceRefused"
	ReasonDeviceConflict      = "DeviceConflict"
	ReasonVolumeGroupConflict = "VolumeGroupConflict"
	ReasonOtherNode           = "OtherNode"
	ReasonSharedDisk          = "SharedDisk"
	ReasonDisksReady          = "DisksReady"
	ReasonPreparing           = "Preparing"
	ReasonDisksAdded          = "DisksAdded"
	ReasonDiskWiped           = "DiskWiped"
	ReasonMemberFailing       = "MemberFailing"
	ReasonMemberStateChanged  = "MemberStateChanged"
	ReasonMemberRemoved       = "MemberRemoved"
	ReasonVolumesExist        = "VolumesExist"
	// ReasonAccessDenied: the controller lacks rights in the namespace, which somebody has to give it there.
	ReasonAccessDenied       = "AccessDenied"
	ReasonApprovalRequired   = "ApprovalRequired"
	ReasonApproved           = "Approved"
	ReasonNameConflict       = "NameConflict"
	ReasonStorageClassReady  = "StorageClassReady"
	ReasonStorageClassFailed = "StorageClassFailed"
	ReasonDeleting           = "Deleting"
	ReasonStepFailed         = "StepFailed"
	ReasonPartial            = "VolumeGroupPartial"
	ReasonVolumeStale        = "VolumeStale"
	ReasonVolumeUnusable     = "VolumeUnusable"
	ReasonMoveUnfinished     = "MoveUnfinished"
	ReasonVolumeGroupLost    = "VolumeGroupLost"
	ReasonVolumeLost         = "VolumeLost"
	ReasonVolumeGroupUnknown = "VolumeGroupUnknown"
	ReasonNameTaken          = "NameTaken"
	ReasonOwnerMissing       = "OwnerMissing"
	ReasonHostNotListed      = "HostNotListed"
	ReasonHostNotSelected    = "HostNotSelected"
	ReasonOwnerDeleted       = "OwnerDeleted"
	ReasonLost               = "Lost"
	ReasonMaintenance        = "Maintenance"
	ReasonApprovalDropped    = "ApprovalDropped"
	ReasonMaintenanceUnknown = "MaintenanceUnknown"
	ReasonNotSeen            = "NotSeen"
	ReasonSelectorInvalid    = "SelectorInvalid"
	ReasonShareReachable     = "ShareReachable"
	ReasonShareUnique        = "ShareUnique"
	ReasonRecordReported     = "RecordReported"
	ReasonRecordNotReported  = "RecordNotReported"
	ReasonRecordUnsure       = "RecordUnsure"
	ReasonRecordTooEarly     = "RecordTooEarly"
	ReasonGivenUpAbsent      = "GivenUpAbsent"
	ReasonGivenUpSeen        = "GivenUpSeen"
	ReasonGivenUpUnsure      = "GivenUpUnsure"
	ReasonRetired            = "Retired"
	ReasonRetiring           = "Retiring"
	ReasonSameShare          = "SameShare"
	ReasonNestedShare        = "NestedShare"
	ReasonNoAgent            = "NoAgent"
	ReasonNoRoom             = "NoRoom"
	ReasonCSIReady           = "CSIReady"
	ReasonCSIDeploying       = "CSIDeploying"
	ReasonCSIFailed          = "CSIFailed"
	ReasonThinPoolConflict   = "ThinPoolConflict"
	ReasonThinPoolDamaged    = "ThinPoolDamaged"
	ReasonThinPoolNearlyFull = "ThinPoolNearlyFull"
	ReasonThinPoolsHealthy   = "ThinPoolsHealthy"
	ReasonThinPoolUnknown    = "ThinPoolUnknown"
)

// Reasons of an Iscsi and its Members, beside those of the agents, which pkg/sharedlun has.
const (
	ReasonInitiatorsReady = "InitiatorsReady"
	ReasonTargetReachable = "TargetReachable"
	// ReasonSameTarget: an older Iscsi names the same target.
	ReasonSameTarget   = "SameTarget"
	ReasonTargetUnique = "TargetUnique"
	// ReasonTargetChanged: the spec names another target than the one whose LUN is on record.
	ReasonTargetChanged = "TargetChanged"
	// ReasonChapSecretInvalid: the Secret with the credentials is missing or incomplete.
	ReasonChapSecretInvalid = "ChapSecretInvalid"
	// ReasonInitiatorNameTaken: two nodes have initiators of one name.
	ReasonInitiatorNameTaken = "InitiatorNameTaken"
	// ReasonInitiatorRenamed: the node's initiator has another name than when its key was granted.
	ReasonInitiatorRenamed = "InitiatorRenamed"
	ReasonLunReady         = "LunReady"
	// ReasonNoLun: the target shows no LUN to the node.
	ReasonNoLun = "NoLun"
	// ReasonSeveralLuns: the target shows several LUNs, and none is on record.
	ReasonSeveralLuns = "SeveralLuns"
	// ReasonOtherLun: the node sees another LUN than the recorded one, or one that shrank.
	ReasonOtherLun = "OtherLun"
	// ReasonLunUnusable: the LUN is read-only, or has no WWID or serial number.
	ReasonLunUnusable = "LunUnusable"
	// ReasonLunGrown: the LUN is larger than its volume group, which does not use what was added.
	ReasonLunGrown = "LunGrown"
	// ReasonLunNotEmpty: something of somebody else is on the LUN.
	ReasonLunNotEmpty = "LunNotEmpty"
	// ReasonLunInUse: somebody uses the LUN on a node, or that is not known of a node that sees it, and it is not ours yet.
	ReasonLunInUse = "LunInUse"
	// ReasonGroupUnreadable: no initiator can read the volume group, or one sees an earlier state of it.
	ReasonGroupUnreadable = "GroupUnreadable"
	// ReasonRecordConflict: Members have different LUNs or groups on record; or volumes name different groups, and no Member has one.
	ReasonRecordConflict = "RecordConflict"
	ReasonVolumesOfGroup = "VolumesOfGroup"
	// ReasonVolumesPresent: every volume is there.
	ReasonVolumesPresent = "VolumesPresent"
	// ReasonVolumesMissing: a PersistentVolume names a volume that is not on the LUN, or not in the filesystem.
	ReasonVolumesMissing = "VolumesMissing"
	// ReasonOtherGroup: a PersistentVolume names another volume group than the one on record.
	ReasonOtherGroup   = "OtherGroup"
	ReasonPathsHealthy = "PathsHealthy"
	// ReasonPathDown: a path to the LUN is missing or down.
	ReasonPathDown = "PathDown"
	// ReasonOtherTarget: a path leads to the LUN through another target than the storage's.
	ReasonOtherTarget = "OtherTarget"
	// ReasonSessionNotServed: iscsid does not serve a session, and nobody connects it again.
	ReasonSessionNotServed = "SessionNotServed"
	ReasonFencingPossible  = "FencingPossible"
	// ReasonNoReservations: the target keeps no persistent reservations.
	ReasonNoReservations = "NoReservations"
	// ReasonReservationsGone: the target had persistent reservations, and says now that it has none.
	ReasonReservationsGone = "ReservationsGone"
	// ReasonForeignKeys: keys are registered on the LUN that no Member has on record.
	ReasonForeignKeys = "ForeignKeys"
	// ReasonKeyLost: the node's key is not registered any more, and volumes are mapped there.
	ReasonKeyLost = "KeyLost"
	// ReasonMappedWithoutKey: volumes are mapped on the node, which was granted no key for its boot.
	ReasonMappedWithoutKey = "MappedWithoutKey"
	// ReasonNotReserved: nobody has reserved the LUN, so that whoever has no key can write to it.
	ReasonNotReserved = "NotReserved"
	// ReasonFenced: the node was fenced, and not booted since.
	ReasonFenced = "Fenced"
	// ReasonKeysPreempted: keys were taken off the LUN. An event only.
	ReasonKeysPreempted = "KeysPreempted"
	// ReasonReadersForgotten: a node that was fenced is no reader of volumes any more, by a person's word. An event only.
	ReasonReadersForgotten = "ReadersForgotten"
	// ReasonLunWiped: what was on the LUN was given up for the volume group. An event only.
	ReasonLunWiped = "LunWiped"
)

// Reasons of conditions of a Cluster of type cephfs.
const (
	ReasonOSDsReady       = "OSDsReady"
	ReasonMonitorsReady   = "MonitorsReady"
	ReasonFilesystemReady = "FilesystemReady"
	ReasonCephHealthy     = "CephHealthy"
	ReasonCephConfigured  = "CephConfigured"
	ReasonCopiesSafe      = "CopiesSafe"
	ReasonDisksEncrypted  = "DisksEncrypted"
	// ReasonDisksNotEncrypted: OSDs from before the spec wanted encrypted disks are in the clear. ReasonDiskKeyMissing: the Secret with the key of a disk is gone, or does not have what is needed.
	// ReasonEncryptionOff: the spec does not want encrypted disks any more. Those that are encrypted stay so.
	ReasonDisksNotEncrypted = "DisksNotEncrypted"
	ReasonDiskKeyMissing    = "DiskKeyMissing"
	ReasonEncryptionOff     = "EncryptionOff"
	ReasonBlocklistKnown    = "BlocklistKnown"
	ReasonClientsBlocked    = "ClientsBlocked"
	ReasonDaemonsCurrent    = "DaemonsCurrent"
	// ReasonDaemonsOutdated: daemons have another image or other resources than the spec wants. The message says which, and what they wait for.
	ReasonDaemonsOutdated = "DaemonsOutdated"
	// ReasonCephWarning and ReasonCephError: Ceph says HEALTH_WARN or HEALTH_ERR.
	ReasonCephWarning = "CephWarning"
	ReasonCephError   = "CephError"
	// ReasonCephUnreachable: the monitors do not answer.
	ReasonCephUnreachable = "CephUnreachable"
	// ReasonCephForming: the monitors were never seen as a quorum yet.
	ReasonCephForming = "CephForming"
	// ReasonCephImageTooOld: the tag of the image names a version of Ceph that is not supported. No daemon is made of it.
	ReasonCephImageTooOld = "CephImageTooOld"
	// ReasonCephKeysMissing: the Secret with the keys of the Ceph cluster is gone. None is made anew.
	ReasonCephKeysMissing = "CephKeysMissing"
	// ReasonMonitorMissing: fewer monitors than wanted are in the quorum.
	ReasonMonitorMissing = "MonitorMissing"
	// ReasonOptionRefused: Ceph refuses an option of spec.ceph.config, or a module of its managers.
	ReasonOptionRefused = "OptionRefused"
	// ReasonFewCopies: one loss, or two, cost data.
	ReasonFewCopies = "FewCopies"
	// ReasonCopiesShareHost: all copies of something may be on one host, as spec.ceph.failureDomain says.
	ReasonCopiesShareHost = "CopiesShareHost"
	// ReasonCopiesMissing: some copies are not there now.
	ReasonCopiesMissing = "CopiesMissing"
	// ReasonOSDWaiting: an OSD of the host is not made, or does not run, and what it waits for is told.
	ReasonOSDWaiting = "OSDWaiting"
	// ReasonTooLittleMemory: pods can have less memory on the host than its daemons need. ReasonClocksDiffer: its clock differs from those of most other hosts.
	// ReasonWrongArchitecture: the image cannot run there. ReasonHostUnread: one of these facts could not be read. Nothing more is begun on the host.
	ReasonTooLittleMemory   = "TooLittleMemory"
	ReasonClocksDiffer      = "ClocksDiffer"
	ReasonWrongArchitecture = "WrongArchitecture"
	ReasonHostUnread        = "HostUnread"
	// ReasonDraining: the data of the host's OSDs are being moved, or cannot be, before the host is removed.
	ReasonDraining = "Draining"
	// ReasonNoFilesystem: the filesystem is not served.
	ReasonNoFilesystem = "NoFilesystem"
)
