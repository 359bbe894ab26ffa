package ceph

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/pkg/osd"
)

// osdDump is the answer to osd dump.
type osdDump struct {
	FSID              string              `json:"fsid"`
	FlagsSet          []string            `json:"flags_set"`
	CrushNodeFlags    map[string][]string `json:"crush_node_flags"`
	RequireOSDRelease string              `json:"require_osd_release"`
	OSDs              []struct {
		OSD   *int     `json:"osd"`
		UUID  string   `json:"uuid"`
		Up    *int     `json:"up"`
		In    *int     `json:"in"`
		State []string `json:"state"`
	} `json:"osds"`
	Pools []struct {
		PoolName string `json:"pool_name"`
		Size     int    `json:"size"`
		MinSize  int    `json:"min_size"`
		Target   int    `json:"pg_num_target"`
		Scale    string `json:"pg_autoscale_mode"`
		Rule     *int   `json:"crush_rule"`
		Flags    string `json:"flags_names"`
	} `json:"pools"`
}

// states reads the state of placement groups: words that are joined by plus signs.
func states(name string) (active, clean bool) {
	words := strings.Split(name, "+")
	active = slices.Contains(words, "active") && !slices.Contains(words, "stale")
	clean = active && slices.Contains(words, "clean") && !slices.ContainsFunc(words, func(w string) bool { return slices.Contains(moving, w) || slices.Contains(lacking, w) })
	return active, clean
}

// moving are words for placement groups whose copies are not where they belong.
var moving = []string{"remapped", "backfilling", "backfill_wait", "backfill_toofull", "recovering", "recovery_wait", "recovery_toofull"}

// lacking are words for placement groups that lack copies, have damaged ones, or whose copies nobody knows.
var lacking = []string{"degraded", "undersized", "unknown", "inconsistent", "failed_repair", "recovery_unfound", "backfill_unfound"}

// short reports whether placement groups in a state lack good copies, or may lack some. Those that only move have all of them.
func short(name string) bool {
	active, _ := states(name)
	return !active || slices.ContainsFunc(strings.Split(name, "+"), func(w string) bool { return slices.Contains(lacking, w) })
}

// undersized reports whether placement groups in a state serve, lack copies for want of a place, and are otherwise as they are to be.
func undersized(name string) bool {
	words := strings.Split(name, "+")
	return slices.Contains(words, "active") && slices.Contains(words, "undersized") && !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains([]string{"active", "undersized", "degraded"}, w) })
}

// major is the major version of a release by its name: the releases have the letters of the alphabet, and tentacle is 20.
func major(name string) (int, error) {
	if name == "" || name[0] < 'a' || name[0] > 'z' {
		return 0, fmt.Errorf("%q is no release of Ceph", name)
	}
	return int(name[0]-'a') + 1, nil
}

// dump reads the map of the OSDs.
func (c *Client) dump(ctx context.Context) (ceph.Map, error) {
	d, err := c.dumped(ctx)
	if err != nil {
		return ceph.Map{}, err
	}
	return d.parse()
}

// dumped reads what osd dump prints.
func (c *Client) dumped(ctx context.Context) (d osdDump, err error) {
	if err := c.ask(ctx, &d, "osd", "dump"); err != nil {
		return d, err
	}
	return d, c.check(d.FSID)
}

// parse makes a map of it.
func (d osdDump) parse() (ceph.Map, error) {
	release, err := major(d.RequireOSDRelease)
	if err != nil {
		return ceph.Map{}, fmt.Errorf("osd dump: require_osd_release: %w", err)
	}
	if d.OSDs == nil || d.Pools == nil {
		// Of an OSD that is not told of nobody may think that it was forgotten.
		return ceph.Map{}, fmt.Errorf("osd dump does not tell of OSDs or pools")
	}
	m := ceph.Map{Flags: flags(d.FlagsSet), HostFlags: d.CrushNodeFlags, RequireRelease: release, Groups: map[string]ceph.PoolGroups{}, Domains: map[string]string{}}
	if err := d.pools(&m); err != nil {
		return ceph.Map{}, err
	}
	for _, o := range d.OSDs {
		// "ceph osd destroy" takes the UUID away, and keeps the number.
		destroyed := slices.Contains(o.State, "destroyed")
		if destroyed {
			o.UUID = ""
		}
		if o.OSD == nil || o.Up == nil || o.In == nil || !osd.ValidUUID(o.UUID) && !destroyed || !slices.Contains(o.State, "exists") {
			return ceph.Map{}, fmt.Errorf("osd dump: OSD with UUID %q and state %q", o.UUID, o.State)
		}
		m.OSDs = append(m.OSDs, ceph.OSD{ID: *o.OSD, UUID: o.UUID, Up: *o.Up == 1, In: *o.In == 1, New: slices.Contains(o.State, "new"), AutoOut: slices.Contains(o.State, "autoout")})
	}
	return m, nil
}

// pools takes the pools over, and the numbers of placement groups where they are told.
func (d osdDump) pools(m *ceph.Map) error {
	for _, p := range d.Pools {
		if p.PoolName == "" || p.Size < 1 || p.MinSize < 1 {
			return fmt.Errorf("osd dump: pool %+v", p)
		}
		m.Pools = append(m.Pools, ceph.Pool{Name: p.PoolName, Size: p.Size, MinSize: p.MinSize})
		if p.Target > 0 && p.Scale != "" {
			m.Groups[p.PoolName] = ceph.PoolGroups{Count: p.Target, Scale: p.Scale}
		}
		if slices.Contains(strings.Split(p.Flags, ","), "bulk") {
			m.Bulk = append(m.Bulk, p.PoolName)
		}
	}
	return nil
}

// tree reads where the OSDs are. One that never ran is nowhere.
func (c *Client) tree(ctx context.Context, m *ceph.Map) error {
	var t struct {
		Nodes []struct {
			Name     string `json:"name"`
			Type     string `json:"type"`
			Children []int  `json:"children"`
		} `json:"nodes"`
	}
	if err := c.ask(ctx, &t, "osd", "tree"); err != nil {
		return err
	}
	for _, n := range t.Nodes {
		if n.Type != "host" {
			continue
		}
		m.Hosts = append(m.Hosts, n.Name)
		for i := range m.OSDs {
			if slices.Contains(n.Children, m.OSDs[i].ID) {
				m.OSDs[i].Host = n.Name
			}
		}
	}
	slices.Sort(m.Hosts)
	return nil
}

// usage reads how full the OSDs are.
func (c *Client) usage(ctx context.Context, m *ceph.Map) error {
	var d struct {
		Nodes []struct {
			ID     int   `json:"id"`
			KB     int64 `json:"kb"`
			KBUsed int64 `json:"kb_used"`
		} `json:"nodes"`
	}
	if err := c.ask(ctx, &d, "osd", "df"); err != nil {
		return err
	}
	for _, n := range d.Nodes {
		for i := range m.OSDs {
			if m.OSDs[i].ID == n.ID {
				m.OSDs[i].TotalBytes, m.OSDs[i].UsedBytes = n.KB<<10, n.KBUsed<<10
			}
		}
	}
	return nil
}

// safety asks of each OSD that is out whether it may be destroyed, and of some whether they may be stopped. Ceph calls an OSD safe that it does not
// know, so only those of the map are asked about.
func (c *Client) safety(ctx context.Context, m *ceph.Map, stopping []int) error {
	var failed error
	for i := range m.OSDs {
		o, err := &m.OSDs[i], error(nil)
		if !o.In {
			o.SafeToDestroy, err = c.safeToDestroy(ctx, o.ID)
			failed = errors.Join(failed, err)
		}
		if slices.Contains(stopping, o.ID) {
			o.OKToStop, err = c.okToStop(ctx, o.ID)
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// safeToDestroy asks about one OSD. The command ends with exit code 0 even if the OSD is not safe to destroy: the lists say so.
func (c *Client) safeToDestroy(ctx context.Context, id int) (ceph.Answer, error) {
	var s struct {
		Safe    []int  `json:"safe_to_destroy"`
		Active  *[]int `json:"active"`
		Missing *[]int `json:"missing_stats"`
		Stored  *[]int `json:"stored_pgs"`
	}
	switch err := c.ask(ctx, &s, "osd", "safe-to-destroy", strconv.Itoa(id)); {
	case errors.Is(err, ErrUnsafe):
		return ceph.No, nil
	case err != nil:
		return ceph.Unknown, err
	case s.Active == nil || s.Missing == nil || s.Stored == nil:
		return ceph.Unknown, fmt.Errorf("osd safe-to-destroy does not say why OSDs are not safe")
	}
	if slices.Equal(s.Safe, []int{id}) && len(*s.Active)+len(*s.Missing)+len(*s.Stored) == 0 {
		return ceph.Yes, nil
	}
	return ceph.No, nil
}

// Rest asks, host by host, whether all of its OSDs that run may be stopped at once, until one may. About those that were not asked, and one of which it cannot be told, nothing is in the answer.
func (c *Client) Rest(ctx context.Context, m ceph.Map, hosts ...string) (map[string]ceph.Answer, error) {
	out, failed := map[string]ceph.Answer{}, error(nil)
	for _, h := range hosts {
		var ids []int
		for _, o := range m.OSDs {
			if o.Host == h && o.Up {
				ids = append(ids, o.ID)
			}
		}
		if len(ids) == 0 {
			continue
		}
		answer, err := c.okToStop(ctx, ids...)
		if failed = errors.Join(failed, err); err == nil {
			out[h] = answer
		}
		if answer == ceph.Yes || ctx.Err() != nil {
			break
		}
	}
	return out, failed
}

// okToStop asks about one OSD, or about some together.
func (c *Client) okToStop(ctx context.Context, ids ...int) (ceph.Answer, error) {
	args := []string{"osd", "ok-to-stop"}
	for _, id := range ids {
		args = append(args, strconv.Itoa(id))
	}
	var s struct {
		OK   *bool `json:"ok_to_stop"`
		OSDs []int `json:"osds"`
	}
	switch err := c.ask(ctx, &s, args...); {
	case errors.Is(err, ErrUnsafe):
		return ceph.No, nil
	case err != nil:
		return ceph.Unknown, err
	case s.OK == nil:
		return ceph.Unknown, fmt.Errorf("osd ok-to-stop has no answer")
	}
	ids = slices.Sorted(slices.Values(ids))
	slices.Sort(s.OSDs)
	if *s.OK && slices.Equal(s.OSDs, ids) {
		return ceph.Yes, nil
	}
	return ceph.No, nil
}

// flags are those that are set, by the names by which they are set. Ceph sets two for "pause", and takes neither name in a command.
func flags(set []string) []string {
	var out []string
	for _, f := range set {
		if f == "pauserd" || f == "pausewr" {
			f = "pause"
		}
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}
