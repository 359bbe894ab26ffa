package fleet

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

type agents map[string]decide.Node

func (a agents) Node(name string) decide.Node { return a[name] }

func member(node string, deleted bool, r *v1alpha1.MemberReservation) *v1alpha1.Member {
	m := &v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "san." + node}}
	m.Spec.Of, m.Spec.Node, m.Spec.Reservation = v1alpha1.MemberOwner{Name: "san", UID: "uid"}, v1alpha1.HostName(node), r
	if deleted {
		m.DeletionTimestamp, m.Finalizers = new(metav1.Now()), []string{v1alpha1.FinalizerMember}
	}
	return m
}

// named gives a Member another name, as a person may.
func named(name string, m *v1alpha1.Member) *v1alpha1.Member {
	m.Name = name
	return m
}

// indexed is a fake API server that chooses Members by their owner.
func indexed(s *runtime.Scheme) *fake.ClientBuilder {
	return fake.NewClientBuilder().WithScheme(s).WithIndex(&v1alpha1.Member{}, kube.MemberOwner, func(o client.Object) []string {
		m, _ := o.(*v1alpha1.Member)
		return []string{string(m.Spec.Of.UID)}
	})
}

// counted counts the lists, and the Members that are sent.
type counted struct {
	client.Reader
	lists, members int
}

func (c *counted) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := c.Reader.List(ctx, list, options...)
	if l, is := list.(*v1alpha1.MemberList); is {
		c.lists, c.members = c.lists+1, c.members+len(l.Items)
	}
	return err
}

func TestFleet(t *testing.T) {
	const m1, m2 = "4c4c4544-0051-3410-8051-b5c04f375931", "4c4c4544-0051-3410-8051-b5c04f375932"
	up := agents{
		"n1": {Agent: decide.AgentUp, BootID: "b1"}, "n2": {Agent: decide.AgentUp, BootID: "b2"}, "n3": {Agent: decide.AgentUnreachable, BootID: "b1"},
		"n4": {Agent: decide.AgentUp, BootID: "b1"}, "n5": {Agent: decide.AgentUp, BootID: "b1"}, "n6": {Agent: decide.AgentUp, BootID: "b2"},
		"n7": {Agent: decide.AgentConnecting}, "n8": {Agent: decide.AgentUp},
	}
	of := func(machine string) *v1alpha1.MemberReservation {
		return &v1alpha1.MemberReservation{Key: "00000000000000a1", BootID: "b1", Machine: machine, Unfenced: true}
	}
	key := func(k string) *v1alpha1.MemberReservation { return &v1alpha1.MemberReservation{Key: k, BootID: "b1"} }
	fenced, without, open := key("00000000000000ff"), key("0000000000000005"), key("00000000000000a1")
	open.Registering = "1"
	fenced.Fenced, without.Unfenced = true, true
	for name, c := range map[string]struct {
		members []*v1alpha1.Member
		want    []san.Member
		fails   bool
	}{
		"a key for this boot":    {[]*v1alpha1.Member{member("n1", false, key("00000000000000a1"))}, []san.Member{{Node: "n1", Credential: sharedlun.Credential{Key: 0xa1}, BootID: "b1", ReportedBootID: "b1", Up: true}}, false},
		"a key for another boot": {[]*v1alpha1.Member{member("n2", false, key("00000000000000a1"))}, []san.Member{{Node: "n2", Credential: sharedlun.Credential{Key: 0xa1}, BootID: "b1", ReportedBootID: "b2"}}, false},
		"another machine": {[]*v1alpha1.Member{member("n2", false, of(m1))}, []san.Member{{
			Node: "n2", Credential: sharedlun.Credential{Unfenced: true}, BootID: "b1", Stranger: "it is machine " + m2 + ", and machine " + m1 + ", which had the name of the node, may still use the LUN",
		}}, false},
		"another boot, whose machine no Node tells": {[]*v1alpha1.Member{member("n6", false, of(m1))}, []san.Member{{
			Node: "n6", Credential: sharedlun.Credential{Unfenced: true}, BootID: "b1",
			Stranger: `its Node does not say which machine it is in boot "b2", and machine ` + m1 + `, which had the name of the node, may still use the LUN`,
		}}, false},
		"a silent agent":                {[]*v1alpha1.Member{member("n3", false, key("00000000000000a1"))}, []san.Member{{Node: "n3", Credential: sharedlun.Credential{Key: 0xa1}, BootID: "b1"}}, false},
		"too early to say":              {[]*v1alpha1.Member{member("n7", false, fenced)}, []san.Member{{Node: "n7", Credential: sharedlun.Credential{Key: 0xff}, BootID: "b1", Fenced: true, TooEarly: true}}, false},
		"too early to say, without key": {[]*v1alpha1.Member{member("n7", false, nil)}, []san.Member{{Node: "n7", TooEarly: true}}, false},
		"it did not tell its boot yet": {[]*v1alpha1.Member{member("n8", false, fenced)}, []san.Member{{
			Node: "n8", Credential: sharedlun.Credential{Key: 0xff}, BootID: "b1", Fenced: true, TooEarly: true,
			Stranger: `it is not known which machine was in boot "b1" of the node, and that one may still use the LUN`,
		}}, false},
		"no key":                        {[]*v1alpha1.Member{member("n1", false, nil)}, []san.Member{{Node: "n1", ReportedBootID: "b1"}}, false},
		"a fenced node":                 {[]*v1alpha1.Member{member("n4", false, fenced)}, []san.Member{{Node: "n4", Credential: sharedlun.Credential{Key: 0xff}, BootID: "b1", ReportedBootID: "b1", Up: true, Fenced: true}}, false},
		"a target without reservations": {[]*v1alpha1.Member{member("n4", false, without)}, []san.Member{{Node: "n4", Credential: sharedlun.Credential{Unfenced: true}, BootID: "b1", ReportedBootID: "b1", Up: true}}, false},
		"a key that is being registered": {[]*v1alpha1.Member{member("n1", false, open)}, []san.Member{{
			Node: "n1", Credential: sharedlun.Credential{Key: 0xa1}, BootID: "b1", ReportedBootID: "b1", Up: true, Registering: true,
		}}, false},
		"all are being removed":      {[]*v1alpha1.Member{member("n1", true, key("00000000000000a1"))}, []san.Member{{Node: "n1", Credential: sharedlun.Credential{Key: 0xa1}, BootID: "b1", ReportedBootID: "b1", Up: true}}, false},
		"a key that nobody can read": {[]*v1alpha1.Member{member("n1", false, key("what"))}, nil, true},
		"two of one node: that of the right name counts, and the keys of the other one may be on the LUN": {
			[]*v1alpha1.Member{named("by-hand", member("n4", false, open)), member("n4", false, fenced)},
			[]san.Member{{
				Node: "n4", Credential: sharedlun.Credential{Key: 0xff}, BootID: "b1", ReportedBootID: "b1", Previous: []uint64{0xa1}, Up: true, Fenced: true, Registering: true,
			}},
			false,
		},
		"two of one node, with one key": {
			[]*v1alpha1.Member{named("copy", member("n1", false, key("00000000000000a1"))), member("n1", false, key("00000000000000a1"))},
			[]san.Member{{Node: "n1", Credential: sharedlun.Credential{Key: 0xa1}, BootID: "b1", ReportedBootID: "b1", Up: true}},
			false,
		},
		"one is removed, another stays": {
			[]*v1alpha1.Member{member("n1", true, key("00000000000000a1")), member("n5", false, key("00000000000000a5"))},
			[]san.Member{{Node: "n1", Credential: sharedlun.Credential{Key: 0xa1}, BootID: "b1", ReportedBootID: "b1"}, {Node: "n5", Credential: sharedlun.Credential{Key: 0xa5}, BootID: "b1", ReportedBootID: "b1", Up: true}},
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := runtime.NewScheme()
			if err := errors.Join(v1alpha1.AddToScheme(s), corev1.AddToScheme(s)); err != nil {
				t.Fatal(err)
			}
			other := member("n9", false, key("0000000000000009"))
			other.Spec.Of.UID = "other"
			n2 := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}
			n2.Status.NodeInfo.BootID, n2.Status.NodeInfo.SystemUUID = "b2", m2
			b := indexed(s).WithObjects(other, n2)
			for _, m := range c.members {
				b = b.WithObjects(m)
			}
			live := &counted{Reader: b.Build()}
			defer func() {
				if live.lists != 1 || live.members != len(c.members) {
					t.Errorf("the API server was asked %d times, and sent %d Members, want 1 and %d", live.lists, live.members, len(c.members))
				}
			}()
			got, err := Fleet{Live: live, Reader: live.Reader, Agents: up}.Members(t.Context(), sharedlun.Ref{OwnerUID: "uid"})
			if d := cmp.Diff(c.want, got); d != "" || (err != nil) != c.fails {
				t.Errorf("%v\n%s", err, d)
			}
		})
	}
}

// TestFleet_uuidAlone: where no key tells, a node that was booted is the machine of its record only if no other node says that it is that machine.
func TestFleet_uuidAlone(t *testing.T) {
	const m2 = "4c4c4544-0051-3410-8051-b5c04f375932"
	node := func(name, boot string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.NodeInfo.BootID, n.Status.NodeInfo.SystemUUID = boot, m2
		return n
	}
	shared := func(with string) string {
		return "the UUID " + m2 + " on record tells no machine from others: " + with + `. So it is not known which machine was in boot "b1" of the node, and that one may still use the LUN. ` +
			"Give each machine a UUID of its own, in its firmware or in the settings of the VM"
	}
	record := &v1alpha1.MemberReservation{Key: "00000000000000a1", BootID: "b1", Machine: m2, Unfenced: true}
	elsewhere := member("n8", false, &v1alpha1.MemberReservation{Key: "00000000000000a8", BootID: "b8", Machine: m2})
	elsewhere.Spec.Of.UID = "other"
	for name, c := range map[string]struct {
		others []client.Object
		want   san.Member
	}{
		"alone": {nil, san.Member{ReportedBootID: "b2"}},
		"another Node says the same": {
			[]client.Object{node("n9", "b9")}, san.Member{Stranger: shared("node n9 has it, too")},
		},
		"a Member of another storage says the same": {
			[]client.Object{elsewhere}, san.Member{Stranger: shared("a key of node n8 was granted to a machine that has it, too")},
		},
	} {
		s := runtime.NewScheme()
		if err := errors.Join(v1alpha1.AddToScheme(s), corev1.AddToScheme(s)); err != nil {
			t.Fatal(err)
		}
		live := indexed(s).WithObjects(member("n2", false, record), node("n2", "b2")).WithObjects(c.others...).Build()
		up := agents{"n2": {Agent: decide.AgentUp, BootID: "b2"}}
		got, err := Fleet{Live: live, Reader: live, Agents: up}.Members(t.Context(), sharedlun.Ref{OwnerUID: "uid"})
		c.want.Node, c.want.BootID, c.want.Unfenced = "n2", "b1", true
		if d := cmp.Diff([]san.Member{c.want}, got); d != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, d)
		}
	}
}

// TestFleet_readsOnce: where many nodes were booted and no key tells, all Members and all Nodes are read once.
func TestFleet_readsOnce(t *testing.T) {
	s := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(s), corev1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	b, up := indexed(s), agents{}
	for i := range 5 {
		name, machine := fmt.Sprintf("n%d", i), fmt.Sprintf("4c4c4544-0051-3410-8051-b5c04f37593%d", i)
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.NodeInfo.BootID, n.Status.NodeInfo.SystemUUID = "b2", machine
		b = b.WithObjects(n, member(name, false, &v1alpha1.MemberReservation{Key: "00000000000000a1", BootID: "b1", Machine: machine, Unfenced: true}))
		up[name] = decide.Node{Agent: decide.AgentUp, BootID: "b2"}
	}
	live := &counted{Reader: b.Build()}
	got, err := Fleet{Live: live, Reader: live.Reader, Agents: up}.Members(t.Context(), sharedlun.Ref{OwnerUID: "uid"})
	if err != nil || len(got) != 5 || live.lists != 2 {
		t.Errorf("%d Members with %d lists of Members: %v", len(got), live.lists, err)
	}
	for _, m := range got {
		if m.Stranger != "" {
			t.Errorf("%+v", m)
		}
	}
}

// TestFleet_maintenance: it counts wherever it was asked for, and not where all of the storage is removed.
func TestFleet_maintenance(t *testing.T) {
	up := agents{"n1": {Agent: decide.AgentUp, BootID: "b1"}}
	for name, c := range map[string]struct {
		ask     func(o *v1alpha1.Iscsi, m *v1alpha1.Member, n *v1alpha1.StorageNode)
		deleted bool
		want    bool
	}{
		"nowhere": {func(*v1alpha1.Iscsi, *v1alpha1.Member, *v1alpha1.StorageNode) {}, false, false},
		"in the Iscsi": {func(o *v1alpha1.Iscsi, _ *v1alpha1.Member, _ *v1alpha1.StorageNode) {
			o.Spec.Maintenance = []v1alpha1.HostName{"n1"}
		}, false, true},
		"of another one": {func(o *v1alpha1.Iscsi, _ *v1alpha1.Member, _ *v1alpha1.StorageNode) {
			o.UID, o.Spec.Maintenance = "other", []v1alpha1.HostName{"n1"}
		}, false, false},
		"of another node": {func(o *v1alpha1.Iscsi, _ *v1alpha1.Member, _ *v1alpha1.StorageNode) {
			o.Spec.Maintenance = []v1alpha1.HostName{"n2"}
		}, false, false},
		"in the Member":      {func(_ *v1alpha1.Iscsi, m *v1alpha1.Member, _ *v1alpha1.StorageNode) { m.Spec.Maintenance = true }, false, true},
		"in the StorageNode": {func(_ *v1alpha1.Iscsi, _ *v1alpha1.Member, n *v1alpha1.StorageNode) { n.Spec.Maintenance = true }, false, true},
		"and all is removed": {func(_ *v1alpha1.Iscsi, _ *v1alpha1.Member, n *v1alpha1.StorageNode) { n.Spec.Maintenance = true }, true, false},
	} {
		s := runtime.NewScheme()
		if err := v1alpha1.AddToScheme(s); err != nil {
			t.Fatal(err)
		}
		o := &v1alpha1.Iscsi{ObjectMeta: metav1.ObjectMeta{Name: "san", UID: "uid"}}
		m := member("n1", c.deleted, &v1alpha1.MemberReservation{Key: "00000000000000a1", BootID: "b1"})
		n := &v1alpha1.StorageNode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
		c.ask(o, m, n)
		got, err := Fleet{
			Live: indexed(s).WithObjects(m).Build(), Reader: indexed(s).WithObjects(o, n).Build(), Agents: up,
		}.Members(t.Context(), sharedlun.Ref{OwnerUID: "uid"})
		if err != nil || len(got) != 1 || got[0].Maintenance != c.want || !got[0].Up {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
