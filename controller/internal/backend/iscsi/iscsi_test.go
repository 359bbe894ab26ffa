package iscsi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"quarry.storage/quarry/controller/internal/backend/iscsi/iscsitest"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/iscsi"
	"quarry.storage/quarry/controller/internal/decide/writer"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

const (
	uid = "11111111-2222-3333-4444-555555555555"
	iqn = "iqn.2026-01.lab.quarry:disk"
)

// site is a backend over the model, with an API server that is a map.
type site struct {
	t      *testing.T
	b      *Backend
	san    *iscsitest.SAN
	lun    *iscsitest.LUN
	api    client.Client
	now    time.Time
	random []uint64
	// wide has the API server list Members of all storages.
	wide bool
	// removing is done while a group is removed.
	removing func()
	// dropped are the owners whose groups were dropped.
	dropped []string
}

// noGroups makes no group: these tests ask for none. It takes in which groups are dropped, and removes each at once, beside what a test does meanwhile.
type noGroups struct {
	Groups
	s *site
}

func (n noGroups) Drop(gone func(string) bool) {
	for _, owner := range []string{uid, "another"} {
		if gone(owner) {
			n.s.dropped = append(n.s.dropped, owner)
		}
	}
}

func (n noGroups) RemoveGroup(context.Context, sharedlun.Ref) error {
	n.s.removing()
	return nil
}

type noRecords struct{}

func (noRecords) Load(context.Context, string) (writer.Record, string, error) {
	return writer.Record{}, "", nil
}

// narrow is an API server that lists no Members but those of one owner, unless wide is true: of all others there may be thousands.
type narrow struct {
	client.Reader
	wide *bool
}

func (n narrow) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, members := list.(*v1alpha1.MemberList); members && !slices.ContainsFunc(options, func(o client.ListOption) bool {
		fields, of := o.(client.MatchingFields)
		return of && fields[kube.MemberOwner] != ""
	}) && !*n.wide {
		return errors.New("all Members are listed")
	}
	return n.Reader.List(ctx, list, options...)
}

func newSite(t *testing.T, nodes ...string) *site {
	t.Helper()
	s := &site{t: t, now: time.Now(), random: []uint64{1, 2, 3, 4}}
	s.san, s.lun = iscsitest.New(iqn)
	kinds := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(kinds), v1alpha1.AddToScheme(kinds)); err != nil {
		t.Fatal(err)
	}
	i := &v1alpha1.Iscsi{ObjectMeta: metav1.ObjectMeta{Name: "san", UID: uid}}
	i.Spec.IQN, i.Spec.Targets = iqn, []v1alpha1.PortalAddress{"10.0.0.1"}
	objects := []client.Object{i}
	for _, n := range nodes {
		s.san.AddNode(n)
		i.Spec.Initiators = append(i.Spec.Initiators, v1alpha1.HostName(n))
		m := &v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "san." + n}}
		m.Spec.Of, m.Spec.Node = v1alpha1.MemberOwner{Kind: v1alpha1.KindIscsi, Name: "san", UID: uid}, v1alpha1.HostName(n)
		objects = append(objects, m, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n}})
	}
	s.api = fake.NewClientBuilder().WithScheme(kinds).WithObjects(objects...).WithIndex(&v1alpha1.Member{}, kube.MemberOwner, func(o client.Object) []string {
		m, _ := o.(*v1alpha1.Member)
		return []string{string(m.Spec.Of.UID)}
	}).Build()
	s.b = New(Config{
		Agents: s.san, Groups: noGroups{s: s}, Records: noRecords{}, Client: s.api, Live: iscsitest.Kubelets{Reader: narrow{Reader: s.api, wide: &s.wide}, SAN: s.san}, Namespace: "quarry-system",
		Now: func() time.Time { return s.now }, Random: s.next,
	})
	for _, n := range nodes {
		s.must(s.perform(s.step(n, v1alpha1.ActionLogin)))
	}
	return s
}

func (s *site) next() uint64 {
	key := s.random[0]
	s.random = append(s.random[1:], key)
	return key
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// step is one of a node, as package decide makes it.
func (s *site) step(node, action string) iscsi.Step {
	return iscsi.Step{
		Node: node, Does: action, Owner: "san", Member: "san." + node, BootID: node + "-boot-1", Initiator: "iqn.2026-01.storage.quarry:" + node, Target: sharedlun.Target{IQN: iqn, Portals: []string{"10.0.0.1:3260"}},
		Ref: sharedlun.Ref{Lun: s.lun.Identity, OwnerUID: uid}, Reserve: true,
	}
}

// fence is the step that fences n2 through n1.
func (s *site) fence() iscsi.Step {
	f := s.step("", v1alpha1.ActionFenceNode)
	f.Runs, f.Victim, f.Member, f.Key = "n1", "n2", "san.n2", s.member("n2").Spec.Reservation.Key
	return f
}

func (s *site) perform(steps ...iscsi.Step) error {
	host := steps[0].Node + steps[0].Runs
	var all []backend.Step
	for _, one := range steps {
		all = append(all, one)
	}
	_, err := s.b.Perform(s.t.Context(), host, backend.Checked(all, func(backend.Step) error { return nil }))
	return err
}

func (s *site) member(node string) *v1alpha1.Member {
	s.t.Helper()
	m := &v1alpha1.Member{}
	s.must(s.api.Get(s.t.Context(), types.NamespacedName{Name: "san." + node}, m))
	return m
}

// edit changes an object of the API server.
func edit[T client.Object](s *site, o T, name string, change func(T)) {
	s.t.Helper()
	s.must(s.api.Get(s.t.Context(), types.NamespacedName{Name: name}, o))
	change(o)
	s.must(s.api.Update(s.t.Context(), o))
}

func (s *site) taint() {
	edit(s, &corev1.Node{}, "n2", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: v1alpha1.TaintOutOfService}} })
}

// keyed gives both nodes keys that are registered.
func keyed(t *testing.T) *site {
	s := newSite(t, "n1", "n2")
	for _, n := range []string{"n1", "n2"} {
		s.must(s.perform(s.step(n, v1alpha1.ActionGrantKey), s.step(n, v1alpha1.ActionRegisterKey)))
	}
	return s
}

func wantError(t *testing.T, err error, says string, passes bool) {
	t.Helper()
	e, ok := errors.AsType[*backend.StepError](err)
	if !ok || !strings.Contains(err.Error(), says) || e.Passing != passes {
		t.Errorf("%v (%+v), want an error that says %q, passing: %t", err, e, says, passes)
	}
}

func TestPerform_keys(t *testing.T) {
	s := newSite(t, "n1", "n2")
	// The first random keys are 0, and one that another Member has.
	s.random = []uint64{7, 0, 7, 8}
	s.must(s.perform(s.step("n1", v1alpha1.ActionGrantKey)))
	wantError(t, s.perform(s.step("n2", v1alpha1.ActionRegisterKey)), "has no key for this boot", true)
	s.must(s.perform(s.step("n2", v1alpha1.ActionGrantKey), s.step("n2", v1alpha1.ActionRegisterKey)))
	if k1, k2 := s.member("n1").Spec.Reservation.Key, s.member("n2").Spec.Reservation.Key; k1 != "0000000000000007" || k2 != "0000000000000008" || s.san.Keys(s.lun)["n2"] != 8 {
		t.Errorf("keys %s and %s, registered %v", k1, k2, s.san.Keys(s.lun))
	}
	// Granting again changes nothing; a boot later the key of before is replaced.
	s.must(s.perform(s.step("n2", v1alpha1.ActionGrantKey)))
	s.san.Boot("n2")
	s.must(s.perform(s.step("n2", v1alpha1.ActionLogin)))
	again, register := s.step("n2", v1alpha1.ActionGrantKey), s.step("n2", v1alpha1.ActionRegisterKey)
	again.BootID, register.BootID = "n2-boot-1+", "n2-boot-1+"
	s.random = []uint64{9}
	s.must(s.perform(again))
	if r := s.member("n2").Spec.Reservation; r.Key != "0000000000000009" || !slices.Equal(r.Previous, []string{"0000000000000008"}) {
		t.Errorf("%+v", r)
	}
	s.must(s.perform(register))
	if r := s.member("n2").Spec.Reservation; len(r.Previous) > 0 || s.san.Keys(s.lun)["n2"] != 9 {
		t.Errorf("%+v, registered %v", r, s.san.Keys(s.lun))
	}
	s.random = []uint64{7}
	s.san.Boot("n2")
	s.must(s.perform(s.step("n2", v1alpha1.ActionLogin)))
	again.BootID = "n2-boot-1++"
	wantError(t, s.perform(again), "no free key", false)
}

// TestPerform_fence: everything that a fencing was decided on is asked once more.
func TestPerform_fence(t *testing.T) {
	silent := func(s *site) { s.san.SetAgent("n2", decide.AgentUnreachable) }
	for name, c := range map[string]struct {
		before func(*site)
		change func(*iscsi.Step)
		says   string
		passes bool
	}{
		"the agent answers":           {func(s *site) { s.taint() }, nil, "answers again", true},
		"the taint is gone":           {silent, nil, "not tainted", true},
		"another key":                 {func(s *site) { silent(s); s.taint() }, func(s *iscsi.Step) { s.Key = "00000000000000ff" }, "another key by now", true},
		"nobody has reserved the LUN": {func(s *site) { silent(s); s.taint(); s.san.LoseKeys(s.lun) }, nil, "fenced after that", true},
		"n1 has no key": {func(s *site) {
			silent(s)
			s.taint()
			edit(s, &v1alpha1.Member{}, "san.n1", func(m *v1alpha1.Member) { m.Spec.Reservation = nil })
		}, nil, "has no key any more", true},
		"a call is under way": {func(s *site) {
			silent(s)
			s.taint()
			s.b.memory.keyOf(uid, "n2").Lock()
		}, nil, "is under way", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := keyed(t)
			c.before(s)
			step := s.fence()
			if c.change != nil {
				c.change(&step)
			}
			wantError(t, s.perform(step), c.says, c.passes)
			if s.member("n2").Spec.Reservation.Fenced {
				t.Error("it counts as fenced")
			}
		})
	}
	s := keyed(t)
	silent(s)
	s.taint()
	edit(s, &v1alpha1.Member{}, "san.n2", func(m *v1alpha1.Member) { m.Spec.Reservation.Previous = []string{"00000000000000dd"} })
	for range 2 {
		s.must(s.perform(s.fence()))
		if r := s.member("n2").Spec.Reservation; !r.Fenced || s.san.Keys(s.lun)["n2"] != 0 {
			t.Errorf("%+v, %v", r, s.san.Keys(s.lun))
		}
	}
	wantError(t, s.perform(s.step("n2", v1alpha1.ActionRegisterKey)), "no key for this boot that may be registered", true)
}

// TestPerform_unregister: the record goes after the key, so that a call that is cut off is made again.
func TestPerform_unregister(t *testing.T) {
	s := keyed(t)
	cut := true
	s.san.Strike = func(call, node string, after bool) error {
		if call == "unregister" && after && cut {
			cut = false
			return &decide.Fault{Kind: decide.FaultUnavailable, Node: node, Call: call, Message: "the connection was closed"}
		}
		return nil
	}
	wantError(t, s.perform(s.step("n2", v1alpha1.ActionUnregisterKey)), "connection was closed", true)
	if s.member("n2").Spec.Reservation == nil {
		t.Fatal("the record went before anybody knew that the key did")
	}
	s.must(s.perform(s.step("n2", v1alpha1.ActionUnregisterKey), s.step("n2", v1alpha1.ActionLogout)))
	if m := s.member("n2"); m.Spec.Reservation != nil || m.Spec.Lun != nil || len(s.san.Keys(s.lun)) != 1 || s.san.Sessions("n2") != 0 {
		t.Errorf("%+v, %v", m.Spec, s.san.Keys(s.lun))
	}
}

// TestPerform_ownKeys: of two nodes that take their own keys off at a time, each would find the other's, and both would go.
func TestPerform_ownKeys(t *testing.T) {
	s := keyed(t)
	lock := s.b.memory.ownOf(uid)
	lock.Lock()
	wantError(t, s.perform(s.step("n2", v1alpha1.ActionUnregisterKey)), "another node takes its key off", true)
	if len(s.san.Keys(s.lun)) != 2 {
		t.Errorf("%v", s.san.Keys(s.lun))
	}
	lock.Unlock()
	s.must(s.perform(s.step("n2", v1alpha1.ActionUnregisterKey)))
}

// TestPerform_overtaken: a process that was the leader before decided on an older record. What the next one wrote meanwhile stays.
func TestPerform_overtaken(t *testing.T) {
	for does, call := range map[string]string{v1alpha1.ActionGrantKey: "reservation", v1alpha1.ActionUnregisterKey: "unregister"} {
		t.Run(does, func(t *testing.T) {
			s := keyed(t)
			s.san.Strike = func(said, node string, after bool) error {
				if said == call && after {
					edit(s, &v1alpha1.Member{}, "san.n2", func(m *v1alpha1.Member) { m.Spec.Reservation.Fenced = true })
				}
				return nil
			}
			step := s.step("n2", does)
			if does == v1alpha1.ActionGrantKey {
				s.san.Boot("n2")
				s.must(s.perform(s.step("n2", v1alpha1.ActionLogin)))
				step.BootID = "n2-boot-1+"
			}
			wantError(t, s.perform(step), "was changed meanwhile", true)
			if r := s.member("n2").Spec.Reservation; r == nil || !r.Fenced {
				t.Errorf("the record of the fence is gone: %+v", r)
			}
		})
	}
}

func TestPerform_reservationsAreGone(t *testing.T) {
	s := keyed(t)
	s.san.AddNode("n3")
	m := &v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "san.n3"}}
	m.Spec.Of, m.Spec.Node = v1alpha1.MemberOwner{UID: uid}, "n3"
	s.must(s.api.Create(t.Context(), m))
	s.must(s.perform(s.step("n3", v1alpha1.ActionLogin)))
	s.san.Edit(s.lun, func(l *iscsitest.LUN) { l.NoReservations = true })
	wantError(t, s.perform(s.step("n3", v1alpha1.ActionGrantKey)), "reservations changed", true)
	step := s.step("n3", v1alpha1.ActionGrantKey)
	step.RecordOnly = true
	wantError(t, s.perform(step), "is to be let in without", false)
}

// TestPerform_secrets: no error has anything of the credentials.
func TestPerform_secrets(t *testing.T) {
	s := newSite(t, "n1")
	s.san.SetChap(&sharedlun.Chap{Username: "u", Password: "right-password"})
	edit(s, &v1alpha1.Iscsi{}, "san", func(i *v1alpha1.Iscsi) { i.Spec.Chap = true })
	renew := s.step("n1", v1alpha1.ActionLogin)
	renew.Renew = true
	wantError(t, s.perform(renew), "no Secret san-iscsi-secret in namespace quarry-system", false)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "quarry-system", Name: "san-iscsi-secret", UID: "s"}}
	for _, c := range []struct{ user, password, says string }{
		{"u", "", "credentials are a name and a password"}, {"u", " bad-password", "begins or ends with a blank"}, {"u", "wrong-password", "refuses the credentials"},
	} {
		secret.Data = map[string][]byte{"username": []byte(c.user), "password": []byte(c.password)}
		_ = s.api.Delete(t.Context(), secret)
		secret.ResourceVersion = ""
		s.must(s.api.Create(t.Context(), secret))
		err := s.perform(renew)
		wantError(t, err, c.says, false)
		if text := fmt.Sprintf("%v %+v", err, s.member("n1")); strings.Contains(text, "-password") {
			t.Errorf("a password is told: %s", text)
		}
	}
	secret.Data["password"] = []byte("right-password\n")
	s.must(s.api.Update(t.Context(), secret))
	s.must(s.perform(renew))
	if v := s.member("n1").Annotations[v1alpha1.AnnotationChap]; !strings.HasPrefix(v, "s/") {
		t.Errorf("version %q", v)
	}
}

func TestPerform_refusesWhatIsNotItsOwn(t *testing.T) {
	s := newSite(t, "n1")
	other := s.step("n2", v1alpha1.ActionLogout)
	for name, step := range map[string]iscsi.Step{"another host": other, "an unknown action": s.step("n1", "Explode")} {
		s.san.Calls()
		if _, err := s.b.Perform(t.Context(), "n1", backend.Checked([]backend.Step{step}, func(backend.Step) error { return nil })); err == nil || len(s.san.Calls()) > 0 {
			t.Errorf("%s was performed", name)
		}
	}
}

// TestObserve_onlyVolumesTell: the Members are gone, and PersistentVolumes name the group. What nodes show tells which LUN is meant, so that they are asked what they
// have mapped: without that nobody would ever get a key.
func TestObserve_onlyVolumesTell(t *testing.T) {
	s := newSite(t, "n1")
	i := &v1alpha1.Iscsi{}
	s.must(s.api.Get(t.Context(), types.NamespacedName{Name: "san"}, i))
	const handle = "AbCdEf-0123-4567-89ab-cdef-0123-GhIjKl/pv"
	w := backend.World{
		Members: []*v1alpha1.Member{s.member("n1")}, Started: s.now.Add(-time.Hour),
		Volumes: map[string][]backend.Volume{"": {{Name: "pv", Handle: handle}}},
	}
	var last backend.View
	var err error
	for range 2 {
		last, err = s.b.Observe(t.Context(), i, w, last)
		s.must(err)
		s.now = s.now.Add(iscsi.Every)
	}
	if h := last.(*iscsi.View).Seen().Hosts["n1"]; !h.Mapped || h.Failed != "" {
		t.Errorf("%+v", h)
	}
}

// TestObserve_isKept: what agents told stands for a while, and not after a step.
func TestObserve_isKept(t *testing.T) {
	s := newSite(t, "n1")
	i := &v1alpha1.Iscsi{}
	s.must(s.api.Get(t.Context(), types.NamespacedName{Name: "san"}, i))
	w := backend.World{Members: []*v1alpha1.Member{s.member("n1")}, Started: s.now.Add(-time.Hour)}
	var last backend.View
	look := func() int {
		s.san.Calls()
		v, err := s.b.Observe(t.Context(), i, w, last)
		s.must(err)
		last = v
		return len(s.san.Calls())
	}
	if n := look(); n != 4 {
		t.Errorf("the first look made %d calls", n)
	}
	if n := look(); n != 0 {
		t.Errorf("the second look made %d calls", n)
	}
	s.must(s.perform(s.step("n1", v1alpha1.ActionLogin)))
	if n := look(); n != 4 {
		t.Errorf("after a step a look made %d calls", n)
	}
	s.now = s.now.Add(iscsi.Every)
	if n := look(); n != 4 {
		t.Errorf("a while later a look made %d calls", n)
	}
	// A reading that fails now and then is not taken for a LUN that is gone.
	s.san.Strike = func(call, node string, _ bool) error {
		if call == "contents" {
			return &decide.Fault{Kind: decide.FaultBusy, Node: node, Call: call, Message: "another call is at work"}
		}
		return nil
	}
	for _, known := range []bool{true, false} {
		s.now = s.now.Add(iscsi.Every)
		look()
		if r := last.(*iscsi.View).Seen().Reading; r.Known != known || !strings.Contains(r.Problem, "at work") {
			t.Errorf("known is %t, want %t: %+v", r.Known, known, r)
		}
		s.now = s.now.Add(5 * time.Minute)
	}
}
