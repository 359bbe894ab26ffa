package iscsi

import (
	"slices"
	"testing"

	"quarry.storage/quarry/controller/internal/backend/iscsi/iscsitest"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/iscsi"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// strayed is a site where n2 has a device of a volume that n1 has by now.
func strayed(t *testing.T) (*site, iscsi.Step) {
	s := keyed(t)
	s.san.MakeGroup(s.lun, uid)
	v := sharedlun.Volume{Name: "v", UUID: "u", HeldBy: "n1", ReadyBytes: 1}
	s.san.SetVolume(s.lun, v, "n1", "n2")
	step := s.step("n2", v1alpha1.ActionUnmapVolumes)
	step.Sequence = s.san.Group(s.lun).Sequence
	step.Ref.UUID, step.Volumes, step.Runs = iscsitest.GroupUUID, []sharedlun.Volume{v}, "n1"
	return s, step
}

func (s *site) unmap(step iscsi.Step) error {
	_, err := s.b.Perform(s.t.Context(), "n2", backend.Checked([]backend.Step{step}, func(backend.Step) error { return nil }))
	return err
}

// TestPerform_unmap: what a node has of volumes that are not its own is removed, and returns errors if it is open.
func TestPerform_unmap(t *testing.T) {
	s, step := strayed(t)
	s.san.Open("n2", "u", true)
	s.must(s.unmap(step))
	if at := s.san.Mapped("u"); !slices.Equal(at, []string{"n1", "n2"}) || !s.san.Cut("n2", "u") || s.san.Cut("n1", "u") {
		t.Errorf("it is mapped on %v, and cut: %t on n2, %t on n1", at, s.san.Cut("n2", "u"), s.san.Cut("n1", "u"))
	}
	s.san.Open("n2", "u", false)
	for range 2 {
		s.must(s.unmap(step))
		if at := s.san.Mapped("u"); !slices.Equal(at, []string{"n1"}) {
			t.Errorf("it is mapped on %v", at)
		}
	}
}

// TestPerform_unmapLate: the step was decided on what the LUN said a while ago. What it says now counts, and what it does not say.
func TestPerform_unmapLate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*site)
		says   string
		passes bool
	}{
		"the node has it by now": {func(s *site) { s.san.SetVolume(s.lun, sharedlun.Volume{Name: "v", UUID: "u", HeldBy: "n2"}) }, "is that of node n2 by now", true},
		"the node has it, leaving": {func(s *site) {
			s.san.SetVolume(s.lun, sharedlun.Volume{Name: "v", UUID: "u", HeldBy: "n2", Leaving: true})
		}, "is that of node n2 by now", true},
		"another volume of that name": {func(s *site) { s.san.SetVolume(s.lun, sharedlun.Volume{Name: "v", UUID: "w", HeldBy: "n1"}) }, "was removed meanwhile", true},
		"an older group":              {func(s *site) { s.san.Edit(s.lun, (*iscsitest.LUN).Rewind) }, "an older one than before", true},
		"another group":               {func(s *site) { s.san.Edit(s.lun, (*iscsitest.LUN).Rename) }, "an older one than before", true},
		"the LUN is not read": {func(s *site) {
			s.san.Strike = func(call, node string, _ bool) error {
				if call == "contents" {
					return &decide.Fault{Kind: decide.FaultInternal, Node: node, Call: call, Message: "no group was read"}
				}
				return nil
			}
		}, "no group was read", false},
	} {
		t.Run(name, func(t *testing.T) {
			s, step := strayed(t)
			c.change(s)
			wantError(t, s.unmap(step), c.says, c.passes)
			if at := s.san.Mapped("u"); !slices.Contains(at, "n2") || s.san.Cut("n2", "u") {
				t.Errorf("it is mapped on %v, cut: %t", at, s.san.Cut("n2", "u"))
			}
		})
	}
}

// TestPerform_unmapFails: a device that writes on is an error, also if nobody can say whether it does.
func TestPerform_unmapFails(t *testing.T) {
	for _, unread := range []string{"", "mappings"} {
		s, step := strayed(t)
		s.san.Strike = func(call, node string, _ bool) error {
			if call == "unmap" || call == unread {
				return &decide.Fault{Kind: decide.FaultInternal, Node: node, Call: call, Message: "dmsetup failed"}
			}
			return nil
		}
		wantError(t, s.unmap(step), "dmsetup failed", false)
	}
}

// TestPerform_unmapGone: what a node has of a volume that was removed is ended, as long as the group says so, and is not an older one.
func TestPerform_unmapGone(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*site)
		says   string
	}{
		"it was removed":  {func(*site) {}, ""},
		"it is open":      {func(s *site) { s.san.Open("n2", "x", true) }, ""},
		"it is back":      {func(s *site) { s.san.SetVolume(s.lun, sharedlun.Volume{Name: "x", UUID: "x"}) }, "came back"},
		"an older group":  {func(s *site) { s.san.Edit(s.lun, (*iscsitest.LUN).Rewind) }, "an older one than before"},
		"another group":   {func(s *site) { s.san.Edit(s.lun, (*iscsitest.LUN).Rename) }, "is not on the LUN"},
		"nothing is read": {func(s *site) { s.san.SetAgent("n1", decide.AgentUnreachable) }, "does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			s, step := strayed(t)
			s.san.SetVolume(s.lun, sharedlun.Volume{Name: "w", UUID: "x"}, "n2")
			s.san.SetVolume(s.lun, sharedlun.Volume{Name: "w", UUID: "y"})
			step.Volumes, step.Gone, step.Sequence = nil, []string{"x"}, s.san.Group(s.lun).Sequence
			c.change(s)
			err := s.unmap(step)
			if c.says != "" {
				wantError(t, err, c.says, true)
			} else if err != nil {
				t.Error(err)
			}
			if ended := s.san.Cut("n2", "x") || len(s.san.Mapped("x")) == 0; ended != (c.says == "") {
				t.Errorf("it is mapped on %v, cut: %t", s.san.Mapped("x"), s.san.Cut("n2", "x"))
			}
		})
	}
}

// TestPerform_unmapSeveral: between two orders the LUN is read again, and none follows one that failed: each may take long, and volumes go to the node meanwhile.
func TestPerform_unmapSeveral(t *testing.T) {
	for name, c := range map[string]struct {
		open bool
		says string
	}{
		"the second is the node's meanwhile": {false, "is that of node n2 by now"},
		"the first is open":                  {true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, step := strayed(t)
			v := sharedlun.Volume{Name: "w", UUID: "uw", HeldBy: "n1", ReadyBytes: 1}
			s.san.SetVolume(s.lun, v, "n2")
			step.Volumes = append(step.Volumes, v)
			s.san.Open("n2", "u", c.open)
			s.san.Strike = func(call, _ string, after bool) error {
				if call == "unmap" && after && !c.open {
					s.lun.Give("w", "n2")
				}
				return nil
			}
			err := s.unmap(step)
			if c.says != "" {
				wantError(t, err, c.says, true)
			} else if err != nil {
				t.Error(err)
			}
			if s.san.Cut("n2", "uw") || !slices.Contains(s.san.Mapped("uw"), "n2") {
				t.Error("the second one was cut, or removed")
			}
			if ended := s.san.Cut("n2", "u") || !slices.Contains(s.san.Mapped("u"), "n2"); !ended {
				t.Error("the first one was not cut")
			}
		})
	}
}
