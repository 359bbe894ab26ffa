package host

import (
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func cluster(name string, kind v1alpha1.StorageType, age int, hosts ...string) Cluster {
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(-time.Duration(age) * time.Hour)
	return Cluster{Name: name, UID: "uid-" + name, Type: kind, Created: created, Hosts: hosts}
}

func TestJudge(t *testing.T) {
	const lvm, ceph = v1alpha1.StorageTypeLVM, v1alpha1.StorageTypeCephFS
	recorded := func(c Cluster) Cluster { c.Recorded = c.Hosts; return c }
	deleting := func(c Cluster) Cluster { c.Deleting = true; return c }
	for name, c := range map[string]struct {
		own      Cluster
		missing  bool
		others   []Cluster
		reason   string
		contains string
	}{
		"a host alone is fine":                              {own: cluster("a", lvm, 1, "n1")},
		"a host that Kubernetes does not know is not":       {own: cluster("a", lvm, 1, "n1"), missing: true, reason: v1alpha1.ReasonHostNotFound},
		"two Clusters of one type share a host":             {own: cluster("a", lvm, 1, "n1"), others: []Cluster{cluster("b", lvm, 2, "n1")}},
		"an older Cluster of another type has the host":     {own: cluster("a", lvm, 1, "n1"), others: []Cluster{cluster("b", ceph, 2, "n1")}, reason: v1alpha1.ReasonHostConflict, contains: "Cluster b of type cephfs"},
		"a younger Cluster of another type has to wait":     {own: cluster("a", lvm, 2, "n1"), others: []Cluster{cluster("b", ceph, 1, "n1")}},
		"of the same age the name decides":                  {own: cluster("b", lvm, 1, "n1"), others: []Cluster{cluster("a", ceph, 1, "n1")}, reason: v1alpha1.ReasonHostConflict},
		"another host does not matter":                      {own: cluster("a", lvm, 1, "n1"), others: []Cluster{cluster("b", ceph, 2, "n2")}},
		"who owns disks there comes first":                  {own: recorded(cluster("a", lvm, 1, "n1")), others: []Cluster{cluster("b", ceph, 2, "n1")}},
		"owning beats being older":                          {own: cluster("a", ceph, 2, "n1"), others: []Cluster{recorded(cluster("b", lvm, 1, "n1"))}, reason: v1alpha1.ReasonHostConflict},
		"a Cluster that is being deleted gives the host up": {own: cluster("a", lvm, 1, "n1"), others: []Cluster{deleting(cluster("b", ceph, 2, "n1"))}},
		"but not while it owns disks there":                 {own: cluster("a", lvm, 1, "n1"), others: []Cluster{deleting(recorded(cluster("b", ceph, 2, "n1")))}, reason: v1alpha1.ReasonHostConflict},
	} {
		t.Run(name, func(t *testing.T) {
			got := Judge(c.own, "n1", !c.missing, c.others)
			switch {
			case got == nil && c.reason != "":
				t.Errorf("accepted, want %s", c.reason)
			case got != nil && (got.Reason != c.reason || !strings.Contains(got.Message, c.contains)):
				t.Errorf("got %+v, want %s %q", got, c.reason, c.contains)
			}
		})
	}
}

func TestJudge_isSymmetric(t *testing.T) {
	a, b := cluster("a", v1alpha1.StorageTypeLVM, 1, "n1"), cluster("b", v1alpha1.StorageTypeCephFS, 1, "n1")
	if (Judge(a, "n1", true, []Cluster{b}) == nil) == (Judge(b, "n1", true, []Cluster{a}) == nil) {
		t.Error("both or neither get the host")
	}
}

func TestLabelled(t *testing.T) {
	others := []Cluster{cluster("a", v1alpha1.StorageTypeLVM, 1, "n1"), cluster("b", v1alpha1.StorageTypeCephFS, 1, "n2")}
	for node, want := range map[string]bool{"n1": true, "n2": false, "n3": false} {
		if got := Labelled(node, v1alpha1.StorageTypeLVM, others); got != want {
			t.Errorf("Labelled(%s) = %t", node, got)
		}
	}
}

func TestOf(t *testing.T) {
	c := &v1alpha1.Cluster{}
	c.Name, c.UID, c.Spec.StorageType = "a", "uid-a", v1alpha1.StorageTypeLVM
	c.Spec.Hosts = []v1alpha1.HostName{"n1", "n2"}
	c.Status.Config = []v1alpha1.HostDevices{{NodeName: "n2", BlockDevices: []string{"/dev/x"}}, {NodeName: "n3"}}
	got := Of(c)
	if got.UID != "uid-a" || got.Deleting || len(got.Hosts) != 2 || len(got.Recorded) != 1 || got.Recorded[0] != "n2" {
		t.Errorf("%+v", got)
	}
}
