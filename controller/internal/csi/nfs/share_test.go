package nfs_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/nfs"
	"quarry.storage/quarry/pkg/sharedvolume"
)

const shareID = "5a0e8f3e-0000-4000-8000-00000000000a"

// agentsModel is what the agents of some nodes do to one share, as the contract has it. It is strict: a request that the contract
// refuses fails the test.
type agentsModel struct {
	t *testing.T

	mu sync.Mutex
	// online are the nodes with an agent; broken says why a node does not reach the share.
	online []string
	broken map[string]*decide.Fault
	// records of volumes by name, and the directories that exist, ours or not, with the number of entries in them.
	records     map[string]nfs.Directory
	directories map[string]int64
	// part is how many entries one call removes; all when 0.
	part    int64
	removed map[string]int64
	// owner is the UID of the Nfs whose mark is on the share.
	owner string
	// calls are the nodes that were asked, with the method.
	calls []string
	// before is called before every effect, after when it is on the disks; an error is what the caller gets.
	before, after func(ctx context.Context, method string) error
}

func newAgents(t *testing.T, owner string, nodes ...string) *agentsModel {
	return &agentsModel{
		t: t, online: nodes, owner: owner, broken: map[string]*decide.Fault{}, records: map[string]nfs.Directory{},
		directories: map[string]int64{}, removed: map[string]int64{},
	}
}

func (m *agentsModel) fault(kind decide.FaultKind, node, method, reason, format string, args ...any) error {
	return &decide.Fault{Kind: kind, Node: node, Call: method, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func (m *agentsModel) Online() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.online)
}

// begin checks what every request has to have.
func (m *agentsModel) begin(ctx context.Context, node, method string, s nfs.Share) error {
	m.mu.Lock()
	m.calls = append(m.calls, method+" "+node)
	online, broken, before := slices.Contains(m.online, node), m.broken[node], m.before
	m.mu.Unlock()
	if s.Server != "server" || s.Path != "/export" || s.Owner == "" {
		m.t.Errorf("%s: share is %+v", method, s)
	}
	if !online {
		m.t.Errorf("%s: node %s has no agent", method, node)
	}
	if broken != nil {
		f := *broken
		f.Node, f.Call = node, method
		return &f
	}
	if s.ID != "" && s.ID != shareID {
		return m.fault(decide.FaultPrecondition, node, method, sharedvolume.ReasonOtherShare, "the share is another one")
	}
	if s.Owner != m.owner {
		return m.fault(decide.FaultPrecondition, node, method, sharedvolume.ReasonNotPrepared, "no mark of %s", s.Owner)
	}
	if before != nil {
		return before(ctx, method)
	}
	return nil
}

func (m *agentsModel) end(ctx context.Context, method string) error {
	m.mu.Lock()
	after := m.after
	m.mu.Unlock()
	if after != nil {
		return after(ctx, method)
	}
	return nil
}

func (m *agentsModel) EnsureDirectory(ctx context.Context, node string, s nfs.Share, d nfs.Directory) (nfs.Directory, error) {
	const method = "EnsureDirectory"
	if err := m.begin(ctx, node, method, s); err != nil {
		return nfs.Directory{}, err
	}
	if _, err := sharedvolume.New(s.Owner, d.Volume); err != nil {
		m.t.Error(err)
	}
	if err := sharedvolume.CheckDirectory(d.Path); err != nil {
		m.t.Error(err)
	}
	if d.OnDelete == "" || d.Owner != "" || d.State != 0 {
		m.t.Errorf("asked for %+v", d)
	}
	made, err := m.ensure(node, s.Owner, d)
	if err == nil {
		err = m.end(ctx, method)
	}
	return made, err
}

func (m *agentsModel) ensure(node, owner string, d nfs.Directory) (nfs.Directory, error) {
	const method = "EnsureDirectory"
	m.mu.Lock()
	defer m.mu.Unlock()
	r, recorded := m.records[d.Volume]
	_, exists := m.directories[d.Path]
	switch {
	case recorded && r.State == nfs.Removing:
		return r, m.fault(decide.FaultPrecondition, node, method, "", "volume %s is being removed", d.Volume)
	case recorded && (r.Path != d.Path || r.OnDelete != d.OnDelete):
		return r, m.fault(decide.FaultConflict, node, method, "", "volume %s was made with %s, %s", d.Volume, r.Path, r.OnDelete)
	case recorded && r.State == nfs.Made && !exists:
		return r, m.fault(decide.FaultPrecondition, node, method, "", "directory %s vanished", r.Path)
	case !recorded && exists:
		return r, m.fault(decide.FaultConflict, node, method, "", "directory %s exists and is not of volume %s", d.Path, d.Volume)
	}
	d.Owner, d.State, d.ShareID = owner, nfs.Made, shareID
	m.records[d.Volume] = d
	if !exists {
		m.directories[d.Path] = 0
	}
	return d, nil
}

func (m *agentsModel) RemoveDirectory(
	ctx context.Context, node string, s nfs.Share, volume string, p sharedvolume.Policy,
) (nfs.Removal, error) {
	const method = "RemoveDirectory"
	if err := m.begin(ctx, node, method, s); err != nil {
		return nfs.Removal{}, err
	}
	r := m.remove(volume, p)
	return r, m.end(ctx, method)
}

func (m *agentsModel) remove(volume string, p sharedvolume.Policy) nfs.Removal {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, recorded := m.records[volume]
	if !recorded {
		return nfs.Removal{Done: true}
	}
	if p == "" {
		p = d.OnDelete
	}
	out := nfs.Removal{OnDelete: sharedvolume.Safer(p, d.OnDelete)}
	switch out.OnDelete {
	case sharedvolume.Archive:
		out.ArchivedAs = "archived-" + d.Path + "-20261121"
		m.directories[out.ArchivedAs] = m.directories[d.Path]
		delete(m.directories, d.Path)
	case sharedvolume.Delete:
		d.State = nfs.Removing
		m.records[volume] = d
		left := m.directories[d.Path]
		n := left
		if m.part > 0 {
			n = min(left, m.part)
		}
		m.directories[d.Path] = left - n
		m.removed[volume] += n
		if out.Entries = m.removed[volume]; left > n {
			return out
		}
		delete(m.directories, d.Path)
	}
	delete(m.records, volume)
	out.Done = true
	return out
}

// pageSize is small, so that every list has pages.
const pageSize = 2

func (m *agentsModel) ListDirectories(ctx context.Context, node string, s nfs.Share, token string) ([]nfs.Directory, string, error) {
	if err := m.begin(ctx, node, "ListDirectories", s); err != nil {
		return nil, "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var page []nfs.Directory
	for _, name := range slices.Sorted(maps.Keys(m.records)) {
		if strings.Compare(name, token) < 0 {
			continue
		}
		if len(page) == pageSize {
			return page, name, nil
		}
		page = append(page, m.records[name])
	}
	return page, "", nil
}

// asked returns the calls since the last time.
func (m *agentsModel) asked() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.calls
	m.calls = nil
	return out
}
