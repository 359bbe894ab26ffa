package claim

import (
	"errors"
	"testing"

	"quarry.storage/quarry/agent/internal/plan"
)

const owner = "uid-a"

func groupOf(access plan.Access, id string) plan.Group {
	return plan.Group{
		Name: "g", UUID: "u1", OwnerUID: owner, Access: access, SystemID: id,
		PVs: []plan.PV{{Path: "/dev/a", UUID: "p1"}, {Path: "/dev/b", UUID: "p2"}},
	}
}

func TestKeep(t *testing.T) {
	edit := func(change func(g *plan.Group)) plan.Group {
		g := groupOf(plan.AccessOwn, "quarry-n1")
		g.Autoactivated = true
		change(&g)
		return g
	}
	with := func(volumes ...plan.Volume) func(g *plan.Group) {
		return func(g *plan.Group) {
			g.LogicalVolumes, g.Pools = volumes, []plan.Pool{{Name: "thin", Ours: true, Kept: []string{"thin_meta0"}}}
		}
	}
	const stop = "stop the autoactivation of group g"
	for name, tt := range map[string]struct {
		seen plan.Group
		want string
	}{
		"the host activates what is in it": {edit(func(*plan.Group) {}), stop},
		"it does not, or LVM cannot tell":  {edit(func(g *plan.Group) { g.Autoactivated = false }), ""},
		"another group":                    {edit(func(g *plan.Group) { g.UUID = "u2" }), ""},
		"it names no node":                 {edit(func(g *plan.Group) { g.Access, g.SystemID = plan.AccessNone, "" }), ""},
		"it is another node's":             {edit(func(g *plan.Group) { g.Access, g.SystemID = plan.AccessOther, "quarry-n2" }), ""},
		"a disk of it is missing":          {edit(func(g *plan.Group) { g.Partial = true }), ""},
		"extents are being moved in it":    {edit(func(g *plan.Group) { g.Moving = &plan.Moving{} }), ""},
		"somebody else's volume is active": {edit(with(plan.Volume{Name: "swap", Active: true})), ""},
		"somebody else's is not active":    {edit(with(plan.Volume{Name: "swap"})), stop},
		"ours are active": {edit(with(plan.Volume{Name: "v", ID: "i", Active: true}, plan.Volume{Name: "t", TailOf: "i", Active: true},
			plan.Volume{Name: "thin_meta0", Active: true})), stop},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, s := range Keep(plan.Snapshot{Groups: []plan.Group{tt.seen}}, "u1").Steps {
				got += s.String()
				if step, ok := s.(StopAutoactivation); !ok || len(step.Touches()) != 2 || step.Why() == "" {
					t.Errorf("%+v", s)
				}
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestGroup(t *testing.T) {
	none, own, other := groupOf(plan.AccessNone, ""), groupOf(plan.AccessOwn, "quarry-n1"), groupOf(plan.AccessOther, "quarry-n2")
	partial, partialOther := none, other
	partial.Partial, partialOther.Partial = true, true
	second := own
	second.UUID = "u2"
	renamed := other
	renamed.Name = "h"
	want := Spec{Name: "g", OwnerUID: owner, UUID: "u1"}
	moved := want
	moved.From = "quarry-n2"
	unknown := plan.UnknownGroup{Name: "g", OwnerUID: owner, Reason: "locked"}
	for name, tt := range map[string]struct {
		seen plan.Snapshot
		want Spec
		step string
		err  error
	}{
		"a group that names no node is stamped":     {plan.Snapshot{Groups: []plan.Group{none}}, want, "write the system ID into group g", nil},
		"one that names this node needs nothing":    {plan.Snapshot{Groups: []plan.Group{own}}, want, "", nil},
		"nor does an import that was made":          {plan.Snapshot{Groups: []plan.Group{own}}, moved, "", nil},
		"one of another node is not stamped":        {plan.Snapshot{Groups: []plan.Group{other}}, want, "", plan.ErrOtherNode},
		"one of another node is imported":           {plan.Snapshot{Groups: []plan.Group{other}}, moved, "import group g from node n2", nil},
		"one of a third node is not":                {plan.Snapshot{Groups: []plan.Group{other}}, Spec{Name: "g", OwnerUID: owner, UUID: "u1", From: "quarry-n3"}, "", plan.ErrOtherNode},
		"one that lost its node meanwhile is not":   {plan.Snapshot{Groups: []plan.Group{none}}, moved, "", plan.ErrOtherNode},
		"one that lacks a disk is not stamped":      {plan.Snapshot{Groups: []plan.Group{partial}}, want, "", plan.ErrPartial},
		"one that lacks a disk is not imported":     {plan.Snapshot{Groups: []plan.Group{partialOther}}, moved, "", plan.ErrPartial},
		"another group of the name is not the one":  {plan.Snapshot{Groups: []plan.Group{second}}, want, "", plan.ErrNotFound},
		"one that may be among the unknown":         {plan.Snapshot{UnknownGroups: []plan.UnknownGroup{unknown}}, want, "", plan.ErrUnsure},
		"one of another owner":                      {plan.Snapshot{Groups: []plan.Group{none}}, Spec{Name: "g", OwnerUID: "uid-b", UUID: "u1"}, "", plan.ErrNotOurs},
		"one of another name":                       {plan.Snapshot{Groups: []plan.Group{renamed}}, moved, "", plan.ErrNotOurs},
		"an import beside a group of the name":      {plan.Snapshot{Groups: []plan.Group{other, second}}, moved, "", plan.ErrAlreadyExists},
		"an import beside a foreign one":            {plan.Snapshot{Groups: []plan.Group{other}, ForeignGroups: []string{"g"}}, moved, "", plan.ErrAlreadyExists},
		"an import beside what cannot be reported":  {plan.Snapshot{Groups: []plan.Group{other}, UnknownGroups: []plan.UnknownGroup{unknown}}, moved, "", plan.ErrUnsure},
		"a stamp beside another node's of the name": {plan.Snapshot{Groups: []plan.Group{none, {Name: "g", UUID: "u3", OwnerUID: owner, Access: plan.AccessOther, SystemID: "quarry-n2"}}}, want, "write the system ID into group g", nil},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Group(tt.seen, tt.want)
			if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if tt.step == "" && len(p.Steps) == 0 {
				return
			}
			if len(p.Steps) != 1 || p.Steps[0].String() != tt.step || p.Steps[0].Why() == "" || len(p.Steps[0].Touches()) != 2 || len(p.Changes()) != 0 {
				t.Errorf("steps: %v, want %q", p.Steps, tt.step)
			}
		})
	}
}

// TestGroup_ofAnOwnerThatIsGone: a group of this node becomes another owner's, and no other group does. Repeated it is done already.
func TestGroup_ofAnOwnerThatIsGone(t *testing.T) {
	own, other, none := groupOf(plan.AccessOwn, "quarry-n1"), groupOf(plan.AccessOther, "quarry-n2"), groupOf(plan.AccessNone, "")
	partial, moving, done, mine, third := own, own, own, own, own
	partial.Partial, moving.Moving = true, &plan.Moving{Bytes: 1}
	done.OwnerUID, done.OwnersBefore, mine.OwnerUID, third.OwnerUID = "uid-b", []string{"uid-0", owner}, "uid-b", "uid-c"
	want := Spec{Name: "g", OwnerUID: "uid-b", UUID: "u1", From: "quarry-n1", FromOwner: owner}
	fromNode2, another := want, want
	fromNode2.From, another.UUID = "quarry-n2", "u2"
	unknown := []plan.UnknownGroup{{Name: "g", Reason: "its metadata cannot be read"}}
	for name, tt := range map[string]struct {
		seen plan.Snapshot
		want Spec
		step string
		err  error
	}{
		"a group of this node":                 {plan.Snapshot{Groups: []plan.Group{own}}, want, "give group g from owner uid-a to owner uid-b", nil},
		"it was done":                          {plan.Snapshot{Groups: []plan.Group{done}}, want, "", nil},
		"it always was the new owner's":        {plan.Snapshot{Groups: []plan.Group{mine}}, want, "", plan.ErrNotOurs},
		"it is somebody else's by now":         {plan.Snapshot{Groups: []plan.Group{third}}, want, "", plan.ErrNotOurs},
		"it is another node's":                 {plan.Snapshot{Groups: []plan.Group{other}}, want, "", plan.ErrOtherNode},
		"it is another node's, which is named": {plan.Snapshot{Groups: []plan.Group{other}}, fromNode2, "", plan.ErrOtherNode},
		"it names no node":                     {plan.Snapshot{Groups: []plan.Group{none}}, want, "", plan.ErrOtherNode},
		"it lacks a disk":                      {plan.Snapshot{Groups: []plan.Group{partial}}, want, "", plan.ErrPartial},
		"extents are being moved in it":        {plan.Snapshot{Groups: []plan.Group{moving}}, want, "", plan.ErrMoving},
		"another group of the name":            {plan.Snapshot{Groups: []plan.Group{own}}, another, "", plan.ErrNotFound},
		"another of its name may be there":     {plan.Snapshot{Groups: []plan.Group{own}, UnknownGroups: unknown}, want, "", plan.ErrUnsure},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Group(tt.seen, tt.want)
			if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if tt.step == "" && len(p.Steps) == 0 {
				return
			}
			if len(p.Steps) != 1 || p.Steps[0].String() != tt.step || p.Steps[0].Why() == "" || len(p.Steps[0].Touches()) != 2 || len(p.Changes()) != 0 {
				t.Errorf("steps: %v, want %q", p.Steps, tt.step)
			}
		})
	}
}
