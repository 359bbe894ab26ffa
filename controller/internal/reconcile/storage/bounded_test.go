package storage

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/backend/backendtest"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestStatus_isBounded has 200 hosts, far more than a status has room for, that all have a long story to tell, and everything else that makes a status grow.
func TestStatus_isBounded(t *testing.T) {
	s := newSuite(t)
	const hosts = 200
	long := strings.Repeat(`the disk "wwn-0x500" says <broken> & more; `, 100)
	c := manual()
	names := make([]string, 0, hosts)
	for i := range hosts {
		names = append(names, fmt.Sprintf("host-%03d.rack-%s.example.com", i, strings.Repeat("x", 30)))
	}
	s.addHosts(names...)
	c.Spec.Hosts = hostNames(names...)
	for i := range 200 {
		c.Spec.Maintenance = append(c.Spec.Maintenance, v1alpha1.HostName(fmt.Sprintf("unknown-%s-%d", strings.Repeat("y", 200), i)))
		c.Spec.Hosts = append(c.Spec.Hosts, v1alpha1.HostName(fmt.Sprintf("nowhere-%s-%d", strings.Repeat("z", 200), i)))
	}
	s.create(c)
	for i, n := range names {
		if i%2 == 0 {
			s.lvm.Problem(n, backend.Finding{Kind: backend.Bad, Reason: v1alpha1.ReasonPartial, Message: long})
		}
		s.lvm.Dirty(n, strings.Repeat("d", 300))
	}
	c = s.until("pool", func(c *v1alpha1.Cluster) string {
		if c.Status.Plan == nil || c.Status.Plan.Count != 2*hosts {
			return fmt.Sprintf("plan %+v", c.Status.Plan)
		}
		return ""
	})
	for i := range 64 {
		c.Status.LostGroups = append(c.Status.LostGroups, fmt.Sprintf("AAAAAA-BBBB-CCCC-DDDD-EEEE-FFFF-%06d", i))
	}
	if err := s.client.Status().Update(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	s.once("pool")
	c = s.get("pool")
	if n := sizeOf(t, c.Status); n >= 32<<10 {
		t.Errorf("the status of the Cluster has %d bytes", n)
	}
	if len(c.Status.Problems) != v1alpha1.MaxProblems || c.Status.HostCount != hosts {
		t.Errorf("%d problems, %d hosts", len(c.Status.Problems), c.Status.HostCount)
	}
	if lines := strings.Count(c.Status.Message, "\n"); lines > 12 {
		t.Errorf("the message has %d lines", lines)
	}
	m := s.mustMember("pool", names[0])
	if n := sizeOf(t, m.Status); n >= 16<<10 || !strings.Contains(m.Status.Message, "broken") {
		t.Errorf("the status of a Member has %d bytes: %s", n, m.Status.Message)
	}
}

// TestStatus_ofAMemberIsBounded is one Member with many volumes that hold it, a long story, and a failure.
func TestStatus_ofAMemberIsBounded(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	c := s.cluster("pool", "n1", "n2")
	for i := range 30 {
		pv := volume("pool", v1alpha1.DriverLVM, "n2", fmt.Sprintf("pv-%s-%d", strings.Repeat("p", 200), i))
		pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: strings.Repeat("n", 60), Name: strings.Repeat("c", 250)}
		s.create(pv)
		s.lvm.AddVolume(c.UID, "n2", strings.Repeat("v", 200)+fmt.Sprint(i), 1<<30)
	}
	s.lvm.Problem("n2", backend.Finding{Kind: backend.Bad, Reason: v1alpha1.ReasonPartial, Message: strings.Repeat("a long story ", 1000)})
	s.list("pool", "n1")
	s.settle("pool")
	s.pass(delay)
	m := s.settleMember("n2")
	if n := sizeOf(t, m.Status); n >= 16<<10 || len(m.Status.Holding) != 10 || stays(m) == "" {
		t.Errorf("leaving: %d bytes, %d holding", n, len(m.Status.Holding))
	}
	s.delete(m)
	m = s.settleMember("n2")
	if n := sizeOf(t, m.Status); n >= 16<<10 || m.Status.State != "failed" {
		t.Errorf("failed: %d bytes, %s", n, m.Status.State)
	}
}

func (s *suite) settleMember(node string) *v1alpha1.Member {
	s.t.Helper()
	s.settle("pool")
	return s.mustMember("pool", node)
}

// versions returns the resourceVersions of everything that the engine writes for the Cluster pool.
func (s *suite) versions() string {
	s.t.Helper()
	var out []string
	for _, o := range []client.Object{s.get("pool"), s.class("pool")} {
		out = append(out, o.GetName()+" "+o.GetResourceVersion())
	}
	var members v1alpha1.MemberList
	if err := s.client.List(context.Background(), &members); err != nil {
		s.t.Fatal(err)
	}
	for _, m := range members.Items {
		out = append(out, m.Name+" "+m.ResourceVersion)
	}
	return strings.Join(out, ", ")
}

func TestStatus_nothingIsWrittenWhenNothingChanges(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	c := s.cluster("pool", "n1", "n2", "n3")
	s.addVolume(c, "n3", "v1")
	s.list("pool", "n1", "n2")
	s.settle("pool")
	writes := 0
	s.cached = between(s.client, func(verb, name string, do func() error) error {
		writes++
		t.Logf("%s %s", verb, name)
		return do()
	})
	s.work.Close()
	s.restartController()
	before := s.versions()
	for range 7 {
		s.pass(time.Minute)
		s.once("pool")
	}
	// Once: the delay of n3 is over, and it waits for its volume from now on.
	if after := s.versions(); writes > 2 {
		t.Errorf("%d writes: %s, then %s", writes, before, after)
	}
	writes = 0
	before = s.versions()
	for range 5 {
		s.pass(time.Minute)
		s.once("pool")
	}
	if after := s.versions(); after != before || writes != 0 {
		t.Errorf("%d writes: %s, then %s", writes, before, after)
	}
	s.drain()
	s.once("pool")
	if got := s.drain(); len(got) != 0 {
		t.Errorf("events: %q", got)
	}
}

func TestStatus_capacityIsWrittenEvery15Seconds(t *testing.T) {
	s := newSuite(t, "n1")
	c := s.cluster("pool", "n1")
	free := func() (int64, int64) {
		return s.mustMember("pool", "n1").Status.Capacity.Free.Value(), s.get("pool").Status.Capacity.Total.Free.Value()
	}
	s.pass(time.Minute)
	s.settle("pool")
	s.lvm.AddVolume(c.UID, "n1", "a", 10<<30)
	s.settle("pool")
	if m, total := free(); m != 90<<30 || total != 90<<30 {
		t.Fatalf("the first change is not written: %d, %d", m, total)
	}
	before := s.versions()
	s.lvm.AddVolume(c.UID, "n1", "b", 10<<30)
	s.pass(5 * time.Second)
	if r := s.once("pool"); r.RequeueAfter > 10*time.Second {
		t.Errorf("nobody looks when it is time: %s", r.RequeueAfter)
	}
	if after := s.versions(); after != before {
		t.Errorf("capacity was written after 5 s: %s, then %s", before, after)
	}
	// What a person waits for does not wait, and takes the rest along.
	s.editMember("n1", func(m *v1alpha1.Member) { m.Spec.Maintenance = true })
	s.once("pool")
	if m := s.mustMember("pool", "n1"); m.Status.State != "quiesced" || m.Status.Volumes != 2 {
		t.Errorf("status %+v", m.Status)
	}
	s.lvm.RemoveVolume(c.UID, "n1", "b", 10<<30)
	s.pass(16 * time.Second)
	s.once("pool")
	if m, total := free(); m != 90<<30 || total != 90<<30 || s.mustMember("pool", "n1").Status.Volumes != 1 {
		t.Errorf("after 16 s: %d, %d", m, total)
	}
}

func TestStatus_freeIsRoundedDown(t *testing.T) {
	s := newSuite(t, "n1")
	c := s.cluster("pool", "n1")
	s.lvm.AddVolume(c.UID, "n1", "a", 1<<30+1)
	s.pass(time.Minute)
	s.once("pool")
	got := s.mustMember("pool", "n1").Status.Capacity
	if got.Total.Value() != 100<<30 || got.Free.Value() != 98<<30 {
		t.Errorf("total %d, free %d", got.Total.Value(), got.Free.Value())
	}
}

// While a host does not report, what it reported last stands.
func TestStatus_ofASilentHostIsKept(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.cluster("pool", "n1", "n2")
	before := s.mustMember("pool", "n2").Status
	s.lvm.Answer("n2", backendtest.Silent)
	m := s.untilMember("n2", inState("offline", "does not answer"))
	if m.Status.Capacity.Total.Cmp(*before.Capacity.Total) != 0 || len(m.Status.Devices) != 1 || !m.Status.Flags.HasData {
		t.Errorf("status %+v", m.Status)
	}
	c := s.until("pool", hasPhase(v1alpha1.PhaseWarning))
	if c.Status.Capacity.Total.Total.Value() != 100<<30 {
		t.Errorf("capacity %v", c.Status.Capacity.Total.Total)
	}
	// After a restart nobody knows yet: nothing is told that may turn out to be wrong.
	s.lvm.Answer("n2", backendtest.Early)
	s.restartController()
	s.drain()
	s.settle("pool")
	if complaint := inState("offline")(s.mustMember("pool", "n2")); complaint != "" {
		t.Error(complaint)
	}
	s.notTold("n2 went")
}
