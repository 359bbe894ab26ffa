package server

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/pkg/sharedvolume"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// SharedDirectories works on NFS shares through this node. Errors are those of package sharedvolume.
type SharedDirectories interface {
	// GetShare looks whether a share can be used. A problem with the share is an answer.
	GetShare(ctx context.Context, s sharedvolume.Share, prepare bool) (sharedvolume.Seen, error)
	// EnsureDirectory makes the directory of a volume.
	EnsureDirectory(ctx context.Context, s sharedvolume.Share, w sharedvolume.Wish) (sharedvolume.Directory, error)
	// RemoveDirectory deletes, archives or leaves it. An empty policy leaves the choice to the record. directory is the one that the caller has on record.
	RemoveDirectory(ctx context.Context, s sharedvolume.Share, name, directory string, p sharedvolume.Policy) (sharedvolume.Removal, error)
	// AbandonDirectory removes what is left of a volume that was never made, and refuses one that was.
	AbandonDirectory(ctx context.Context, s sharedvolume.Share, name string) error
	// ListDirectories reads the records behind a name, in the order of names, and with check looks for their directories. next is empty behind the
	// last.
	ListDirectories(ctx context.Context, s sharedvolume.Share, after string, limit int, check bool) (list []sharedvolume.Directory, next string, err error)
}

const (
	// maxPage bounds the answer of ListDirectories.
	maxPage = 1000
	// maxMountOptions bounds the options of one share.
	maxMountOptions = 64
)

// sharedDirectoryService works on NFS shares.
type sharedDirectoryService struct {
	agentv1.UnimplementedSharedDirectoryServiceServer
	shares SharedDirectories
}

// GetShare looks whether a share can be used.
func (s *sharedDirectoryService) GetShare(ctx context.Context, req *agentv1.GetShareRequest) (*agentv1.GetShareResponse, error) {
	share, err := validShare(req.GetShare())
	if err != nil {
		return nil, shareStatus(err)
	}
	seen, err := s.shares.GetShare(ctx, share, req.GetPrepare())
	if err != nil {
		return nil, shareStatus(err)
	}
	return &agentv1.GetShareResponse{
		Problem: toProblem(seen.Problem), ShareId: seen.ID, TotalBytes: seen.Total, UsedBytes: seen.Used, FreeBytes: seen.Free,
		Version: seen.Version, Address: seen.Address,
	}, nil
}

// EnsureDirectory makes the directory of a volume.
func (s *sharedDirectoryService) EnsureDirectory(
	ctx context.Context, req *agentv1.EnsureDirectoryRequest,
) (*agentv1.EnsureDirectoryResponse, error) {
	share, err := validShare(req.GetShare())
	wish := sharedvolume.Wish{
		Name: req.GetVolume(), Directory: req.GetDirectory(), OnDelete: fromOnDelete[req.GetOnDelete()], Bytes: req.GetSizeBytes(),
	}
	if err == nil {
		err = errors.Join(validShared(share.Owner, wish.Name), wish.Check())
	}
	if err == nil && wish.OnDelete == "" {
		err = fmt.Errorf("on_delete is %s: %w", req.GetOnDelete(), sharedvolume.ErrInvalid)
	}
	if err != nil {
		return nil, shareStatus(err)
	}
	d, err := s.shares.EnsureDirectory(ctx, share, wish)
	if err != nil {
		return nil, shareStatus(err)
	}
	return &agentv1.EnsureDirectoryResponse{Directory: toDirectory(d)}, nil
}

// RemoveDirectory removes the directory of a volume, or a part of it.
func (s *sharedDirectoryService) RemoveDirectory(
	ctx context.Context, req *agentv1.RemoveDirectoryRequest,
) (*agentv1.RemoveDirectoryResponse, error) {
	share, err := validShare(req.GetShare())
	if err == nil {
		err = validShared(share.Owner, req.GetVolume())
	}
	if d := req.GetDirectory(); err == nil && d != "" {
		err = sharedvolume.CheckDirectory(d)
	}
	policy, known := fromOnDelete[req.GetOnDelete()]
	if err == nil && !known {
		err = fmt.Errorf("on_delete is %s: %w", req.GetOnDelete(), sharedvolume.ErrInvalid)
	}
	if err != nil {
		return nil, shareStatus(err)
	}
	r, err := s.shares.RemoveDirectory(ctx, share, req.GetVolume(), req.GetDirectory(), policy)
	if err != nil {
		return nil, shareStatus(err)
	}
	return &agentv1.RemoveDirectoryResponse{
		Done: r.Done, RemovedEntries: r.Removed, OnDelete: toOnDelete(r.OnDelete), ArchivedAs: r.ArchivedAs, Note: r.Note,
	}, nil
}

// AbandonDirectory removes what is left of a volume that was never made.
func (s *sharedDirectoryService) AbandonDirectory(
	ctx context.Context, req *agentv1.AbandonDirectoryRequest,
) (*agentv1.AbandonDirectoryResponse, error) {
	share, err := validShare(req.GetShare())
	if err == nil {
		err = validShared(share.Owner, req.GetVolume())
	}
	if err == nil {
		err = s.shares.AbandonDirectory(ctx, share, req.GetVolume())
	}
	if err != nil {
		return nil, shareStatus(err)
	}
	return &agentv1.AbandonDirectoryResponse{}, nil
}

// ListDirectories reads the records of an owner's volumes.
func (s *sharedDirectoryService) ListDirectories(
	ctx context.Context, req *agentv1.ListDirectoriesRequest,
) (*agentv1.ListDirectoriesResponse, error) {
	share, err := validShare(req.GetShare())
	if err == nil && req.GetPageToken() != "" {
		err = validShared(share.Owner, req.GetPageToken())
	}
	if err == nil && req.GetPageSize() < 0 {
		err = fmt.Errorf("page_size is %d: %w", req.GetPageSize(), sharedvolume.ErrInvalid)
	}
	if err != nil {
		return nil, shareStatus(err)
	}
	limit := int(req.GetPageSize())
	if limit == 0 || limit > maxPage {
		limit = maxPage
	}
	list, next, err := s.shares.ListDirectories(ctx, share, req.GetPageToken(), limit, req.GetCheckDirectories())
	if err != nil {
		return nil, shareStatus(err)
	}
	resp := &agentv1.ListDirectoriesResponse{NextPageToken: next}
	for _, d := range list {
		resp.Directories = append(resp.Directories, toDirectory(d))
	}
	return resp, nil
}

// validShare checks which share is meant, and whose.
func validShare(s *agentv1.Share) (sharedvolume.Share, error) {
	if len(s.GetMountOptions()) > maxMountOptions {
		return sharedvolume.Share{}, fmt.Errorf("%d mount options, at most %d are taken: %w", len(s.GetMountOptions()), maxMountOptions, sharedvolume.ErrInvalid)
	}
	out := sharedvolume.Share{
		Server: s.GetServer(), Path: s.GetPath(), MountOptions: s.GetMountOptions(), Owner: s.GetOwnerUid(), ID: s.GetShareId(),
		HasVolumes: s.GetHasVolumes(),
	}
	return out, out.Check()
}

// validShared checks the name of a volume.
func validShared(owner, name string) error {
	if _, err := sharedvolume.New(owner, name); err != nil {
		return fmt.Errorf("%w: %w", sharedvolume.ErrInvalid, err)
	}
	return nil
}

// shareCodes are the codes of errors, and problemCodes those of reasons. What is in neither is left to the map of all services.
var (
	shareCodes = []struct {
		err  error
		code codes.Code
	}{
		{sharedvolume.ErrInvalid, codes.InvalidArgument},
		{sharedvolume.ErrBusy, codes.Aborted},
		{sharedvolume.ErrTaken, codes.AlreadyExists},
		{sharedvolume.ErrState, codes.FailedPrecondition},
	}
	problemCodes = map[string]codes.Code{
		sharedvolume.ReasonUnreachable: codes.Unavailable, sharedvolume.ReasonNameUnresolved: codes.Unavailable,
		sharedvolume.ReasonNoSpace: codes.ResourceExhausted, sharedvolume.ReasonInvalid: codes.InvalidArgument,
		sharedvolume.ReasonTooManyCalls: codes.Aborted,
	}
)

// shareStatus makes the error of a call on a share. A problem with the share goes along as detail.
func shareStatus(err error) error {
	var problem *sharedvolume.Problem
	if errors.As(err, &problem) {
		code, ok := problemCodes[problem.Reason]
		if !ok {
			code = codes.FailedPrecondition
		}
		bare := status.New(code, err.Error())
		if detailed, err := bare.WithDetails(toProblem(problem)); err == nil {
			return detailed.Err()
		}
		return bare.Err()
	}
	for _, c := range shareCodes {
		if errors.Is(err, c.err) {
			return status.Error(c.code, err.Error())
		}
	}
	return err
}

func toProblem(p *sharedvolume.Problem) *agentv1.ShareProblem {
	if p == nil {
		return nil
	}
	return &agentv1.ShareProblem{Reason: p.Reason, Message: p.Message}
}

func toDirectory(d sharedvolume.Directory) *agentv1.SharedDirectory {
	return &agentv1.SharedDirectory{
		OwnerUid: d.Owner, Volume: d.Name, Directory: d.Directory, OnDelete: toOnDelete(d.OnDelete), State: toState[d.State],
		CreatedUnixSeconds: d.Created.Unix(), ShareId: d.ShareID, NeverMade: d.NeverMade,
		SizeBytes: d.Bytes, Problem: d.Problem,
	}
}

var (
	fromOnDelete = map[agentv1.OnDelete]sharedvolume.Policy{
		agentv1.OnDelete_ON_DELETE_UNSPECIFIED: "",
		agentv1.OnDelete_ON_DELETE_DELETE:      sharedvolume.Delete,
		agentv1.OnDelete_ON_DELETE_ARCHIVE:     sharedvolume.Archive,
		agentv1.OnDelete_ON_DELETE_RETAIN:      sharedvolume.Retain,
	}
	toState = map[sharedvolume.State]agentv1.SharedDirectory_State{
		sharedvolume.Making:   agentv1.SharedDirectory_STATE_MAKING,
		sharedvolume.Made:     agentv1.SharedDirectory_STATE_MADE,
		sharedvolume.Removing: agentv1.SharedDirectory_STATE_REMOVING,
	}
)

func toOnDelete(p sharedvolume.Policy) agentv1.OnDelete {
	for wire, policy := range fromOnDelete {
		if policy == p {
			return wire
		}
	}
	return agentv1.OnDelete_ON_DELETE_UNSPECIFIED
}
