package randomtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// mutant is a product with a mistake: what is not nil is done instead.
type mutant struct {
	nodes
	w      *world
	node   func(decide.Node) decide.Node
	ensure func(w *world, node, group string)
	remove func() error
	delete func(w *world, next nodes, node string, v decide.VolumeSpec) error
}

// Node tells of a node.
func (m mutant) Node(name string) decide.Node {
	n := m.nodes.Node(name)
	if m.node != nil {
		n = m.node(n)
	}
	return n
}

// EnsureVolumeGroup makes a group.
func (m mutant) EnsureVolumeGroup(ctx context.Context, node string, group decide.GroupRef, devices []decide.Device) error {
	if m.ensure != nil {
		m.ensure(m.w, node, group.Name)
	}
	return m.nodes.EnsureVolumeGroup(ctx, node, group, devices)
}

// RemoveVolumeGroup removes a group.
func (m mutant) RemoveVolumeGroup(ctx context.Context, node string, group decide.GroupRef, devices []decide.Device) error {
	if m.remove != nil {
		return m.remove()
	}
	return m.nodes.RemoveVolumeGroup(ctx, node, group, devices)
}

// DeleteVolume removes a volume.
func (m mutant) DeleteVolume(ctx context.Context, node string, v decide.VolumeSpec) error {
	if m.delete != nil {
		return m.delete(m.w, m.nodes, node, v)
	}
	return m.nodes.DeleteVolume(ctx, node, v)
}

// with lets the controller work through a mutant.
func with(m mutant) func(*world) {
	return func(w *world) {
		w.wrap = func(n nodes) nodes {
			m := m
			m.nodes, m.w = n, w
			return m
		}
	}
}

// mutants are mistakes, each of which one check finds while things happen that it matters for.
var mutants = map[string]struct {
	check  string
	events []string
	mutate func(*world)
}{
	"a group is made anew in silence": {"volumes are kept", []string{"disk added"}, with(mutant{ensure: func(w *world, node, group string) {
		w.hostOf(node).DropGroup(group)
	}})},
	"a neighbour is removed too": {"volumes are kept", []string{"claim deleted"}, with(mutant{delete: neighbour})},
	"foreign disks are cleaned": {"foreign disks are unchanged", []string{"foreign data", "disk added"}, with(mutant{
		ensure: func(w *world, node, _ string) {
			for s := range w.foreign {
				if s.host == node {
					w.hostOf(node).Clear(s.disk)
				}
			}
		},
	})},
	"a disk that was given up is taken": {"retired disks stay out", []string{"disk retired", "disk added", "claim deleted"}, with(mutant{ensure: takeRetired})},
	"snapshots go with their volume":    {"volumes are kept", []string{"snapshot", "claim deleted"}, with(mutant{delete: snapshots})},
	"a silent node counts as up": {"ready means that volumes are there", []string{"agent dies"}, with(mutant{
		node: func(n decide.Node) decide.Node {
			n.Agent = decide.AgentUp
			return n
		},
	})},
	"a group that lacks a disk counts as whole": {"ready follows the report", []string{"disk vanishes"}, with(mutant{
		node: ofGroups(func(g *decide.Group) { g.Partial = false }),
	})},
	"a volume is not removed": {"deleted volumes are gone", []string{"claim deleted"}, with(mutant{
		delete: func(*world, nodes, string, decide.VolumeSpec) error { return nil },
	})},
	"nothing can be removed": {"claims are served", []string{"claim deleted"}, with(mutant{
		delete: func(*world, nodes, string, decide.VolumeSpec) error { return errors.New("no") },
	})},
	"nobody sweeps": {"strays go", []string{"claim", "agent dies after a step", "claim sent elsewhere", "agent starts"}, func(w *world) {
		w.careless = true
	}},
	"a group is not removed": {"what is deleted goes", []string{"cluster deleted", "claim deleted"}, with(mutant{
		remove: func() error { return errors.New("no") },
	})},
	"finalizers hold nothing": {"what holds volumes stays", []string{"cluster deleted"}, func(w *world) { w.api.careless = true }},
	"no Member is ever ready": {"members with volumes are ready", nil, func(w *world) {
		w.api.spoil = func(o client.Object) {
			if m, ok := o.(*v1alpha1.Member); ok {
				for i := range m.Status.Conditions {
					m.Status.Conditions[i].Status = "False"
				}
			}
		}
	}},
	"what was deleted is still reported": {"a volume that is gone is told", []string{"backup", "claim deleted", "restore"}, with(mutant{node: remembering()})},
	"what is shown flaps":                {"nothing is written while nothing changes", nil, with(mutant{node: ofGroups(flap)})},
}

// takeRetired takes a disk that somebody gave up.
func takeRetired(w *world, node, _ string) {
	h := w.hostOf(node)
	for s := range w.out {
		for _, d := range h.Disks() {
			if s.host == node && h.Path(d) == s.disk && !h.Member(d) {
				h.AddGroup("taken-"+d, "nobody", d)
			}
		}
	}
}

// snapshots removes those of a volume too.
func snapshots(w *world, next nodes, node string, v decide.VolumeSpec) error {
	for _, s := range w.snapshots {
		if s.host == node && strings.HasSuffix(s.source, "/"+v.Name) {
			w.hostOf(node).RemoveVolume(s.as.Group, s.as.Name)
		}
	}
	return next.DeleteVolume(context.Background(), node, v)
}

func neighbour(w *world, next nodes, node string, v decide.VolumeSpec) error {
	for _, other := range w.hostOf(node).Volumes(v.Group) {
		if other.Name != v.Name {
			w.hostOf(node).RemoveVolume(v.Group, other.Name)
		}
	}
	return next.DeleteVolume(context.Background(), node, v)
}

// ofGroups changes what is told of the groups of a node.
func ofGroups(how func(*decide.Group)) func(decide.Node) decide.Node {
	return func(n decide.Node) decide.Node {
		n.Groups = slices.Clone(n.Groups)
		for i := range n.Groups {
			how(&n.Groups[i])
		}
		return n
	}
}

// remembering tells of each volume that was ever in a group.
func remembering() func(decide.Node) decide.Node {
	var mu sync.Mutex
	ever := map[string][]string{}
	return ofGroups(func(g *decide.Group) {
		mu.Lock()
		defer mu.Unlock()
		all := slices.Concat(ever[g.UUID], g.Volumes)
		slices.Sort(all)
		ever[g.UUID] = slices.Compact(all)
		g.Volumes = slices.Clone(ever[g.UUID])
	})
}

// flap tells of less room in every second minute.
func flap(g *decide.Group) {
	if time.Now().Minute()%2 == 0 {
		g.FreeBytes /= 2
	}
}

// Each check has teeth: it finds a mistake that was made on purpose.
func TestMutants(t *testing.T) {
	asked(t)
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(12) {
				events := generate(seed+1, 60, append(m.events, "cluster made", "claim", "time passes")...)
				if _, found := play(t, events, m.mutate); found != nil {
					if !of(found, m.check) {
						t.Errorf("another check found it: %v, want %s", found, m.check)
					}
					return
				}
			}
			t.Errorf("%s: not found", m.check)
		})
	}
}

// Without a mistake the same events find nothing.
func TestMutants_none(t *testing.T) {
	asked(t)
	for name, m := range mutants {
		events := generate(1, 60, append(m.events, "cluster made", "claim", "time passes")...)
		if _, found := play(t, events, nil); found != nil {
			t.Errorf("%s: %v", name, found)
		}
	}
}
