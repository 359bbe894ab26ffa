package driver

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestMain(m *testing.M) { apitest.Main(m) }

const namespace = "default"

func reconciler(t *testing.T) *Reconciler {
	t.Helper()
	images, err := NewImages("quarry.storage/controller:dev", "", "")
	if err != nil {
		t.Fatal(err)
	}
	return &Reconciler{Client: apitest.Client(t), Namespace: namespace, Images: images, Entries: []Entry{lvm, nfs}, Of: profileOf}
}

// Two backends as they differ most: volumes on the disks of nodes, and volumes that every node reaches.
var (
	lvm = Entry{
		Profile: backend.Profile{Type: v1alpha1.StorageTypeLVM, Driver: backend.Driver{
			Name: v1alpha1.DriverLVM, Deployment: "quarry-csi-lvm", Topology: true, Capacity: true, Snapshots: true,
		}},
		Snapshots: func(s v1alpha1.Storage) bool {
			c, ok := s.(*v1alpha1.Cluster)
			return ok && c.Spec.LVM != nil && c.Spec.LVM.ThinPool != nil
		},
	}
	nfs = Entry{Profile: backend.Profile{Driver: backend.Driver{Name: v1alpha1.DriverNFS, Deployment: "quarry-csi-nfs"}}}
)

func profileOf(s v1alpha1.Storage) (backend.Profile, bool) {
	switch s := s.(type) {
	case *v1alpha1.Cluster:
		return lvm.Profile, s.Spec.StorageType == v1alpha1.StorageTypeLVM
	case *v1alpha1.Nfs:
		return nfs.Profile, true
	}
	return backend.Profile{}, false
}

func run(t *testing.T, r *Reconciler) {
	t.Helper()
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: v1alpha1.DriverLVM}}); err != nil {
		t.Fatal(err)
	}
}

func newCluster(name string) *v1alpha1.Cluster {
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{v1alpha1.FinalizerTeardown}}}
	c.Spec.StorageType, c.Spec.Hosts = v1alpha1.StorageTypeLVM, []v1alpha1.HostName{"n1"}
	return c
}

func newVolume(name string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: v1alpha1.DriverLVM, VolumeHandle: name},
			},
		},
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func deployed(t *testing.T, r *Reconciler) (*appsv1.Deployment, *storagev1.CSIDriver) {
	t.Helper()
	d, c := &appsv1.Deployment{}, &storagev1.CSIDriver{}
	err := r.Client.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: "quarry-csi-lvm"}, d)
	if apierrors.IsNotFound(err) {
		d = nil
	} else {
		must(t, err)
	}
	err = r.Client.Get(t.Context(), types.NamespacedName{Name: v1alpha1.DriverLVM}, c)
	if apierrors.IsNotFound(err) {
		c = nil
	} else {
		must(t, err)
	}
	return d, c
}

// remove takes the finalizers off and deletes.
func remove(t *testing.T, r *Reconciler, o client.Object) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	must(t, r.Client.Get(ctx, client.ObjectKeyFromObject(o), o))
	o.SetFinalizers(nil)
	must(t, r.Client.Update(ctx, o))
	must(t, client.IgnoreNotFound(r.Client.Delete(ctx, o)))
}

func TestReconcile_deploysForTheFirstAndRemovesWithTheLast(t *testing.T) {
	r := reconciler(t)
	run(t, r)
	if d, c := deployed(t, r); d != nil || c != nil {
		t.Fatal("a driver is deployed, and no Cluster exists")
	}
	one := newCluster("one")
	must(t, r.Client.Create(t.Context(), one))
	run(t, r)
	d, c := deployed(t, r)
	if d == nil || c == nil {
		t.Fatal("no driver is deployed for the first Cluster")
	}
	if *c.Spec.AttachRequired || !*c.Spec.StorageCapacity || *c.Spec.FSGroupPolicy != storagev1.FileFSGroupPolicy {
		t.Errorf("csi driver: %+v", c.Spec)
	}
	var names []string
	for _, x := range d.Spec.Template.Spec.Containers {
		names = append(names, x.Name+"="+x.Image)
	}
	if got := fmt.Sprint(names); !strings.Contains(got, "driver=quarry.storage/controller:dev csi-provisioner=") || len(names) != 4 {
		t.Errorf("containers: %v", names)
	}
	run(t, r)
	if again, _ := deployed(t, r); again.ResourceVersion != d.ResourceVersion {
		t.Error("the Deployment was written, and nothing changed")
	}

	v := newVolume("v1")
	must(t, r.Client.Create(t.Context(), v))
	must(t, r.Client.Delete(t.Context(), one))
	run(t, r)
	if d, _ := deployed(t, r); d == nil {
		t.Fatal("the driver is removed while a volume needs it")
	}
	remove(t, r, v)
	run(t, r)
	if d, c := deployed(t, r); d != nil || c != nil {
		t.Error("the driver outlives the last volume of the last Cluster")
	}
	remove(t, r, one)
}

func TestReconcile_leavesForeignObjectsAlone(t *testing.T) {
	r := reconciler(t)
	foreign := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DriverLVM}}
	must(t, r.Client.Create(t.Context(), foreign))
	run(t, r)
	if _, c := deployed(t, r); c == nil {
		t.Error("a CSIDriver without our label was deleted")
	}
	remove(t, r, foreign)
}

func TestStateOf(t *testing.T) {
	for name, tt := range map[string]struct {
		status        appsv1.DeploymentStatus
		ready, failed bool
	}{
		"new":       {},
		"available": {status: appsv1.DeploymentStatus{AvailableReplicas: 1}, ready: true},
		"no progress": {status: appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Message: "deadline",
		}}}, failed: true},
		"no pods": {status: appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "quota",
		}}}, failed: true},
		"new version stuck": {status: appsv1.DeploymentStatus{AvailableReplicas: 1, Conditions: []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Message: "deadline",
		}}}, ready: true},
	} {
		t.Run(name, func(t *testing.T) {
			got := stateOf(&appsv1.Deployment{Status: tt.status})
			if !got.Exists || got.Ready != tt.ready || (got.Failed != "") != tt.failed {
				t.Errorf("%+v", got)
			}
		})
	}
}
