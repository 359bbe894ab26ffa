package shared

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"quarry.storage/quarry/agent/internal/host/lvm/column"
	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/pkg/sharedlun"
)

// reportArgs ask for what makes up a group on one device, segments with their places included.
var reportArgs = []string{
	"--reportformat", "json", "--units", "b", "--nosuffix", "--binary", "--foreign",
	"--configreport", "vg", "-o", "vg_name,vg_uuid,vg_size,vg_free,vg_extent_size,vg_tags,vg_missing_pv_count,vg_partial,vg_exported,vg_systemid,vg_seqno,pv_count",
	"--configreport", "pv", "-o", "pv_uuid,pe_start,pv_missing,pv_duplicate,vg_uuid",
	"--configreport", "lv", "-o", "lv_name,lv_uuid,lv_size,lv_tags,lv_layout,lv_time,lv_active_locally",
	"--configreport", "pvseg", "-o", "pv_uuid", "-S", "pvseg_size=0",
	"--configreport", "seg", "-o", "lv_uuid,segtype,seg_start_pe,seg_size_pe,seg_pe_ranges",
}

// section is what LVM says of one group, or of what is in none.
type section struct {
	VG  []column.Row `json:"vg"`
	PV  []column.Row `json:"pv"`
	LV  []column.Row `json:"lv"`
	Seg []column.Row `json:"seg"`
}

// Report tells the group of an owner on a device; nil when LVM sees none with the owner's tag there. A group that is in any part another one than this package
// makes is an error: volumes that are not linear, more devices than one, other marks, another system ID. It ends with the context, even if the device does
// not answer; while an earlier report waits for the device, there is no second one.
func (l *LVM) Report(ctx context.Context, device, ownerUID string) (*sharedlun.Group, error) {
	if err := l.stuck(device); err != nil {
		return nil, fmt.Errorf("report of %s: %w: %w", device, sharedlun.ErrUnread, err)
	}
	res, err := l.commands.Read(ctx, []string{device}, "fullreport", reportArgs...)
	var left *run.LeftError
	if errors.As(err, &left) {
		l.mu.Lock()
		l.left[device] = left
		l.mu.Unlock()
		return nil, fmt.Errorf("report of %s: %w: %w", device, sharedlun.ErrUnread, err)
	}
	if err != nil {
		return nil, fmt.Errorf("report of %s: %w", device, err)
	}
	g, err := parse(res.Stdout, ownerUID)
	if err != nil {
		return nil, fmt.Errorf("report of %s: %w: %w", device, sharedlun.ErrUnread, err)
	}
	return g, nil
}

// stuck returns the earlier report of a device that the kernel has not let go yet.
func (l *LVM) stuck(device string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := l.left[device]
	if left == nil {
		return nil
	}
	select {
	case <-left.Gone:
		delete(l.left, device)
		return nil
	default:
		return left
	}
}

func parse(doc []byte, ownerUID string) (*sharedlun.Group, error) {
	var report struct {
		Report []section `json:"report"`
	}
	if err := column.Decode(doc, &report); err != nil {
		return nil, err
	}
	if report.Report == nil {
		return nil, errors.New("no report in the document")
	}
	var found *sharedlun.Group
	for _, s := range report.Report {
		p := &reader{}
		if len(s.VG) != 1 || !slices.Contains(p.List(s.VG[0], "vg_tags"), sharedlun.TagOwner+ownerUID) {
			if p.Err != nil {
				return nil, p.Err
			}
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("two groups of owner %s", ownerUID)
		}
		if found = p.group(s); p.Err != nil {
			return nil, fmt.Errorf("group %s: %w", found.Name, p.Err)
		}
	}
	return found, nil
}

// reader keeps the first thing that is wrong.
type reader struct{ column.Reader }

func (p *reader) want(ok bool, format string, args ...any) {
	if !ok {
		p.Fail(fmt.Errorf(format, args...))
	}
}

// group reads a group with all that is in it.
func (p *reader) group(s section) *sharedlun.Group {
	r := s.VG[0]
	g := &sharedlun.Group{
		UUID: p.ID(r, "vg_uuid"), Name: p.ID(r, "vg_name"), Sequence: uint64(p.Number(r, "vg_seqno", 64)),
		SizeBytes: p.Number(r, "vg_size", 64), FreeBytes: p.Number(r, "vg_free", 64), ExtentBytes: p.Number(r, "vg_extent_size", 64),
	}
	p.marks(g, p.List(r, "vg_tags"))
	p.want(p.Text(r, "vg_systemid") == sharedlun.SystemID(g.OwnerUID), "its system ID is %q", r["vg_systemid"])
	p.want(p.Number(r, "pv_count", 32) == 1 && len(s.PV) == 1 && p.Number(r, "vg_missing_pv_count", 32) == 0 && !p.Flag(r, "vg_partial"),
		"it has %s devices, %s of them missing", r["pv_count"], r["vg_missing_pv_count"])
	p.want(!p.Flag(r, "vg_exported"), "it is exported")
	p.want(g.ExtentBytes > 0, "its extents have no size")
	if p.Err != nil {
		return g
	}
	pv := s.PV[0]
	p.want(!p.Flag(pv, "pv_missing") && !p.Flag(pv, "pv_duplicate") && p.Text(pv, "vg_uuid") == g.UUID, "its device is missing, or there twice")
	first := p.Number(pv, "pe_start", 64)
	for _, r := range s.LV {
		g.Volumes = append(g.Volumes, p.volume(r))
	}
	p.segments(g, s.Seg, first)
	slices.SortFunc(g.Volumes, func(a, b sharedlun.Volume) int { return cmp.Compare(a.Name, b.Name) })
	return g
}

// marks reads the tags of a group.
func (p *reader) marks(g *sharedlun.Group, tags []string) {
	owners, epochs := 0, 0
	for _, t := range tags {
		if uid, ok := strings.CutPrefix(t, sharedlun.TagOwner); ok {
			g.OwnerUID = uid
			owners++
		}
		if text, ok := strings.CutPrefix(t, sharedlun.TagEpoch); ok {
			n, err := strconv.ParseUint(text, 10, 64)
			p.want(err == nil && n > 0, "epoch %q", text)
			g.Epoch = n
			epochs++
		}
	}
	p.want(owners == 1 && epochs == 1, "it has %d owners and %d epochs", owners, epochs)
}

// volume reads a volume without its place.
func (p *reader) volume(r column.Row) sharedlun.Volume {
	v := sharedlun.Volume{
		Name: p.ID(r, "lv_name"), UUID: p.ID(r, "lv_uuid"), SizeBytes: p.Number(r, "lv_size", 64), CreatedUnix: p.Number(r, "lv_time", 64),
	}
	p.want(p.Text(r, "lv_layout") == "linear", "volume %s is %s, not linear", v.Name, r["lv_layout"])
	// What LVM does not know, it writes as -1: that is no 0.
	p.want(!p.Flag(r, "lv_active_locally"), "volume %s is active in LVM", v.Name)
	marks := map[string]bool{}
	for _, t := range p.List(r, "lv_tags") {
		if !v.Mark(t) {
			v.Tags = append(v.Tags, t)
			continue
		}
		mark, value, _ := strings.Cut(t, "=")
		if strings.HasPrefix(t, sharedlun.TagReader) {
			continue
		}
		p.want(!marks[mark], "volume %s has the mark %s twice", v.Name, mark)
		marks[mark] = true
		if strings.HasPrefix(t, sharedlun.TagReady) {
			p.want(value == strconv.FormatInt(v.ReadyBytes, 10), "volume %s has the mark %q", v.Name, t)
		}
	}
	for _, reader := range v.Readers {
		if err := reader.Check(); err != nil {
			p.Fail(err)
		}
	}
	return v
}

// place is one segment of a volume, in extents.
type place struct{ at, count, from int64 }

// segments tells the volumes where they lie. first is the byte at which the first extent of the device begins.
func (p *reader) segments(g *sharedlun.Group, rows []column.Row, first int64) {
	places := map[string][]place{}
	for _, r := range rows {
		id := p.ID(r, "lv_uuid")
		p.want(p.Text(r, "segtype") == "linear", "a segment of volume %s is %s", id, r["segtype"])
		s := place{at: p.Number(r, "seg_start_pe", 64), count: p.Number(r, "seg_size_pe", 64)}
		s.from = p.extents(p.Text(r, "seg_pe_ranges"), s.count)
		places[id] = append(places[id], s)
	}
	if p.Err != nil {
		return
	}
	var all []sharedlun.Range
	for i := range g.Volumes {
		v := &g.Volumes[i]
		list := places[v.UUID]
		delete(places, v.UUID)
		slices.SortFunc(list, func(a, b place) int { return cmp.Compare(a.at, b.at) })
		at := int64(0)
		for _, s := range list {
			p.want(s.at == at, "the segments of volume %s leave extent %d out", v.Name, at)
			at += s.count
			v.Ranges = append(v.Ranges, sharedlun.Range{Start: first + s.from*g.ExtentBytes, Size: s.count * g.ExtentBytes})
		}
		if err := v.CheckTable(); err != nil {
			p.Fail(err)
		}
		p.want(v.ReadyBytes >= 0 && v.ReadyBytes <= v.SizeBytes, "volume %s has %d bytes, and %d of them are ready", v.Name, v.SizeBytes, v.ReadyBytes)
		all = append(all, v.Ranges...)
	}
	p.want(len(places) == 0, "segments of volumes that are not there: %v", places)
	p.apart(all)
}

// apart wants that no two volumes have an extent in common: that is what writers leave who worked at the same time.
func (p *reader) apart(all []sharedlun.Range) {
	slices.SortFunc(all, func(a, b sharedlun.Range) int { return cmp.Compare(a.Start, b.Start) })
	for i := 1; i < len(all); i++ {
		p.want(all[i-1].Start+all[i-1].Size <= all[i].Start, "two volumes lie at byte %d", all[i].Start)
	}
}

// extents reads "/dev/sda:5-9", the one range that a linear segment has, and returns where it begins.
func (p *reader) extents(text string, count int64) int64 {
	colon := strings.LastIndexByte(text, ':')
	from, to, ok := strings.Cut(text[colon+1:], "-")
	first, err := strconv.ParseInt(from, 10, 64)
	last, lastErr := strconv.ParseInt(to, 10, 64)
	p.want(ok && colon > 0 && errors.Join(err, lastErr) == nil && count > 0 && first >= 0 && last-first+1 == count && !strings.Contains(text[:colon], " "),
		"a segment of %d extents lies on %q", count, text)
	return first
}
