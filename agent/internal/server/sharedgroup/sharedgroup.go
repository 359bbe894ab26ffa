// Package sharedgroup is the wire of SharedGroupService: it validates requests, converts them, and maps errors to codes. It knows neither LVM nor the LUN.
package sharedgroup

import (
	"context"
	"fmt"

	"quarry.storage/quarry/pkg/sharedlun"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// Groups works on the groups of shared LUNs, and maps their volumes. Errors are those of package sharedlun.
type Groups interface {
	// Get reads what is on a LUN.
	Get(ctx context.Context, ref sharedlun.Ref) (sharedlun.Contents, error)
	// Create makes the group, Remove removes it.
	Create(ctx context.Context, ref sharedlun.Ref, name string, w sharedlun.Mandate, wipeDigest string) (sharedlun.Group, error)
	Remove(ctx context.Context, ref sharedlun.Ref, w sharedlun.Mandate) error
	// Change makes one change that was decided on a sequence number.
	Change(ctx context.Context, ref sharedlun.Ref, w sharedlun.Mandate, sequence uint64, change sharedlun.Change) (sharedlun.Group, error)
	// Promise waits for a running change, refuses later ones of older epochs, and returns the promised one.
	Promise(ctx context.Context, ref sharedlun.Ref, epoch uint64) (promised uint64, err error)
	// Map, Unmap and Mappings work on the devices of volumes.
	Map(ctx context.Context, ref sharedlun.Ref, cred sharedlun.Credential, v sharedlun.Volume, sequence uint64) (sharedlun.Mapping, error)
	Unmap(ctx context.Context, ref sharedlun.Ref, volume string, sequence uint64, fenced bool) error
	Mappings(ctx context.Context, ref sharedlun.Ref) ([]sharedlun.Mapping, error)
	// Guard cuts devices that stand on another LUN, and says which paths lead there; empty when none is known to.
	Guard(ctx context.Context, ref sharedlun.Ref) (says string)
	// Zero zeroes what is behind the first bytes of a volume.
	Zero(ctx context.Context, ref sharedlun.Ref, cred sharedlun.Credential, v sharedlun.Volume, discard bool) (sharedlun.Progress, error)
	// Copy fills a volume that is a copy. All copies of the group together copy at most so many bytes per second.
	Copy(ctx context.Context, ref sharedlun.Ref, cred sharedlun.Credential, v sharedlun.Volume, discard bool, bytesPerSecond int64) (sharedlun.Progress, error)
	// Format makes the first filesystem of a volume.
	Format(ctx context.Context, ref sharedlun.Ref, cred sharedlun.Credential, v sharedlun.Volume, fsType string) (done bool, err error)
}

// Service serves the calls.
type Service struct {
	agentv1.UnimplementedSharedGroupServiceServer
	Groups Groups
}

var _ agentv1.SharedGroupServiceServer = (*Service)(nil)

// GetSharedGroup reads the group.
func (s *Service) GetSharedGroup(ctx context.Context, req *agentv1.GetSharedGroupRequest) (*agentv1.GetSharedGroupResponse, error) {
	ref, err := fromRef(req.GetGroup(), false)
	if err != nil {
		return nil, toStatus(err)
	}
	seen, err := s.Groups.Get(ctx, ref)
	if err != nil {
		return nil, toStatus(err)
	}
	resp := &agentv1.GetSharedGroupResponse{Content: seen.Content, ContentDigest: seen.Digest, PromisedEpoch: seen.Promised}
	if seen.Group != nil {
		resp.Group = toGroup(*seen.Group)
	}
	return resp, nil
}

// CreateSharedGroup makes the group.
func (s *Service) CreateSharedGroup(ctx context.Context, req *agentv1.CreateSharedGroupRequest) (*agentv1.CreateSharedGroupResponse, error) {
	ref, err := fromRef(req.GetGroup(), false)
	if err == nil {
		err = validText("wipe_digest", req.GetWipeDigest())
	}
	w, mandateErr := fromMandate(req.GetMandate())
	if err := first(err, mandateErr, sharedlun.CheckGroupName(req.GetName())); err != nil {
		return nil, toStatus(err)
	}
	g, err := s.Groups.Create(ctx, ref, req.GetName(), w, req.GetWipeDigest())
	if err != nil {
		return nil, toStatus(err)
	}
	return &agentv1.CreateSharedGroupResponse{Group: toGroup(g)}, nil
}

// ChangeSharedGroup makes one change.
func (s *Service) ChangeSharedGroup(ctx context.Context, req *agentv1.ChangeSharedGroupRequest) (*agentv1.ChangeSharedGroupResponse, error) {
	ref, err := fromRef(req.GetGroup(), true)
	w, mandateErr := fromMandate(req.GetMandate())
	change, changeErr := fromChange(req)
	if err := first(err, mandateErr, changeErr, positive("sequence", req.GetSequence())); err != nil {
		return nil, toStatus(err)
	}
	g, err := s.Groups.Change(ctx, ref, w, req.GetSequence(), change)
	if err != nil {
		return nil, toStatus(err)
	}
	return &agentv1.ChangeSharedGroupResponse{Group: toGroup(g)}, nil
}

// RemoveSharedGroup removes the group.
func (s *Service) RemoveSharedGroup(ctx context.Context, req *agentv1.RemoveSharedGroupRequest) (*agentv1.RemoveSharedGroupResponse, error) {
	ref, err := fromRef(req.GetGroup(), true)
	w, mandateErr := fromMandate(req.GetMandate())
	if err := first(err, mandateErr); err != nil {
		return nil, toStatus(err)
	}
	if err := s.Groups.Remove(ctx, ref, w); err != nil {
		return nil, toStatus(err)
	}
	return &agentv1.RemoveSharedGroupResponse{}, nil
}

// PromiseEpoch has the node yield to a later writer.
func (s *Service) PromiseEpoch(ctx context.Context, req *agentv1.PromiseEpochRequest) (*agentv1.PromiseEpochResponse, error) {
	ref, err := fromRef(req.GetGroup(), true)
	if err := first(err, positive("epoch", req.GetEpoch())); err != nil {
		return nil, toStatus(err)
	}
	promised, err := s.Groups.Promise(ctx, ref, req.GetEpoch())
	if err != nil {
		return nil, toStatus(err)
	}
	return &agentv1.PromiseEpochResponse{PromisedEpoch: promised}, nil
}

// MapVolume makes the device of a volume.
func (s *Service) MapVolume(ctx context.Context, req *agentv1.MapVolumeRequest) (*agentv1.MapVolumeResponse, error) {
	ref, err := fromRef(req.GetGroup(), true)
	v, volumeErr := fromVolume(req.GetVolume())
	cred, credErr := fromCredential(req.GetCredential())
	if err := first(err, volumeErr, credErr, positive("sequence", req.GetSequence())); err != nil {
		return nil, toStatus(err)
	}
	m, err := s.Groups.Map(ctx, ref, cred, v, req.GetSequence())
	if err != nil {
		return nil, toStatus(err)
	}
	return &agentv1.MapVolumeResponse{Mapping: toMapping(m)}, nil
}

// UnmapVolume removes the device of a volume.
func (s *Service) UnmapVolume(ctx context.Context, req *agentv1.UnmapVolumeRequest) (*agentv1.UnmapVolumeResponse, error) {
	ref, err := fromRef(req.GetGroup(), true)
	if err := first(err, sharedlun.CheckUUID("volume", req.GetVolumeUuid()), positive("sequence", req.GetSequence())); err != nil {
		return nil, toStatus(err)
	}
	if err := s.Groups.Unmap(ctx, ref, req.GetVolumeUuid(), req.GetSequence(), req.GetFenced()); err != nil {
		return nil, toStatus(err)
	}
	return &agentv1.UnmapVolumeResponse{}, nil
}

// ListMappings tells the devices of a group's volumes.
func (s *Service) ListMappings(ctx context.Context, req *agentv1.ListMappingsRequest) (*agentv1.ListMappingsResponse, error) {
	ref, err := fromRef(req.GetGroup(), true)
	if err != nil {
		return nil, toStatus(err)
	}
	// Before the devices are listed: what it cuts is told at once.
	other := s.Groups.Guard(ctx, ref)
	all, err := s.Groups.Mappings(ctx, ref)
	if err != nil {
		return nil, toStatus(err)
	}
	resp := &agentv1.ListMappingsResponse{OtherLun: other}
	for _, m := range all {
		// A controller of an earlier version takes what is among the mappings for the device that a volume shows.
		if m.Part == sharedlun.PartShown {
			resp.Mappings = append(resp.Mappings, toMapping(m))
		} else {
			resp.Parts = append(resp.Parts, toMapping(m))
		}
	}
	return resp, nil
}

// ZeroVolume zeroes what is behind the first bytes of a volume.
func (s *Service) ZeroVolume(ctx context.Context, req *agentv1.ZeroVolumeRequest) (*agentv1.ZeroVolumeResponse, error) {
	ref, err := fromRef(req.GetGroup(), true)
	v, volumeErr := fromVolume(req.GetVolume())
	cred, credErr := fromCredential(req.GetCredential())
	if err := first(err, volumeErr, credErr); err != nil {
		return nil, toStatus(err)
	}
	p, err := s.Groups.Zero(ctx, ref, cred, v, req.GetDiscard())
	if err != nil {
		return nil, toStatus(err)
	}
	return &agentv1.ZeroVolumeResponse{Done: p.Done, DoneBytes: p.DoneBytes, TotalBytes: p.Total}, nil
}

// CopyVolume fills a volume that is a copy of another one.
func (s *Service) CopyVolume(ctx context.Context, req *agentv1.CopyVolumeRequest) (*agentv1.CopyVolumeResponse, error) {
	ref, err := fromRef(req.GetGroup(), true)
	v, volumeErr := fromVolume(req.GetVolume())
	cred, credErr := fromCredential(req.GetCredential())
	var rate error
	if req.GetBytesPerSecond() <= 0 {
		rate = fmt.Errorf("%w: bytes_per_second is %d", sharedlun.ErrInvalid, req.GetBytesPerSecond())
	}
	if err := first(err, volumeErr, credErr, v.Origin.Check(), rate); err != nil {
		return nil, toStatus(err)
	}
	p, err := s.Groups.Copy(ctx, ref, cred, v, req.GetDiscard(), req.GetBytesPerSecond())
	if err != nil {
		return nil, toStatus(err)
	}
	return &agentv1.CopyVolumeResponse{Done: p.Done, DoneBytes: p.DoneBytes, TotalBytes: p.Total}, nil
}

// FormatVolume makes the first filesystem of a volume.
func (s *Service) FormatVolume(ctx context.Context, req *agentv1.FormatVolumeRequest) (*agentv1.FormatVolumeResponse, error) {
	ref, err := fromRef(req.GetGroup(), true)
	v, volumeErr := fromVolume(req.GetVolume())
	cred, credErr := fromCredential(req.GetCredential())
	if err := first(err, volumeErr, credErr, validText("fs_type", req.GetFsType())); err != nil {
		return nil, toStatus(err)
	}
	done, err := s.Groups.Format(ctx, ref, cred, v, req.GetFsType())
	if err != nil {
		return nil, toStatus(err)
	}
	return &agentv1.FormatVolumeResponse{Done: done}, nil
}
