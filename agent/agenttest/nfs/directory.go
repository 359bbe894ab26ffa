package nfs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/pkg/sharedvolume"
)

// EnsureDirectory makes the directory of a volume.
func (v *View) EnsureDirectory(ctx context.Context, s sharedvolume.Share, w sharedvolume.Wish) (sharedvolume.Directory, error) {
	v.servers.mu.Lock()
	defer v.servers.mu.Unlock()
	id, err := valid(s, w.Name)
	if err == nil {
		err = w.Check()
	}
	if err != nil {
		return sharedvolume.Directory{}, err
	}
	h, err := v.own(ctx, s)
	if err != nil {
		return sharedvolume.Directory{}, err
	}
	if r := h.records[id]; r != nil {
		switch {
		case r.State == sharedvolume.Removing:
			return sharedvolume.Directory{}, state("volume %s is being removed", w.Name)
		case r.Directory.Directory != w.Directory || r.OnDelete != w.OnDelete:
			return sharedvolume.Directory{}, taken("volume %s was made with directory %q and onDelete %s", w.Name, r.Directory.Directory, r.OnDelete)
		case h.directories[w.Directory] != id:
			return sharedvolume.Directory{}, state("directory %q of volume %s is gone from the share", w.Directory, w.Name)
		}
		return r.Directory, nil
	}
	if _, there := h.directories[w.Directory]; there {
		return sharedvolume.Directory{}, taken("directory %q: something that was not made for this volume is there", w.Directory)
	}
	for above := parent(w.Directory); above != ""; above = parent(above) {
		if holder := h.directories[above]; holder != (sharedvolume.ID{}) {
			return sharedvolume.Directory{}, taken("%q is the directory of volume %s", above, holder)
		}
	}
	if other := h.beside(w.Directory); other != nil {
		return sharedvolume.Directory{}, taken("directory %q is that of volume %s", other.Directory.Directory, other.ID)
	}
	h.put(w.Directory, id)
	r := &record{Directory: sharedvolume.Directory{
		ID: id, Directory: w.Directory, OnDelete: w.OnDelete, State: sharedvolume.Made, Created: v.servers.now, ShareID: h.id,
		Bytes: w.Bytes,
	}, left: h.entries}
	h.records[id] = r
	return r.Directory, nil
}

// beside finds a volume whose record names a place, or one inside or around it, even if nothing is there.
func (h *Share) beside(directory string) *record {
	for _, r := range h.records {
		have := r.Directory.Directory
		if !r.discarded && (have == directory || strings.HasPrefix(have, directory+"/") || strings.HasPrefix(directory, have+"/")) {
			return r
		}
	}
	return nil
}

func valid(s sharedvolume.Share, name string) (sharedvolume.ID, error) {
	if err := s.Check(); err != nil {
		return sharedvolume.ID{}, err
	}
	id, err := sharedvolume.New(s.Owner, name)
	if err != nil {
		return sharedvolume.ID{}, fmt.Errorf("%w: %w", sharedvolume.ErrInvalid, err)
	}
	return id, nil
}

// RemoveDirectory deletes, archives or leaves the directory of a volume.
func (v *View) RemoveDirectory(ctx context.Context, s sharedvolume.Share, name, directory string, p sharedvolume.Policy) (sharedvolume.Removal, error) {
	v.servers.mu.Lock()
	defer v.servers.mu.Unlock()
	id, err := valid(s, name)
	if err != nil {
		return sharedvolume.Removal{}, err
	}
	h, err := v.own(ctx, s)
	if err != nil {
		return sharedvolume.Removal{}, err
	}
	r := h.records[id]
	if r == nil {
		return h.unrecorded(name, directory, p)
	}
	return h.remove(r, p)
}

// unrecorded refuses to call a volume without a record gone while something that is no other volume's is where it was.
func (h *Share) unrecorded(name, directory string, p sharedvolume.Policy) (sharedvolume.Removal, error) {
	holder, there := h.directories[directory]
	if there && h.records[holder] == nil && p != sharedvolume.Retain {
		return sharedvolume.Removal{}, state("volume %s has no record on the share, and something is at its place %q", name, directory)
	}
	return sharedvolume.Removal{Done: true}, nil
}

func (h *Share) remove(r *record, p sharedvolume.Policy) (sharedvolume.Removal, error) {
	if r.State != sharedvolume.Removing {
		r.doing = sharedvolume.Safer(r.OnDelete, p)
	}
	out := sharedvolume.Removal{OnDelete: r.doing, Done: true}
	holder, there := h.directories[r.Directory.Directory]
	switch {
	case r.discarded:
	case there && holder != r.ID:
		return sharedvolume.Removal{}, state("directory %q is not the one that was made for volume %s, and is left alone", r.Directory.Directory, r.Name)
	case !there:
		out.Note = fmt.Sprintf("Directory %q was gone from the share already.", r.Directory.Directory)
		r.left = 0
	}
	switch {
	case !there && !r.discarded:
	case r.doing == sharedvolume.Archive:
		out.ArchivedAs = h.archive(r.Directory.Directory)
	case r.doing == sharedvolume.Retain:
		h.directories[r.Directory.Directory] = sharedvolume.ID{}
	default:
		out.Removed, out.Done = h.purge(r)
	}
	if out.Done {
		delete(h.records, r.ID)
	}
	return out, nil
}

// AbandonDirectory refuses every volume on record: the model makes each of them at once.
func (v *View) AbandonDirectory(ctx context.Context, s sharedvolume.Share, name string) error {
	v.servers.mu.Lock()
	defer v.servers.mu.Unlock()
	id, err := valid(s, name)
	if err != nil {
		return err
	}
	h, err := v.own(ctx, s)
	if err == nil && h.records[id] != nil {
		err = state("volume %s is left alone, for it was made", name)
	}
	return err
}

// purge moves a directory out of sight and removes a part of it.
func (h *Share) purge(r *record) (int64, bool) {
	if !r.discarded {
		delete(h.directories, r.Directory.Directory)
		r.discarded, r.State = true, sharedvolume.Removing
	}
	part := min(r.left, perCall)
	r.left -= part
	r.removed += part
	return r.removed, r.left == 0
}

// archive renames a directory to a free name beside its old place.
func (h *Share) archive(directory string) string {
	name, above := directory, parent(directory)
	if above != "" {
		name = strings.TrimPrefix(directory, above+"/")
		above += "/"
	}
	to := above + "archived-" + name + "-" + h.servers.now.Format("20060102T150405Z")
	for free, try := to, 2; ; try++ {
		if _, there := h.directories[free]; !there {
			delete(h.directories, directory)
			h.put(free, sharedvolume.ID{})
			return free
		}
		free = fmt.Sprintf("%s-%d", to, try)
	}
}

// ListDirectories reads records.
func (v *View) ListDirectories(
	ctx context.Context, s sharedvolume.Share, after string, limit int, check bool,
) (list []sharedvolume.Directory, next string, err error) {
	v.servers.mu.Lock()
	defer v.servers.mu.Unlock()
	h, err := v.own(ctx, s)
	if err != nil {
		return nil, "", err
	}
	for id, r := range h.records {
		if id.Owner == s.Owner && id.Name > after {
			d := r.Directory
			if check && d.State == sharedvolume.Made && h.directories[d.Directory] != id {
				d.Problem = fmt.Sprintf("directory %q of volume %s is gone from the share, or another one is at its place", d.Directory, id.Name)
			}
			list = append(list, d)
		}
	}
	slices.SortFunc(list, func(a, b sharedvolume.Directory) int { return strings.Compare(a.Name, b.Name) })
	if len(list) > limit {
		return list[:limit], list[limit-1].Name, nil
	}
	return list, "", nil
}
