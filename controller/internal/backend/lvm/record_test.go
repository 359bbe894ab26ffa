package lvm

import (
	"context"
	"errors"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/lvm"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// adoptStep returns the step that records group B of host n1 in place of group A.
func adoptStep() lvm.Step {
	return lvm.Step{
		Node: "n1", Owner: "uid", Does: v1alpha1.ActionAdoptVolumeGroup, Group: "g", UUID: "B",
		Adoption: &lvm.Adoption{Member: "a.n1", Node: "n1", UID: "m-uid", Replaces: []string{"A"}},
	}
}

// server is an API server with one Member that records a group.
func server(t *testing.T, g *v1alpha1.MemberGroup, funcs interceptor.Funcs) (client.Client, func() *v1alpha1.MemberGroup) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	m := memberOf(clusterOf("a", "uid"), "n1", "")
	m.Spec.Group = g
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(m).WithInterceptorFuncs(funcs).Build()
	return c, func() *v1alpha1.MemberGroup {
		now := &v1alpha1.Member{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(m), now); err != nil {
			t.Fatal(err)
		}
		return now.Spec.Group
	}
}

// TestPerform_adopts: the record changes from what was approved to what was approved, and from nothing else. Repeated it changes nothing.
func TestPerform_adopts(t *testing.T) {
	whole := decide.Group{Name: "g", UUID: "B", OwnerUID: "uid"}
	partial, other := whole, whole
	partial.Partial, other.UUID = true, "C"
	reports := func(groups ...decide.Group) decide.Node {
		return decide.Node{Name: "n1", Agent: decide.AgentUp, Groups: groups}
	}
	blind := reports(whole)
	blind.Unknown = []decide.UnknownGroup{{Name: "x"}}
	silent := reports(whole)
	silent.Agent = decide.AgentUnreachable
	for name, c := range map[string]struct {
		have  *v1alpha1.MemberGroup
		node  decide.Node
		step  func(*lvm.Step)
		want  []string
		fails bool
	}{
		"the older record":              {have: &v1alpha1.MemberGroup{UUID: "A", Name: "x"}, node: reports(whole), want: []string{"A"}},
		"more was given up before":      {have: &v1alpha1.MemberGroup{UUID: "A", Earlier: []string{"B", "Z"}}, node: reports(whole), want: []string{"A", "Z"}},
		"it was cut off after that":     {have: &v1alpha1.MemberGroup{UUID: "B", Name: "g", Earlier: []string{"A"}}, node: reports(whole), want: []string{"A"}},
		"no record":                     {node: reports(whole), want: []string{"A"}},
		"another record by now":         {have: &v1alpha1.MemberGroup{UUID: "C"}, node: reports(whole), fails: true},
		"another Member of the name":    {have: &v1alpha1.MemberGroup{UUID: "A"}, node: reports(whole), step: func(s *lvm.Step) { s.Adoption.UID = "before" }, fails: true},
		"no Member of the name":         {have: &v1alpha1.MemberGroup{UUID: "A"}, node: reports(whole), step: func(s *lvm.Step) { s.Adoption.Member = "a.n2" }, fails: true},
		"a step without a record":       {have: &v1alpha1.MemberGroup{UUID: "A"}, node: reports(whole), step: func(s *lvm.Step) { s.Adoption = nil }, fails: true},
		"the group lacks a disk now":    {have: &v1alpha1.MemberGroup{UUID: "A"}, node: reports(partial), fails: true},
		"another group came besides":    {have: &v1alpha1.MemberGroup{UUID: "A"}, node: reports(whole, other), fails: true},
		"the replaced one is reported":  {have: &v1alpha1.MemberGroup{UUID: "A"}, node: reports(whole, decide.Group{Name: "x", UUID: "A", OwnerUID: "other"}), fails: true},
		"one cannot be reported":        {have: &v1alpha1.MemberGroup{UUID: "A"}, node: blind, fails: true},
		"another group is there now":    {have: &v1alpha1.MemberGroup{UUID: "A"}, node: reports(other), fails: true},
		"the agent is silent meanwhile": {have: &v1alpha1.MemberGroup{UUID: "A"}, node: silent, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			api, now := server(t, c.have, interceptor.Funcs{})
			step := adoptStep()
			if c.step != nil {
				c.step(&step)
			}
			b := &Backend{Agents: &agents{t: t, nodes: map[string]decide.Node{"n1": c.node}}, Records: Recorder{Client: api, Live: api}}
			for range 2 {
				done, err := b.Perform(context.Background(), "n1", backend.Checked([]backend.Step{step}, free))
				if (err != nil) != c.fails || (done == 1) == c.fails {
					t.Fatalf("%d, %v", done, err)
				}
			}
			switch g := now(); {
			case c.fails && (g.UUID != c.have.UUID || len(g.Earlier) != 0):
				t.Errorf("%+v", g)
			case !c.fails && (g.UUID != "B" || g.Name != "g" || len(g.Forming) != 0 || !slices.Equal(g.Earlier, c.want)):
				t.Errorf("%+v", g)
			}
		})
	}
}

// TestPerform_adoptsAgain: somebody else wrote the Member, or the API server does not answer: the next pass decides anew.
func TestPerform_adoptsAgain(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "members"}, "a.n1", errors.New("changed"))
	for name, c := range map[string]struct {
		err     error
		passing bool
	}{
		"a conflict": {conflict, true}, "an error": {errors.New("no answer"), false},
	} {
		t.Run(name, func(t *testing.T) {
			api, now := server(t, &v1alpha1.MemberGroup{UUID: "A"}, interceptor.Funcs{
				Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
					return c.err
				},
			})
			node := decide.Node{Name: "n1", Agent: decide.AgentUp, Groups: []decide.Group{{Name: "g", UUID: "B", OwnerUID: "uid"}}}
			b := &Backend{Agents: &agents{t: t, nodes: map[string]decide.Node{"n1": node}}, Records: Recorder{Client: api, Live: api}}
			done, err := b.Perform(context.Background(), "n1", backend.Checked([]backend.Step{adoptStep()}, free))
			failed := &backend.StepError{}
			if done != 0 || !errors.As(err, &failed) || failed.Passing != c.passing || now().UUID != "A" {
				t.Errorf("%d, %v, %+v", done, err, now())
			}
		})
	}
}

// TestPerform_takesOver: the record is written before the group has another owner, and nothing happens while the former one exists, or when nobody can
// say. Repeated it does the same.
func TestPerform_takesOver(t *testing.T) {
	step := lvm.Step{
		Node: "n1", Owner: "uid", Does: v1alpha1.ActionImportVolumeGroup, Group: "g", UUID: "B", From: "quarry-n1", FromOwner: "uid-before",
		Adoption: &lvm.Adoption{Member: "a.n1", Node: "n1", UID: "m-uid"},
	}
	bare := step
	bare.Adoption = nil
	share := &v1alpha1.Nfs{}
	share.Name, share.UID = "share", "uid-before"
	deaf := interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return errors.New("no answer")
	}}
	unwritable := interceptor.Funcs{Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
		return errors.New("no answer")
	}}
	for name, c := range map[string]struct {
		step  lvm.Step
		have  *v1alpha1.MemberGroup
		owner client.Object
		funcs interceptor.Funcs
		fails bool
	}{
		"nobody owns it":                  {step: step},
		"the record was written":          {step: step, have: &v1alpha1.MemberGroup{UUID: "B", Name: "g"}},
		"another group is recorded":       {step: step, have: &v1alpha1.MemberGroup{UUID: "A"}, fails: true},
		"its owner exists":                {step: step, owner: share, fails: true},
		"nobody can say whose it is":      {step: step, funcs: deaf, fails: true},
		"the record cannot be written":    {step: step, funcs: unwritable, fails: true},
		"a step that says nothing of one": {step: bare, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			api, now := server(t, c.have, c.funcs)
			if c.owner != nil {
				if err := api.Create(t.Context(), c.owner); err != nil {
					t.Fatal(err)
				}
			}
			agent := &changer{}
			for range 2 {
				done, err := (&Backend{Changer: agent, Records: Recorder{Client: api, Live: api}}).Perform(
					context.Background(), "n1", backend.Checked([]backend.Step{c.step}, free))
				if (err != nil) != c.fails || (done == 1) == c.fails {
					t.Fatalf("%d, %v", done, err)
				}
			}
			switch {
			case c.fails && len(agent.calls) > 0:
				t.Errorf("calls %q", agent.calls)
			case !c.fails && (len(agent.calls) != 2 || agent.calls[0] != "take over n1 g uid B quarry-n1 uid-before" || now().UUID != "B" || now().Earlier != nil):
				t.Errorf("calls %q, record %+v", agent.calls, now())
			}
		})
	}
}
