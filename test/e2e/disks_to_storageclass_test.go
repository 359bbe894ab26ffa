//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestDisksToStorageClass follows the first journey: raw disks of three nodes become a StorageClass, a host is taken out, and
// comes back.
func TestDisksToStorageClass(t *testing.T) {
	const name = "journey"
	create(t, newCluster(name, nodes...))
	c := waitReady(t, name, time.Minute)

	if devices := devicesOf(t, name); len(devices) != len(nodes) || c.Status.DeviceCount != int32(2*len(nodes)) {
		t.Errorf("devices %v, %d of them; want two on each of %v", devices, c.Status.DeviceCount, nodes)
	}
	checkFreshMembers(t, name)
	if total := c.Status.Capacity.Total.Total; total == nil || total.Cmp(resource.MustParse("11Gi")) < 0 {
		t.Errorf("capacity %v, want nearly 12Gi", total)
	}
	checkStorageClass(t, name)
	for _, node := range nodes {
		checkGroupOnDisk(t, node, c)
		checkLabel(t, node, string(v1alpha1.StorageTypeLVM))
	}
	table := lab(t, "kubectl", "get", "clusters", name)
	for _, column := range []string{"TYPE", "PHASE", "HOSTS", "DEVICES", "CAPACITY", "USED", "AGE", "lvm", "Running"} {
		if !strings.Contains(table, column) {
			t.Errorf("kubectl get clusters does not show %s:\n%s", column, table)
		}
	}

	setHosts(t, name, "n1", "n2")
	waitMembers(t, name, "n1", "n2")
	checkLabel(t, "n3", "")
	if out := onNode(t, "n3", "vgs --foreign --noheadings -o vg_name"); strings.Contains(out, v1alpha1.DefaultVolumeGroupPrefix+name) {
		t.Errorf("the group is still on n3: %s", out)
	}
	setHosts(t, name, nodes...)
	waitMembers(t, name, nodes...)
}

// checkFreshMembers checks the Members of a Cluster that has just been made, and what kubectl shows of them.
func checkFreshMembers(t *testing.T, name string) {
	t.Helper()
	members, err := membersOf(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		if m.Status.State != "online" || !m.Status.Flags.IsUp || m.Status.Flags.HasData || m.Status.Message != "" {
			t.Errorf("member %+v, want online and empty", m)
		}
		if m.Spec.Group == nil || m.Spec.Group.UUID == "" || len(m.Spec.Group.Forming) != 0 || len(m.OwnerReferences) != 0 {
			t.Errorf("member %s records %+v, owners %v", m.Name, m.Spec.Group, m.OwnerReferences)
		}
	}
	table := lab(t, "kubectl", "get", "qm")
	for _, column := range []string{"OF", "NODE", "STATE", "DEVICES", "SIZE", "FREE", "VOLUMES", "MESSAGE", "AGE", "journey", "online"} {
		if !strings.Contains(table, column) {
			t.Errorf("kubectl get qm does not show %s:\n%s", column, table)
		}
	}
}

func checkStorageClass(t *testing.T, name string) {
	t.Helper()
	class := &storagev1.StorageClass{}
	if err := kube.Get(t.Context(), client.ObjectKey{Name: name}, class); err != nil {
		t.Fatal(err)
	}
	if class.Provisioner != v1alpha1.DriverLVM || class.VolumeBindingMode == nil ||
		*class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer || class.AllowVolumeExpansion == nil || !*class.AllowVolumeExpansion {
		t.Errorf("StorageClass %+v", class)
	}
}

// checkGroupOnDisk asks the node's own LVM, not ours.
func checkGroupOnDisk(t *testing.T, node string, c *v1alpha1.Cluster) {
	t.Helper()
	out := strings.Fields(onNode(t, node, "vgs --foreign --noheadings --separator ' ' -o vg_name,pv_count,lv_count,vg_tags"))
	want := []string{v1alpha1.DefaultVolumeGroupPrefix + c.Name, "2", "0", v1alpha1.TagCluster + string(c.UID)}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("groups on %s (-want +got):\n%s", node, diff)
	}
}

func checkLabel(t *testing.T, node, want string) {
	t.Helper()
	n := &corev1.Node{}
	if err := kube.Get(t.Context(), client.ObjectKey{Name: node}, n); err != nil {
		t.Fatal(err)
	}
	if got := n.Labels[v1alpha1.LabelStorageType]; got != want {
		t.Errorf("label of %s is %q, want %q", node, got, want)
	}
}

func setHosts(t *testing.T, name string, hosts ...string) {
	t.Helper()
	update(t, name, func(c *v1alpha1.Cluster) { c.Spec.Hosts = newCluster(name, hosts...).Spec.Hosts })
}

// update changes a Cluster as a user with kubectl does: again when somebody else was faster.
func update(t *testing.T, name string, change func(*v1alpha1.Cluster)) {
	t.Helper()
	eventually(t, 10*time.Second, "Cluster "+name+" is changed", func(ctx context.Context) error {
		c, err := getCluster(ctx, name)
		if err != nil {
			return err
		}
		change(c)
		return kube.Update(ctx, c)
	})
}

// waitMembers waits until exactly these hosts are members, all online, and the Cluster is Running.
func waitMembers(t *testing.T, name string, want ...string) {
	t.Helper()
	eventually(t, time.Minute, fmt.Sprintf("members are %v", want), func(ctx context.Context) error {
		c, err := getCluster(ctx, name)
		if err != nil {
			return err
		}
		members, err := membersOf(ctx, name)
		if err != nil {
			return err
		}
		var got []string
		var wrong error
		for _, m := range members {
			got = append(got, string(m.Spec.Node))
			if m.Status.State != "online" {
				wrong = errors.Join(wrong, fmt.Errorf("%s is %s: %s", m.Spec.Node, m.Status.State, m.Status.Message))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			wrong = errors.Join(wrong, errors.New(diff))
		}
		if c.Status.Phase != v1alpha1.PhaseRunning {
			wrong = errors.Join(wrong, fmt.Errorf("phase %s: %s", c.Status.Phase, c.Status.Message))
		}
		return wrong
	})
}
