package cephtest

import (
	"cmp"
	"fmt"
	"strconv"
)

func (c *Cluster) createSnapshot(k call) (any, int, string) {
	v, errno, said := c.usable(k.names[0], "snap-create")
	if errno != 0 {
		return nil, errno, said
	}
	if _, there := v.Snapshots[k.names[1]]; !there {
		v.Snapshots[k.names[1]] = v.Bytes
	}
	return nil, 0, ""
}

// kept returns a volume of which snapshots can be seen: one that is removed, too.
func (c *Cluster) kept(name string) (*Subvolume, int, string) {
	if v := c.Volumes.All[name]; v != nil && v.Retained {
		return v, 0, ""
	}
	return c.usable(name, "snap-list")
}

func (c *Cluster) listSnapshots(k call) (any, int, string) {
	v, errno, said := c.kept(k.names[0])
	if errno != 0 {
		return nil, errno, said
	}
	return entries(v.Snapshots), 0, ""
}

// snapshot returns a volume that has a snapshot.
func (c *Cluster) snapshot(of, name string) (*Subvolume, int, string) {
	v, errno, said := c.kept(of)
	if errno != 0 {
		return nil, errno, said
	}
	if _, there := v.Snapshots[name]; !there {
		return nil, enoent, "Error ENOENT: snapshot '" + name + "' does not exist"
	}
	return v, 0, ""
}

// pending are the copies that are being made of a snapshot.
func (c *Cluster) pending(of, name string) []object {
	var out []object
	for target, v := range c.Volumes.All {
		if v.Source == [2]string{of, name} && (v.State == "pending" || v.State == "in-progress") {
			out = append(out, object{"name": target, "target_group": Group})
		}
	}
	return out
}

func (c *Cluster) snapshotInfo(k call) (any, int, string) {
	if _, errno, said := c.snapshot(k.names[0], k.names[1]); errno != 0 {
		return nil, errno, said
	}
	out := object{"created_at": made.Format(timeForm) + ".491293", "has_pending_clones": "no"}
	if list := c.pending(k.names[0], k.names[1]); len(list) > 0 {
		out["has_pending_clones"], out["pending_clones"] = "yes", list
	}
	return out, 0, ""
}

// removeSnapshot removes a removed volume with its last snapshot.
func (c *Cluster) removeSnapshot(k call) (any, int, string) {
	v, errno, said := c.snapshot(k.names[0], k.names[1])
	if errno != 0 {
		return nil, errno, said
	}
	if len(c.pending(k.names[0], k.names[1])) > 0 {
		return nil, eagain, "Error EAGAIN: snapshot '" + k.names[1] + "' has pending clones"
	}
	delete(v.Snapshots, k.names[1])
	if v.Retained && len(v.Snapshots) == 0 {
		delete(c.Volumes.All, k.names[0])
	}
	return nil, 0, ""
}

func (v *Subvolume) source() object {
	return object{"volume": Filesystem, "subvolume": v.Source[0], "snapshot": v.Source[1], "group": Group}
}

func (c *Cluster) clone(k call) (any, int, string) {
	of, errno, said := c.snapshot(k.names[0], k.names[1])
	if errno != 0 {
		return nil, errno, said
	}
	target := k.names[2]
	if k.options["target_group_name"] != Group {
		return nil, einval, "Error EINVAL: the model has one group"
	}
	if c.Volumes.All[target] != nil {
		return nil, eexist, "Error EEXIST: subvolume '" + target + "' exists"
	}
	v := c.put(target, of.Snapshots[k.names[1]])
	v.Used = of.Used
	v.State, v.Source, v.left = "pending", [2]string{k.names[0], k.names[1]}, c.Volumes.Looks
	return nil, 0, ""
}

func (c *Cluster) cloneStatus(k call) (any, int, string) {
	v := c.Volumes.All[k.names[0]]
	switch {
	case v == nil:
		return nil, enoent, "Error ENOENT: subvolume '" + k.names[0] + "' does not exist"
	case v.State == "":
		return nil, enotsup, fmt.Sprintf("Error ENOTSUP: operation 'clone-status' is not allowed on subvolume '%s' of type subvolume", k.names[0])
	}
	status := object{"state": v.State}
	if v.State != "complete" {
		status["source"] = v.source()
	}
	if v.State == "canceled" || v.State == "failed" {
		status["failure"] = object{"errno": strconv.Itoa(cmp.Or(v.Errno, eintr)), "error_msg": "user interrupted clone operation"}
	}
	return object{"status": status}, 0, ""
}

func (c *Cluster) cloneCancel(k call) (any, int, string) {
	v := c.Volumes.All[k.names[0]]
	switch {
	case v == nil:
		return nil, enoent, "Error ENOENT: subvolume '" + k.names[0] + "' does not exist"
	case v.State != "pending" && v.State != "in-progress":
		return nil, einval, "Error EINVAL: cannot cancel -- clone finished (check clone status)"
	}
	v.State = "canceled"
	return nil, 0, ""
}
