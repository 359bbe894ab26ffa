package sharedgroup

import "testing"

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
