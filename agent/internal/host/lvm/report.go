package lvm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/agent/internal/host/lvm/column"
	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/pkg/quarry"
)

// VG is one volume group.
type VG struct {
	Name, UUID string
	// SizeBytes, FreeBytes and ExtentBytes as LVM reports them.
	SizeBytes, FreeBytes, ExtentBytes int64
	// Tags, ordered.
	Tags []string
	// Volumes are its logical volumes, ordered by name; hidden ones are left out.
	Volumes []LV
	// MissingPVs is the number of physical volumes that are not among the devices.
	MissingPVs int
	// Partial is true when a logical volume or the group itself lacks a physical volume.
	Partial bool
	// Exported is true for a group that was exported with vgexport.
	Exported bool
	// Moving is the pvmove that is under way in it, or that was cut off; nil when there is none.
	Moving *Moving
	// Emptied is the volume that a pvmove left, which was killed or hindered after it had moved everything: it stands on no extent, and stays
	// until somebody removes it. Empty when there is none. It is not among the volumes.
	Emptied string
	// SystemID of the host that the group belongs to; empty when it belongs to none.
	SystemID string
	// Autoactivated is true when commands that activate whatever they see at a boot activate the volumes of the group, too. LVM before 2.03.12
	// does not tell, and always does: it is false then.
	Autoactivated bool
	// Change counts the changes of its metadata.
	Change int64
	// Earlier says why what is reported is a state of before: a newer one was reported on this host, and the disks that know it are not there. Empty when it
	// is the newest that is known.
	Earlier string
}

// PV is one physical volume.
type PV struct {
	// Path as LVM names the device, which can be any of its names; empty when the device is missing.
	Path, UUID string
	// Major and Minor device number, zero when the device is missing.
	Major, Minor uint32
	// SizeBytes, FreeBytes and UsedBytes as LVM reports them.
	SizeBytes, FreeBytes, UsedBytes int64
	// VGName and VGUUID of its group; empty when it belongs to none.
	VGName, VGUUID string
	// Lost is true when the device says that it belongs to a group, and LVM finds no metadata of that group.
	Lost bool
	// Missing is true when the group knows it and no device carries it.
	Missing bool
	// Returned is true when its device is there and LVM takes it for missing: the group was changed while the device was away.
	Returned bool
	// Duplicate is true when another physical volume of the report has the same UUID, or LVM says so.
	Duplicate bool
}

// TagLocated is the tag of the volumes of which a report says where they lie.
const TagLocated = quarry.Group + "/tail"

// columnAutoactivation is a column that LVM has since 2.03.12.
const columnAutoactivation = "vg_autoactivation"

// groupColumns are the columns about groups that every LVM has.
const groupColumns = "vg_name,vg_uuid,vg_size,vg_free,vg_extent_size,vg_tags,vg_missing_pv_count,vg_partial,vg_exported,vg_systemid,vg_seqno"

// The columns asked for besides those about groups. Those of seg are what LVM recorded of thin pools and of the volumes in them.
var reportArgs = []string{
	"--reportformat", "json", "--units", "b", "--nosuffix", "--binary", "--foreign",
	"--configreport", "pv", "-o", "pv_name,pv_uuid,pv_major,pv_minor,pv_size,pv_free,pv_used,pv_missing,pv_duplicate,vg_name,vg_uuid",
	"--configreport", "lv", "-o", "lv_name,lv_uuid,vg_uuid,lv_size,lv_tags,lv_layout,pool_lv,origin,lv_active_locally,lv_device_open," +
		"lv_health_status,lv_metadata_size,data_percent,metadata_percent,lv_time,lv_suspended,lv_inactive_table",
	"--configreport", "pvseg", "-o", "pv_uuid,pvseg_start,pvseg_size,lv_uuid,lv_name,move_pv",
	"-S", `lv_tags={"` + TagLocated + `"} || lv_role=pvmove || lv_name=~"pvmove[0-9]+_mimage"`,
	"--configreport", "seg", "-o", "lv_uuid,transaction_id,thin_id,chunk_size", "-S", `segtype=thin || segtype="thin-pool"`,
}

// Report tells the groups, ordered by name and UUID, and the physical volumes, ordered by group, path and UUID, that stand on
// the devices, in one process; none is started when there are no devices. Groups whose devices are not all given are
// reported as partial. It notes the newest state of each group of ours, and tells which are reported in an earlier one.
func (l *LVM) Report(ctx context.Context, devices []string) ([]VG, []PV, error) {
	if len(devices) == 0 {
		return nil, nil, nil
	}
	// What is noted while LVM reads the disks may be newer than what it reads.
	noted, errNoted := l.newest.Known()
	vgs, pvs, err := l.report(ctx, devices)
	if err != nil {
		return nil, nil, err
	}
	kernel, known := l.kernelTransactions(ctx, vgs)
	if known && kernel.differ(vgs) {
		// A command may have come in between: what LVM has recorded counts if it is the same before and after.
		before := vgs
		if vgs, pvs, err = l.report(ctx, devices); err != nil {
			return nil, nil, err
		}
		kernel.drop(before, vgs)
	}
	kernel.tell(vgs, known)
	l.lookInto(ctx, devices, vgs)
	l.damaged.tell(vgs)
	l.tellEarlier(vgs, pvs, noted, errNoted)
	return vgs, pvs, nil
}

// report is what LVM alone tells.
func (l *LVM) report(ctx context.Context, devices []string) ([]VG, []PV, error) {
	res, err := l.modern(func(modern bool) (run.Result, error) {
		columns := groupColumns
		if modern {
			columns += "," + columnAutoactivation
		}
		return l.run(ctx, devices, "fullreport", append(slices.Clone(reportArgs), "--configreport", "vg", "-o", columns)...)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("lvm report: %w", err)
	}
	vgs, pvs, err := parseReport(res.Stdout)
	if err != nil {
		return nil, nil, fmt.Errorf("lvm report: %w", err)
	}
	return vgs, pvs, nil
}

// row and fields read what LVM reports.
type (
	row    = column.Row
	fields struct{ column.Reader }
)

// fullReport is LVM's document: one section per group, and one for what has no group.
type fullReport struct {
	Report []struct {
		VG []row `json:"vg"`
		PV []row `json:"pv"`
		LV []row `json:"lv"`
		// Segments of physical volumes, those of located volumes and of pvmove.
		Segments []row `json:"pvseg"`
		// Thin are the segments of thin pools and thin volumes.
		Thin []row `json:"seg"`
	} `json:"report"`
}

// parseReport reads the document strictly: a missing or unparsable field is an error.
func parseReport(doc []byte) ([]VG, []PV, error) {
	var report fullReport
	if err := column.Decode(doc, &report); err != nil {
		return nil, nil, err
	}
	if report.Report == nil {
		return nil, nil, errors.New("parse: no report in the document")
	}
	var vgs []VG
	var pvs []PV
	volumes := map[string][]LV{}
	p := &fields{}
	for _, section := range report.Report {
		for _, r := range section.VG {
			vgs = append(vgs, p.vg(r))
			vgs[len(vgs)-1].Moving = p.moving(section.Segments, section.PV, vgs[len(vgs)-1].ExtentBytes)
		}
		for _, r := range section.PV {
			pvs = append(pvs, p.pv(r))
		}
		lying, thin := p.extents(section.Segments), p.thin(section.Thin)
		for _, r := range section.LV {
			name := p.ID(r, "lv_name")
			switch {
			case workName(name) != "":
				if vg := groupOf(vgs, p.Text(r, "vg_uuid")); vg != nil && vg.Moving == nil {
					vg.left(workName(name), p.Text(r, "lv_layout"))
				}
			case !strings.HasPrefix(name, "["):
				uuid := p.Text(r, "vg_uuid")
				v := p.lv(r)
				v.Extents, v.Thin = lying[v.UUID], thin[v.UUID]
				volumes[uuid] = append(volumes[uuid], v)
			}
		}
	}
	if p.Err != nil {
		return nil, nil, fmt.Errorf("parse: %w", p.Err)
	}
	for i := range vgs {
		vgs[i].Volumes = volumes[vgs[i].UUID]
		slices.SortFunc(vgs[i].Volumes, func(a, b LV) int { return cmp.Compare(a.Name, b.Name) })
	}
	Order(vgs, pvs)
	return vgs, pvs, nil
}

// groupOf finds a group by its UUID; nil when it is not there.
func groupOf(vgs []VG, uuid string) *VG {
	i := slices.IndexFunc(vgs, func(g VG) bool { return g.UUID == uuid })
	if i < 0 {
		return nil
	}
	return &vgs[i]
}

// Order sorts what one or several reports say, and flags physical volumes that are there twice. Groups of one name are told apart by their
// UUIDs.
func Order(vgs []VG, pvs []PV) {
	slices.SortFunc(vgs, func(a, b VG) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UUID, b.UUID))
	})
	slices.SortFunc(pvs, func(a, b PV) int {
		return cmp.Or(cmp.Compare(a.VGName, b.VGName), cmp.Compare(a.Path, b.Path), cmp.Compare(a.UUID, b.UUID))
	})
	uuids := map[string]int{}
	for _, p := range pvs {
		uuids[p.UUID]++
	}
	for i := range pvs {
		pvs[i].Duplicate = pvs[i].Duplicate || uuids[pvs[i].UUID] > 1
	}
}

func (p *fields) vg(r row) VG {
	v := VG{
		Name: p.ID(r, "vg_name"), UUID: p.ID(r, "vg_uuid"),
		SizeBytes:   p.Number(r, "vg_size", 64),
		FreeBytes:   p.Number(r, "vg_free", 64),
		ExtentBytes: p.Number(r, "vg_extent_size", 64),
		MissingPVs:  int(p.Number(r, "vg_missing_pv_count", 32)),
		Exported:    p.Flag(r, "vg_exported"),
		SystemID:    p.Text(r, "vg_systemid"),
		Change:      p.Number(r, "vg_seqno", 64),
	}
	v.Partial = p.Flag(r, "vg_partial") || v.MissingPVs > 0
	v.Tags = p.List(r, "vg_tags")
	if _, told := r[columnAutoactivation]; told {
		v.Autoactivated = p.Flag(r, columnAutoactivation)
	}
	return v
}

// noMetadata is the name of the group of a device that is in one of which there is no metadata.
const noMetadata = "[unknown]"

func (p *fields) pv(r row) PV {
	v := PV{
		Path: p.ID(r, "pv_name"), UUID: p.ID(r, "pv_uuid"),
		Missing:   p.Flag(r, "pv_missing"),
		Duplicate: p.Flag(r, "pv_duplicate"),
		SizeBytes: p.Number(r, "pv_size", 64),
		FreeBytes: p.Number(r, "pv_free", 64),
		UsedBytes: p.Number(r, "pv_used", 64),
		VGName:    p.Text(r, "vg_name"),
		VGUUID:    p.Text(r, "vg_uuid"),
	}
	if v.Lost = v.VGName == noMetadata; v.Lost {
		v.VGName, v.VGUUID = "", ""
	}
	if v.Missing && !strings.HasPrefix(v.Path, "/") {
		v.Path = ""
		return v
	}
	v.Missing, v.Returned = false, v.Missing
	v.Major = uint32(p.Number(r, "pv_major", 32))
	v.Minor = uint32(p.Number(r, "pv_minor", 32))
	return v
}
