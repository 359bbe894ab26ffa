package lvm

import (
	"context"
	"errors"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
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

// taking is an agent on which the first one that takes a group over wins, as the real one does.
type taking struct {
	changer
	refuses error
	owner   string
}

func (a *taking) TakeOverVolumeGroup(ctx context.Context, node string, g decide.GroupRef, systemID, from string) error {
	if err := a.changer.TakeOverVolumeGroup(ctx, node, g, systemID, from); err != nil || a.refuses != nil {
		return errors.Join(err, a.refuses)
	}
	if a.owner != "" && a.owner != g.Owner {
		return &decide.Fault{Kind: decide.FaultDenied, Node: node, Call: "ImportVolumeGroup", Message: "it is another's"}
	}
	a.owner = g.Owner
	return nil
}

// takeOverStep returns the step that makes group B of an owner that is gone that of Cluster a, or of another one of that name and UID.
func takeOverStep(cluster, uid string) lvm.Step {
	return lvm.Step{
		Node: "n1", Owner: uid, Does: v1alpha1.ActionImportVolumeGroup, Group: "g", UUID: "B", From: "quarry-n1", FromOwner: "uid-before",
		Adoption: &lvm.Adoption{Member: cluster + ".n1", Node: "n1", UID: "m-uid"},
	}
}

// TestPerform_takesOver: nothing happens while the former owner exists, or when nobody can say, or when the record could not be written. An agent that
// refuses, as those do that are too old to know it, leaves no record behind.
func TestPerform_takesOver(t *testing.T) {
	step := takeOverStep("a", "uid")
	bare := step
	bare.Adoption = nil
	share := &v1alpha1.Nfs{}
	share.Name, share.UID = "share", "uid-before"
	rival := memberOf(clusterOf("b", "other"), "n1", "")
	rival.UID, rival.Spec.Group = "rival", &v1alpha1.MemberGroup{UUID: "B"}
	deaf := interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return errors.New("no answer")
	}}
	unwritable := interceptor.Funcs{Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
		return errors.New("no answer")
	}}
	older := &decide.Fault{Kind: decide.FaultDenied, Node: "n1", Call: "ImportVolumeGroup", Message: "it is another's"}
	for name, c := range map[string]struct {
		step  lvm.Step
		have  *v1alpha1.MemberGroup
		other client.Object
		funcs interceptor.Funcs
		agent taking
		// asked is how often the agent is, of two attempts.
		asked int
		fails bool
	}{
		"nobody owns it":                  {step: step, asked: 2},
		"the record was written":          {step: step, have: &v1alpha1.MemberGroup{UUID: "B", Name: "g"}, asked: 2},
		"another group is recorded":       {step: step, have: &v1alpha1.MemberGroup{UUID: "A"}, fails: true},
		"its owner exists":                {step: step, other: share, fails: true},
		"another Member records it":       {step: step, other: rival, fails: true},
		"nobody can say whose it is":      {step: step, funcs: deaf, fails: true},
		"the record cannot be written":    {step: step, funcs: unwritable, asked: 2, fails: true},
		"the agent refuses":               {step: step, agent: taking{refuses: older}, asked: 2, fails: true},
		"a step that says nothing of one": {step: bare, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			api, now := server(t, c.have, c.funcs)
			if c.other != nil {
				if err := api.Create(t.Context(), c.other); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				done, err := (&Backend{Changer: &c.agent, Records: Recorder{Client: api, Live: api}}).Perform(
					context.Background(), "n1", backend.Checked([]backend.Step{c.step}, free))
				if (err != nil) != c.fails || (done == 1) == c.fails {
					t.Fatalf("%d, %v", done, err)
				}
			}
			calls, record := c.agent.calls, now()
			switch {
			case len(calls) != c.asked || c.asked > 0 && calls[0] != "take over n1 g uid B quarry-n1 uid-before":
				t.Errorf("calls %q", calls)
			case c.fails && !equality.Semantic.DeepEqual(record, c.have):
				t.Errorf("record %+v, before %+v", record, c.have)
			case !c.fails && (record.UUID != "B" || record.Earlier != nil):
				t.Errorf("record %+v", record)
			}
		})
	}
}

// TestPerform_oneTakesOver: volumes of two restored Clusters name one earlier owner, and a person approved both plans. One gets the group. The other one has
// no record that nobody but a person could change, whenever it looked.
func TestPerform_oneTakesOver(t *testing.T) {
	api, first := server(t, nil, interceptor.Funcs{})
	second := memberOf(clusterOf("b", "other"), "n1", "")
	second.Spec.Group = nil
	second.UID = "m-uid"
	if err := api.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	agent := &taking{}
	// Both looked at the API server before either wrote.
	records := early{Recorder{Client: api, Live: api}}
	perform := func(s lvm.Step) error {
		_, err := (&Backend{Changer: agent, Records: records}).Perform(context.Background(), "n1", backend.Checked([]backend.Step{s}, free))
		return err
	}
	if err := perform(takeOverStep("a", "uid")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := perform(takeOverStep("b", "other")); err == nil {
			t.Error("both have the group")
		}
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(second), second); err != nil {
		t.Fatal(err)
	}
	if first().UUID != "B" || second.Spec.Group != nil || agent.owner != "uid" {
		t.Errorf("records %+v and %+v, the group is that of %s", first(), second.Spec.Group, agent.owner)
	}
}

// early looks at Members before anybody wrote.
type early struct{ Recorder }

func (early) Adoptable(context.Context, lvm.Adoption, string) error { return nil }
