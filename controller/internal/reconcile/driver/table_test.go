package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files again")

// TestObjects_golden shows all that is deployed for a driver.
func TestObjects_golden(t *testing.T) {
	images, err := NewImages("quarry.storage/controller:dev", "", "")
	must(t, err)
	r := &Reconciler{Namespace: "quarry-system", AgentNamespace: "quarry-agents", Images: images, Verbosity: 1}
	drivers := map[string]backend.Driver{
		"lvm": lvm.Profile.Driver, "nfs": nfs.Profile.Driver, "attaching": {Name: "attaching.quarry.storage", Deployment: "quarry-csi-attaching", Attach: true},
	}
	for name, driver := range drivers {
		t.Run(name, func(t *testing.T) {
			got, err := json.MarshalIndent([]any{csiDriver(driver), r.deployment(driver)}, "", "  ")
			must(t, err)
			got = append(got, '\n')
			path := filepath.Join("testdata", name+".golden.json")
			if *update {
				must(t, os.WriteFile(path, got, 0o600))
			}
			want, err := os.ReadFile(path)
			must(t, err)
			if !bytes.Equal(got, want) {
				t.Errorf("not as in %s; write it again with -update if that is meant:\n%s", path, cmp.Diff(string(want), string(got)))
			}
		})
	}
}

func newShare(name string) *v1alpha1.Nfs {
	return &v1alpha1.Nfs{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{v1alpha1.FinalizerTeardown}},
		Spec:       v1alpha1.NfsSpec{Server: "files.example", Path: "/export"},
	}
}

// runFor reconciles one driver.
func runFor(t *testing.T, r *Reconciler, driver string) ctrl.Result {
	t.Helper()
	result, err := r.Reconcile(context.WithoutCancel(t.Context()), ctrl.Request{NamespacedName: types.NamespacedName{Name: driver}})
	must(t, err)
	return result
}

// deployedFor returns what is deployed for a driver; nil for what is not.
func deployedFor(t *testing.T, r *Reconciler, e Entry) (*appsv1.Deployment, *storagev1.CSIDriver) {
	t.Helper()
	d, c := r.emptyDeployment(e.Profile.Driver), emptyCSIDriver(e.Profile.Driver)
	if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(d), d); apierrors.IsNotFound(err) {
		d = nil
	} else {
		must(t, err)
	}
	if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c); apierrors.IsNotFound(err) {
		c = nil
	} else {
		must(t, err)
	}
	return d, c
}

// share makes an Nfs, and sees to it that nothing is left of it.
func share(t *testing.T, r *Reconciler, name string) *v1alpha1.Nfs {
	t.Helper()
	n := newShare(name)
	must(t, r.Client.Create(t.Context(), n))
	t.Cleanup(func() {
		err := r.Client.Get(context.WithoutCancel(t.Context()), client.ObjectKeyFromObject(n), n)
		if !apierrors.IsNotFound(err) {
			must(t, err)
			remove(t, r, n)
		}
		runFor(t, r, v1alpha1.DriverNFS)
	})
	return n
}

func TestReconcile_everyDriverForItself(t *testing.T) {
	r := reconciler(t)
	withCluster(t, r)
	runFor(t, r, v1alpha1.DriverNFS)
	if d, c := deployedFor(t, r, nfs); d != nil || c != nil {
		t.Fatal("a driver is deployed that no storage uses")
	}
	// A storage of one kind may have the name of one of another kind.
	n := share(t, r, "one")
	runFor(t, r, v1alpha1.DriverNFS)
	d, c := deployedFor(t, r, nfs)
	if d == nil || c == nil {
		t.Fatal("no driver is deployed for the first Nfs")
	}
	if *c.Spec.AttachRequired || *c.Spec.StorageCapacity || *c.Spec.FSGroupPolicy != storagev1.FileFSGroupPolicy {
		t.Errorf("csi driver: %+v", c.Spec)
	}
	checkShares(t, d)

	must(t, r.Client.Delete(t.Context(), n))
	runFor(t, r, v1alpha1.DriverNFS)
	if d, c := deployedFor(t, r, nfs); d != nil || c != nil {
		t.Error("the driver outlives the last Nfs")
	}
	if d, c := deployedFor(t, r, lvm); d == nil || c == nil {
		t.Error("the other driver is gone too")
	}
}

// checkShares looks at the containers of a driver whose volumes every node reaches.
func checkShares(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	var names []string
	for _, x := range d.Spec.Template.Spec.Containers {
		names = append(names, x.Name)
	}
	if diff := cmp.Diff([]string{Driver, Provisioner, Resizer}, names); diff != "" {
		t.Errorf("containers: %s", diff)
	}
	args := containerOf(t, d, Provisioner).Args
	for _, arg := range args {
		if strings.Contains(arg, "opology") || strings.Contains(arg, "capacity") {
			t.Errorf("the provisioner has %s", arg)
		}
	}
	if !slices.Contains(args, "--extra-create-metadata") {
		t.Errorf("the provisioner does not tell of the claim: %v", args)
	}
	if args := containerOf(t, d, Driver).Args; !slices.Contains(args, "--driver="+v1alpha1.DriverNFS) {
		t.Errorf("the driver has %v", args)
	}
}

func TestReconcile_servesVolumesOfStoragesThatAreDeleted(t *testing.T) {
	r := reconciler(t)
	n := share(t, r, "one")
	v := newVolume("v-nfs")
	v.Spec.CSI.Driver = v1alpha1.DriverNFS
	must(t, r.Client.Create(t.Context(), v))
	t.Cleanup(func() { remove(t, r, v) })
	must(t, r.Client.Delete(t.Context(), n))
	if result := runFor(t, r, v1alpha1.DriverNFS); result.RequeueAfter == 0 {
		t.Error("it is not looked again")
	}
	d, _ := deployedFor(t, r, nfs)
	if d == nil {
		t.Error("nothing can delete the volumes of the Nfs that is being deleted")
	}
}

func TestReconcile_storageWithoutABackend(t *testing.T) {
	r := reconciler(t)
	c := newCluster("ceph")
	c.Spec.StorageType = v1alpha1.StorageTypeCephFS
	must(t, r.Client.Create(t.Context(), c))
	t.Cleanup(func() { remove(t, r, c) })
	for _, driver := range []string{v1alpha1.DriverLVM, v1alpha1.DriverNFS, "cephfs.quarry.storage"} {
		runFor(t, r, driver)
	}
	for _, e := range []Entry{lvm, nfs} {
		if d, c := deployedFor(t, r, e); d != nil || c != nil {
			t.Errorf("%s is deployed", e.Profile.Driver.Name)
		}
	}
	if _, err := r.State(t.Context(), "cephfs.quarry.storage"); err == nil {
		t.Error("a driver that no backend has is known")
	}
}

func TestReconcile_foreignSnapshotClassStays(t *testing.T) {
	r := reconciler(t)
	installSnapshots(t, r.Client)
	foreign := snapshotClass("other.example", v1alpha1.KindCluster, "thin", true)
	foreign.SetLabels(nil)
	must(t, r.Client.Create(t.Context(), foreign))
	c := newThinCluster()
	must(t, r.Client.Create(t.Context(), c))
	t.Cleanup(func() { leave(t, r, c) })
	run(t, r)
	if got := classes(t, r.Client); len(got) != 1 || got["thin"] != "other.example" {
		t.Errorf("classes: %v", got)
	}
}

func TestDriverOf(t *testing.T) {
	r := &Reconciler{Entries: []Entry{lvm, nfs}, Of: profileOf}
	ceph := newCluster("ceph")
	ceph.Spec.StorageType = v1alpha1.StorageTypeCephFS
	labelled := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelDriver: v1alpha1.DriverNFS}}}
	foreign := newVolume("x")
	foreign.Spec.CSI.Driver = "other.example"
	local := newVolume("y")
	local.Spec.CSI = nil
	for name, tt := range map[string]struct {
		of   client.Object
		want string
	}{
		"a Cluster":                  {newCluster("one"), v1alpha1.DriverLVM},
		"an Nfs":                     {newShare("one"), v1alpha1.DriverNFS},
		"a storage without backend":  {ceph, ""},
		"a volume":                   {newVolume("v"), v1alpha1.DriverLVM},
		"a volume of another driver": {foreign, ""},
		"a volume without a driver":  {local, ""},
		"an object of ours":          {labelled, v1alpha1.DriverNFS},
		"another object":             {&storagev1.CSIDriver{}, ""},
	} {
		var got string
		for _, q := range r.driverOf(t.Context(), tt.of) {
			got += q.Name
		}
		if got != tt.want {
			t.Errorf("%s leads to %q, want %q", name, got, tt.want)
		}
	}
	if got := r.withSnapshots(t.Context(), nil); len(got) != 1 || got[0].Name != v1alpha1.DriverLVM {
		t.Errorf("drivers with snapshots: %v", got)
	}
}
