package agents

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"quarry.storage/quarry/controller/internal/decide/nfs"
	"quarry.storage/quarry/pkg/sharedvolume"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// GetShare tries whether a share can be used from a node. With prepare, the agent writes the owner's mark and tries what making a volume
// needs. A share that cannot be used is a report with a problem, not an error.
func (p *Pool) GetShare(ctx context.Context, node string, s nfs.Share, prepare bool) (nfs.Report, error) {
	const call = "GetShare"
	var r *agentv1.GetShareResponse
	err := p.call(ctx, node, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		r, err = agentv1.NewSharedDirectoryServiceClient(conn).GetShare(ctx, &agentv1.GetShareRequest{Share: shareOf(s), Prepare: prepare})
		return err
	})
	if err != nil {
		return nfs.Report{}, faultOf(node, call, err)
	}
	out := nfs.Report{
		ShareID: r.GetShareId(), TotalBytes: r.GetTotalBytes(), UsedBytes: r.GetUsedBytes(), FreeBytes: r.GetFreeBytes(),
		Version: r.GetVersion(), Address: r.GetAddress(),
	}
	if problem := r.GetProblem(); problem != nil {
		out.Problem = &nfs.Problem{Reason: problem.GetReason(), Message: problem.GetMessage()}
	}
	return out, nil
}

// EnsureDirectory makes the directory of a volume through a node, and returns its record. Volume, Path and OnDelete of d say what is
// wanted.
func (p *Pool) EnsureDirectory(ctx context.Context, node string, s nfs.Share, d nfs.Directory) (nfs.Directory, error) {
	const call = "EnsureDirectory"
	var r *agentv1.EnsureDirectoryResponse
	err := p.call(ctx, node, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		r, err = agentv1.NewSharedDirectoryServiceClient(conn).EnsureDirectory(ctx, &agentv1.EnsureDirectoryRequest{
			Share: shareOf(s), Volume: d.Volume, Directory: d.Path, OnDelete: toPolicy[d.OnDelete],
		})
		return err
	})
	if err != nil {
		return nfs.Directory{}, faultOf(node, call, err)
	}
	return directoryOf(r.GetDirectory()), nil
}

// RemoveDirectory deletes, archives or leaves the directory of a volume through a node, or a part of a large one. An empty policy leaves
// the choice to the record on the share.
func (p *Pool) RemoveDirectory(
	ctx context.Context, node string, s nfs.Share, volume string, onDelete sharedvolume.Policy,
) (nfs.Removal, error) {
	const call = "RemoveDirectory"
	var r *agentv1.RemoveDirectoryResponse
	err := p.call(ctx, node, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		r, err = agentv1.NewSharedDirectoryServiceClient(conn).RemoveDirectory(ctx, &agentv1.RemoveDirectoryRequest{
			Share: shareOf(s), Volume: volume, OnDelete: toPolicy[onDelete],
		})
		return err
	})
	if err != nil {
		return nfs.Removal{}, faultOf(node, call, err)
	}
	return nfs.Removal{
		Done: r.GetDone(), Entries: r.GetRemovedEntries(), OnDelete: fromPolicy[r.GetOnDelete()],
		ArchivedAs: r.GetArchivedAs(), Note: r.GetNote(),
	}, nil
}

// ListDirectories reads a page of the records of an owner's volumes, ordered by name. The token of the next page is empty on the last
// one.
func (p *Pool) ListDirectories(ctx context.Context, node string, s nfs.Share, token string) ([]nfs.Directory, string, error) {
	const call = "ListDirectories"
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var r *agentv1.ListDirectoriesResponse
	err := p.call(ctx, node, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		r, err = agentv1.NewSharedDirectoryServiceClient(conn).ListDirectories(ctx, &agentv1.ListDirectoriesRequest{
			Share: shareOf(s), PageToken: token,
		})
		return err
	})
	if err != nil {
		return nil, "", faultOf(node, call, err)
	}
	out := make([]nfs.Directory, 0, len(r.GetDirectories()))
	for _, d := range r.GetDirectories() {
		out = append(out, directoryOf(d))
	}
	return out, r.GetNextPageToken(), nil
}

func shareOf(s nfs.Share) *agentv1.Share {
	return &agentv1.Share{Server: s.Server, Path: s.Path, MountOptions: s.MountOptions, OwnerUid: s.Owner, ShareId: s.ID}
}

func directoryOf(d *agentv1.SharedDirectory) nfs.Directory {
	out := nfs.Directory{
		Owner: d.GetOwnerUid(), Volume: d.GetVolume(), Path: d.GetDirectory(), OnDelete: fromPolicy[d.GetOnDelete()],
		State: states[d.GetState()], ShareID: d.GetShareId(),
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
	states = map[agentv1.SharedDirectory_State]nfs.State{
		agentv1.SharedDirectory_STATE_MAKING: nfs.Making, agentv1.SharedDirectory_STATE_MADE: nfs.Made,
		agentv1.SharedDirectory_STATE_REMOVING: nfs.Removing,
	}
)
