package doctor

import (
	"fmt"
	"strings"
)

func (r *report) node(f Facts) {
	if f.Host != "" {
		r.say(Unknown, fmt.Sprintf("The host cannot be seen from here: %s.", f.Host),
			"Run the doctor as root, in a pod with hostPID that is privileged, or on the host itself.")
		return
	}
	r.say(Good, fmt.Sprintf("Kernel %s, agent %s.", f.Release, f.Version))
	switch {
	case f.Udev.Unread != "":
		r.say(Unknown, fmt.Sprintf("Whether udev runs is not known: %s.", f.Udev.Unread))
	case !f.Udev.Yes:
		r.say(Problem, "No udev runs: devices have no stable names, and none is taken. Start it, or give the agent the argument --without-udev.")
	default:
		r.say(Good, "udev runs.")
	}
	switch {
	case f.Clock.Unread != "":
		r.say(Notice, fmt.Sprintf("Whether something sets the clock is not known: %s.", f.Clock.Unread))
	case !f.Clock.Yes:
		r.say(Notice, "Nothing sets the clock, says the kernel: certificates are refused once it is wrong by more than they allow. Run chrony, or another service of that kind.")
	default:
		r.say(Good, "The clock is being set.")
	}
	r.programs(f, Node)
}

// programs names those that are missing. On a host they are not looked for: the agent calls those of its image.
func (r *report) programs(f Facts, topic string) {
	var missing, found []string
	for _, p := range f.Programs {
		switch {
		case p.For != topic:
		case p.Found:
			found = append(found, p.Name)
		default:
			missing = append(missing, p.Name)
		}
	}
	switch {
	case !f.InImage:
		return
	case len(missing) > 0:
		r.say(Problem, fmt.Sprintf("The image lacks %s.", strings.Join(missing, ", ")), "Build it as Dockerfile.agent says.")
	case len(found) > 0:
		r.say(Good, fmt.Sprintf("The image has %s.", strings.Join(found, ", ")))
	}
}

// part says whether the kernel has a part, and at what level it is missed.
func (r *report) part(f Facts, name string, missed Level, what string) {
	if f.Host != "" {
		return
	}
	p := f.Parts[name]
	switch {
	case p.Here:
		r.say(Good, fmt.Sprintf("The kernel has %s (%s).", what, name))
	case p.Loadable:
		r.say(Good, fmt.Sprintf("The kernel has %s (%s), not loaded yet.", what, name))
	case p.Unread != "":
		r.say(min(missed, Unknown), fmt.Sprintf("Whether the kernel has %s is not known (%s): %s.", what, name, p.Unread), "Look for it with modprobe --dry-run on the host.")
	default:
		r.say(missed, fmt.Sprintf("The kernel has no %s (%s).", strings.TrimPrefix(what, "the "), name), "Install the kernel's modules on the host.")
	}
}

func (r *report) lvm(f Facts) {
	r.part(f, "dm_mod", Problem, "the device-mapper")
	r.part(f, "dm_thin_pool", Notice, "the thin pools that thinPool asks for")
	r.part(f, "dm_snapshot", Notice, "the snapshots of device-mapper")
	r.part(f, "xfs", Notice, "the filesystem xfs")
	r.programs(f, Lvm)
}
