package cephtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// object is one of JSON.
type object = map[string]any

// reads are the commands that change nothing and have no arguments.
func (c *Cluster) reads() map[string]func() any {
	return map[string]func() any{
		"df": c.df, "osd blocklist ls": c.blocklist, "quorum_status": c.quorumStatus, "status": c.status, "osd dump": c.osdDump, "osd tree": c.osdTree, "osd df": c.osdDF, "osd crush rule dump": c.rules, "mgr dump": c.mgrDump, "fs dump": c.fsDump, "fs ls": c.filesystems,
		"mon metadata": func() any { return c.named("mon", slices.Sorted(maps.Keys(c.Monitors))) },
		"mgr metadata": func() any { return c.named("mgr", c.Managers) },
		"mds metadata": func() any { return c.named("mds", c.Servers) },
		"osd metadata": c.osdMetadata,
	}
}

// version is the one that a daemon told when it started.
func (c *Cluster) version(daemon string) string {
	if v := c.Versions[daemon]; v != "" {
		return v
	}
	return Version
}

func (c *Cluster) named(kind string, names []string) any {
	out := []object{}
	for _, n := range names {
		out = append(out, object{"name": n, "ceph_version_short": c.version(kind + "." + n), "ceph_release": "tentacle"})
	}
	return out
}

// osdMetadata has no version of an OSD that never ran.
func (c *Cluster) osdMetadata() any {
	out := []object{}
	for _, o := range c.OSDs {
		m := object{"id": o.ID}
		if !o.New {
			m["ceph_version_short"], m["ceph_release"] = c.version(fmt.Sprintf("osd.%d", o.ID)), "tentacle"
		}
		out = append(out, m)
	}
	return out
}

func (c *Cluster) quorumStatus() any {
	names, mons := []string{}, []object{}
	for _, name := range slices.Sorted(maps.Keys(c.Monitors)) {
		m := object{"name": name, "rank": len(mons)}
		if at := c.Addresses[name]; at != "" {
			m["public_addrs"] = object{"addrvec": []object{{"type": "v2", "addr": at + ":3300", "nonce": 0}}}
		}
		mons = append(mons, m)
		if c.Monitors[name] {
			names = append(names, name)
		}
	}
	return object{"quorum_names": names, "monmap": object{"fsid": c.FSID, "min_mon_release": 20, "mons": mons}}
}

func (c *Cluster) status() any {
	states, total := []object{}, 0
	for _, name := range slices.Sorted(maps.Keys(c.Groups)) {
		states = append(states, object{"state_name": name, "count": c.Groups[name]})
		total += c.Groups[name]
	}
	groups := object{"num_pgs": total, "pgs_by_state": states}
	if c.Degraded > 0 {
		groups["degraded_objects"] = c.Degraded
	}
	if c.Misplaced > 0 {
		groups["misplaced_objects"] = c.Misplaced
	}
	if c.Recovering > 0 {
		groups["recovering_objects_per_sec"] = c.Recovering
	}
	return object{"fsid": c.FSID, "health": c.health(), "pgmap": groups, "mgrmap": object{"available": len(c.Managers) > 0}}
}

// health warns of what Ceph itself calls insecure: the kind of key that kernels before 7.0 know.
func (c *Cluster) health() object {
	if !c.AES || c.Health != "HEALTH_OK" {
		return object{"status": c.Health}
	}
	check := func(message string) object {
		return object{"severity": "HEALTH_WARN", "summary": object{"message": message, "count": 1}, "muted": false}
	}
	return object{"status": "HEALTH_WARN", "checks": object{
		"AUTH_INSECURE_KEYS_ALLOWED":   check("Monitors are configured to allow auth using insecure key types"),
		"AUTH_INSECURE_KEYS_CREATABLE": check("Monitors are configured to allow creation of insecure key types"),
	}}
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (c *Cluster) osdDump() any {
	osds, pools, nodes := []object{}, []object{}, object{}
	for _, o := range c.OSDs {
		state := []string{"exists"}
		if o.New {
			state = append(state, "new")
		}
		if o.Up {
			state = append(state, "up")
		}
		if o.AutoOut {
			state = append(state, "autoout")
		}
		uuid := o.UUID
		if o.Destroyed {
			uuid, state = "00000000-0000-0000-0000-000000000000", append(state, "destroyed")
		}
		osds = append(osds, object{"osd": o.ID, "uuid": uuid, "up": number(o.Up), "in": number(o.In), "state": state})
	}
	for _, p := range c.Pools {
		names := "hashpspool"
		if p.Bulk {
			names += ",bulk"
		}
		pools = append(pools, object{"pool_name": p.Name, "flags_names": names, "size": p.Size, "min_size": p.MinSize, "crush_rule": number(p.Domain == "osd"), "pg_num_target": max(1, p.Groups), "pg_autoscale_mode": cmp.Or(p.Scale, "on")})
	}
	for host, set := range c.NoOut {
		if set {
			nodes[host] = []string{"noout"}
		}
	}
	flags := append([]string{"sortbitwise"}, c.Flags...)
	return object{"fsid": c.FSID, "flags_set": flags, "crush_node_flags": nodes, "require_osd_release": c.Release, "osds": osds, "pools": pools}
}

// osdTree has an OSD that never ran outside of the tree.
func (c *Cluster) osdTree() any {
	nodes, stray, root := []object{}, []object{}, []int{}
	for i, host := range c.Hosts {
		children := []int{}
		for _, o := range c.OSDs {
			if o.Host == host {
				children = append(children, o.ID)
			}
		}
		root = append(root, -2-i)
		nodes = append(nodes, object{"id": -2 - i, "name": host, "type": "host", "children": children})
	}
	for _, o := range c.OSDs {
		status := map[bool]string{true: "up", false: "down"}[o.Up]
		n := object{"id": o.ID, "name": fmt.Sprintf("osd.%d", o.ID), "type": "osd", "status": status}
		if o.Host == "" {
			stray = append(stray, n)
		} else {
			nodes = append(nodes, n)
		}
	}
	nodes = append([]object{{"id": -1, "name": "default", "type": "root", "children": root}}, nodes...)
	return object{"nodes": nodes, "stray": stray}
}

// rules are the one of the pools, and one by which copies share a host.
func (c *Cluster) rules() any {
	rule := func(id int, name, op, kind string) object {
		return object{"rule_id": id, "rule_name": name, "type": 1, "steps": []object{
			{"op": "take", "item": -1, "item_name": "default"}, {"op": op, "num": 0, "type": kind}, {"op": "emit"},
		}}
	}
	return []object{rule(0, "replicated_rule", "chooseleaf_firstn", "host"), rule(1, "disks", "choose_firstn", "osd")}
}

func (c *Cluster) osdDF() any {
	nodes := []object{}
	for _, o := range c.OSDs {
		nodes = append(nodes, object{"id": o.ID, "kb": o.KB, "kb_used": o.Used})
	}
	return object{"nodes": nodes}
}

func (c *Cluster) mgrDump() any {
	standbys, name, has := []object{}, "", []object{}
	for _, m := range c.modules() {
		has = append(has, object{"name": m, "can_run": true})
	}
	for i, m := range c.Managers {
		if i == 0 {
			name = m
		} else {
			standbys = append(standbys, object{"name": m, "available_modules": has})
		}
	}
	out := object{"available": name != "", "active_name": name, "standbys": standbys, "services": c.services()}
	if name != "" {
		out["available_modules"] = has
	}
	return out
}

func (c *Cluster) fsDump() any {
	standbys, filesystems := []object{}, []object{}
	for i, s := range c.Servers {
		if i > 0 {
			standbys = append(standbys, object{"name": s, "state": "up:standby"})
			continue
		}
		info := object{"gid_1": object{"name": s, "state": "up:active"}}
		filesystems = append(filesystems, object{"mdsmap": object{"info": info}})
	}
	return object{"standbys": standbys, "filesystems": filesystems}
}
