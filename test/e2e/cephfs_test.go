//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// cephHealth is what "ceph status" says, as far as the journeys look at it.
type cephHealth struct {
	Health struct{ Status string }
	OSDMap struct {
		Total int `json:"num_osds"`
		Up    int `json:"num_up_osds"`
		In    int `json:"num_in_osds"`
	}
	Quorum []string `json:"quorum_names"`
	FSMap  struct {
		ByRank  []struct{ Name, Status string } `json:"by_rank"`
		Standby int                             `json:"up:standby"`
	}
}

func healthOf(ctx context.Context, c *v1alpha1.Cluster) (cephHealth, error) {
	var h cephHealth
	out, err := tryCeph(ctx, c, "status", "--format", "json")
	if err != nil {
		return h, err
	}
	return h, json.Unmarshal([]byte(out), &h)
}

// metadataHost is the host of the metadata server that serves.
func metadataHost(ctx context.Context, c *v1alpha1.Cluster) (string, error) {
	var h cephHealth
	if err := askCeph(ctx, c, []question{{Prefix: "status"}}, &h); err != nil {
		return "", err
	}
	for _, m := range h.FSMap.ByRank {
		// One that the monitors have not heard of for some time has more in its status.
		i := slices.IndexFunc(nodes, func(n string) bool { return m.Name == cephname.OnNode(n) })
		if m.Status == "up:active" && i >= 0 {
			return nodes[i], nil
		}
	}
	return "", fmt.Errorf("metadata servers %+v", h.FSMap)
}

// TestCephFSFromDisksToSharedVolume makes a Ceph cluster of the clean disks of three hosts. Two pods on two of them write one claim.
func TestCephFSFromDisksToSharedVolume(t *testing.T) {
	c := startCeph(t, "shared", nodes...)
	h, err := healthOf(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Quorum) != 3 || h.OSDMap.Total != 6 || h.OSDMap.Up != 6 || h.OSDMap.In != 6 || len(h.FSMap.ByRank) != 1 || h.Health.Status == "HEALTH_ERR" {
		t.Errorf("%+v", h)
	}
	if c.Status.Ceph == nil || c.Status.Ceph.FSID != string(c.UID) || len(c.Status.Ceph.Monitors) != 3 || c.Status.Ceph.OSDs.Up != 6 {
		t.Errorf("status %+v", c.Status.Ceph)
	}
	if out := inCeph(t, c, "osd", "pool", "get", cephname.PoolData, "size"); !strings.Contains(out, "size: 3") {
		t.Errorf("copies: %s", out)
	}
	bulkOfDataAlone(t, c)

	shareVolume(t, c)
}

// bulkOfDataAlone wants the flag bulk on the pool of data, and on no other one.
func bulkOfDataAlone(t *testing.T, c *v1alpha1.Cluster) {
	t.Helper()
	m, err := mapOf(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range m.Pools {
		if slices.Contains(strings.Split(p.Flags, ","), "bulk") != (p.Name == cephname.PoolData) {
			t.Errorf("pool %s has the flags %s", p.Name, p.Flags)
		}
	}
	if len(m.Pools) < 2 {
		t.Errorf("pools %+v", m.Pools)
	}
}

// shareVolume has two pods on two nodes write one claim, and looks that both see what both wrote, and that nothing of it stays behind.
func shareVolume(t *testing.T, c *v1alpha1.Cluster) {
	t.Helper()
	v := claim(t, "together", c.Name, "256Mi", shared)
	volume := bound(t, v)
	if volume.Spec.CSI.Driver != v1alpha1.DriverCephFS {
		t.Errorf("volume %+v", volume.Spec)
	}
	wait := "until ls /data0 | grep -qx %s; do sleep 0.2; done; "
	script := func(self, other string) string {
		return fmt.Sprintf("touch /data0/%[1]s.ready; "+wait+`for i in $(seq 200); do echo "$i" >> /data0/%[1]s; done
			touch /data0/%[1]s.done; sync; `, self, other+".ready") + fmt.Sprintf(wait, other+".done") + "cat /data0/" + other + " | md5sum; df /data0"
	}
	a := pod(t, "writer-a", nodes[0], script("a", "b"), v)
	b := pod(t, "writer-b", nodes[1], script("b", "a"), v)
	var sums []string
	for _, p := range []*corev1.Pod{a, b} {
		out := logs(waitPod(t, p, corev1.PodSucceeded))
		sums = append(sums, strings.SplitN(out, "\n", 2)[0])
		t.Logf("%s: %s", p.Name, out)
	}
	if sums[0] != sums[1] || !strings.HasSuffix(sums[0], "-") {
		t.Errorf("both wrote the same, and what one wrote reads for the other as %q", sums)
	}
	remove(t, a)
	remove(t, b)
	remove(t, v)
	// The Cluster may have others.
	handle := volume.Spec.CSI.VolumeHandle
	name := handle[strings.LastIndexByte(handle, '/')+1:]
	eventually(t, 2*time.Minute, "the subvolume is gone", func(ctx context.Context) error {
		out, err := tryCeph(ctx, c, "fs", "subvolume", "ls", cephname.Filesystem, cephname.Group, "--format", "json")
		if err == nil && (name == "" || strings.Contains(out, name)) {
			err = fmt.Errorf("subvolumes %s", out)
		}
		return err
	})
}

// TestCephFSForeignOsdIsRefused: a disk of another Ceph cluster is left alone, even if somebody zeroed both of its ends, by a Cluster that takes every clean disk, whenever it comes.
func TestCephFSForeignOsdIsRefused(t *testing.T) {
	needCeph(t)
	image := newImage(t, "foreign", 2<<30)
	// What Ceph writes at the start of a disk, and again at 1 GiB.
	label := []byte("bluestore block device\n7a1c6d1e-0000-4000-8000-00000000000f\n\x02\x01")
	write(t, image, 0, label)
	write(t, image, 1<<30, label)
	before := checksum(t, image)
	d := plug(t, nodes[0], image, "ubd")
	refused := func() {
		t.Helper()
		eventually(t, limitReady, "the disk is refused", func(ctx context.Context) error {
			n, err := getNode(ctx, nodes[0])
			if err != nil {
				return err
			}
			if found := deviceOf(n, d.kernelName()); found == nil || found.Available || !slices.Contains(refusals(found), "Ceph") {
				return fmt.Errorf("%+v", found)
			}
			return nil
		})
	}
	refused()
	slot := string(slotOf(t, d))
	c := newCephCluster(t, "foreign", nodes...)
	c.Spec.Devices.Hotplug = true
	runCeph(t, c)
	if devices := devicesOf(t, c.Name)[nodes[0]]; len(devices) == 0 || slices.Contains(devices, slot) {
		t.Errorf("%s is a device of the Cluster, or there is none: %v", slot, devices)
	}
	if h, err := healthOf(t.Context(), c); err != nil || h.OSDMap.Total != 6 {
		t.Errorf("%+v, %v", h, err)
	}
	if after := checksum(t, image); after != before {
		t.Error("the disk was written to")
	}
	// The ends are what people zero.
	write(t, image, 0, make([]byte, 1<<20))
	write(t, image, 2<<30-1<<20, make([]byte, 1<<20))
	d.unplug(t)
	before = checksum(t, image)
	d = plug(t, nodes[0], image, "ubd")
	refused()
	time.Sleep(20 * time.Second)
	if h, err := healthOf(t.Context(), c); err != nil || h.OSDMap.Total != 6 || checksum(t, image) != before {
		t.Errorf("with zeroed ends: %+v, %v", h, err)
	}
	if devices := devicesOf(t, c.Name)[nodes[0]]; len(devices) != 2 || slices.Contains(devices, string(slotOf(t, d))) {
		t.Errorf("with zeroed ends %s is a device of the Cluster, or others are: %v", slotOf(t, d), devices)
	}
}
