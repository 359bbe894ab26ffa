package ceph

import (
	"fmt"
	"slices"
	"time"

	"quarry.storage/quarry/pkg/osd"
)

// awayFor is how long a disk is missing before it counts as gone: hosts boot without some of their disks at first, and a person needs time to put one back.
const awayFor = time.Hour

// offer gives up an OSD that died: one that is down, and out, as Ceph marks it after its own interval. A person approves that. Until then, and as long as nobody approves, its
// disk may come back with all that is on it. So is one that never ran and whose key is gone: nothing else would bring it up. Where the spec says so it is given up without a person, if nothing can be lost by it.
func (w OSDs) offer(p *Plan, d Disk, f Facts) {
	o, known := f.Map.byUUID(d.UUID)
	unused := o.New && d.Locked != ""
	if !known {
		w.offerForgotten(p, d)
		return
	}
	if o.Up || (o.In || o.New) && !unused || d.goes() {
		return
	}
	is := map[bool]string{true: "is down, and Ceph has marked it out", false: "is down, and somebody marked it out"}[o.AutoOut]
	if unused {
		is = "never ran, and no key opens its disk"
	}
	switch h := w.host(d.Host); {
	case h.Maintenance:
		p.wait("osd.%d on %s %s. It can be replaced after the maintenance of its host.", o.ID, d.Host, is)
		return
	case !h.Serving:
		p.wait("osd.%d on %s %s. It can be replaced once the agent of its host answers.", o.ID, d.Host, is)
		return
	}
	s := Step{
		Do: ReplaceOSD, Host: d.Host, Path: d.Path, UUID: d.UUID, ID: o.ID, Why: "The OSD " + is + ".",
		Loses: fmt.Sprintf("osd.%d on disk %s of host %s is given up, with what is on the disk. That is cleared once Ceph says that no placement group needs it. If it was the last OSD of the host, a clean disk of the host takes its place.", o.ID, d.Path, d.Host),
	}
	if d.At != "" {
		s.Loses += fmt.Sprintf(" The disk is in host %s, and is not cleared there.", d.At)
	}
	if unused {
		offerUnused(p, s, d, is)
		return
	}
	text := "Bring its disk back, or approve ReplaceOSD in the plan of the Cluster."
	if w.AutoReplace {
		if why := w.kept(*p, d, o, f); why != "" {
			text += " It is not replaced without a person: " + why
		} else {
			s.Loses, s.Why = "", "The OSD is down, Ceph has marked it out, nothing of it is on a disk of the host any more, every placement group has all copies, and none needs it."
			text = "It is replaced, as spec.ceph.autoReplace says."
		}
	}
	p.wait("osd.%d on %s %s. %s", o.ID, d.Host, is, text)
	p.step(s)
}

// offerForgotten gives up the record of an OSD that the monitors do not know, and whose disk is not there. A person approves that: the disk may come back with what nobody purged.
func (w OSDs) offerForgotten(p *Plan, d Disk) {
	if h := w.host(d.Host); !d.Missing || d.goes() || h.Maintenance || !h.Serving {
		return
	}
	p.wait("The monitors do not know the OSD of disk %s on %s, and the disk is not there. Put it back, or approve ReplaceOSD in the plan of the Cluster.", d.Path, d.Host)
	loses := fmt.Sprintf("Disk %s of host %s goes off the record. If it comes back, it is left as it is, and not used.", d.Path, d.Host)
	if d.Encrypted {
		loses += " The disk is encrypted, and the Secret with its key is deleted: without a backup of that nobody can read any more what is on it."
	}
	p.step(Step{
		Do: ReplaceOSD, Host: d.Host, Path: d.Path, UUID: d.UUID, ID: -1, Why: "The monitors do not know the OSD, and its disk is not there.", Loses: loses,
	})
}

// offerUnused gives up an OSD that never ran. A person approves that too: the key may still be found.
func offerUnused(p *Plan, s Step, d Disk, is string) {
	s.Loses = fmt.Sprintf("osd.%d on disk %s of host %s is given up, and the disk is cleared. Ceph says that the OSD never ran, so that there are no data on it. A clean disk of the host takes its place, with a key of its own.", s.ID, d.Path, d.Host)
	p.wait("osd.%d on %s %s: %s. If the key is lost for ever, approve ReplaceOSD in the plan of the Cluster: there are no data on the disk.", s.ID, d.Host, is, d.Locked)
	p.step(s)
}

// goes reports whether the OSD is on its way off the disk already.
func (d Disk) goes() bool { return d.Outed || d.Purged || d.GivenUp }

// kept says why a dead OSD is not given up without a person; empty if it may be: no placement group needs it, all have every copy elsewhere, nothing of it can come back, nobody is at
// work on the OSDs, and no other OSD leaves at the same time. What nobody could read keeps it.
func (w OSDs) kept(p Plan, d Disk, o OSD, f Facts) string {
	for _, flag := range append([]string{NoOut}, moving...) {
		if slices.Contains(f.Map.Flags, flag) || slices.Contains(f.Map.HostFlags[d.Host], flag) {
			return fmt.Sprintf("the flag %s is set.", flag)
		}
	}
	switch {
	case f.Groups == nil:
		return "the state of the placement groups cannot be read."
	case f.Groups.Inactive > 0:
		return fmt.Sprintf("%d placement groups serve nothing.", f.Groups.Inactive)
	case f.Groups.Short > 0 || !f.Groups.clean():
		return fmt.Sprintf("%d of %d placement groups have all copies where they belong.", f.Groups.Clean, f.Groups.Total)
	case o.SafeToDestroy != Yes:
		return fmt.Sprintf("Ceph does not say that it is safe to destroy (%s).", o.SafeToDestroy)
	case !o.AutoOut:
		return "a person marked it out."
	case d.At != "":
		return fmt.Sprintf("its disk is in host %s.", d.At)
	case d.Missing && d.MissingFor < awayFor:
		return fmt.Sprintf("its disk has to be missing for %s without a break.", awayFor)
	case w.others(p, d):
		return "another OSD leaves now."
	}
	return d.back()
}

// others reports whether another OSD leaves or comes back, or is given up by the plan.
func (w OSDs) others(p Plan, d Disk) bool {
	return slices.ContainsFunc(w.Disks, func(x Disk) bool { return x.UUID != d.UUID && (w.leaves(x) || x.Purged || x.Outed) }) ||
		slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Do == ReplaceOSD && s.Loses == "" })
}

// keep takes back that an OSD is given up without a person: its disk is there again, and the monitors still know it.
func keep(p *Plan, s Step) {
	s.Do, s.Why = KeepOSD, "The OSD was given up without a person, and its disk is there again."
	p.step(s)
}

// returned reports whether a disk whose OSD was given up without a person is there again, with something on it, or with what nobody knows.
func (d Disk) returned() bool { return d.AutoReplaced && d.back() != "" }

// back says why what was on a disk may come back, or be on it still; empty if the disk is gone, or clean.
func (d Disk) back() string {
	switch {
	case d.Missing || d.Kind == osd.Empty:
		return ""
	case d.Kind == osd.Ready:
		return "its disk still carries it, so its daemon may run again."
	}
	return "what is on its disk is not known: " + d.Message
}
