package inventory

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/agent/internal/plan"
)

// errNoAnswer means that LVM did not end in time: it waits for a lock that another program holds, or for a device.
var errNoAnswer = errors.New("LVM did not answer in time: another program holds its lock, or a device does not answer")

// told is what LVM says about devices.
type told struct {
	vgs []lvm.VG
	pvs []lvm.PV
	// failed says about which devices LVM said nothing, and why.
	failed map[*observed]error
}

// report asks LVM about all devices in one process. One group that is locked or broken makes that fail as a whole. Then each group is asked
// about apart, by the devices whose own metadata names it, and what cannot be reported is known by name. There is one deadline over all: a
// single group has all of the time.
func (i *Inventory) report(ctx context.Context, labelled []*observed) told {
	if len(labelled) == 0 {
		return told{}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, i.cfg.ReportTimeout, errNoAnswer)
	defer cancel()
	sets := groupSets(labelled)
	// Asking apart would be the same question again.
	same := len(sets.groups) == 0 || len(sets.groups) == 1 && len(sets.groups[0]) == len(labelled)
	limit := i.cfg.ReportTimeout
	if !same {
		limit /= 2
	}
	first, cancelFirst := context.WithTimeoutCause(ctx, limit, errNoAnswer)
	defer cancelFirst()
	vgs, pvs, err := i.cfg.LVM.Report(first, nodes(labelled))
	if err == nil {
		return told{vgs: vgs, pvs: pvs}
	}
	if same {
		out := told{}
		out.fail(labelled, err)
		return out
	}
	return i.apart(ctx, sets)
}

// sets are devices by what their own metadata says.
type sets struct {
	// groups are the devices of one group each, ours first.
	groups [][]*observed
	// free are in no group. unnamed are in one, and do not say in which.
	free, unnamed []*observed
}

func groupSets(labelled []*observed) sets {
	var out sets
	byUUID := map[string][]*observed{}
	for _, d := range labelled {
		switch {
		case d.pv.group.UUID != "":
			byUUID[d.pv.group.UUID] = append(byUUID[d.pv.group.UUID], d)
		case d.pv.inGroup:
			out.unnamed = append(out.unnamed, d)
		default:
			out.free = append(out.free, d)
		}
	}
	for _, uuid := range slices.Sorted(maps.Keys(byUUID)) {
		out.groups = append(out.groups, byUUID[uuid])
	}
	slices.SortStableFunc(out.groups, func(a, b []*observed) int { return cmp.Compare(foreign(a[0]), foreign(b[0])) })
	return out
}

// foreign is 1 for a device whose metadata says that its group is not ours, else 0.
func foreign(d *observed) int {
	if _, ours := ownerOf(d.pv.group.Tags); ours || d.pv.group.UUID == "" {
		return 0
	}
	return 1
}

// apart asks about the groups, some at a time, and about the devices without one.
func (i *Inventory) apart(ctx context.Context, s sets) told {
	questions := append(slices.Clone(s.groups), s.free)
	answers := make([]told, len(questions))
	slots := make(chan struct{}, i.cfg.Parallel)
	var wg sync.WaitGroup
	for n, devices := range questions {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			answers[n] = i.ask(ctx, devices, append(slices.Clone(s.unnamed), s.free...))
		})
	}
	wg.Wait()
	var out told
	for _, a := range answers {
		out.add(a)
	}
	out.fail(out.missing(s.unnamed), errUnnamed)
	lvm.Order(out.vgs, out.pvs)
	return out
}

// ask asks about the devices of one group. A physical volume that LVM misses may be on one of the others: the metadata on that is
// damaged, or older, or it has none.
func (i *Inventory) ask(ctx context.Context, group, others []*observed) told {
	var out told
	if len(group) == 0 {
		return out
	}
	var err error
	for {
		if out.vgs, out.pvs, err = i.cfg.LVM.Report(ctx, nodes(group)); err != nil {
			out = told{}
			out.fail(group, err)
			return out
		}
		more := slices.DeleteFunc(slices.Clone(others), func(d *observed) bool {
			return slices.Contains(group, d) || !slices.ContainsFunc(out.pvs, func(p lvm.PV) bool { return p.Missing && p.UUID == d.PVUUID })
		})
		if len(more) == 0 {
			return out
		}
		group = append(slices.Clone(group), more...)
	}
}

// add takes in another answer. What was said first of a group stays, and what was said of a physical volume together with its group outranks
// what LVM says of it alone: its group comes first.
func (t *told) add(o told) {
	heard := func(group string) bool {
		return slices.ContainsFunc(t.vgs, func(v lvm.VG) bool { return v.UUID == group })
	}
	o.vgs = slices.DeleteFunc(o.vgs, func(v lvm.VG) bool { return heard(v.UUID) })
	o.pvs = slices.DeleteFunc(o.pvs, func(p lvm.PV) bool {
		alone := p.VGUUID == "" && slices.ContainsFunc(t.pvs, func(was lvm.PV) bool { return was.UUID == p.UUID && !was.Missing })
		return alone || p.VGUUID != "" && heard(p.VGUUID)
	})
	t.vgs, t.pvs = append(t.vgs, o.vgs...), append(t.pvs, o.pvs...)
	for d, err := range o.failed {
		t.fail([]*observed{d}, err)
	}
}

func (t *told) fail(devices []*observed, err error) {
	if t.failed == nil {
		t.failed = map[*observed]error{}
	}
	for _, d := range devices {
		t.failed[d] = err
	}
}

// missing are those of the devices about which nothing was said, and no failure either.
func (t *told) missing(devices []*observed) []*observed {
	return slices.DeleteFunc(slices.Clone(devices), func(d *observed) bool {
		return t.failed[d] != nil || slices.ContainsFunc(t.pvs, func(p lvm.PV) bool { return !p.Missing && p.UUID == d.PVUUID })
	})
}

func nodes(devices []*observed) []string {
	out := make([]string, 0, len(devices))
	for _, d := range devices {
		out = append(out, d.block.Node)
	}
	return out
}

// addUnknown adds the groups that devices belong to and that LVM did not report. One whose metadata carries no tag of ours is foreign: only its
// own devices cannot be read.
func addUnknown(snap *plan.Snapshot, devices []*observed, vgs []lvm.VG) {
	unknown := map[string]*plan.UnknownGroup{}
	for _, d := range devices {
		if !d.hidden(vgs) {
			continue
		}
		named := d.pv.group
		owner, ours := ownerOf(named.Tags)
		d.Group, d.OwnerUID = named.Name, owner
		if named.UUID != "" && !ours {
			snap.ForeignGroups = append(snap.ForeignGroups, named.Name)
			continue
		}
		key := cmp.Or(named.UUID, d.KernelName)
		if unknown[key] == nil {
			unknown[key] = &plan.UnknownGroup{Name: named.Name, UUID: named.UUID, OwnerUID: owner, Reason: d.groupErr.Error()}
		}
		unknown[key].Devices = append(unknown[key].Devices, d.Path)
	}
	for _, u := range unknown {
		slices.Sort(u.Devices)
		snap.UnknownGroups = append(snap.UnknownGroups, *u)
	}
	slices.SortFunc(snap.UnknownGroups, func(a, b plan.UnknownGroup) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UUID, b.UUID), slices.Compare(a.Devices, b.Devices))
	})
}

// hidden reports whether a device belongs to a group that LVM did not report, or may.
func (d *observed) hidden(vgs []lvm.VG) bool {
	switch {
	case d.groupErr == nil:
		return false
	case d.pv.group.UUID != "":
		return !slices.ContainsFunc(vgs, func(v lvm.VG) bool { return v.UUID == d.pv.group.UUID })
	}
	return d.pv.inGroup || errors.Is(d.groupErr, errUnnamed)
}
