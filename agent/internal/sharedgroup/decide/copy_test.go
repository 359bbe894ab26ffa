package decide

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/pkg/sharedlun"
)

const uuidC = "cccccc-1234-5678-9abc-DEFG-hijk-LMNOPQ"

// copyGroup has a volume "a" that was used and is held by nobody, and its copy "b", as changed.
func copyGroup(change func(a, b *sharedlun.Volume)) sharedlun.Group {
	a := sharedlun.Volume{Name: "a", UUID: uuidA, SizeBytes: 8 * mib, ReadyBytes: 8 * mib, Used: true, Ranges: []sharedlun.Range{{Start: mib, Size: 8 * mib}}}
	b := sharedlun.Volume{
		Name: "b", UUID: uuidC, SizeBytes: 12 * mib, Origin: sharedlun.Origin{Name: "a", UUID: uuidA, Bytes: 8 * mib}, HeldBy: "n1",
		Ranges: []sharedlun.Range{{Start: 20 * mib, Size: 12 * mib}},
	}
	change(&a, &b)
	return sharedlun.Group{
		UUID: uuidB, Name: "g", OwnerUID: owner, Epoch: 5, Sequence: 40, SizeBytes: 80 * mib, FreeBytes: 24 * mib, ExtentBytes: 4 * mib, Volumes: []sharedlun.Volume{a, b},
	}
}

func TestChange_copies(t *testing.T) {
	origin := sharedlun.Origin{Name: "a", UUID: uuidA, Bytes: 8 * mib}
	create := func(o sharedlun.Origin, bytes int64, snapshot bool) sharedlun.Change {
		return sharedlun.Change{Create: &sharedlun.Create{Name: "c", SizeBytes: bytes, Tags: []string{"x"}, Origin: o, Snapshot: snapshot}}
	}
	to := func(name, uuid string) sharedlun.Change {
		return sharedlun.Change{Hold: &sharedlun.Hold{Name: name, UUID: uuid, Node: "n2"}}
	}
	copied := func(bytes int64) sharedlun.Change {
		return sharedlun.Change{Copied: &sharedlun.Copied{Name: "b", UUID: uuidC, Bytes: bytes}}
	}
	ready := func(bytes int64) sharedlun.Change {
		return sharedlun.Change{Ready: &sharedlun.Ready{Name: "b", UUID: uuidC, Bytes: bytes}}
	}
	remove := func(name, uuid string) sharedlun.Change {
		return sharedlun.Change{Remove: &sharedlun.Remove{Name: name, UUID: uuid}}
	}
	// read has the copy whole, and n2 fenced while it filled it.
	read := func(_, b *sharedlun.Volume) {
		b.HeldBy, b.ReadyBytes, b.Readers = "", b.SizeBytes, []sharedlun.Boot{{Node: "n2", ID: "boot-1"}}
	}
	removeAfter := func(boot string) sharedlun.Change {
		return sharedlun.Change{Remove: &sharedlun.Remove{Name: "a", UUID: uuidA, Boots: []sharedlun.Boot{{Node: "n2", ID: boot}}}}
	}
	dropped := func(_, b *sharedlun.Volume) { b.Void = true }
	loose := func(_, b *sharedlun.Volume) { b.Void, b.HeldBy, b.CopiedBytes = true, "", b.SizeBytes }
	drop := sharedlun.Change{Void: &sharedlun.Void{Name: "b", UUID: uuidC}}
	leaves := sharedlun.Change{Leave: &sharedlun.Hold{Name: "b", UUID: uuidC, Node: "n1", ReadyBytes: 12 * mib}}
	begins := sharedlun.Change{Create: &sharedlun.Create{Name: "c", SizeBytes: 8 * mib, Origin: origin, HeldBy: "n1"}}
	free := func(_, b *sharedlun.Volume) { b.HeldBy = "" }
	there := func(_, b *sharedlun.Volume) { b.HeldBy, b.CopiedBytes = "", b.SizeBytes }
	for name, c := range map[string]struct {
		is     func(a, b *sharedlun.Volume)
		change sharedlun.Change
		want   string // the tags that are removed and added
		err    error
	}{
		"a copy":                                            {free, create(origin, 8*mib, false), "+x +" + origin.Tag() + " +" + sharedlun.TagUsed, nil},
		"a snapshot":                                        {free, create(origin, 8*mib, true), "+x +" + origin.Tag() + " +" + sharedlun.TagUsed + " +" + sharedlun.TagSnapshot, nil},
		"a copy of what no pod saw":                         {func(a, _ *sharedlun.Volume) { a.Used = false }, create(origin, 8*mib, false), "+x +" + origin.Tag(), nil},
		"a smaller copy":                                    {free, create(origin, 4*mib, false), "", sharedlun.ErrInvalid},
		"a copy of what a node has":                         {func(a, _ *sharedlun.Volume) { a.HeldBy = "n3" }, create(origin, 8*mib, false), "", sharedlun.ErrHeld},
		"a copy of what grew since":                         {func(a, _ *sharedlun.Volume) { a.ReadyBytes = 4 * mib }, create(origin, 8*mib, false), "", sharedlun.ErrMoved},
		"a copy of what is not there":                       {free, create(sharedlun.Origin{Name: "z", UUID: uuidA, Bytes: mib}, 8*mib, false), "", sharedlun.ErrNotFound},
		"a copy of another one of the name":                 {free, create(sharedlun.Origin{Name: "a", UUID: uuidB, Bytes: 8 * mib}, 8*mib, false), "", sharedlun.ErrExists},
		"a copy of nothing":                                 {free, create(sharedlun.Origin{Name: "a", UUID: uuidA}, 8*mib, false), "", sharedlun.ErrInvalid},
		"a snapshot of nothing":                             {free, create(sharedlun.Origin{}, 8*mib, true), "", sharedlun.ErrInvalid},
		"the origin to a node":                              {free, to("a", uuidA), "", sharedlun.ErrHeld},
		"the origin to a node, of a whole copy":             {func(_, b *sharedlun.Volume) { b.ReadyBytes = b.SizeBytes }, to("a", uuidA), "+" + sharedlun.TagHeldBy + "n2", nil},
		"the origin removed":                                {free, remove("a", uuidA), "", sharedlun.ErrHeld},
		"the origin removed, which a fenced node may read":  {read, remove("a", uuidA), "", sharedlun.ErrHeld},
		"the origin removed, which it may read in its boot": {read, removeAfter("boot-1"), "", sharedlun.ErrHeld},
		"the origin removed, and the node was booted":       {read, removeAfter("boot-2"), "removed a", nil},
		"a copy that nobody wants":                          {func(_, _ *sharedlun.Volume) {}, drop, "+" + sharedlun.TagVoid, nil},
		"a copy that nobody wants, again":                   {dropped, drop, "", nil},
		"a whole copy that nobody wants":                    {read, drop, "", sharedlun.ErrMisfit},
		"a void copy of which a part is there":              {dropped, copied(4 * mib), "", sharedlun.ErrMisfit},
		"a void copy as a whole one":                        {loose, ready(12 * mib), "", sharedlun.ErrMisfit},
		"a void copy to a node":                             {loose, to("b", uuidC), "", sharedlun.ErrMisfit},
		"a void copy removed":                               {loose, remove("b", uuidC), "removed b", nil},
		"a void copy removed, which a node has":             {dropped, remove("b", uuidC), "", sharedlun.ErrHeld},
		"the origin of a void copy to a node":               {dropped, to("a", uuidA), "+" + sharedlun.TagHeldBy + "n2", nil},
		"the origin of a void copy copied":                  {dropped, begins, "+" + origin.Tag() + " +" + sharedlun.TagUsed + " +" + sharedlun.TagHeldBy + "n1", nil},
		"the origin removed, a node has a void copy":        {dropped, remove("a", uuidA), "", sharedlun.ErrHeld},
		"the origin removed, no node has a void copy":       {loose, remove("a", uuidA), "removed a", nil},
		"the copy removed":                                  {free, remove("b", uuidC), "removed b", nil},
		"the copy to a node":                                {free, to("b", uuidC), "+" + sharedlun.TagHeldBy + "n2", nil},
		"the copy to a node while somebody has both":        {func(a, b *sharedlun.Volume) { a.HeldBy, b.HeldBy = "n3", "" }, to("b", uuidC), "", sharedlun.ErrHeld},
		"the copy of an origin that is gone":                {func(a, b *sharedlun.Volume) { a.UUID, b.HeldBy = uuidB, "" }, to("b", uuidC), "", sharedlun.ErrExists},
		"a snapshot that is whole to a node":                {func(_, b *sharedlun.Volume) { b.HeldBy, b.Snapshot, b.ReadyBytes = "", true, b.SizeBytes }, to("b", uuidC), "", sharedlun.ErrMisfit},
		"a part is there":                                   {func(_, _ *sharedlun.Volume) {}, copied(4 * mib), "+" + sharedlun.TagCopied + "4194304", nil},
		"more is there":                                     {func(_, b *sharedlun.Volume) { b.CopiedBytes = 512 }, copied(4 * mib), "-" + sharedlun.TagCopied + "512 +" + sharedlun.TagCopied + "4194304", nil},
		"less is there":                                     {func(_, b *sharedlun.Volume) { b.CopiedBytes = 8 * mib }, copied(4 * mib), "", nil},
		"a part is there of what no node has":               {free, copied(4 * mib), "", sharedlun.ErrHeld},
		"a part is there of what leaves its node":           {func(_, b *sharedlun.Volume) { b.Leaving = true }, copied(4 * mib), "", sharedlun.ErrHeld},
		"a part of a sector":                                {free, copied(100), "", sharedlun.ErrInvalid},
		"a whole copy":                                      {there, ready(12 * mib), "-" + sharedlun.TagCopied + "12582912 +" + sharedlun.TagReady + "12582912", nil},
		"a whole copy in part":                              {there, ready(8 * mib), "", sharedlun.ErrMisfit},
		"a copy that lacks its end":                         {func(_, b *sharedlun.Volume) { b.HeldBy, b.CopiedBytes = "", 8*mib }, ready(12 * mib), "", sharedlun.ErrMisfit},
		"a whole copy as it leaves its node":                {func(_, b *sharedlun.Volume) { b.CopiedBytes = b.SizeBytes }, leaves, "", sharedlun.ErrMisfit},
		"a copy that a node has from its beginning":         {free, begins, "+" + origin.Tag() + " +" + sharedlun.TagUsed + " +" + sharedlun.TagHeldBy + "n1", nil},
		"a whole copy that a node may write to":             {func(_, b *sharedlun.Volume) { b.CopiedBytes = b.SizeBytes }, ready(12 * mib), "", sharedlun.ErrHeld},
		"an origin of which the tag cannot be read":         {func(_, b *sharedlun.Volume) { b.HeldBy, b.Origin.Bytes = "", 0 }, to("b", uuidC), "", sharedlun.ErrMisfit},
	} {
		step, err := Change(copyGroup(c.is), 5, Order{Mandate: sharedlun.Mandate{Epoch: 5}, Sequence: 40, Change: c.change})
		if got := tagsOf(step); !errors.Is(err, c.err) || got != c.want {
			t.Errorf("%s: %q, %v; want %q, %v", name, got, err, c.want, c.err)
		}
	}
}

// tagsOf says what a step does to the tags of a volume.
func tagsOf(step Step) (out string) {
	add := func(sign string, tags []string) {
		for _, t := range tags {
			if out != "" {
				out += " "
			}
			out += sign + t
		}
	}
	switch s := step.(type) {
	case MakeVolume:
		add("+", s.Tags)
	case Retag:
		add("-", s.Remove)
		add("+", s.Add)
	case RemoveVolume:
		out = "removed " + s.Volume.Name
	}
	return out
}

func TestCopy(t *testing.T) {
	fits := func(_, _ *sharedlun.Volume) {}
	for name, c := range map[string]struct {
		is      func(a, b *sharedlun.Volume)
		devices []Mapped
		err     error
	}{
		"as the LUN says":                   {fits, nil, nil},
		"beside another volume's device":    {fits, []Mapped{{VolumeUUID: uuidB, Live: true}}, nil},
		"with a device that was cut":        {fits, []Mapped{{VolumeUUID: uuidA, Live: true, Cut: true}}, nil},
		"where the origin is mapped":        {fits, []Mapped{{VolumeUUID: uuidA, Live: true}}, sharedlun.ErrMisfit},
		"where the copy is mapped":          {fits, []Mapped{{VolumeUUID: uuidC, Live: true}}, sharedlun.ErrMisfit},
		"with what an earlier copying left": {fits, []Mapped{{VolumeUUID: uuidC, Part: sharedlun.PartNew, Live: true}, {VolumeUUID: uuidC, Part: sharedlun.PartSource, Live: true}}, nil},
		"of another node":                   {func(_, b *sharedlun.Volume) { b.HeldBy = "n2" }, nil, sharedlun.ErrHeld},
		"that is being taken away":          {func(_, b *sharedlun.Volume) { b.Leaving = true }, nil, sharedlun.ErrHeld},
		"that is void":                      {func(_, b *sharedlun.Volume) { b.Void = true }, nil, sharedlun.ErrMisfit},
		"that is whole":                     {func(_, b *sharedlun.Volume) { b.ReadyBytes = b.SizeBytes }, nil, sharedlun.ErrMoved},
		"of what a node has":                {func(a, _ *sharedlun.Volume) { a.HeldBy = "n2" }, nil, sharedlun.ErrHeld},
		"of what is gone":                   {func(a, _ *sharedlun.Volume) { a.Name = "other" }, nil, sharedlun.ErrNotFound},
		"of what is less":                   {func(a, _ *sharedlun.Volume) { a.ReadyBytes = 4 * mib }, nil, sharedlun.ErrMisfit},
		"of what is more than it can hold":  {func(a, b *sharedlun.Volume) { b.Origin.Bytes, a.ReadyBytes = 16*mib, 16*mib }, nil, sharedlun.ErrMoved},
	} {
		g := copyGroup(c.is)
		asked := copyGroup(fits).Volumes[1]
		to, from, err := Copy(g, asked, "n1", c.devices)
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", name, err, c.err)
		}
		if err != nil {
			continue
		}
		if d := cmp.Diff([]sharedlun.Volume{g.Volumes[1], g.Volumes[0]}, []sharedlun.Volume{to, from}); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	if err := Zero(copyGroup(fits), copyGroup(fits).Volumes[1], "n1", nil); !errors.Is(err, sharedlun.ErrMisfit) {
		t.Errorf("a copy is zeroed: %v", err)
	}
}
