package gluster

import (
	"testing"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/test/gd2/cluster"
	"quarry.storage/quarry/test/gd2/volume"
)

// TestPool_followsSpace: volumes take the space of a template, and it grows; one of them goes, and a node goes that has a brick of another one, which is moved first. While a node is under
// maintenance nothing is done, even if there is too little. No node is made that is not needed.
func TestPool_followsSpace(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	bounds := func(least, most string) v1alpha1.GlusterThreshold {
		return v1alpha1.GlusterThreshold{MinNodes: new(int32(1)), FreeStorageMin: quantity(least), FreeStorageMax: quantity(most)}
	}
	s.pool(5, func(c *v1alpha1.GlusterCluster) { c.Spec.NodeTemplates[4].Threshold = bounds("1500Mi", "11500Mi") })
	s.until("it runs", s.running(5))
	first := s.inZone("z4")

	s.edit(first, func(n *v1alpha1.GlusterNode) { n.Spec.DesiredState = v1alpha1.GlusterDisabled })
	s.until("it is quiesced", s.in(first, "quiesced"))
	s.editCluster(func(c *v1alpha1.GlusterCluster) { c.Spec.NodeTemplates[4].Threshold = bounds("11000Mi", "11500Mi") })
	s.passes(5)
	if sized := s.ofCluster(v1alpha1.ConditionTemplatesSized); sized.Reason != v1alpha1.ReasonSizingFrozen || len(s.nodes()) != 5 {
		t.Errorf("there are %d nodes: %+v", len(s.nodes()), sized)
	}
	s.editCluster(func(c *v1alpha1.GlusterCluster) { c.Spec.NodeTemplates[4].Threshold = bounds("1500Mi", "11500Mi") })
	s.edit(first, func(n *v1alpha1.GlusterNode) { n.Spec.DesiredState = v1alpha1.GlusterEnabled })
	s.until("it runs", s.running(5))

	s.volumeIn("x", 4200, "z2", "z4")
	s.volumeIn("w", 5000, "z3", "z4")
	s.until("it grew", s.running(6))
	s.volumeIn("y", 3800, "z3", "z4")
	second := ""
	for _, n := range s.nodes() {
		if string(n.Spec.Zone) == "z4" && n.Name != first {
			second = n.Name
		}
	}
	if s.bricksOn(second) != 1 {
		t.Fatalf("%s has %d bricks", second, s.bricksOn(second))
	}
	s.passes(10)
	made := s.names.Load()

	s.pooled(func(c *cluster.Call) *cluster.Failure {
		if _, f := volume.Stop(c, "w"); f != nil {
			return f
		}
		return volume.Delete(c, "w")
	})
	s.until("it is emptied", s.in(second, "failed"))
	s.until("it is gone", s.in(second, "gone"))
	s.passes(10)
	if n := len(s.nodes()); n != 5 || s.names.Load() != made || s.bricksOn(first) != 1 || !s.running(5)() {
		t.Errorf("there are %d nodes, and %d more were made; %s has %d bricks", n, s.names.Load()-made, first, s.bricksOn(first))
	}
	s.pooled(func(c *cluster.Call) *cluster.Failure {
		y := c.C.Volumes["y"]
		if bricks := y.Bricks(); len(bricks) != 2 || len(y.Pending[bricks[0].ID])+len(y.Pending[bricks[1].ID]) != 0 {
			t.Errorf("volume y has %d bricks, and lacks %v", len(bricks), y.Pending)
		}
		return nil
	})
}

// volumeIn makes a volume of so many MiB with a copy in each of two zones.
func (s *suite) volumeIn(name string, mebibytes uint64, zones ...string) {
	s.t.Helper()
	s.pooled(func(c *cluster.Call) *cluster.Failure {
		r := volume.CreateRequest{Name: name, Size: mebibytes << 20, Replica: len(zones)}
		r.LimitZones = zones
		if _, f := volume.Create(c, r); f != nil {
			return f
		}
		_, f := volume.Start(c, name, volume.StartRequest{})
		volume.Write(c, name, "a")
		return f
	})
}

// pooled does something through a server of the pool.
func (s *suite) pooled(do func(*cluster.Call) *cluster.Failure) {
	s.t.Helper()
	c := s.world.Begin(s.anyone("").Node)
	defer c.End()
	if f := do(c); f != nil {
		s.t.Fatal(f.Errors)
	}
}
