package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/controller/internal/decide/writer"
	"quarry.storage/quarry/controller/internal/pki"
	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// serve runs the CSI controller of a driver with the rights that deploy/rbac gives it, and waits until it is ready.
func serve(t *testing.T, driver string) *grpc.ClientConn {
	t.Helper()
	dir, err := os.MkdirTemp("", "csi")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	cfg, err := ParseCSI([]string{
		"--driver=" + driver, "--csi-address=" + filepath.Join(dir, "csi.sock"), "--namespace=" + namespace,
		"--metrics-address=0", "--health-address=0",
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- RunCSI(ctx, as(t, "quarry-csi"), cfg) }()
	conn, err := grpc.NewClient("unix://"+cfg.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("the CSI controller ended: %v", err)
			}
		case <-time.After(30 * time.Second):
			t.Error("the CSI controller does not end")
		}
	})
	await(t, "the driver is ready", func() string {
		r, err := csi.NewIdentityClient(conn).Probe(ctx, &csi.ProbeRequest{})
		if err != nil {
			return err.Error()
		}
		if !r.GetReady().GetValue() {
			return "not yet"
		}
		return ""
	})
	info, err := csi.NewIdentityClient(conn).GetPluginInfo(ctx, &csi.GetPluginInfoRequest{})
	if err != nil || info.GetName() != driver {
		t.Errorf("%v, %v", info, err)
	}
	return conn
}

func TestRunCSI_everyDriverWithItsOwnRights(t *testing.T) {
	admin := apitest.Client(t)
	install(t)
	keeper := &pki.Keeper{Client: clientOf(t, as(t, "quarry-controller")), Namespace: namespace, Now: time.Now}
	if err := keeper.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name := range servable {
		t.Run(name, func(t *testing.T) {
			c := csi.NewControllerClient(serve(t, name))
			if _, err := c.ListVolumes(t.Context(), &csi.ListVolumesRequest{}); err != nil {
				t.Error(err)
			}
			refusesTwins(t, admin, c, name)
			if name == v1alpha1.DriverISCSI {
				writesItsLeases(t)
			}
			if name == v1alpha1.DriverNFS {
				findsPersistentVolumes(t, admin, c)
			}
			if name == v1alpha1.DriverLVM {
				refusesTwinSnapshots(t, admin, c)
			}
		})
	}
}

// writesItsLeases keeps the record of a shared group with the rights of the driver.
func writesItsLeases(t *testing.T) {
	t.Helper()
	const uid = "6d1f8f3e-0000-4000-8000-000000000007"
	k := san.KubernetesLeases{Client: clientOf(t, as(t, "quarry-csi")), Namespace: namespace, Now: time.Now}
	first := writer.Record{Epoch: 1, Writer: "n1", Taken: san.ProcessName(san.RoleCSI, "pod")}
	version, err := k.Store(t.Context(), uid, first, "")
	if err == nil {
		_, err = k.Store(t.Context(), uid, first.Idle(), version)
	}
	if r, _, loadErr := k.Load(t.Context(), uid); err != nil || loadErr != nil || r.Taken != "" || r.Epoch != 1 {
		t.Errorf("%+v, %v, %v", r, err, loadErr)
	}
}

// createPV makes a PersistentVolume that goes with the test: one that stays would keep its driver deployed.
func createPV(t *testing.T, admin client.Client, v *corev1.PersistentVolume) {
	t.Helper()
	if err := admin.Create(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Kubernetes protects volumes with a finalizer, and nobody is here to remove it.
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`))
		if err := errors.Join(admin.Patch(context.Background(), v, patch), admin.Delete(context.Background(), v)); err != nil {
			t.Error(err)
		}
	})
}

// refusesTwins deletes a volume that two PersistentVolumes stand for, as the real cache knows them.
func refusesTwins(t *testing.T, admin client.Client, c csi.ControllerClient, driver string) {
	t.Helper()
	const name = "pvc-11111111-2222-4333-8444-666666666666"
	handle, known := map[string]string{
		v1alpha1.DriverNFS: "6d1f8f3e-0000-4000-8000-000000000001/" + name, v1alpha1.DriverLVM: "n1/quarry-pool/" + name,
		v1alpha1.DriverISCSI:  "EJOuKj-cD6h-GGXp-49EQ-tSM8-Xxrl-JtVpvn/" + name,
		v1alpha1.DriverCephFS: "6d1f8f3e-0000-4000-8000-000000000001/quarry/quarry/" + name,
	}[driver]
	if !known {
		t.Fatalf("no handle of a volume of %s: add one", driver)
	}
	for _, pv := range []string{"twin-1." + driver, "twin-2." + driver} {
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: pv}}
		v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("3Gi")}
		v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}
		createPV(t, admin, v)
	}
	await(t, "the refusal", func() string {
		_, err := c.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: handle})
		if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "PersistentVolumes twin-1."+driver+", twin-2."+driver+" all stand for") {
			return fmt.Sprintf("deleting a volume that two stand for: %v", err)
		}
		return ""
	})
}

// contents is the resource of VolumeSnapshotContents, and contentKind their kind.
const contents = "volumesnapshotcontents"

var contentKind = schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshotContent"}

// refusesTwinSnapshots deletes a snapshot in a cluster without the snapshot API, and one that two VolumeSnapshotContents stand for as soon
// as the API is there.
func refusesTwinSnapshots(t *testing.T, admin client.Client, c csi.ControllerClient) {
	t.Helper()
	const handle = "n1/quarry-pool/snap-11111111-2222-4333-8444-777777777777"
	remove := func() error {
		_, err := c.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: handle})
		return err
	}
	if err := remove(); status.Code(err) == codes.Internal || status.Code(err) == codes.FailedPrecondition {
		t.Errorf("without the snapshot API: %v", err)
	}
	apitest.Define(t, admin, contents, contentKind)
	for _, name := range []string{"twin-1", "twin-2"} {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"driver": v1alpha1.DriverLVM, "source": map[string]any{"snapshotHandle": handle},
		}}}
		o.SetGroupVersionKind(contentKind)
		o.SetName(name)
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "the refusal", func() string {
		err := remove()
		if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "VolumeSnapshotContents twin-1, twin-2 all stand for") {
			return fmt.Sprintf("deleting a snapshot that two stand for: %v", err)
		}
		return ""
	})
}

// findsPersistentVolumes asks for a volume that only its PersistentVolume knows, by way of the index of the real cache.
func findsPersistentVolumes(t *testing.T, admin client.Client, c csi.ControllerClient) {
	t.Helper()
	ctx := t.Context()
	id := sharedvolume.ID{Owner: "6d1f8f3e-0000-4000-8000-000000000001", Name: "pvc-11111111-2222-4333-8444-555555555555"}
	a := sharedvolume.Attributes{Server: "nas", Path: "/export", Directory: id.Name, OnDelete: sharedvolume.Delete}
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: id.Name}}
	v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("3Gi")}
	v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: v1alpha1.DriverNFS, VolumeHandle: id.String(), VolumeAttributes: a.Map()}
	createPV(t, admin, v)
	await(t, "the volume", func() string {
		r, err := c.ControllerGetVolume(ctx, &csi.ControllerGetVolumeRequest{VolumeId: id.String()})
		if err != nil {
			return err.Error()
		}
		if r.GetVolume().GetCapacityBytes() != 3<<30 || r.GetVolume().GetVolumeContext()[sharedvolume.KeyDirectory] != id.Name {
			t.Errorf("volume is %v", r)
		}
		return ""
	})
	_, err := c.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: id.String()})
	if status.Code(err) != codes.Unavailable {
		t.Errorf("without an agent: %v", err)
	}
}
