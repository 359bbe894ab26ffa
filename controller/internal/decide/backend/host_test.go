package backend

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func claimant(name string, kind v1alpha1.StorageType, age int, hosts ...string) Claimant {
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(-time.Duration(age) * time.Hour)
	c := Claimant{Owner: Owner{Kind: "Cluster", Name: name, UID: types.UID("uid-" + name)}, Type: kind, Exclusive: true, Created: created}
	for _, h := range hosts {
		c.Spec.Hosts = append(c.Spec.Hosts, v1alpha1.HostName(h))
	}
	return c
}

// settled returns a claimant that has a part on every host that it lists.
func settled(c Claimant) Claimant {
	for _, h := range c.Spec.Hosts {
		c.Members = append(c.Members, string(h))
	}
	return c
}

func TestJudge(t *testing.T) {
	const lvm, ceph = v1alpha1.StorageTypeLVM, v1alpha1.StorageTypeCephFS
	deleting := func(c Claimant) Claimant { c.Deleting = true; return c }
	shares := func(c Claimant) Claimant { c.Exclusive = false; return c }
	selecting := claimant("b", ceph, 2)
	selecting.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "ssd"}}
	for name, c := range map[string]struct {
		own      Claimant
		missing  bool
		others   []Claimant
		reason   string
		contains string
	}{
		"a host alone is fine":                            {own: claimant("a", lvm, 1, "n1")},
		"a host that Kubernetes does not know is not":     {own: claimant("a", lvm, 1, "n1"), missing: true, reason: v1alpha1.ReasonHostNotFound},
		"two storages of one type share a host":           {own: claimant("a", lvm, 1, "n1"), others: []Claimant{claimant("b", lvm, 2, "n1")}},
		"an older storage of another type has the host":   {own: claimant("a", lvm, 1, "n1"), others: []Claimant{claimant("b", ceph, 2, "n1")}, reason: v1alpha1.ReasonHostConflict, contains: "Cluster b of type cephfs"},
		"a younger storage of another type has to wait":   {own: claimant("a", lvm, 2, "n1"), others: []Claimant{claimant("b", ceph, 1, "n1")}},
		"of the same age the name decides":                {own: claimant("b", lvm, 1, "n1"), others: []Claimant{claimant("a", ceph, 1, "n1")}, reason: v1alpha1.ReasonHostConflict},
		"another host does not matter":                    {own: claimant("a", lvm, 1, "n1"), others: []Claimant{claimant("b", ceph, 2, "n2")}},
		"who has a part there comes first":                {own: settled(claimant("a", lvm, 1, "n1")), others: []Claimant{claimant("b", ceph, 2, "n1")}},
		"having a part beats being older":                 {own: claimant("a", ceph, 2, "n1"), others: []Claimant{settled(claimant("b", lvm, 1, "n1"))}, reason: v1alpha1.ReasonHostConflict},
		"a storage that is being deleted gives it up":     {own: claimant("a", lvm, 1, "n1"), others: []Claimant{deleting(claimant("b", ceph, 2, "n1"))}},
		"but not while it has a part there":               {own: claimant("a", lvm, 1, "n1"), others: []Claimant{deleting(settled(claimant("b", ceph, 2, "n1")))}, reason: v1alpha1.ReasonHostConflict},
		"a selector that matches claims the host":         {own: claimant("a", lvm, 1, "n1"), others: []Claimant{selecting}, reason: v1alpha1.ReasonHostConflict},
		"one exclusive storage of two is enough":          {own: shares(claimant("a", lvm, 1, "n1")), others: []Claimant{claimant("b", ceph, 2, "n1")}, reason: v1alpha1.ReasonHostConflict},
		"storages that both share a host do not mind":     {own: shares(claimant("a", lvm, 1, "n1")), others: []Claimant{shares(claimant("b", ceph, 2, "n1"))}},
		"a storage without a type takes no part":          {own: claimant("a", lvm, 1, "n1"), others: []Claimant{claimant("b", "", 2, "n1")}},
		"the storage itself among the others is no rival": {own: claimant("a", lvm, 1, "n1"), others: []Claimant{settled(claimant("a", ceph, 2, "n1"))}},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.own.Judge(Node{Name: "n1", Exists: !c.missing, Labels: map[string]string{"disk": "ssd"}}, c.others)
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
	for name, pair := range map[string][2]Claimant{
		"of the same age":               {claimant("a", v1alpha1.StorageTypeLVM, 1, "n1"), claimant("b", v1alpha1.StorageTypeCephFS, 1, "n1")},
		"of two kinds and the same age": {claimant("a", v1alpha1.StorageTypeLVM, 1, "n1"), kind("Iscsi", claimant("a", v1alpha1.StorageTypeCephFS, 1, "n1"))},
	} {
		n := Node{Name: "n1", Exists: true}
		if (pair[0].Judge(n, pair[1:]) == nil) == (pair[1].Judge(n, pair[:1]) == nil) {
			t.Errorf("%s: both or neither get the host", name)
		}
	}
}

func kind(k string, c Claimant) Claimant {
	c.Owner.Kind, c.Owner.UID = k, types.UID("uid-"+k)
	return c
}

func TestLabelled(t *testing.T) {
	others := []Claimant{claimant("a", v1alpha1.StorageTypeLVM, 1, "n1"), claimant("b", v1alpha1.StorageTypeCephFS, 1, "n2")}
	for name, want := range map[string]bool{"n1": true, "n2": false, "n3": false} {
		if got := Labelled(Node{Name: name, Exists: true}, v1alpha1.StorageTypeLVM, others); got != want {
			t.Errorf("Labelled(%s) = %t", name, got)
		}
	}
}

func TestWantsAndUnwanted(t *testing.T) {
	listed := v1alpha1.StorageCommon{Hosts: []v1alpha1.HostName{"n1"}}
	selecting := func(s *metav1.LabelSelector) v1alpha1.StorageCommon { return v1alpha1.StorageCommon{Selector: s} }
	ssd := selecting(&metav1.LabelSelector{MatchLabels: map[string]string{"disk": "ssd"}})
	broken := selecting(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "disk", Operator: "Nonsense"}}})
	fast := map[string]string{"disk": "ssd"}
	for name, c := range map[string]struct {
		spec   v1alpha1.StorageCommon
		node   Node
		wants  bool
		reason string
	}{
		"a listed host":                     {listed, Node{Name: "n1", Exists: true}, true, ""},
		"a listed host that does not exist": {listed, Node{Name: "n1"}, true, ""},
		"a host that is not listed":         {listed, Node{Name: "n2", Exists: true}, false, v1alpha1.ReasonHostNotListed},
		"one that does not exist either":    {listed, Node{Name: "n2"}, false, v1alpha1.ReasonHostNotListed},
		"a selected host":                   {ssd, Node{Name: "n1", Exists: true, Labels: fast}, true, ""},
		"a host that is not selected":       {ssd, Node{Name: "n1", Exists: true}, false, v1alpha1.ReasonHostNotSelected},
		"a missing Node is not unselected":  {ssd, Node{Name: "n1"}, false, ""},
		"a selector that cannot be read":    {broken, Node{Name: "n1", Exists: true, Labels: fast}, false, ""},
		"neither hosts nor a selector":      {v1alpha1.StorageCommon{}, Node{Name: "n1", Exists: true}, false, v1alpha1.ReasonHostNotListed},
	} {
		t.Run(name, func(t *testing.T) {
			if Wants(c.spec, c.node) != c.wants {
				t.Errorf("Wants is not %t", c.wants)
			}
			if reason, message := Unwanted(c.spec, c.node); reason != c.reason || (message == "") != (reason == "") {
				t.Errorf("%q, %q", reason, message)
			}
		})
	}
}

func TestUnreadable_selectorSaysNothing(t *testing.T) {
	for _, r := range []metav1.LabelSelectorRequirement{
		{Key: "a", Operator: "Near", Values: []string{"b"}}, {Key: "a", Operator: metav1.LabelSelectorOpIn}, {Key: "a", Operator: metav1.LabelSelectorOpIn, Values: []string{"b c"}},
	} {
		c := v1alpha1.StorageCommon{Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{r}}}
		n := Node{Name: "n1", Exists: true, Labels: map[string]string{"a": "b"}}
		if reason, _ := Unwanted(c, n); reason != "" || Wants(c, n) || Unreadable(c) == "" {
			t.Errorf("%+v: unwanted %q, wanted %t, %q", r, reason, Wants(c, n), Unreadable(c))
		}
	}
	for _, c := range []v1alpha1.StorageCommon{{}, {Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}} {
		if why := Unreadable(c); why != "" {
			t.Errorf("%+v: %s", c, why)
		}
	}
}
