package osd

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

func makesAndGivesBack(s *suite) {
	s.clean()
	s.is(agentv1.OsdState_OSD_STATE_EMPTY)
	req := s.request()
	s.must("prepare", s.prepare(req))
	s.is(agentv1.OsdState_OSD_STATE_READY)
	reason := "Ceph"
	if s.key != nil {
		reason = "Encrypted"
	}
	if refusals := s.device().GetRefusals(); len(refusals) == 0 || refusals[0].GetReason() != reason {
		s.Errorf("the disk of an OSD is refused for %v", refusals)
	}
	before := s.Steps()
	s.must("prepare again", s.prepare(req))
	ran := proto.CloneOf(req)
	ran.Fresh = false
	s.must("prepare once it ran", s.prepare(ran))
	if n := s.Steps() - before; n != 0 {
		s.Errorf("prepare again made %d changes", n)
	}
	s.must("zap", s.zap())
	s.clean()
	before = s.Steps()
	s.must("zap again", s.zap())
	if n := s.Steps() - before; n != 0 {
		s.Errorf("zap again made %d changes", n)
	}
}

// survives lets the agent die before each step of a call and after the last one, and wants the repeated call to end the same.
func (s *suite) survives(prepare func() (call func() error), check func()) {
	s.Helper()
	s.Reset(s.T)
	call := prepare()
	before := s.Steps()
	s.must("call", call())
	steps := s.Steps() - before
	check()
	if steps < 1 || steps > maxSteps {
		s.Fatalf("the call has %d steps, want 1 to %d", steps, maxSteps)
	}
	for i := range steps + 1 {
		s.Reset(s.T)
		call := prepare()
		s.Crash(min(i+1, steps), i == steps)
		if call() == nil {
			s.Fatalf("the agent did not die at step %d", i)
		}
		s.Crash(0, false)
		s.Restart(s.T)
		s.must("call repeated after a death", call())
		check()
		if s.Failed() {
			s.Fatalf("death at step %d of %d", i, steps)
		}
	}
}

// prepareSurvives describes the disk once: a call that is repeated does not know what the one before has left.
func prepareSurvives(s *suite) {
	s.survives(func() func() error {
		s.clean()
		req := s.request()
		return func() error { return s.prepare(req) }
	}, func() { s.is(agentv1.OsdState_OSD_STATE_READY) })
}

func zapSurvives(s *suite) {
	s.survives(func() func() error {
		s.clean()
		s.must("prepare", s.prepare(s.request()))
		req := &agentv1.ZapOsdRequest{Device: s.identity(), Osd: s.wanted(cluster), Making: s.inspect().GetMaking()}
		return func() error {
			_, err := s.osds().ZapOsd(s.ctx(), req)
			return err
		}
	}, s.clean)
}

func zapsUnfinished(s *suite) {
	s.clean()
	req := s.request()
	s.CutOff(s.T, func() error { return s.prepare(req) })
	s.is(agentv1.OsdState_OSD_STATE_UNFINISHED)
	s.must("zap", s.zap())
	s.clean()
}

func zapsPhantom(s *suite) {
	s.clean()
	s.must("prepare", s.prepare(s.request()))
	s.ShowPartition(s.T)
	if refusals := s.device().GetRefusals(); len(refusals) == 0 || refusals[0].GetReason() != "PartitionTable" {
		s.Errorf("the disk with a partition is refused for %v", refusals)
	}
	s.is(agentv1.OsdState_OSD_STATE_READY)
	s.must("zap", s.zap())
	s.clean()
	s.survives(func() func() error {
		s.must("prepare", s.prepare(s.request()))
		s.ShowPartition(s.T)
		req := &agentv1.ZapOsdRequest{Device: s.identity(), Osd: s.wanted(cluster), Making: s.inspect().GetMaking()}
		return func() error {
			_, err := s.osds().ZapOsd(s.ctx(), req)
			return err
		}
	}, s.clean)
	s.Foreign(s.T, s.wanted(other).GetUuid(), other)
	s.ShowPartition(s.T)
	s.refused("zap of another OSD", s.zap(), codes.PermissionDenied, s.Steps())
}

func leavesForeign(s *suite) {
	s.clean()
	digest := s.identity().GetDigest()
	s.Foreign(s.T, s.wanted(other).GetUuid(), other)
	for _, zeroed := range []bool{false, true} {
		if zeroed {
			s.ZeroEnds(s.T)
		}
		s.is(agentv1.OsdState_OSD_STATE_OTHER)
		if now := s.identity().GetDigest(); now == digest {
			s.Errorf("zeroed %t: the digest is that of an empty disk", zeroed)
		}
		before := s.Steps()
		s.refused("prepare", s.prepare(s.request()), codes.PermissionDenied, before)
		s.refused("zap", s.zap(), codes.PermissionDenied, before)
	}
}

func refusesRan(s *suite) {
	s.clean()
	req := s.request()
	req.Fresh = false
	s.refused("prepare", s.prepare(req), codes.FailedPrecondition, s.Steps())
	s.is(agentv1.OsdState_OSD_STATE_EMPTY)
}

func refusesOthers(s *suite) {
	s.clean()
	before := s.Steps()
	for name, change := range map[string]func(*agentv1.PrepareOsdRequest){
		"another digest": func(r *agentv1.PrepareOsdRequest) { r.Device.Digest += "x" },
		"no digest":      func(r *agentv1.PrepareOsdRequest) { r.Device.Digest = "" },
		"another serial": func(r *agentv1.PrepareOsdRequest) { r.Device.Serial += "x" },
		"another size":   func(r *agentv1.PrepareOsdRequest) { r.Device.SizeBytes++ },
	} {
		req := s.request()
		change(req)
		s.refused(name, s.prepare(req), codes.FailedPrecondition, before)
	}
	absent := s.request()
	absent.Device.Path = "/dev/disk/by-id/quarry-absent"
	s.refused("an absent disk", s.prepare(absent), codes.NotFound, before)
	s.Dirty(s.T)
	s.is(agentv1.OsdState_OSD_STATE_OTHER)
	s.refused("a dirty disk", s.prepare(s.request()), codes.FailedPrecondition, before)
	s.refused("zap of a dirty disk", s.zap(), codes.FailedPrecondition, before)
}

func refusesOpen(s *suite) {
	s.clean()
	req := s.request()
	closeIt := s.Open(s.T)
	s.refused("prepare", s.prepare(req), codes.FailedPrecondition, s.Steps())
	closeIt()
	s.clean()
	s.must("prepare", s.prepare(req))
	closeIt = s.Open(s.T)
	s.refused("zap", s.zap(), codes.FailedPrecondition, s.Steps())
	closeIt()
	s.must("zap", s.zap())
}

func refusesWithoutTools(s *suite) {
	s.clean()
	s.StopTools(s.T)
	s.refused("prepare", s.prepare(s.request()), codes.FailedPrecondition, s.Steps())
	s.is(agentv1.OsdState_OSD_STATE_EMPTY)
	s.Reset(s.T)
	s.clean()
	req := s.request()
	s.CutOff(s.T, func() error { return s.prepare(req) })
	s.StopTools(s.T)
	s.refused("prepare what was begun", s.prepare(req), codes.FailedPrecondition, s.Steps())
	s.is(agentv1.OsdState_OSD_STATE_UNFINISHED)
}

// refusesHeadless: what is left of an OSD is no OSD to start, and may hold data all the same.
func refusesHeadless(s *suite) {
	s.clean()
	s.must("prepare", s.prepare(s.request()))
	s.ZeroEnds(s.T)
	s.is(agentv1.OsdState_OSD_STATE_READY)
	s.refused("prepare", s.prepare(s.request()), codes.FailedPrecondition, s.Steps())
	s.must("zap", s.zap())
	s.clean()
}

// refusesOtherKind: what is on record as encrypted is never taken for what is in the clear.
func refusesOtherKind(s *suite) {
	for _, key := range [][]byte{s.key, nil} {
		s.Reset(s.T)
		s.key = key
		s.clean()
		req := s.request()
		s.CutOff(s.T, func() error { return s.prepare(req) })
		for _, kind := range []agentv1.OsdState{agentv1.OsdState_OSD_STATE_UNFINISHED, agentv1.OsdState_OSD_STATE_READY} {
			s.is(kind)
			other := *s
			if other.key = nil; key == nil {
				other.key = []byte("0123456789abcdef0123456789abcdef")
			}
			other.is(agentv1.OsdState_OSD_STATE_UNSPECIFIED)
			before := s.Steps()
			s.refused("prepare", s.prepare(other.request()), codes.FailedPrecondition, before)
			s.refused("zap", other.zap(), codes.FailedPrecondition, before)
			s.must("prepare", s.prepare(req))
		}
	}
}

// refusesMadeAnew: who was told of an OSD, and comes back once the disk was given back and made the same OSD again, does not clear that one.
func refusesMadeAnew(s *suite) {
	s.clean()
	s.must("prepare", s.prepare(s.request()))
	before := s.inspect().GetMaking()
	s.must("zap", s.zap())
	s.clean()
	s.must("zap of a clean disk", s.zapMaking(before))
	s.must("prepare anew", s.prepare(s.request()))
	again := s.inspect().GetMaking()
	if again == before {
		s.Fatalf("both makings are %q", again)
	}
	steps := s.Steps()
	s.refused("zap of the first making", s.zapMaking(before), codes.FailedPrecondition, steps)
	s.refused("zap without a making", s.zapMaking(""), codes.FailedPrecondition, steps)
	s.is(agentv1.OsdState_OSD_STATE_READY)
	s.must("zap of the second making", s.zapMaking(again))
	s.clean()
}

func refusesBadRequests(s *suite) {
	s.clean()
	before := s.Steps()
	for name, change := range map[string]func(*agentv1.PrepareOsdRequest){
		"no device":                      func(r *agentv1.PrepareOsdRequest) { r.Device = nil },
		"a path outside of dev":          func(r *agentv1.PrepareOsdRequest) { r.Device.Path = "/etc/passwd" },
		"no OSD":                         func(r *agentv1.PrepareOsdRequest) { r.Osd = nil },
		"no Cluster":                     func(r *agentv1.PrepareOsdRequest) { r.Osd.ClusterUid = "" },
		"no FSID":                        func(r *agentv1.PrepareOsdRequest) { r.Osd.Fsid = "x" },
		"another OSD's UUID":             func(r *agentv1.PrepareOsdRequest) { r.Osd.Uuid = other },
		"no number":                      func(r *agentv1.PrepareOsdRequest) { r.Osd.Id = nil },
		"a negative number":              func(r *agentv1.PrepareOsdRequest) { r.Osd.Id = new(int32(-1)) },
		"a part of a container":          func(r *agentv1.PrepareOsdRequest) { r.ToolsContainer = r.ToolsContainer[:12] },
		"a part of a key":                func(r *agentv1.PrepareOsdRequest) { r.Key = []byte("0123456789abcdef") },
		"encrypted: not as the key says": func(r *agentv1.PrepareOsdRequest) { r.Osd.Encrypted = !r.Osd.Encrypted },
	} {
		req := s.request()
		change(req)
		s.refused(name, s.prepare(req), codes.InvalidArgument, before)
	}
	s.is(agentv1.OsdState_OSD_STATE_EMPTY)
}
