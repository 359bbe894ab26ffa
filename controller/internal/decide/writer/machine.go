package writer

import (
	"fmt"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Granted is what is on record of the machine that a node's key was granted to.
type Granted struct {
	// BootID is the boot that the key is for, and Machine the machine that was in it; empty when nobody knows which.
	BootID, Machine string
	// Unfenced is true when the key is registered nowhere, Registering while a command to register it may be under way, Fenced once it was taken off.
	Unfenced, Registering, Fenced bool
}

// GrantedTo returns what a record says of the machine that a key was granted to.
func GrantedTo(r *v1alpha1.MemberReservation) Granted {
	return Granted{BootID: r.BootID, Machine: r.Machine, Unfenced: r.Unfenced, Registering: r.Registering != "", Fenced: r.Fenced}
}

// Rests reports whether nothing but its UUID tells that the machine which answers in a boot is that of the record: no key does. What other nodes say of their machines matters then.
func (g Granted) Rests(bootID, machine string) bool {
	return (g.BootID != bootID || bootID == "") && !g.vouched() && g.keyless() && decide.Machine(machine) != "" && decide.SameMachine(g.Machine, machine)
}

// vouched reports whether whoever approved the fence vouched that the machine is off.
func (g Granted) vouched() bool { return g.Fenced && (g.Unfenced || g.BootID == sharedlun.UnknownBoot) }

// keyless reports whether no key tells which machine answers.
func (g Granted) keyless() bool { return g.Unfenced || g.Registering || g.Fenced }

// Stranger returns why the machine that answers in a boot as a node may be another one than that of the record, where no key tells of it; empty when it counts as the same. machine is
// empty when nobody knows which one it is. A boot is one of one machine, so that in the boot of the record nothing is asked. Without a machine on record keys tell as far as
// they do: they do not where there are none, where one may still be registered, and where the earlier machine, once it is fenced, may read.
// A UUID that tells no machine from others is the same as none, and so is one that another node has, too. everyone is called only where that matters: there may be thousands to read.
func Stranger(g Granted, node, bootID, machine string, everyone func() (decide.Everyone, error)) (string, error) {
	others := ""
	if g.Rests(bootID, machine) {
		all, err := everyone()
		if err != nil {
			return "", err
		}
		others = all.Others(node, machine)
	}
	return g.stranger(bootID, machine, others), nil
}

// stranger is Stranger, of a machine whose UUID others have as well.
func (g Granted) stranger(bootID, machine, others string) string {
	recorded, now := decide.Machine(g.Machine), decide.Machine(machine)
	switch {
	case g.BootID == bootID && bootID != "":
		return ""
	case g.vouched():
		return ""
	case recorded != "" && now == "" && machine != "":
		return fmt.Sprintf("its UUID in boot %q is %s, which is a default of the maker, or none: give the machine a UUID of its own. Machine %s, which had the name of the node, may still use the LUN", bootID, machine, g.Machine)
	case recorded != "" && now == "":
		return fmt.Sprintf("its Node does not say which machine it is in boot %q, and machine %s, which had the name of the node, may still use the LUN", bootID, g.Machine)
	case recorded != "" && !decide.SameMachine(recorded, now):
		return fmt.Sprintf("it is machine %s, and machine %s, which had the name of the node, may still use the LUN", machine, g.Machine)
	case !g.keyless():
		return ""
	case g.Machine == "":
		return fmt.Sprintf("it is not known which machine was in boot %q of the node, and that one may still use the LUN", g.BootID)
	case recorded == "":
		others = decide.Everyone{}.Others("", g.Machine)
	case others == "":
		return ""
	}
	return fmt.Sprintf("the UUID %s on record tells no machine from others: %s. So it is not known which machine was in boot %q of the node, and that one may still use the LUN. "+
		"Give each machine a UUID of its own, in its firmware or in the settings of the VM", g.Machine, others, g.BootID)
}
