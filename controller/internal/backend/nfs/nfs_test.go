package nfs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/nfs"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// asked is one question to an agent.
type asked struct {
	node    string
	share   sharedvolume.Share
	prepare bool
	// time is what the agent has.
	time time.Duration
}

// agents are agents that say what a test wants.
type agents struct {
	online  []string
	reports map[string]sharedvolume.Seen
	errs    map[string]error
	asked   []asked
	// records are what the share has on record, listErr why that cannot be read, removed what was removed.
	records []sharedvolume.Directory
	listErr error
	removed []string
	// listed are the shares whose records were asked for, page by page; page is called for each, and refuse has what is said of an identity.
	listed []sharedvolume.Share
	page   func()
	refuse map[string]*decide.Fault
	// fails has why the records of an owner cannot be read.
	fails map[string]error
}

func (a *agents) Online() []string { return a.online }

func (a *agents) GetShare(ctx context.Context, node string, s sharedvolume.Share, prepare bool) (sharedvolume.Seen, error) {
	end, _ := ctx.Deadline()
	a.asked = append(a.asked, asked{node, s, prepare, time.Until(end).Round(time.Second)})
	if err := a.errs[node]; err != nil {
		return sharedvolume.Seen{}, err
	}
	r, ok := a.reports[node]
	if !ok {
		return sharedvolume.Seen{}, errors.New("unexpected node " + node)
	}
	return r, nil
}

func (a *agents) ListDirectories(_ context.Context, _ string, s sharedvolume.Share, token string, check bool) ([]sharedvolume.Directory, string, error) {
	if s.ID == "" || s.Owner == "" {
		return nil, "", errors.New("the share is not said")
	}
	a.listed = append(a.listed, s)
	if a.page != nil {
		a.page()
	}
	if f := a.refuse[s.ID]; f != nil {
		return nil, "", f
	}
	if err := a.fails[s.Owner]; err != nil {
		return nil, "", err
	}
	if a.listErr != nil || len(a.records) == 0 {
		return nil, "", a.listErr
	}
	// A page for each.
	i := slices.IndexFunc(a.records, func(d sharedvolume.Directory) bool { return d.Name > token })
	next, page := a.records[i].Name, slices.Clone(a.records[i:i+1])
	if i == len(a.records)-1 {
		next = ""
	}
	if !check {
		page[0].Problem = ""
	}
	return page, next, nil
}

func (a *agents) AbandonDirectory(_ context.Context, node string, _ sharedvolume.Share, name string) error {
	if !slices.Contains(a.online, node) {
		return fmt.Errorf("node %q", node)
	}
	for _, d := range a.records {
		if d.Name == name && !d.NeverMade {
			return &decide.Fault{Kind: decide.FaultPrecondition, Message: "volume " + name + " is left alone, for it was made"}
		}
	}
	a.removed = append(a.removed, name)
	a.records = slices.DeleteFunc(a.records, func(d sharedvolume.Directory) bool { return d.Name == name })
	return nil
}

func (a *agents) nodes() []string {
	var out []string
	for _, q := range a.asked {
		out = append(out, q.node)
	}
	slices.Sort(out)
	return out
}

func object() *v1alpha1.Nfs {
	n := &v1alpha1.Nfs{}
	n.Name, n.UID = "share", "6d1f8f3e-0000-4000-8000-000000000001"
	n.Spec.Server, n.Spec.Path = "nas", "/export"
	return n
}

var (
	fine = sharedvolume.Seen{ID: "6d1f8f3e-0000-4000-8000-00000000000f", Usage: sharedvolume.Usage{Total: 100, Free: 50}, Version: "4.2"}
	down = sharedvolume.Seen{Problem: &sharedvolume.Problem{Reason: sharedvolume.ReasonUnreachable, Message: "no answer"}}
)

func observe(t *testing.T, b *Backend, n *v1alpha1.Nfs, last backend.View) backend.View {
	t.Helper()
	v, err := b.Observe(t.Context(), n, backend.World{}, last)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func status(v backend.View) metav1.ConditionStatus { return v.Whole(nil).Facts[0].Status }

func TestObserve_asksAnotherAgentAndStaysWithTheOneThatKnows(t *testing.T) {
	now := time.Now()
	a := &agents{online: []string{"n1", "n2", "n3"}, reports: map[string]sharedvolume.Seen{"n1": down, "n2": fine, "n3": down}}
	b := &Backend{Agents: a, Now: func() time.Time { return now }}
	n := object()
	v := observe(t, b, n, nil)
	if status(v) != metav1.ConditionTrue || !a.asked[0].prepare {
		t.Fatalf("asked %+v, status %s", a.asked, status(v))
	}
	a.asked = nil
	if v = observe(t, b, n, v); len(a.asked) != 0 {
		t.Errorf("asked again at once: %+v", a.asked)
	}
	now = now.Add(nfs.Every)
	v = observe(t, b, n, v)
	if len(a.asked) != 1 || a.asked[0].node != "n2" || a.asked[0].prepare || status(v) != metav1.ConditionTrue {
		t.Errorf("asked %+v", a.asked)
	}
}

func TestObserve_everyAgentIsAskedInTurn(t *testing.T) {
	now := time.Now()
	a := &agents{
		online:  []string{"n1", "n2", "n3", "n4"},
		reports: map[string]sharedvolume.Seen{"n1": down, "n2": down, "n3": down}, errs: map[string]error{"n4": errors.New("gone")},
	}
	b := &Backend{Agents: a, Now: func() time.Time { return now }}
	v := observe(t, b, object(), nil)
	if status(v) != metav1.ConditionFalse || len(a.asked) != tries {
		t.Errorf("asked %+v", a.asked)
	}
	all := a.nodes()
	for range 4 {
		a.asked = nil
		now = now.Add(nfs.Every)
		v = observe(t, b, object(), v)
		if len(a.asked) != 1 {
			t.Errorf("a share that nobody reaches costs %d questions per look", len(a.asked))
		}
		all = append(all, a.nodes()...)
	}
	slices.Sort(all)
	if got := slices.Compact(all); !slices.Equal(got, a.online) {
		t.Errorf("asked %v only", got)
	}
	// One that reaches it again is found in its turn, and stays.
	a.reports["n3"] = fine
	for range 4 {
		now = now.Add(nfs.Every)
		v = observe(t, b, object(), v)
	}
	if status(v) != metav1.ConditionTrue {
		t.Error("the node that reaches the share was not found in four looks")
	}
}

// TestObserve_sharesDoNotMoveEachOthersTurn: with as many shares as agents, each share still asks all of them.
func TestObserve_sharesDoNotMoveEachOthersTurn(t *testing.T) {
	now := time.Now()
	a := &agents{online: []string{"n1", "n2", "n3"}, reports: map[string]sharedvolume.Seen{"n1": down, "n2": down, "n3": down}}
	b := &Backend{Agents: a, Now: func() time.Time { return now }}
	views := make([]backend.View, 3)
	look := func() {
		now = now.Add(nfs.Every)
		for i := range views {
			views[i] = observe(t, b, object(), views[i])
		}
	}
	look()
	a.reports["n1"] = fine
	for range a.online {
		look()
	}
	for i, v := range views {
		if status(v) != metav1.ConditionTrue {
			t.Errorf("share %d did not find the node that reaches it in %d looks", i, len(a.online))
		}
	}
}

func TestObserve_recordedIdentityAndDeletion(t *testing.T) {
	a := &agents{online: []string{"n1"}, reports: map[string]sharedvolume.Seen{"n1": fine}}
	b := &Backend{Agents: a, Now: time.Now}
	n := object()
	n.Status.ShareID = fine.ID
	n.DeletionTimestamp = new(metav1.Now())
	observe(t, b, n, nil)
	if q := a.asked[0]; q.share.ID != fine.ID || q.share.Owner != string(n.UID) || q.prepare {
		t.Errorf("asked %+v", q)
	}
	a.asked = nil
	// Its volumes need the records on a share that was copied meanwhile.
	w := backend.World{Volumes: map[string][]backend.Volume{"": {{Name: "pvc-1"}}}}
	if _, err := b.Observe(t.Context(), n, w, nil); err != nil || !a.asked[0].prepare {
		t.Errorf("asked %+v, %v", a.asked, err)
	}
}

func TestObserve_invalidOptionsReachNoAgent(t *testing.T) {
	a := &agents{online: []string{"n1"}}
	b := &Backend{Agents: a, Now: time.Now}
	n := object()
	n.Spec.MountOptions = []v1alpha1.MountOption{"bg"}
	v := observe(t, b, n, nil)
	if c := v.Whole(nil).Facts[0]; c.Reason != sharedvolume.ReasonInvalid || len(a.asked) != 0 {
		t.Errorf("%+v, asked %+v", c, a.asked)
	}
}

// TestObserve_timeOfALook keeps the promise that a server that dies is told within half a minute, and by the agent: it has time to say that the server does not answer.
func TestObserve_timeOfALook(t *testing.T) {
	a := &agents{online: []string{"n1", "n2"}, reports: map[string]sharedvolume.Seen{"n1": down, "n2": down}}
	b := &Backend{Agents: a, Now: time.Now}
	observe(t, b, object(), nil)
	longest := nfs.Every
	for _, q := range a.asked {
		if q.time <= sharedvolume.LookTime+time.Second {
			t.Errorf("the agent on %s has %s, and needs %s", q.node, q.time, sharedvolume.LookTime)
		}
		longest += q.time
	}
	if compareTime+pageTime > nfs.Every {
		t.Errorf("comparing volumes keeps a look waiting for %s", compareTime+pageTime-nfs.Every)
	}
	if len(a.asked) != 2 || longest >= 29*time.Second {
		t.Errorf("a server that dies is told after %s, by %d questions", longest, len(a.asked))
	}
}

func TestObserve_noAgent(t *testing.T) {
	b := &Backend{Agents: &agents{}, Now: time.Now}
	if c := observe(t, b, object(), nil).Whole(nil).Facts[0]; c.Status != metav1.ConditionUnknown {
		t.Errorf("%+v", c)
	}
	if _, err := b.Observe(t.Context(), &v1alpha1.Cluster{}, backend.World{}, nil); err == nil {
		t.Error("a Cluster was looked at")
	}
}
