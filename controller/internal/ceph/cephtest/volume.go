package cephtest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Names in clusters with a filesystem.
const (
	Filesystem = "quarry"
	Group      = "quarry"
)

// Volumes is the filesystem of a cluster. The model serves it if Served is true, the group exists, and a metadata server runs.
type Volumes struct {
	// Served: the filesystem exists. Grouped: the group does.
	Served, Grouped bool
	// All subvolumes, by name.
	All map[string]*Subvolume
	// Looks is how many commands pass until a copy that was begun is whole.
	Looks int
	// AvailableBytes is the room of the pool.
	AvailableBytes int64
	made           int
}

// Subvolume is one of the group.
type Subvolume struct {
	Path string
	// Bytes of its quota, none if 0, and how many are in it.
	Bytes, Used int64
	// Retained: it was removed, and its snapshots are left.
	Retained bool
	// Snapshots by name, with the quota that the volume had then.
	Snapshots map[string]int64
	// Source is what it is a copy of, and State what Ceph calls it; empty for what is no copy.
	Source [2]string
	State  string
	left   int
	// Errno is why a copy failed; EINTR unless it is set.
	Errno int
}

// NewVolumes makes a filesystem with an empty group, and 100 GiB of room.
func NewVolumes() *Volumes {
	return &Volumes{Served: true, Grouped: true, All: map[string]*Subvolume{}, AvailableBytes: 100 << 30}
}

const (
	eintr   = 4
	eagain  = 11
	eexist  = 17
	enotsup = 95
)

// made is the time of everything that the model makes.
var made = time.Date(2026, 11, 24, 17, 43, 52, 0, time.UTC)

const timeForm = "2006-01-02 15:04:05"

// volumeActs are the commands of the filesystem, by how they begin.
func (c *Cluster) volumeActs() map[string]act {
	return map[string]act{
		"fs subvolumegroup create": c.createGroup, "fs subvolume ls": c.onVolumes(0, c.listVolumes), "fs subvolume create": c.onVolumes(1, c.createVolume),
		"fs subvolume info": c.onVolumes(1, c.volumeInfo), "fs subvolume resize": c.onVolumes(2, c.resizeVolume), "fs subvolume rm": c.onVolumes(1, c.removeVolume),
		"fs subvolume snapshot create": c.onVolumes(2, c.createSnapshot), "fs subvolume snapshot ls": c.onVolumes(1, c.listSnapshots),
		"fs subvolume snapshot info": c.onVolumes(2, c.snapshotInfo), "fs subvolume snapshot rm": c.onVolumes(2, c.removeSnapshot),
		"fs subvolume snapshot clone": c.onVolumes(3, c.clone), "fs clone status": c.onVolumes(1, c.cloneStatus), "fs clone cancel": c.onVolumes(1, c.cloneCancel),
	}
}

// call is a command on the group.
type call struct {
	names   []string
	options map[string]string
	force   bool
	retain  bool
}

// onVolumes reads the arguments of a command that names the filesystem, some things in it, and options. What is missing is ENOENT, whatever it is.
func (c *Cluster) onVolumes(names int, do func(call) (any, int, string)) act {
	return func(args []string) (any, int, string) {
		k := call{options: map[string]string{}}
		var plain []string
		for i := 0; i < len(args); i++ {
			name, option := strings.CutPrefix(args[i], "--")
			switch {
			case !option:
				plain = append(plain, args[i])
			case name == "force":
				k.force = true
			case name == "retain-snapshots":
				k.retain = true
			case name == "no_shrink":
			case i+1 < len(args):
				i++
				k.options[name] = args[i]
			}
		}
		switch {
		case len(plain) != names+1:
			return nil, einval, "Error EINVAL: invalid command"
		case !c.Volumes.Served || plain[0] != Filesystem:
			return nil, enoent, "Error ENOENT: FS '" + plain[0] + "' not found"
		case !c.Volumes.Grouped || k.options["group_name"] != Group:
			return nil, enoent, "Error ENOENT: subvolume group '" + k.options["group_name"] + "' does not exist"
		}
		c.pass()
		k.names = plain[1:]
		return do(k)
	}
}

// pass lets copies go on.
func (c *Cluster) pass() {
	for _, v := range c.Volumes.All {
		if v.State != "pending" && v.State != "in-progress" {
			continue
		}
		if v.State = "in-progress"; v.left <= 0 {
			v.State = "complete"
		}
		v.left--
	}
}

func (c *Cluster) createGroup(args []string) (any, int, string) {
	if len(args) != 2 || !c.Volumes.Served || args[0] != Filesystem {
		return nil, enoent, "Error ENOENT: FS '" + args[0] + "' not found"
	}
	c.Volumes.Grouped = true
	return nil, 0, ""
}

func (c *Cluster) listVolumes(call) (any, int, string) { return entries(c.Volumes.All), 0, "" }

// entries are names as Ceph lists them.
func entries[V any](m map[string]V) []object {
	out := []object{}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, object{"name": name})
	}
	return out
}

// usable returns a volume, or why a command cannot work on it.
func (c *Cluster) usable(name, command string) (*Subvolume, int, string) {
	v := c.Volumes.All[name]
	switch {
	case v == nil:
		return nil, enoent, "Error ENOENT: subvolume '" + name + "' does not exist"
	case v.Retained:
		return nil, enoent, "Error ENOENT: subvolume \"" + name + "\" is removed and has only snapshots retained"
	case v.State != "" && v.State != "complete":
		return nil, eagain, fmt.Sprintf("Error EAGAIN: subvolume %q is not ready for operation %q", name, command)
	}
	return v, 0, ""
}

// put makes a volume, or a new one beside what is left of a removed one.
func (c *Cluster) put(name string, bytes int64) *Subvolume {
	c.Volumes.made++
	v := c.Volumes.All[name]
	if v == nil {
		v = &Subvolume{Snapshots: map[string]int64{}}
		c.Volumes.All[name] = v
	}
	v.Path = fmt.Sprintf("/volumes/%s/%s/cccccccc-bbbb-4ccc-8ddd-%012d", Group, name, c.Volumes.made)
	v.Bytes, v.Retained = bytes, false
	return v
}

// createVolume sets the quota of one that exists anew.
func (c *Cluster) createVolume(k call) (any, int, string) {
	bytes, err := strconv.ParseInt(k.options["size"], 10, 64)
	if err != nil || k.options["mode"] != "0770" {
		return nil, einval, "Error EINVAL: invalid command"
	}
	name := k.names[0]
	if v := c.Volumes.All[name]; v != nil && !v.Retained {
		if _, errno, said := c.usable(name, "create"); errno != 0 {
			return nil, errno, said
		}
		v.Bytes = bytes
		return nil, 0, ""
	}
	c.put(name, bytes)
	return nil, 0, ""
}

func (c *Cluster) volumeInfo(k call) (any, int, string) {
	if v := c.Volumes.All[k.names[0]]; v != nil && v.Retained {
		return object{"state": "snapshot-retained", "type": "subvolume"}, 0, ""
	}
	v, errno, said := c.usable(k.names[0], "info")
	if errno != 0 {
		return nil, errno, said
	}
	out := object{"state": "complete", "type": "subvolume", "path": v.Path, "bytes_quota": v.quota(), "bytes_used": v.Used, "created_at": made.Format(timeForm)}
	if v.State != "" {
		out["type"], out["source"] = "clone", v.source()
	}
	return out, 0, ""
}

// quota is how Ceph prints it.
func (v *Subvolume) quota() any {
	if v.Bytes == 0 {
		return "infinite"
	}
	return v.Bytes
}

// resizeVolume makes a volume smaller as well, whatever --no_shrink says: that is about what is in use.
func (c *Cluster) resizeVolume(k call) (any, int, string) {
	v, errno, said := c.usable(k.names[0], "resize")
	if errno != 0 {
		return nil, errno, said
	}
	bytes, err := strconv.ParseInt(k.names[1], 10, 64)
	if err != nil || bytes <= 0 {
		return nil, einval, "Error EINVAL: invalid size option"
	}
	v.Bytes = bytes
	return []object{{"bytes_used": v.Used}, {"bytes_quota": bytes}}, 0, ""
}

func (c *Cluster) removeVolume(k call) (any, int, string) {
	name := k.names[0]
	v := c.Volumes.All[name]
	switch {
	case v == nil:
		return nil, enoent, "Error ENOENT: subvolume '" + name + "' does not exist"
	case v.State == "pending" || v.State == "in-progress", v.State != "" && v.State != "complete" && !k.force:
		return nil, eagain, fmt.Sprintf("Error EAGAIN: subvolume %q is not ready for operation \"rm\"", name)
	case len(v.Snapshots) > 0 && !k.retain:
		return nil, empty, "Error ENOTEMPTY: subvolume '" + name + "' has snapshots"
	case len(v.Snapshots) > 0:
		v.Retained, v.State, v.Source = true, "", [2]string{}
	default:
		delete(c.Volumes.All, name)
	}
	return nil, 0, ""
}
