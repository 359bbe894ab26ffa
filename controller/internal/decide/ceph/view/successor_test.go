package view

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph/preflight"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// TestView_successorThatIsNotAble: managers and metadata servers of a host that leaves stay until another host is able to run some, whatever the reason is that it is not.
func TestView_successorThatIsNotAble(t *testing.T) {
	for _, clock := range []*preflight.Clock{{}, nil} {
		o := joined(v1alpha1.ClusterSpec{})
		o.Cluster.Spec.Hosts = []v1alpha1.HostName{"n2"}
		gone := metav1.NewTime(o.Now.Add(-time.Hour))
		o.World.Members[0].DeletionTimestamp = &gone
		o.World.Members[0].Spec.Ceph.Monitor = &v1alpha1.MemberMonitor{Name: "a", Address: "10.0.0.1"}
		m2 := &v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "files.n2"}, Spec: v1alpha1.MemberSpec{
			Of: v1alpha1.MemberOwner{Kind: v1alpha1.KindCluster, Name: "files", UID: "u"}, Node: "n2", Ceph: &v1alpha1.MemberCeph{},
		}}
		o.World.Members = append(o.World.Members, m2)
		o.World.Nodes["n2"] = backend.Node{Name: "n2", Exists: true}
		o.Nodes["n2"] = decide.Node{Agent: decide.AgentUp}
		o.Addresses["n2"] = "10.0.0.2"
		o.Machines["n2"] = preflight.Machine{MemoryBytes: 64 << 30, OS: "linux", Architecture: "amd64", Clock: clock, Problem: "the agent did not answer in time"}
		for _, k := range []string{cephname.DaemonManager, cephname.DaemonMetadata} {
			o.Workloads.Daemons = append(o.Workloads.Daemons, Workload{Kind: k, ID: "n1", Node: "n1", Ready: true})
		}
		o.Workloads.Config = bare(o).config()
		v, made, removed := New(o), 0, 0
		for _, s := range v.Whole(nil).Steps {
			switch s.Action() {
			case v1alpha1.ActionDeployDaemon:
				made++
			case v1alpha1.ActionRemoveDaemon:
				removed++
			}
		}
		if removed != 0 || (clock != nil) != (made > 0) {
			t.Errorf("clock known %t: %d made, %d removed, waits %q", clock != nil, made, removed, v.plan.waits)
		}
	}
}
