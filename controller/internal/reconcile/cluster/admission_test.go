package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/transport"
)

func quantity(s string) *resource.Quantity { q := resource.MustParse(s); return &q }

func selector(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func expression(key string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOpExists}}}
}

func TestAdmission_badSpecs(t *testing.T) {
	c := apitest.Client(t)
	type spec = v1alpha1.ClusterSpec
	devices := func(d v1alpha1.DeviceSelector) func(*spec) { return func(s *spec) { s.Devices = &d } }
	path := func(p string) func(*spec) {
		return devices(v1alpha1.DeviceSelector{Paths: []v1alpha1.DevicePath{v1alpha1.DevicePath(p)}})
	}
	consent := func(host, p string) func(*spec) {
		return devices(v1alpha1.DeviceSelector{Wipe: []v1alpha1.WipeConsent{{Host: v1alpha1.HostName(host), Path: v1alpha1.DevicePath(p)}}})
	}
	for name, tc := range map[string]struct {
		edit func(*spec)
		want string
	}{
		"no hosts":                            {func(s *spec) { s.Hosts = nil }, "give either hosts or hostSelector"},
		"hosts and a selector":                {func(s *spec) { s.HostSelector = selector("disk", "yes") }, "give either hosts or hostSelector"},
		"a selector that is empty":            {func(s *spec) { s.Hosts, s.HostSelector = nil, &metav1.LabelSelector{} }, "must not be empty"},
		"a selector on a label of ours":       {func(s *spec) { s.Hosts, s.HostSelector = nil, selector("quarry.storage/storage-type", "lvm") }, "cannot select hosts"},
		"a selector on the label of an Iscsi": {func(s *spec) { s.Hosts, s.HostSelector = nil, selector("iscsi.quarry.storage/san", "true") }, "cannot select hosts"},
		"an expression on a label of ours":    {func(s *spec) { s.Hosts, s.HostSelector = nil, expression("quarry.storage/x") }, "cannot select hosts"},
		"a least age of a disk that is negative": {func(s *spec) {
			s.Devices = &v1alpha1.DeviceSelector{MinAge: &metav1.Duration{Duration: -1}}
		}, "minAge"},
		"a removal delay that is negative": {func(s *spec) { s.RemovalDelay = &metav1.Duration{Duration: -1} }, "removalDelay"},
		"the same host twice":              {func(s *spec) { s.Hosts = []v1alpha1.HostName{"n1", "n2", "n1"} }, "Duplicate value"},
		"an empty host":                    {func(s *spec) { s.Hosts = []v1alpha1.HostName{""} }, "spec.hosts[0]"},
		"a host that is no name":           {func(s *spec) { s.Hosts = []v1alpha1.HostName{"Node_1"} }, "spec.hosts[0]"},
		"another storage type":             {func(s *spec) { s.StorageType = "zfs" }, "storageType"},
		"ceph options for lvm":             {func(s *spec) { s.Ceph = &v1alpha1.CephSpec{Replicas: 1} }, "ceph goes with storageType cephfs only"},
		"copies that share a rack": {func(s *spec) {
			s.StorageType, s.Ceph = "cephfs", &v1alpha1.CephSpec{FailureDomain: "rack"}
		}, "failureDomain"},
		"lvm options for cephfs":              {func(s *spec) { s.StorageType, s.LVM = "cephfs", &v1alpha1.LVMSpec{VolumeGroup: "x"} }, "lvm goes with storageType lvm only"},
		"a relative path":                     {path("sdb"), "must be absolute"},
		"a path elsewhere":                    {path("/etc/passwd"), "must be absolute, below /dev"},
		"a path that escapes":                 {path("/dev/../etc/passwd"), "'.' or '..'"},
		"a path with a dot":                   {path("/dev/./sdb"), "'.' or '..'"},
		"a path with an empty element":        {path("/dev//sdb"), "without empty"},
		"a path that ends with a slash":       {path("/dev/disk/"), "without empty"},
		"a path with a space":                 {path("/dev/sd b"), "must be absolute"},
		"the same path twice":                 {devices(v1alpha1.DeviceSelector{Paths: []v1alpha1.DevicePath{"/dev/sda", "/dev/sda"}}), "Duplicate value"},
		"min above max":                       {devices(v1alpha1.DeviceSelector{MinSize: quantity("2Gi"), MaxSize: quantity("1Gi")}), "minSize must be less than maxSize"},
		"min equal to max, written otherwise": {devices(v1alpha1.DeviceSelector{MinSize: quantity("1Gi"), MaxSize: quantity("1024Mi")}), "minSize must be less than maxSize"},
		"a negative size":                     {devices(v1alpha1.DeviceSelector{MinSize: quantity("-1Gi")}), "minSize must not be negative"},
		"no size at most":                     {devices(v1alpha1.DeviceSelector{MaxSize: quantity("0")}), "maxSize must be more than 0"},
		"an unknown transport":                {devices(v1alpha1.DeviceSelector{Transports: []v1alpha1.Transport{"nvme", "pigeon"}}), "Unsupported value"},
		"the same transport twice":            {devices(v1alpha1.DeviceSelector{Transports: []v1alpha1.Transport{"nvme", "nvme"}}), "Duplicate value"},
		"a wipe of a name that moves":         {consent("n1", "/dev/sdb"), "names like /dev/sdb move"},
		"a wipe by a path that escapes":       {consent("n1", "/dev/disk/by-id/../../sdb"), "'.' or '..'"},
		"a wipe without a host":               {consent("", "/dev/disk/by-id/x"), "host"},
		"a strange volume group":              {func(s *spec) { s.LVM = &v1alpha1.LVMSpec{VolumeGroup: "-x"} }, "volumeGroup"},
		"another filesystem":                  {func(s *spec) { s.StorageClass = &v1alpha1.StorageClassSpec{FSType: "vfat"} }, "fsType"},
		"immediate binding":                   {func(s *spec) { s.StorageClass = &v1alpha1.StorageClassSpec{BindingMode: "Immediate"} }, "bindingMode"},
		"an option of mkfs without a flag": {func(s *spec) {
			s.StorageClass = &v1alpha1.StorageClassSpec{MkfsOptions: []v1alpha1.MkfsOption{"/dev/sda"}}
		}, "an option of mkfs is a flag"},
		"two options in one": {func(s *spec) {
			s.StorageClass = &v1alpha1.StorageClassSpec{MkfsOptions: []v1alpha1.MkfsOption{"-i 65536 -F"}}
		}, "an option of mkfs is a flag"},
		"a mount option that weakens the node": {func(s *spec) {
			s.StorageClass = &v1alpha1.StorageClassSpec{MountOptions: []v1alpha1.MountOption{"suid"}}
		}, "refused"},
		"another approval": {func(s *spec) { s.Approval = "Never" }, "approval"},
		"more hosts than one object should hold": {func(s *spec) {
			for i := range 5001 {
				s.Hosts = append(s.Hosts, v1alpha1.HostName(fmt.Sprintf("h%d", i)))
			}
		}, "5000"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "bad"}, Spec: spec{
				StorageType: v1alpha1.StorageTypeLVM, Hosts: []v1alpha1.HostName{"n1", "n2"},
			}}
			tc.edit(&o.Spec)
			err := c.Create(context.Background(), o)
			if err == nil {
				_ = c.Delete(context.Background(), o)
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the message lacks %q: %v", tc.want, err)
			}
		})
	}
}

// TestAdmission_transports: whatever an agent tells of can be chosen.
func TestAdmission_transports(t *testing.T) {
	c := apitest.Client(t)
	o := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "over-everything"}}
	o.Spec.StorageType, o.Spec.Hosts = v1alpha1.StorageTypeLVM, []v1alpha1.HostName{"n1"}
	o.Spec.Devices = &v1alpha1.DeviceSelector{}
	for _, name := range []string{
		transport.SATA, transport.SAS, transport.SCSI, transport.NVMe, transport.Virtio, transport.Xen, transport.MMC, transport.NVDIMM,
		transport.USB, transport.ISCSI, transport.FC, transport.Fabrics + "tcp", transport.Fabrics + "rdma", transport.Fabrics + "fc",
		transport.Fabrics + "loop", transport.NBD, transport.RBD, transport.RNBD, transport.AoE, transport.DRBD,
	} {
		o.Spec.Devices.Transports = append(o.Spec.Devices.Transports, v1alpha1.Transport(name))
	}
	if err := c.Create(t.Context(), o, client.DryRunAll); err != nil {
		t.Error(err)
	}
}

func TestAdmission_longName(t *testing.T) {
	c := apitest.Client(t)
	o := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("a", 64)}}
	o.Spec.StorageType, o.Spec.Hosts = v1alpha1.StorageTypeLVM, []v1alpha1.HostName{"n1"}
	if err := c.Create(context.Background(), o); err == nil || !strings.Contains(err.Error(), "at most 63 characters") {
		t.Errorf("got %v", err)
	}
}

func TestAdmission_changes(t *testing.T) {
	c := apitest.Client(t)
	for name, tc := range map[string]struct {
		edit func(*v1alpha1.ClusterSpec)
		want string
	}{
		"another storageType":      {func(s *v1alpha1.ClusterSpec) { s.StorageType, s.LVM = "cephfs", nil }, "storageType cannot be changed"},
		"another volume group":     {func(s *v1alpha1.ClusterSpec) { s.LVM.VolumeGroup = "vg2" }, "lvm.volumeGroup cannot be changed"},
		"no volume group any more": {func(s *v1alpha1.ClusterSpec) { s.LVM = nil }, "lvm.volumeGroup cannot be added or removed"},
		"other hosts":              {func(s *v1alpha1.ClusterSpec) { s.Hosts = []v1alpha1.HostName{"n2"} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "changes"}}
			o.Spec.StorageType, o.Spec.Hosts = v1alpha1.StorageTypeLVM, []v1alpha1.HostName{"n1"}
			o.Spec.LVM = &v1alpha1.LVMSpec{VolumeGroup: "vg1"}
			if err := c.Create(context.Background(), o); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Delete(context.Background(), o) })
			tc.edit(&o.Spec)
			err := c.Update(context.Background(), o)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestCluster_failureDomainStays: where copies are is decided once, whatever comes and goes around the field.
func TestCluster_failureDomainStays(t *testing.T) {
	c := apitest.Client(t)
	of := func(domain v1alpha1.FailureDomain) *v1alpha1.CephSpec {
		return &v1alpha1.CephSpec{FailureDomain: domain, Replicas: 2}
	}
	const stays = "ceph.failureDomain cannot be changed"
	for name, tc := range map[string]struct {
		before, after *v1alpha1.CephSpec
		want          string
	}{
		"host is said":          {nil, of("host"), ""},
		"host is left out":      {of("host"), nil, ""},
		"osd stays":             {of("osd"), &v1alpha1.CephSpec{FailureDomain: "osd", Replicas: 3}, ""},
		"host to osd":           {of("host"), of("osd"), stays},
		"nothing to osd":        {nil, of("osd"), stays},
		"no domain to osd":      {of(""), of("osd"), stays},
		"osd to host":           {of("osd"), of("host"), stays},
		"osd is left out":       {of("osd"), of(""), stays},
		"spec.ceph is left out": {of("osd"), nil, stays},
		"something else":        {nil, of("rack"), "Unsupported value"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "domain"}}
			o.Spec.StorageType, o.Spec.Hosts, o.Spec.Ceph = v1alpha1.StorageTypeCephFS, []v1alpha1.HostName{"n1"}, tc.before
			if err := c.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Delete(context.Background(), o) })
			o.Spec.Ceph = tc.after
			err := c.Update(t.Context(), o)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestAdmission_badCeph: what no Ceph cluster can have, or what the controller sets itself, is refused by the schema.
func TestAdmission_badCeph(t *testing.T) {
	c := apitest.Client(t)
	option := func(key string) v1alpha1.CephSpec {
		return v1alpha1.CephSpec{Config: map[string]v1alpha1.CephOption{key: "1"}}
	}
	for name, tc := range map[string]struct {
		spec v1alpha1.CephSpec
		want string
	}{
		"all is well":                      {v1alpha1.CephSpec{Mons: 5, Replicas: 3, Image: "r:5000/c/ceph:v20.2.5@sha256:00", Config: map[string]v1alpha1.CephOption{"osd.bluestore_cache_size": "32Mi"}}, ""},
		"an even number of monitors":       {v1alpha1.CephSpec{Mons: 2}, "mons must be odd"},
		"too many copies":                  {v1alpha1.CephSpec{Replicas: 6}, "less than or equal to 5"},
		"no image":                         {v1alpha1.CephSpec{Image: "not an image"}, "image must be a reference"},
		"an option of nobody":              {option("bluestore_cache_size"), "a key of config is"},
		"an option that makes another one": {option("global.fsid"), "the controller sets this option itself"},
		"one that the file outranks":       {option("osd.log_to_file"), "the controller sets this option itself"},
		"one that says what copies share":  {option("global.osd_crush_chooseleaf_type"), "the controller sets this option itself"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "bad"}}
			o.Spec.StorageType, o.Spec.Hosts, o.Spec.Ceph = v1alpha1.StorageTypeCephFS, []v1alpha1.HostName{"n1"}, &tc.spec
			t.Cleanup(func() { _ = c.Delete(context.Background(), o) })
			err := c.Create(t.Context(), o)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
