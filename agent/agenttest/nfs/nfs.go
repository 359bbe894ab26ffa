// Package nfs is a model of NFS servers for tests: what the agents of a cluster see of them, kept in memory. It does with the calls of
// the agent's SharedDirectoryService what the agent does with real servers; Contract holds both to that.
package nfs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"quarry.storage/quarry/pkg/sharedvolume"
)

// Servers are NFS servers and what they export.
type Servers struct {
	mu     sync.Mutex
	shares map[string]*Share
	now    time.Time
}

// Share is one exported directory.
type Share struct {
	servers *Servers
	id      string
	owners  map[string]bool
	// directories are what exists, each with the volume that it belongs to, or none.
	directories map[string]sharedvolume.ID
	records     map[sharedvolume.ID]*record
	total, used int64
	problems    map[string]*sharedvolume.Problem
	entries     int64
}

type record struct {
	sharedvolume.Directory
	doing     sharedvolume.Policy
	left      int64
	removed   int64
	discarded bool
}

// perCall is how many entries one call removes.
const perCall = 1000

// everywhere stands for all nodes.
const everywhere = ""

// NewServers makes servers that export nothing.
func NewServers() *Servers {
	return &Servers{shares: map[string]*Share{}, now: time.Date(2026, 11, 21, 19, 9, 0, 0, time.UTC)}
}

// Export makes a share of a size in bytes.
func (s *Servers) Export(server, path string, bytes int64) *Share {
	s.mu.Lock()
	defer s.mu.Unlock()
	share := &Share{
		servers: s, owners: map[string]bool{}, directories: map[string]sharedvolume.ID{}, records: map[sharedvolume.ID]*record{},
		total: bytes, problems: map[string]*sharedvolume.Problem{},
	}
	s.shares[sharedvolume.Source(server, path)] = share
	return share
}

// Break lets the share have a problem, from one node, or from all when node is empty.
func (h *Share) Break(node, reason, message string) {
	h.servers.mu.Lock()
	defer h.servers.mu.Unlock()
	h.problems[node] = sharedvolume.NewProblem(reason, "%s", message)
}

// Mend lets the share have no problem any more.
func (h *Share) Mend() {
	h.servers.mu.Lock()
	defer h.servers.mu.Unlock()
	clear(h.problems)
}

// Lose lets the server show another, empty directory.
func (h *Share) Lose() {
	h.servers.mu.Lock()
	defer h.servers.mu.Unlock()
	h.id = ""
	clear(h.owners)
	clear(h.directories)
	clear(h.records)
}

// Forget lets the share have no records of an owner any more. All else stays.
func (h *Share) Forget(owner string) {
	h.servers.mu.Lock()
	defer h.servers.mu.Unlock()
	delete(h.owners, owner)
	maps.DeleteFunc(h.records, func(id sharedvolume.ID, _ *record) bool { return id.Owner == owner })
}

// Put makes a directory that is no volume's.
func (h *Share) Put(directory string) {
	h.servers.mu.Lock()
	defer h.servers.mu.Unlock()
	h.put(directory, sharedvolume.ID{})
}

func (h *Share) put(directory string, id sharedvolume.ID) {
	for above := directory; above != ""; above = parent(above) {
		if _, ok := h.directories[above]; !ok {
			h.directories[above] = sharedvolume.ID{}
		}
	}
	h.directories[directory] = id
}

// Take removes a directory behind everybody's back.
func (h *Share) Take(directory string) {
	h.servers.mu.Lock()
	defer h.servers.mu.Unlock()
	delete(h.directories, directory)
}

// Use lets a share be used to a number of bytes, and every volume hold a number of entries.
func (h *Share) Use(bytes, entries int64) {
	h.servers.mu.Lock()
	defer h.servers.mu.Unlock()
	h.used, h.entries = bytes, entries
}

// Directories are what exists, ordered.
func (h *Share) Directories() []string {
	h.servers.mu.Lock()
	defer h.servers.mu.Unlock()
	return slices.Sorted(maps.Keys(h.directories))
}

// Records are the volumes, ordered by handle.
func (h *Share) Records() []sharedvolume.Directory {
	h.servers.mu.Lock()
	defer h.servers.mu.Unlock()
	var out []sharedvolume.Directory
	for _, r := range h.records {
		out = append(out, r.Directory)
	}
	slices.SortFunc(out, func(a, b sharedvolume.Directory) int { return strings.Compare(a.ID.String(), b.ID.String()) })
	return out
}

func parent(directory string) string {
	i := strings.LastIndexByte(directory, '/')
	if i < 0 {
		return ""
	}
	return directory[:i]
}

// View is what the agent of one node sees.
type View struct {
	servers *Servers
	node    string
}

// From is the view of a node.
func (s *Servers) From(node string) *View { return &View{servers: s, node: node} }

// look finds a share, or the problem that the node has with it.
func (v *View) look(ctx context.Context, s sharedvolume.Share) (*Share, error) {
	if err := errors.Join(ctx.Err(), s.Check()); err != nil {
		return nil, err
	}
	host, err := sharedvolume.Host(s.Server)
	if err != nil {
		return nil, err
	}
	h := v.servers.shares[sharedvolume.Source(host, s.Path)]
	if h == nil {
		return nil, sharedvolume.NewProblem(sharedvolume.ReasonNotExported, "The server exports no %s to this node. Tried from node %s.", s, v.node)
	}
	for _, node := range []string{everywhere, v.node} {
		if p := h.problems[node]; p != nil {
			return h, p
		}
	}
	return h, nil
}

// own finds a share that was prepared for its owner.
func (v *View) own(ctx context.Context, s sharedvolume.Share) (*Share, error) {
	h, err := v.look(ctx, s)
	switch {
	case err != nil:
		return h, err
	case s.ID != "" && s.ID != h.id:
		return h, sharedvolume.NewProblem(sharedvolume.ReasonOtherShare, "The share carries the identity %q, and %s is on record.", h.id, s.ID)
	case !h.owners[s.Owner]:
		return h, sharedvolume.NewProblem(sharedvolume.ReasonNotPrepared, "The share carries no mark of owner %s.", s.Owner)
	}
	return h, nil
}

// GetShare looks at a share.
func (v *View) GetShare(ctx context.Context, s sharedvolume.Share, prepare bool) (sharedvolume.Seen, error) {
	v.servers.mu.Lock()
	defer v.servers.mu.Unlock()
	h, err := v.look(ctx, s)
	reached := err == nil
	if reached && prepare && (s.ID == "" || s.ID == h.id) && (!s.HasVolumes || h.owners[s.Owner]) {
		if h.id == "" {
			h.id = uuid.NewString()
		}
		h.owners[s.Owner] = true
	}
	if reached {
		_, err = v.own(ctx, s)
	}
	seen := sharedvolume.Seen{}
	if errors.As(err, &seen.Problem) {
		err = nil
	}
	if reached {
		seen.Usage = sharedvolume.Usage{Total: h.total, Used: h.used, Free: h.total - h.used}
		seen.Version, seen.Address = sharedvolume.DefaultVersion, "10.0.0.1:2049"
		if seen.Problem == nil {
			seen.ID = h.id
		}
	}
	return seen, err
}

func state(format string, args ...any) error {
	return fmt.Errorf("%w: %w", fmt.Errorf(format, args...), sharedvolume.ErrState)
}

func taken(format string, args ...any) error {
	return fmt.Errorf("%w: %w", fmt.Errorf(format, args...), sharedvolume.ErrTaken)
}
