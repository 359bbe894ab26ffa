package rollout

import (
	"math/rand/v2"
	"testing"
	"time"

	"quarry.storage/quarry/controller/internal/decide/gluster"
)

// tick is the time between two looks at the world.
const tick = 20 * time.Second

// world is a pool as it really is. Pods fail by themselves, come up late, and what was written while a copy was away takes time to heal. glusterd2 notices late that a server went.
type world struct {
	*Facts
	rand *rand.Rand
	// back is when a pod that is away is ready again, and next whether it is of the new template then.
	back map[string]time.Time
	next map[string]bool
	// gone is since when a server is away.
	gone map[string]time.Time
	// healed is when the volume will be whole; zero while it is.
	healed time.Time
	// replaced counts what was done, and failed what went by itself.
	replaced, failed int
}

func newWorld(seed uint64) *world {
	w := &world{Facts: scene(), rand: rand.New(rand.NewPCG(seed, 3)), back: map[string]time.Time{}, next: map[string]bool{}, gone: map[string]time.Time{}} //nolint:gosec // No secret.
	for i := range w.Pods {
		w.Pods[i].Current = gluster.No
	}
	return w
}

// away has a pod end, for a while.
func (w *world) away(name string, renewed bool) {
	p := w.pod(name)
	p.Ready, p.Ended = time.Time{}, w.Now
	w.back[name], w.next[name] = w.Now.Add(time.Duration(1+w.rand.IntN(12))*tick), renewed
	if p.Node != "" {
		w.gone[p.Node] = w.Now
		w.healed = w.Now.Add(time.Hour)
	}
}

// pass lets time pass.
func (w *world) pass() {
	w.Now = w.Now.Add(tick)
	for name, at := range w.back {
		if at.After(w.Now) {
			continue
		}
		p := w.pod(name)
		delete(w.back, name)
		delete(w.gone, p.Node)
		p.Ended, p.Made, p.Ready = time.Time{}, w.Now, w.Now
		if w.next[name] {
			p.Current = gluster.Yes
		}
		if p.Node != "" {
			w.healed = w.Now.Add(time.Duration(w.rand.IntN(20)) * tick)
		}
	}
	if w.rand.IntN(60) == 0 {
		if p := w.Pods[w.rand.IntN(len(w.Pods))]; !p.Ready.IsZero() {
			w.failed++
			w.away(p.Name, false)
		}
	}
}

// look is what one pass sees.
func (w *world) look() Facts {
	f := *w.Facts
	sub := *w.sub()
	sub.Bricks = append([]gluster.Brick{}, sub.Bricks...)
	peers := append([]gluster.Peer{}, *w.Pool.Peers...)
	for i, n := range w.Nodes {
		since, away := w.gone[n.Name]
		peers[i].Online = !away || w.Now.Sub(since) < 30*time.Second
		sub.Bricks[i].Online = gluster.Of(!away)
	}
	v := *w.volume()
	v.Subvolumes, v.Heal = []gluster.Subvolume{sub}, &gluster.Heal{}
	if w.Now.Before(w.healed) {
		v.Heal.Pending = 1
	}
	if w.rand.IntN(20) == 0 {
		v.Heal = nil
	}
	f.Pool.Peers, f.Pool.Volumes = &peers, &[]gluster.Volume{v}
	if w.rand.IntN(20) == 0 {
		f.Pool.Volumes = nil
	}
	return f
}

// whole wants everything to be there before a pod is replaced.
func (w *world) whole(t *testing.T, name string) {
	t.Helper()
	for _, p := range w.Pods {
		if p.Ready.IsZero() {
			t.Fatalf("%s is replaced while %s is away", name, p.Name)
		}
	}
	if w.Now.Before(w.healed) {
		t.Fatalf("%s is replaced while files are to be healed", name)
	}
}

// TestDecide_simulated replaces all pods of pools whose pods fail by themselves: never one while anything is away or is to be healed, and in the end all are current.
func TestDecide_simulated(t *testing.T) {
	replaced, failed := 0, 0
	for seed := range uint64(100) {
		w := newWorld(seed)
		done := false
		for i := 0; i < 20000 && !done; i++ {
			d := Decide(w.look())
			if d.Pod != "" {
				w.whole(t, d.Pod)
				w.replaced++
				w.away(d.Pod, true)
			}
			done = d.Condition.Status == "True"
			w.pass()
		}
		if !done {
			t.Errorf("seed %d: %s", seed, Decide(w.look()).Condition.Message)
		}
		replaced, failed = replaced+w.replaced, failed+w.failed
	}
	t.Logf("%d pods replaced, %d failed by themselves", replaced, failed)
	if replaced != 600 || failed < 100 {
		t.Error("the simulation shows little, or a pod was replaced twice")
	}
}
