package ceph

import (
	"slices"
	"strings"
	"testing"

	"quarry.storage/quarry/pkg/cephname"
)

var (
	v1 = Version{20, 2, 4}
	v2 = Version{20, 2, 5}
	v3 = Version{21, 1, 0}
)

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]Version{
		"20.2.4": v1, "ceph version 20.2.4 (7f793731f1b39eb4f465e960113d2363c311b964) tentacle (stable - RelWithDebInfo)": v1,
		"ceph version 20.3.0-1234-gabc (abc) tentacle (dev)": {20, 3, 0},
	} {
		if got, err := ParseVersion(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "unknown", "20", "20.2", "ceph version Development (no_version) tentacle", "x20.2.4", "20.2.4x", "99999999999999999999.1.1"} {
		if got, err := ParseVersion(text); err == nil || got != (Version{}) {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestAllowed(t *testing.T) {
	at := func(kind string, v Version) []Daemon {
		return []Daemon{{Kind: kind, Name: "a", Version: v, Running: true}}
	}
	for name, tt := range map[string]struct {
		to           Version
		daemons      []Daemon
		min, require int
		says         string
	}{
		"the same":                        {v1, at(cephname.DaemonMonitor, v1), 20, 20, ""},
		"a patch ahead":                   {v2, at(cephname.DaemonMonitor, v1), 20, 20, ""},
		"a patch back":                    {v1, at(cephname.DaemonMonitor, v2), 20, 20, ""},
		"a major version ahead":           {v3, at(cephname.DaemonMonitor, v1), 20, 20, ""},
		"two ahead":                       {Version{22, 2, 0}, at(cephname.DaemonOSD, v1), 20, 20, ""},
		"three ahead":                     {Version{23, 2, 0}, at(cephname.DaemonOSD, v1), 20, 20, "at most 2"},
		"back below what monitors wrote":  {v1, at(cephname.DaemonMonitor, v3), 20, 20, "may not read"},
		"back below what monitors accept": {v1, nil, 21, 20, "require"},
		"back below what OSDs accept":     {v1, nil, 20, 21, "require"},
		"before the first":                {Version{19, 2, 0}, nil, 0, 0, "older than 20"},
		"an image that is not known":      {Version{}, nil, 20, 20, "not known"},
		"a daemon that is not known":      {v1, at(cephname.DaemonOSD, Version{}), 20, 20, "not known"},
		"one that does not run":           {v1, []Daemon{{Kind: cephname.DaemonOSD, Name: "1"}}, 20, 20, ""},
	} {
		if why := Allowed(tt.to, tt.daemons, tt.min, tt.require); (why == "") != (tt.says == "") || !strings.Contains(why, tt.says) {
			t.Errorf("%s: %q", name, why)
		}
	}
}

func TestTooOld(t *testing.T) {
	for tag, want := range map[string]bool{
		"v18": true, "v19.2": true, "v18.2.7": true, "18.2.7": true, "v19.2.3-20250717": true, "v10.2.11": true,
		"v20": false, "v20.2.4": false, "20.2.4": false, "v21.0": false, "v100.1.1": false,
		"": false, "latest": false, "main": false, "18": false, "v20240101": false, "20240101.1": false, "v18x": false, "1.4": false, "2.0-site3": false, "v2": false, "squid-v19.2.3": false,
	} {
		if got := TooOld(tag); got != want {
			t.Errorf("%q: %t", tag, got)
		}
	}
}

// deployed are all daemons of a cluster of three hosts, with an image and its version.
func deployed(image string, v Version) []Daemon {
	var out []Daemon
	for i, host := range []string{"n1", "n2", "n3"} {
		letter := string(rune('a' + i))
		out = append(out,
			Daemon{Kind: cephname.DaemonMetadata, Name: letter, Host: host, Active: i == 0}, Daemon{Kind: cephname.DaemonOSD, Name: string(rune('9' + i)), Host: host, OKToStop: Yes},
			Daemon{Kind: cephname.DaemonManager, Name: letter, Host: host, Active: i == 0}, Daemon{Kind: cephname.DaemonMonitor, Name: letter, Host: host})
	}
	for i := range out {
		out[i].Image, out[i].Version, out[i].Running = image, v, true
	}
	out[5].Name, out[9].Name = "10", "11"
	return out
}

// TestPlanUpgrade_order plays a whole upgrade: by kind, those that serve last, numbers as numbers, and the floor in the end.
func TestPlanUpgrade_order(t *testing.T) {
	daemons := deployed("old", v1)
	f := facts(nil, up(1))
	f.Daemons = &daemons
	w := Upgrade{Image: "new", Version: v3, Hosts: hosts("n1", "n2", "n3"), Health: "HEALTH_OK"}
	var got []string
	for range 20 {
		p := PlanUpgrade(w, f)
		if len(p.Steps) != 1 {
			t.Fatalf("after %q: %+v", got, p)
		}
		got = append(got, p.Steps[0].Name)
		if p.Steps[0].Do == RequireRelease {
			got[len(got)-1] = p.Steps[0].String()
			f.Map.RequireRelease = p.Steps[0].Value
			break
		}
		for i := range daemons {
			if daemons[i].String() == p.Steps[0].Name {
				daemons[i].Image, daemons[i].Version = "new", v3
			}
		}
	}
	want := "mon.a mon.b mon.c mgr.b mgr.c mgr.a osd.9 osd.10 osd.11 mds.b mds.c mds.a RequireRelease 21"
	if strings.Join(got, " ") != want {
		t.Errorf("%s\nwant %s", strings.Join(got, " "), want)
	}
	check(t, "done", PlanUpgrade(w, f), "", "")
	w.Image, w.Version = "old", v1
	check(t, "there is no way back", PlanUpgrade(w, f), "", "older than")
}

// keyless takes the key of an OSD away.
func keyless(name string) func(*Facts) {
	return func(f *Facts) {
		for i := range *f.Daemons {
			if d := &(*f.Daemons)[i]; d.String() == name {
				d.Locked = "the Secret x is gone"
			}
		}
	}
}

// ran has those that have the image run a version.
func ran(v Version) func(*Facts) {
	return func(f *Facts) {
		for i := range *f.Daemons {
			if d := &(*f.Daemons)[i]; d.Image == "new" {
				d.Version = v
			}
		}
	}
}

// unserved has one metadata server alone, which does not run, and all daemons have an image.
func unserved(image string, v Version) func(*Facts) {
	return func(f *Facts) {
		*f.Daemons = slices.DeleteFunc(*f.Daemons, func(d Daemon) bool { return d.Kind == cephname.DaemonMetadata && d.Name != "a" })
		for i := range *f.Daemons {
			d := &(*f.Daemons)[i]
			if d.Image, d.Version = image, v; d.Kind == cephname.DaemonMetadata {
				d.Running, d.Active, d.Version = false, false, Version{}
			}
		}
	}
}

// fallen has the first OSD down with an image that monitors and managers have, too, so that groups are short of copies.
func fallen(image string, v Version) func(*Facts) {
	return func(f *Facts) {
		f.Groups.Clean, f.Groups.Short = f.Groups.Clean-1, 1
		for i := range *f.Daemons {
			d := &(*f.Daemons)[i]
			if d.Kind == cephname.DaemonMonitor || d.Kind == cephname.DaemonManager || d.String() == "osd.9" {
				d.Image, d.Version = image, v
			}
			if d.String() == "osd.9" {
				d.Running, d.Version = false, Version{}
			}
		}
	}
}

// unmanaged has no manager run, so that nobody tells of the placement groups, and the monitors and managers have an image.
func unmanaged(image string, v Version) func(*Facts) {
	return func(f *Facts) {
		f.Groups = nil
		for i := range *f.Daemons {
			d := &(*f.Daemons)[i]
			switch d.Kind {
			case cephname.DaemonMonitor:
				d.Image, d.Version = image, v
			case cephname.DaemonManager:
				d.Image, d.Running, d.Restarting, d.Active, d.Version = image, false, true, false, Version{}
			}
		}
	}
}

// fails has the pod of a daemon not start.
func fails(name string) func(*Facts) {
	return func(f *Facts) {
		for i := range *f.Daemons {
			if d := &(*f.Daemons)[i]; d.String() == name {
				d.Running, d.Failing, d.Restarting, d.Version = false, true, true, Version{}
			}
		}
	}
}

func TestPlanUpgrade(t *testing.T) {
	begun := func(n int) func(*Facts) {
		return func(f *Facts) {
			for i := range *f.Daemons {
				if d := &(*f.Daemons)[i]; d.Kind == cephname.DaemonMonitor || d.Kind == cephname.DaemonManager && n > 1 {
					d.Image, d.Version = "new", v2
				}
			}
		}
	}
	for name, tt := range map[string]struct {
		change []func(*Facts)
		wanted func(*Upgrade)
		want   string
		waits  string
	}{
		"the first monitor":                 {nil, nil, "ReplaceDaemon mon.a n1", ""},
		"the managers":                      {[]func(*Facts){begun(1)}, nil, "ReplaceDaemon mgr.b n2", ""},
		"the OSDs":                          {[]func(*Facts){begun(2)}, nil, "ReplaceDaemon osd.9 n1", ""},
		"an OSD that cannot be stopped":     {[]func(*Facts){begun(2), func(f *Facts) { (*f.Daemons)[1].OKToStop = No }}, nil, "", "cannot be stopped"},
		"nobody knows whether it can":       {[]func(*Facts){begun(2), func(f *Facts) { (*f.Daemons)[1].OKToStop = Unknown }}, nil, "", "unknown"},
		"an OSD whose key is gone":          {[]func(*Facts){begun(2), keyless("osd.9")}, nil, "ReplaceDaemon osd.10 n2", "osd.9 does not get image new, for it would not start again: the Secret x is gone"},
		"all keys are gone":                 {[]func(*Facts){begun(2), keyless("osd.9"), keyless("osd.10"), keyless("osd.11")}, nil, "ReplaceDaemon mds.b n2", "osd.11 does not get image new"},
		"all, and the version is far ahead": {[]func(*Facts){begun(2), keyless("osd.9"), keyless("osd.10"), keyless("osd.11"), ran(v3)}, func(w *Upgrade) { w.Version = v3 }, "", "mds.b waits for image new: osd.9"},
		"a key is gone, and others lack it": {[]func(*Facts){keyless("osd.9")}, nil, "ReplaceDaemon mon.a n1", "empty the OSD while"},
		"its key is gone, and it is done":   {[]func(*Facts){keyless("osd.9")}, func(w *Upgrade) { w.Image, w.Version = "old", v1 }, "", ""},
		"placement groups are not clean":    {[]func(*Facts){begun(2), func(f *Facts) { f.Groups.Clean-- }}, nil, "", "7 of 8"},
		"another daemon does not run":       {[]func(*Facts){begun(1), func(f *Facts) { (*f.Daemons)[0].Running = false }}, nil, "", "mds.a does not run"},
		"an OSD fails, and all is wrong":    {[]func(*Facts){fails("osd.10"), func(f *Facts) { f.Groups.Clean-- }}, func(w *Upgrade) { w.Health = "HEALTH_ERR" }, "ReplaceDaemon osd.10 n2", ""},
		"nobody tells of the groups":        {[]func(*Facts){fails("osd.10"), func(f *Facts) { f.Groups = nil }}, nil, "ReplaceDaemon osd.10 n2", ""},
		"two OSDs fail":                     {[]func(*Facts){fails("osd.10"), fails("osd.9")}, nil, "ReplaceDaemon osd.9 n1", ""},
		"another one that fails is done":    {[]func(*Facts){begun(2), fails("osd.10"), fails("osd.9"), func(f *Facts) { (*f.Daemons)[1].Image = "new" }}, nil, "ReplaceDaemon osd.10 n2", ""},
		"it only gets other settings":       {[]func(*Facts){fails("osd.10"), func(f *Facts) { (*f.Daemons)[5].Image = "new" + OtherSettings }}, func(w *Upgrade) { w.Version = v3 }, "ReplaceDaemon osd.10 n2", ""},
		"it would be ahead of the order":    {[]func(*Facts){fails("osd.10")}, func(w *Upgrade) { w.Version = v3 }, "", "osd.10 does not run"},
		"it fails on a host in maintenance": {[]func(*Facts){fails("osd.10")}, func(w *Upgrade) { w.Hosts[1].Maintenance = true }, "", "osd.10 does not run"},
		"and another one fails":             {[]func(*Facts){fails("osd.10"), fails("osd.11")}, func(w *Upgrade) { w.Hosts[1].Maintenance = true }, "ReplaceDaemon osd.11 n3", ""},
		"no key opens it":                   {[]func(*Facts){fails("osd.10"), keyless("osd.10")}, nil, "", "osd.10 comes before it"},
		"another one was just deployed":     {[]func(*Facts){begun(1), func(f *Facts) { (*f.Daemons)[3].Restarting = true }}, nil, "", "is not ready since it was deployed"},
		"the next one does not run":         {[]func(*Facts){begun(1), func(f *Facts) { (*f.Daemons)[6].Running = false }}, nil, "ReplaceDaemon mgr.b n2", ""},
		"one with the image runs another":   {[]func(*Facts){begun(1), func(f *Facts) { (*f.Daemons)[3].Version = v1 }}, nil, "", "runs version"},
		"the health is an error":            {nil, func(w *Upgrade) { w.Health = "HEALTH_ERR" }, "", "HEALTH_ERR"},
		"the health is not known":           {nil, func(w *Upgrade) { w.Health = "" }, "", "the health is"},
		"a warning":                         {nil, func(w *Upgrade) { w.Health = "HEALTH_WARN" }, "ReplaceDaemon mon.a n1", ""},
		"no majority without it":            {[]func(*Facts){func(f *Facts) { f.Quorum = quorum("a", "b!", "c") }}, nil, "", "1 of 3"},
		"it is the one that is missing":     {[]func(*Facts){func(f *Facts) { f.Quorum = quorum("a!", "b", "c") }}, nil, "ReplaceDaemon mon.a n1", ""},
		"its host is in maintenance":        {nil, func(w *Upgrade) { w.Hosts = hosts("n1~", "n2", "n3") }, "", "cannot be worked with"},
		"its host is unknown":               {nil, func(w *Upgrade) { w.Hosts = nil }, "", "cannot be worked with"},
		"a version that is not known":       {nil, func(w *Upgrade) { w.Version = Version{} }, "", "not known"},
		"no quorum":                         {[]func(*Facts){func(f *Facts) { f.Quorum = nil }}, nil, "", "Not everything"},
		"no groups":                         {[]func(*Facts){func(f *Facts) { f.Groups = nil }}, nil, "", "Not everything"},
		"no daemons":                        {[]func(*Facts){func(f *Facts) { f.Daemons = nil }}, nil, "", "Not everything"},
		"a bad image is taken back":         {[]func(*Facts){func(f *Facts) { d := &(*f.Daemons)[3]; d.Image, d.Running, d.Version = "bad", false, Version{} }}, func(w *Upgrade) { w.Image, w.Version = "old", v1 }, "ReplaceDaemon mon.a n1", ""},
		"that of a manager is taken back": {[]func(*Facts){func(f *Facts) {
			for i := range *f.Daemons {
				if d := &(*f.Daemons)[i]; d.Kind == cephname.DaemonMonitor || d.String() == "mgr.b" {
					d.Image, d.Version = "bad", v2
				}
				if d := &(*f.Daemons)[i]; d.String() == "mgr.b" {
					d.Running, d.Version = false, Version{}
				}
			}
		}}, func(w *Upgrade) { w.Image, w.Version = "old", v1 }, "ReplaceDaemon mgr.b n2", ""},
		"that of all managers is taken back":   {[]func(*Facts){unmanaged("bad", v2)}, func(w *Upgrade) { w.Image, w.Version, w.Health = "old", v1, "HEALTH_ERR" }, "ReplaceDaemon mgr.a n1", ""},
		"that of the only metadata server is":  {[]func(*Facts){unserved("bad", v2)}, func(w *Upgrade) { w.Image, w.Version, w.Health = "old", v1, "HEALTH_ERR" }, "ReplaceDaemon mds.a n1", ""},
		"it comes after the OSDs":              {[]func(*Facts){unserved("old", v1), begun(2)}, nil, "", "mds.a does not run"},
		"that of an OSD, and groups are short": {[]func(*Facts){fallen("bad", v2)}, func(w *Upgrade) { w.Image, w.Version = "old", v1 }, "ReplaceDaemon osd.9 n1", ""},
		"no manager runs, and monitors before": {[]func(*Facts){unmanaged("old", v1)}, nil, "", "Not everything"},
		"the second manager, the first is bad": {[]func(*Facts){unmanaged("old", v2), func(f *Facts) { (*f.Daemons)[2].Image = "new" }}, nil, "", "mgr.a does not run"},
		"nothing to do, and an older floor":    {[]func(*Facts){func(f *Facts) { f.Map.RequireRelease = 19 }}, func(w *Upgrade) { w.Image, w.Version = "old", v1 }, "RequireRelease 20", ""},
		"a daemon is late for the floor":       {[]func(*Facts){func(f *Facts) { f.Map.RequireRelease = 19; (*f.Daemons)[1].Running = false }}, func(w *Upgrade) { w.Image, w.Version = "old", v1 }, "", "does not run version"},
	} {
		daemons := deployed("old", v1)
		f := facts(nil, up(1))
		f.Daemons = &daemons
		for _, change := range tt.change {
			change(&f)
		}
		w := Upgrade{Image: "new", Version: v2, Hosts: hosts("n1", "n2", "n3"), Health: "HEALTH_OK"}
		if tt.wanted != nil {
			tt.wanted(&w)
		}
		check(t, name, PlanUpgrade(w, f), tt.want, tt.waits)
	}
}

// TestPlanUpgrade_oneMonitor: nothing keeps the only monitor from a restart, and it is told.
func TestPlanUpgrade_oneMonitor(t *testing.T) {
	f := facts(nil, up(1))
	f.Quorum, f.Daemons = quorum("a"), &[]Daemon{{Kind: cephname.DaemonMonitor, Name: "a", Host: "n1", Image: "old", Version: v1, Running: true}}
	p := PlanUpgrade(Upgrade{Image: "new", Version: v2, Hosts: hosts("n1"), Health: "HEALTH_OK"}, f)
	if len(p.Steps) != 1 || p.Steps[0].Loses == "" {
		t.Errorf("%+v", p)
	}
}

// TestPlanRevival: without a quorum a monitor that fails gets what the spec wants, and no other daemon does.
func TestPlanRevival(t *testing.T) {
	daemon := func(kind, name, host string, failing bool) Daemon {
		return Daemon{Kind: kind, Name: name, Host: host, Image: "broken", Failing: failing}
	}
	away := hosts("n1", "n2")
	away[0].Serving = false
	for name, tt := range map[string]struct {
		hosts    []Host
		outdated []Daemon
		want     string
		waits    string
	}{
		"none is outdated":         {hosts("n1"), nil, "", ""},
		"it fails":                 {hosts("n1"), []Daemon{daemon(cephname.DaemonMonitor, "a", "n1", true)}, "ReplaceDaemon mon.a n1", ""},
		"it runs, and has no peer": {hosts("n1"), []Daemon{daemon(cephname.DaemonMonitor, "a", "n1", false)}, "", ""},
		"one at a time":            {hosts("n1", "n2"), []Daemon{daemon(cephname.DaemonMonitor, "b", "n2", true), daemon(cephname.DaemonMonitor, "a", "n1", true)}, "ReplaceDaemon mon.a n1", ""},
		"a host that is away":      {away, []Daemon{daemon(cephname.DaemonMonitor, "a", "n1", true), daemon(cephname.DaemonMonitor, "b", "n2", true)}, "ReplaceDaemon mon.b n2", "its host n1 cannot"},
		"an OSD":                   {hosts("n1"), []Daemon{daemon(cephname.DaemonOSD, "1", "n1", true)}, "", ""},
	} {
		check(t, name, PlanRevival(Upgrade{Image: "new", Hosts: tt.hosts}, tt.outdated), tt.want, tt.waits)
	}
}
