package member

import (
	"strings"
	"testing"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

var (
	upNode      = decide.Node{Name: "n1", Agent: decide.AgentUp}
	downNode    = decide.Node{Name: "n1", Agent: decide.AgentUnreachable, Problem: "cut off"}
	newNode     = decide.Node{Name: "n1", Agent: decide.AgentConnecting}
	brokenLVM   = decide.Node{Name: "n1", Agent: decide.AgentUp, LVMError: "no lvm"}
	emptyGroup  = []decide.Group{{Name: "g"}}
	filledGroup = []decide.Group{{Name: "g", Volumes: []string{"v"}}}
)

func previous(up, data, quiesce, destroy bool) *v1alpha1.ClusterMember {
	return &v1alpha1.ClusterMember{Flags: v1alpha1.MemberFlags{IsUp: up, HasData: data, ShouldQuiesce: quiesce, ShouldDestroy: destroy}}
}

func TestDecide(t *testing.T) {
	for name, c := range map[string]struct {
		in   Input
		want string
	}{
		"an empty host that answers is online":          {Input{Wanted: true, Node: upNode}, "online up"},
		"a host with volumes is online":                 {Input{Wanted: true, Node: upNode, Groups: filledGroup}, "online up data"},
		"a host that does not answer has unknown data":  {Input{Wanted: true, Node: downNode, Groups: emptyGroup}, "offline data"},
		"a host without LVM has unknown data":           {Input{Wanted: true, Node: brokenLVM}, "online up data"},
		"maintenance quiesces":                          {Input{Wanted: true, Maintenance: true, Node: upNode}, "quiesced up quiesce"},
		"maintenance quiesces a host that is down":      {Input{Wanted: true, Maintenance: true, Node: downNode}, "quiesced data quiesce"},
		"leaving maintenance follows isUp":              {Input{Wanted: true, Node: downNode, Previous: previous(false, true, true, false)}, "offline data"},
		"an empty host that is not wanted is abandoned": {Input{Node: upNode, Groups: emptyGroup}, "abandoned up destroy"},
		"a host with volumes that is not wanted fails":  {Input{Node: upNode, Groups: filledGroup}, "failed up data destroy"},
		"volumes of the API count too":                  {Input{Node: upNode, Volumes: []string{"pv"}}, "failed up data destroy"},
		"a host that is down is never abandoned":        {Input{Node: downNode, Groups: emptyGroup}, "failed data destroy"},
		"maintenance does not protect from removal":     {Input{Maintenance: true, Node: upNode}, "abandoned up quiesce destroy"},
		"removal never goes back":                       {Input{Wanted: true, Node: upNode, Groups: filledGroup, Previous: previous(true, true, false, true)}, "failed up data destroy"},
		"data that appears stops the removal":           {Input{Node: upNode, Groups: filledGroup, Previous: previous(true, false, false, true)}, "failed up data destroy"},
		"too early to say keeps what was observed":      {Input{Wanted: true, Node: newNode, Previous: previous(true, false, false, false)}, "online up"},
		"too early to say knows nothing of a new host":  {Input{Wanted: true, Node: newNode}, "offline data"},
	} {
		t.Run(name, func(t *testing.T) {
			m := Decide(c.in)
			got := string(m.State)
			for _, f := range []struct {
				name string
				set  bool
			}{{"up", m.Flags.IsUp}, {"data", m.Flags.HasData}, {"quiesce", m.Flags.ShouldQuiesce}, {"destroy", m.Flags.ShouldDestroy}} {
				if f.set {
					got += " " + f.name
				}
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestExplain(t *testing.T) {
	leaving := v1alpha1.ClusterMember{Flags: v1alpha1.MemberFlags{ShouldDestroy: true}}
	for name, c := range map[string]struct {
		in   Input
		m    v1alpha1.ClusterMember
		want string
	}{
		"a member that stays waits for nothing": {Input{Node: upNode}, v1alpha1.ClusterMember{}, ""},
		"volumes are named":                     {Input{Node: upNode, Groups: filledGroup, Volumes: []string{"pv"}}, leaving, "g/v, pv"},
		"an agent that is away is named":        {Input{Node: downNode}, leaving, "cut off"},
		"listed again":                          {Input{Node: upNode, Wanted: true, Previous: &leaving}, leaving, "afresh"},
		"nothing holds it":                      {Input{Node: upNode}, leaving, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := Explain(c.in, c.m)
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestShorten(t *testing.T) {
	if got := Shorten([]string{"a", "b", "c"}, 2); got != "a, b and 1 more" {
		t.Error(got)
	}
	if got := Shorten([]string{"a", "b"}, 2); got != "a, b" {
		t.Error(got)
	}
}
