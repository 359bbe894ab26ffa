package iscsi_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/agent/agenttest"
	"quarry.storage/quarry/agent/agenttest/iscsi"
	"quarry.storage/quarry/pkg/sharedlun"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

const (
	iqn    = "iqn.2026-01.storage.quarry.lab:wire"
	portal = "10.0.0.1:3260"
	secret = "secret of the user"
)

var boot = agenttest.BootIDOf("node-1")

type wire struct {
	*testing.T
	target  *iscsi.Target
	lun     *iscsi.Lun
	node    *iscsi.Node
	targets agentv1.IscsiServiceClient
	luns    agentv1.SharedLunServiceClient
}

func newWire(t *testing.T, more ...string) *wire {
	f := iscsi.New()
	w := &wire{T: t, target: f.AddTarget(iqn, append([]string{portal}, more...)...), node: f.AddNode("node-1", boot)}
	w.lun = w.target.AddLun(2, 1<<30)
	a := agenttest.New(t, agenttest.Options{Luns: w.node})
	conn := a.Dial(t)
	w.targets, w.luns = agentv1.NewIscsiServiceClient(conn), agentv1.NewSharedLunServiceClient(conn)
	return w
}

func (w *wire) name() *agentv1.Target { return &agentv1.Target{Iqn: iqn, Portals: []string{portal}} }

func (w *wire) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *wire) want(err error, code codes.Code, reason string) {
	w.Helper()
	s := status.Convert(err)
	got := ""
	for _, d := range s.Details() {
		if p, ok := d.(*agentv1.IscsiProblem); ok {
			got = p.GetReason()
		}
	}
	if s.Code() != code || got != reason || strings.Contains(s.String(), secret) {
		w.Errorf("%v with reason %q, want %s with %q", err, got, code, reason)
	}
}

func (w *wire) login(chap *agentv1.Chap) (*agentv1.LoginResponse, error) {
	return w.targets.Login(w.Context(), &agentv1.LoginRequest{Target: w.name(), Chap: chap})
}

func TestSessions(t *testing.T) { //nolint:gocyclo // one journey, told in its order
	w := newWire(t)
	i, err := w.targets.GetInitiator(t.Context(), &agentv1.GetInitiatorRequest{})
	if err != nil || i.GetBootId() != boot || i.GetDaemon() != agentv1.GetInitiatorResponse_DAEMON_HOST || i.GetName() == "" || !i.GetMultipath() || i.GetProblem() != nil {
		t.Errorf("%v, %v", i, err)
	}
	in, err := w.login(nil)
	w.must(err)
	got, err := w.targets.GetTarget(t.Context(), &agentv1.GetTargetRequest{Target: w.name()})
	w.must(err)
	for _, seen := range []interface {
		GetSessions() []*agentv1.IscsiSession
		GetLuns() []*agentv1.Lun
	}{in, got} {
		s, l := seen.GetSessions(), seen.GetLuns()
		if len(s) != 1 || s[0].GetState() != agentv1.IscsiSession_STATE_UP || s[0].GetPortal() != portal || len(l) != 1 {
			t.Fatalf("%v, %v", s, l)
		}
		id := w.lun.Identity()
		if l[0].GetNumber() != 2 || l[0].GetIdentity().GetWwid() != id.WWID || l[0].GetIdentity().GetSerial() != id.Serial ||
			l[0].GetIdentity().GetSizeBytes() != 1<<30 || l[0].GetDevice() == "" || len(l[0].GetPaths()) != 1 || !l[0].GetPaths()[0].GetUp() || l[0].GetPaths()[0].GetTarget() != iqn {
			t.Errorf("%v", l[0])
		}
	}
	w.node.Orphan(portal)
	got, err = w.targets.GetTarget(t.Context(), &agentv1.GetTargetRequest{Target: w.name()})
	if w.must(err); in.GetSessions()[0].GetUnserved() || !got.GetSessions()[0].GetUnserved() {
		t.Errorf("nobody says that iscsid does not serve it: %v", got)
	}
	_, err = w.targets.Logout(t.Context(), &agentv1.LogoutRequest{Target: w.name()})
	w.must(err)
}

func TestProblems(t *testing.T) {
	w := newWire(t)
	w.target.SetChap(&sharedlun.Chap{Username: "user", Password: secret})
	_, err := w.login(nil)
	w.want(err, codes.FailedPrecondition, sharedlun.ReasonWrongChap)
	_, err = w.login(&agentv1.Chap{Username: "user", Password: secret + "\n"})
	w.want(err, codes.InvalidArgument, "")
	_, err = w.login(&agentv1.Chap{Username: "user", Password: secret})
	w.must(err)
	w.node.Use(w.lun, "process dd")
	_, err = w.targets.Logout(t.Context(), &agentv1.LogoutRequest{Target: w.name()})
	w.want(err, codes.FailedPrecondition, sharedlun.ReasonSessionInUse)
	w.node.Use(w.lun)
	_, err = w.targets.Logout(t.Context(), &agentv1.LogoutRequest{Target: w.name()})
	w.must(err)
	w.target.Stop()
	_, err = w.login(nil)
	w.want(err, codes.Unavailable, sharedlun.ReasonPortalUnreachable)
	for _, bad := range []*agentv1.Target{nil, {Iqn: iqn}, {Iqn: "x", Portals: []string{portal}}, {Iqn: iqn, Portals: []string{"nas"}}} {
		_, err = w.targets.GetTarget(t.Context(), &agentv1.GetTargetRequest{Target: bad})
		w.want(err, codes.InvalidArgument, "")
		_, err = w.targets.Login(t.Context(), &agentv1.LoginRequest{Target: bad})
		w.want(err, codes.InvalidArgument, "")
		_, err = w.targets.Logout(t.Context(), &agentv1.LogoutRequest{Target: bad})
		w.want(err, codes.InvalidArgument, "")
	}
}

func (w *wire) identity() *agentv1.LunIdentity {
	id := w.lun.Identity()
	return &agentv1.LunIdentity{Wwid: id.WWID, Serial: id.Serial, SizeBytes: id.SizeBytes}
}

// grant is a request to register a key.
func (w *wire) grant(key, old uint64, boot string) *agentv1.RegisterRequest {
	r := &agentv1.RegisterRequest{
		Lun: w.identity(), Key: key, BootId: boot, InitiatorName: "iqn.2026-01.storage.quarry:node-1",
		OtherInitiatorNames: []string{"iqn.2026-01.storage.quarry:node-2"}, Reserve: true,
	}
	if old != 0 {
		r.OldKeys = []uint64{old}
	}
	return r
}

func (w *wire) register(r *agentv1.RegisterRequest) error {
	_, err := w.luns.Register(w.Context(), r)
	return err
}

func (w *wire) preempt(key, victim uint64) error {
	_, err := w.luns.Preempt(w.Context(), &agentv1.PreemptRequest{Lun: w.identity(), Key: key, Victim: victim})
	return err
}

func (w *wire) unregister(key uint64, last bool) error {
	_, err := w.luns.Unregister(w.Context(), &agentv1.UnregisterRequest{Lun: w.identity(), Key: key, Last: last})
	return err
}

func (w *wire) read(expected bool) (*agentv1.Reservation, error) {
	r, err := w.luns.GetReservation(w.Context(), &agentv1.GetReservationRequest{Lun: w.identity(), ReservationsExpected: expected})
	return r.GetReservation(), err
}

func TestRegister(t *testing.T) {
	w := newWire(t)
	w.want(w.register(w.grant(1, 0, boot)), codes.NotFound, "")
	_, err := w.login(nil)
	w.must(err)
	for _, c := range []struct {
		change func(*agentv1.RegisterRequest)
		want   codes.Code
	}{
		{func(r *agentv1.RegisterRequest) { r.Key = 0 }, codes.InvalidArgument},
		{func(r *agentv1.RegisterRequest) { r.OldKeys = []uint64{7, 0} }, codes.InvalidArgument},
		{func(r *agentv1.RegisterRequest) { r.OldKeys = make([]uint64, 65) }, codes.InvalidArgument},
		{func(r *agentv1.RegisterRequest) { r.BootId = "" }, codes.InvalidArgument},
		{func(r *agentv1.RegisterRequest) { r.BootId = "another" }, codes.FailedPrecondition},
		{func(r *agentv1.RegisterRequest) { r.BootId = strings.Repeat("b", 65) }, codes.InvalidArgument},
		{func(r *agentv1.RegisterRequest) { r.InitiatorName = "" }, codes.InvalidArgument},
		{func(r *agentv1.RegisterRequest) { r.InitiatorName += "x" }, codes.FailedPrecondition},
		{func(r *agentv1.RegisterRequest) { r.OtherInitiatorNames[0] = r.InitiatorName }, codes.FailedPrecondition},
		{func(r *agentv1.RegisterRequest) { r.Lun.Serial = "" }, codes.InvalidArgument},
	} {
		r := w.grant(1, 0, boot)
		c.change(r)
		w.want(w.register(r), c.want, "")
	}
	w.node.Hold(w.lun, "dm-3")
	w.want(w.register(w.grant(1, 0, boot)), codes.FailedPrecondition, "")
	w.node.Hold(w.lun, iscsi.VolumePrefix+"u1")
	unreserved := w.grant(1, 0, boot)
	unreserved.Reserve = false
	w.want(w.register(unreserved), codes.FailedPrecondition, "")
	unreserved.OwnVolumeUuids = []string{"u1"}
	w.must(w.register(unreserved))
	if got, err := w.read(true); err != nil || got.GetType() != 0 || len(got.GetKeys()) != 1 {
		t.Errorf("%v, %v", got, err)
	}
	w.node.Hold(w.lun)
	w.must(w.register(w.grant(1, 0, boot)))
	w.want(w.register(w.grant(2, 0, boot)), codes.FailedPrecondition, sharedlun.ReasonOtherKey)
	w.must(w.register(w.grant(2, 1, boot)))
	got, err := w.read(true)
	if err != nil || !got.GetSupported() || len(got.GetKeys()) != 1 || got.GetKeys()[0] != 2 || got.GetType() != 7 || got.GetHolder() != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestReservations(t *testing.T) {
	w := newWire(t)
	_, err := w.login(nil)
	w.must(err)
	w.must(w.register(w.grant(2, 0, boot)))
	w.must(w.preempt(2, 9))
	w.want(w.preempt(3, 9), codes.FailedPrecondition, "")
	w.want(w.preempt(2, 2), codes.InvalidArgument, "")
	w.want(w.preempt(0, 2), codes.InvalidArgument, "")
	w.node.Hold(w.lun, "dm-3")
	w.want(w.unregister(2, true), codes.FailedPrecondition, "")
	w.node.Hold(w.lun)
	w.want(w.unregister(2, false), codes.FailedPrecondition, "")
	w.must(w.unregister(2, true))
	w.target.Stop()
	w.want(w.preempt(2, 9), codes.Aborted, "")
	w.target.Start()
	w.lun.SetReservations(false)
	// Only the answer itself says that there are none.
	w.want(w.register(w.grant(1, 0, boot)), codes.FailedPrecondition, "")
	_, err = w.read(true)
	w.want(err, codes.FailedPrecondition, "")
	if got, err := w.read(false); err != nil || got.GetSupported() {
		t.Errorf("%v, %v", got, err)
	}
	before := w.identity()
	w.lun.Swap(sharedlun.Identity{WWID: "naa.1", Serial: "1", SizeBytes: 1})
	swapped := w.grant(1, 0, boot)
	swapped.Lun = before
	w.want(w.register(swapped), codes.FailedPrecondition, "")
	_, err = w.luns.GetReservation(t.Context(), &agentv1.GetReservationRequest{Lun: &agentv1.LunIdentity{Wwid: before.GetWwid()}})
	w.want(err, codes.InvalidArgument, "")
}

// TestRegister_unchanged: of a request that was refused the agent says that nothing of it is under way; of one that was begun it does not.
func TestRegister_unchanged(t *testing.T) {
	const second = "10.0.0.2:3260"
	w := newWire(t, second)
	_, err := w.targets.Login(w.Context(), &agentv1.LoginRequest{Target: &agentv1.Target{Iqn: iqn, Portals: []string{portal, second}}})
	w.must(err)
	says := func(err error) bool {
		return slices.ContainsFunc(status.Convert(err).Details(), func(d any) bool { _, is := d.(*agentv1.Unchanged); return is })
	}
	err = w.register(w.grant(1, 0, "another"))
	if w.want(err, codes.FailedPrecondition, ""); !says(err) {
		t.Errorf("refused, and it is not said that nothing was changed: %v", err)
	}
	w.target.Stop()
	err = w.register(w.grant(1, 0, boot))
	if w.want(err, codes.Aborted, ""); !says(err) {
		t.Errorf("nothing could be read, and it is not said that nothing was changed: %v", err)
	}
	w.target.Start()
	// One path has another key.
	w.target.PortalDown(portal, true)
	w.must(w.register(w.grant(9, 0, boot)))
	w.target.PortalDown(portal, false)
	err = w.register(w.grant(1, 0, boot))
	if w.want(err, codes.FailedPrecondition, ""); says(err) {
		t.Errorf("the key may be registered on one path: %v", err)
	}
	// Each path has another one.
	err = w.register(w.grant(5, 0, boot))
	if w.want(err, codes.FailedPrecondition, sharedlun.ReasonOtherKey); !says(err) {
		t.Errorf("refused, and it is not said that nothing was changed: %v", err)
	}
}
