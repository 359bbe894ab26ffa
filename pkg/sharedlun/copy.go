package sharedlun

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Origin is the volume that another one is a copy of, as it was when the copy was begun.
type Origin struct {
	// Name and UUID of the volume. It may be gone once the copy is whole.
	Name, UUID string
	// Bytes are its first ones that could be seen then. They are what is copied; what the copy has behind them is zeroed.
	Bytes int64
}

// Tag is the tag of a volume that is a copy of it.
func (o Origin) Tag() string { return fmt.Sprintf("%s%s/%s/%d", TagCopyOf, o.Name, o.UUID, o.Bytes) }

// Check refuses what no tag can name, and a copy of nothing.
func (o Origin) Check() error {
	if err := CheckName(o.Name); err != nil {
		return err
	}
	if err := CheckUUID("volume", o.UUID); err != nil {
		return err
	}
	if o.Bytes <= 0 || o.Bytes%sector != 0 {
		return fmt.Errorf("%w: %d bytes of volume %s cannot be copied", ErrInvalid, o.Bytes, o.Name)
	}
	return nil
}

// Copying reports whether the volume is a copy that is not whole yet. Its origin keeps its content for as long, unless the copy is void: no node gets it, and it is not removed.
func (v Volume) Copying() bool { return v.Origin != (Origin{}) && v.ReadyBytes == 0 }

// Copies returns the volumes that are being copied from one, without the void ones; ordered by name.
func (g Group) Copies(uuid string) []Volume {
	var out []Volume
	for _, v := range g.Volumes {
		if v.Copying() && !v.Void && v.Origin.UUID == uuid {
			out = append(out, v)
		}
	}
	return out
}

// ReadThrough returns the volumes whose readers may read a volume: itself, and every volume that was made as a copy of it, a whole one too. Who was fenced while it filled a copy
// has a device of the origin, and is a reader of the copy only.
func (g Group) ReadThrough(v Volume) []Volume {
	out := []Volume{v}
	for _, c := range g.Volumes {
		if c.Origin.UUID == v.UUID {
			out = append(out, c)
		}
	}
	return out
}

// Unread returns an error that names the nodes that may read a volume, and are not known to have been booted since. reported are the boots that nodes report now.
func (g Group) Unread(v Volume, reported []Boot) error {
	var errs []error
	for _, through := range g.ReadThrough(v) {
		err := through.unread(reported)
		if err != nil && through.UUID != v.UUID {
			err = fmt.Errorf("volume %s was copied to %s: %w", v.Name, through.Name, err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// markCopy is Mark for the tags of copies. An origin that cannot be read is one all the same: without bytes nothing is copied, and the volume never becomes
// whole.
func (v *Volume) markCopy(tag string) bool {
	if text, ok := strings.CutPrefix(tag, TagCopyOf); ok {
		name, rest, _ := strings.Cut(text, "/")
		uuid, bytes, _ := strings.Cut(rest, "/")
		v.Origin = Origin{Name: name, UUID: uuid}
		v.Origin.Bytes, _ = strconv.ParseInt(bytes, 10, 64)
		return true
	}
	if text, ok := strings.CutPrefix(tag, TagCopied); ok {
		v.CopiedBytes, _ = strconv.ParseInt(text, 10, 64)
		return true
	}
	return false
}
