package storage

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

var errAway = errors.New("connection refused")

// flaky is what goes wrong at the n-th write, or at every other one when there is no such.
type flaky struct {
	writes, at int
	err        error
}

func (f *flaky) write(_, _ string, do func() error) error {
	f.writes++
	if f.writes != f.at && (f.at != 0 || f.writes%2 == 0) {
		return do()
	}
	return f.err
}

// sweep lets every write fail once, over many lives. A write is known by its verb, by its object, and by how often that was written before in the
// same life.
type sweep struct {
	// after is true when the write reaches the server and only its answer is lost.
	after bool

	mu     sync.Mutex
	failed map[string]bool
	// pool is the Cluster of this life.
	pool   string
	counts map[string]int
	// since is how many writes there were since the last that failed, and failures is how many failed in this life.
	since, failures int
}

// spacing is how many writes there are from one that fails to the next, at least: a controller gets on in between.
const spacing = 5

func (f *sweep) begin(pool string) {
	f.pool, f.counts, f.since, f.failures = pool, map[string]int{}, spacing, 0
}

func (f *sweep) write(verb, name string, do func() error) error {
	if !f.fails(verb + " " + strings.Replace(name, f.pool, "pool", 1)) {
		return do()
	}
	if f.after {
		_ = do()
	}
	return errAway
}

func (f *sweep) fails(what string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[what]++
	f.since++
	key := fmt.Sprintf("%s, time %d", what, f.counts[what])
	if f.failed[key] || f.since < spacing {
		return false
	}
	f.failed[key], f.since = true, 0
	f.failures++
	return true
}

// TestFault_apiServerFailsAtEveryWrite lets every write of a Cluster's life fail once, before and after it takes effect, and with a new controller for
// each life. The end is always the same.
func TestFault_apiServerFailsAtEveryWrite(t *testing.T) {
	for name, after := range map[string]bool{"away": false, "answer lost": true} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t, "n1", "n2", "n3")
			s.lvm.Before(s.announcedAnywhere)
			f := &sweep{after: after, failed: map[string]bool{}}
			for n := 1; ; n++ {
				f.begin(fmt.Sprintf("pool%d", n))
				s.cached = between(s.client, f.write)
				s.restartController()
				s.life(f.pool)
				if t.Failed() {
					t.Fatalf("in life %d, where %d writes failed", n, f.failures)
				}
				if f.failures == 0 {
					t.Logf("%d writes failed in %d lives", len(f.failed), n)
					break
				}
			}
			if len(f.failed) < 20 {
				t.Errorf("only %d writes", len(f.failed))
			}
		})
	}
}

// TestFault_everyOtherWriteIsAConflict is a life in which somebody else writes all the time.
func TestFault_everyOtherWriteIsAConflict(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	s.lvm.Before(s.announcedAnywhere)
	s.cached = between(s.client, (&flaky{err: conflict()}).write)
	s.restartController()
	s.life("pool")
}

// life creates a Cluster whose disks have to be wiped, sees it run, lets a host leave, and deletes it.
func (s *suite) life(name string) {
	s.t.Helper()
	s.driver.install(true)
	s.lvm.Dirty("n2", "sdb")
	s.create(newCluster(name, "n1", "n2", "n3"))
	approved := false
	s.patiently(name, func(c *v1alpha1.Cluster) string {
		if p := c.Status.Plan; p != nil && !p.Approved && !approved {
			approved = true
			s.edit(name, func(c *v1alpha1.Cluster) { annotate(c, p.Digest, v1alpha1.AnnotationApprove) })
		}
		for _, n := range []string{"n1", "n2", "n3"} {
			if !s.joined(c, n) {
				return n + " is no member yet: " + c.Status.Message
			}
		}
		return hasPhase(v1alpha1.PhaseRunning)(c)
	})
	s.patiently(name, func(c *v1alpha1.Cluster) string {
		if len(c.Annotations)+len(s.mustMember(name, "n2").Annotations) != 0 {
			return fmt.Sprintf("annotations: %v, %v", c.Annotations, s.mustMember(name, "n2").Annotations)
		}
		return ""
	})
	s.notTold("fits no plan")
	s.list(name, "n1", "n2")
	s.patiently(name, func(*v1alpha1.Cluster) string {
		if m := s.member(name, "n3"); m == nil || stays(m) == "" {
			return "n3 does not leave"
		}
		return ""
	})
	s.pass(2 * delay)
	s.patiently(name, func(*v1alpha1.Cluster) string {
		if !s.gone(name, "n3") {
			return "n3 is not gone"
		}
		return ""
	})
	s.driver.install(false)
	s.delete(s.get(name))
	s.patiently(name, func(c *v1alpha1.Cluster) string {
		if c != nil {
			return "still there: " + c.Status.Message
		}
		return ""
	})
	if !s.gone(name, "n1") || !s.gone(name, "n2") || s.class(name) != nil {
		s.t.Errorf("%s: something is left", name)
	}
}

// joined reports whether a host is a member of a Cluster, with everything that belongs to it.
func (s *suite) joined(c *v1alpha1.Cluster, node string) bool {
	s.t.Helper()
	g, m := s.lvm.Group(c.UID, node), s.member(c.Name, node)
	return g != nil && m != nil && m.Spec.Group != nil && m.Spec.Group.UUID == g.UUID && s.node(node).Labels[v1alpha1.LabelStorageType] == "lvm"
}

// gone reports whether nothing is left on a host, and of its Member.
func (s *suite) gone(name, node string) bool {
	s.t.Helper()
	return s.lvm.Empty(node) && s.node(node).Labels[v1alpha1.LabelStorageType] == "" && s.member(name, node) == nil
}

// patiently reconciles, errors allowed, until the check is content. It gets nil once the Cluster is gone.
func (s *suite) patiently(name string, check func(c *v1alpha1.Cluster) string) {
	s.t.Helper()
	s.await(name, func() string {
		_, err := s.reconcile(name)
		c := &v1alpha1.Cluster{}
		c.Name = name
		if !s.fetch(c) {
			c = nil
		}
		complaint := check(c)
		if complaint != "" && err != nil {
			complaint += ": " + err.Error()
		}
		return complaint
	})
}

func TestFault_conflictIsNoError(t *testing.T) {
	s := newSuite(t, "n1")
	s.create(newCluster("pool", "n1"))
	for n := 1; n <= 4; n++ {
		f := &flaky{at: n, err: apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("clusters").GroupResource(), "pool", errAway)}
		s.cached = between(s.client, f.write)
		s.restartController()
		if r, err := s.reconcile("pool"); err != nil || r.RequeueAfter == 0 && f.writes >= n {
			t.Errorf("write %d: %+v, %v", n, r, err)
		}
	}
}

// While the world cannot be observed nothing is done, and the statuses say nothing new.
func TestFault_blindEngineDoesNothing(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.cluster("pool", "n1", "n2")
	s.list("pool", "n1")
	s.settle("pool")
	before := s.versions()
	s.pass(2 * delay)
	s.lvm.FailLooks(errAway)
	if _, err := s.reconcile("pool"); !errors.Is(err, errAway) {
		t.Errorf("%v", err)
	}
	if after := s.versions(); after != before {
		t.Errorf("%s, then %s", before, after)
	}
	s.lvm.FailLooks(nil)
	s.untilNoMember("n2")
}

// What cannot be read is not absent.
func TestFault_everyReadFails(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	c := s.cluster("pool", "n1", "n2")
	s.addVolume(c, "n2", "v1")
	s.list("pool", "n1")
	s.settle("pool")
	s.pass(2 * delay)
	s.settle("pool")
	before := s.versions()
	for n := 1; ; n++ {
		reads, records := 0, false
		s.cached = failReadsOf(s.client, func(o runtime.Object) error {
			if reads++; reads != n {
				return nil
			}
			_, list := o.(*v1alpha1.GlusterNodeList)
			m, metadata := o.(*metav1.PartialObjectMetadata)
			records = list || metadata && m.Kind == "CustomResourceDefinition"
			return errAway
		})
		s.live = s.cached
		started := s.clusters.started
		s.restartController()
		s.clusters.started = started
		_, err := s.reconcile("pool")
		if reads < n {
			if err != nil || n < 8 {
				t.Errorf("%d reads, %v", reads, err)
			}
			break
		}
		// Whose devices are on record keeps only the taking of devices waiting.
		if records != (err == nil) || !records && !errors.Is(err, errAway) {
			t.Errorf("read %d failed, of records %t, and the error is %v", n, records, err)
		}
		if after := s.versions(); after != before {
			t.Errorf("read %d failed: %s, then %s", n, before, after)
		}
	}
	if s.lvm.Steps("n2") != 1 {
		t.Errorf("steps %v", s.lvm.Log())
	}
}
