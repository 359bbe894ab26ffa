package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/agent/agenttest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func clientKey(name string) types.NamespacedName { return types.NamespacedName{Name: name} }

// spacing is from one write whose answer gets lost to the next: a controller gets on in between.
const spacing = 5

// flaky is a client that loses the answer to the write with number offset, counted from 0, and to every fifth one after it.
type flaky struct {
	client.WithWatch
	writes, offset int
}

func (f *flaky) write(do func() error) error {
	f.writes++
	if (f.writes-1)%spacing != f.offset {
		return do()
	}
	_ = do()
	return errAway
}

// client returns the client; reads are not disturbed.
func (f *flaky) client() client.WithWatch {
	return interceptor.NewClient(f.WithWatch, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return f.write(func() error { return c.Create(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return f.write(func() error { return c.Delete(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return f.write(func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return f.write(func() error { return c.Apply(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return f.write(func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
}

var errAway = errors.New("connection refused")

// TestReconcile_apiServerFailsAtEveryWrite lets the answer to every write of a Cluster's life get lost, each in one of several lives, with a
// new controller for each life. The end is always the same. Writes that fail otherwise are a matter of the engine alone, and tested there.
func TestReconcile_apiServerFailsAtEveryWrite(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}, "n2": {"sdb"}})
	good := s.client
	for n := range spacing {
		f := &flaky{WithWatch: good, offset: n}
		s.client = f.client()
		s.restartController()
		life(s, good, fmt.Sprintf("pool%d", n))
		if f.writes < 3*spacing {
			t.Errorf("a whole life took %d writes only", f.writes)
		}
	}
}

// life creates a Cluster, sees it run, and deletes it.
func life(s *suite, good client.WithWatch, name string) {
	s.t.Helper()
	flakyClient := s.client
	s.client = good
	s.add(name, nil, "n1", "n2")
	s.patiently(name, flakyClient, func() string {
		c := s.get(name)
		if complaint := hasPhase(v1alpha1.PhaseRunning)(c); complaint != "" {
			return complaint
		}
		for _, n := range []string{"n1", "n2"} {
			if got := s.disksOf(n, string(c.UID)); !slices.Equal(got, []string{"sdb"}) {
				return fmt.Sprintf("disks of %s: %v", n, got)
			}
			if s.labelOf(n) != "lvm" {
				return "no label on " + n
			}
		}
		if s.class(name) == nil {
			return "no class"
		}
		return ""
	})
	s.deleteCluster(name)
	s.patiently(name, flakyClient, func() string {
		c := &v1alpha1.Cluster{}
		if err := s.client.Get(context.Background(), clientKey(name), c); !apierrors.IsNotFound(err) {
			return "still there: " + c.Status.Message
		}
		return ""
	})
	for _, n := range []string{"n1", "n2"} {
		if len(s.agents[n].Groups()) != 0 || !s.agents[n].IsEmpty("sdb") || s.labelOf(n) != "" {
			s.t.Errorf("%s: something is left on %s", name, n)
		}
	}
	if s.class(name) != nil {
		s.t.Errorf("%s: the class is left", name)
	}
}

// patiently reconciles with another client, errors allowed, until the check is content.
func (s *suite) patiently(name string, c client.WithWatch, check func() string) {
	s.t.Helper()
	s.r.Client = c
	s.await(name, func() string {
		err := s.reconcile(name)
		complaint := check()
		if complaint != "" && err != nil {
			complaint += ": " + err.Error()
		}
		return complaint
	})
}

// revive starts an agent again that has died, once the controller has seen it. One that lives and is not connected yet needs time: started again at every look, it would
// never have enough on a busy machine.
func (s *suite) revive(a *agenttest.Agent) {
	s.t.Helper()
	if !a.Alive() && up(s.pool, "n1") != "" && s.get("pool").Status.Phase != "" {
		a.Restart(s.t)
	}
}

// TestReconcile_agentDiesAtEveryStep kills the agent before and after each of its changes while a dirty disk is wiped and taken and
// the Cluster is deleted again.
func TestReconcile_agentDiesAtEveryStep(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			s := newSuite(t, map[string][]string{"n1": {"sdb", "sdc"}})
			a := s.agents["n1"]
			a.Format("sdc", "ext4", "", "u-1")
			if after {
				a.CrashAfter(n)
			} else {
				a.CrashBefore(n)
			}
			s.add("pool", wipeOf(a.Path("sdc"), ""), "n1")
			approved := false
			s.patiently("pool", s.client, func() string {
				s.revive(a)
				c := s.get("pool")
				if p := c.Status.Plan; p != nil && !p.Approved && !approved {
					approved = true
					s.approve(p.Digest)
				}
				if len(s.disksOf("n1", string(c.UID))) != 2 {
					return "not all disks are taken: " + c.Status.Message
				}
				return hasPhase(v1alpha1.PhaseRunning)(c)
			})
			s.deleteCluster("pool")
			s.patiently("pool", s.client, func() string {
				c := &v1alpha1.Cluster{}
				// The agent may be dead when the Cluster is gone already.
				if err := s.client.Get(context.Background(), clientKey("pool"), c); !apierrors.IsNotFound(err) {
					s.revive(a)
					return "still there: " + c.Status.Message
				}
				return ""
			})
			if !a.IsEmpty("sdb") || !a.IsEmpty("sdc") || len(a.Groups()) != 0 {
				t.Errorf("crash at %d, after: %t: something is left", n, after)
			}
			done := a.Steps() < n
			s.r.Work.Close()
			s.pool.Close()
			s.cleanUp()
			if done {
				break
			}
		}
	}
}

func TestReconcile_agentDies_whatTheUserSees(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}, "n2": {"sdb"}})
	s.agents["n2"].CrashAfter(1)
	s.add("pool", nil, "n1", "n2")
	s.until("pool", all(hasPhase(v1alpha1.PhaseWarning), s.hasState("n1", "online"), s.hasState("n2", "offline", "agent"),
		hasCondition(ready, isFalse, v1alpha1.ReasonAgentUnreachable, "n2")))
	s.agents["n2"].Restart(t)
	s.until("pool", all(hasPhase(v1alpha1.PhaseRunning), s.hasState("n2", "online")))
}

func TestReconcile_slowHostHoldsUpNobody(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}, "n2": {"sdb"}})
	s.r.Work.Patience = 300 * time.Millisecond
	s.agents["n2"].Pause()
	s.add("pool", nil, "n1", "n2")
	s.until("pool", all(s.hasState("n1", "online"), s.hasState("n2", "online", "being prepared"), hasPhase(v1alpha1.PhaseUpdating)))
	// A pass that waited again for the job that runs would hold the test up until it fails.
	s.r.Work.Patience = time.Hour
	if err := s.reconcile("pool"); err != nil {
		t.Error(err)
	}
	s.agents["n2"].Resume()
	select {
	case name := <-s.r.Work.Late():
		if name.Name != "pool" {
			t.Errorf("told of %s", name)
		}
	case <-time.After(5 * time.Second):
		t.Error("nobody tells that the job has ended")
	}
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
}

func TestReconcile_deleteWhileAHostIsWorkedOn(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}})
	a := s.agents["n1"]
	a.Pause()
	s.add("pool", nil, "n1")
	s.until("pool", s.hasState("n1", "online", "being prepared"))
	s.deleteCluster("pool")
	for range 3 {
		if err := s.reconcile("pool"); err != nil {
			t.Fatal(err)
		}
	}
	if c := s.get("pool"); len(c.Finalizers) == 0 {
		t.Fatal("given free while a group is being made")
	}
	a.Resume()
	<-s.r.Work.Late()
	s.untilGone("pool")
	if !a.IsEmpty("sdb") || len(a.Groups()) != 0 {
		t.Error("the disk is not clean")
	}
}

func TestReconcile_failingStepIsShownAndRetried(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}, "n2": {"sdb"}})
	// Failures that nobody expected are shown at once, others when they last.
	s.agents["n2"].FailAt(1, errors.New("no space for metadata"))
	s.add("pool", nil, "n1", "n2")
	s.until("pool", all(hasPhase(v1alpha1.PhaseWarning), s.hasState("n2", "online", "no space for metadata"),
		hasCondition(ready, isFalse, v1alpha1.ReasonStepFailed, "n2")))
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
}

func TestReconcile_statusIsRebuiltFromTheDisks(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}, "n2": {"sdb"}})
	s.add("pool", nil, "n1", "n2")
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	before := s.recorded("pool", "n1")
	steps := s.agents["n1"].Steps()
	s.edit(func(c *v1alpha1.Cluster) { c.Spec.Hosts = []v1alpha1.HostName{"n1"} })
	c := s.get("pool")
	c.Status = v1alpha1.ClusterStatus{}
	if err := s.client.Status().Update(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	// The Members are lost too.
	for _, n := range []string{"n1", "n2"} {
		m := s.member("pool", n)
		m.Finalizers = nil
		if err := s.client.Update(context.Background(), m); err != nil {
			t.Fatal(err)
		}
		s.delete(m)
	}
	s.restartController()
	// The host that was taken out of the spec meanwhile is found by its tag, and torn down.
	s.until("pool", func(c *v1alpha1.Cluster) string {
		if len(s.disksOf("n2", string(c.UID))) != 0 {
			return "n2 still holds a group"
		}
		return hasPhase(v1alpha1.PhaseRunning)(c)
	})
	if s.agents["n1"].Steps() != steps || !slices.Equal(s.recorded("pool", "n1"), before) {
		t.Errorf("the disks of n1 were changed, or not found: %v", s.recorded("pool", "n1"))
	}
}

func TestReconcile_manualApprovalOfEverything(t *testing.T) {
	s := newSuite(t, map[string][]string{"n1": {"sdb"}})
	s.add("pool", func(spec *v1alpha1.ClusterSpec) { spec.Approval = v1alpha1.ApprovalManual }, "n1")
	c := s.until("pool", all(hasPhase(v1alpha1.PhaseCreating), hasCondition(ready, isFalse, v1alpha1.ReasonApprovalRequired)))
	if s.agents["n1"].Steps() != 0 {
		t.Fatal("a disk was changed before the approval")
	}
	s.approve(c.Status.Plan.Digest)
	s.until("pool", hasPhase(v1alpha1.PhaseRunning))
	s.deleteCluster("pool")
	c = s.until("pool", hasCondition(v1alpha1.ConditionPlanApproved, isFalse, v1alpha1.ReasonApprovalRequired))
	if !strings.Contains(c.Status.Message, "1 step waits for approval") {
		t.Errorf("message %q", c.Status.Message)
	}
	s.approve(c.Status.Plan.Digest)
	s.untilGone("pool")
}
