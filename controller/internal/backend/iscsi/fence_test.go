package iscsi

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/backend/iscsi/iscsitest"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/iscsi"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// TestPerform_fenceVouched: a person vouches that a node is off, and says so to Kubernetes, unless Kubernetes does not know it.
func TestPerform_fenceVouched(t *testing.T) {
	s := keyed(t)
	fence := s.fence()
	fence.Vouched = true
	s.san.SetAgent("n2", decide.AgentUnreachable)
	wantError(t, s.perform(fence), "not tainted", true)
	s.must(s.api.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}))
	s.must(s.perform(fence))
	if r := s.member("n2").Spec.Reservation; !r.Fenced || s.san.Keys(s.lun)["n2"] != 0 {
		t.Errorf("%+v, keys %v", r, s.san.Keys(s.lun))
	}
}

// TestPerform_fenceKeyless: a node of which no key is on record is fenced by a record with a key that nobody has.
func TestPerform_fenceKeyless(t *testing.T) {
	s := keyed(t)
	edit(s, &v1alpha1.Member{}, "san.n2", func(m *v1alpha1.Member) { m.Spec.Reservation = nil })
	before := s.san.Keys(s.lun)
	fence := s.step("", v1alpha1.ActionFenceNode)
	fence.Runs, fence.Victim, fence.Member = "n1", "n2", "san.n2"
	s.taint()
	wantError(t, s.perform(fence), "another key", true)
	fence.Vouched = true
	wantError(t, s.perform(fence), "answers again", true)
	s.san.SetAgent("n2", decide.AgentUnreachable)
	s.must(s.perform(fence))
	r := s.member("n2").Spec.Reservation
	if r == nil || !r.Fenced || r.BootID != sharedlun.UnknownBoot || r.Unfenced {
		t.Fatalf("%+v", r)
	}
	for node, key := range s.san.Keys(s.lun) {
		if r.Key == sharedlun.FormatKey(key) || before[node] != key {
			t.Errorf("key %s, registered %v, before %v", r.Key, s.san.Keys(s.lun), before)
		}
	}
	// It got a record meanwhile.
	wantError(t, s.perform(fence), "another key", true)
}

// TestPerform_outlived: the keys of boots before the one that a person was told of are taken off, and no other one of the node.
func TestPerform_outlived(t *testing.T) {
	s := keyed(t)
	edit(s, &v1alpha1.Member{}, "san.n2", func(m *v1alpha1.Member) { m.Spec.Reservation.Previous = []string{oldKey} })
	s.san.KeepKey(s.lun, "a path of n2 that is down", 0xdd)
	current := s.member("n2").Spec.Reservation.Key
	step := s.step("", v1alpha1.ActionPreemptKeys)
	step.Runs, step.Victim, step.Member = "n1", "n2", "san.n2"
	for name, c := range map[string]struct {
		boot string
		keys []string
		says string
	}{
		"the current one":    {"n2-boot-1", []string{oldKey, current}, "not on record as one of an earlier boot"},
		"one of nobody":      {"n2-boot-1", []string{olderKey}, "not on record as one of an earlier boot"},
		"booted once more":   {"n2-boot-0", []string{oldKey}, "does not answer any more in the boot"},
		"not booted as told": {"n2-boot-1+", []string{current}, "does not answer any more in the boot"},
	} {
		step.BootID, step.Keys = c.boot, c.keys
		if err := s.perform(step); err == nil {
			t.Errorf("%s: done", name)
		} else {
			wantError(t, err, c.says, true)
		}
	}
	if len(s.san.Keys(s.lun)) != 3 {
		t.Fatalf("keys %v", s.san.Keys(s.lun))
	}
	s.san.Boot("n2")
	step.BootID, step.Keys = "n2-boot-1+", []string{oldKey, current}
	s.must(s.perform(step))
	if keys := s.san.Keys(s.lun); len(keys) != 1 || keys["n1"] == 0 || s.member("n2").Spec.Reservation.Fenced {
		t.Errorf("keys %v, %+v", keys, s.member("n2").Spec.Reservation)
	}
}

// TestPerform_ended: a key of an earlier boot is taken off without a person only as long as the record says that it is of the machine that its node is.
func TestPerform_ended(t *testing.T) {
	s := keyed(t)
	before := s.member("n2").Spec.Reservation.Key
	s.strand()
	s.san.Boot("n2")
	s.must(s.perform(s.step("n2", v1alpha1.ActionLogin)))
	grant, register := s.step("n2", v1alpha1.ActionGrantKey), s.step("n2", v1alpha1.ActionRegisterKey)
	grant.BootID, register.BootID = "n2-boot-1+", "n2-boot-1+"
	s.must(s.perform(grant, register))
	granted := s.member("n2").Spec.Reservation
	if granted.Machines[before] != iscsitest.Machine("machine-of-n2") || len(granted.Machines) != 1 || len(s.san.Keys(s.lun)) != 3 {
		t.Fatalf("%+v, keys %v", granted, s.san.Keys(s.lun))
	}
	step := s.step("", v1alpha1.ActionPreemptKeys)
	step.Runs, step.Victim, step.Member, step.BootID, step.Keys, step.Proven = "n1", "n2", "san.n2", "n2-boot-1+", []string{before}, true
	s.wide = true
	s.testNotAlone(step)
	for name, change := range map[string]func(r *v1alpha1.MemberReservation){
		"no machine on record for the key":   func(r *v1alpha1.MemberReservation) { r.Machines = nil },
		"another machine had the key":        func(r *v1alpha1.MemberReservation) { r.Machines = map[string]string{before: "other"} },
		"no machine on record for this boot": func(r *v1alpha1.MemberReservation) { r.Machine = "" },
		"another machine is in this boot":    func(r *v1alpha1.MemberReservation) { r.Machine = "other" },
		"the key is not on record":           func(r *v1alpha1.MemberReservation) { r.Previous = nil },
		"the key is that of the boot":        func(r *v1alpha1.MemberReservation) { r.Key, r.Previous = before, nil },
	} {
		edit(s, &v1alpha1.Member{}, "san.n2", func(m *v1alpha1.Member) { change(m.Spec.Reservation) })
		if err := s.perform(step); err == nil || len(s.san.Keys(s.lun)) != 3 {
			t.Errorf("%s: %v, keys %v", name, err, s.san.Keys(s.lun))
		}
		edit(s, &v1alpha1.Member{}, "san.n2", func(m *v1alpha1.Member) { m.Spec.Reservation = granted.DeepCopy() })
	}
	s.must(s.perform(step))
	if keys := s.san.Keys(s.lun); len(keys) != 2 || keys["n1"] == 0 || keys["n2"] == 0 {
		t.Errorf("keys %v", keys)
	}
	s.must(s.perform(register))
	if r := s.member("n2").Spec.Reservation; len(r.Previous)+len(r.Machines) > 0 {
		t.Errorf("%+v", r)
	}
}

// testNotAlone: a key stays if the machine of its node may be that of another node as well.
func (s *site) testNotAlone(step iscsi.Step) {
	machine, keys := iscsitest.Machine("machine-of-n2"), len(s.san.Keys(s.lun))
	member := &v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere.n9"}}
	member.Spec.Of, member.Spec.Node = v1alpha1.MemberOwner{Kind: v1alpha1.KindIscsi, Name: "elsewhere", UID: "elsewhere"}, "n9"
	member.Spec.Reservation = &v1alpha1.MemberReservation{Key: "00000000000000ee", BootID: "b", Machines: map[string]string{"00000000000000ed": machine}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n8"}}
	node.Status.NodeInfo.SystemUUID = machine
	for name, o := range map[string]client.Object{"a Member of another Iscsi had a key of the machine": member, "a Node that is no initiator is the machine": node} {
		s.must(s.api.Create(s.t.Context(), o))
		if err := s.perform(step); err == nil || len(s.san.Keys(s.lun)) != keys {
			s.t.Errorf("%s: %v, keys %v", name, err, s.san.Keys(s.lun))
		}
		s.must(s.api.Delete(s.t.Context(), o))
	}
}

// TestPerform_replaceKey: a node replaces a key of its own that is not on record if it is told so, however many there are, and never one that a Member has.
func TestPerform_replaceKey(t *testing.T) {
	s := keyed(t)
	s.san.KeepKey(s.lun, "n2", 0x99)
	register := s.step("n2", v1alpha1.ActionRegisterKey)
	err := s.perform(register)
	wantError(t, err, "another key of this node", false)
	if r := s.member("n2").Spec.Reservation; r.Registering != "" {
		t.Error("a request that was refused is taken to be under way")
	}
	if known, _, _ := s.b.memory.recall(uid, "n2", s.now); known.OtherKey {
		t.Error("it is known of a boot of which nothing is known")
	}
	known := s.b.memory.keep(uid, "n2", iscsi.Host{BootID: "n2-boot-1"}, 0)
	if !known.OtherKey || s.b.memory.keep(uid, "n2", iscsi.Host{BootID: "n2-boot-1+"}, 0).OtherKey {
		t.Errorf("%+v", known)
	}
	register.Keys = []string{s.member("n1").Spec.Reservation.Key, "0000000000000099"}
	wantError(t, s.perform(register), "of a Member by now", true)
	register.Keys = nil
	for i := range sharedlun.MaxOldKeys + 1 {
		register.Keys = append(register.Keys, fmt.Sprintf("%016x", 0x1000+i))
	}
	register.Keys = append(register.Keys, "0000000000000099")
	s.must(s.perform(register))
	want := s.member("n2").Spec.Reservation
	if got := s.san.Keys(s.lun); sharedlun.FormatKey(got["n2"]) != want.Key || len(got) != 2 || want.Registering != "" {
		t.Errorf("keys %v, %+v", got, want)
	}
	if s.b.memory.keep(uid, "n2", iscsi.Host{BootID: "n2-boot-1"}, 0).OtherKey {
		t.Error("it has its key, and is said to have another one")
	}
	if calls := s.san.Calls(); !slices.Contains(calls, "register n2") {
		t.Error(calls)
	}
}

// forgets keeps what it was asked to forget.
type forgets struct {
	Groups
	reported []string
}

func (f *forgets) Forget(_ context.Context, _ sharedlun.Ref, _ sharedlun.Volume, _ []sharedlun.Boot, reported string) error {
	f.reported = append(f.reported, reported)
	return nil
}

// TestPerform_forgetReaders: a node that answers is asked, member or not.
func TestPerform_forgetReaders(t *testing.T) {
	s := keyed(t)
	groups := &forgets{}
	s.b.Groups = groups
	forget := s.step("", v1alpha1.ActionForgetReaders)
	forget.Runs, forget.Victim, forget.Volumes, forget.Boots = "n1", "n2", []sharedlun.Volume{{Name: "v"}}, []sharedlun.Boot{{Node: "n2", ID: "n2-boot-0"}}
	forget.Member = "san.n2"
	wantError(t, s.perform(forget), "answers again", true)
	forget.Member = ""
	s.must(s.perform(forget))
	s.san.SetAgent("n2", decide.AgentConnecting)
	wantError(t, s.perform(forget), "being made", true)
	s.san.SetAgent("n2", decide.AgentUnreachable)
	s.must(s.perform(forget))
	if !slices.Equal(groups.reported, []string{"n2-boot-1", ""}) {
		t.Errorf("%q", groups.reported)
	}
}
