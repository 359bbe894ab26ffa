package iscsi

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/iscsi"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// watched is a site that is looked at again and again, whose agents fail some calls.
type watched struct {
	*site
	last    backend.View
	failing []string
	volumes []backend.Volume
}

func watch(t *testing.T, more ...string) *watched {
	w := &watched{site: newSite(t, append([]string{"n1"}, more...)...)}
	w.san.Strike = func(call, node string, _ bool) error {
		if slices.Contains(w.failing, call) {
			return &decide.Fault{Kind: decide.FaultBusy, Node: node, Call: call, Message: "another call is at work"}
		}
		return nil
	}
	return w
}

// after looks after a while, and returns the calls of that.
func (w *watched) after(d time.Duration) string {
	w.t.Helper()
	w.now = w.now.Add(d)
	i := &v1alpha1.Iscsi{}
	w.must(w.api.Get(w.t.Context(), types.NamespacedName{Name: "san"}, i))
	w.san.Calls()
	v, err := w.b.Observe(w.t.Context(), i, backend.World{
		Members: []*v1alpha1.Member{w.member("n1")}, Volumes: map[string][]backend.Volume{"": w.volumes}, Started: w.now.Add(-time.Hour),
	}, w.last)
	w.must(err)
	w.last = v
	return strings.Join(w.san.Calls(), ", ")
}

func (w *watched) wake() time.Duration { return w.last.Whole(nil).Wake }

// TestObserve_readsAgain: a reading of the LUN that failed is repeated soon, and less and less often while it fails; a good one stands.
func TestObserve_readsAgain(t *testing.T) {
	w := watch(t)
	w.failing = []string{"contents"}
	w.after(0)
	for _, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, iscsi.Every, iscsi.Every} {
		if got := w.wake(); got != pause {
			t.Errorf("the next look comes in %v, want %v", got, pause)
		}
		if calls := w.after(pause - 2*time.Millisecond); strings.Contains(calls, "contents") && pause < iscsi.Every {
			t.Errorf("before %v the LUN is read: %s", pause, calls)
		}
		if calls := w.after(2 * time.Millisecond); !strings.Contains(calls, "contents") {
			t.Errorf("after %v the LUN is not read: %s", pause, calls)
		}
	}
	w.failing = nil
	if calls := w.after(iscsi.Every); !strings.Contains(calls, "contents") || w.wake() != iscsi.Every {
		t.Errorf("once it can be read again: %s, then in %v", calls, w.wake())
	}
	if calls := w.after(iscsi.Every - time.Second); calls != "" {
		t.Errorf("a good reading does not stand: %s", calls)
	}
}

// TestObserve_asksAgain: a node that could not tell is asked again soon, and the LUN is read as soon as there is somebody to read it through.
func TestObserve_asksAgain(t *testing.T) {
	w := watch(t)
	w.failing = []string{"target"}
	decided := func() backend.Host {
		return w.last.Decide(backend.Member{Node: "n1", Object: w.member("n1")})
	}
	if calls := w.after(0); strings.Contains(calls, "contents") {
		t.Errorf("the LUN is read through a node that told nothing: %s", calls)
	}
	for _, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		if got := decided().Wake; got != pause {
			t.Errorf("the next look comes in %v, want %v", got, pause)
		}
		w.after(pause)
	}
	w.failing = nil
	if calls := w.after(time.Second); !strings.Contains(calls, "target") || !strings.Contains(calls, "contents") {
		t.Errorf("once it can tell: %s", calls)
	}
	if h := w.last.(*iscsi.View).Seen().Hosts["n1"]; h.Failures != 0 {
		t.Errorf("%d failures after a good answer", h.Failures)
	}
}

// TestObserve_loginCounts: a look that knows of a login what the Member did not say yet wants no other one.
func TestObserve_loginCounts(t *testing.T) {
	w := watch(t)
	w.after(0)
	old := w.member("n1")
	old.Annotations = nil
	h := w.last.Decide(backend.Member{Node: "n1", Object: old})
	for _, s := range h.Steps {
		if s.Action() == v1alpha1.ActionLogin {
			t.Errorf("it logs in twice: %+v", s)
		}
	}
	w.must(w.b.logout(t.Context(), w.step("n1", v1alpha1.ActionLogout)))
	if _, _, _ = w.b.memory.recall(uid, "n1", w.now); w.b.memory.host(uid, "n1").loginChap != "" {
		t.Error("a node that logged out counts as logged in")
	}
}

// TestObserve_readsWhenAVolumeGoes: a deletion that volumes hold is not looked at all the time. Once a PersistentVolume went its volume is off the LUN, which is read at once.
func TestObserve_readsWhenAVolumeGoes(t *testing.T) {
	for _, deleting := range []bool{false, true} {
		w := watch(t)
		edit(w.site, &v1alpha1.Iscsi{}, "san", func(i *v1alpha1.Iscsi) { i.Finalizers = []string{"test/it"} })
		if deleting {
			w.must(w.api.Delete(t.Context(), &v1alpha1.Iscsi{ObjectMeta: metav1.ObjectMeta{Name: "san"}}))
		}
		w.volumes = []backend.Volume{{Name: "pv"}}
		w.after(0)
		if calls := w.after(time.Second); calls != "" {
			t.Errorf("deleting %t, nothing happened: %s", deleting, calls)
		}
		w.volumes = nil
		if calls := w.after(time.Second); strings.Contains(calls, "contents") != deleting {
			t.Errorf("deleting %t, the volume went: %s", deleting, calls)
		}
		if calls := w.after(time.Second); calls != "" {
			t.Errorf("deleting %t, nothing happened since: %s", deleting, calls)
		}
	}
}

// TestForget: nothing is remembered of an Iscsi that is gone, and all of another one.
func TestForget(t *testing.T) {
	w := watch(t)
	w.after(0)
	w.b.memory.keyOf("another", "n1")
	w.b.memory.grant("another", 7)
	w.b.Forget(uid)
	m := &w.b.memory
	if len(m.luns) != 1 || m.luns["another"] == nil || len(m.hosts) != 1 || m.hosts[place{"another", "n1"}] == nil {
		t.Errorf("LUNs %v, hosts %v", m.luns, m.hosts)
	}
	if !slices.Equal(w.dropped, []string{uid}) {
		t.Errorf("the groups of %v were dropped", w.dropped)
	}
	// Where nothing is remembered nothing is known.
	if calls := w.after(0); !strings.Contains(calls, "contents n1") {
		t.Errorf("it was not asked again: %s", calls)
	}
}
