package sharedlun

import "time"

// Time limits of the protocol. They hang together: whoever waits for an answer waits longer than the work may take, and a process is taken for gone only
// after longer than it waits for one answer. TestLimits holds that.
const (
	// ChangeTimeout is when LVM is ended in a change of a group.
	ChangeTimeout = time.Minute
	// LookTimeout is how long an agent looks at the group after a change, when the time of the change may be over.
	LookTimeout = 30 * time.Second
	// slack is for the way there and back, and for a killed command to be gone.
	slack = 15 * time.Second
	// ReadTimeout bounds a call that changes nothing.
	ReadTimeout = 20 * time.Second
	// DeviceTimeout bounds a call that changes devices, or has a node promise an epoch: both wait for a change that is under way.
	DeviceTimeout = ChangeTimeout + LookTimeout + slack
	// Patience is after which time without a change the record of another process is stale.
	Patience = 2*DeviceTimeout + slack
)

// Limits of what is told of a LUN. Each has one meaning on the wire and in the API: TestLimits_api holds the definitions of the kinds to them.
const (
	// MaxPortals of one target.
	MaxPortals = 8
	// MaxIdentity is how many bytes a WWID or a serial number has at most.
	MaxIdentity = 256
	// MaxOldKeys is how many keys of earlier boots of a node are on record, and are told to its agent at a time.
	MaxOldKeys = 64
)

// AnswerTimeout is how long the answer to a change is waited for that has a time limit.
func AnswerTimeout(change time.Duration) time.Duration { return change + LookTimeout + slack }
