// Package backendtest is a backend over a small model of hosts that a test scripts: what is on a host, whether anything answers on it, and
// what goes wrong. It is strict: a host or a step that it does not know, and a step that must not run, fail the test. It is for tests only.
package backendtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Options of a Backend.
type Options struct {
	// Type is the label of nodes; empty for a backend that takes no part in sharing hosts out.
	Type v1alpha1.StorageType
	// Exclusive is true for a backend that never shares a host with another type.
	Exclusive bool
	// Driver is the name of the CSI driver.
	Driver string
	// NoMembers is true for a backend without members.
	NoMembers bool
	// MovesData is true for a backend that moves the data of a member away by itself.
	MovesData bool
	// Attach is true for a backend whose driver attaches volumes.
	Attach bool
}

// Backend is a backend over a model.
type Backend struct {
	t       testing.TB
	profile backend.Profile

	mu    sync.Mutex
	hosts map[string]*host
	// shares are what exists of a storage and belongs to no host, by the UID of the storage.
	shares map[types.UID]*share
	// made counts groups, so that each gets a UUID of its own.
	made int
	// looks counts observations; looking is the error that the next ones return.
	looks   int
	looking error
	// forgotten are the storages that were forgotten.
	forgotten []types.UID
	log       []string
	before    func(host string, s Step) error
	// obstinate is true for a backend that returns steps whatever the member is like.
	obstinate bool
}

// New returns a Backend without hosts.
func New(t testing.TB, o Options) *Backend {
	b := &Backend{
		t: t, hosts: map[string]*host{}, shares: map[types.UID]*share{},
		profile: backend.Profile{
			Type: o.Type, Exclusive: o.Exclusive, MovesData: o.MovesData,
			Driver: backend.Driver{Name: o.Driver, Deployment: "quarry-csi-test", Attach: o.Attach},
		},
	}
	if !o.NoMembers {
		b.profile.Driver.NodeOf = nodeOf
		b.profile.Effects = map[string]backend.Effect{v1alpha1.ActionWipeDevice: {Takes: true, Wipes: true}, v1alpha1.ActionEnsureVolumeGroup: {Takes: true}}
		b.profile.Members = &backend.Readiness{
			Condition: v1alpha1.ConditionDisksReady, Reason: v1alpha1.ReasonDisksReady, Message: "Every host holds its group.",
			None: "No host holds a group yet.",
		}
	}
	return b
}

// Handle returns a handle that names a node. Other handles name none.
func Handle(node, name string) string { return "at:" + node + "/" + name }

func nodeOf(handle string) string {
	rest, ok := strings.CutPrefix(handle, "at:")
	if !ok {
		return ""
	}
	node, _, _ := strings.Cut(rest, "/")
	return node
}

// Profile returns what the options say.
func (b *Backend) Profile() backend.Profile { return b.profile }

// Observe returns what the model holds for a storage.
func (b *Backend) Observe(ctx context.Context, s v1alpha1.Storage, w backend.World, last backend.View) (backend.View, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looks++
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if _, bounded := ctx.Deadline(); !bounded {
		b.t.Errorf("an observation of %s has no deadline", s.GetName())
	}
	if b.looking != nil {
		return nil, b.looking
	}
	v := &View{
		owner: backend.OwnerOf(s), world: w, common: s.Common(), hosts: map[string]host{}, moves: b.profile.MovesData,
		members: b.profile.Members != nil, obstinate: b.obstinate, lost: slices.Clone(s.StorageStatus().LostGroups),
	}
	for name, h := range b.hosts {
		v.hosts[name] = h.of(v.owner.UID)
	}
	if sh := b.shares[v.owner.UID]; sh != nil {
		v.share = sh.copy()
	}
	if last != nil {
		old, ok := last.(*View)
		if !ok || old.owner.UID != v.owner.UID {
			b.t.Errorf("the last view of %s is that of another storage: %+v", s.GetName(), last)
			return nil, fmt.Errorf("observe %s: a view of another storage", s.GetName())
		}
		v.seen = old.Hosts()
	}
	return v, nil
}

// FailLooks lets every observation fail from now on; nil ends it.
func (b *Backend) FailLooks(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looking = err
}

// Looks returns the number of observations so far.
func (b *Backend) Looks() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.looks
}

// Forget takes in that a storage is gone.
func (b *Backend) Forget(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgotten = append(b.forgotten, uid)
}

// Forgotten returns the storages that were forgotten, in that order.
func (b *Backend) Forgotten() []types.UID {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.forgotten)
}

// Obstinate lets the backend return steps even for members that are frozen, and records of groups that are not the recorded ones: it is
// the engine's part not to run them.
func (b *Backend) Obstinate() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.obstinate = true
}

// Before calls check before every step. A step whose check fails is not performed, and fails the test.
func (b *Backend) Before(check func(host string, s Step) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.before = check
}

// Log returns the steps that were performed, as "host: action what", in their order.
func (b *Backend) Log() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.log)
}
