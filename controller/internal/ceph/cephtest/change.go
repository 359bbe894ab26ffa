package cephtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// errnos of the monitors.
const (
	enoent = 2
	ebusy  = 16
	einval = 22
	empty  = 39
)

// act is a command with arguments.
type act = func(args []string) (answer any, errno int, said string)

// acts are the commands with arguments, by how they begin.
func (c *Cluster) acts() map[string]act {
	return map[string]act{
		"osd safe-to-destroy": c.safeToDestroy, "osd ok-to-stop": c.okToStop, "mon ok-to-rm": c.okToRemove, "mon rm": c.removeMonitor,
		"osd new": c.newOSD, "osd out": c.place(false), "osd in": c.place(true), "osd purge": c.purge, "osd crush rm": c.removeHost,
		"osd pool create": c.createPool, "osd pool set": c.setPool, "osd set-group": c.group(true), "osd unset-group": c.group(false),
		"osd require-osd-release": c.require, "mds fail": c.failServer, "config set": c.config, "config rm": c.configRm, "fs new": c.newFilesystem, "fs subvolumegroup ls": c.groups,
		"mgr module enable": c.module(true), "mgr module disable": c.module(false),
		"dashboard ac-user-show": c.onDashboard(c.showUsers), "dashboard ac-user-create": c.onDashboard(c.createUser), "dashboard ac-user-set-password": c.onDashboard(c.setPassword),
		"dashboard create-self-signed-cert": c.onDashboard(c.certificate), "config-key exists": c.keyExists,
		"auth": c.auth, "mon set auth_allowed_ciphers": c.ciphers, "osd blocklist add": c.block(true), "osd blocklist rm": c.block(false),
	}
}

// safeToDestroy never fails: the lists say what is not safe. An OSD that does not exist is safe. Nobody tells what is on one that is down, so it is safe once every
// placement group is clean without it.
func (c *Cluster) safeToDestroy(ids []string) (any, int, string) {
	lists := object{"safe_to_destroy": []int{}, "active": []int{}, "missing_stats": []int{}, "stored_pgs": []int{}}
	for _, id := range ids {
		n, err := strconv.Atoi(id)
		if err != nil {
			return nil, einval, "Error EINVAL: invalid osd id"
		}
		name := "safe_to_destroy"
		switch o := c.find(id); {
		case o == nil:
		case o.Up && o.Holds:
			name = "active"
		case !o.Up && !c.clean():
			name = "missing_stats"
		}
		lists[name] = append(lists[name].([]int), n)
	}
	return lists, 0, ""
}

// clean reports whether every placement group has all of its copies.
func (c *Cluster) clean() bool {
	for state := range c.Groups {
		words := strings.Split(state, "+")
		if !slices.Contains(words, "active") || !slices.Contains(words, "clean") {
			return false
		}
	}
	return true
}

func (c *Cluster) okToStop(ids []string) (any, int, string) {
	osds := []int{}
	for _, id := range ids {
		n, err := strconv.Atoi(id)
		if err != nil {
			return nil, einval, "Error EINVAL: invalid osd id"
		}
		if o := c.find(id); o != nil && o.Needed {
			return nil, ebusy, "Error EBUSY: unsafe to stop osd(s) at this time (1 PGs are or would become offline)"
		}
		osds = append(osds, n)
	}
	return object{"ok_to_stop": true, "osds": osds, "num_ok_pgs": 0, "num_not_ok_pgs": 0}, 0, ""
}

func (c *Cluster) okToRemove(args []string) (any, int, string) {
	in := 0
	for name, up := range c.Monitors {
		if up && name != args[0] {
			in++
		}
	}
	if _, there := c.Monitors[args[0]]; there && in <= (len(c.Monitors)-1)/2 {
		return nil, ebusy, "Error EBUSY: removing mon." + args[0] + " would break quorum"
	}
	return nil, 0, ""
}

func (c *Cluster) removeMonitor(args []string) (any, int, string) {
	delete(c.Monitors, args[0])
	return nil, 0, ""
}

// newOSD gives the lowest free number, and the same UUID its number again.
func (c *Cluster) newOSD(args []string) (any, int, string) {
	for _, o := range c.OSDs {
		if o.UUID == args[0] {
			return object{"osdid": o.ID}, 0, ""
		}
	}
	id := 0
	for c.find(fmt.Sprint(id)) != nil {
		id++
	}
	c.OSDs = append(c.OSDs, OSD{ID: id, UUID: args[0], New: true, In: true})
	slices.SortFunc(c.OSDs, func(a, b OSD) int { return a.ID - b.ID })
	return object{"osdid": id}, 0, ""
}

func (c *Cluster) place(in bool) act {
	return func(args []string) (any, int, string) {
		if o := c.find(args[0]); o != nil {
			o.In, o.AutoOut = in, false
		}
		return nil, 0, ""
	}
}

// purge asks only whether the OSD is down: it takes one with the last copy of something as well.
func (c *Cluster) purge(args []string) (any, int, string) {
	if !slices.Equal(args[1:], []string{"--yes-i-really-mean-it"}) {
		return nil, 1, "Error EPERM: are you SURE?"
	}
	if o := c.find(args[0]); o != nil && o.Up {
		return nil, ebusy, fmt.Sprintf("Error EBUSY: osd.%d is not `down`.", o.ID)
	}
	c.OSDs = slices.DeleteFunc(c.OSDs, func(o OSD) bool { return fmt.Sprint(o.ID) == args[0] })
	return nil, 0, ""
}

func (c *Cluster) removeHost(args []string) (any, int, string) {
	if slices.ContainsFunc(c.OSDs, func(o OSD) bool { return o.Host == args[0] }) {
		return nil, empty, "Error ENOTEMPTY: (39) Directory not empty"
	}
	c.Hosts = slices.DeleteFunc(c.Hosts, func(h string) bool { return h == args[0] })
	return nil, 0, ""
}

func (c *Cluster) createPool(args []string) (any, int, string) {
	if slices.ContainsFunc(c.Pools, func(p Pool) bool { return p.Name == args[0] }) {
		return nil, 0, "pool '" + args[0] + "' already exists"
	}
	p := Pool{Name: args[0]}
	for _, option := range args[1:] {
		size, sized := strings.CutPrefix(option, "--size=")
		switch {
		case sized:
			p.Size, _ = strconv.Atoi(size)
			p.MinSize = p.Size - p.Size/2
		case option == "--bulk":
			p.Bulk = true
		case option == "--yes-i-really-mean-it":
		default:
			return nil, einval, "Error EINVAL: invalid command"
		}
	}
	c.Pools = append(c.Pools, p)
	return nil, 0, "pool '" + p.Name + "' created"
}

func (c *Cluster) setPool(args []string) (any, int, string) {
	i := slices.IndexFunc(c.Pools, func(p Pool) bool { return p.Name == args[0] })
	if i < 0 {
		return nil, enoent, "Error ENOENT: unrecognized pool '" + args[0] + "'"
	}
	if c.Pools[i].word(args[1], args[2]) {
		return nil, 0, "set pool " + args[0]
	}
	value, err := strconv.Atoi(args[2])
	switch {
	case err != nil || value < 1:
		return nil, einval, "Error EINVAL: error parsing value"
	case args[1] == "size" && value == 1 && (!c.Single || len(args) < 4):
		return nil, 1, "Error EPERM: configuring pool size as 1 is disabled by default."
	case args[1] == "size":
		c.Pools[i].Size = value
		c.Pools[i].MinSize = value - value/2
	case args[1] == "pg_num":
		c.Pools[i].Groups = value
	case args[1] == "min_size" && value <= c.Pools[i].Size:
		c.Pools[i].MinSize = value
	default:
		return nil, einval, "Error EINVAL: pool min_size must be between 1 and size"
	}
	return nil, 0, "set pool " + args[0]
}

// word sets what is said in words, and reports whether it did.
func (p *Pool) word(name, value string) bool {
	switch {
	case name == "pg_autoscale_mode" && slices.Contains([]string{"on", "off", "warn"}, value):
		p.Scale = value
	case name == "bulk" && slices.Contains([]string{"true", "false"}, value):
		p.Bulk = value == "true"
	default:
		return false
	}
	return true
}

func (c *Cluster) group(set bool) act {
	return func(args []string) (any, int, string) {
		if !slices.Contains(c.Hosts, args[1]) || args[0] != "noout" {
			return nil, einval, "Error EINVAL: unable to parse osd id or crush node or device class"
		}
		c.NoOut[args[1]] = set
		return nil, 0, ""
	}
}

func (c *Cluster) require(args []string) (any, int, string) {
	if args[0] < c.Release {
		return nil, 1, "Error EPERM: require_osd_release cannot be lowered once it has been set"
	}
	c.Release = args[0]
	return nil, 0, ""
}

// config knows a few options.
func (c *Cluster) config(args []string) (any, int, string) {
	switch {
	case slices.Equal(args, []string{"global", "mon_allow_pool_size_one", "true"}):
		c.Single = true
	case len(args) == 3 && slices.Contains(known, args[1]):
		if c.Options == nil {
			c.Options = map[string]string{}
		}
		c.Options[args[0]+"."+args[1]] = args[2]
	default:
		return nil, einval, "Error EINVAL: unrecognized config option '" + strings.Join(args[1:min(2, len(args))], " ") + "'"
	}
	return nil, 0, ""
}
