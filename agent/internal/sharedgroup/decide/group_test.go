package decide

import (
	"errors"
	"strings"
	"testing"

	"quarry.storage/quarry/pkg/pvuuid"
	"quarry.storage/quarry/pkg/sharedlun"
)

var ref = sharedlun.Ref{Lun: sharedlun.Identity{WWID: "naa.6001", Serial: "s", SizeBytes: 1 << 30}, OwnerUID: owner, UUID: uuidB}

// on is a LUN that carries what the change says.
func on(change func(*Content)) Found {
	f := Found{Content: Content{Says: "The device carries something.", Digest: "v1:x"}}
	change(&f.Content)
	return f
}

// carrying is a LUN with our group.
func carrying(change func(*sharedlun.Group)) Found {
	g := group
	g.Volumes = nil
	change(&g)
	return Found{Group: &g}
}

var (
	blank    = Found{Content: Content{Blank: true}}
	foreign  = on(func(*Content) {})
	unread   = on(func(c *Content) { c.Digest = "" })
	orphan   = on(func(c *Content) { c.PVUUID = pvuuid.Complete(Stem(ref)) })
	injured  = on(func(c *Content) { c.PVUUID, c.InGroup = pvuuid.Complete(Stem(ref)), true })
	stranger = on(func(c *Content) { c.PVUUID = uuidA })
	empty    = carrying(func(*sharedlun.Group) {})
	full     = carrying(func(g *sharedlun.Group) { g.Volumes = group.Volumes })
	others   = carrying(func(g *sharedlun.Group) { g.OwnerUID = "other" })
	second   = carrying(func(g *sharedlun.Group) { g.UUID = uuidA })
)

func TestCreate(t *testing.T) {
	for name, c := range map[string]struct {
		found           Found
		digest          string
		epoch, promised uint64
		want            Work
		err             error
		says            string
	}{
		"an empty LUN": {blank, "", 5, 0, MakePV, nil, ""},
		"an empty LUN, with the consent of before":   {blank, "v1:x", 5, 0, MakePV, nil, ""},
		"what a call that was cut off left":          {orphan, "", 5, 0, Remake, nil, ""},
		"the group is there":                         {empty, "", 5, 0, Nothing, nil, ""},
		"the group is there, for a later writer":     {empty, "", 6, 0, Nothing, nil, ""},
		"the group is there, for a writer of before": {empty, "", 4, 0, Nothing, sharedlun.ErrOldEpoch, "epoch 5"},
		"the group is there with volumes":            {full, "", 5, 0, Nothing, sharedlun.ErrNotClean, "6 volumes"},
		"another group of the owner":                 {second, "", 5, 0, Nothing, sharedlun.ErrNotClean, uuidA},
		"a group of another owner":                   {others, "", 5, 0, Nothing, sharedlun.ErrNotClean, "other"},
		"something of others":                        {foreign, "", 5, 0, Nothing, sharedlun.ErrNotClean, "carries something"},
		"something of others, with a consent":        {foreign, "v1:x", 5, 0, Wipe, nil, ""},
		"something else than the consent is for":     {foreign, "v1:y", 5, 0, Nothing, sharedlun.ErrNotClean, "v1:y"},
		"a physical volume of others":                {stranger, "", 5, 0, Nothing, sharedlun.ErrNotClean, ""},
		"something that cannot be read":              {unread, "", 5, 0, Nothing, sharedlun.ErrUnknown, ""},
		"no consent for what cannot be read":         {unread, "v1:x", 5, 0, Nothing, sharedlun.ErrUnknown, ""},
		"our group, of which LVM says nothing":       {injured, "", 5, 0, Nothing, sharedlun.ErrUnknown, "our physical volume"},
		"no consent for our group":                   {injured, "v1:x", 5, 0, Nothing, sharedlun.ErrUnknown, "our physical volume"},
		"a node that gave it up":                     {blank, "", 5, 6, Nothing, sharedlun.ErrOldEpoch, "promised"},
		"no epoch":                                   {blank, "", 0, 0, Nothing, sharedlun.ErrInvalid, ""},
	} {
		unrecorded := ref
		if c.found.Group == nil {
			unrecorded.UUID = ""
		}
		work, err := Create(unrecorded, "g", sharedlun.Mandate{Epoch: c.epoch}, c.promised, c.digest, c.found)
		if work != c.want || !errors.Is(err, c.err) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %v", name, work, err)
		}
	}
	// A group on record is never made again.
	for name, found := range map[string]Found{"empty": blank, "an orphan": orphan, "something": foreign, "our group, of which LVM says nothing": injured} {
		if work, err := Create(ref, "g", sharedlun.Mandate{Epoch: 5}, 0, "v1:x", found); work != Nothing || err == nil {
			t.Errorf("a group is on record, and the LUN is %s: %v, %v", name, work, err)
		}
	}
	if _, err := Create(ref, "--yes", sharedlun.Mandate{Epoch: 1}, 0, "", blank); !errors.Is(err, sharedlun.ErrInvalid) {
		t.Errorf("an option as a name: %v", err)
	}
}

func TestRemove(t *testing.T) {
	for name, c := range map[string]struct {
		found           Found
		epoch, promised uint64
		want            Work
		err             error
	}{
		"the group":                            {empty, 5, 0, RemoveGroup, nil},
		"a group with volumes":                 {full, 5, 0, Nothing, sharedlun.ErrInUse},
		"another group of the owner":           {second, 5, 0, Nothing, sharedlun.ErrNotClean},
		"a group of another owner":             {others, 5, 0, Nothing, sharedlun.ErrNotClean},
		"a writer of before":                   {empty, 4, 0, Nothing, sharedlun.ErrOldEpoch},
		"a writer that did not take over":      {empty, 6, 0, Nothing, sharedlun.ErrOldEpoch},
		"a node that gave it up":               {empty, 5, 6, Nothing, sharedlun.ErrOldEpoch},
		"what a call that was cut off left":    {orphan, 5, 0, RemovePV, nil},
		"an empty LUN":                         {blank, 5, 0, Nothing, nil},
		"something of others":                  {foreign, 5, 0, Nothing, nil},
		"a physical volume of others":          {stranger, 5, 0, Nothing, nil},
		"something that cannot be read":        {unread, 5, 0, Nothing, sharedlun.ErrUnknown},
		"our group, of which LVM says nothing": {injured, 5, 0, Nothing, sharedlun.ErrUnknown},
	} {
		work, err := Remove(ref, sharedlun.Mandate{Epoch: c.epoch}, c.promised, c.found)
		if work != c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %v, %v", name, work, err)
		}
	}
}

func TestSame(t *testing.T) {
	for name, c := range map[string]struct {
		found Found
		err   error
	}{
		"the group": {full, nil}, "another group": {second, sharedlun.ErrNotFound}, "of another owner": {others, sharedlun.ErrNotFound},
		"none": {blank, sharedlun.ErrNotFound}, "something else": {foreign, sharedlun.ErrNotFound},
		"ours, of which LVM says nothing": {injured, sharedlun.ErrUnknown},
	} {
		if _, err := Same(ref, c.found); !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
	grown := ref
	grown.Lun.SizeBytes *= 2
	if Stem(grown) != Stem(ref) {
		t.Error("a LUN that grew has another physical volume")
	}
}
