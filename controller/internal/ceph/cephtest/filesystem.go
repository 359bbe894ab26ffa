package cephtest

import (
	"slices"
	"strings"
)

// Change changes the model while commands may be running beside.
func (c *Cluster) Change(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// known are the options that the model has, beside the one that pools with one copy need.
var known = []string{"bluestore_cache_size", "ms_async_op_threads", "mds_cache_memory_limit"}

// filesystems are those of the cluster.
func (c *Cluster) filesystems() any {
	if c.Volumes == nil || !c.Volumes.Served {
		return []object{}
	}
	return []object{{"name": Filesystem, "metadata_pool": "quarry-metadata", "metadata_pool_id": 2, "data_pool_ids": []int{3}, "data_pools": []string{DataPool}}}
}

// newFilesystem makes the filesystem over two pools that exist.
func (c *Cluster) newFilesystem(args []string) (any, int, string) {
	if len(args) != 3 {
		return nil, einval, "Error EINVAL: invalid command"
	}
	for _, pool := range args[1:] {
		if !slices.ContainsFunc(c.Pools, func(p Pool) bool { return p.Name == pool }) {
			return nil, enoent, "Error ENOENT: pool '" + pool + "' does not exist"
		}
	}
	if c.Volumes == nil {
		c.Volumes = NewVolumes()
		c.Volumes.Served, c.Volumes.Grouped = false, false
	}
	if c.Volumes.Served {
		return nil, 0, "filesystem '" + args[0] + "' already exists"
	}
	c.Volumes.Served = true
	return nil, 0, "new fs with metadata pool 2 and data pool 3"
}

// failServer has a metadata server begin anew. One that stands by serves in its place, if there is one.
func (c *Cluster) failServer(args []string) (any, int, string) {
	i := slices.Index(c.Servers, args[0])
	if i < 0 {
		return nil, enoent, "Error ENOENT: MDS named '" + args[0] + "' does not exist, or is not up"
	}
	c.Servers = append(slices.Delete(slices.Clone(c.Servers), i, i+1), args[0])
	return nil, 0, ""
}

// groups are those of the filesystem.
func (c *Cluster) groups(args []string) (any, int, string) {
	if c.Volumes == nil || !c.Volumes.Served || len(args) != 1 || args[0] != Filesystem {
		return nil, enoent, "Error ENOENT: FS '" + strings.Join(args, " ") + "' not found"
	}
	if !c.Volumes.Grouped {
		return []object{}, 0, ""
	}
	return []object{{"name": Group}}, 0, ""
}

// configRm never fails: an option that was not set has its default already.
func (c *Cluster) configRm(args []string) (any, int, string) {
	delete(c.Options, strings.Join(args, "."))
	return nil, 0, ""
}
