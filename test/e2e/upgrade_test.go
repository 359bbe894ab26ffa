//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/systemid"
)

// Names of what test/upgrade/seed makes.
const (
	seedName     = "upgrade-seed"
	seededThin   = "upgraded-thin"
	seededLinear = "upgraded-linear"
)

var seededClusters = []string{seededThin, seededLinear}

// TestMembersForExistingClusters looks at what became of the storage of the version before Members: installed, in use, and upgraded while
// pods write. test/upgrade/seed makes it. UPGRADE_SEEDED says that it has to be there.
func TestMembersForExistingClusters(t *testing.T) {
	disks, upgraded := seeded(t)
	t.Run("Members are made and their groups are recorded", func(t *testing.T) { checkAdopted(t, disks) })
	t.Run("StorageNodes are of the new form", checkStorageNodes)
	t.Run("a host that was being removed leaves anew", func(t *testing.T) { checkLeavesAnew(t, upgraded) })
	t.Run("groups come to name their node, and nothing else changes on any disk", func(t *testing.T) { checkDisks(t, disks, "n3", seededLinear) })
	t.Run("writers lost nothing", checkWriters)
	t.Run("a host that leaves is taken back", func(t *testing.T) {
		setHosts(t, seededLinear, nodes...)
		waitMembers(t, seededLinear, nodes...)
		checkDisks(t, disks, "", "")
	})
	t.Run("new volumes work", func(t *testing.T) {
		for _, cluster := range seededClusters {
			p := pod(t, "after-"+cluster, "n3", "echo new > /data0/file && sync", claim(t, "after-"+cluster, cluster, "64Mi"))
			waitPod(t, p, corev1.PodSucceeded)
		}
	})
	t.Run("everything is deleted", deleteSeed)
}

// seeded returns what test/upgrade/seed noted of the disks by node, and when the present version was installed.
func seeded(t *testing.T) (disks map[string]string, upgraded time.Time) {
	t.Helper()
	seed := &corev1.ConfigMap{}
	err := kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: seedName}, seed)
	if apierrors.IsNotFound(err) {
		const missing = "test/upgrade/seed did not run in this lab: make upgrade does all of it"
		if os.Getenv("UPGRADE_SEEDED") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("upgraded from %s", seed.Data["base"])
	t.Cleanup(func() {
		if t.Failed() {
			for _, c := range seededClusters {
				dump(t, newCluster(c))
			}
		}
	})
	disks = map[string]string{}
	for _, node := range nodes {
		if disks[node] = seed.Data[node]; strings.Count(disks[node], "\n") != 2*len(seededClusters) {
			t.Fatalf("the seed of %s has a group and a physical volume of %d Clusters: %q", node, len(seededClusters), disks[node])
		}
	}
	return disks, seed.CreationTimestamp.Time
}

// onDisks returns what is on the disks of a node, as test/upgrade/seed noted it.
func onDisks(t *testing.T, node string) string {
	t.Helper()
	return onNode(t, node, `{
		vgs --foreign --binary --noheadings --separator " " -o vg_name,vg_uuid,vg_extent_count,vg_free_count,lv_count,vg_tags,vg_seqno,vg_autoactivation,vg_systemid -S "vg_name=~^quarry-" 2>/dev/null
		pvs --foreign --noheadings --separator " " -o vg_name,pv_uuid -S "vg_name=~^quarry-" 2>/dev/null
	} | sed "s/^ *//; s/ *$//" | sort`)
}

// The columns of a group in what onDisks returns. A group that names no node has no last one.
const (
	columnSequence = iota + 6
	columnAutoactivation
	columnSystemID
)

// upgradedDisks returns what the upgrade makes of what was on the disks of a node. A step gives a group that names no node the system ID of this one, and then the
// agent stops its autoactivation. Each is one change of the group's metadata, and a group that has one of the marks does not get it again. The group of the
// Cluster untouched stays as it was.
func upgradedDisks(before, node, untouched string) (lines []string) {
	for line := range strings.Lines(before) {
		f := strings.Fields(line)
		if len(f) > columnAutoactivation && f[0] != v1alpha1.DefaultVolumeGroupPrefix+untouched {
			changes := 0
			if len(f) == columnSystemID {
				f = append(f, systemid.Of(node))
				changes++
			}
			if f[columnAutoactivation] == "1" {
				f[columnAutoactivation] = "0"
				changes++
			}
			sequence, _ := strconv.Atoi(f[columnSequence])
			f[columnSequence] = strconv.Itoa(sequence + changes)
		}
		lines = append(lines, strings.Join(f, " "))
	}
	return lines
}

// checkDisks waits until the disks are as the upgrade makes them. No step runs on a host that leaves: on the node leaving, the group of the Cluster of stays as it was.
func checkDisks(t *testing.T, disks map[string]string, leaving, of string) {
	t.Helper()
	inAnyOrder := cmpopts.SortSlices(strings.Compare)
	for _, node := range nodes {
		untouched := ""
		if node == leaving {
			untouched = of
		}
		want := upgradedDisks(disks[node], node, untouched)
		eventually(t, limitReady, "the disks of "+node+" are as the upgrade makes them", func(context.Context) error {
			if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(onDisks(t, node)), "\n"), inAnyOrder); diff != "" {
				return fmt.Errorf("(-want +got):\n%s", diff)
			}
			return nil
		})
	}
}

// checkAdopted waits for the Members of both Clusters, and compares what they record with what was on the disks before.
func checkAdopted(t *testing.T, disks map[string]string) {
	for _, cluster := range seededClusters {
		c := waitReady(t, cluster, limitReady)
		if c.Status.HostCount != int32(len(nodes)) || c.Status.DeviceCount != int32(len(nodes)) {
			t.Errorf("Cluster %s has %d hosts and %d devices", cluster, c.Status.HostCount, c.Status.DeviceCount)
		}
		for _, node := range nodes {
			m, err := memberOf(t.Context(), cluster, node)
			if err != nil {
				t.Fatal(err)
			}
			want := &v1alpha1.MemberGroup{Name: v1alpha1.DefaultVolumeGroupPrefix + cluster, UUID: seededGroup(disks[node], cluster)}
			if diff := cmp.Diff(want, m.Spec.Group); diff != "" {
				t.Errorf("the record of %s (-want +got):\n%s", m.Name, diff)
			}
			if f := m.Status.Flags; m.Spec.Of.UID != c.UID || m.Status.Volumes != 1 || f == nil || !f.IsUp || !f.HasData || f.ShouldDestroy {
				t.Errorf("member %s of %s: %+v", m.Name, m.Spec.Of.UID, m.Status)
			}
		}
	}
}

func seededGroup(facts, cluster string) string {
	for line := range strings.Lines(facts) {
		// The line of a group, not that of a physical volume.
		if f := strings.Fields(line); len(f) > 2 && f[0] == v1alpha1.DefaultVolumeGroupPrefix+cluster {
			return f[1]
		}
	}
	return ""
}

// checkStorageNodes: what the version before stored has loop devices and volumes among the devices.
func checkStorageNodes(t *testing.T) {
	for _, node := range nodes {
		eventually(t, limitReady, "StorageNode "+node+" is online with its disks", func(ctx context.Context) error {
			n, err := getNode(ctx, node)
			if err != nil {
				return err
			}
			if !meta.IsStatusConditionTrue(n.Status.Conditions, v1alpha1.ConditionAgentConnected) || n.Status.State != "online" || n.Status.Message != "" {
				return fmt.Errorf("%s: %s %+v", n.Status.State, n.Status.Message, n.Status.Conditions)
			}
			ours := 0
			for _, d := range n.Status.Devices {
				if slices.Contains([]string{"loop", "lvm", "dm", "part"}, d.Type) {
					return fmt.Errorf("%s is listed, which is of type %s", d.Path, d.Type)
				}
				if strings.HasPrefix(d.VolumeGroup, v1alpha1.DefaultVolumeGroupPrefix) {
					ours++
				}
			}
			if ours != len(seededClusters) || len(n.Status.Groups) != len(seededClusters) {
				return fmt.Errorf("%d disks of ours, groups %+v", ours, n.Status.Groups)
			}
			return nil
		})
	}
}

// checkLeavesAnew: the version before had condemned n3. Now the host leaves, which can be taken back, and holds its volume.
func checkLeavesAnew(t *testing.T, upgraded time.Time) {
	m := waitLeaving(t, seededLinear, "n3", v1alpha1.ReasonHostNotListed)
	if since := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionLeaving).LastTransitionTime; !since.After(upgraded) {
		t.Errorf("it leaves since %v, before the upgrade after %v", since, upgraded)
	}
	if !m.DeletionTimestamp.IsZero() {
		t.Errorf("%s is being deleted", m.Name)
	}
	if holding := strings.Join(m.Status.Holding, " "); !strings.Contains(holding, namespace+"/data-"+seededLinear) {
		t.Errorf("it does not say which volume it holds: %q", holding)
	}
}

// checkWriters: a writer ends when a write or a flush fails, and begins at 1 when it is started again. So a log that counts from 1 to its
// end without a gap says that neither happened.
func checkWriters(t *testing.T) {
	for _, cluster := range seededClusters {
		for i := range nodes {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s-%d", cluster, i)}}
			p = waitPod(t, p, corev1.PodRunning)
			for _, c := range p.Status.ContainerStatuses {
				if c.RestartCount > 0 {
					t.Errorf("%s was started %d times; the one before ended with %+v", p.Name, c.RestartCount+1, c.LastTerminationState.Terminated)
				}
			}
			count, pause := checkLog(t, p.Name, inPod(t, p, "cat /data/log"))
			eventually(t, limitReady, p.Name+" goes on writing", func(context.Context) error {
				if now, _ := checkLog(t, p.Name, inPod(t, p, "cat /data/log")); now <= count {
					return fmt.Errorf("%d lines, as before", now)
				}
				return nil
			})
			t.Logf("%s wrote %d lines; the longest time between two was %v", p.Name, count, pause)
		}
	}
}

// checkLog returns the number of lines, and the longest time between two of them. The last line may be half written.
func checkLog(t *testing.T, name, log string) (count int, pause time.Duration) {
	t.Helper()
	var last int64
	for line := range strings.Lines(log) {
		number, at, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		seconds, err := strconv.ParseInt(at, 10, 64)
		if !strings.HasSuffix(line, "\n") {
			break
		}
		if count++; !ok || err != nil || number != strconv.Itoa(count) {
			t.Fatalf("line %d of %s is %q", count, name, line)
		}
		if d := time.Duration(seconds-last) * time.Second; last > 0 && d > pause {
			pause = d
		}
		last = seconds
	}
	return count, pause
}

// deleteSeed takes everything away, as a user would, and looks at the disks.
func deleteSeed(t *testing.T) {
	devices := map[string]map[string][]string{}
	for _, cluster := range seededClusters {
		devices[cluster] = devicesOf(t, cluster)
		object := metav1.ObjectMeta{Namespace: namespace, Name: cluster}
		remove(t, &appsv1.StatefulSet{ObjectMeta: object})
		for i := range nodes {
			remove(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s-%d", cluster, i)}})
			remove(t, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("data-%s-%d", cluster, i)}})
		}
		if err := kube.Delete(t.Context(), newCluster(cluster)); err != nil {
			t.Fatal(err)
		}
	}
	for _, cluster := range seededClusters {
		waitGone(t, cluster)
		for _, node := range nodes {
			if len(devices[cluster][node]) != 1 {
				t.Errorf("%s had the devices %v of %s", cluster, devices[cluster][node], node)
			}
			for _, device := range devices[cluster][node] {
				checkClean(t, node, device)
			}
		}
	}
	remove(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: seedName}})
}
