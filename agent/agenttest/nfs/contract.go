package nfs

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"quarry.storage/quarry/pkg/sharedvolume"
)

// Directories is what is held to the contract.
type Directories interface {
	GetShare(ctx context.Context, s sharedvolume.Share, prepare bool) (sharedvolume.Seen, error)
	EnsureDirectory(ctx context.Context, s sharedvolume.Share, w sharedvolume.Wish) (sharedvolume.Directory, error)
	RemoveDirectory(ctx context.Context, s sharedvolume.Share, name, directory string, p sharedvolume.Policy) (sharedvolume.Removal, error)
	AbandonDirectory(ctx context.Context, s sharedvolume.Share, name string) error
	ListDirectories(ctx context.Context, s sharedvolume.Share, after string, limit int, check bool) ([]sharedvolume.Directory, string, error)
}

// Site is one empty share, for one case of the contract.
type Site struct {
	Directories
	// Share is the share, without an identity.
	Share sharedvolume.Share
	// Put makes a directory that is no volume's, Take moves one away, List lists what is at the root of the share, marks left out.
	Put, Take func(directory string)
	List      func() []string
	// Forget removes all records of the owner of Share, and nothing else.
	Forget func()
}

type check struct {
	*testing.T
	Site
}

func (c *check) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c *check) want(err, want error, says string) {
	c.Helper()
	if !errors.Is(err, want) || !strings.Contains(err.Error(), says) {
		c.Errorf("%v, want %v saying %q", err, want, says)
	}
}

func (c *check) wantReason(err error, reason string) {
	c.Helper()
	var p *sharedvolume.Problem
	if !errors.As(err, &p) || p.Reason != reason {
		c.Errorf("%v, want reason %s", err, reason)
	}
}

func (c *check) ensure(name, directory string, p sharedvolume.Policy) error {
	_, err := c.EnsureDirectory(c.Context(), c.Share, sharedvolume.Wish{Name: name, Directory: directory, OnDelete: p})
	return err
}

// prepare prepares the share and keeps its identity.
func (c *check) prepare() {
	c.Helper()
	seen, err := c.GetShare(c.Context(), c.Share, true)
	c.must(err)
	if seen.Problem != nil || seen.ID == "" || seen.Total <= 0 || seen.Used < 0 || seen.Free < 0 || seen.Version == "" || seen.Address == "" {
		c.Fatalf("prepared: %+v", seen)
	}
	c.Share.ID = seen.ID
}

// Contract runs every case on a share of its own.
func Contract(t *testing.T, site func(t *testing.T) Site) {
	for name, run := range map[string]func(*check){
		"prepared once": prepared, "a volume's life": life, "what is retained": retained, "what is abandoned": abandoned, "conflicts": conflicts, "archives": archives, "what others do": others,
		"pages": pages, "wrong requests": wrong,
		"records that are gone": forgotten, "directories checked": checked,
	} {
		t.Run(name, func(t *testing.T) { run(&check{T: t, Site: site(t)}) })
	}
}

func prepared(c *check) {
	seen, err := c.GetShare(c.Context(), c.Share, false)
	if err != nil || seen.Problem == nil || seen.Problem.Reason != sharedvolume.ReasonNotPrepared || seen.ID != "" || seen.Total <= 0 {
		c.Errorf("before: %+v, %v", seen, err)
	}
	c.wantReason(c.ensure("pvc-1", "data", sharedvolume.Delete), sharedvolume.ReasonNotPrepared)
	_, err = c.RemoveDirectory(c.Context(), c.Share, "pvc-1", "", "")
	c.wantReason(err, sharedvolume.ReasonNotPrepared)
	c.prepare()
	again, err := c.GetShare(c.Context(), c.Share, true)
	if err != nil || again.Problem != nil || again.ID != c.Share.ID {
		c.Errorf("again: %+v, %v", again, err)
	}
	another := c.Share
	another.ID = "00000000-0000-0000-0000-000000000000"
	seen, err = c.GetShare(c.Context(), another, true)
	if err != nil || seen.Problem == nil || seen.Problem.Reason != sharedvolume.ReasonOtherShare {
		c.Errorf("another: %+v, %v", seen, err)
	}
	_, err = c.EnsureDirectory(c.Context(), another, sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: sharedvolume.Delete})
	c.wantReason(err, sharedvolume.ReasonOtherShare)
}

func life(c *check) {
	c.prepare()
	d, err := c.EnsureDirectory(c.Context(), c.Share, sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: sharedvolume.Delete, Bytes: 1 << 30})
	c.must(err)
	want := sharedvolume.Directory{
		ID: sharedvolume.ID{Owner: c.Share.Owner, Name: "pvc-1"}, Directory: "data", OnDelete: sharedvolume.Delete, State: sharedvolume.Made,
		ShareID: c.Share.ID, Created: d.Created, Bytes: 1 << 30,
	}
	if d != want || d.Created.IsZero() {
		c.Errorf("%+v, want %+v", d, want)
	}
	// The size on record is that of the first call, whatever later ones ask for.
	for _, bytes := range []int64{0, 1 << 30, 2 << 30} {
		again, err := c.EnsureDirectory(c.Context(), c.Share, sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: sharedvolume.Delete, Bytes: bytes})
		if err != nil || again != d {
			c.Errorf("%+v, %v, want %+v", again, err, d)
		}
	}
	list, next, err := c.ListDirectories(c.Context(), c.Share, "", 10, false)
	if err != nil || next != "" || len(list) != 1 || list[0] != d {
		c.Errorf("%+v, %q, %v", list, next, err)
	}
	for range 2 {
		r, err := c.RemoveDirectory(c.Context(), c.Share, "pvc-1", "", "")
		if err != nil || !r.Done || r.Note != "" {
			c.Errorf("%+v, %v", r, err)
		}
	}
	if left := c.List(); len(left) != 0 {
		c.Errorf("left %v", left)
	}
}

func retained(c *check) {
	c.prepare()
	c.must(c.ensure("pvc-1", "other", sharedvolume.Retain))
	r, err := c.RemoveDirectory(c.Context(), c.Share, "pvc-1", "", sharedvolume.Delete)
	if err != nil || !r.Done || r.OnDelete != sharedvolume.Retain || !slices.Equal(c.List(), []string{"other"}) {
		c.Errorf("%+v, %v, %v", r, err, c.List())
	}
	c.want(c.ensure("pvc-2", "other", sharedvolume.Delete), sharedvolume.ErrTaken, "other")
}

func abandoned(c *check) {
	c.wantReason(c.AbandonDirectory(c.Context(), c.Share, "pvc-1"), sharedvolume.ReasonNotPrepared)
	c.prepare()
	c.must(c.ensure("pvc-1", "data", sharedvolume.Delete))
	// The volume was made, perhaps since the caller looked.
	c.want(c.AbandonDirectory(c.Context(), c.Share, "pvc-1"), sharedvolume.ErrState, "made")
	if got := c.List(); !slices.Equal(got, []string{"data"}) {
		c.Errorf("there is %v", got)
	}
	c.must(c.ensure("pvc-1", "data", sharedvolume.Delete))
	c.must(c.AbandonDirectory(c.Context(), c.Share, "pvc-2"))
}

func conflicts(c *check) {
	c.prepare()
	c.Put("foreign")
	c.must(c.ensure("pvc-1", "team", sharedvolume.Delete))
	for what, err := range map[string]error{
		"another directory": c.ensure("pvc-1", "data", sharedvolume.Delete), "another policy": c.ensure("pvc-1", "team", sharedvolume.Retain),
		"the same directory": c.ensure("pvc-2", "team", sharedvolume.Delete), "inside": c.ensure("pvc-2", "team/data", sharedvolume.Delete),
		"deep inside": c.ensure("pvc-2", "team/a/b", sharedvolume.Delete), "foreign": c.ensure("pvc-2", "foreign", sharedvolume.Delete),
	} {
		if !errors.Is(err, sharedvolume.ErrTaken) {
			c.Errorf("%s: %v", what, err)
		}
	}
	c.must(c.ensure("pvc-3", "foreign/below", sharedvolume.Delete))
	c.want(c.ensure("pvc-4", "foreign", sharedvolume.Delete), sharedvolume.ErrTaken, "foreign")
	if got := c.List(); !slices.Equal(got, []string{"foreign", "team"}) {
		c.Errorf("there is %v", got)
	}
}

func archives(c *check) {
	c.prepare()
	var seen []string
	for _, name := range []string{"pvc-1", "pvc-2", "pvc-3"} {
		c.must(c.ensure(name, "data", sharedvolume.Archive))
		r, err := c.RemoveDirectory(c.Context(), c.Share, name, "", sharedvolume.Delete)
		if err != nil || !r.Done || r.OnDelete != sharedvolume.Archive || !strings.HasPrefix(r.ArchivedAs, "archived-data-") || slices.Contains(seen, r.ArchivedAs) {
			c.Errorf("%+v, %v", r, err)
		}
		seen = append(seen, r.ArchivedAs)
	}
	slices.Sort(seen)
	if got := c.List(); !slices.Equal(got, seen) {
		c.Errorf("there is %v, want %v", got, seen)
	}
}

func others(c *check) {
	c.prepare()
	c.must(c.ensure("pvc-1", "gone", sharedvolume.Archive))
	c.Take("gone")
	c.want(c.ensure("pvc-1", "gone", sharedvolume.Archive), sharedvolume.ErrState, "gone")
	// The place stays the volume's: its directory may be restored.
	for _, place := range []string{"gone", "gone/inside"} {
		c.want(c.ensure("pvc-3", place, sharedvolume.Delete), sharedvolume.ErrTaken, "gone")
	}
	r, err := c.RemoveDirectory(c.Context(), c.Share, "pvc-1", "", "")
	if err != nil || !r.Done || !strings.Contains(r.Note, "gone") || r.ArchivedAs != "" {
		c.Errorf("%+v, %v", r, err)
	}
	c.must(c.ensure("pvc-2", "replaced", sharedvolume.Delete))
	c.Take("replaced")
	c.Put("replaced")
	_, err = c.RemoveDirectory(c.Context(), c.Share, "pvc-2", "", "")
	c.want(err, sharedvolume.ErrState, "left alone")
	if got := c.List(); !slices.Contains(got, "replaced") {
		c.Errorf("there is %v", got)
	}
}

func pages(c *check) {
	c.prepare()
	names := []string{"a", "a-b", "a0", "b", "pvc-1", "pvc-10", "pvc-2"}
	for _, name := range names {
		c.must(c.ensure(name, "dir-"+name, sharedvolume.Delete))
	}
	for limit := 1; limit <= len(names); limit++ {
		var got []string
		for after := ""; ; {
			list, next, err := c.ListDirectories(c.Context(), c.Share, after, limit, false)
			c.must(err)
			for _, d := range list {
				got = append(got, d.Name)
			}
			if after = next; next == "" {
				break
			}
		}
		if !slices.Equal(got, names) {
			c.Errorf("pages of %d: %v", limit, got)
		}
	}
}

func wrong(c *check) {
	c.prepare()
	for _, bad := range []string{"", "..", "../a", "/a", "a/../b", ".quarry", "a\x00"} {
		c.want(c.ensure("pvc-1", bad, sharedvolume.Delete), sharedvolume.ErrInvalid, "")
		c.want(c.ensure(bad, "data", sharedvolume.Delete), sharedvolume.ErrInvalid, "")
		_, err := c.RemoveDirectory(c.Context(), c.Share, bad, "", "")
		c.want(err, sharedvolume.ErrInvalid, "")
		c.want(c.AbandonDirectory(c.Context(), c.Share, bad), sharedvolume.ErrInvalid, "")
		s := c.Share
		s.Owner = bad
		_, err = c.GetShare(c.Context(), s, true)
		c.want(err, sharedvolume.ErrInvalid, "")
	}
	s := c.Share
	s.MountOptions = []string{"suid"}
	_, err := c.GetShare(c.Context(), s, true)
	c.want(err, sharedvolume.ErrInvalid, "suid")
	if got := c.List(); len(got) != 0 {
		c.Errorf("there is %v", got)
	}
}
