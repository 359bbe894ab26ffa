package setup

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/agents"
	"quarry.storage/quarry/controller/internal/agents/shared"
	"quarry.storage/quarry/controller/internal/backend/iscsi"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/controller/internal/san/fleet"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// lunAgents makes the calls about shared LUNs, and knows how the connections are.
type lunAgents struct{ shared.Calls }

// Node returns what is known about a node.
func (a lunAgents) Node(name string) decide.Node { return a.Pool.Node(name) }

// sharedLuns makes the backend of shared LUNs.
func sharedLuns(m clients, pool *agents.Pool, namespace, pod string) *iscsi.Backend {
	calls := lunAgents{shared.Calls{Pool: pool}}
	leases := san.KubernetesLeases{Client: direct{m.GetClient(), m.GetAPIReader()}, Namespace: namespace, Now: time.Now}
	groups := san.New(san.Config{
		Self: san.ProcessName(san.RoleEngine, pod), Nodes: calls.Calls, Maker: calls.Calls, Processes: san.Pods{Live: m.GetAPIReader(), Namespace: namespace},
		Fleet: fleet.Fleet{Live: m.GetAPIReader(), Reader: m.GetClient(), Agents: pool}, Leases: leases,
		// A group that was made is not asked for again, and no volume can be made in it before its turn has ended.
		Settle: 2 * time.Second,
	})
	return iscsi.New(iscsi.Config{
		Agents: calls, Groups: groups, Records: leases, Client: m.GetClient(), Live: m.GetAPIReader(), Namespace: namespace, Now: time.Now,
		Random: func() uint64 { return binary.BigEndian.Uint64(random(8)) },
	})
}

// random returns random bytes. Go's own source never fails: it ends the process instead.
func random(n int) []byte {
	out := make([]byte, n)
	_, _ = rand.Read(out)
	return out
}

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
	of := iscsiOf(ctx, members)
	return func(d decide.Device) bool {
		return (d.RefusedFor(v1alpha1.RefusalOtherNode) || d.RefusedFor(v1alpha1.RefusalOwned)) && of(d) != ""
	}
}

// iscsiOf returns a function that names the Iscsi whose Members have a disk on record as its LUN, as "Iscsi san". It is empty for any other disk, and where the records cannot be read.
func iscsiOf(ctx context.Context, members client.Reader) func(decide.Device) string {
	return func(d decide.Device) string {
		if d.WWN == "" {
			return ""
		}
		var found v1alpha1.MemberList
		err := members.List(ctx, &found, client.MatchingFields{indexMemberLUN: d.WWN}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return ""
		}
		for _, m := range found.Items {
			if m.Spec.Of.Kind == v1alpha1.KindIscsi && m.Spec.Lun.Serial == d.Serial {
				return m.Spec.Of.Kind + " " + m.Spec.Of.Name
			}
		}
		return ""
	}
}
