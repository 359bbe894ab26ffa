//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
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
		ByRank []struct{ Status string } `json:"by_rank"`
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

	shareVolume(t, c)
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
	eventually(t, 2*time.Minute, "the subvolume is gone", func(ctx context.Context) error {
		out, err := tryCeph(ctx, c, "fs", "subvolume", "ls", cephname.Filesystem, cephname.Group, "--format", "json")
		if err == nil && strings.TrimSpace(out) != "[]" {
			err = fmt.Errorf("subvolumes %s", out)
		}
		return err
	})
}

// TestCephFSForeignOsdIsRefused: a disk of another Ceph cluster is left alone, even if somebody zeroed both of its ends.
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
	c := startCeph(t, "foreign", nodes...)
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
}

// TestCephFSHostDies takes the power from a host while a pod on another one writes to a claim and reads it back. Both go on within a minute; with the host back
// everything is clean again.
func TestCephFSHostDies(t *testing.T) {
	patient(t, 2)
	c := newCephCluster(t, "dies", nodes...)
	// These are Ceph's own: what they are set to otherwise is for a machine that does other work as well.
	c.Spec.Ceph.Config = maps.Clone(smallOptions)
	for _, name := range []string{"global.osd_heartbeat_grace", "global.mds_beacon_grace", "mon.mon_lease"} {
		delete(c.Spec.Ceph.Config, name)
	}
	runCeph(t, c)
	w := keepWriting(t, c, nodes[0], nodes[1])
	lab(t, "node", "kill", nodes[2])
	t.Cleanup(func() { _, _ = tryLab("node", "start", nodes[2]) }) // It runs already where the test got that far.
	w.check(t)
	if slowest, _ := w.slowest(); slowest > 60 {
		t.Errorf("a write took %d s, and it is to go on within a minute", slowest)
	}
	h, err := healthOf(t.Context(), c)
	if err != nil || h.OSDMap.Total != 6 {
		t.Errorf("%+v, %v", h, err)
	}
	lab(t, "node", "start", nodes[2])
	eventually(t, 6*time.Minute, "all OSDs are back, and every copy is there", func(ctx context.Context) error {
		h, err := healthOf(ctx, c)
		if err != nil {
			return err
		}
		out, err := tryCeph(ctx, c, "pg", "stat")
		if err != nil || h.OSDMap.Up != 6 || len(h.Quorum) != 3 || strings.Contains(out, "degraded") || strings.Contains(out, "undersized") {
			return fmt.Errorf("%+v, %s, %w", h, out, err)
		}
		return nil
	})
	w.end(t)
}
