package lvm

import (
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/pvuuid"
	"quarry.storage/quarry/pkg/volumeid"
)

const (
	// maxForming is the number of physical volumes that a record holds before the group exists.
	maxForming = 256
	// maxUUID is the length of the UUID that a record holds.
	maxUUID = 64
)

// agreement says how what is recorded of a host's group agrees with what is seen. What is recorded outranks what is seen.
type agreement struct {
	// record is what is to be recorded; nil when the record stays as it is.
	record *v1alpha1.MemberGroup
	// finding says what does not agree. No step is taken while there is one.
	finding backend.Finding
}

// agreement compares the record with the groups. The caller has made sure that the groups are known as they are now.
func (h host) agreement() agreement {
	uuids := h.recorded()
	record := h.m.Record()
	if f := h.borrowed(); !f.IsZero() {
		return agreement{finding: f}
	}
	switch {
	case len(uuids) > 0:
		return h.compare(uuids)
	case len(h.groups) == 0 && len(h.m.Volumes) > 0:
		return agreement{finding: h.lost("")}
	case len(h.groups) == 0 && h.view.restored():
		return agreement{finding: h.earlier()}
	case len(h.groups) == 0 && len(h.orphaned()) > 0:
		return agreement{finding: h.beside()}
	case len(h.groups) == 0:
		return agreement{}
	case record != nil && len(record.Forming) > 0:
		return h.formed(record.Forming)
	}
	return h.adopt(h.named(h.groups))
}

// recorded returns the UUIDs of the groups that hold the member's data: that of the record first, then those that are recorded on its
// volumes. Groups that a person gave up do not count.
func (h host) recorded() []string {
	var out []string
	if r := h.m.Record(); r != nil && r.UUID != "" {
		out = append(out, r.UUID)
	}
	for _, v := range h.m.Volumes {
		if v.GroupUUID != "" && !slices.Contains(out, v.GroupUUID) && !h.givenUp(v) {
			out = append(out, v.GroupUUID)
		}
	}
	return out
}

// remembered is the record of a group that is not seen, and that only the volumes of the host tell of: the Member was made again, or is of a
// version without records. Once the volumes are gone nothing else could tell that the group is the one of a lost member. It is nil unless
// they agree.
func (h host) remembered() *v1alpha1.MemberGroup {
	if h.node.Agent == decide.AgentConnecting || h.m.Object == nil {
		return nil
	}
	uuids := h.recorded()
	if r := h.m.Record(); r != nil && (r.UUID != "" || len(r.Forming) > 0) || len(uuids) != 1 {
		return nil
	}
	uuid := uuids[0]
	if len(uuid) > maxUUID || slices.Contains(h.view.own.spec.Lost, uuid) || h.recordedElsewhere(uuid) != "" {
		return nil
	}
	return &v1alpha1.MemberGroup{UUID: uuid, Name: h.recordedName(uuid)}
}

// compare judges the groups by the recorded UUIDs.
func (h host) compare(uuids []string) agreement {
	var s agreement
	if r := h.m.Record(); r == nil || r.UUID == "" {
		switch i := h.seen(uuids[0]); {
		case i >= 0 && len(uuids) == 1:
			s.record = recordOf(h.groups[i])
		case h.m.Lost && len(h.groups) == 0:
			s.record = h.remembered()
		}
	}
	for _, uuid := range uuids {
		if h.seen(uuid) < 0 {
			s.finding = h.lost(uuid)
			return s
		}
	}
	if len(h.groups) > 1 {
		s.finding = h.conflict()
	}
	return s
}

func (h host) seen(uuid string) int {
	return slices.IndexFunc(h.groups, func(g decide.Group) bool { return g.UUID == uuid })
}

// formed finds the group that was being made when the record was written: one of its physical volumes was announced.
func (h host) formed(forming []string) agreement {
	return h.adopt(slices.DeleteFunc(slices.Clone(h.groups), func(g decide.Group) bool { return !h.announcedIn(g, forming) }))
}

// announcedIn reports whether a physical volume of a group is one of those that were to be made.
func (h host) announcedIn(g decide.Group, forming []string) bool {
	return slices.ContainsFunc(g.PVs, func(p decide.PV) bool { return h.announced(p, forming) })
}

// announced reports whether a physical volume is one of those that were to be made. Its device may have got another stable path between
// the record and the call, so the UUIDs under its other names count too.
func (h host) announced(p decide.PV, forming []string) bool {
	if fitsAny(p.UUID, forming) {
		return true
	}
	d, ok := h.node.Device(p.Path)
	return ok && disk.Made(d, p.UUID, h.view.own.spec.UID()) &&
		slices.ContainsFunc(disk.Futures(d, h.view.own.spec.UID()), func(uuid string) bool { return slices.Contains(forming, uuid) })
}

// named returns the groups that may be the member's own when nothing is recorded: those of the name that the spec says, or a single one
// that somebody has renamed.
func (h host) named(groups []decide.Group) []decide.Group {
	var out []decide.Group
	for _, g := range groups {
		if g.Name == h.view.own.spec.Group {
			out = append(out, g)
		}
	}
	if len(out) == 0 && len(groups) == 1 {
		return groups
	}
	return out
}

// adopt records the one group that can be the member's own. Several, or none, are for a person to judge.
func (h host) adopt(candidates []decide.Group) agreement {
	if len(candidates) != 1 {
		return agreement{finding: h.conflict()}
	}
	s := agreement{record: recordOf(candidates[0])}
	if len(h.groups) > 1 {
		s.finding = h.conflict()
	}
	return s
}

func recordOf(g decide.Group) *v1alpha1.MemberGroup {
	return &v1alpha1.MemberGroup{UUID: g.UUID, Name: g.Name}
}

// forming returns what is to be recorded before a group is made by the first of the steps that does; nil when that is recorded already.
// What was announced before stays announced: a call may have been cut off, and its group not be seen yet.
func (h host) forming(steps []Step) *v1alpha1.MemberGroup {
	i := slices.IndexFunc(steps, func(s Step) bool { return s.Does == v1alpha1.ActionEnsureVolumeGroup })
	if i < 0 || len(h.groups) > 0 {
		return nil
	}
	want := &v1alpha1.MemberGroup{Name: steps[i].Group}
	for _, d := range steps[i].Devices {
		want.Forming = append(want.Forming, disk.Future(d, h.view.own.spec.UID()))
	}
	var old []string
	if r := h.m.Record(); r != nil {
		old = r.Forming
		if r.Name == want.Name && !slices.ContainsFunc(head(want.Forming), func(u string) bool { return !fitsAny(u, old) }) {
			return nil
		}
	}
	want.Forming = head(append(want.Forming, old...))
	slices.Sort(want.Forming)
	want.Forming = slices.Compact(want.Forming)
	return want
}

func fitsAny(uuid string, announced []string) bool {
	return slices.ContainsFunc(announced, func(a string) bool { return pvuuid.Fits(uuid, a) })
}

// head cuts a list to what a record holds. One announced physical volume is enough to know a group by.
func head(uuids []string) []string { return uuids[:min(len(uuids), maxForming)] }

// lost says that a recorded group is not seen. uuid is empty when only volumes of an earlier version tell of the group.
func (h host) lost(uuid string) backend.Finding {
	text := fmt.Sprintf("volume group %s is not seen on this host", call(h.recordedName(uuid), uuid)) + h.whereabouts(uuid)
	if len(h.groups) > 0 {
		text += fmt.Sprintf(", but %s with the tag of this Cluster, which serves what it holds", list(h.groups))
	}
	text += "; nothing is changed here and no volume is made until the recorded group is back"
	var volumes []string
	for _, v := range h.m.Volumes {
		if v.GroupUUID == uuid || v.GroupUUID == "" {
			volumes = append(volumes, v.String())
		}
	}
	if len(volumes) > 0 {
		text += "; its volumes are " + backend.Shorten(volumes, 10)
	}
	return bad(v1alpha1.ReasonVolumeGroupLost, text+h.strangers()+h.bequest()+h.wayOut())
}

// recordedName returns the name that a group had, as far as anything tells.
func (h host) recordedName(uuid string) string {
	if r := h.m.Record(); r != nil && r.UUID == uuid && r.Name != "" {
		return r.Name
	}
	for _, v := range h.m.Volumes {
		if id, err := volumeid.Parse(v.Handle); err == nil && v.GroupUUID == uuid {
			return id.Group
		}
	}
	return h.view.own.spec.Group
}

// conflict says that several groups with the tag of the Cluster are seen, or one that is not the recorded one.
func (h host) conflict() backend.Finding {
	text := fmt.Sprintf("%s with the tag of this Cluster is not the group that was being made here", list(h.groups))
	if len(h.groups) > 1 {
		text = fmt.Sprintf("%s carry the tag of this Cluster, a host has one group", list(h.groups))
	}
	return backend.Finding{
		Kind: backend.Bad, Reason: v1alpha1.ReasonVolumeGroupConflict,
		Message: text + "; what is in it stays served, nothing is changed here and no volume is made" + h.wayOut(),
	}
}

func list(groups []decide.Group) string {
	names := make([]string, 0, len(groups))
	for _, g := range groups {
		names = append(names, call(g.Name, g.UUID))
	}
	if len(names) == 1 {
		return "volume group " + names[0]
	}
	return "volume groups " + strings.Join(names, " and ")
}

func call(name, uuid string) string {
	if uuid == "" {
		return name
	}
	return fmt.Sprintf("%s (UUID %s)", name, uuid)
}
