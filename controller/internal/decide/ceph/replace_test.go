package ceph

import (
	"testing"

	"quarry.storage/quarry/pkg/osd"
)

// TestPlanOSDs_replace: an OSD that died is given up by a person alone, and only once Ceph has marked it out.
func TestPlanOSDs_replace(t *testing.T) {
	const offered = "ReplaceOSD osd.1 (uuid-1) n1"
	broken := func(d *Disk) { d.Kind = osd.Unknown }
	missing := func(d *Disk) { d.Kind, d.Missing = osd.Unknown, true }
	approved := func(d *Disk) { d.Leaving = true }
	for name, tt := range map[string]struct {
		disk  Disk
		osds  []OSD
		hosts []Host
		want  string
		waits string
	}{
		"it serves":                         {disk(1), []OSD{up(1)}, hosts("n1"), "", ""},
		"it is down for a while":            {disk(1), []OSD{up(1, down)}, hosts("n1"), "", "does not run"},
		"Ceph marked it out":                {disk(1, broken), []OSD{up(1, down, out)}, hosts("n1"), offered, "approve ReplaceOSD"},
		"its disk is gone":                  {disk(1, missing), []OSD{up(1, down, out)}, hosts("n1"), offered, "does not run"},
		"its disk is empty":                 {disk(1, empty, undeployed), []OSD{up(1, down, out)}, hosts("n1"), offered, "approve ReplaceOSD"},
		"a person marked it out":            {disk(1), []OSD{up(1, out)}, hosts("n1"), "", "somebody else"},
		"its host is away":                  {disk(1), []OSD{up(1, down, out)}, hosts("n1!"), "", "once the agent of its host answers"},
		"its host is in maintenance":        {disk(1), []OSD{up(1, down, out)}, hosts("n1~"), "", "after the maintenance of its host"},
		"it never ran":                      {disk(1), []OSD{up(1, neverRan, out)}, hosts("n1"), "", "does not run"},
		"approved, and not safe yet":        {disk(1, broken, approved), []OSD{up(1, down, out)}, hosts("n1"), "", "not safe elsewhere"},
		"approved, and safe":                {disk(1, broken, approved), []OSD{up(1, down, out, safe)}, hosts("n1"), "StopOSD osd.1 (uuid-1) n1", ""},
		"approved, and stopped":             {disk(1, broken, approved, undeployed), []OSD{up(1, down, out, safe)}, hosts("n1"), "PurgeOSD osd.1 (uuid-1) n1", ""},
		"approved, and purged":              {disk(1, approved, undeployed, purged), nil, hosts("n1"), "ZapOSD osd.-1 (uuid-1) n1", ""},
		"purged, and the disk is gone":      {disk(1, missing, approved, undeployed, purged), nil, hosts("n1"), "ZapOSD osd.-1 (uuid-1) n1", ""},
		"purged, and another disk is there": {disk(1, empty, approved, undeployed, purged), nil, hosts("n1"), "ZapOSD osd.-1 (uuid-1) n1", ""},
		"gone, and nobody purged it":        {disk(1, missing, approved, undeployed), nil, hosts("n1"), "", "left as it is"},
		"gone with its host":                {disk(1, missing, approved, undeployed, purged), nil, hosts("n1!"), "", "left as it is"},
	} {
		f := facts(twice, append([]OSD{up(2), up(3)}, tt.osds...)...)
		w := OSDs{Disks: []Disk{tt.disk, disk(2), disk(3)}, Hosts: append(tt.hosts, hosts("n2", "n3")...)}
		p := PlanOSDs(w, f)
		check(t, name, p, tt.want, tt.waits)
		if len(p.Steps) > 0 && (p.Steps[0].Do == ReplaceOSD) != (p.Steps[0].Loses != "") {
			t.Errorf("%s: what a person approves: %q", name, p.Steps[0].Loses)
		}
	}
}
