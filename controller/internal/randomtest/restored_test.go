package randomtest

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// backup is what the API server had at a moment, and what the sidecars knew then.
type backup struct {
	state     state
	claims    []claim
	snapshots []snapshot
	lost      map[string]bool
}

// backUp makes a backup.
func (w *world) backUp(*rand.Rand) {
	b := &backup{state: w.api.now(), lost: maps.Clone(w.lost)}
	for _, c := range w.claims {
		b.claims = append(b.claims, *c)
	}
	for _, s := range w.snapshots {
		b.snapshots = append(b.snapshots, *s)
	}
	w.saved = b
}

// restore puts the API server back to the backup, and starts everything anew that talks to it. What is on disks stays as it is.
func (w *world) restore(*rand.Rand) {
	b := w.saved
	if b == nil {
		return
	}
	w.saved, w.restored = nil, w.restored+1
	w.ctl.stop()
	w.api.mu.Lock()
	w.api.state = maps.Clone(b.state)
	w.api.version += 100000
	w.api.mu.Unlock()
	w.lost, w.out = b.lost, map[spot]bool{}
	w.comeBackAs()
	w.reclaim(b)
	w.resnap(b)
	w.ctl = w.start()
}

// comeBackAs has each node run what the API server says.
func (w *world) comeBackAs() {
	var pods corev1.PodList
	must(w.t, w.api.List(w.t.Context(), &pods, client.InNamespace(namespace)))
	var nodes corev1.NodeList
	must(w.t, w.api.List(w.t.Context(), &nodes))
	for _, h := range w.hosts {
		h.node = slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return n.Name == h.name })
		h.pod = slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.Spec.NodeName == h.name })
		if !h.node || !h.pod {
			h.Kill()
		}
	}
}

// reclaim gives the claims their volumes that were there at the time of the backup.
func (w *world) reclaim(b *backup) {
	open := map[string]bool{}
	for _, c := range w.claims {
		open[c.name] = c.open
	}
	for _, v := range w.ledger {
		// Nobody knows of those that were made since: they stay.
		v.claim = &claim{name: v.claim.name, open: v.claim.open}
		// A call that was cut off may still remove one whose removal was asked for.
		v.forgotten = true
	}
	w.claims = nil
	for _, was := range b.claims {
		c := &was
		w.claims = append(w.claims, c)
		c.open = open[c.name]
		if c.handle == "" {
			c.uncertain = true
			continue
		}
		host, _, _ := strings.Cut(c.handle, "/")
		have, ok := w.record(host, c.handle)
		if !ok {
			// It was deleted since.
			c.open, c.gone = false, true
			w.gone++
			continue
		}
		v := w.ledger[c.handle]
		if v == nil {
			v = &volume{host: host, as: have}
			w.ledger[c.handle] = v
		}
		v.claim, v.forgotten = c, false
	}
	for _, handle := range sorted(w.ledger) {
		v := w.ledger[handle]
		if v.forgotten {
			w.forgotten++
			w.orphans = append(w.orphans, handle[strings.LastIndex(handle, "/")+1:])
			if v.claim.open {
				w.hostOf(v.host).CloseVolume(v.as.Group, v.as.Name)
				v.claim.open = false
			}
		}
	}
}

func (w *world) resnap(b *backup) {
	released := map[string]bool{}
	for _, s := range w.snapshots {
		w.orphans, released[s.handle] = append(w.orphans, s.as.Name), s.released
	}
	w.snapshots = nil
	for _, was := range b.snapshots {
		s := &was
		if s.handle != "" {
			have, ok := w.record(s.host, s.handle)
			if !ok {
				continue
			}
			s.as, s.released = have, released[s.handle]
		}
		s.uncertain = s.handle == ""
		w.snapshots = append(w.snapshots, s)
	}
}

// TestRestored: the API server comes back as it was in a backup, while volumes were made and deleted since. No volume is lost that a pod used.
func TestRestored(t *testing.T) {
	asked(t)
	worlds(t, slices.Concat(kinds, restores))
}

// TestRestored_fixed plays a world that shows much within seconds.
func TestRestored_fixed(t *testing.T) {
	var w *world
	events := generate(7, 80, "cluster made", "claim", "claim deleted", "pod starts", "backup", "restore", "time passes", "agent dies", "agent starts")
	if played, found := play(t, events, func(is *world) { w = is }); found != nil {
		t.Errorf("event %d of %d: %v\nevents:\n%s", played, len(events), found, list(events[:played]))
	}
	if w.gone == 0 || w.forgotten == 0 {
		t.Errorf("%d volumes came back that were deleted, and %d were forgotten that were made", w.gone, w.forgotten)
	}
}

// goneIsTold: neither a Member nor a Cluster is ready of which a bound volume is gone.
func (w *world) goneIsTold() {
	for _, c := range w.claims {
		if !c.gone || c.deleting {
			continue
		}
		pv := &corev1.PersistentVolume{}
		if err := w.api.Get(w.t.Context(), client.ObjectKey{Name: "pvc-" + c.name}, pv); err != nil || pv.Status.Phase != corev1.VolumeBound ||
			time.Since(pv.CreationTimestamp.Time) < calm+time.Minute {
			// A report may come a minute after a volume was made.
			continue
		}
		host, _, _ := strings.Cut(c.handle, "/")
		owner := pv.Spec.CSI.VolumeAttributes[v1alpha1.ParameterCluster]
		for _, m := range w.members() {
			if string(m.Spec.Node) == host && string(m.Spec.Of.UID) == owner && meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionReady) {
				w.fail("a volume that is gone is told", "%s is gone, and Member %s is ready: %s", c.handle, m.Name, m.Status.Message)
			}
		}
		for _, k := range w.clusters() {
			if string(k.UID) == owner && meta.IsStatusConditionTrue(k.Status.Conditions, v1alpha1.ConditionReady) && !slices.Contains(k.Spec.Maintenance, v1alpha1.HostName(host)) {
				w.fail("a volume that is gone is told", "%s is gone, and Cluster %s is ready: %s", c.handle, k.Name, k.Status.Message)
			}
		}
	}
}
