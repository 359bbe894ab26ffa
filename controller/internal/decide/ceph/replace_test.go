package ceph

import (
	"slices"
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/pkg/osd"
)

// TestPlanOSDs_replace: an OSD that died is given up by a person alone, and only once Ceph has marked it out.
func TestPlanOSDs_replace(t *testing.T) {
	const offered = "ReplaceOSD osd.1 (uuid-1) n1"
	broken := func(d *Disk) { d.Kind, d.Message = osd.Unknown, "it cannot be read" }
	missing := func(d *Disk) { d.Kind, d.Missing = osd.Unknown, true }
	approved := func(d *Disk) { d.GivenUp = true }
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
		"it never ran, its key is gone":     {disk(1, locked, undeployed), []OSD{up(1, neverRan)}, hosts("n1"), offered, "never ran"},
		"the same, and its host is away":    {disk(1, locked, undeployed), []OSD{up(1, neverRan)}, hosts("n1!"), "", "once the agent of its host answers"},
		"the same, approved":                {disk(1, locked, undeployed, approved), []OSD{up(1, neverRan)}, hosts("n1"), "PurgeOSD osd.1 (uuid-1) n1", ""},
		"approved, and not safe yet":        {disk(1, broken, approved), []OSD{up(1, down, out)}, hosts("n1"), "", "not safe elsewhere"},
		"approved, and safe":                {disk(1, broken, approved), []OSD{up(1, down, out, safe)}, hosts("n1"), "StopOSD osd.1 (uuid-1) n1", ""},
		"approved, and stopped":             {disk(1, broken, approved, undeployed), []OSD{up(1, down, out, safe)}, hosts("n1"), "PurgeOSD osd.1 (uuid-1) n1", ""},
		"approved, and purged":              {disk(1, approved, undeployed, purged), nil, hosts("n1"), "ZapOSD OSD uuid-1 n1", ""},
		"purged, and the disk is gone":      {disk(1, missing, approved, undeployed, purged), nil, hosts("n1"), "ZapOSD OSD uuid-1 n1", ""},
		"purged, and another disk is there": {disk(1, empty, approved, undeployed, purged), nil, hosts("n1"), "ZapOSD OSD uuid-1 n1", ""},
		"gone, and somebody else purged it": {disk(1, missing, approved, undeployed), nil, hosts("n1"), "ZapOSD OSD uuid-1 n1", ""},
		"no OSD, and its disk is gone":      {disk(1, missing), nil, hosts("n1"), "ReplaceOSD OSD uuid-1 n1", "approve ReplaceOSD"},
		"no OSD, and the disk is there":     {disk(1, undeployed), nil, hosts("n1"), "", "that the monitors do not know"},
		"no OSD, and its host is away":      {disk(1, missing, undeployed), nil, hosts("n1!"), "", "waits for its host"},
		"purged, and it cannot be read":     {disk(1, broken, approved, undeployed, purged), nil, hosts("n1"), "", "left as it is: it cannot be read. If the disk fails, take it out of host n1"},
		"gone with its host":                {disk(1, missing, approved, undeployed, purged), nil, hosts("n1!"), "", "left as it is"},
	} {
		f := facts(twice, append([]OSD{up(2), up(3)}, tt.osds...)...)
		w := OSDs{Disks: []Disk{tt.disk, disk(2), disk(3)}, Hosts: append(tt.hosts, hosts("n2", "n3")...)}
		p := PlanOSDs(w, f)
		check(t, name, p, tt.want, tt.waits)
		if len(p.Steps) > 0 && (p.Steps[0].Do == ReplaceOSD) != (p.Steps[0].Loses != "") {
			t.Errorf("%s: what a person approves: %q", name, p.Steps[0].Loses)
		}
		if s := append(p.Steps, Step{})[0]; s.Do == ReplaceOSD && s.ID >= 0 && !strings.HasPrefix(s.Loses, "osd.1 on disk "+s.Path+" of host n1 ") {
			t.Errorf("%s: a person is not told which OSD it is: %q", name, s.Loses)
		}
	}
}

// TestPlanOSDs_autoReplace: each single thing that is not as it has to be, or that nobody knows, leaves the replacement to a person.
func TestPlanOSDs_autoReplace(t *testing.T) {
	missing := func(d *Disk) { d.Kind, d.Missing, d.MissingFor = osd.Unknown, true, time.Hour }
	out := func(o *OSD) { o.In, o.AutoOut = false, true }
	for name, tt := range map[string]struct {
		disk   Disk
		dead   OSD
		change func(*OSDs, *Facts)
		auto   bool
		waits  string
	}{
		"its disk is gone":                       {disk(1, missing), up(1, down, out, safe), nil, true, "as spec.ceph.autoReplace says"},
		"its disk is clean, or another one":      {disk(1, empty, undeployed), up(1, down, out, safe), nil, true, "as spec.ceph.autoReplace says"},
		"a person marked it out":                 {disk(1, missing), up(1, down, out, safe, func(o *OSD) { o.AutoOut = false }), nil, false, "a person marked it out"},
		"its disk is away for less than an hour": {disk(1, missing, func(d *Disk) { d.MissingFor = time.Hour - time.Second }), up(1, down, out, safe), nil, false, "missing for 1h0m0s without a break"},
		"nobody knows since when it is away":     {disk(1, missing, func(d *Disk) { d.MissingFor = 0 }), up(1, down, out, safe), nil, false, "without a break"},
		"the spec does not say so":               {disk(1, missing), up(1, down, out, safe), func(w *OSDs, _ *Facts) { w.AutoReplace = false }, false, "or approve ReplaceOSD"},
		"its disk still carries it":              {disk(1), up(1, down, out, safe), nil, false, "may run again"},
		"its making did not end":                 {disk(1, func(d *Disk) { d.Kind = osd.Unfinished }), up(1, down, out, safe), nil, false, "is not known"},
		"something else is on its disk":          {disk(1, other), up(1, down, out, safe), nil, false, "It carries ext4."},
		"its disk cannot be read":                {disk(1, func(d *Disk) { d.Kind = osd.Unknown }), up(1, down, out, safe), nil, false, "is not known"},
		"Ceph does not know whether it is safe":  {disk(1, missing), up(1, down, out, func(o *OSD) { o.SafeToDestroy = Unknown }), nil, false, "safe to destroy (unknown)"},
		"it is not safe":                         {disk(1, missing), up(1, down, out), nil, false, "safe to destroy (no)"},
		"nobody knows the placement groups":      {disk(1, missing), up(1, down, out, safe), func(_ *OSDs, f *Facts) { f.Groups = nil }, false, "cannot be read"},
		"there are none":                         {disk(1, missing), up(1, down, out, safe), func(_ *OSDs, f *Facts) { f.Groups = &Groups{} }, false, "0 of 0"},
		"one serves nothing":                     {disk(1, missing), up(1, down, out, safe), func(_ *OSDs, f *Facts) { f.Groups.Inactive, f.Groups.Clean = 1, 7 }, false, "1 placement groups serve nothing"},
		"one lacks a copy":                       {disk(1, missing), up(1, down, out, safe), func(_ *OSDs, f *Facts) { f.Groups.Short, f.Groups.Clean = 1, 7 }, false, "7 of 8"},
		"one has a copy that is damaged":         {disk(1, missing), up(1, down, out, safe), func(_ *OSDs, f *Facts) { f.Groups.Short = 1 }, false, "placement groups have all copies"},
		"copies move":                            {disk(1, missing), up(1, down, out, safe), func(_ *OSDs, f *Facts) { f.Groups.Clean = 7 }, false, "7 of 8"},
		"somebody keeps Ceph from marking out":   {disk(1, missing), up(1, down, out, safe), func(_ *OSDs, f *Facts) { f.Map.Flags = []string{"noout"} }, false, "flag noout"},
		"somebody paused all reads and writes":   {disk(1, missing), up(1, down, out, safe), func(_ *OSDs, f *Facts) { f.Map.Flags = []string{"pause"} }, false, "flag pause"},
		"somebody keeps Ceph from making copies": {disk(1, missing), up(1, down, out, safe), func(_ *OSDs, f *Facts) { f.Map.Flags = []string{"norecover"} }, false, "flag norecover"},
		"somebody works on its host":             {disk(1, missing), up(1, down, out, safe), func(_ *OSDs, f *Facts) { f.Map.HostFlags["n1"] = []string{"noout"} }, false, "flag noout"},
		"somebody works on another host":         {disk(1, missing), up(1, down, out, safe), func(_ *OSDs, f *Facts) { f.Map.HostFlags["n2"] = []string{"noout"} }, true, ""},
		"its disk is in another host":            {disk(1, missing, func(d *Disk) { d.At = "n2" }), up(1, down, out, safe), nil, false, "its disk is in host n2."},
		"another one is replaced":                {disk(1, missing), up(1, down, out, safe), func(w *OSDs, _ *Facts) { w.Disks[1].GivenUp = true }, false, "another OSD leaves"},
		"another one is purged":                  {disk(1, missing), up(1, down, out, safe), func(w *OSDs, _ *Facts) { w.Disks[1].Purged = true }, false, "another OSD leaves"},
		"another one is being brought back":      {disk(1, missing), up(1, down, out, safe), func(w *OSDs, _ *Facts) { w.Disks[1].Outed = true }, false, "another OSD leaves"},
		"another host leaves":                    {disk(1, missing), up(1, down, out, safe), func(w *OSDs, _ *Facts) { w.Hosts[1].Leaving = true }, false, "another OSD leaves"},
	} {
		f := facts(twice, up(2), up(3), tt.dead)
		w := OSDs{Disks: []Disk{tt.disk, disk(2), disk(3)}, Hosts: append(hosts("n1"), hosts("n2", "n3")...), AutoReplace: true}
		if tt.change != nil {
			tt.change(&w, &f)
		}
		var got []Step
		p := PlanOSDs(w, f)
		for _, s := range p.Steps {
			if s.Do == ReplaceOSD {
				got = append(got, s)
			}
		}
		if len(got) != 1 || (got[0].Loses == "") != tt.auto || !strings.Contains(strings.Join(p.Waits, " "), tt.waits) {
			t.Errorf("%s: steps %+v, waits %q", name, got, p.Waits)
		}
	}
}

// TestPlanOSDs_autoReplaceOne: of two dead OSDs one goes, and no OSD that is not offered to a person goes without one.
func TestPlanOSDs_autoReplaceOne(t *testing.T) {
	missing := func(d *Disk) { d.Kind, d.Missing, d.MissingFor = osd.Unknown, true, time.Hour }
	out := func(o *OSD) { o.In, o.AutoOut = false, true }
	for name, tt := range map[string]struct {
		osds []OSD
		host string
		auto []int
	}{
		"two are dead":                {[]OSD{up(1, down, out, safe), up(2, down, out, safe)}, "n1", []int{1}},
		"Ceph has not marked it out":  {[]OSD{up(1, down, safe), up(2)}, "n1", nil},
		"it runs":                     {[]OSD{up(1, out, safe), up(2)}, "n1", nil},
		"it never ran":                {[]OSD{up(1, neverRan, out), up(2)}, "n1", nil},
		"its host is away":            {[]OSD{up(1, down, out, safe), up(2)}, "n1!", nil},
		"its host is in maintenance":  {[]OSD{up(1, down, out, safe), up(2)}, "n1~", nil},
		"the monitors do not know it": {[]OSD{up(2)}, "n1", nil},
	} {
		w := OSDs{Disks: []Disk{disk(1, missing), disk(2, missing), disk(3)}, Hosts: append(hosts(tt.host), hosts("n2", "n3")...), AutoReplace: true}
		var auto []int
		for _, s := range PlanOSDs(w, facts(twice, append(tt.osds, up(3))...)).Steps {
			if s.Do == ReplaceOSD && s.Loses == "" {
				auto = append(auto, s.ID)
			}
		}
		if !slices.Equal(auto, tt.auto) {
			t.Errorf("%s: %v are replaced", name, auto)
		}
	}
}

// TestPlanOSDs_autoReplacedReturns: the OSD of a disk that comes back stays while the monitors know it. Later its disk is cleared by a person alone.
func TestPlanOSDs_autoReplacedReturns(t *testing.T) {
	auto := func(d *Disk) { d.GivenUp, d.AutoReplaced = true, true }
	missing := func(d *Disk) { d.Kind, d.Missing = osd.Unknown, true }
	unknown := func(d *Disk) { d.Kind, d.Message = osd.Unknown, "It cannot be read." }
	dead := []OSD{up(1, down, out, safe)}
	for name, tt := range map[string]struct {
		disk   Disk
		osds   []OSD
		hosts  string
		want   string
		waits  string
		person bool
	}{
		"it is away":                             {disk(1, auto, missing), dead, "n1", "StopOSD osd.1 (uuid-1) n1", "", false},
		"it is away, and stopped":                {disk(1, auto, missing, undeployed), dead, "n1", "PurgeOSD osd.1 (uuid-1) n1", "", false},
		"it comes back":                          {disk(1, auto), dead, "n1", "KeepOSD osd.1 (uuid-1) n1", "", false},
		"it comes back, and is stopped":          {disk(1, auto, undeployed), dead, "n1", "KeepOSD osd.1 (uuid-1) n1", "", false},
		"it comes back, and cannot be read":      {disk(1, auto, unknown), dead, "n1", "KeepOSD osd.1 (uuid-1) n1", "", false},
		"it comes back, and its host leaves":     {disk(1, auto), dead, "n1-", "StopOSD osd.1 (uuid-1) n1", "", false},
		"its purge was cut off, and it is back":  {disk(1, auto, undeployed, purged), dead, "n1", "KeepOSD osd.1 (uuid-1) n1", "", false},
		"its agent is silent":                    {disk(1, auto, unknown), dead, "n1!", "", "known once the agent of its host answers", false},
		"purged, and away":                       {disk(1, auto, missing, undeployed, purged), nil, "n1", "ZapOSD OSD uuid-1 n1", "", false},
		"purged, and it comes back":              {disk(1, auto, undeployed, purged), nil, "n1", "ZapOSD OSD uuid-1 n1", "", true},
		"purged, and it cannot be read":          {disk(1, auto, undeployed, purged, unknown), nil, "n1", "", "left as it is", false},
		"purged, and a clean one is there":       {disk(1, auto, empty, undeployed, purged), nil, "n1", "ZapOSD OSD uuid-1 n1", "", false},
		"purged, and its host leaves":            {disk(1, auto, undeployed, purged), nil, "n1-", "ZapOSD OSD uuid-1 n1", "", false},
		"a person gave it up, and it comes back": {disk(1, leaving, undeployed), dead, "n1", "PurgeOSD osd.1 (uuid-1) n1", "", false},
	} {
		w := OSDs{Disks: []Disk{tt.disk, disk(2), disk(3)}, Hosts: append(hosts(tt.hosts), hosts("n2", "n3")...), AutoReplace: true}
		p := PlanOSDs(w, facts(twice, append([]OSD{up(2), up(3)}, tt.osds...)...))
		check(t, name, p, tt.want, tt.waits)
		if len(p.Steps) > 0 && (p.Steps[0].Loses != "") != tt.person {
			t.Errorf("%s: what a person approves: %q", name, p.Steps[0].Loses)
		}
	}
}

// TestPlanOSDs_zapHoldsNobodyUp: a disk that cannot be cleared, or that a person is asked about, does not keep another OSD from leaving.
func TestPlanOSDs_zapHoldsNobodyUp(t *testing.T) {
	w := OSDs{Hosts: hosts("n1", "n2", "n3", "n4"), Disks: []Disk{
		disk(1, undeployed, purged, func(d *Disk) { d.GivenUp = true }),
		disk(2, undeployed, func(d *Disk) { d.Kind, d.GivenUp = osd.Unknown, true }), disk(3), disk(4),
	}}
	down := func(o *OSD) { o.Up, o.In, o.SafeToDestroy = false, false, Yes }
	check(t, "two leave", PlanOSDs(w, facts(twice, up(2, down), up(3), up(4))), "ZapOSD OSD uuid-1 n1; PurgeOSD osd.2 (uuid-2) n2", "")
}

// TestPlanOSDs_forgottenEncrypted: whoever gives up an OSD that the monitors do not know, and whose disk is away, is told that the key of the disk goes with it.
func TestPlanOSDs_forgottenEncrypted(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		away := disk(1, func(d *Disk) { d.Missing, d.Encrypted, d.Kind = true, encrypted, osd.Unknown })
		p := PlanOSDs(OSDs{Disks: []Disk{away, disk(2), disk(3)}, Hosts: hosts("n1", "n2", "n3")}, facts(twice, up(2), up(3)))
		i := slices.IndexFunc(p.Steps, func(s Step) bool { return s.Do == ReplaceOSD })
		if i < 0 || strings.Contains(p.Steps[i].Loses, "the Secret with its key is deleted") != encrypted {
			t.Errorf("encrypted %t: %+v, waits %q", encrypted, p.Steps, p.Waits)
		}
	}
}
