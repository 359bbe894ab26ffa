package writer

import (
	"fmt"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Granted is what is on record of the machine that a node's key was granted to.
type Granted struct {
	// BootID is the boot that the key is for, and Machine the machine that was in it; empty when nobody knows which.
	BootID, Machine string
	// Unfenced is true when the key is registered nowhere, Registering while a command to register it may be under way, Fenced once it was taken off.
	Unfenced, Registering, Fenced bool
	// Shared is true when that machine may be another node as well, by its UUID.
	Shared bool
}

// Rests reports whether nothing but its UUID tells that the machine which answers in a boot is that of the record: no key does. What other nodes say of their machines matters then.
func (g Granted) Rests(bootID, machine string) bool {
	return (g.BootID != bootID || bootID == "") && !g.vouched() && g.keyless() && g.Machine != "" && g.Machine == machine
}

// vouched reports whether whoever approved the fence vouched that the machine is off.
func (g Granted) vouched() bool { return g.Fenced && (g.Unfenced || g.BootID == sharedlun.UnknownBoot) }

// keyless reports whether no key tells which machine answers.
func (g Granted) keyless() bool { return g.Unfenced || g.Registering || g.Fenced }

// Stranger returns why the machine that answers in a boot may be another one than that of the record, where no key tells of it; empty when it counts as the same. machine is
// empty when nobody knows which one it is. A boot is one of one machine, so that in the boot of the record nothing is asked. Without a machine on record keys tell as far as
// they do: they do not where there are none, where one may still be registered, and where the earlier machine, once it is fenced, may read.
// A UUID that tells no machine from others is the same as none, and so is one that another node has, too.
func Stranger(g Granted, bootID, machine string) string {
	g.Machine, machine = decide.Machine(g.Machine), decide.Machine(machine)
	if g.Shared && g.Machine == machine {
		g.Machine, machine = "", ""
	}
	switch {
	case g.BootID == bootID && bootID != "":
		return ""
	case g.vouched():
		return ""
	case g.Machine != "" && machine == "":
		return fmt.Sprintf("its Node does not say which machine it is in boot %q, and machine %s, which had the name of the node, may still use the LUN", bootID, g.Machine)
	case g.Machine != "" && machine != g.Machine:
		return fmt.Sprintf("it is machine %s, and machine %s, which had the name of the node, may still use the LUN", machine, g.Machine)
	case g.Machine == "" && g.keyless():
		return fmt.Sprintf("it is not known which machine was in boot %q of the node, and that one may still use the LUN", g.BootID)
	}
	return ""
}
