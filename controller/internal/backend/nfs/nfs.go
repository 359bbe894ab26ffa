// Package nfs is the backend of Nfs: any agent that reaches the share looks at it. It keeps no state but the last view.
package nfs

import (
	"context"
	"fmt"
	"time"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/nfs"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedvolume"
)

const (
	// tries is the number of agents that are asked in one look.
	tries = 2
	// patience bounds one question, so that several fit into one look. An agent that answers says before that that the server does not.
	patience = sharedvolume.LookTime + 2*time.Second
)

// Agents is what the backend knows of agents.
type Agents interface {
	// Online returns the names of the nodes whose agents answer.
	Online() []string
	// GetShare tries whether a share can be used from a node. A share that cannot be used is a report with a problem.
	GetShare(ctx context.Context, node string, s sharedvolume.Share, prepare bool) (sharedvolume.Seen, error)
	// ListDirectories returns a page of the records of the owner's volumes, and with check whether their directories are there.
	ListDirectories(ctx context.Context, node string, s sharedvolume.Share, token string, check bool) ([]sharedvolume.Directory, string, error)
	// AbandonDirectory removes what is left of a volume that was never made, and refuses one that was.
	AbandonDirectory(ctx context.Context, node string, s sharedvolume.Share, name string) error
}

// Backend looks at shares.
type Backend struct {
	Agents Agents
	// Now returns the time.
	Now func() time.Time
}

// Profile returns what the engine has to know of shares.
func (b *Backend) Profile() backend.Profile { return nfs.Profile() }

// Observe looks at the share when the last look is old.
func (b *Backend) Observe(ctx context.Context, s v1alpha1.Storage, w backend.World, last backend.View) (backend.View, error) {
	n, ok := s.(*v1alpha1.Nfs)
	if !ok {
		return nil, fmt.Errorf("%T is no Nfs", s)
	}
	old, _ := last.(*nfs.View)
	now := b.Now()
	var look *nfs.Look
	if due, prepare := old.Due(n, now); due {
		fresh := b.look(ctx, n, w, old, prepare)
		look, now = &fresh, b.Now()
	}
	view := old.Next(n, w, look, now)
	if share, due := view.WantsLeft(n, w, now); due {
		view = view.WithLeft(b.left(ctx, share, view))
	}
	if q, at := view.Questions(now); len(q) > 0 {
		view = view.WithCompared(b.compare(ctx, view, q, at), b.Now())
	}
	return view, nil
}

// look asks one agent after the other, as long as another one may know better.
func (b *Backend) look(ctx context.Context, n *v1alpha1.Nfs, w backend.World, last *nfs.View, prepare bool) nfs.Look {
	out := nfs.Look{At: b.Now(), Prepared: prepare}
	if out.Report.Problem = nfs.Invalid(n); out.Report.Problem != nil {
		return out
	}
	share := nfs.ShareOf(n)
	share.ID, share.HasVolumes = nfs.ShareID(n, w), nfs.HasVolumes(n, w)
	// A storage that is being deleted is only looked at: nothing new is written on its share. Its volumes still need the records to be
	// compared with a share that was copied.
	prepare = prepare && (n.DeletionTimestamp.IsZero() || nfs.Volumes(w) > 0)
	out.Prepared = prepare
	nodes := nfs.Order(b.Agents.Online(), []string{last.Preferred()}, last.Turn(), last.Tries(tries))
	if len(nodes) == 0 {
		out.Report.Problem = &sharedvolume.Problem{Reason: v1alpha1.ReasonNoAgent, Message: "No agent answers, so nobody can look at the share."}
		return out
	}
	for _, node := range nodes {
		out.Node, out.At = node, b.Now()
		out.Report = b.ask(ctx, node, share, prepare)
		if out.Report.Problem == nil || !nfs.Elsewhere(out.Report.Problem) {
			return out
		}
	}
	return out
}

func (b *Backend) ask(ctx context.Context, node string, s sharedvolume.Share, prepare bool) sharedvolume.Seen {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := b.Agents.GetShare(ctx, node, s, prepare)
	if err != nil {
		return sharedvolume.Seen{Problem: &sharedvolume.Problem{
			Reason: v1alpha1.ReasonAgentUnreachable, Message: fmt.Sprintf("The agent on node %s could not look at %s: %v", node, sharedvolume.Source(s.Server, s.Path), err),
		}}
	}
	return r
}

// Fill writes what only an Nfs has in its status.
func (b *Backend) Fill(s v1alpha1.Storage, v backend.View, _ backend.World) {
	n, ok := s.(*v1alpha1.Nfs)
	view, seen := v.(*nfs.View)
	if ok && seen && view != nil {
		view.Fill(n)
	}
}
