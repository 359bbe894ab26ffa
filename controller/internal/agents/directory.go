package agents

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/sharedvolume"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// GetShare tries whether a share can be used from a node. With prepare, the agent writes the owner's mark and tries what making a volume
// needs. A share that cannot be used is a report with a problem, not an error.
func (p *Pool) GetShare(ctx context.Context, node string, s sharedvolume.Share, prepare bool) (sharedvolume.Seen, error) {
	const call = "GetShare"
	var r *agentv1.GetShareResponse
	err := p.call(ctx, node, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		r, err = agentv1.NewSharedDirectoryServiceClient(conn).GetShare(ctx, &agentv1.GetShareRequest{Share: shareOf(s), Prepare: prepare})
		return err
	})
	if err != nil {
		return sharedvolume.Seen{}, faultOf(node, call, err)
	}
	out := sharedvolume.Seen{
		ID: r.GetShareId(), Version: r.GetVersion(), Address: r.GetAddress(),
		Usage: sharedvolume.Usage{Total: r.GetTotalBytes(), Used: r.GetUsedBytes(), Free: r.GetFreeBytes()},
	}
	if problem := r.GetProblem(); problem != nil {
		out.Problem = &sharedvolume.Problem{Reason: problem.GetReason(), Message: problem.GetMessage()}
	}
	return out, nil
}

// EnsureDirectory makes the directory of a volume through a node, and returns its record.
func (p *Pool) EnsureDirectory(ctx context.Context, node string, s sharedvolume.Share, w sharedvolume.Wish) (sharedvolume.Directory, error) {
	const call = "EnsureDirectory"
	var r *agentv1.EnsureDirectoryResponse
	err := p.call(ctx, node, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		r, err = agentv1.NewSharedDirectoryServiceClient(conn).EnsureDirectory(ctx, &agentv1.EnsureDirectoryRequest{
			Share: shareOf(s), Volume: w.Name, Directory: w.Directory, OnDelete: toPolicy[w.OnDelete], SizeBytes: w.Bytes,
		})
		return err
	})
	if err != nil {
		return sharedvolume.Directory{}, faultOf(node, call, err)
	}
	return directoryOf(r.GetDirectory()), nil
}

// RemoveDirectory deletes, archives or leaves the directory of a volume through a node, or a part of a large one. An empty policy leaves
// the choice to the record on the share. directory is the one that the PersistentVolume has on record; empty where there is none.
func (p *Pool) RemoveDirectory(
	ctx context.Context, node string, s sharedvolume.Share, name, directory string, onDelete sharedvolume.Policy,
) (sharedvolume.Removal, error) {
	const call = "RemoveDirectory"
	var r *agentv1.RemoveDirectoryResponse
	err := p.call(ctx, node, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		r, err = agentv1.NewSharedDirectoryServiceClient(conn).RemoveDirectory(ctx, &agentv1.RemoveDirectoryRequest{
			Share: shareOf(s), Volume: name, Directory: directory, OnDelete: toPolicy[onDelete],
		})
		return err
	})
	if err != nil {
		return sharedvolume.Removal{}, faultOf(node, call, err)
	}
	return sharedvolume.Removal{
		Done: r.GetDone(), Removed: r.GetRemovedEntries(), OnDelete: fromPolicy[r.GetOnDelete()],
		ArchivedAs: r.GetArchivedAs(), Note: r.GetNote(),
	}, nil
}

// AbandonDirectory removes what is left of a volume that was never made, and refuses one that was. An agent of an earlier version cannot
// tell them apart, and is asked for nothing.
func (p *Pool) AbandonDirectory(ctx context.Context, node string, s sharedvolume.Share, name string) error {
	const call = "AbandonDirectory"
	err := p.call(ctx, node, func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := agentv1.NewSharedDirectoryServiceClient(conn).AbandonDirectory(ctx, &agentv1.AbandonDirectoryRequest{
			Share: shareOf(s), Volume: name,
		})
		return err
	})
	if status.Code(err) == codes.Unimplemented {
		return &decide.Fault{
			Kind: decide.FaultUnavailable, Node: node, Call: call,
			Message: "the agent is of an earlier version, which would remove a volume that is in use as well: what was never made is removed once it is updated",
		}
	}
	return faultOf(node, call, err)
}

// ListDirectories reads a page of the records of an owner's volumes, ordered by name. The token of the next page is empty on the last
// one. With check the agent looks for their directories, too.
func (p *Pool) ListDirectories(ctx context.Context, node string, s sharedvolume.Share, token string, check bool) ([]sharedvolume.Directory, string, error) {
	const call = "ListDirectories"
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var r *agentv1.ListDirectoriesResponse
	err := p.call(ctx, node, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		r, err = agentv1.NewSharedDirectoryServiceClient(conn).ListDirectories(ctx, &agentv1.ListDirectoriesRequest{
			Share: shareOf(s), PageToken: token, CheckDirectories: check,
		})
		return err
	})
	if err != nil {
		return nil, "", faultOf(node, call, err)
	}
	out := make([]sharedvolume.Directory, 0, len(r.GetDirectories()))
	for _, d := range r.GetDirectories() {
		out = append(out, directoryOf(d))
	}
	return out, r.GetNextPageToken(), nil
}

func shareOf(s sharedvolume.Share) *agentv1.Share {
	return &agentv1.Share{Server: s.Server, Path: s.Path, MountOptions: s.MountOptions, OwnerUid: s.Owner, ShareId: s.ID, HasVolumes: s.HasVolumes}
}

func directoryOf(d *agentv1.SharedDirectory) sharedvolume.Directory {
	out := sharedvolume.Directory{
		ID:        sharedvolume.ID{Owner: d.GetOwnerUid(), Name: d.GetVolume()},
		Directory: d.GetDirectory(), OnDelete: fromPolicy[d.GetOnDelete()], State: states[d.GetState()], ShareID: d.GetShareId(),
		NeverMade: d.GetNeverMade(), Bytes: d.GetSizeBytes(), Problem: d.GetProblem(),
	}
	if s := d.GetCreatedUnixSeconds(); s > 0 {
		out.Created = time.Unix(s, 0)
	}
	return out
}

// Policies and states on the wire.
var (
	toPolicy = map[sharedvolume.Policy]agentv1.OnDelete{
		sharedvolume.Delete: agentv1.OnDelete_ON_DELETE_DELETE, sharedvolume.Archive: agentv1.OnDelete_ON_DELETE_ARCHIVE,
		sharedvolume.Retain: agentv1.OnDelete_ON_DELETE_RETAIN,
	}
	fromPolicy = map[agentv1.OnDelete]sharedvolume.Policy{
		agentv1.OnDelete_ON_DELETE_DELETE: sharedvolume.Delete, agentv1.OnDelete_ON_DELETE_ARCHIVE: sharedvolume.Archive,
		agentv1.OnDelete_ON_DELETE_RETAIN: sharedvolume.Retain,
	}
	states = map[agentv1.SharedDirectory_State]sharedvolume.State{
		agentv1.SharedDirectory_STATE_MAKING: sharedvolume.Making, agentv1.SharedDirectory_STATE_MADE: sharedvolume.Made,
		agentv1.SharedDirectory_STATE_REMOVING: sharedvolume.Removing,
	}
)
