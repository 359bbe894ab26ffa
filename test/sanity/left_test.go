//go:build sanity

package sanity

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/moby/sys/mountinfo"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// leftovers looks for what the suite should have taken away: volumes and snapshots, what they were made of on the node, and mounts.
func leftovers(t *testing.T, s subject, dirs []string) []string {
	t.Helper()
	return append(append(listed(t, s), s.left(t)...), mounts(t, dirs)...)
}

// listed asks the controller service, which looks at what there is.
func listed(t *testing.T, s subject) []string {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+controllerSocket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	controller := csi.NewControllerClient(conn)
	volumes, err := controller.ListVolumes(t.Context(), &csi.ListVolumesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var handles, left []string
	for _, e := range volumes.GetEntries() {
		handles = append(handles, e.GetVolume().GetVolumeId())
	}
	if *driver == v1alpha1.DriverLVM {
		snapshots, err := controller.ListSnapshots(t.Context(), &csi.ListSnapshotsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range snapshots.GetEntries() {
			handles = append(handles, e.GetSnapshot().GetSnapshotId())
		}
	}
	for _, h := range handles {
		if s.ours(h) {
			left = append(left, "volume or snapshot "+h)
		}
	}
	return left
}

// devices reads device-mapper's names: the group, then the volume, with every dash of theirs doubled.
func devices(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob("/sys/block/dm-*/dm/name")
	if err != nil {
		t.Fatal(err)
	}
	pool := dashed(v1alpha1.ThinPoolName)
	var left []string
	for _, file := range names {
		name, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		volume, ours := strings.CutPrefix(strings.TrimSpace(string(name)), dashed(*group)+"-")
		if ours && !strings.HasPrefix(volume, pool) {
			left = append(left, fmt.Sprintf("device %s (%s)", filepath.Base(filepath.Dir(filepath.Dir(file))), volume))
		}
	}
	return left
}

func dashed(name string) string { return strings.ReplaceAll(name, "-", "--") }

// mounts looks below the directories of the suite.
func mounts(t *testing.T, dirs []string) []string {
	t.Helper()
	points, err := mountinfo.GetMounts(func(i *mountinfo.Info) (skip, stop bool) {
		for _, d := range dirs {
			if strings.HasPrefix(i.Mountpoint, d) {
				return false, false
			}
		}
		return true, false
	})
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, p := range points {
		left = append(left, fmt.Sprintf("mount of %s at %s", p.Source, p.Mountpoint))
	}
	return left
}
