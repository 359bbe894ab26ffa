package sharedvolume

// Reasons why a share cannot be used. The agent finds them, the Nfs shows them.
const (
	// ReasonUnreachable: the server does not answer, or stopped answering.
	ReasonUnreachable = "Unreachable"
	// ReasonNameUnresolved: the server's name does not resolve.
	ReasonNameUnresolved = "NameUnresolved"
	// ReasonRefused: the server does not allow this node to mount the export.
	ReasonRefused = "Refused"
	// ReasonNotExported: the server exports no such path.
	ReasonNotExported = "NotExported"
	// ReasonNotNFS: what listens there does not speak NFS, or not the wanted version.
	ReasonNotNFS = "NotNFS"
	// ReasonReadOnly: the export is read-only.
	ReasonReadOnly = "ReadOnly"
	// ReasonRootSquashed: the server maps root to another user, so that directories cannot be given to pods.
	ReasonRootSquashed = "RootSquashed"
	// ReasonTooManyCalls: the agent of this node takes no call on the share now, for it works on as many calls or shares as it takes at a time, or is unmounting the
	// share. It says nothing of the share.
	ReasonTooManyCalls = "TooManyCalls"
	// ReasonNoSpace: the share is full.
	ReasonNoSpace = "NoSpace"
	// ReasonUnstable: the server changes the identity of a directory when it is renamed, so that nobody could recognise it.
	ReasonUnstable = "UnstableIdentity"
	// ReasonOtherShare: the share is not the one that is recorded.
	ReasonOtherShare = "OtherShare"
	// ReasonNotPrepared: the share carries no mark of this Nfs.
	ReasonNotPrepared = "NotPrepared"
	// ReasonInvalid: server, path or options are not accepted.
	ReasonInvalid = "Invalid"
	// ReasonUnknown: anything else. The message has what the kernel said.
	ReasonUnknown = "Unknown"
)
