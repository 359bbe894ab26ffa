package lvm

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/volumeid"
)

// TestMayRecord: what a handle names may be in the group that the Member of another node has on record, until that node reports the group, or reports
// without a doubt that it is not there, or a person has declared it lost.
func TestMayRecord(t *testing.T) {
	id, err := volumeid.New("n1", "quarry-a", "pvc-00000000-0000-0000-0000-000000000001")
	if err != nil {
		t.Fatal(err)
	}
	type given struct {
		member v1alpha1.Member
		node   decide.Node
		may    bool
	}
	for name, c := range map[string]struct {
		edit func(*given)
		want bool
	}{
		"its node is silent":                      {func(*given) {}, true},
		"its agent connects":                      {func(g *given) { g.node.Agent = decide.AgentConnecting }, true},
		"its node reports, and LVM cannot be run": {func(g *given) { g.node.Agent, g.node.LVMError = decide.AgentUp, "broken" }, true},
		"its node reports, and something cannot be read": {func(g *given) {
			g.node.Agent, g.node.Hiding = decide.AgentUp, []string{"/dev/sdz"}
		}, true},
		"its node reports without a doubt":       {func(g *given) { g.node.Agent = decide.AgentUp }, false},
		"its node reports another group":         {func(g *given) { g.node.Agent, g.node.Groups = decide.AgentUp, []decide.Group{{UUID: "B"}} }, false},
		"its node reported it":                   {func(g *given) { g.node.Groups = []decide.Group{{UUID: "A"}} }, false},
		"it may not be that group":               {func(g *given) { g.may = false }, false},
		"nothing is on record":                   {func(g *given) { g.member.Spec.Group = nil }, false},
		"only a name is on record":               {func(g *given) { g.member.Spec.Group.UUID = "" }, false},
		"a group of another name is on record":   {func(g *given) { g.member.Spec.Group.Name = "other" }, false},
		"an earlier record, without a name":      {func(g *given) { g.member.Spec.Group.Name = "" }, true},
		"declared lost":                          {func(g *given) { g.member.Spec.Lost = "m-uid" }, false},
		"another of that name was declared lost": {func(g *given) { g.member.Spec.Lost = "before" }, true},
	} {
		g := given{node: decide.Node{Name: "n2", Agent: decide.AgentUnreachable}, may: true}
		g.member = v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "a.n2", UID: "m-uid"}}
		g.member.Spec.Node, g.member.Spec.Group = "n2", &v1alpha1.MemberGroup{UUID: "A", Name: "quarry-a"}
		c.edit(&g)
		asked := ""
		err := spot{id: id}.mayRecord(&g.member, g.node, func(uuid string) bool { asked = uuid; return g.may })
		var refusal *volume.Refusal
		if refused := errors.As(err, &refusal); refused != c.want || refused != (err != nil) || refused && refusal.Kind != volume.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
		if asked != "" && asked != "A" {
			t.Errorf("%s: asked for %q", name, asked)
		}
		if err != nil && !strings.Contains(err.Error(), "may be on node n2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
