package cluster

import (
	"context"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestReconcile_recordedDisk: a disk that a GlusterNode has on record is taken by no Cluster, until the GlusterNode is gone.
func TestReconcile_recordedDisk(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb", "sdc"}})
	a := s.agents["n1"]
	var d decide.Device
	s.await("the agent reports sdb", func() string {
		var ok bool
		if d, ok = s.pool.Node("n1").Device(a.Path("sdb")); !ok {
			return "not yet"
		}
		return ""
	})
	path := v1alpha1.DevicePath("/dev/disk/by-id/of-the-server")
	n := &v1alpha1.GlusterNode{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "server"}}
	n.Spec = v1alpha1.GlusterNodeSpec{Cluster: "servers", Storage: []v1alpha1.GlusterStorage{{PVCName: "claim"}}}
	n.Spec.Devices = []v1alpha1.GlusterDevice{{Device: path, Path: path, Node: "n1", WWN: d.WWN, Serial: d.Serial, Size: d.SizeBytes, Recorded: metav1.Now()}}
	if err := s.client.Create(context.Background(), n); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.client.Delete(context.Background(), n) })
	s.add("pool", func(spec *v1alpha1.ClusterSpec) {
		spec.Devices = &v1alpha1.DeviceSelector{Paths: []v1alpha1.DevicePath{v1alpha1.DevicePath(a.Path("sdb")), v1alpha1.DevicePath(a.Path("sdc"))}}
	}, "n1")
	s.until("pool", hasCondition(ready, isFalse, v1alpha1.ReasonDeviceConflict, "is on record as a device of GlusterNode default/server"))
	s.until("pool", func(c *v1alpha1.Cluster) string {
		if got := s.disksOf("n1", string(c.UID)); !slices.Equal(got, []string{"sdc"}) {
			return "it has others than sdc"
		}
		return ""
	})
	if !a.IsEmpty("sdb") {
		t.Error("something was written on sdb")
	}
	if err := s.client.Delete(context.Background(), n); err != nil {
		t.Fatal(err)
	}
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	if got := s.disksOf("n1", string(s.get("pool").UID)); !slices.Equal(got, []string{"sdb", "sdc"}) {
		t.Errorf("disks of the group: %v", got)
	}
}
