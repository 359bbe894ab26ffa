package setup

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestLunInUse: a disk that two nodes see is left alone for that, unless it is the LUN on record of an Iscsi and carries the group of one.
func TestLunInUse(t *testing.T) {
	s, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	member := func(name, kind, wwid string) *v1alpha1.Member {
		m := &v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: name}}
		m.Spec.Of, m.Spec.Lun = v1alpha1.MemberOwner{Kind: kind, Name: "san"}, &v1alpha1.MemberLun{WWID: wwid, Serial: "s1", Size: 1 << 30}
		return m
	}
	var failure error
	reader := fake.NewClientBuilder().WithScheme(s).WithIndex(&v1alpha1.Member{}, indexMemberLUN, lunOfMember).
		WithObjects(
			member("san.n1", v1alpha1.KindIscsi, "naa.60014051"), member("san.n2", v1alpha1.KindIscsi, "naa.60014051"),
			member("other", v1alpha1.KindIscsi, "eui.0025"), member("odd", v1alpha1.KindCluster, "naa.60014059"),
			&v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "local.n1"}},
		).
		WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, o ...client.ListOption) error {
			if failure != nil {
				return failure
			}
			return c.List(ctx, l, o...)
		}}).Build()
	meant := lunInUse(t.Context(), reader)
	for name, c := range map[string]struct {
		wwn, serial, refusal string
		unreadable           error
		want                 bool
	}{
		"the LUN, with its group":                  {wwn: "0x60014051", serial: "s1", refusal: v1alpha1.RefusalOtherNode, want: true},
		"the LUN, whose group says whose it is":    {wwn: "0x60014051", serial: "s1", refusal: v1alpha1.RefusalOwned, want: true},
		"a LUN with another kind of name":          {wwn: "eui.0025", serial: "s1", refusal: v1alpha1.RefusalOtherNode, want: true},
		"the LUN before there is a group":          {wwn: "0x60014051", serial: "s1"},
		"the LUN with a filesystem":                {wwn: "0x60014051", serial: "s1", refusal: v1alpha1.RefusalFilesystem},
		"another LUN of that name":                 {wwn: "0x60014051", serial: "s2", refusal: v1alpha1.RefusalOtherNode},
		"a disk that nobody has on record":         {wwn: "0x60014052", serial: "s1", refusal: v1alpha1.RefusalOtherNode},
		"a disk without a name":                    {serial: "s1", refusal: v1alpha1.RefusalOtherNode},
		"a record of something that is no Iscsi":   {wwn: "0x60014059", serial: "s1", refusal: v1alpha1.RefusalOtherNode},
		"the LUN, when records cannot be read now": {wwn: "0x60014051", serial: "s1", refusal: v1alpha1.RefusalOtherNode, unreadable: errors.New("no cache")},
	} {
		failure = c.unreadable
		d := decide.Device{WWN: c.wwn, Serial: c.serial, SizeBytes: 1 << 30}
		if c.refusal != "" {
			d.Refusals = []v1alpha1.Refusal{{Reason: c.refusal}}
		}
		if got := meant(d); got != c.want {
			t.Errorf("%s: meant to be shared: %t", name, got)
		}
		if of := iscsiOf(t.Context(), reader)(d); c.want && of != "Iscsi san" {
			t.Errorf("%s: is the LUN of %q", name, of)
		}
	}
}
