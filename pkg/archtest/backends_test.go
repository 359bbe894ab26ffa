package archtest

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// anyBackend stands for every backend in the lists of a rule.
const anyBackend = "<backend>"

// families are folders in which every backend has a room of its name. From there the tests know which backends exist: a backend that is
// added is bound by all rules without an edit.
var families = []string{"controller/internal/backend", "controller/internal/csi", "controller/internal/decide", "agent/internal/csi"}

// shared are the other rooms of the families that name backends. Rooms whose names end in "test" are for tests.
var shared = []string{"frame"}

// backends returns the names of the backends that the tree has, ordered.
func backends(packages []listed) []string {
	var names []string
	for _, p := range packages {
		for _, family := range families {
			if family == "controller/internal/decide" {
				continue // It has rooms of other topics too.
			}
			if name, ok := sibling(p.ImportPath, family); ok && !slices.Contains(shared, name) && !strings.HasSuffix(name, "test") {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// withBackends returns the rule with every backend in place of anyBackend. What a rule denies of backends it denies of the systems that have rooms in some families only (ahead), too.
func (r rule) withBackends(names []string) rule {
	r.of, r.except, r.deny, r.allow = expandAll(r.of, names), expandAll(r.except, names), expandAll(r.deny, systems(names)), expandAll(r.allow, names)
	return r
}

// systems returns the names of the backends, and of what is ahead.
func systems(names []string) []string {
	all := slices.Concat(names, ahead)
	slices.Sort(all)
	return slices.Compact(all)
}

// expandAll returns prefixes with each of the names in place of anyBackend.
func expandAll(prefixes, names []string) []string {
	var out []string
	for _, p := range prefixes {
		if !strings.Contains(p, anyBackend) {
			out = append(out, p)
			continue
		}
		for _, n := range names {
			out = append(out, strings.ReplaceAll(p, anyBackend, n))
		}
	}
	return out
}

// idle returns the entries of a rule, besides those that it binds, that stand for none of the import paths that there are: a room of another name is neither denied nor let through.
func (r rule) idle(names []string, known map[string]bool) []string {
	var out []string
	for _, entry := range slices.Concat(r.deny, r.allow) {
		if !anyWithin(known, expandAll([]string{entry}, systems(names))) {
			out = append(out, entry)
		}
	}
	for _, entry := range r.except {
		if !anyWithin(known, expandAll([]string{"~/" + entry}, names)) {
			out = append(out, entry)
		}
	}
	for _, entry := range r.denyDirect {
		if !known[entry] {
			out = append(out, entry)
		}
	}
	return out
}

// anyWithin reports whether one of the import paths is one of the prefixes, or below it.
func anyWithin(paths map[string]bool, prefixes []string) bool {
	for p := range paths {
		if withinAny(p, prefixes) {
			return true
		}
	}
	return false
}

// roomOf returns the backend that a package belongs to: the one whose name is an element of its path.
func roomOf(importPath string, names []string) (string, bool) {
	elements := strings.Split(relative(importPath), "/")
	i := slices.IndexFunc(names, func(n string) bool { return slices.Contains(elements, n) })
	if i < 0 || !bound(importPath, []string{"agent", "controller"}) {
		return "", false
	}
	return names[i], true
}

func TestBackendsHaveAllRooms(t *testing.T) {
	packages := load(t)
	names := backends(packages)
	if len(names) < 2 {
		t.Fatalf("the tree has the backends %v only: the rules keep nothing apart; see families", names)
	}
	for _, n := range names {
		for _, family := range families {
			room := path.Join(family, n)
			if !slices.ContainsFunc(packages, func(p listed) bool { return bound(p.ImportPath, []string{room}) }) {
				t.Errorf("backend %s has no room %s: give all of its rooms the same name; if %[1]s is no backend, add it to shared", n, room)
			}
		}
	}
}

func TestBackendsAreIndependent(t *testing.T) {
	packages := load(t)
	names := backends(packages)
	for _, p := range packages {
		own, ok := roomOf(p.ImportPath, names)
		if !ok {
			continue
		}
		for _, d := range p.Deps {
			if !strings.HasPrefix(d, module) {
				continue
			}
			if other, ok := roomOf(d, names); ok && other != own {
				t.Errorf("%s, a room of backend %s, reaches %s, a room of backend %s. Backends do not know each other: move what both need to a "+
					"package that carries no backend's name (decide/backend, decide/volume, decide/disk, csi/frame, pkg/...)",
					relative(p.ImportPath), own, relative(d), other)
			}
		}
	}
}

func TestBackends(t *testing.T) {
	var tree []listed
	for _, p := range []string{
		"controller/internal/backend/lvm", "controller/internal/backend/backendtest", "controller/internal/csi/frame/frametest",
		"controller/internal/csi/iscsi/target", "agent/internal/csi", "agent/internal/csi/csitest", "agent/internal/csi/nfs", "controller/internal/decide/disk",
	} {
		tree = append(tree, listed{ImportPath: module + p})
	}
	names := backends(tree)
	if !slices.Equal(names, []string{"iscsi", "lvm", "nfs"}) {
		t.Errorf("backends: %v", names)
	}
	got := rule{of: []string{"a/<backend>", "b"}, deny: []string{"~/c/<backend>"}}.withBackends(names)
	if !slices.Equal(got.of, []string{"a/iscsi", "a/lvm", "a/nfs", "b"}) || !slices.Contains(got.deny, "~/c/lvm") || !slices.Contains(got.deny, "~/c/gluster") {
		t.Errorf("%+v", got)
	}
	idle := rule{
		except: []string{"agent/internal/csi/csitest", "agent/internal/gone", "agent/internal/csi/<backend>"}, deny: []string{"~/controller/internal/decide/<backend>", "~/agent"},
		allow: []string{"~/controller/internal/decide", "k8s.io/gone"}, denyDirect: []string{"os/gone"},
	}.idle(names, reached(tree))
	if want := []string{"~/controller/internal/decide/<backend>", "k8s.io/gone", "agent/internal/gone", "os/gone"}; !slices.Equal(idle, want) {
		t.Errorf("idle: %v, want %v", idle, want)
	}
	for p, want := range map[string]string{
		"agent/internal/host/nfs/share": "nfs", "controller/internal/decide/lvm/place": "lvm", "controller/internal/decide/disk": "", "test/lab/internal/nfs": "",
	} {
		if got, _ := roomOf(module+p, names); got != want {
			t.Errorf("%s is a room of %q, want %q", p, got, want)
		}
	}
}
