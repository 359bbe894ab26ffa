package ceph

import (
	"slices"
	"testing"

	"quarry.storage/quarry/pkg/osd"
)

const gib = int64(1) << 30

// up is an OSD that serves, on a host and with a UUID of its number, with changes.
func up(id int, changes ...func(*OSD)) OSD {
	o := OSD{
		ID: id, UUID: uuidOf(id), Host: hostOf(id), Up: true, In: true, SafeToDestroy: No, OKToStop: Yes, UsedBytes: gib, TotalBytes: 10 * gib,
	}
	for _, change := range changes {
		change(&o)
	}
	return o
}

func uuidOf(id int) string { return "uuid-" + string(rune('0'+id)) }

func hostOf(id int) string { return "n" + string(rune('0'+id)) }

// disk is that of an OSD whose daemon is deployed, with changes.
func disk(id int, changes ...func(*Disk)) Disk {
	d := Disk{Host: hostOf(id), Path: "/dev/" + uuidOf(id), UUID: uuidOf(id), Kind: osd.Ready, Deployed: Yes}
	for _, change := range changes {
		change(&d)
	}
	return d
}

func locked(d *Disk)     { d.Locked = "the Secret x is gone" }
func stale(d *Disk)      { d.Stale = true }
func leaving(d *Disk)    { d.GivenUp = true }
func undeployed(d *Disk) { d.Deployed = No }
func ending(d *Disk)     { d.Ending = true }
func empty(d *Disk)      { d.Kind = osd.Empty }
func outed(d *Disk)      { d.Outed = true }
func purged(d *Disk)     { d.Purged = true }
func other(d *Disk)      { d.Kind, d.Message = osd.Other, "It carries ext4." }

func neverRan(o *OSD) {
	o.New, o.Up, o.Host, o.TotalBytes, o.UsedBytes, o.SafeToDestroy = true, false, "", 0, 0, Unknown
}
func down(o *OSD) { o.Up = false }
func out(o *OSD)  { o.In = false }
func safe(o *OSD) { o.SafeToDestroy = Yes }

func facts(pools []Pool, osds ...OSD) Facts {
	m := &Map{OSDs: osds, Pools: pools, RequireRelease: 20, HostFlags: map[string][]string{}}
	for _, o := range osds {
		m.Hosts = append(m.Hosts, o.Host)
	}
	return Facts{Quorum: quorum("a", "b", "c"), Map: m, Groups: &Groups{Total: 8, Clean: 8}, Daemons: &[]Daemon{}}
}

var twice = []Pool{{"data", 2, 1}}

func TestPlanOSDs_bringUp(t *testing.T) {
	for name, tt := range map[string]struct {
		disk  Disk
		osds  []OSD
		hosts []Host
		tools []string
		want  string
		waits string
	}{
		"a disk that was chosen":                   {disk(1, empty, undeployed), nil, nil, nil, "RegisterOSD OSD uuid-1 n1", ""},
		"registered":                               {disk(1, empty, undeployed), []OSD{up(1, neverRan)}, nil, []string{"n1"}, "PrepareOSD osd.1 (uuid-1) n1", ""},
		"registered, without programs there":       {disk(1, empty, undeployed), []OSD{up(1, neverRan)}, nil, []string{"n2"}, "", "programs"},
		"killed in the making":                     {disk(1, undeployed, func(d *Disk) { d.Kind = osd.Unfinished }), []OSD{up(1, neverRan)}, nil, []string{"n1"}, "PrepareOSD osd.1 (uuid-1) n1", ""},
		"ready":                                    {disk(1, undeployed), []OSD{up(1, neverRan)}, nil, nil, "StartOSD osd.1 (uuid-1) n1", ""},
		"ready, and ran":                           {disk(1, undeployed), []OSD{up(1, down)}, nil, nil, "StartOSD osd.1 (uuid-1) n1", ""},
		"it serves":                                {disk(1), []OSD{up(1)}, nil, nil, "", ""},
		"its daemon does not run":                  {disk(1), []OSD{up(1, down)}, nil, nil, "", "does not run"},
		"and its pod has not ended":                {disk(1, stale, ending), []OSD{up(1, down)}, nil, nil, "", "its pod has not ended."},
		"its disk came back as another device":     {disk(1, stale), []OSD{up(1, down)}, nil, nil, "StopOSD osd.1 (uuid-1) n1", ""},
		"the same, and it serves":                  {disk(1, stale), []OSD{up(1)}, nil, nil, "", ""},
		"the same, and its key is gone":            {disk(1, stale, locked), []OSD{up(1, down)}, nil, nil, "", "Secret x is gone"},
		"the same, and nobody can read the disk":   {disk(1, stale, func(d *Disk) { d.Kind = osd.Unknown }), []OSD{up(1, down)}, nil, nil, "", "does not run"},
		"the same, in maintenance":                 {disk(1, stale), []OSD{up(1, down)}, hosts("n1~"), nil, "", "does not run"},
		"the same, and its host does not answer":   {disk(1, stale), []OSD{up(1, down)}, hosts("n1!"), nil, "", "does not run"},
		"the same, and the monitors do not know":   {disk(1, stale), nil, nil, nil, "", "does not run"},
		"an OSD that the monitors do not know":     {disk(1, undeployed), nil, nil, nil, "", "do not know"},
		"an empty disk of an OSD that ran":         {disk(1, empty, undeployed), []OSD{up(1, down)}, nil, []string{"n1"}, "", "approve ReplaceOSD"},
		"an unfinished disk of an OSD that ran":    {disk(1, undeployed, func(d *Disk) { d.Kind = osd.Unfinished }), []OSD{up(1, down)}, nil, []string{"n1"}, "", "osd.1 ran"},
		"something else is on it":                  {disk(1, other, undeployed), nil, nil, nil, "", "ext4"},
		"something else is on it, and it is known": {disk(1, other, undeployed), []OSD{up(1, neverRan)}, nil, []string{"n1"}, "", "ext4"},
		"nobody can tell what is on it":            {disk(1, undeployed, func(d *Disk) { d.Kind = osd.Unknown }), []OSD{up(1, neverRan)}, nil, []string{"n1"}, "", "not taken"},
		"nobody knows whether it is deployed":      {disk(1, func(d *Disk) { d.Deployed = Unknown }), []OSD{up(1)}, nil, nil, "", "cannot be read"},
		"its host does not answer":                 {disk(1, empty, undeployed), nil, hosts("n1!"), nil, "", "waits for its host"},
		"its host is in maintenance":               {disk(1, undeployed), []OSD{up(1, down)}, hosts("n1~"), nil, "", "waits for its host"},
		"it is brought in after maintenance":       {disk(1, outed), []OSD{up(1, out)}, hosts("n1~"), nil, "", "maintenance"},
		"it was to leave, and stays":               {disk(1, outed), []OSD{up(1, out)}, nil, nil, "InOSD osd.1 (uuid-1) n1", ""},
		"somebody else marked it out":              {disk(1), []OSD{up(1, out)}, nil, nil, "", "somebody else"},
		"its key is gone":                          {disk(1, undeployed, locked), []OSD{up(1, down)}, nil, nil, "", "Secret x is gone"},
		"its key is gone, and it is empty":         {disk(1, empty, undeployed, locked), []OSD{up(1, neverRan)}, nil, []string{"n1"}, "ReplaceOSD osd.1 (uuid-1) n1", "never ran"},
		"its key is gone, and it never ran":        {disk(1, undeployed, locked), []OSD{up(1, neverRan)}, nil, []string{"n1"}, "ReplaceOSD osd.1 (uuid-1) n1", "no key opens its disk: the Secret x is gone. If the key is lost for ever, approve ReplaceOSD"},
		"the same, and it is deployed":             {disk(1, locked), []OSD{up(1, neverRan, out)}, nil, nil, "ReplaceOSD osd.1 (uuid-1) n1", "never ran"},
		"its key is gone while it serves":          {disk(1, locked), []OSD{up(1)}, nil, nil, "", "empty the OSD while its disk is open"},
	} {
		w := OSDs{Disks: []Disk{tt.disk}, Hosts: tt.hosts, Tools: tt.tools}
		if w.Hosts == nil {
			w.Hosts = hosts("n1")
		}
		check(t, name, PlanOSDs(w, facts(nil, tt.osds...)), tt.want, tt.waits)
	}
}

// TestPlanOSDs_unknown: without the monitors nothing is done, whatever the disks say.
func TestPlanOSDs_unknown(t *testing.T) {
	w := OSDs{Disks: []Disk{disk(1, empty, undeployed), disk(2, leaving, undeployed, purged)}, Hosts: hosts("n1", "n2")}
	for name, change := range map[string]func(*Facts){
		"no quorum is known":     func(f *Facts) { f.Quorum = nil },
		"the monitors are split": func(f *Facts) { f.Quorum = quorum("a", "b!", "c!") },
		"no map is known":        func(f *Facts) { f.Map = nil },
	} {
		f := facts(nil)
		change(&f)
		check(t, name, PlanOSDs(w, f), "", "do not answer")
	}
}

// TestPlanOSDs_leave: an OSD leaves step by step, and each of them waits for what makes it safe.
func TestPlanOSDs_leave(t *testing.T) {
	others := []OSD{up(2), up(3)}
	for name, tt := range map[string]struct {
		disk   Disk
		osd    []OSD
		change func(*Facts)
		want   string
		waits  string
	}{
		"in":                                   {disk(1, leaving), []OSD{up(1)}, nil, "OutOSD osd.1 (uuid-1) n1", ""},
		"in, and down":                         {disk(1, leaving), []OSD{up(1, down)}, nil, "OutOSD osd.1 (uuid-1) n1", ""},
		"out, and full of data":                {disk(1, leaving), []OSD{up(1, out)}, nil, "", "not safe elsewhere"},
		"nobody knows whether it is safe":      {disk(1, leaving), []OSD{up(1, out, func(o *OSD) { o.SafeToDestroy = Unknown })}, nil, "", "unknown"},
		"groups are unknown":                   {disk(1, leaving), []OSD{up(1, out, safe)}, func(f *Facts) { f.Groups = nil }, "", "cannot be read"},
		"out, and Ceph says how fast it moves": {disk(1, leaving), []OSD{up(1, out)}, func(f *Facts) { f.Groups.Misplaced, f.Groups.Recovering = 30, 7 }, "", "30 objects to move, and 0 copies to make, at 7 objects a second."},
		"groups are inactive":                  {disk(1, leaving), []OSD{up(1, out, safe)}, func(f *Facts) { f.Groups.Inactive = 1 }, "", "not safe elsewhere"},
		"safe":                                 {disk(1, leaving), []OSD{up(1, out, safe)}, nil, "StopOSD osd.1 (uuid-1) n1", ""},
		"safe, and not ok to stop":             {disk(1, leaving), []OSD{up(1, out, safe, func(o *OSD) { o.OKToStop = No })}, nil, "", "cannot be stopped"},
		"nobody knows whether it may stop":     {disk(1, leaving), []OSD{up(1, out, safe, func(o *OSD) { o.OKToStop = Unknown })}, nil, "", "unknown"},
		"stopped":                              {disk(1, leaving, undeployed), []OSD{up(1, out, safe, down)}, nil, "PurgeOSD osd.1 (uuid-1) n1", ""},
		"stopped, and not safe any more":       {disk(1, leaving, undeployed), []OSD{up(1, out, down)}, nil, "", "not safe elsewhere"},
		"down, and perhaps deployed":           {disk(1, leaving, func(d *Disk) { d.Deployed = Unknown }), []OSD{up(1, out, safe, down)}, nil, "", "cannot be read"},
		"a daemon that nobody deploys":         {disk(1, leaving, undeployed), []OSD{up(1, out, safe)}, nil, "", "nobody deploys"},
		"dead, with its workload":              {disk(1, leaving), []OSD{up(1, out, safe, down)}, nil, "StopOSD osd.1 (uuid-1) n1", ""},
		"its workload is being deleted":        {disk(1, leaving, ending), []OSD{up(1, out, safe)}, nil, "", "its pod has not ended."},
		"not known, and its workload goes":     {disk(1, leaving, purged, ending), nil, nil, "", "its pod has not ended."},
		"purged":                               {disk(1, leaving, undeployed, purged), nil, nil, "ZapOSD OSD uuid-1 n1", ""},
		"not known, and nobody purged it":      {disk(1, leaving, undeployed), nil, nil, "", "nobody purged"},
		"not known, with its workload":         {disk(1, leaving, purged), nil, nil, "StopOSD OSD uuid-1 n1", ""},
		"somebody else purged it":              {disk(1, leaving), nil, nil, "StopOSD OSD uuid-1 n1", ""},
		"not known, and perhaps deployed":      {disk(1, leaving, purged, func(d *Disk) { d.Deployed = Unknown }), nil, nil, "", "still be deployed"},
		"not known, and it never was made":     {disk(1, leaving, undeployed, func(d *Disk) { d.Kind = osd.Unfinished }), nil, nil, "ZapOSD OSD uuid-1 n1", ""},
		"clean, and still on record":           {disk(1, leaving, undeployed, purged, empty), nil, nil, "ZapOSD OSD uuid-1 n1", ""},
		"given up, clean, nobody purged it":    {disk(1, leaving, undeployed, empty), nil, nil, "ZapOSD OSD uuid-1 n1", ""},
		"purged, and somebody else's by now":   {disk(1, leaving, undeployed, purged, other), nil, nil, "", "left as it is"},
		"it never ran":                         {disk(1, leaving, undeployed), []OSD{up(1, neverRan)}, nil, "PurgeOSD osd.1 (uuid-1) n1", ""},
		"it never ran, and may start":          {disk(1, leaving), []OSD{up(1, neverRan)}, nil, "StopOSD osd.1 (uuid-1) n1", ""},
		"too few hosts for the copies":         {disk(1, leaving), []OSD{up(1)}, func(f *Facts) { f.Map.Pools = []Pool{{"data", 3, 2}} }, "", "3 copies of everything, and only 2 places"},
		"the others are full":                  {disk(1, leaving), []OSD{up(1, func(o *OSD) { o.UsedBytes = 9 * gib })}, func(f *Facts) { f.Map.OSDs[0].UsedBytes = 8 * gib }, "", "in use already"},
		"one of the others is too small":       {disk(1, leaving), []OSD{up(1, func(o *OSD) { o.UsedBytes = 3 * gib })}, func(f *Facts) { f.Map.OSDs[0].TotalBytes = 2 * gib }, "", "none of 2 places can hold more than one of 2 copies"},
		"nobody knows how full the others are": {disk(1, leaving), []OSD{up(1)}, func(f *Facts) { f.Map.OSDs[0].TotalBytes = 0 }, "", "how full osd.2 is"},
		"nobody knows how full it is":          {disk(1, leaving), []OSD{up(1, func(o *OSD) { o.TotalBytes = 0 })}, nil, "", "how full osd.1 is"},
		"data do not move":                     {disk(1, leaving), []OSD{up(1, out)}, func(f *Facts) { f.Map.Flags = []string{"norebalance"} }, "", "norebalance"},
	} {
		f := facts(twice, append([]OSD{others[0], others[1]}, tt.osd...)...)
		if tt.change != nil {
			tt.change(&f)
		}
		check(t, name, PlanOSDs(OSDs{Disks: []Disk{tt.disk, disk(2), disk(3)}, Hosts: hosts("n1", "n2", "n3")}, f), tt.want, tt.waits)
	}
}

// TestPlanOSDs_host: a host leaves with all of its disks: their data move at once, they end one by one, and the host goes last.
func TestPlanOSDs_host(t *testing.T) {
	second := func(d *Disk) { d.Host = "n1" }
	on := func(o *OSD) { o.Host = "n1" }
	w := OSDs{Disks: []Disk{disk(1), disk(4, second), disk(2), disk(3)}, Hosts: hosts("n1-", "n2", "n3")}
	f := facts(twice, up(1), up(4, on), up(2), up(3))
	check(t, "both are emptied", PlanOSDs(w, f), "OutOSD osd.1 (uuid-1) n1; OutOSD osd.4 (uuid-4) n1", "")
	f = facts(twice, up(1, out, safe), up(4, on, out, safe), up(2), up(3))
	check(t, "one is stopped", PlanOSDs(w, f), "StopOSD osd.1 (uuid-1) n1", "")
	w.Disks[0].Ending = true
	check(t, "it ends, and runs yet", PlanOSDs(w, f), "", "its pod has not ended. osd.4 on n1 is stopped once the daemon of another OSD that leaves has ended.")
	off := w
	off.Hosts = slices.Clone(w.Hosts)
	off.Hosts[0].Serving, off.Hosts[0].Answers = false, false
	f = facts(twice, up(1, out, safe, down), up(4, on, out, safe), up(2), up(3))
	check(t, "its host is off, and it holds up no other one", PlanOSDs(off, f), "StopOSD osd.4 (uuid-4) n1", "The daemon of disk /dev/uuid-1 on n1 has no Deployment that stays, and its pod has not ended. No agent answers on n1. Boot it. If it stays off, delete its Node")
	broken := disk(1, undeployed, purged, func(d *Disk) { d.Kind, d.Message = osd.Unknown, "it cannot be read" })
	p := PlanOSDs(OSDs{Disks: []Disk{broken, disk(2), disk(3)}, Hosts: w.Hosts}, facts(twice, up(2), up(3)))
	check(t, "one cannot be cleared", Plan{Waits: p.Waits}, "", "left as it is: it cannot be read. If the disk fails, wait until the Member waits for nothing else, and switch host n1 off. Then take it out")
	w.Disks = []Disk{disk(1, undeployed, empty), disk(4, second, undeployed, purged), disk(2), disk(3)}
	f = facts(twice, up(2), up(3))
	f.Map.Hosts = []string{"n1", "n2", "n3"}
	check(t, "the other is cleared", PlanOSDs(w, f), "ZapOSD OSD uuid-4 n1; RemoveHost n1", "is clean")
	w.Disks = []Disk{disk(2), disk(3)}
	check(t, "the host goes", PlanOSDs(w, f), "RemoveHost n1", "")
	f.Map.Hosts = []string{"n2", "n3"}
	check(t, "it is gone", PlanOSDs(w, f), "", "")
	f = facts(twice, up(1), up(2), up(3))
	check(t, "an OSD that nobody has on record stays", PlanOSDs(w, f), "", "is on no disk that the Cluster has on record")
}

// TestPlanOSDs_oneHost: copies are kept on different hosts, so OSDs beside one that leaves are no places for what is on it.
func TestPlanOSDs_oneHost(t *testing.T) {
	on := func(o *OSD) { o.Host = "n1" }
	at := func(d *Disk) { d.Host = "n1" }
	w := OSDs{Disks: []Disk{disk(1, leaving), disk(2, at), disk(3, at)}, Hosts: hosts("n1")}
	f := facts(twice, up(1), up(2, on), up(3, on))
	check(t, "one host is one place", PlanOSDs(w, f), "", "only 1 places")
}
