package iscsi_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/pkg/sharedlun"
)

// TestCreateVolume_zeroingNodeLost: a volume whose node cannot go on zeroing it is zeroed by another one. A node that is silent may still write, and keeps
// the volume until it is fenced.
func TestCreateVolume_zeroingNodeLost(t *testing.T) {
	set := func(change func(m *san.Member)) func(s *suite) {
		return func(s *suite) { s.fleet.set("n1", change) }
	}
	for name, c := range map[string]struct {
		loses func(s *suite)
		code  codes.Code
		ends  func(s *suite)
	}{
		"it is under maintenance": {loses: set(func(m *san.Member) { m.Maintenance = true })},
		"it is being removed":     {loses: set(func(m *san.Member) { m.Up = false })},
		"it has lost the LUN":     {loses: func(s *suite) { s.nodes["n1"].Blind(true) }},
		"it is gone": {
			loses: func(s *suite) { s.silence("n1") }, code: codes.Unavailable,
			ends: func(s *suite) {
				s.lun.Preempt(0xa1)
				s.fleet.set("n1", func(m *san.Member) { m.Fenced = true })
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			release := s.nodes["n1"].DelayZeroing()
			defer release()
			ctx, cancel := context.WithTimeout(t.Context(), 15500*time.Millisecond)
			defer cancel()
			_, err := s.CreateVolume(ctx, s.request("a", 8*mib))
			wantCode(t, err, codes.Aborted)
			volume := sharedlun.Name("a")
			s.want(volume, "n1", 8*mib, 0, nil)
			c.loses(s)
			if c.ends != nil {
				_, err := s.CreateVolume(ctx, s.request("a", 8*mib))
				wantCode(t, err, c.code)
				if v := s.volume(volume); v.HeldBy != "n1" {
					t.Errorf("a silent node that may write lost it: %+v", v)
				}
				c.ends(s)
			}
			ctx, cancel = context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if _, err := s.CreateVolume(ctx, s.request("a", 8*mib)); err != nil {
				t.Fatal(err)
			}
			s.want(volume, "", 8*mib, 8*mib, nil)
			if damage := s.lun.Damage(); damage != "" {
				t.Error(damage)
			}
		})
	}
}
