package iscsi

import (
	"testing"

	"quarry.storage/quarry/pkg/sharedlun"
)

// TestCovers_session: a path of a session that somebody made anew has no key, even if its device has the same name.
func TestCovers_session(t *testing.T) {
	l := sharedlun.Lun{Paths: []sharedlun.Path{{Portal: "p", Device: "sdb", Session: 1, Up: true}}}
	before := paths(l)
	if !covers(before, l) {
		t.Errorf("%s does not cover itself", before)
	}
	l.Paths[0].Session = 2
	if covers(before, l) {
		t.Errorf("%s covers %s", before, paths(l))
	}
}
