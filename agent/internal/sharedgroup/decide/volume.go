package decide

import (
	"fmt"
	"slices"
	"strconv"

	"quarry.storage/quarry/pkg/sharedlun"
)

// find is the volume that is meant. One that has its name, and another UUID, is not there for the caller.
func find(g sharedlun.Group, name, uuid string) (sharedlun.Volume, error) {
	v, err := named(g, name, uuid)
	if err == nil && v == nil {
		err = fmt.Errorf("volume %s (%s) in group %s: %w", name, uuid, g.Name, sharedlun.ErrNotFound)
	}
	if err != nil {
		return sharedlun.Volume{}, err
	}
	return *v, nil
}

// named is the volume that is meant; nil when there is none of the name. Another one of the name is an error.
func named(g sharedlun.Group, name, uuid string) (*sharedlun.Volume, error) {
	v := g.Volume(name)
	if v != nil && v.UUID != uuid {
		return nil, fmt.Errorf("volume %s: %w, with the UUID %s, not %s", name, sharedlun.ErrExists, v.UUID, uuid)
	}
	return v, nil
}

func create(g sharedlun.Group, c sharedlun.Create) (Step, error) {
	size, err := whole(g, c.SizeBytes)
	if err != nil {
		return nil, err
	}
	tags := slices.Compact(slices.Sorted(slices.Values(c.Tags)))
	v := g.Volume(c.Name)
	switch {
	case v == nil && size > g.FreeBytes:
		return nil, noRoom(g, size)
	case v == nil:
		marks, err := copyMarks(g, c, size)
		if err != nil {
			return nil, err
		}
		if c.HeldBy != "" {
			marks = append(marks, sharedlun.TagHeldBy+c.HeldBy)
		}
		return MakeVolume{Name: c.Name, SizeBytes: size, Tags: append(tags, marks...)}, nil
	case v.Origin != c.Origin || v.Snapshot != c.Snapshot:
		return nil, fmt.Errorf("volume %s: %w, as a copy of %q, snapshot %t", c.Name, sharedlun.ErrExists, v.Origin.Name, v.Snapshot)
	case v.SizeBytes != size:
		return nil, fmt.Errorf("volume %s: %w, with %d bytes, not %d", c.Name, sharedlun.ErrExists, v.SizeBytes, size)
	case !slices.Equal(v.Tags, tags):
		return nil, fmt.Errorf("volume %s: %w, with the tags %q, not %q", c.Name, sharedlun.ErrExists, v.Tags, tags)
	case c.HeldBy != "" && (v.HeldBy != c.HeldBy || v.Leaving):
		return nil, fmt.Errorf("volume %s: %w, and node %s does not hold it", c.Name, sharedlun.ErrExists, c.HeldBy)
	}
	return nil, nil
}

// whole is a size in whole extents.
func whole(g sharedlun.Group, bytes int64) (int64, error) {
	if g.ExtentBytes <= 0 {
		return 0, fmt.Errorf("%w: extents of %d bytes", sharedlun.ErrUnknown, g.ExtentBytes)
	}
	if bytes > g.SizeBytes {
		return 0, noRoom(g, bytes)
	}
	return (bytes + g.ExtentBytes - 1) / g.ExtentBytes * g.ExtentBytes, nil
}

func noRoom(g sharedlun.Group, bytes int64) error {
	return fmt.Errorf("%w: group %s has %d bytes free, %d more are asked for", sharedlun.ErrNoSpace, g.Name, g.FreeBytes, bytes)
}

func grow(g sharedlun.Group, c sharedlun.Grow) (Step, error) {
	v, err := find(g, c.Name, c.UUID)
	if err != nil {
		return nil, err
	}
	size, err := whole(g, c.SizeBytes)
	switch {
	case err != nil:
		return nil, err
	case size <= v.SizeBytes:
		return nil, nil
	case v.Snapshot || v.Copying():
		return nil, fmt.Errorf("%w: volume %s is a snapshot, or is being copied: it stays as large as it is", sharedlun.ErrMisfit, c.Name)
	case size-v.SizeBytes > g.FreeBytes:
		return nil, noRoom(g, size-v.SizeBytes)
	}
	return ExtendVolume{Volume: v, SizeBytes: size}, nil
}

// remove removes what nobody holds, and nobody reads: what is freed is the next tenant's.
func remove(g sharedlun.Group, c sharedlun.Remove) (Step, error) {
	v, err := named(g, c.Name, c.UUID)
	switch {
	case err != nil || v == nil:
		return nil, err
	case v.HeldBy != "":
		return nil, fmt.Errorf("volume %s: %w: %s", c.Name, sharedlun.ErrHeld, v.HeldBy)
	}
	if err := first(uncopied(g, *v), unfilled(g, *v)); err != nil {
		return nil, err
	}
	if err := g.Unread(*v, c.Boots); err != nil {
		return nil, err
	}
	return RemoveVolume{Volume: *v}, nil
}

func hold(g sharedlun.Group, c sharedlun.Hold) (Step, error) {
	v, err := find(g, c.Name, c.UUID)
	switch {
	case err != nil:
		return nil, err
	case v.HeldBy == c.Node && v.Leaving:
		// It is being taken from the node: that has to end first.
		return nil, fmt.Errorf("volume %s is leaving node %s: %w", c.Name, c.Node, sharedlun.ErrHeld)
	case v.HeldBy == c.Node:
		return nil, nil
	case v.HeldBy != "":
		return nil, fmt.Errorf("volume %s: %w, and is %w: %s, not %s", c.Name, sharedlun.ErrExists, sharedlun.ErrHeld, v.HeldBy, c.Node)
	}
	if err := lendable(g, v); err != nil {
		return nil, err
	}
	return Retag{Volume: v, Add: []string{sharedlun.TagHeldBy + c.Node}}, nil
}

// leave marks a volume, and says in the same change how much of it is ready: at no instant it is ready and held without the mark, as one that somebody attached is.
func leave(g sharedlun.Group, c sharedlun.Hold) (Step, error) {
	v, err := named(g, c.Name, c.UUID)
	held := v != nil && v.HeldBy == c.Node
	switch {
	case err != nil:
		return nil, err
	case !held && c.ReadyBytes > 0:
		return nil, fmt.Errorf("volume %s (%s), held by node %s: %w", c.Name, c.UUID, c.Node, sharedlun.ErrNotFound)
	case !held:
		return nil, nil
	case v.Copying() && c.ReadyBytes > 0:
		return nil, fmt.Errorf("%w: the copy %s is shown once no node has it", sharedlun.ErrMisfit, v.Name)
	}
	step := Retag{Volume: *v}
	if c.ReadyBytes > 0 {
		if step, err = readied(*v, c.ReadyBytes); err != nil {
			return nil, err
		}
	}
	if !v.Leaving {
		step.Add = append(step.Add, sharedlun.TagLeaving)
	}
	if len(step.Add) == 0 {
		return nil, nil
	}
	return step, nil
}

// release takes a volume from a node that nobody maps it on any more: without the mark a late order could have mapped it since it was unmapped. A node
// that is fenced, and may have it mapped still, becomes a reader of it.
func release(g sharedlun.Group, c sharedlun.Release) (Step, error) {
	v, err := named(g, c.Name, c.UUID)
	switch {
	case err != nil || v == nil || v.HeldBy != c.Node:
		return nil, err
	case !v.Leaving:
		return nil, fmt.Errorf("volume %s is not leaving node %s: %w", c.Name, c.Node, sharedlun.ErrHeld)
	}
	step := Retag{Volume: *v, Remove: []string{sharedlun.TagHeldBy + c.Node, sharedlun.TagLeaving}}
	reader := sharedlun.Boot{Node: c.Node, ID: c.FencedBootID}
	if reader.ID != "" && !slices.Contains(v.Readers, reader) {
		step.Add = []string{reader.Tag()}
	}
	return step, nil
}

// forget takes readers off of whom a person vouched that they read no more.
func forget(g sharedlun.Group, c sharedlun.Forget) (Step, error) {
	v, err := named(g, c.Name, c.UUID)
	if err != nil || v == nil {
		return nil, err
	}
	step := Retag{Volume: *v}
	for _, b := range v.Readers {
		if slices.Contains(c.Boots, b) {
			step.Remove = append(step.Remove, b.Tag())
		}
	}
	if len(step.Remove) == 0 {
		return nil, nil
	}
	return step, nil
}

func ready(g sharedlun.Group, c sharedlun.Ready) (Step, error) {
	v, err := find(g, c.Name, c.UUID)
	switch {
	case err != nil:
		return nil, err
	case v.Copying() && c.Bytes > v.ReadyBytes:
		return wholeCopy(v, c)
	}
	step, err := readied(v, c.Bytes)
	if err != nil || len(step.Add) == 0 {
		return nil, err
	}
	return step, nil
}

// readied says that the first bytes of a volume may be seen; it adds nothing where they may be.
func readied(v sharedlun.Volume, bytes int64) (Retag, error) {
	step := Retag{Volume: v}
	switch {
	case bytes > v.SizeBytes:
		return step, fmt.Errorf("%w: %d bytes of volume %s ready, it has %d", sharedlun.ErrInvalid, bytes, v.Name, v.SizeBytes)
	case bytes <= v.ReadyBytes:
		return step, nil
	}
	step.Add = []string{sharedlun.TagReady + strconv.FormatInt(bytes, 10)}
	if v.ReadyBytes > 0 {
		step.Remove = []string{sharedlun.TagReady + strconv.FormatInt(v.ReadyBytes, 10)}
	}
	return step, nil
}
