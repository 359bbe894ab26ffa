package iscsi

import (
	"slices"
	"strings"
	"testing"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// lost is made with a target that has forgotten keys and reservation. n2 has the volume u mapped, which is its own.
func lost(nodes ...string) *scene {
	s := made(nodes...)
	s.o.Reading.Keys = sharedlun.Reservation{Supported: true}
	s.volume(sharedlun.Volume{Name: "v", UUID: "u", ReadyBytes: 1, HeldBy: "n2"})
	s.host("n2", func(h *Host) { h.Mappings = []sharedlun.Mapping{{VolumeUUID: "u"}} })
	return s
}

// key lets the LUN have the key of a node.
func (s *scene) key(node string) {
	s.o.Reading.Keys.Keys = append(s.o.Reading.Keys.Keys, keyOf(s.member(node).Spec.Reservation.Key))
}

// unknownBoot has a node fenced of which no key was on record.
func (s *scene) unknownBoot(node string) {
	s.member(node).Spec.Reservation = &v1alpha1.MemberReservation{Key: "00000000000000ff", BootID: sharedlun.UnknownBoot, Fenced: true}
}

// only returns the one step of a node.
func only(t *testing.T, h backend.Host) Step {
	t.Helper()
	if len(h.Steps) != 1 {
		t.Fatalf("%+v, finding %+v", actions(h.Steps), h.Finding)
	}
	return h.Steps[0].(Step)
}

// TestDecide_lostKeys: an idle node registers its key, and reserves the LUN only once nobody is shut out by that.
func TestDecide_lostKeys(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*scene)
		node     string
		reserves bool
	}{
		"an idle node":                     {func(*scene) {}, "n1", false},
		"the busy one":                     {func(*scene) {}, "n2", true},
		"an idle node after the busy one":  {func(s *scene) { s.key("n2") }, "n1", true},
		"the busy one fell silent":         {func(s *scene) { s.silence("n2", false) }, "n1", false},
		"it did, and a fenced one may run": {func(s *scene) { s.silence("n2", false); s.member("n3").Spec.Reservation.Fenced = true }, "n1", true},
		"it did, the fenced one was booted": {func(s *scene) {
			s.silence("n2", false)
			s.member("n3").Spec.Reservation.Fenced = true
			s.host("n3", func(h *Host) { h.BootID = "next" })
		}, "n1", false},
		"it did, and one runs on with volumes that was fenced in a boot nobody knows": {func(s *scene) {
			s.silence("n2", false)
			s.unknownBoot("n3")
			s.host("n3", func(h *Host) { h.Mappings = []sharedlun.Mapping{{VolumeUUID: "w"}} })
		}, "n1", true},
		"it did, and nobody knows what one has that was fenced in such a boot": {func(s *scene) {
			s.silence("n2", false)
			s.unknownBoot("n3")
			s.host("n3", func(h *Host) { h.Mapped = false })
		}, "n1", true},
		"it did, and one that was fenced in such a boot has nothing": {func(s *scene) { s.silence("n2", false); s.unknownBoot("n3") }, "n1", false},
		"it answers, and a fenced one runs":                          {func(s *scene) { s.member("n3").Spec.Reservation.Fenced = true }, "n1", false},
		"the busy one is off":                                        {func(s *scene) { s.silence("n2", true) }, "n1", true},
		"the busy one is fenced":                                     {func(s *scene) { s.member("n2").Spec.Reservation.Fenced = true }, "n1", true},
		"Kubernetes does not know it":                                {func(s *scene) { s.silence("n2", false); s.o.World.Nodes["n2"] = backend.Node{} }, "n1", true},
		"the agent cannot tell":                                      {func(s *scene) { s.host("n2", func(h *Host) { h.Failed = "no" }) }, "n1", false},
		"what is mapped is not its own":                              {func(s *scene) { s.o.Reading.Contents.Group.Volumes[0].HeldBy = "n3" }, "n1", true},
		"nothing is mapped any more":                                 {func(s *scene) { s.host("n2", func(h *Host) { h.Mappings = nil }) }, "n1", true},
		"it was asked before the keys went":                          {func(s *scene) { s.host("n2", func(h *Host) { h.Mappings, h.At = nil, now.Add(-1) }) }, "n1", false},
		"two are busy": {func(s *scene) {
			s.host("n3", func(h *Host) { h.Mappings = []sharedlun.Mapping{{VolumeUUID: "w"}} })
			s.volume(sharedlun.Volume{Name: "w", UUID: "w", HeldBy: "n3"})
		}, "n2", false},
		"a node was let in without a key": {func(s *scene) { s.key("n2"); s.member("n3").Spec.Reservation.Unfenced = true }, "n1", false},
		"it was, in another boot": {func(s *scene) {
			s.key("n2")
			s.member("n3").Spec.Reservation.Unfenced = true
			s.host("n3", func(h *Host) { h.BootID = "next" })
		}, "n1", true},
		"the whole goes, nobody is shut out": {func(s *scene) { s.key("n2"); s.delete() }, "n1", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := lost("n1", "n2", "n3")
			c.change(s)
			got := only(t, s.decide(c.node))
			if got.Does != v1alpha1.ActionRegisterKey || got.Reserve != c.reserves || got.Own != (c.node == "n2") {
				t.Errorf("%s, reserve %t, own %t", got.Does, got.Reserve, got.Own)
			}
		})
	}
}

func TestDecide_unreserved(t *testing.T) {
	for name, c := range map[string]hostCase{
		"registered, and waits for the busy one": {lost("n1", "n2"), func(s *scene) { s.key("n1") }, nil, v1alpha1.ReasonNotReserved},
		"registered, and nobody waits":           {lost("n1", "n2"), func(s *scene) { s.key("n1"); s.key("n2") }, []string{"RegisterKey"}, ""},
		"what it has mapped is not its own": {lost("n2", "n1"), func(s *scene) {
			s.host("n1", func(h *Host) { h.Mappings = []sharedlun.Mapping{{VolumeUUID: "other"}} })
		}, nil, v1alpha1.ReasonKeyLost},
		"what it has mapped is another's": {lost("n2", "n1"), func(s *scene) {
			s.host("n1", func(h *Host) { h.Mappings = []sharedlun.Mapping{{VolumeUUID: "u"}} })
		}, []string{"UnmapVolumes"}, v1alpha1.ReasonKeyLost},
		"its own, and the LUN is reserved": {made("n1"), func(s *scene) {
			s.volume(sharedlun.Volume{Name: "v", UUID: "u", HeldBy: "n1"})
			s.host("n1", func(h *Host) { h.Mappings = []sharedlun.Mapping{{VolumeUUID: "u"}} })
			s.o.Reading.Keys.Keys = []uint64{99}
		}, nil, v1alpha1.ReasonKeyLost},
		"it leaves before the busy one has its key": {lost("n1", "n2"), func(s *scene) { s.key("n1"); s.remove("n1") }, nil, v1alpha1.ReasonPending},
	} {
		t.Run(name, c.run)
	}
	s := lost("n1", "n2")
	s.key("n1")
	if w := s.whole(); len(w.Steps) > 0 {
		t.Errorf("a LUN that nobody has reserved is changed: %v", actions(w.Steps))
	}
	if c := s.view().fencing(); c.Reason != v1alpha1.ReasonNotReserved || !strings.Contains(c.Message, "which have volumes mapped: n2.") {
		t.Errorf("%+v", c)
	}
	s.key("n2")
	if c := s.view().fencing(); c.Reason != v1alpha1.ReasonNotReserved || !strings.Contains(c.Message, "The next node that registers its key reserves it.") {
		t.Errorf("nobody is waited for: %+v", c)
	}
}

// without is made on a target that kept no reservations when the nodes were let in, and keeps them now.
func without(nodes ...string) *scene {
	s := made(nodes...)
	for _, n := range nodes {
		s.member(n).Spec.Reservation.Unfenced = true
	}
	s.o.Reading.Keys = sharedlun.Reservation{Supported: true}
	return s
}

// TestDecide_reservationsLater: as long as a node runs that was let in without a key, the next ones are. They get keys when nothing can be hurt.
func TestDecide_reservationsLater(t *testing.T) {
	next := func(s *scene) { s.host("n1", func(h *Host) { h.BootID = "next" }) }
	holds := func(s *scene) { s.volume(sharedlun.Volume{Name: "v", UUID: "u", HeldBy: "n2"}) }
	maps := func(s *scene) { s.host("n2", func(h *Host) { h.Mappings = []sharedlun.Mapping{{VolumeUUID: "u"}} }) }
	for name, c := range map[string]struct {
		change             []func(*scene)
		want               []string
		unfenced, exchange bool
	}{
		"nothing is mapped":                        {nil, []string{"GrantKey"}, false, true},
		"a volume is mapped":                       {[]func(*scene){maps}, nil, false, false},
		"a volume is held":                         {[]func(*scene){holds}, nil, false, false},
		"a node is silent":                         {[]func(*scene){func(s *scene) { s.silence("n2", false) }}, nil, false, false},
		"a silent one is vouched off":              {[]func(*scene){func(s *scene) { s.silence("n2", true); s.member("n2").Spec.Reservation.Fenced = true }}, []string{"GrantKey"}, false, true},
		"the group is being changed":               {[]func(*scene){func(s *scene) { s.o.Record.Taken = "csi/1" }}, nil, false, false},
		"a change is pending":                      {[]func(*scene){func(s *scene) { s.o.Record.Pending = []string{"n2"} }}, nil, false, false},
		"somebody has a key":                       {[]func(*scene){func(s *scene) { s.o.Reading.Keys.Keys = []uint64{77} }}, nil, false, false},
		"it still keeps none":                      {[]func(*scene){func(s *scene) { s.o.Reading.Keys = sharedlun.Reservation{} }}, nil, false, false},
		"it was begun, a volume is mapped since":   {[]func(*scene){holds, maps, func(s *scene) { s.member("n2").Spec.Reservation.Unfenced = false }}, []string{"GrantKey"}, false, true},
		"a boot, and a volume is mapped elsewhere": {[]func(*scene){next, holds, maps}, []string{"GrantKey"}, true, false},
		"a boot, and nothing is":                   {[]func(*scene){next}, []string{"GrantKey", "RegisterKey"}, false, false},
		"a boot, and the others were booted, too":  {[]func(*scene){next, holds, func(s *scene) { s.host("n2", func(h *Host) { h.BootID = "next" }) }}, []string{"GrantKey", "RegisterKey"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := without("n1", "n2")
			for _, change := range c.change {
				change(s)
			}
			got := s.decide("n1")
			if !slices.Equal(actions(got.Steps), c.want) {
				t.Fatalf("%v, want %v; finding %+v", actions(got.Steps), c.want, got.Finding)
			}
			if len(c.want) > 0 {
				if g := got.Steps[0].(Step); g.RecordOnly != c.unfenced || g.Exchange != c.exchange {
					t.Errorf("unfenced %t, exchange %t", g.RecordOnly, g.Exchange)
				}
			}
		})
	}
	if c := without("n1").view().fencing(); c.Reason != v1alpha1.ReasonNoReservations || !strings.Contains(c.Message, "stop the pods") {
		t.Errorf("%+v", c)
	}
}

// TestView_keys: whose a key is, is decided once.
func TestView_keys(t *testing.T) {
	for name, c := range map[string]struct {
		change           func(r *v1alpha1.MemberReservation, k *sharedlun.Reservation)
		foreign          int
		keyless, fencing bool
	}{
		"its key is there": {func(*v1alpha1.MemberReservation, *sharedlun.Reservation) {}, 0, false, true},
		"it is gone":       {func(_ *v1alpha1.MemberReservation, k *sharedlun.Reservation) { k.Keys = []uint64{10} }, 0, true, true},
		"that of an earlier boot": {func(r *v1alpha1.MemberReservation, k *sharedlun.Reservation) {
			k.Keys, r.Previous = []uint64{10, 7}, []string{"06", "07"}
		}, 0, false, true},
		"that of an earlier, fenced": {func(r *v1alpha1.MemberReservation, k *sharedlun.Reservation) {
			k.Keys, r.Previous, r.Fenced = []uint64{10, 7}, []string{"07"}, true
		}, 0, false, true},
		"fenced":                      {func(r *v1alpha1.MemberReservation, k *sharedlun.Reservation) { k.Keys, r.Fenced = []uint64{10}, true }, 0, true, false},
		"nobody has reserved the LUN": {func(_ *v1alpha1.MemberReservation, k *sharedlun.Reservation) { k.Keys, k.Type = []uint64{10}, 0 }, 0, false, false},
		"let in without":              {func(r *v1alpha1.MemberReservation, k *sharedlun.Reservation) { k.Keys, r.Unfenced = []uint64{10}, true }, 0, false, true},
		"one of nobody":               {func(_ *v1alpha1.MemberReservation, k *sharedlun.Reservation) { k.Keys = []uint64{10, 7} }, 1, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := made("n1", "n2")
			c.change(s.member("n2").Spec.Reservation, &s.o.Reading.Keys)
			v := s.view()
			if got := v.foreign(); got != c.foreign || v.keyless(s.member("n2")) != c.keyless {
				t.Errorf("%d foreign keys, keyless: %t", got, v.keyless(s.member("n2")))
			}
			// A fenced node whose key is on the LUN is fenced again.
			s.volume(sharedlun.Volume{Name: "v", UUID: "u", HeldBy: "n2"})
			s.silence("n2", true)
			if got := slices.Contains(actions(s.whole().Steps), "FenceNode"); got != c.fencing {
				t.Errorf("%v", actions(s.whole().Steps))
			}
		})
	}
}

// TestDecide_otherKey: a node that the target has another key for replaces it by approval, and nothing else.
func TestDecide_otherKey(t *testing.T) {
	restored := func(s *scene) {
		s.o.Reading.Keys.Keys = []uint64{77, 78}
		s.host("n1", func(h *Host) { h.OtherKey = true })
	}
	for name, c := range map[string]struct {
		change   func(*scene)
		keys     []string
		destroys bool
	}{
		"after a restore":    {restored, []string{"000000000000004d", "000000000000004e"}, true},
		"it was not tried":   {func(s *scene) { s.o.Reading.Keys.Keys = []uint64{77} }, nil, false},
		"the key is gone":    {func(s *scene) { restored(s); s.o.Reading.Keys.Keys = []uint64{11} }, nil, false},
		"a key of another":   {func(s *scene) { restored(s); s.o.Reading.Keys.Keys = []uint64{11, 77} }, []string{"000000000000004d"}, true},
		"nobody reserved it": {func(s *scene) { restored(s); s.o.Reading.Keys.Type = 0 }, []string{"000000000000004d", "000000000000004e"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := made("n1", "n2")
			c.change(s)
			steps := s.decide("n1").Steps
			if len(steps) != 1 || steps[0].Action() != v1alpha1.ActionRegisterKey || steps[0].Destroys() != c.destroys || steps[0].Vouches() != c.destroys {
				t.Fatalf("%+v", steps)
			}
			if got := steps[0].(Step).Keys; !slices.Equal(got, c.keys) {
				t.Errorf("keys %v, want %v", got, c.keys)
			}
		})
	}
	s := made("n1", "n2")
	restored(s)
	s.host("n1", func(h *Host) { h.Mappings = []sharedlun.Mapping{{VolumeUUID: "u"}} })
	if got := s.decide("n1"); len(got.Steps) > 0 || got.Finding.Reason != v1alpha1.ReasonKeyLost {
		t.Errorf("volumes are mapped: %+v", got)
	}
}

// TestDecide_anotherMachine: a machine that may be another one than before gets its key by the word of a person alone, and nothing that it says counts before.
func TestDecide_anotherMachine(t *testing.T) {
	for name, c := range map[string]struct {
		s    *scene
		asks bool
	}{
		"another machine":            {machine(made("n1", "n2"), "machine-n1", "other"), true},
		"the same machine":           {machine(made("n1", "n2"), "machine-n1", "machine-n1"), false},
		"no machine, and a key":      {machine(made("n1", "n2"), "", ""), false},
		"no machine, and no key":     {machine(without("n1", "n2"), "", ""), true},
		"another one without a key":  {machine(without("n1", "n2"), "machine-n1", "other"), true},
		"the same one without a key": {machine(without("n1", "n2"), "machine-n1", "machine-n1"), false},
		"one that another node is":   {toldBy(machine(made("n1", "n2"), "machine-n1", "machine-n1"), "n9"), false},
		"and it has no key":          {toldBy(machine(without("n1", "n2"), "machine-n1", "machine-n1"), "n9"), true},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.s.decide("n1")
			if len(got.Steps) == 0 {
				t.Fatalf("%+v", got.Finding)
			}
			s := got.Steps[0].(Step)
			if s.Does != v1alpha1.ActionGrantKey || s.Vouches() != c.asks || s.Destroys() != c.asks || (s.Consent != "") != c.asks || c.asks && len(got.Steps) > 1 {
				t.Errorf("%+v", got.Steps)
			}
			v := NewView(c.s.o, nil)
			if m := c.s.member("n1"); v.booted(m) == c.asks || c.asks && v.believed("n1") {
				t.Errorf("booted %t, believed %t", v.booted(m), v.believed("n1"))
			}
		})
	}
}

// toldBy has the Node of another node say that it is the machine that n1 is.
func toldBy(s *scene, node string) *scene {
	s.o.Machines[node] = s.o.Hosts["n1"].Machine
	return s
}

// machine boots n1, of which one machine is on record, and another is told by its Node.
func machine(s *scene, recorded, told string) *scene {
	s.member("n1").Spec.Reservation.Machine = uuid(recorded)
	s.host("n1", func(h *Host) { h.BootID, h.Machine = "next", uuid(told) })
	return s
}
