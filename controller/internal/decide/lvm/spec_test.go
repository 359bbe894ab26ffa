package lvm

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

func quantity(s string) *resource.Quantity { q := resource.MustParse(s); return &q }

func TestOf(t *testing.T) {
	owner := backend.Owner{Kind: "Cluster", Name: "a", UID: "uid"}
	for name, c := range map[string]struct {
		in   *v1alpha1.Cluster
		want Spec
	}{
		"what is not said has defaults": {clusterOf(), Spec{
			Owner: owner, Created: start, Type: v1alpha1.StorageTypeLVM, Common: clusterOf().Common(), Group: "quarry-a", FSType: "ext4",
			Devices: &v1alpha1.DeviceSelector{Hotplug: true},
		}},
		"everything is said": {clusterOf(everything), Spec{
			Owner: owner, Created: start, Deleting: true, Type: v1alpha1.StorageTypeLVM, Common: clusterOf(everything).Common(), Group: "mine",
			ThinPool: &decide.ThinPoolSpec{Name: "quarry-thin", Percent: 95}, OverprovisionPercent: 250,
			Devices: &v1alpha1.DeviceSelector{Model: "x"}, FSType: "xfs", Lost: []string{"L"},
		}},
	} {
		if d := cmp.Diff(c.want, Of(c.in)); d != "" {
			t.Errorf("%s: -want +got:\n%s", name, d)
		}
	}
	if got := Of(clusterOf()).UID(); got != "uid" {
		t.Error(got)
	}
}

func everything(c *v1alpha1.Cluster) {
	c.DeletionTimestamp = new(metav1.NewTime(start))
	c.Spec.Devices = &v1alpha1.DeviceSelector{Model: "x"}
	c.Spec.LVM = &v1alpha1.LVMSpec{VolumeGroup: "mine", ThinPool: &v1alpha1.ThinPoolSpec{OverprovisionRatio: "2.5"}}
	c.Spec.StorageClass = &v1alpha1.StorageClassSpec{FSType: "xfs", Default: true}
	c.Status.LostGroups = []string{"L"}
}

func TestPoolOf(t *testing.T) {
	for name, c := range map[string]struct {
		spec *v1alpha1.ThinPoolSpec
		want *decide.ThinPoolSpec
	}{
		"none":            {nil, nil},
		"no size is said": {&v1alpha1.ThinPoolSpec{}, &decide.ThinPoolSpec{Name: "quarry-thin", Percent: 95}},
		"a share":         {&v1alpha1.ThinPoolSpec{Percent: new(int32(50))}, &decide.ThinPoolSpec{Name: "quarry-thin", Percent: 50}},
		"a size and a chunk": {
			&v1alpha1.ThinPoolSpec{Size: quantity("1Gi"), ChunkSize: quantity("128Ki")},
			&decide.ThinPoolSpec{Name: "quarry-thin", SizeBytes: 1 << 30, ChunkBytes: 128 << 10},
		},
	} {
		if d := cmp.Diff(c.want, poolOf(c.spec)); d != "" {
			t.Errorf("%s: -want +got:\n%s", name, d)
		}
	}
}

func TestOverprovision(t *testing.T) {
	for ratio, want := range map[string]int32{
		"1.0": 100, "1": 100, "2.5": 250, "1.05": 105, "100.00": 10000, "": 100, "1.125": 100, "0.5": 100, "999": 10000, "NaN": 100, "-2": 100,
	} {
		if got := overprovision(&v1alpha1.ThinPoolSpec{OverprovisionRatio: ratio}); got != want {
			t.Errorf("%q: %d, want %d", ratio, got, want)
		}
	}
}

func TestWhole_class(t *testing.T) {
	plain := (scene{}).view().Whole(nil)
	want := map[string]string{"csi.storage.k8s.io/fstype": "ext4", "quarry.storage/cluster-uid": "uid"}
	if !maps.Equal(plain.Class.Parameters, want) || plain.Class.Binding != storagev1.VolumeBindingWaitForFirstConsumer ||
		plain.Serves || plain.Pending != "The StorageClass is made once a host holds a volume group." {
		t.Errorf("%+v", plain)
	}
	thin := clusterOf(func(c *v1alpha1.Cluster) {
		c.Spec.LVM = &v1alpha1.LVMSpec{ThinPool: &v1alpha1.ThinPoolSpec{OverprovisionRatio: "4"}}
	})
	want["quarry.storage/thin-pool"], want["quarry.storage/overprovision-percent"] = "quarry-thin", "400"
	if got := (scene{cluster: thin}).view().Whole(nil).Class.Parameters; !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func TestWhole_tellsOfAWipeOnNoHost(t *testing.T) {
	c := clusterOf(func(c *v1alpha1.Cluster) {
		c.Spec.Devices = &v1alpha1.DeviceSelector{Wipe: []v1alpha1.WipeConsent{
			{Host: "n9", Path: "/dev/disk/by-id/a"}, {Host: "n1", Path: "/dev/disk/by-id/a"}, {Host: "n9", Path: "/dev/disk/by-id/b"},
		}}
	})
	got := (scene{cluster: c}).view().Whole([]backend.HostHealth{{Node: "n1"}}).Notes
	if want := []string{"spec.devices.wipe names no host of this Cluster: n9"}; !slices.Equal(got, want) {
		t.Errorf("notes %q, want %q", got, want)
	}
	if got := (scene{}).view().Whole(nil).Notes; got != nil {
		t.Errorf("notes %q without a consent", got)
	}
}

func TestWhole_servesWhileAHostThatStaysDoes(t *testing.T) {
	host := func(serves, destroy bool) backend.HostHealth {
		return backend.HostHealth{Flags: nodestate.Of(true, true, false, destroy), Decided: backend.Host{Serves: serves}}
	}
	for name, c := range map[string]struct {
		hosts []backend.HostHealth
		want  bool
	}{
		"no host":                   {nil, false},
		"one that does":             {[]backend.HostHealth{host(false, false), host(true, false)}, true},
		"one that does not":         {[]backend.HostHealth{host(false, false)}, false},
		"one that is being removed": {[]backend.HostHealth{host(true, true)}, false},
	} {
		if got := (scene{}).view().Whole(c.hosts).Serves; got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestWhole_volumesWithoutANodeHoldTheDeletion(t *testing.T) {
	w := backend.World{Volumes: map[string][]backend.Volume{"": {{Name: "v1", Claim: "ns/c"}, {Name: "v2"}}, "n1": {{Name: "v3"}}}}
	got := (scene{world: w}).view().Whole(nil).Holding
	if strings.Join(got, ", ") != "v1 (claim ns/c), v2" {
		t.Errorf("%v", got)
	}
}

func TestWhole_poolsHealthy(t *testing.T) {
	pool := func(data, metadata int32) backend.HostHealth {
		pool := decide.ThinPool{Name: "p", DataPermyriad: data * 100, MetadataPermyriad: metadata * 100, UsageUnknown: data < 0}
		return backend.HostHealth{Node: "n1", Decided: backend.Host{ThinPool: new(pool.Usage(nil))}}
	}
	gone := pool(99, 0)
	gone.Removed = true
	for name, c := range map[string]struct {
		hosts   []backend.HostHealth
		reason  string
		message string
	}{
		"no pool":                  {[]backend.HostHealth{{Node: "n1"}, gone}, "", ""},
		"well":                     {[]backend.HostHealth{pool(79, 79)}, v1alpha1.ReasonThinPoolsHealthy, "Every thin pool is less than 80 % full."},
		"a pool of a removed host": {[]backend.HostHealth{pool(1, 1), gone}, v1alpha1.ReasonThinPoolsHealthy, "Every thin pool is less than 80 % full."},
		"data is nearly full": {
			[]backend.HostHealth{pool(80, 0), pool(1, 1)},
			v1alpha1.ReasonThinPoolNearlyFull,
			"n1: thin pool p is nearly full, data 80 %, metadata 0 %: add a disk, or delete volumes or snapshots",
		},
		"one is not active": {
			[]backend.HostHealth{pool(1, 1), pool(-1, 0)},
			v1alpha1.ReasonThinPoolUnknown,
			"n1: how full thin pool p is is not known, for it is not active: the log of the node's agent says why",
		},
		"metadata is nearly full": {
			[]backend.HostHealth{pool(0, 90)},
			v1alpha1.ReasonThinPoolNearlyFull,
			"n1: thin pool p is nearly full, data 0 %, metadata 90 %: add a disk, or delete volumes or snapshots",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := (scene{}).view().Whole(c.hosts)
			if len(got.Facts) != 0 {
				t.Error("Ready depends on pools")
			}
			if c.reason == "" {
				if len(got.Warnings) != 0 {
					t.Errorf("%+v", got.Warnings)
				}
				return
			}
			if len(got.Warnings) != 1 || got.Warnings[0].Type != v1alpha1.ConditionThinPoolsHealthy || got.Warnings[0].Reason != c.reason ||
				got.Warnings[0].Message != c.message || (got.Warnings[0].Status == metav1.ConditionTrue) != (c.reason == v1alpha1.ReasonThinPoolsHealthy) {
				t.Errorf("%+v", got.Warnings)
			}
		})
	}
}

func TestProfile(t *testing.T) {
	p := Profile()
	if p.Type != v1alpha1.StorageTypeLVM || !p.Exclusive || p.MovesData || p.Driver.Name != "lvm.quarry.storage" ||
		p.Driver.Deployment != "quarry-csi-lvm" || !p.Driver.Topology || !p.Driver.Capacity || !p.Driver.Snapshots ||
		p.Members == nil || p.Members.Condition != v1alpha1.ConditionDisksReady {
		t.Errorf("%+v", p)
	}
}

func TestProfile_nodeOfAHandle(t *testing.T) {
	for handle, want := range map[string]string{
		"n1.example/group/" + lv: "n1.example", "": "", "n1": "", "n1/group/anything": "", "uid/" + lv: "", "../group/" + lv: "",
	} {
		if got := Profile().Driver.NodeOf(handle); got != want {
			t.Errorf("%q is on %q, want %q", handle, got, want)
		}
	}
}

// TestProfile_inGroup: a volume is of a group by its handle only if its attributes name no Cluster.
func TestProfile_inGroup(t *testing.T) {
	const handle = "n1/g/" + lv
	named := map[string]string{v1alpha1.ParameterCluster: "u"}
	for name, c := range map[string]struct {
		handle, group string
		attributes    map[string]string
		want          bool
	}{
		"of the group":                          {handle, "g", nil, true},
		"of the group, and it names a Cluster":  {handle, "g", named, false},
		"of a group that begins with that name": {"n1/g2/" + lv, "g", nil, false},
		"no handle":                             {"n1", "g", nil, false},
	} {
		if got := Profile().Driver.InGroup(c.handle, c.attributes, c.group); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestProfile_effects: what the engine knows of steps by their action alone is what the steps themselves do.
func TestProfile_effects(t *testing.T) {
	if !Profile().TakesDevices() {
		t.Error("it takes devices")
	}
	for action, effect := range Profile().Effects {
		s := Step{Does: action, Node: "n1", Devices: []decide.Device{{Path: "/dev/a"}}}
		if takes := len(s.Takes()) > 0; takes != effect.Takes {
			t.Errorf("%s takes devices: %v, and the profile says %v", action, takes, effect.Takes)
		}
		if (effect.Wipes || effect.GivesUp) && !s.Destroys() {
			t.Errorf("%s is taken without approval", action)
		}
	}
}

// TestSpec_options: options reach the StorageClass, and those that are not taken make none.
func TestSpec_options(t *testing.T) {
	for name, c := range map[string]struct {
		class   v1alpha1.StorageClassSpec
		mkfs    string
		invalid string
	}{
		"none": {},
		"good ones": {
			class: v1alpha1.StorageClassSpec{MountOptions: []v1alpha1.MountOption{"noatime"}, MkfsOptions: []v1alpha1.MkfsOption{"-i 65536", "-m 1"}},
			mkfs:  "-i 65536; -m 1",
		},
		"of another filesystem": {
			class:   v1alpha1.StorageClassSpec{FSType: "xfs", MkfsOptions: []v1alpha1.MkfsOption{"-O bigalloc"}},
			invalid: `spec.storageClass.mkfsOptions: mkfs option is not allowed: "-O bigalloc" for xfs. The StorageClass stays as it is.`,
		},
		"that force": {
			class:   v1alpha1.StorageClassSpec{FSType: "btrfs", MkfsOptions: []v1alpha1.MkfsOption{"-f"}},
			invalid: `spec.storageClass.mkfsOptions: mkfs option is not allowed: "-f" for btrfs. The StorageClass stays as it is.`,
		},
		"that let nothing be written": {
			class: v1alpha1.StorageClassSpec{MountOptions: []v1alpha1.MountOption{"ro"}},
			invalid: `spec.storageClass.mountOptions: mount option is not allowed: "ro" in a StorageClass: nothing could be written; ` +
				`a pod asks for it with readOnly. The StorageClass stays as it is.`,
		},
	} {
		w := Of(clusterOf(func(cl *v1alpha1.Cluster) { cl.Spec.StorageClass = &c.class })).Class()
		if w.Invalid != c.invalid {
			t.Errorf("%s: %q", name, w.Invalid)
		}
		if c.invalid == "" && (w.Parameters[v1alpha1.ParameterMkfsOptions] != c.mkfs || len(w.MountOptions) != len(c.class.MountOptions)) {
			t.Errorf("%s: %+v", name, w)
		}
	}
}
