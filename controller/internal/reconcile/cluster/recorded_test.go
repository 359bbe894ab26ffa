package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/kube"
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

// unreadable is a client that lists no GlusterNodes, as without the right to.
func unreadable(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if _, is := list.(*v1alpha1.GlusterNodeList); is {
			return errors.New("connection refused")
		}
		return c.List(ctx, list, opts...)
	}})
}

// TestReconcile_unreadKeepsApproval: while nobody knows which disks are on record, a step that takes one is away. An approval that comes meanwhile, and one that came before, are neither used up nor
// dropped, and the step is taken once the records can be read.
func TestReconcile_unreadKeepsApproval(t *testing.T) {
	for name, at := range map[string]func(s *suite, c *v1alpha1.Cluster){
		"on the Cluster": func(s *suite, c *v1alpha1.Cluster) { s.approve(c.Status.Plan.Digest) },
		"on the Member": func(s *suite, _ *v1alpha1.Cluster) {
			m := s.member("pool", "n1")
			if m.Status.Plan == nil {
				t.Fatal("the plan is gone")
			}
			metav1.SetMetaDataAnnotation(&m.ObjectMeta, v1alpha1.AnnotationApprove, m.Status.Plan.Digest)
			if err := s.client.Update(context.Background(), m); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t, map[string][]string{"n1": {"sdb", "sdc"}})
			a := s.agents["n1"]
			a.Format("sdc", "ext4", "old", "u-1")
			s.add("pool", wipeOf(a.Path("sdc"), ""), "n1")
			c := s.until("pool", hasCondition(v1alpha1.ConditionPlanApproved, isFalse, v1alpha1.ReasonApprovalRequired))
			s.drain()
			s.restartController()
			s.r.Records, s.r.Recorded = unreadable(s.client), unreadable(s.client)
			for range 3 {
				if err := s.reconcile("pool"); err != nil {
					t.Fatal(err)
				}
			}
			at(s, c)
			for range 4 {
				result, err := s.r.Reconcile(context.Background(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "pool"}})
				if err != nil || result.RequeueAfter == 0 || result.RequeueAfter > kube.UntilBlind {
					t.Errorf("it is looked at again after %v, %v", result.RequeueAfter, err)
				}
			}
			c = s.get("pool")
			m := s.member("pool", "n1")
			if c.Annotations[v1alpha1.AnnotationApprove] == "" && m.Annotations[v1alpha1.AnnotationApprove] == "" || m.Status.Plan == nil || a.IsEmpty("sdc") {
				t.Fatalf("the approval is gone, or was carried out (%t): %v, %v, %+v; %q", a.IsEmpty("sdc"), c.Annotations, m.Annotations, m.Status.Plan, s.drain())
			}
			s.restartController()
			c = s.until("pool", hasPhase(v1alpha1.PhaseRunning))
			if got := s.disksOf("n1", string(c.UID)); !slices.Equal(got, []string{"sdb", "sdc"}) {
				t.Errorf("disks of the group: %v", got)
			}
		})
	}
}

// approveRemovals approves the plan of each Member that is about the removal of its group alone.
func (s *suite) approveRemovals() {
	s.t.Helper()
	var all v1alpha1.MemberList
	if err := s.client.List(context.Background(), &all); err != nil {
		s.t.Fatal(err)
	}
	for _, m := range all.Items {
		p := m.Status.Plan
		if p == nil || p.Approved || len(p.Steps) != 1 || p.Steps[0].Action != v1alpha1.ActionRemoveVolumeGroup {
			continue
		}
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, v1alpha1.AnnotationApprove, p.Digest)
		if err := s.client.Update(context.Background(), &m); err != nil {
			s.t.Fatal(err)
		}
	}
}

// TestReconcile_unreadRemoves: while nobody knows which disks are on record, a Cluster whose plan waits for approval is removed all the same, and so is one of its hosts: nothing is taken for that.
func TestReconcile_unreadRemoves(t *testing.T) {
	for name, mode := range map[string]v1alpha1.Approval{"automatic": v1alpha1.ApprovalAutomatic, "manual": v1alpha1.ApprovalManual} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t, map[string][]string{"n1": {"sdb", "sdc"}, "n2": {"sdb", "sdc"}})
			for _, host := range []string{"n1", "n2"} {
				s.agents[host].Format("sdc", "ext4", "old", "u-1")
			}
			s.add("pool", func(spec *v1alpha1.ClusterSpec) {
				spec.RemovalDelay = &metav1.Duration{}
				spec.Devices = &v1alpha1.DeviceSelector{Wipe: []v1alpha1.WipeConsent{
					{Host: "n1", Path: v1alpha1.DevicePath(s.agents["n1"].Path("sdc"))}, {Host: "n2", Path: v1alpha1.DevicePath(s.agents["n2"].Path("sdc"))},
				}}
			}, "n1", "n2")
			s.until("pool", hasCondition(v1alpha1.ConditionPlanApproved, isFalse, v1alpha1.ReasonApprovalRequired))
			s.until("pool", func(c *v1alpha1.Cluster) string {
				if len(s.disksOf("n1", string(c.UID))) != 1 || len(s.disksOf("n2", string(c.UID))) != 1 {
					return "the clean disks are not taken"
				}
				return ""
			})
			s.edit(func(c *v1alpha1.Cluster) { c.Spec.Approval = mode })
			s.drain()
			s.restartController()
			s.r.Records, s.r.Recorded = unreadable(s.client), unreadable(s.client)
			s.edit(func(c *v1alpha1.Cluster) { c.Spec.Hosts = []v1alpha1.HostName{"n1"} })
			s.until("pool", func(c *v1alpha1.Cluster) string {
				s.approveRemovals()
				if got := s.disksOf("n2", string(c.UID)); len(got) > 0 {
					return "n2 has its group still: " + c.Status.Message
				}
				return ""
			})
			uid := string(s.get("pool").UID)
			s.deleteCluster("pool")
			s.await("the Cluster is gone", func() string {
				s.approveRemovals()
				err := errors.Join(s.reconcile("pool"), s.client.Get(context.Background(), types.NamespacedName{Name: "pool"}, &v1alpha1.Cluster{}))
				if apierrors.IsNotFound(err) {
					return ""
				}
				return fmt.Sprint("it is there: ", err)
			})
			if got := s.disksOf("n1", uid); len(got) > 0 || s.agents["n1"].IsEmpty("sdc") || s.agents["n2"].IsEmpty("sdc") {
				t.Errorf("%v are left, or a disk was wiped that nobody said yes to", got)
			}
		})
	}
}
