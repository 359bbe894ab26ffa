package share

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"quarry.storage/quarry/pkg/sharedvolume"
)

const (
	comparedFile = "compared.json"
	// compareTime is how long records are compared in one call: whoever looks at a share waits a few seconds only.
	compareTime = 4 * time.Second
)

// comparison says how far the records were compared with a share that was copied or restored, or that an earlier agent kept.
type comparison struct {
	Version int `json:"version"`
	// Tree is the tree of records that was compared.
	Tree string `json:"tree"`
	Done bool   `json:"done,omitempty"`
	// Entered is true when every place is entered, and inodes are written anew.
	Entered bool `json:"entered,omitempty"`
	// Owner and After are the volume that came last.
	Owner string `json:"owner,omitempty"`
	After string `json:"after,omitempty"`
	// Damaged are the first of the volumes whose records cannot be compared. Whoever asks for one of them is told why.
	Damaged []string `json:"damaged,omitempty"`
}

// maxDamaged bounds how many volumes with damaged records are listed.
const maxDamaged = 20

// skip lists a volume that holds up no other.
func (c *comparison) skip(id sharedvolume.ID) {
	if name := id.String(); len(c.Damaged) < maxDamaged && !slices.Contains(c.Damaged, name) {
		c.Damaged = append(c.Damaged, name)
	}
}

// compared reads how far the comparison is. known is false where none was ever begun.
func (o *owned) compared() (c comparison, known bool, err error) {
	content, err := o.marks.read(comparedFile)
	if err != nil {
		return comparison{Version: recordVersion, Tree: o.tree}, false, ignoreMissing(err)
	}
	// What cannot be read is compared once more.
	if err := json.Unmarshal(content, &c); err != nil || c.Version != recordVersion || c.Tree != o.tree {
		return comparison{Version: recordVersion, Tree: o.tree}, true, nil
	}
	return c, true, nil
}

// ready lets every record be compared with the share once, before anything is made or removed there: until then the index of inodes and
// the tree of places do not say what belongs to whom. Every call goes on where an earlier one stopped.
func (o *owned) ready() error {
	c, _, err := o.compared()
	if err != nil {
		return err
	}
	if err := o.openPlaces(); err != nil || c.Done {
		return err
	}
	until := o.now().Add(compareTime)
	for _, pass := range []struct {
		skip bool
		do   func(record) error
	}{{c.Entered, o.register}, {false, o.renew}} {
		if pass.skip {
			continue
		}
		if err := o.each(&c, until, pass.do); err != nil {
			return err
		}
		c = comparison{Version: recordVersion, Tree: o.tree, Entered: true, Damaged: c.Damaged}
	}
	c.Done = true
	return o.noteCompared(c)
}

func copiedProblem() error {
	return sharedvolume.NewProblem(sharedvolume.ReasonNotPrepared,
		"The share was copied or restored: its directories have other file numbers than on record, and the records have to be compared with them first.")
}

func (o *owned) noteCompared(c comparison) error {
	content, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return o.put(o.tmpDir, o.marks, comparedFile, append(content, '\n'), true)
}

// each does something with the records of all owners behind the one that came last. Names that no record of a volume can have are
// nobody's: nothing ever reads them.
func (o *owned) each(c *comparison, until time.Time, do func(record) error) error {
	volumes, err := o.marks.open(volumesDir)
	if err != nil {
		return err
	}
	defer volumes.close()
	owners, err := volumes.names(-1)
	if err != nil {
		return err
	}
	owners = slices.DeleteFunc(owners, func(name string) bool { return sharedvolume.CheckOwner(name) != nil || name < c.Owner })
	slices.Sort(owners)
	for _, owner := range owners {
		if owner != c.Owner {
			c.Owner, c.After = owner, ""
		}
		if err := o.eachOf(volumes, c, until, do); err != nil {
			return err
		}
	}
	return nil
}

func (o *owned) eachOf(volumes dir, c *comparison, until time.Time, do func(record) error) error {
	mine, err := volumes.open(c.Owner)
	if err != nil {
		return err
	}
	defer mine.close()
	names, err := mine.names(-1)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for i, name := range names {
		names[i], _ = strings.CutSuffix(name, suffix)
		id, err := sharedvolume.New(c.Owner, names[i])
		if err != nil || names[i] == name || names[i] <= c.After {
			continue
		}
		r, found, err := o.recordOf(id)
		if err == nil && found {
			err = do(r)
		}
		if errors.Is(err, errDamaged) {
			c.skip(id)
		} else if err != nil {
			return fmt.Errorf("compare the record of volume %s: %w", id, err)
		}
		if c.After = id.Name; !o.now().Before(until) {
			// Another agent may have come to the end meanwhile.
			if now, _, err := o.compared(); err != nil || now.Done {
				return err
			}
			if err := o.noteCompared(*c); err != nil {
				return err
			}
			return fmt.Errorf("the share was copied, or comes from an earlier version, and its records are being compared with it (volume %s came last): %w",
				id, sharedvolume.ErrBusy)
		}
	}
	return nil
}

// register enters a volume at its place. A volume that was made outranks one that is being made or removed. Where two were made, both are
// written down, and neither is recognised by the place.
func (o *owned) register(r record) error {
	if r.Moved {
		return nil
	}
	return o.atPlace(r.Directory, func(at dir) error {
		held, err := o.others(at, r.Directory, r.id())
		if err != nil || len(held) > 0 && r.State != sharedvolume.Made {
			return err
		}
		ids := []sharedvolume.ID{r.id()}
		for _, other := range held {
			if other.State == sharedvolume.Made {
				ids = append(ids, other.id())
			}
		}
		slices.SortFunc(ids, func(a, b sharedvolume.ID) int { return strings.Compare(a.String(), b.String()) })
		return o.enter(at, ids)
	})
}

// renew writes the inode of a directory anew, where its place tells whose it is. A volume that cannot be recognised keeps its record as it is:
// whoever asks for it is told.
func (o *owned) renew(r record) error {
	settled, err := o.settled(r)
	if err == nil && settled.Tree != r.Tree {
		err = o.stamp(settled, r)
	}
	if !isRefusal(err) {
		return err
	}
	return nil
}

// stamp writes down a directory that was recognised by its place. Another agent may have come to the end of the comparison meanwhile, and may
// have removed the volume since.
func (o *owned) stamp(r, old record) error {
	if c, _, err := o.compared(); err != nil || c.Done {
		return err
	}
	if now, found, err := o.recordOf(old.id()); err != nil || !found || now != old {
		return err
	}
	if err := o.unnote(old); err != nil {
		return err
	}
	if err := o.note(r); err != nil {
		return err
	}
	return o.save(r)
}

// settled returns a record with the inode that the directory has in this tree of records. While the records of a copy are compared, the place
// decides: where the record of one volume alone leads there, and through no other volume. A record that comes back as it was is of a
// directory that is not at its place, or that is being removed: nobody knows what was moved away from there before the share was copied.
// A place that two records name is an error, for nobody can say whose it is.
func (o *owned) settled(r record) (record, error) {
	if r.Tree == o.tree || r.State != sharedvolume.Made {
		return r, nil
	}
	at, entered, err := o.entered(r)
	if err != nil {
		return r, err
	}
	defer at.close()
	if !entered {
		return r, fmt.Errorf("the place of volume %s is not written down in this copy of the share: %s: %w", r.id(), onceMore, sharedvolume.ErrState)
	}
	if err := o.unshared(at, r); err != nil {
		return r, err
	}
	return o.recognised(r)
}

// recognised returns a record with the inode of the directory that is at its place.
func (o *owned) recognised(r record) (record, error) {
	inode, err := o.root.inode(r.Directory)
	if isMissing(err) || isOther(err) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	id, held, err := o.holder(inode)
	if err == nil && held && id != r.id() {
		err = fmt.Errorf("directory %q is that of volume %s: %w", r.Directory, id, sharedvolume.ErrState)
	}
	if err != nil {
		return r, err
	}
	r.Inode, r.Tree = inode, o.tree
	return r, nil
}

// unshared refuses a place that more than one volume has, or that is inside of another volume's.
func (o *owned) unshared(at dir, r record) error {
	held, err := o.others(at, r.Directory, r.id())
	if err != nil {
		return err
	}
	for above, _ := parent(r.Directory); above != "" && len(held) == 0; above, _ = parent(above) {
		around, err := o.places.open(above)
		if err != nil {
			return err
		}
		held, err = o.others(around, above, r.id())
		around.close()
		if err != nil {
			return err
		}
	}
	if len(held) == 0 {
		return nil
	}
	return fmt.Errorf("the share was copied, and there the records of the volumes %s (directory %q) and %s (directory %q) lead to one place: nobody can tell "+
		"whose it is. Move the record of the one that has no data, %s/%s/<volume>.json, away from the share, and %s: %w",
		r.id(), r.Directory, held[0].id(), held[0].Directory, sharedvolume.MarkDirectory, volumesDir, onceMore, sharedvolume.ErrState)
}
