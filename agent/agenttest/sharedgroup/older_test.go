package sharedgroup

import (
	"testing"

	"quarry.storage/quarry/pkg/sharedlun"
)

// TestMap_olderGroup: a node to which the target shows an earlier state of the LUN, as where one of its portals leads to a replica that lags, maps nothing by it, even if the volume was the node's own then:
// what it shows may be older, too, and what is written there is lost.
func TestMap_olderGroup(t *testing.T) {
	c, l, a, _ := started(t)
	v := c.shown()
	before := l.Group()
	c.must(a.Unmap(t.Context(), c.ref, v.UUID, c.group.Sequence, false))
	for _, change := range []sharedlun.Change{
		{Leave: c.hold("v", "n1")}, c.release("v"), {Hold: c.hold("v", "n2")}, {Leave: c.hold("v", "n2")}, {Release: &sharedlun.Release{Hold: *c.hold("v", "n2")}}, {Hold: c.hold("v", "n1")},
	} {
		c.change(change)
	}
	now := l.Group()
	l.Restore(before)
	_, err := a.Map(t.Context(), c.ref, c.cred(a), v, c.group.Sequence)
	c.want(err, sharedlun.ErrUnread, "older")
	if all := c.mappings(); len(all) > 0 {
		t.Errorf("%+v", all)
	}
	l.Restore(now)
	_, err = a.Map(t.Context(), c.ref, c.cred(a), v, c.group.Sequence)
	c.must(err)
}
