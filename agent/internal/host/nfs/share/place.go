package share

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/pkg/sharedvolume"
)

// The places of volumes are written down once more by path, in a tree of directories below placesDir that repeats the paths. A place
// stays its volume's even if nothing is there: the directory may be restored later. No path of a volume has a component that begins
// with a dot, so that holderFile is never taken for one.
const (
	placesDir  = "places"
	holderFile = ".volume"
	// placeTries bounds how often a place is entered anew because the removal of another volume took an empty directory on the way.
	placeTries = 20
	maxPlace   = 16
)

// openPlaces opens the tree of places, which shares of earlier agents do not have.
func (o *owned) openPlaces() (err error) {
	if o.places.fd < 0 {
		o.places, err = o.ensureDir(o.marks, placesDir)
	}
	return err
}

// entries reads which volumes are written down at a place.
func (o *owned) entries(at dir) ([]sharedvolume.ID, error) {
	content, err := at.read(holderFile)
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []sharedvolume.ID
	for line := range strings.Lines(string(content)) {
		id, err := sharedvolume.Parse(strings.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("%w: a place of volumes: %w", errDamaged, err)
		}
		out = append(out, id)
	}
	return out, nil
}

// others returns the records of the other volumes that have a place. An entry that its volume's record does not confirm is left over,
// and counts for nothing.
func (o *owned) others(at dir, place string, self sharedvolume.ID) ([]record, error) {
	ids, err := o.entries(at)
	if err != nil {
		return nil, err
	}
	var out []record
	for _, id := range ids {
		if id == self {
			continue
		}
		r, found, err := o.recordOf(id)
		if err != nil {
			return nil, err
		}
		if found && r.Directory == place && !r.Moved {
			out = append(out, r)
		}
	}
	return out, nil
}

// keepOff refuses a place that another volume has, and one inside or around such a place.
func (o *owned) keepOff(directory string, self sharedvolume.ID) error {
	at, err := o.places.open(".")
	if err != nil {
		return err
	}
	defer func() { at.close() }()
	place := ""
	for component := range strings.SplitSeq(directory, "/") {
		next, err := at.open(component)
		if isMissing(err) {
			return nil
		}
		if err != nil {
			return err
		}
		at.close()
		at, place = next, strings.TrimPrefix(place+"/"+component, "/")
		held, err := o.others(at, place, self)
		if err != nil {
			return err
		}
		if len(held) > 0 {
			return fmt.Errorf("%q is the directory of volume %s: %w", place, held[0].id(), sharedvolume.ErrTaken)
		}
	}
	inner, found, err := o.inside(at, directory, self, maxPlace)
	if err == nil && found {
		err = fmt.Errorf("directory %q of volume %s is inside of it: %w", inner.Directory, inner.id(), sharedvolume.ErrTaken)
	}
	return err
}

// inside finds a volume whose place is below a place.
func (o *owned) inside(at dir, place string, self sharedvolume.ID, levels int) (record, bool, error) {
	names, err := at.names(-1)
	if err != nil {
		return record{}, false, err
	}
	if levels == 0 && len(names) > 0 {
		return record{}, false, fmt.Errorf("%w: places of volumes below %q", errDamaged, place)
	}
	slices.Sort(names)
	for _, name := range names {
		if strings.HasPrefix(name, ".") {
			continue
		}
		r, found, err := o.insideOf(at, name, place+"/"+name, self, levels)
		if err != nil || found {
			return r, found, err
		}
	}
	return record{}, false, nil
}

func (o *owned) insideOf(in dir, name, place string, self sharedvolume.ID, levels int) (record, bool, error) {
	at, err := in.open(name)
	if isMissing(err) {
		return record{}, false, nil
	}
	if err != nil {
		return record{}, false, err
	}
	defer at.close()
	held, err := o.others(at, place, self)
	if err != nil || len(held) > 0 {
		return append(held, record{})[0], len(held) > 0, err
	}
	return o.inside(at, place, self, levels-1)
}

// claim writes a volume down at its place, unless that is another's. Two agents that claim places inside of each other write first and
// look afterwards, so that at least one of them sees the other.
func (o *owned) claim(r record) error {
	return o.atPlace(r.Directory, func(at dir) error {
		err := o.put(o.tmpDir, at, holderFile, []byte(r.id().String()+"\n"), false)
		if errors.Is(err, unix.EEXIST) {
			err = o.takeOver(at, r)
		}
		if err != nil {
			return err
		}
		return o.keepOff(r.Directory, r.id())
	})
}

// takeOver replaces what is left over at a place.
func (o *owned) takeOver(at dir, r record) error {
	held, err := o.others(at, r.Directory, r.id())
	if err != nil {
		return err
	}
	if len(held) > 0 {
		return fmt.Errorf("directory %q is that of volume %s: %w", r.Directory, held[0].id(), sharedvolume.ErrTaken)
	}
	return o.enter(at, []sharedvolume.ID{r.id()})
}

// enter writes volumes down at a place, if others are written there.
func (o *owned) enter(at dir, ids []sharedvolume.ID) error {
	old, err := o.entries(at)
	if err != nil || slices.Equal(old, ids) {
		return err
	}
	var content strings.Builder
	for _, id := range ids {
		content.WriteString(id.String() + "\n")
	}
	return o.put(o.tmpDir, at, holderFile, []byte(content.String()), true)
}

// atPlace opens a place in the tree of places, makes what is missing, and does something there. It begins anew when the removal of
// another volume takes an empty directory of the tree meanwhile.
func (o *owned) atPlace(directory string, do func(at dir) error) error {
	for range placeTries {
		at, err := o.makePlace(directory)
		if err == nil {
			err = do(at)
			at.close()
		}
		if !isMissing(err) && !errors.Is(err, unix.ESTALE) {
			return err
		}
	}
	return fmt.Errorf("directory %q: other volumes beside it come and go: %w", directory, sharedvolume.ErrBusy)
}

func (o *owned) makePlace(directory string) (dir, error) {
	at, err := o.places.open(".")
	if err != nil {
		return none, err
	}
	for component := range strings.SplitSeq(directory, "/") {
		next, err := o.ensureDir(at, component)
		at.close()
		if err != nil {
			return none, err
		}
		at = next
	}
	return at, nil
}

// unclaim gives up the place of a volume, and takes the directories of the tree that nobody else has entries below.
func (o *owned) unclaim(r record) error {
	if err := o.leave(r); err != nil {
		return err
	}
	for place := r.Directory; place != ""; {
		above, name := parent(place)
		in, err := o.places.open(cmp.Or(above, "."))
		if err == nil {
			err = o.rmdir(in, name)
			in.close()
		}
		if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
			return nil
		}
		if err := ignoreMissing(err); err != nil {
			return err
		}
		place = above
	}
	return nil
}

func (o *owned) leave(r record) error {
	at, err := o.places.open(r.Directory)
	if err != nil {
		return ignoreMissing(err)
	}
	defer at.close()
	ids, err := o.entries(at)
	if err != nil || !slices.Contains(ids, r.id()) {
		return err
	}
	if len(ids) > 1 {
		return o.enter(at, slices.DeleteFunc(ids, func(id sharedvolume.ID) bool { return id == r.id() }))
	}
	return o.withdraw(r, at, holderFile)
}

// entered opens the place of a volume in the tree of places, and reports whether the volume is written down there.
func (o *owned) entered(r record) (dir, bool, error) {
	at, err := o.places.open(r.Directory)
	if err != nil {
		return none, false, ignoreMissing(err)
	}
	ids, err := o.entries(at)
	if err != nil {
		at.close()
		return none, false, err
	}
	return at, slices.Contains(ids, r.id()), nil
}
