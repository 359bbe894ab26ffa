package nfs

import (
	"slices"
	"strings"

	"quarry.storage/quarry/pkg/sharedvolume"
)

// forgotten: without its records an owner that has volumes is refused, and a volume counts as gone only if nothing is at its place.
func forgotten(c *check) {
	c.prepare()
	held := c.Share
	held.HasVolumes = true
	seen, err := c.GetShare(c.Context(), held, true)
	if err != nil || seen.Problem != nil {
		c.Fatalf("with records: %+v, %v", seen, err)
	}
	for _, name := range []string{"a", "b", "c"} {
		c.must(c.ensure(name, "dir-"+name, sharedvolume.Delete))
	}
	c.Forget()
	for _, prepare := range []bool{true, false, true} {
		seen, err := c.GetShare(c.Context(), held, prepare)
		if err != nil || seen.Problem == nil || seen.Problem.Reason != sharedvolume.ReasonNotPrepared {
			c.Errorf("prepare %t: %+v, %v", prepare, seen, err)
		}
	}
	remove := func(name, directory string, p sharedvolume.Policy) error {
		_, err := c.RemoveDirectory(c.Context(), held, name, directory, p)
		return err
	}
	c.wantReason(remove("a", "dir-a", ""), sharedvolume.ReasonNotPrepared)
	// Somebody begins the records anew.
	seen, err = c.GetShare(c.Context(), c.Share, true)
	if err != nil || seen.Problem != nil {
		c.Fatalf("%+v, %v", seen, err)
	}
	for _, p := range []sharedvolume.Policy{"", sharedvolume.Delete, sharedvolume.Archive} {
		c.want(remove("a", "dir-a", p), sharedvolume.ErrState, "dir-a")
	}
	c.must(remove("b", "dir-b", sharedvolume.Retain))
	c.Take("dir-c")
	c.must(remove("c", "dir-c", sharedvolume.Delete))
	// What another volume has made at the place since is that one's.
	c.must(c.ensure("d", "dir-c", sharedvolume.Delete))
	c.must(remove("c", "dir-c", sharedvolume.Delete))
	if got := c.List(); !slices.Equal(got, []string{"dir-a", "dir-b", "dir-c"}) {
		c.Errorf("there is %v", got)
	}
}

// checked: a list that checks names the directories that cannot be used, and one that does not names none.
func checked(c *check) {
	c.prepare()
	for _, name := range []string{"a", "b", "c"} {
		c.must(c.ensure(name, "dir-"+name, sharedvolume.Delete))
	}
	c.Take("dir-b")
	c.Take("dir-c")
	c.Put("dir-c")
	for _, look := range []bool{true, false} {
		list, _, err := c.ListDirectories(c.Context(), c.Share, "", 10, look)
		c.must(err)
		for i, want := range []string{"", "dir-b", "dir-c"} {
			if got := list[i].Problem; (got == "") != (want == "" || !look) || look && !strings.Contains(got, want) {
				c.Errorf("check %t: %s: %q", look, list[i].Name, got)
			}
		}
	}
}
