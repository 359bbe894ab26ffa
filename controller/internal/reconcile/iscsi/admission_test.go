package iscsi

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func valid(name string) *v1alpha1.Iscsi {
	i := &v1alpha1.Iscsi{ObjectMeta: metav1.ObjectMeta{Name: name}}
	i.Spec.Targets, i.Spec.IQN, i.Spec.Initiators = []v1alpha1.PortalAddress{"10.0.0.1"}, iqn, []v1alpha1.HostName{"n1"}
	return i
}

func TestAdmission_badSpecs(t *testing.T) {
	c := apitest.Client(t)
	type spec = v1alpha1.IscsiSpec
	targets := func(all ...v1alpha1.PortalAddress) func(*spec) { return func(s *spec) { s.Targets = all } }
	name := func(text string) func(*spec) { return func(s *spec) { s.IQN = text } }
	for name, tc := range map[string]struct {
		edit func(*spec)
		want string
	}{
		"no target":                    {targets(), "targets"},
		"a target that is a name":      {targets("nas.example.org"), "a target is an IP address"},
		"a target with a port":         {targets("10.0.0.1:3260"), "a target is an IP address"},
		"a target in brackets":         {targets("[fd00::1]"), "a target is an IP address"},
		"a target with a zone":         {targets("fe80::1%eth0"), "a target is an IP address"},
		"the same target twice":        {targets("10.0.0.1", "10.0.0.1"), "Duplicate value"},
		"two paths without multipath":  {targets("10.0.0.1", "10.0.0.2"), "set multipath: true"},
		"no port":                      {func(s *spec) { s.Port = -1 }, "port"},
		"a port that is too high":      {func(s *spec) { s.Port = 65536 }, "port"},
		"no name":                      {name(""), "iqn"},
		"a name with a blank":          {name("iqn.2026-01.lab:a b"), "iSCSI name"},
		"a name in capitals":           {name("iqn.2026-01.lab:DISK"), "iSCSI name"},
		"a name of a 13th month":       {name("iqn.2026-13.lab:disk"), "iSCSI name"},
		"a name with a path":           {name("iqn.2026-01.lab:../x"), "iSCSI name"},
		"half an eui":                  {name("eui.0123"), "iSCSI name"},
		"no initiator":                 {func(s *spec) { s.Initiators = nil }, "initiators"},
		"the same initiator twice":     {func(s *spec) { s.Initiators = []v1alpha1.HostName{"n1", "n1"} }, "Duplicate value"},
		"an initiator that is no name": {func(s *spec) { s.Initiators = []v1alpha1.HostName{"Node_1"} }, "initiators[0]"},
		"maintenance of another node":  {func(s *spec) { s.Maintenance = []v1alpha1.HostName{"n9"} }, "names a node that is no initiator"},
		"another cleanup":              {func(s *spec) { s.Cleanup = "shred" }, "cleanup"},
		"copies that hardly go on":     {func(s *spec) { s.CopyRate = ptr.To(resource.MustParse("1023Ki")) }, "at least 1Mi"},
		"copies by parts of a byte":    {func(s *spec) { s.CopyRate = ptr.To(resource.MustParse("2000000500m")) }, "whole number of bytes"},
		"another approval":             {func(s *spec) { s.Approval = "Never" }, "approval"},
		"another filesystem":           {func(s *spec) { s.StorageClass = &v1alpha1.IscsiStorageClassSpec{FsType: "vfat"} }, "fsType"},
		"a delay that is negative":     {func(s *spec) { s.RemovalDelay = &metav1.Duration{Duration: -time.Second} }, "removalDelay"},
	} {
		t.Run(name, func(t *testing.T) {
			o := valid("bad")
			tc.edit(&o.Spec)
			apitest.Refused(t, c, o, tc.want)
		})
	}
	apitest.Refused(t, c, valid(strings.Repeat("a", 64)), "at most 63")
}

func TestAdmission_goodNames(t *testing.T) {
	c := apitest.Client(t)
	for n, text := range map[string]string{
		"eui": "eui.0123456789abcdef", "naa": "naa.52004567ba64678d", "long-naa": "naa.52004567ba64678d52004567ba64678d", "domain": "iqn.2001-04.com.example",
		"rest": "iqn.2001-04.com.example:storage:disk_1.a-b",
	} {
		o := valid("good-" + n)
		o.Spec.CopyRate = ptr.To(resource.MustParse("50Mi"))
		o.Spec.IQN, o.Spec.Targets = text, []v1alpha1.PortalAddress{"fd00::1"}
		if err := c.Create(t.Context(), o); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if o.Spec.Port != 3260 || o.Spec.Cleanup != v1alpha1.CleanupZero || o.Spec.Approval != v1alpha1.ApprovalAutomatic {
			t.Errorf("%s: defaults %+v", text, o.Spec)
		}
		if err := c.Delete(t.Context(), o); err != nil {
			t.Error(err)
		}
	}
}

// TestAdmission_changesWhileVolumesExist: what volumes lie on stays.
func TestAdmission_changesWhileVolumesExist(t *testing.T) {
	c := apitest.Client(t)
	for name, tc := range map[string]struct {
		volumes int32
		edit    func(*v1alpha1.IscsiSpec)
		allowed bool
	}{
		"another target":                {1, func(s *v1alpha1.IscsiSpec) { s.IQN = "iqn.2026-01.lab.quarry:other" }, false},
		"another port":                  {1, func(s *v1alpha1.IscsiSpec) { s.Port = 860 }, false},
		"another portal":                {1, func(s *v1alpha1.IscsiSpec) { s.Targets = []v1alpha1.PortalAddress{"10.0.0.9"} }, false},
		"a portal more":                 {1, func(s *v1alpha1.IscsiSpec) { s.Targets, s.Multipath = append(s.Targets, "10.0.0.9"), true }, true},
		"an initiator more":             {1, func(s *v1alpha1.IscsiSpec) { s.Initiators = append(s.Initiators, "n2") }, true},
		"another target without volume": {0, func(s *v1alpha1.IscsiSpec) { s.IQN = "iqn.2026-01.lab.quarry:other" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			o := valid("used")
			if err := c.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Delete(context.WithoutCancel(t.Context()), o) }()
			o.Status.VolumeCount = tc.volumes
			if err := c.Status().Update(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			tc.edit(&o.Spec)
			if err := c.Update(t.Context(), o); (err == nil) != tc.allowed {
				t.Errorf("%v, want allowed: %t", err, tc.allowed)
			}
		})
	}
}
