package osd_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"quarry.storage/quarry/pkg/osd"
)

// label is one of the wanted OSD, at an offset, with changes.
func label(off int64, changes ...func(*osd.Found)) osd.Found {
	f := osd.Found{Offset: off, Label: osd.Label{UUID: uuid, SizeBytes: 2 * gib, Description: "main", FSID: fsid, ID: "7", Ready: true, Epoch: 15}}
	for _, change := range changes {
		change(&f)
	}
	return f
}

func unready(f *osd.Found) { f.Label.Ready, f.Label.FSID, f.Label.ID, f.Label.Epoch = false, "", "", 2 }

func of(uuid string) func(*osd.Found) { return func(f *osd.Found) { f.Label.UUID = uuid } }

func damaged(f *osd.Found) {
	*f = osd.Found{Offset: f.Offset, Label: osd.Label{UUID: f.Label.UUID}, Err: osd.ErrDamaged}
}

var ext4 = []osd.Mark{{Type: "ext4", Offset: 1080}}

var wanted = osd.Wanted{UUID: uuid, FSID: fsid, ID: 7}

func TestJudge(t *testing.T) {
	for name, tt := range map[string]struct {
		contents osd.Contents
		want     osd.Kind
		says     string
	}{
		"a clean disk":                                     {osd.Contents{Clean: true}, osd.Empty, "clean"},
		"a disk with something else":                       {osd.Contents{Others: ext4}, osd.Other, "not clean"},
		"unknown data":                                     {osd.Contents{}, osd.Other, "not clean"},
		"the OSD, with its copy":                           {osd.Contents{Labels: []osd.Found{label(0), label(gib)}}, osd.Ready, ""},
		"the OSD of before there were copies":              {osd.Contents{Labels: []osd.Found{label(0, func(f *osd.Found) { f.Label.Epoch = 0 })}}, osd.Ready, ""},
		"the OSD, whose data look like something":          {osd.Contents{Labels: []osd.Found{label(0)}, Others: []osd.Mark{{Type: "btrfs", Offset: 64 << 20}}}, osd.Ready, ""},
		"the OSD by its copy alone, both ends zeroed":      {osd.Contents{Blank: true, Labels: []osd.Found{label(gib)}}, osd.Ready, "is gone"},
		"a copy of the OSD's label, and a filesystem":      {osd.Contents{Labels: []osd.Found{label(gib)}, Others: ext4}, osd.Unknown, "ext4"},
		"a copy of the OSD's label, and unknown data":      {osd.Contents{Labels: []osd.Found{label(gib, unready)}}, osd.Unknown, "something else"},
		"a copy of the OSD's label, and a mark far inside": {osd.Contents{Blank: true, Labels: []osd.Found{label(gib)}, Others: []osd.Mark{{Type: "btrfs", Offset: 64 << 20}}}, osd.Unknown, "something else"},
		"the OSD's label, and a RAID over its superblock":  {osd.Contents{Labels: []osd.Found{label(0)}, Others: []osd.Mark{{Type: "linux_raid_member", Offset: 4096}}}, osd.Unknown, "linux_raid_member"},
		"killed in the making":                             {osd.Contents{Labels: []osd.Found{label(0, unready), label(gib, unready)}}, osd.Unfinished, "did not end"},
		"killed between the label and its copy":            {osd.Contents{Labels: []osd.Found{label(0, unready)}}, osd.Unfinished, ""},
		"killed before the copy says ready":                {osd.Contents{Labels: []osd.Found{label(0), label(gib, unready)}}, osd.Ready, ""},
		"a copy that says ready":                           {osd.Contents{Labels: []osd.Found{label(0, unready), label(gib)}}, osd.Ready, ""},
		"killed in the making, and used since":             {osd.Contents{Labels: []osd.Found{label(0, unready)}, Others: []osd.Mark{{Type: "gpt", Offset: 1 << 20}}}, osd.Unknown, "gpt"},
		"another OSD":                                      {osd.Contents{Labels: []osd.Found{label(0, of(other))}}, osd.Other, other},
		"another OSD by its copy alone":                    {osd.Contents{Labels: []osd.Found{label(gib, of(other), unready)}}, osd.Other, other},
		"the OSD over another one":                         {osd.Contents{Labels: []osd.Found{label(0), label(gib, of(other))}}, osd.Other, other},
		"killed in the making, over another one":           {osd.Contents{Labels: []osd.Found{label(0, unready), label(gib, of(other))}}, osd.Other, other},
		"another OSD, damaged":                             {osd.Contents{Labels: []osd.Found{label(0, of(other), damaged)}}, osd.Other, other},
		"the OSD, damaged":                                 {osd.Contents{Labels: []osd.Found{label(0, damaged)}}, osd.Unknown, "cannot be read"},
		"the OSD, with a damaged copy":                     {osd.Contents{Labels: []osd.Found{label(0), label(gib, damaged)}}, osd.Unknown, "cannot be read"},
		"killed in the making, with a damaged copy":        {osd.Contents{Labels: []osd.Found{label(0, unready), label(gib, damaged)}}, osd.Unknown, "cannot be read"},
		"a label of nobody, damaged":                       {osd.Contents{Labels: []osd.Found{label(0, of(""), damaged)}}, osd.Unknown, "cannot be read"},
		"the OSD of another Ceph cluster":                  {osd.Contents{Labels: []osd.Found{label(0, func(f *osd.Found) { f.Label.FSID = other })}}, osd.Other, other},
		"an OSD of the Cluster with another number":        {osd.Contents{Labels: []osd.Found{label(0, func(f *osd.Found) { f.Label.ID = "8" })}}, osd.Other, "osd.8"},
		"a device for a database":                          {osd.Contents{Labels: []osd.Found{label(0, func(f *osd.Found) { f.Label.Description = "bluefs db" })}}, osd.Unknown, "bluefs db"},
		"a disk that is smaller than the OSD":              {osd.Contents{SizeBytes: gib, Labels: []osd.Found{label(0)}}, osd.Unknown, "has 1073741824"},
		"a disk that grew":                                 {osd.Contents{SizeBytes: 3 * gib, Labels: []osd.Found{label(0)}}, osd.Ready, ""},
		"ready, and no word which one":                     {osd.Contents{Labels: []osd.Found{label(0, func(f *osd.Found) { f.Label.ID = "" })}}, osd.Unknown, "not which one"},
		"clean, it is said, and with a label":              {osd.Contents{Clean: true, Blank: true, Labels: []osd.Found{label(gib)}}, osd.Ready, ""},
	} {
		if tt.contents.SizeBytes == 0 {
			tt.contents.SizeBytes = 2 * gib
		}
		got := osd.Judge(wanted, tt.contents)
		if got.Kind != tt.want || !strings.Contains(got.Message, tt.says) || got.Message == "" {
			t.Errorf("%s: %s, %q; want %s", name, got.Kind, got.Message, tt.want)
		}
	}
	unnumbered := wanted
	unnumbered.ID = -1
	if got := osd.Judge(unnumbered, osd.Contents{SizeBytes: 2 * gib, Labels: []osd.Found{label(0)}}); got.Kind != osd.Ready {
		t.Errorf("without a number: %+v", got)
	}
}

// TestJudge_neverGivesDataUp: whatever is on a disk, only one without any label is empty, and only one is unfinished whose labels all are the wanted
// OSD's, can be read, and say that it is not ready.
func TestJudge_neverGivesDataUp(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	changes := []func(*osd.Found){
		unready, unready, of(other), of(""), damaged, func(f *osd.Found) { f.Label.FSID = other }, func(f *osd.Found) { f.Label.ID = "8" },
		func(f *osd.Found) { f.Label.SizeBytes = 9 * gib }, func(f *osd.Found) { f.Label.Description = "" }, func(f *osd.Found) { f.Err = errors.New("x") },
	}
	seen := map[osd.Kind]int{}
	for range 20000 {
		c := randomContents(r, changes)
		got := osd.Judge(wanted, c)
		seen[got.Kind]++
		if why := wrong(got.Kind, c); why != "" {
			t.Fatalf("%s, although %s: %+v", got.Kind, why, c)
		}
	}
	for k := osd.Unknown; k <= osd.Other; k++ {
		if seen[k] == 0 {
			t.Errorf("never %s: %v", k, seen)
		}
	}
}

func randomContents(r *rand.Rand, changes []func(*osd.Found)) osd.Contents {
	c := osd.Contents{SizeBytes: 2 * gib, Clean: r.IntN(2) == 0, Blank: r.IntN(2) == 0}
	for _, off := range []int64{0, gib} {
		if r.IntN(3) == 0 {
			continue
		}
		f := label(off)
		if r.IntN(2) == 0 {
			unready(&f)
		}
		if r.IntN(4) == 0 {
			changes[r.IntN(len(changes))](&f)
		}
		c.Labels = append(c.Labels, f)
	}
	if r.IntN(4) == 0 {
		c.Others = []osd.Mark{{Type: "gpt", Offset: []int64{512, 1 << 20}[r.IntN(2)]}}
	}
	return c
}

// wrong says why a disk must not be of a kind; empty if it may be.
func wrong(k osd.Kind, c osd.Contents) string {
	switch k {
	case osd.Empty:
		if len(c.Labels) > 0 || !c.Clean {
			return "something is on it"
		}
	case osd.Ready:
		if c.Labels[0].Offset > 0 && (!c.Blank || len(c.Others) > 0) {
			return "something else is at its start or end"
		}
	case osd.Unfinished:
		for _, f := range c.Labels {
			if f.Label.UUID != uuid || f.Err != nil || f.Label.Ready {
				return "a label is another one, or ready"
			}
		}
	}
	return ""
}

// TestJudge_fsids: every Ceph cluster is named of which a disk carries an OSD, whichever is looked for.
func TestJudge_fsids(t *testing.T) {
	elsewhere := func(f *osd.Found) { f.Label.FSID = other }
	for name, tt := range map[string]struct {
		contents osd.Contents
		want     []string
	}{
		"the OSD, twice":                      {osd.Contents{Labels: []osd.Found{label(0), label(gib)}}, []string{fsid}},
		"its making did not end":              {osd.Contents{Labels: []osd.Found{label(0, unready)}}, nil},
		"one of another Ceph cluster":         {osd.Contents{Labels: []osd.Found{label(0, of(other), elsewhere)}}, []string{other}},
		"an encrypted one of another cluster": {osd.Contents{Headers: []osd.Header{{UUID: other, FSID: other}}}, []string{other}},
		"nothing":                             {osd.Contents{Clean: true}, nil},
	} {
		if got := osd.Judge(wanted, tt.contents).FSIDs; !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestJudge_carries: an OSD of the Ceph cluster is named whichever it is, as one whose disk has another serial number by now.
func TestJudge_carries(t *testing.T) {
	elsewhere := func(f *osd.Found) { f.Label.FSID = other }
	for name, tt := range map[string]struct {
		contents osd.Contents
		want     string
	}{
		"the OSD":                             {osd.Contents{Labels: []osd.Found{label(0)}}, uuid},
		"its making did not end":              {osd.Contents{Labels: []osd.Found{label(0, unready)}}, ""},
		"another one":                         {osd.Contents{Labels: []osd.Found{label(0, of(other))}}, other},
		"another one by its copy":             {osd.Contents{Labels: []osd.Found{label(0, damaged), label(gib, of(other))}}, other},
		"one of another Ceph cluster":         {osd.Contents{Labels: []osd.Found{label(0, of(other), elsewhere)}}, ""},
		"another one, encrypted":              {osd.Contents{Headers: []osd.Header{{UUID: other, FSID: fsid}}}, other},
		"an encrypted one of another cluster": {osd.Contents{Headers: []osd.Header{{UUID: other, FSID: other}}}, ""},
		"nothing":                             {osd.Contents{Clean: true}, ""},
	} {
		if got := osd.Judge(wanted, tt.contents).Carries; got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
