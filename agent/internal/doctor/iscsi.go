package doctor

import (
	"fmt"
	"strconv"
	"strings"
)

func (r *report) iscsi(f Facts) {
	if f.Host != "" {
		return
	}
	r.part(f, "iscsi_tcp", Problem, "the iSCSI initiator")
	r.part(f, "dm_mod", Problem, "the device-mapper")
	r.programs(f, Iscsi)
	r.initiator(f.Initiator)
	r.multipath(f)
	r.luns(f)
}

func (r *report) initiator(i Initiator) {
	switch {
	case i.Problem != "" && i.Reason == "NoModules" && r.misses("iscsi_tcp"):
		return // It is said already.
	case i.Problem != "":
		r.say(Problem, fmt.Sprintf("%s: %s", i.Reason, i.Problem))
		return
	case i.OfHost && i.Name == "":
		r.say(Problem, "The host's iscsid has no name. Write InitiatorName=iqn.… into /etc/iscsi/initiatorname.iscsi, one of its own for each node, and restart iscsid.")
		return
	case i.OfHost:
		r.say(Good, fmt.Sprintf("The host's iscsid makes sessions, as %s. Each node needs a name of its own.", i.Name))
		return
	}
	if i.Name == "" {
		r.say(Good, "The host runs no iscsid: the agent starts one, and makes a name for it.")
	} else {
		r.say(Good, fmt.Sprintf("The host runs no iscsid: the agent starts one, as %s. Each node needs a name of its own.", i.Name))
	}
	if i.HostTool != "" {
		r.say(Notice, fmt.Sprintf("The host has %s and runs no iscsid. One of another version keeps the agent's iscsid waiting for as long as it runs:", i.HostTool),
			"start the host's iscsid, or call no iscsiadm there.")
	}
}

// misses reports whether a part of the kernel was found to be missing for this topic.
func (r *report) misses(part string) bool {
	for _, f := range r.findings {
		if f.Topic == r.topic && f.Level == Problem && strings.Contains(f.Text, "("+part+")") {
			return true
		}
	}
	return false
}

const (
	queue  = "queue"
	strict = "strict"
	mend   = "Write overrides { no_path_retry 12 } into /etc/multipath.conf, and restart multipathd."
)

func (r *report) multipath(f Facts) {
	m := f.Multipath
	if !m.Runs {
		r.say(Notice, "No multipathd runs: a target with several portals cannot be used from this node (MultipathMissing). One portal needs none.")
		return
	}
	r.part(f, "dm_multipath", Problem, "the maps of several paths")
	if m.Unread != "" {
		r.say(Unknown, fmt.Sprintf("What multipathd does without a path is not known: %s.", m.Unread))
		return
	}
	if m.FindMultipaths == strict {
		r.say(Problem, "multipathd takes no LUN that it has not seen before (find_multipaths strict). Write find_multipaths no into the section defaults of /etc/multipath.conf, and restart it.")
	}
	n, err := strconv.Atoi(m.Overrides)
	switch {
	case m.Overrides == queue, m.Overrides == "" && m.Defaults == queue:
		r.say(Problem, "multipathd holds writes back for ever once no path is left (no_path_retry queue): pods hang, and what they have open is never given back.", mend)
	case m.Overrides != "" && err == nil && n > 0:
		r.say(Good, fmt.Sprintf("multipathd returns errors once no path is left for %d of its looks (no_path_retry).", n))
	case m.Overrides != "":
		r.say(Notice, fmt.Sprintf("multipathd returns errors as soon as no path is left (no_path_retry %s): filesystems turn read-only at a short gap.", m.Overrides), mend)
	case len(m.Queueing) > 0:
		r.say(Notice, fmt.Sprintf("What multipathd knows of an array outranks its defaults, and it holds writes back for ever for %d kinds of them, such as %s.", len(m.Queueing), m.Queueing[0]), mend)
	default:
		r.say(Notice, "What multipathd does once no path is left depends on the array.", mend)
	}
}

func (r *report) luns(f Facts) {
	if f.LunsUnread != "" {
		r.say(Unknown, fmt.Sprintf("The LUNs of the sessions cannot be read: %s.", f.LunsUnread))
	}
	for _, l := range f.Luns {
		switch {
		case l.Reservations.Unread != "":
			r.say(Unknown, fmt.Sprintf("Whether the target %s keeps reservations on %s is not known: %s.", l.Target, l.Device, l.Reservations.Unread))
		case !l.Reservations.Yes:
			r.say(Notice, fmt.Sprintf("The target %s keeps no reservations that all nodes hold on %s: a node that fell silent needs your word (NoReservations).", l.Target, l.Device))
		default:
			r.say(Good, fmt.Sprintf("The target %s keeps reservations on %s.", l.Target, l.Device))
		}
	}
}
