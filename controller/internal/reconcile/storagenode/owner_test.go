package storagenode

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// manage runs the reconciler as the controller does, until the end of the test.
func (s *suite) manage(changed <-chan string) {
	t := s.t
	t.Helper()
	mgr, err := ctrl.NewManager(apitest.Config(t), ctrl.Options{
		Scheme: apitest.Scheme(t), Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &Reconciler{Client: mgr.GetClient(), Records: mgr.GetAPIReader(), Pool: s.pool, Namespaces: []string{namespace}, Port: s.r.Port, Iscsi: s.r.Iscsi}
	if err := r.SetupWithManager(ctx, mgr, mgr.GetCache(), changed); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestManager_devicesOfAStorage checks that a storage that comes or goes changes what is said of devices.
func TestManager_devicesOfAStorage(t *testing.T) {
	s := newSuite(t)
	changed := make(chan string)
	s.manage(changed)
	until := func(what string, ok func(*v1alpha1.StorageNode) bool) *v1alpha1.StorageNode {
		t.Helper()
		await(t, what, func() bool { sn := s.get(); return sn != nil && ok(sn) })
		return s.get()
	}
	verdict := func(want string) func(*v1alpha1.StorageNode) bool {
		return func(sn *v1alpha1.StorageNode) bool {
			return len(sn.Status.Devices) == 2 && sn.Status.Devices[0].Verdict == want
		}
	}

	s.startPod()
	await(t, "the agent answers", func() bool { return s.pool.Node("n1").Up() })
	changed <- "n1"
	until("a device is available", verdict("available"))

	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "fast"}}
	c.Spec.StorageType, c.Spec.Hosts = v1alpha1.StorageTypeLVM, []v1alpha1.HostName{"n1"}
	s.create(c)
	node := s.pool.Node("n1")
	if err := s.pool.EnsureVolumeGroup(t.Context(), "n1", decide.GroupRef{Name: "quarry-fast", Owner: string(c.UID)}, node.Devices[:1]); err != nil {
		t.Fatal(err)
	}
	await(t, "the device is reported with its owner", func() bool { return s.pool.Node("n1").Devices[0].OwnerUID != "" })
	changed <- "n1"
	sn := until("the device is in use", verdict("in use by Cluster fast"))
	if d := sn.Status.Devices[0]; d.InUseBy != "Cluster fast" || d.Available || len(d.Refusals) != 0 || d.VolumeGroup != "quarry-fast" {
		t.Errorf("%+v", d)
	}
	if g := sn.Status.Groups; len(g) != 1 || g[0].Owner != "Cluster fast" || g[0].UUID == "" || sn.Status.GroupCount != 1 || sn.Status.InUseCount != 1 {
		t.Errorf("%+v", sn.Status)
	}

	if err := s.client.Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	sn = until("the Cluster is gone", verdict("in use by a Cluster with UID "+string(c.UID)+", which does not exist any more"))
	if !strings.Contains(sn.Status.Groups[0].Owner, "does not exist any more") {
		t.Errorf("%+v", sn.Status.Groups)
	}
}

// TestManager_lunOfAnIscsi checks that a disk is in use as soon as a Member has it on record as its LUN, and free again once the Member is gone: the agent reports nothing new then.
func TestManager_lunOfAnIscsi(t *testing.T) {
	s := newSuite(t)
	s.r.Iscsi = func(d decide.Device) string {
		var all v1alpha1.MemberList
		if err := s.client.List(t.Context(), &all); err != nil || len(all.Items) == 0 || d.KernelName != "sda" {
			return ""
		}
		return "Iscsi san"
	}
	changed := make(chan string)
	s.manage(changed)
	until := func(want string) {
		t.Helper()
		await(t, want, func() bool {
			sn := s.get()
			return sn != nil && len(sn.Status.Devices) == 2 && sn.Status.Devices[0].Verdict == want
		})
	}
	s.startPod()
	await(t, "the agent answers", func() bool { return s.pool.Node("n1").Up() })
	changed <- "n1"
	until("available")
	m := &v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "san.n1"}}
	m.Spec.Of, m.Spec.Node = v1alpha1.MemberOwner{Kind: v1alpha1.KindIscsi, Name: "san", UID: "u1"}, "n1"
	m.Spec.Lun = &v1alpha1.MemberLun{WWID: "naa.6001405", Serial: "A", Size: 1 << 30}
	s.create(m)
	until("in use by Iscsi san")
	if err := s.client.Delete(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	until("available")
}
