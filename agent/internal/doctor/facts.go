package doctor

// Facts are what was seen of a node. An error stands beside each that could not be read.
type Facts struct {
	// Name of the node, Release of its kernel, and Version of the agent.
	Name, Release, Version string
	// Host says why the host cannot be seen from here; empty when it can. Nothing else was looked at then.
	Host string
	// InImage is true where the programs of the agent's image are: not in a shell of the host.
	InImage bool
	// Programs are those that the agent calls, and whether each is there.
	Programs []Program
	// Parts of the kernel, by the names of their modules.
	Parts     map[string]Part
	Udev      Answer
	Clock     Answer
	Initiator Initiator
	Multipath Multipath
	// Luns are those that sessions of the node show, and LunsUnread why they could not be read.
	Luns       []Lun
	LunsUnread string
}

// Program is a program that the agent calls, and the storage type that needs it; Node for all.
type Program struct {
	Name, For string
	Found     bool
}

// Answer is yes, no, or the reason why nobody knows.
type Answer struct {
	Yes    bool
	Unread string
}

// Part is a part of the kernel.
type Part struct {
	Here, Loadable bool
	// Unread says why nobody could tell.
	Unread string
}

// Initiator is what makes iSCSI sessions on the node.
type Initiator struct {
	Name string
	// OfHost is true when the host's own iscsid serves.
	OfHost bool
	// HostTool is the path of the host's own iscsiadm; empty when it has none.
	HostTool string
	// Reason and Problem say why the node cannot use iSCSI, as its Members do; empty when it can.
	Reason, Problem string
}

// Multipath is what joins several paths to one LUN.
type Multipath struct {
	Runs bool
	// Unread says why its settings could not be read.
	Unread string
	// FindMultipaths, Overrides and Defaults are settings; empty where none is made.
	FindMultipaths, Overrides, Defaults string
	// Queueing names the arrays that it knows and whose writes it would hold back without an end.
	Queueing []string
}

// Lun is a LUN that a session shows.
type Lun struct {
	Device, Target string
	// Reservations says whether the target keeps persistent reservations.
	Reservations Answer
}
