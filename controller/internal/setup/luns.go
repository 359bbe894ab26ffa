package setup

import (
	"context"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// indexMemberLUN finds Members by the WWN of the LUN on record.
const indexMemberLUN = "spec.lun.wwn"

// lunOfMember returns the WWN of the LUN on record in the form in which agents report that of a disk, or nothing for a Member without a LUN.
func lunOfMember(o client.Object) []string {
	m, ok := o.(*v1alpha1.Member)
	if !ok || m.Spec.Lun == nil {
		return nil
	}
	if wide, is := strings.CutPrefix(m.Spec.Lun.WWID, "naa."); is {
		return []string{"0x" + wide}
	}
	return []string{m.Spec.Lun.WWID}
}

// lunInUse returns a function that reports whether a disk is a LUN that the Members of an Iscsi have on record: several nodes are meant to see it.
// The volume group on it has to be seen there: an agent refuses such a disk whatever a person consents to. While the LUN is blank, or carries something
// else, being shared may be all that keeps a Cluster from it. A record that cannot be read exempts nothing.
func lunInUse(ctx context.Context, members client.Reader) func(decide.Device) bool {
	return func(d decide.Device) bool {
		if d.WWN == "" || !d.RefusedFor(v1alpha1.RefusalOtherNode) && !d.RefusedFor(v1alpha1.RefusalOwned) {
			return false
		}
		var found v1alpha1.MemberList
		err := members.List(ctx, &found, client.MatchingFields{indexMemberLUN: d.WWN}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return false
		}
		for _, m := range found.Items {
			if m.Spec.Of.Kind == v1alpha1.KindIscsi && m.Spec.Lun.Serial == d.Serial {
				return true
			}
		}
		return false
	}
}
