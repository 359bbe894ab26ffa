package sharedlun

// Reasons why a target or a LUN cannot be used. The agent finds them, the Iscsi and its Members show them.
const (
	// ReasonNoModules: the kernel of the node has no iSCSI initiator.
	ReasonNoModules = "NoModules"
	// ReasonNoTools: iscsid cannot be run on the node.
	ReasonNoTools = "NoTools"
	// ReasonPortalUnreachable: no portal answers.
	ReasonPortalUnreachable = "PortalUnreachable"
	// ReasonTargetUnreachable: a portal answers, and the session does not come up.
	ReasonTargetUnreachable = "TargetUnreachable"
	// ReasonWrongTarget: the portal has no target of that name, or does not show it to this initiator.
	ReasonWrongTarget = "WrongTarget"
	// ReasonWrongChap: the target refuses the credentials, or the target's own are wrong.
	ReasonWrongChap = "WrongChap"
	// ReasonSessionInUse: a LUN of the target is in use on the node.
	ReasonSessionInUse = "SessionInUse"
	// ReasonLastKey: a session is not made anew, since the reservation would end with the key that is taken off its path.
	ReasonLastKey = "LastKey"
	// ReasonOtherKey: the target has another key for a path of the node than those that the node was told of.
	ReasonOtherKey = "OtherKey"
	// ReasonKeyStays: a node took its key off every path that it has, and the target has that key still, of a path that is down or of a session that is gone.
	ReasonKeyStays = "KeyStays"
	// ReasonMultipathMissing: several paths lead to the LUN, and multipathd does not run.
	ReasonMultipathMissing = "MultipathMissing"
)

// Problem says why a target cannot be used from a node.
type Problem struct {
	// Reason is one of the constants ReasonXxx.
	Reason string
	// Message is one sentence for a person. It never has a secret in it.
	Message string
}

// Error is the sentence.
func (p *Problem) Error() string { return p.Message }
