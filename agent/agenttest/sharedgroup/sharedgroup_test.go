package sharedgroup

import (
	"testing"

	"quarry.storage/quarry/pkg/sharedlun"
)

func model(t *testing.T) (*LUN, *Node, *Node) {
	san := NewSAN()
	l := san.AddLUN("lun1", 500*mib)
	l.Reserve(0xa, 0xb)
	return l, san.AddNode(t, 0xa), san.AddNode(t, 0xb)
}

func TestContract_model(t *testing.T) {
	Contract(t, func(t *testing.T) Site {
		l, a, b := model(t)
		return Site{
			A: a, B: b, Lun: l.Identity(), Soil: func() { l.Soil("The device carries an ext4 filesystem.") }, Swap: func() { l.Swap("other") },
			Preempt: l.Preempt,
		}
	})
}

// TestService_saysThatItChanges: whoever watches the node knows of each change while it is made, and of none afterwards.
func TestService_saysThatItChanges(t *testing.T) {
	l, n, other := model(t)
	points := map[point]int{}
	n.mu.Lock()
	n.fault = func(p point) error {
		if points[p]++; n.changing.Load() == 0 {
			t.Errorf("at point %d nobody was told of a change", p)
		}
		return nil
	}
	n.mu.Unlock()
	c := &check{T: t, Site: Site{A: n, B: other, Lun: l.Identity()}, ref: sharedlun.Ref{Lun: l.Identity(), OwnerUID: contractOwner}, epoch: 1}
	v := c.mapped()
	c.must(n.Unmap(t.Context(), c.ref, v.UUID, c.group.Sequence, false))
	if left := n.changing.Load(); left != 0 || points[beforeWrite] == 0 || points[deviceStep] == 0 {
		t.Errorf("%d changes have no end; %v", left, points)
	}
}
