package agenttest_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/agent/agenttest"
	"quarry.storage/quarry/pkg/volumeid"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

const (
	kubeletGroup = "quarry-pool"
	kubeletOwner = "uid"
)

// kubelet is an agent with a thin pool, and the kubelet's view of it.
type kubelet struct {
	*agenttest.Agent
	t    *testing.T
	dir  string
	node csi.NodeClient
}

func newKubelet(t *testing.T) *kubelet {
	t.Helper()
	dir, err := os.MkdirTemp("", "kubelet")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	k := &kubelet{t: t, dir: dir, Agent: agenttest.New(t, agenttest.Options{KubeletDir: dir})}
	k.AddDisk(agenttest.Disk{Name: "sdb"})
	k.AddGroup(kubeletGroup, kubeletOwner, "sdb")
	k.dial()
	_, err = k.volumes().EnsureThinPool(t.Context(), &agentv1.EnsureThinPoolRequest{
		Group: kubeletGroup, OwnerUid: kubeletOwner, Name: "thin", SizeBytes: 50 << 30,
	})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (k *kubelet) dial() {
	k.t.Helper()
	conn, err := grpc.NewClient("unix://"+k.KubeletSocket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { conn.Close() })
	k.node = csi.NewNodeClient(conn)
}

func (k *kubelet) volumes() agentv1.LogicalVolumeServiceClient {
	return agentv1.NewLogicalVolumeServiceClient(k.Dial(k.t))
}

func handle(name string) volumeid.ID {
	return volumeid.ID{Node: "node-1", Group: kubeletGroup, Name: volumeid.Name(name)}
}

func (k *kubelet) create(id volumeid.ID, source string) {
	k.t.Helper()
	req := &agentv1.CreateLogicalVolumeRequest{
		Group: kubeletGroup, OwnerUid: kubeletOwner, Name: id.Name, Id: id.String(), SizeBytes: 1 << 30,
	}
	if source == "" {
		req.ThinPool = "thin"
	} else {
		req.Source = source
	}
	if _, err := k.volumes().CreateLogicalVolume(k.t.Context(), req); err != nil {
		k.t.Fatal(err)
	}
}

func (k *kubelet) stage(id volumeid.ID, fsType string) error {
	path := filepath.Join(k.dir, "staging-"+id.Name)
	_, err := k.node.NodeStageVolume(k.t.Context(), &csi.NodeStageVolumeRequest{
		VolumeId: id.String(), StagingTargetPath: path,
		VolumeCapability: &csi.VolumeCapability{
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
			AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fsType}},
		},
	}, grpc.WaitForReady(true))
	return err
}

func (k *kubelet) unstage(id volumeid.ID) error {
	_, err := k.node.NodeUnstageVolume(k.t.Context(), &csi.NodeUnstageVolumeRequest{
		VolumeId: id.String(), StagingTargetPath: filepath.Join(k.dir, "staging-"+id.Name),
	}, grpc.WaitForReady(true))
	return err
}

func (k *kubelet) remove(id volumeid.ID) error {
	_, err := k.volumes().DeleteLogicalVolume(k.t.Context(), &agentv1.DeleteLogicalVolumeRequest{
		Group: kubeletGroup, OwnerUid: kubeletOwner, Name: id.Name, Id: id.String(),
	})
	return err
}

func (k *kubelet) must(what string, err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatalf("%s: %v", what, err)
	}
}

func TestAgent_servesKubelet(t *testing.T) {
	k := newKubelet(t)
	id := handle("pvc-1")
	k.create(id, "")
	k.must("stage", k.stage(id, "xfs"))
	if err := k.remove(id); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("remove what is mounted: %v", err)
	}
	clone := handle("pvc-2")
	k.create(clone, id.Name)
	if err := k.stage(clone, "ext4"); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("stage a copy of xfs as ext4: %v", err)
	}
	k.must("stage a copy", k.stage(clone, "xfs"))
	for _, v := range []volumeid.ID{id, clone} {
		k.must("unstage", k.unstage(v))
		k.must("remove", k.remove(v))
	}
}

func TestAgent_servesKubeletAfterDeath(t *testing.T) {
	k := newKubelet(t)
	id := handle("pvc-1")
	k.create(id, "")
	deaths := 0
	for ; deaths < 20; deaths++ {
		k.CrashAfter(deaths + 1)
		err := k.stage(id, "")
		k.Disarm()
		if err == nil {
			break
		}
		k.Restart(t)
		k.dial()
	}
	if deaths == 0 || deaths == 20 {
		t.Fatalf("the agent died %d times", deaths)
	}
	k.Kill()
	k.Restart(t)
	k.dial()
	if err := k.remove(id); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("mounts are forgotten with the agent: %v", err)
	}
	k.Reboot()
	k.Restart(t)
	k.dial()
	k.must("unstage", k.unstage(id))
	k.must("remove", k.remove(id))
}

// TestKubelet_unknownGroup: a volume of a group that LVM cannot report is not one that does not exist.
func TestKubelet_unknownGroup(t *testing.T) {
	k := newKubelet(t)
	id := handle("one")
	k.create(id, "")
	for name, breaks := range map[string]func(){
		"LVM cannot report it":              func() { k.BreakGroup(kubeletGroup, errors.New("exit status 5")) },
		"nobody can tell which group it is": func() { k.DamageGroup(kubeletGroup) },
	} {
		breaks()
		if err := k.stage(id, "ext4"); status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
		k.BreakGroup(kubeletGroup, nil)
	}
	if err := k.stage(id, "ext4"); err != nil {
		t.Errorf("after it healed: %v", err)
	}
}

// TestKubelet_suspendedVolume: what a killed command left suspended is at work again before a volume is staged, and soon after the agent's
// start without a call.
func TestKubelet_suspendedVolume(t *testing.T) {
	k := newKubelet(t)
	id, source := handle("one"), handle("two")
	k.create(id, "")
	k.create(source, "")
	if err := k.Stop(); err != nil {
		t.Fatal(err)
	}
	k.SuspendVolume(kubeletGroup, id.Name)
	k.SuspendVolume(kubeletGroup, source.Name)
	k.SuspendPool(kubeletGroup, "thin")
	k.Restart(t)
	if err := k.stage(id, "ext4"); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if !slices.ContainsFunc(k.Volumes(kubeletGroup), func(v agenttest.Volume) bool { return v.Suspended }) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v", k.Volumes(kubeletGroup))
		}
	}
}
