package ceph

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/pkg/cephname"
)

// metadata is what a daemon told when it started. Daemons other than OSDs have names.
type metadata struct {
	Name    string `json:"name"`
	ID      *int   `json:"id"`
	Version string `json:"ceph_version_short"`
	Release string `json:"ceph_release"`
}

// serving is which daemons run, and which of them serve.
type serving struct {
	running, active []string
	// dashboard is where the active manager serves its dashboard, modules are those that every manager has.
	dashboard string
	modules   []string
}

// module is one that a manager has.
type module struct {
	Name   string `json:"name"`
	CanRun bool   `json:"can_run"`
}

// daemons reads the versions of all daemons. An OSD that never ran is none yet. One that is dead is told with the version that it had.
func (c *Client) daemons(ctx context.Context, q ceph.Quorum, m ceph.Map, mgr serving) (*[]ceph.Daemon, error) {
	serve, err := c.serving(ctx, q, m, mgr)
	if err != nil {
		return nil, err
	}
	out := []ceph.Daemon{}
	for _, kind := range []string{cephname.DaemonMonitor, cephname.DaemonManager, cephname.DaemonOSD, cephname.DaemonMetadata} {
		var told []metadata
		if err := c.ask(ctx, &told, kind, "metadata"); err != nil {
			return nil, err
		}
		for _, t := range told {
			d := ceph.Daemon{Kind: kind, Name: t.Name}
			if kind == cephname.DaemonOSD {
				if t.ID == nil {
					return nil, fmt.Errorf("osd metadata has an OSD without a number")
				}
				d.Name = strconv.Itoa(*t.ID)
			}
			if d.Name == "" {
				return nil, fmt.Errorf("%s metadata has a daemon without a name", kind)
			}
			if never := kind == cephname.DaemonOSD && t.Version == ""; never && slices.ContainsFunc(m.OSDs, func(o ceph.OSD) bool { return o.ID == *t.ID && o.New }) {
				continue
			}
			// A version that cannot be read stays unknown, which is for whoever decides.
			d.Version, _ = ceph.ParseVersion(t.Version)
			d.Running, d.Active = slices.Contains(serve[kind].running, d.Name), slices.Contains(serve[kind].active, d.Name)
			out = append(out, d)
		}
	}
	return &out, nil
}

// okToStop copies what Ceph said of OSDs to their daemons.
func okToStop(daemons []ceph.Daemon, m ceph.Map) {
	for i := range daemons {
		for _, o := range m.OSDs {
			if daemons[i].Kind == cephname.DaemonOSD && daemons[i].Name == strconv.Itoa(o.ID) {
				daemons[i].OKToStop = o.OKToStop
			}
		}
	}
}

// serving finds out which daemons of each kind run.
func (c *Client) serving(ctx context.Context, q ceph.Quorum, m ceph.Map, mgr serving) (map[string]serving, error) {
	out := map[string]serving{}
	var mon, osds serving
	for _, x := range q.Monitors {
		if x.In {
			mon.running = append(mon.running, x.Name)
		}
	}
	for _, o := range m.OSDs {
		if o.Up {
			osds.running = append(osds.running, strconv.Itoa(o.ID))
		}
	}
	mds, err := c.metadataServers(ctx)
	if err != nil {
		return nil, err
	}
	out[cephname.DaemonMonitor], out[cephname.DaemonManager], out[cephname.DaemonOSD], out[cephname.DaemonMetadata] = mon, mgr, osds, mds
	return out, nil
}

func (c *Client) managers(ctx context.Context) (serving, error) {
	var d struct {
		Available  *bool  `json:"available"`
		ActiveName string `json:"active_name"`
		Standbys   []struct {
			Name    string   `json:"name"`
			Modules []module `json:"available_modules"`
		} `json:"standbys"`
		Modules  []module          `json:"available_modules"`
		Services map[string]string `json:"services"`
	}
	if err := c.ask(ctx, &d, "mgr", "dump"); err != nil {
		return serving{}, err
	}
	var s serving
	if d.Available == nil {
		return s, fmt.Errorf("mgr dump does not tell whether a manager is available")
	}
	if *d.Available {
		s.running, s.active = append(s.running, d.ActiveName), append(s.active, d.ActiveName)
		s.dashboard = d.Services[cephname.ModuleDashboard]
	}
	for _, m := range d.Modules {
		lacks := false
		for _, standby := range d.Standbys {
			lacks = lacks || !slices.ContainsFunc(standby.Modules, func(x module) bool { return x.Name == m.Name })
		}
		if m.CanRun && !lacks {
			s.modules = append(s.modules, m.Name)
		}
	}
	for _, m := range d.Standbys {
		s.running = append(s.running, m.Name)
	}
	return s, nil
}

func (c *Client) metadataServers(ctx context.Context) (serving, error) {
	type server struct {
		Name  string `json:"name"`
		State string `json:"state"`
		// Since when the monitors have not heard of it. Ceph leaves it in its place while none stands by.
		Laggy string `json:"laggy_since"`
	}
	var d struct {
		Standbys    *[]server `json:"standbys"`
		Filesystems *[]struct {
			Map struct {
				Info map[string]server `json:"info"`
			} `json:"mdsmap"`
		} `json:"filesystems"`
	}
	if err := c.ask(ctx, &d, "fs", "dump"); err != nil {
		return serving{}, err
	}
	var s serving
	if d.Standbys == nil || d.Filesystems == nil {
		return s, fmt.Errorf("fs dump does not tell of standbys or filesystems")
	}
	for _, m := range *d.Standbys {
		s.running = append(s.running, m.Name)
	}
	for _, f := range *d.Filesystems {
		for _, m := range f.Map.Info {
			if m.Laggy != "" {
				continue
			}
			// Others are on their way to serve: they do not yet.
			if m.State == "up:active" || m.State == "up:standby-replay" {
				s.running = append(s.running, m.Name)
			}
			if m.State == "up:active" {
				s.active = append(s.active, m.Name)
			}
		}
	}
	return s, nil
}
