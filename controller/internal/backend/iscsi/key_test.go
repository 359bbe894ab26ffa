package iscsi

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/backend/iscsi/iscsitest"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/iscsi"
	"quarry.storage/quarry/controller/internal/decide/writer"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
	"quarry.storage/quarry/pkg/sharedlun"
)

const (
	oldKey   = "00000000000000dd"
	olderKey = "00000000000000ee"
)

// TestPerform_previous: a key of an earlier boot stays on record as long as the LUN has it, however many there are.
func TestPerform_previous(t *testing.T) {
	s := keyed(t)
	before := s.member("n2").Spec.Reservation.Key
	edit(s, &v1alpha1.Member{}, "san.n2", func(m *v1alpha1.Member) { m.Spec.Reservation.Previous = []string{oldKey, olderKey} })
	s.san.KeepKey(s.lun, "a path of n2 that is down", 0xdd)
	s.san.Boot("n2")
	s.must(s.perform(s.step("n2", v1alpha1.ActionLogin)))
	grant, register := s.step("n2", v1alpha1.ActionGrantKey), s.step("n2", v1alpha1.ActionRegisterKey)
	grant.BootID, register.BootID = "n2-boot-1+", "n2-boot-1+"
	s.must(s.perform(grant))
	if r := s.member("n2").Spec.Reservation; !slices.Equal(r.Previous, []string{oldKey, before}) {
		t.Fatalf("%+v", r)
	}
	s.must(s.perform(register))
	if r := s.member("n2").Spec.Reservation; !slices.Equal(r.Previous, []string{oldKey}) {
		t.Errorf("%+v, registered %v", r, s.san.Keys(s.lun))
	}
	// The path is back, or somebody took the key off.
	s.san.KeepKey(s.lun, "a path of n2 that is down", 0)
	s.must(s.perform(register))
	if r := s.member("n2").Spec.Reservation; len(r.Previous) > 0 || r.Registering != "" {
		t.Errorf("%+v, registered %v", r, s.san.Keys(s.lun))
	}
}

// TestPerform_lostKeys: a node with its own volumes mapped gets its key back, and nobody reserves the LUN who was not told to.
func TestPerform_lostKeys(t *testing.T) {
	s := keyed(t)
	ref := sharedlun.Ref{Lun: s.lun.Identity, OwnerUID: uid, UUID: iscsitest.GroupUUID}
	s.san.MakeGroup(s.lun, uid)
	s.san.SetVolume(s.lun, sharedlun.Volume{Name: "v", UUID: "u", HeldBy: "n2"}, "n2")
	s.san.LoseKeys(s.lun)
	step := func(node string, change func(*iscsi.Step)) iscsi.Step {
		out := s.step(node, v1alpha1.ActionRegisterKey)
		out.Ref, out.Reserve = ref, false
		change(&out)
		return out
	}
	s.must(s.perform(step("n1", func(*iscsi.Step) {})))
	wantError(t, s.perform(step("n2", func(*iscsi.Step) {})), "in use", false)
	s.must(s.perform(step("n2", func(s *iscsi.Step) { s.Own = true })))
	r, err := s.san.Reservation(t.Context(), "n1", s.lun.Identity, true)
	if err != nil || r.Held() || len(r.Keys) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	s.must(s.perform(step("n1", func(s *iscsi.Step) { s.Reserve = true })))
	if r, err := s.san.Reservation(t.Context(), "n1", s.lun.Identity, true); err != nil || !r.Held() || len(s.san.Violations()) > 0 {
		t.Errorf("%+v, %v, %v", r, err, s.san.Violations())
	}
	// What is not its own is no reason to let it in.
	s.san.LoseKeys(s.lun)
	s.san.SetVolume(s.lun, sharedlun.Volume{Name: "v", UUID: "u", HeldBy: "n1"})
	wantError(t, s.perform(step("n2", func(s *iscsi.Step) { s.Own = true })), "in use", false)
}

// TestPerform_exchange: a node that was let in without a key gets one for its boot, unless the group is being changed; a node that is fenced gets none.
func TestPerform_exchange(t *testing.T) {
	s := newSite(t, "n1", "n2")
	s.san.Edit(s.lun, func(l *iscsitest.LUN) { l.NoReservations = true })
	for _, n := range []string{"n1", "n2"} {
		grant := s.step(n, v1alpha1.ActionGrantKey)
		grant.RecordOnly = true
		s.must(s.perform(grant))
	}
	s.san.Edit(s.lun, func(l *iscsitest.LUN) { l.NoReservations = false })
	before := s.member("n1").Spec.Reservation.Key
	exchange := s.step("n1", v1alpha1.ActionGrantKey)
	exchange.Exchange = true
	s.b.Records = busy{}
	wantError(t, s.perform(exchange), "being changed", true)
	s.b.Records = noRecords{}
	s.must(s.perform(exchange))
	if r := s.member("n1").Spec.Reservation; r.Unfenced || r.Key == before {
		t.Errorf("%+v", r)
	}
	edit(s, &v1alpha1.Member{}, "san.n2", func(m *v1alpha1.Member) { m.Spec.Reservation.Fenced = true })
	exchange = s.step("n2", v1alpha1.ActionGrantKey)
	exchange.Exchange = true
	s.must(s.perform(exchange))
	if r := s.member("n2").Spec.Reservation; !r.Unfenced {
		t.Errorf("%+v", r)
	}
	// Once somebody has a key, nobody is let in without any more.
	again := s.step("n2", v1alpha1.ActionGrantKey)
	again.RecordOnly, again.BootID = true, "next"
	wantError(t, s.perform(again), "is to be let in without", false)
}

// busy says that a process is changing the group.
type busy struct{}

func (busy) Load(context.Context, string) (writer.Record, string, error) {
	return writer.Record{Epoch: 1, Writer: "n1", Taken: "csi/1"}, "", nil
}

// TestPerform_unregisterLeft: a key that no path of its node has any more is preempted by another node. The last one registers it once more, so that a path has it.
func TestPerform_unregisterLeft(t *testing.T) {
	for name, c := range map[string]struct {
		runs string
		last bool
		want []string
	}{
		"another node has its key": {"n1", false, []string{"unregister n2", "reservation n1", "preempt n1"}},
		"and the Iscsi ends":       {"n1", true, []string{"unregister n2", "reservation n1", "preempt n1"}},
		"it is the last one":       {"", true, []string{"unregister n2", "register n2", "unregister n2"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := keyed(t)
			s.strand()
			if c.runs == "" {
				s.san.KeepKey(s.lun, "n1", 0)
			}
			s.san.Calls()
			step := s.step("n2", v1alpha1.ActionUnregisterKey)
			step.Runs, step.Last, step.Key = c.runs, c.last, s.member("n2").Spec.Reservation.Key
			step.Reserve = false
			s.must(s.b.unregisterKey(t.Context(), step))
			if d := cmp.Diff(c.want, s.san.Calls()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if keys := s.san.Keys(s.lun); s.member("n2").Spec.Reservation != nil || len(keys) != len(c.runs)/2 {
				t.Errorf("keys %v, %+v", keys, s.member("n2").Spec.Reservation)
			}
		})
	}
}

// TestPerform_unregisterLeftOfBefore: a key of an earlier boot may be that of another machine that had the node's name. Nobody takes it off without a person.
func TestPerform_unregisterLeftOfBefore(t *testing.T) {
	for name, change := range map[string]func(s *site, step *iscsi.Step){
		"it is on record as an earlier one": func(s *site, _ *iscsi.Step) {
			s.san.KeepKey(s.lun, "n2 in another session", 0xdd)
			edit(s, &v1alpha1.Member{}, "san.n2", func(m *v1alpha1.Member) { m.Spec.Reservation.Previous = []string{oldKey} })
		},
		"the node was booted since": func(s *site, _ *iscsi.Step) {
			s.strand()
			s.san.Boot("n2")
			s.must(s.perform(s.step("n2", v1alpha1.ActionLogin)))
		},
		"the node was booted, and the step knows": func(s *site, step *iscsi.Step) {
			s.strand()
			s.san.Boot("n2")
			s.must(s.perform(s.step("n2", v1alpha1.ActionLogin)))
			step.BootID = "n2-boot-1+"
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := keyed(t)
			step := s.step("n2", v1alpha1.ActionUnregisterKey)
			change(s, &step)
			step.Runs, step.Key = "n1", s.member("n2").Spec.Reservation.Key
			if err := s.b.unregisterKey(t.Context(), step); err == nil || len(s.san.Keys(s.lun)) != 2+len(s.member("n2").Spec.Reservation.Previous) {
				t.Errorf("%v, keys %v", err, s.san.Keys(s.lun))
			}
		})
	}
}

// strand leaves the key of n2 to a session that is gone.
func (s *site) strand() {
	s.t.Helper()
	const node = "n2"
	key, err := sharedlun.ParseKey(s.member(node).Spec.Reservation.Key)
	s.must(err)
	s.san.KeepKey(s.lun, node, 0)
	s.san.KeepKey(s.lun, node+" in another session", key)
}

// TestPerform_lastOfBefore: the last node was booted, and its key of before is that of a session that is gone. With a key for its boot it takes that off as another node would.
func TestPerform_lastOfBefore(t *testing.T) {
	s := newSite(t, "n2")
	s.must(s.perform(s.step("n2", v1alpha1.ActionGrantKey), s.step("n2", v1alpha1.ActionRegisterKey)))
	before := s.member("n2").Spec.Reservation.Key
	s.strand()
	s.san.Boot("n2")
	s.must(s.perform(s.step("n2", v1alpha1.ActionLogin)))
	boot := s.b.Agents.Node("n2").BootID
	of := func(action string) iscsi.Step {
		step := s.step("n2", action)
		step.BootID, step.Last = boot, true
		return step
	}
	leave := of(v1alpha1.ActionUnregisterKey)
	leave.Key = before
	if err := s.perform(leave); err == nil || len(s.san.Keys(s.lun)) != 1 {
		t.Fatalf("%v, keys %v", err, s.san.Keys(s.lun))
	}
	s.must(s.perform(of(v1alpha1.ActionGrantKey), of(v1alpha1.ActionRegisterKey)))
	r := s.member("n2").Spec.Reservation
	if r.BootID != boot || r.Key == before || !slices.Equal(r.Previous, []string{before}) {
		t.Fatalf("%+v", r)
	}
	preempt := of(v1alpha1.ActionPreemptKeys)
	preempt.Node, preempt.Runs, preempt.Victim, preempt.Keys = "", "n2", "n2", []string{before}
	s.must(s.perform(preempt))
	leave.Key = r.Key
	s.must(s.perform(leave))
	if keys := s.san.Keys(s.lun); len(keys) > 0 || s.member("n2").Spec.Reservation != nil {
		t.Errorf("keys %v, %+v", keys, s.member("n2").Spec.Reservation)
	}
}

// TestPerform_machine: another machine that has the name of a node gets no key without the word of a person, and the Member says which machine has one.
func TestPerform_machine(t *testing.T) {
	s := keyed(t)
	first := s.member("n2").Spec.Reservation
	if first.Machine != iscsitest.Machine("machine-of-n2") {
		t.Fatalf("%+v", first)
	}
	for _, machine := range []string{iscsitest.Machine("other"), ""} {
		s.san.Replace("n2", machine)
		s.must(s.perform(s.step("n2", v1alpha1.ActionLogin)))
		grant := s.step("n2", v1alpha1.ActionGrantKey)
		grant.BootID = s.san.Node("n2").BootID
		if err := s.perform(grant); err == nil {
			t.Errorf("machine %q got a key", machine)
		}
		if d := cmp.Diff(first, s.member("n2").Spec.Reservation); d != "" {
			t.Error(d)
		}
		if machine == "" {
			continue
		}
		grant.Vouched = true
		s.must(s.perform(grant))
		first = s.member("n2").Spec.Reservation
		if first.Machine != machine || first.BootID != grant.BootID {
			t.Errorf("%+v", first)
		}
	}
}

// TestPerform_uuidAlone: where no key tells, a node gets no key for its next boot without a person if another node says that it is the machine that it was.
func TestPerform_uuidAlone(t *testing.T) {
	s := keyed(t)
	s.wide = true
	edit(s, &v1alpha1.Member{}, "san.n2", func(m *v1alpha1.Member) { m.Spec.Reservation.Registering = "1" })
	s.san.Boot("n2")
	s.must(s.perform(s.step("n2", v1alpha1.ActionLogin)))
	grant := s.step("n2", v1alpha1.ActionGrantKey)
	grant.BootID = s.san.Node("n2").BootID
	other := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n9"}}
	other.Status.NodeInfo.SystemUUID = iscsitest.Machine("machine-of-n2")
	s.must(s.api.Create(t.Context(), other))
	wantError(t, s.perform(grant), "it is not known which machine was in boot", true)
	s.must(s.api.Delete(t.Context(), other))
	s.must(s.perform(grant))
	if r := s.member("n2").Spec.Reservation; r.BootID != grant.BootID {
		t.Errorf("%+v", r)
	}
}

// TestPerform_recordMachine: which machine has the key goes on record as soon as its Node tells, of the boot that the key is for and of no other.
func TestPerform_recordMachine(t *testing.T) {
	s := keyed(t)
	edit(s, &v1alpha1.Member{}, "san.n2", func(m *v1alpha1.Member) { m.Spec.Reservation.Machine = "" })
	record := s.step("n2", v1alpha1.ActionRecordMachine)
	record.Key, record.BootID = s.member("n2").Spec.Reservation.Key, "another"
	s.must(s.perform(record))
	if r := s.member("n2").Spec.Reservation; r.Machine != "" {
		t.Errorf("%+v", r)
	}
	record.BootID = "n2-boot-1"
	s.must(s.perform(record))
	if r := s.member("n2").Spec.Reservation; r.Machine != iscsitest.Machine("machine-of-n2") {
		t.Errorf("%+v", r)
	}
}

// grants has a node get its key while the keys on the LUN are read.
type grants struct {
	Agents
	meanwhile func()
}

func (g *grants) Reservation(ctx context.Context, node string, lun sharedlun.Identity, expected bool) (sharedlun.Reservation, error) {
	if meanwhile := g.meanwhile; meanwhile != nil {
		g.meanwhile = nil
		meanwhile()
	}
	return g.Agents.Reservation(ctx, node, lun, expected)
}

// TestObserve_grantedMeanwhile: steps of nodes go on while the LUN is read, so that a key may be on it that the Members of the observation do not have. It is not somebody else's.
func TestObserve_grantedMeanwhile(t *testing.T) {
	s := newSite(t, "n1", "n2")
	foreign := func(meanwhile func()) string {
		agents := &grants{Agents: s.san, meanwhile: meanwhile}
		i, w := &v1alpha1.Iscsi{}, backend.World{Members: []*v1alpha1.Member{s.member("n1"), s.member("n2")}, Started: s.now.Add(-time.Hour)}
		s.must(s.api.Get(t.Context(), types.NamespacedName{Name: "san"}, i))
		s.b.Agents = agents
		v, err := s.b.Observe(t.Context(), i, w, nil)
		s.must(err)
		if agents.meanwhile != nil {
			t.Fatal("the keys were not read")
		}
		m := backend.Member{Node: "n1", Object: w.Members[0], State: nodestate.Online}
		if why := v.Decide(m).Finding; why.Reason == v1alpha1.ReasonForeignKeys {
			return why.Message
		}
		return ""
	}
	if why := foreign(func() {
		s.must(s.perform(s.step("n2", v1alpha1.ActionGrantKey), s.step("n2", v1alpha1.ActionRegisterKey)))
	}); why != "" {
		t.Errorf("n2 was granted the key: %s", why)
	}
	s.san.KeepKey(s.lun, "somebody", 0xdd)
	s.now = s.now.Add(iscsi.Every)
	if why := foreign(func() {}); why == "" {
		t.Error("a key of somebody else is not told")
	}
}
