package lvm_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/volumeid"
)

func TestCreateVolume_goesWhereTheTopologySays(t *testing.T) {
	s := newSuite(t, false, "node-1", "node-2")
	v := s.create(s.request("pvc-1", "node-2", "node-1"))
	id, err := volumeid.Parse(v.GetVolumeId())
	if err != nil || id.Node != "node-2" || id.Group != group || id.Name != volumeid.Name("pvc-1") {
		t.Errorf("volume is %q: %v", v.GetVolumeId(), err)
	}
	if got := v.GetAccessibleTopology()[0].GetSegments()[v1alpha1.TopologyHost]; got != "node-2" {
		t.Errorf("topology is %q", got)
	}
	if v.GetCapacityBytes() != gib {
		t.Errorf("capacity is %d", v.GetCapacityBytes())
	}
	recorded := s.pool.Node("node-2").Groups[0].UUID
	if c := v.GetVolumeContext(); recorded == "" || c[v1alpha1.AttributeGroupUUID] != recorded || c[v1alpha1.ParameterCluster] != owner {
		t.Errorf("recorded are %v, the group is %q", c, recorded)
	}
}

func TestCreateVolume_againCostsNoChangeAndStaysWhereItIs(t *testing.T) {
	s := newSuite(t, false, "node-1", "node-2")
	before := s.steps()
	first := s.create(s.request("pvc-1", "node-1"))
	if n := s.steps() - before; n != 1 {
		t.Errorf("%d changes for one volume, want 1", n)
	}
	if n := s.agents["node-2"].Commands(); n != 0 {
		t.Errorf("%d LVM commands on the other node", n)
	}
	again := s.create(s.request("pvc-1", "node-2", "node-1"))
	if again.GetVolumeId() != first.GetVolumeId() {
		t.Errorf("volume is %s first and %s then", first.GetVolumeId(), again.GetVolumeId())
	}
	if n := s.steps() - before; n != 1 {
		t.Errorf("%d changes for a volume asked for twice, want 1", n)
	}
	_, err := s.CreateVolume(t.Context(), s.request("pvc-1", "node-2"))
	wantCode(t, err, codes.AlreadyExists)
}

func TestCreateVolume_fullNode(t *testing.T) {
	s := newSuite(t, false, "node-1", "node-2")
	s.agents["node-1"].AddVolume(group, "filler", 99*gib)
	large := s.request("pvc-1", "node-1")
	large.CapacityRange.RequiredBytes = 10 * gib
	_, err := s.CreateVolume(t.Context(), large)
	wantCode(t, err, codes.ResourceExhausted)
	large.AccessibilityRequirements.Requisite = append(large.AccessibilityRequirements.Requisite, on("node-2"))
	if v := s.create(large); !strings.HasPrefix(v.GetVolumeId(), "node-2/") {
		t.Errorf("volume is %s, and only node-2 has room", v.GetVolumeId())
	}
}

func TestCreateVolume_smallFilesystem(t *testing.T) {
	s := newSuite(t, true, "node-1")
	small := func(name, fs string) *csi.CreateVolumeRequest {
		r := s.request(name)
		r.CapacityRange, r.VolumeCapabilities = &csi.CapacityRange{RequiredBytes: 8 << 20}, []*csi.VolumeCapability{mounted(fs)}
		return r
	}
	raw := small("pvc-raw", "")
	raw.VolumeCapabilities = []*csi.VolumeCapability{block()}
	source := s.create(raw)
	clone := small("pvc-clone", "xfs")
	clone.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
		Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: source.GetVolumeId()},
	}}
	for name, c := range map[string]struct {
		r    *csi.CreateVolumeRequest
		want int64
	}{
		"ext4":                 {small("pvc-ext4", ""), 8 << 20},
		"xfs":                  {small("pvc-xfs", "xfs"), 300 << 20},
		"btrfs":                {small("pvc-btrfs", "btrfs"), 112 << 20},
		"a raw device":         {raw, 8 << 20},
		"the same again":       {small("pvc-xfs", "xfs"), 300 << 20},
		"a copy of a raw disk": {clone, 300 << 20},
	} {
		if v := s.create(c.r); v.GetCapacityBytes() != c.want {
			t.Errorf("%s: %d bytes, want %d", name, v.GetCapacityBytes(), c.want)
		}
	}
	bounded := small("pvc-bounded", "xfs")
	bounded.CapacityRange.LimitBytes = 128 << 20
	_, err := s.CreateVolume(t.Context(), bounded)
	wantCode(t, err, codes.OutOfRange)
}

func TestCreateVolume_badInput(t *testing.T) {
	s := newSuite(t, false, "node-1")
	thin := newSuite(t, true, "node-t")
	handle := func(name string) string { return volumeid.ID{Node: "node-1", Group: group, Name: name}.String() }
	absent := handle(volumeid.Name("absent"))
	linear := s.create(s.request("pvc-linear")).GetVolumeId()
	fromVolume := func(id string) *csi.VolumeContentSource {
		return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
			Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: id},
		}}
	}
	shared := mounted("")
	shared.AccessMode.Mode = csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	for name, c := range map[string]struct {
		s    *suite
		edit func(r *csi.CreateVolumeRequest)
		want codes.Code
	}{
		"no name":                     {s, func(r *csi.CreateVolumeRequest) { r.Name = "" }, codes.InvalidArgument},
		"a name that is too long":     {s, func(r *csi.CreateVolumeRequest) { r.Name = strings.Repeat("x", 129) }, codes.InvalidArgument},
		"size 0":                      {s, func(r *csi.CreateVolumeRequest) { r.CapacityRange.RequiredBytes = 0 }, codes.InvalidArgument},
		"a negative size":             {s, func(r *csi.CreateVolumeRequest) { r.CapacityRange.RequiredBytes = -1 }, codes.InvalidArgument},
		"a size above all numbers":    {s, func(r *csi.CreateVolumeRequest) { r.CapacityRange.RequiredBytes = math.MaxInt64 }, codes.OutOfRange},
		"a size above the free space": {s, func(r *csi.CreateVolumeRequest) { r.CapacityRange.RequiredBytes = 200 * gib }, codes.ResourceExhausted},
		"a size above the pool's":     {thin, func(r *csi.CreateVolumeRequest) { r.CapacityRange.RequiredBytes = 101 * gib }, codes.ResourceExhausted},
		"a limit below the size":      {s, func(r *csi.CreateVolumeRequest) { r.CapacityRange.LimitBytes = gib - 1 }, codes.OutOfRange},
		"a limit below one extent":    {s, func(r *csi.CreateVolumeRequest) { r.CapacityRange = &csi.CapacityRange{LimitBytes: 1} }, codes.OutOfRange},
		"no capability":               {s, func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities = nil }, codes.InvalidArgument},
		"an unknown filesystem":       {s, func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities[0] = mounted("ntfs; reboot") }, codes.InvalidArgument},
		"many nodes":                  {s, func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities[0] = shared }, codes.InvalidArgument},
		"an unknown parameter":        {s, func(r *csi.CreateVolumeRequest) { r.Parameters["--force"] = "$(reboot)" }, codes.InvalidArgument},
		"an unknown Cluster":          {s, func(r *csi.CreateVolumeRequest) { r.Parameters[v1alpha1.ParameterCluster] = "`reboot`" }, codes.InvalidArgument},
		"no Cluster":                  {s, func(r *csi.CreateVolumeRequest) { delete(r.Parameters, v1alpha1.ParameterCluster) }, codes.InvalidArgument},
		"an option as thin pool":      {s, func(r *csi.CreateVolumeRequest) { r.Parameters[v1alpha1.ParameterThinPool] = "--config=x" }, codes.InvalidArgument},
		"a thin pool that is not":     {s, func(r *csi.CreateVolumeRequest) { r.Parameters[v1alpha1.ParameterThinPool] = "other" }, codes.NotFound},
		"mutable parameters":          {s, func(r *csi.CreateVolumeRequest) { r.MutableParameters = map[string]string{"a": "b"} }, codes.InvalidArgument},
		"a topology without our key":  {s, func(r *csi.CreateVolumeRequest) { r.AccessibilityRequirements = other() }, codes.InvalidArgument},
		"a node that is no host":      {s, func(r *csi.CreateVolumeRequest) { r.AccessibilityRequirements = only("node-9") }, codes.ResourceExhausted},
		"a source that is none of us": {s, func(r *csi.CreateVolumeRequest) { r.VolumeContentSource = fromVolume("../../etc") }, codes.NotFound},
		"a source of a linear class":  {s, func(r *csi.CreateVolumeRequest) { r.VolumeContentSource = fromVolume(linear) }, codes.InvalidArgument},
		"no source of a linear class": {s, func(r *csi.CreateVolumeRequest) { r.VolumeContentSource = fromVolume(absent) }, codes.NotFound},
		"a source on another node":    {thin, func(r *csi.CreateVolumeRequest) { r.VolumeContentSource = fromVolume(absent) }, codes.ResourceExhausted},
		"a source of another group": {thin, func(r *csi.CreateVolumeRequest) {
			r.VolumeContentSource = fromVolume(strings.Replace(absent, group, "vg", 1))
		}, codes.InvalidArgument},
		"a source that does not exist": {thin, func(r *csi.CreateVolumeRequest) {
			r.VolumeContentSource = fromVolume(strings.Replace(absent, "node-1", "node-t", 1))
		}, codes.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.s.request("pvc-bad")
			c.edit(r)
			before := c.s.steps()
			_, err := c.s.CreateVolume(t.Context(), r)
			wantCode(t, err, c.want)
			if n := c.s.steps() - before; n != 0 {
				t.Errorf("%d changes were made", n)
			}
		})
	}
}

func other() *csi.TopologyRequirement {
	return &csi.TopologyRequirement{Requisite: []*csi.Topology{{Segments: map[string]string{"zone": "a"}}}}
}

func only(node string) *csi.TopologyRequirement {
	return &csi.TopologyRequirement{Requisite: []*csi.Topology{on(node)}}
}

func TestCreateVolume_hostsThatTakeNone(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(s *suite)
		want codes.Code
	}{
		"maintenance in the Cluster": {func(s *suite) { s.cache.clusters[0].Spec.Maintenance = []v1alpha1.HostName{"node-1"} }, codes.ResourceExhausted},
		"maintenance of the node": {func(s *suite) {
			n := v1alpha1.StorageNode{}
			n.Name, n.Spec.Maintenance = "node-1", true
			s.cache.nodes = append(s.cache.nodes, n)
		}, codes.ResourceExhausted},
		"removed from the Cluster": {func(s *suite) { s.cache.clusters[0].Spec.Hosts = nil }, codes.ResourceExhausted},
		"the member leaves": {func(s *suite) {
			s.cache.members[0].Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionLeaving, Status: metav1.ConditionTrue}}
		}, codes.ResourceExhausted},
		"the member is being deleted": {func(s *suite) { s.cache.members[0].DeletionTimestamp = new(metav1.Now()) }, codes.ResourceExhausted},
		"maintenance of the member":   {func(s *suite) { s.cache.members[0].Spec.Maintenance = true }, codes.ResourceExhausted},
		"no group is on record yet":   {func(s *suite) { s.cache.members[0].Spec.Group = nil }, codes.Unavailable},
		"another group is on record":  {func(s *suite) { s.cache.members[0].Spec.Group.UUID = "another" }, codes.Unavailable},
		"it is no member yet":         {func(s *suite) { s.cache.members = nil }, codes.ResourceExhausted},
		"the agent is gone": {func(s *suite) {
			s.agents["node-1"].Kill()
			s.await("node-1 down", func() bool { return !s.pool.Node("node-1").Up() })
		}, codes.Unavailable},
		"the agent of a member without a group is gone": {func(s *suite) {
			s.cache.members[0].Spec.Group = nil
			s.agents["node-1"].Kill()
			s.await("node-1 down", func() bool { return !s.pool.Node("node-1").Up() })
		}, codes.ResourceExhausted},
		"the agent is gone, and the member declared lost": {func(s *suite) {
			s.cache.members[0].Spec.Lost = string(s.cache.members[0].UID)
			s.agents["node-1"].Kill()
			s.await("node-1 down", func() bool { return !s.pool.Node("node-1").Up() })
		}, codes.ResourceExhausted},
		"it is too early to say": {func(s *suite) {
			s.cache.clusters[0].Spec.Hosts = []v1alpha1.HostName{"node-2"}
			s.cache.members = []v1alpha1.Member{memberOf("node-2", "some")}
			s.pool.SetAddress("node-2", "127.0.0.1:1", "nobody")
		}, codes.Unavailable},
		"a disk is missing": {func(s *suite) {
			s.agents["node-1"].Unplug("sdb")
			s.await("group gone", func() bool { g := s.pool.Node("node-1").Groups; return len(g) == 0 || g[0].Partial })
		}, codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t, false, "node-1")
			c.edit(s)
			_, err := s.CreateVolume(t.Context(), s.request("pvc-1"))
			wantCode(t, err, c.want)
		})
	}
}

func TestCreateVolume_twiceAtOnce(t *testing.T) {
	s := newSuite(t, false, "node-1")
	s.agents["node-1"].Pause()
	done := make(chan error, 1)
	go func() {
		_, err := s.CreateVolume(t.Context(), s.request("pvc-1"))
		for status.Code(err) == codes.Aborted { // the other call was first
			_, err = s.CreateVolume(t.Context(), s.request("pvc-1"))
		}
		done <- err
	}()
	s.await("the second call to be told to wait", func() bool {
		_, err := s.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{
			VolumeId: volumeid.ID{Node: "node-1", Group: group, Name: volumeid.Name("pvc-1")}.String(),
		})
		return err != nil
	})
	_, err := s.CreateVolume(t.Context(), s.request("pvc-1"))
	wantCode(t, err, codes.Aborted)
	s.agents["node-1"].Resume()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestCreateVolume_agentDiesAtEveryStep(t *testing.T) {
	for name, crash := range map[string]func(*suite){
		"before": func(s *suite) { s.agents["node-1"].CrashBefore(1) },
		"after":  func(s *suite) { s.agents["node-1"].CrashAfter(1) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t, true, "node-1")
			crash(s)
			_, err := s.CreateVolume(t.Context(), s.request("pvc-1"))
			wantCode(t, err, codes.Unavailable)
			s.agents["node-1"].Restart(t)
			s.await("the volume after the restart", func() bool {
				_, err := s.CreateVolume(t.Context(), s.request("pvc-1"))
				return err == nil
			})
			if v := s.agents["node-1"].Volumes(group); len(v) != 1 {
				t.Errorf("volumes are %+v", v)
			}
		})
	}
}

// up waits for a node to answer again.
func (s *suite) up(node string) {
	s.t.Helper()
	s.await(node+" up", func() bool { return s.pool.Node(node).Agent == decide.AgentUp })
	time.Sleep(10 * time.Millisecond)
}

// TestCreateVolume_mkfsOptions: they are recorded with the volume, and refused before anything is made.
func TestCreateVolume_mkfsOptions(t *testing.T) {
	s := newSuite(t, false, "node-1")
	r := s.request("pvc-1")
	r.Parameters[v1alpha1.ParameterMkfsOptions] = "-i 65536; -m 1"
	if got := s.create(r).GetVolumeContext()[v1alpha1.ParameterMkfsOptions]; got != "-i 65536; -m 1" {
		t.Errorf("recorded is %q", got)
	}
	before := s.steps()
	for _, bad := range []string{"-F", "-i 65536;-m 1", "; ", "-d su=64k"} {
		r := s.request("pvc-2")
		r.Parameters[v1alpha1.ParameterMkfsOptions] = bad
		_, err := s.CreateVolume(t.Context(), r)
		wantCode(t, err, codes.InvalidArgument)
	}
	if s.steps() != before {
		t.Error("something was made")
	}
}
