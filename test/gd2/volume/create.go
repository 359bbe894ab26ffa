package volume

import (
	"maps"
	"strconv"

	"quarry.storage/quarry/test/gd2/cluster"
	"quarry.storage/quarry/test/gd2/option"
)

// Create makes a volume.
func Create(c *cluster.Call, r CreateRequest) (cluster.Volume, *cluster.Failure) {
	if f := r.check(); f != nil {
		return cluster.Volume{}, f
	}
	if r.Provisioner == "" {
		r.Provisioner = "lvm"
	}
	if f := place(c, &r); f != nil {
		return cluster.Volume{}, f
	}
	// Groups of options are in the store.
	if f := c.Read(); f != nil {
		return cluster.Volume{}, f
	}
	if f := options(&r); f != nil {
		return cluster.Volume{}, f
	}
	peers, f := peersOf(r.bricks())
	if f != nil {
		return cluster.Volume{}, f
	}
	unlock, f := c.Lock(r.Name)
	if f != nil {
		return cluster.Volume{}, f
	}
	defer unlock()
	if c.C.Volumes[r.Name] != nil {
		return cluster.Volume{}, cluster.Fail(400, "volume already exists")
	}
	c.Settle()
	if f := together(c, peers); f != nil {
		return cluster.Volume{}, f
	}
	if f := makeBricks(c, r.bricks()); f != nil {
		return cluster.Volume{}, f
	}
	v, f := layout(c, &r)
	if f == nil {
		f = takeDirectories(c, v.Bricks(), checks(r.Force, r.Flags), r.Size == 0)
	}
	if f != nil {
		dropBricks(c, r.bricks())
		return cluster.Volume{}, f
	}
	c.C.Volumes[v.Name] = v
	event(c, "created", v)
	return show(v), nil
}

// place chooses bricks for a volume by size, and otherwise checks those that are given.
func place(c *cluster.Call, r *CreateRequest) *cluster.Failure {
	if r.Size == 0 {
		return distinct(r.bricks())
	}
	if r.Reserve == 0 || !r.Snapshot {
		r.Reserve = 1
	}
	if r.Reserve < 1 {
		return cluster.Fail(400, "invalid snapshot reserve factor")
	}
	return plan(c, r)
}

// options checks the options of a request and adds those that every volume gets.
func options(r *CreateRequest) *cluster.Failure {
	given := r.Options
	r.Options = map[string]string{}
	for k, v := range given {
		if err := option.Check(k, v, r.flags()); err != nil {
			return cluster.Fail(400, "%s", err)
		}
		r.Options[k] = v
	}
	if len(r.Subvols) == 0 {
		return nil
	}
	first := r.Subvols[0]
	defaults := map[string]string{}
	for _, m := range option.Defaults(first.Type) {
		// Only the spelling of the default counts as given. In another one, the default overwrites it.
		if _, ok := given[m.Name]; !ok {
			defaults[m.Name] = m.OnValue
		}
	}
	if first.Arbiter > 0 {
		defaults["replicate.arbiter-count"] = strconv.Itoa(first.Arbiter)
	}
	out := normal(r.Options)
	maps.Copy(out, normal(defaults))
	r.Options = out
	return nil
}

func normal(m map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		out[option.Normal(k)] = v
	}
	return out
}
