package shared

import (
	"context"

	"quarry.storage/quarry/pkg/sharedlun"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// Contents reads the group, or what is on the LUN instead, and the epoch that the node has promised.
func (c Calls) Contents(ctx context.Context, node string, ref sharedlun.Ref) (sharedlun.Contents, error) {
	var r *agentv1.GetSharedGroupResponse
	err := c.group(ctx, sharedlun.ReadTimeout, node, "GetSharedGroup", func(ctx context.Context, s agentv1.SharedGroupServiceClient) (err error) {
		r, err = s.GetSharedGroup(ctx, &agentv1.GetSharedGroupRequest{Group: refOf(ref)})
		return err
	})
	if err != nil {
		return sharedlun.Contents{}, err
	}
	out := sharedlun.Contents{Content: r.GetContent(), Digest: r.GetContentDigest(), Promised: r.GetPromisedEpoch()}
	if r.GetGroup() != nil {
		g := groupOf(r.GetGroup())
		out.Group = &g
	}
	return out, nil
}

// Create makes the group. wipe is the digest of what a person agreed to lose; empty for a LUN on which nothing is.
func (c Calls) Create(ctx context.Context, node string, ref sharedlun.Ref, m sharedlun.Mandate, name, wipe string) (sharedlun.Group, error) {
	var r *agentv1.CreateSharedGroupResponse
	err := c.group(ctx, sharedlun.AnswerTimeout(m.Timeout), node, "CreateSharedGroup", func(ctx context.Context, s agentv1.SharedGroupServiceClient) (err error) {
		r, err = s.CreateSharedGroup(ctx, &agentv1.CreateSharedGroupRequest{Group: refOf(ref), Mandate: mandateOf(m), Name: name, WipeDigest: wipe})
		return err
	})
	return groupOf(r.GetGroup()), err
}

// Change makes one change of the group, decided on a sequence number.
func (c Calls) Change(
	ctx context.Context, node string, ref sharedlun.Ref, m sharedlun.Mandate, sequence uint64, change sharedlun.Change,
) (sharedlun.Group, error) {
	var r *agentv1.ChangeSharedGroupResponse
	err := c.group(ctx, sharedlun.AnswerTimeout(m.Timeout), node, "ChangeSharedGroup", func(ctx context.Context, s agentv1.SharedGroupServiceClient) (err error) {
		request := &agentv1.ChangeSharedGroupRequest{Group: refOf(ref), Mandate: mandateOf(m), Sequence: sequence}
		setChange(request, change)
		r, err = s.ChangeSharedGroup(ctx, request)
		return err
	})
	return groupOf(r.GetGroup()), err
}

// Remove removes a group without volumes.
func (c Calls) Remove(ctx context.Context, node string, ref sharedlun.Ref, m sharedlun.Mandate) error {
	return c.group(ctx, sharedlun.AnswerTimeout(m.Timeout), node, "RemoveSharedGroup", func(ctx context.Context, s agentv1.SharedGroupServiceClient) error {
		_, err := s.RemoveSharedGroup(ctx, &agentv1.RemoveSharedGroupRequest{Group: refOf(ref), Mandate: mandateOf(m)})
		return err
	})
}

// Promise makes a node refuse every change of an older epoch, and returns the epoch that it has promised.
func (c Calls) Promise(ctx context.Context, node string, ref sharedlun.Ref, epoch uint64) (promised uint64, err error) {
	var r *agentv1.PromiseEpochResponse
	err = c.group(ctx, sharedlun.DeviceTimeout, node, "PromiseEpoch", func(ctx context.Context, s agentv1.SharedGroupServiceClient) (err error) {
		r, err = s.PromiseEpoch(ctx, &agentv1.PromiseEpochRequest{Group: refOf(ref), Epoch: epoch})
		return err
	})
	return r.GetPromisedEpoch(), err
}

// Map makes the device of a volume, or gives it its table.
func (c Calls) Map(
	ctx context.Context, node string, ref sharedlun.Ref, cred sharedlun.Credential, v sharedlun.Volume, sequence uint64,
) (sharedlun.Mapping, error) {
	var r *agentv1.MapVolumeResponse
	err := c.group(ctx, sharedlun.DeviceTimeout, node, "MapVolume", func(ctx context.Context, s agentv1.SharedGroupServiceClient) (err error) {
		r, err = s.MapVolume(ctx, &agentv1.MapVolumeRequest{Group: refOf(ref), Volume: toVolume(v), Sequence: sequence, Credential: credentialOf(cred)})
		return err
	})
	return mappingOf(r.GetMapping()), err
}

// Unmap removes the device of a volume that is not in use. On a node whose fence was seen, I/O that hangs in it ends with errors first.
func (c Calls) Unmap(ctx context.Context, node string, ref sharedlun.Ref, volumeUUID string, sequence uint64, fenced bool) error {
	return c.group(ctx, sharedlun.DeviceTimeout, node, "UnmapVolume", func(ctx context.Context, s agentv1.SharedGroupServiceClient) error {
		_, err := s.UnmapVolume(ctx, &agentv1.UnmapVolumeRequest{Group: refOf(ref), VolumeUuid: volumeUUID, Sequence: sequence, Fenced: fenced})
		return err
	})
}

// Mappings lists the devices of the group's volumes on a node, those through which volumes are zeroed or copied behind all others. other says which paths there lead to another LUN than the recorded one; empty when none is known to.
func (c Calls) Mappings(ctx context.Context, node string, ref sharedlun.Ref) (all []sharedlun.Mapping, other string, err error) {
	var r *agentv1.ListMappingsResponse
	err = c.group(ctx, sharedlun.ReadTimeout, node, "ListMappings", func(ctx context.Context, s agentv1.SharedGroupServiceClient) (err error) {
		r, err = s.ListMappings(ctx, &agentv1.ListMappingsRequest{Group: refOf(ref)})
		return err
	})
	all = make([]sharedlun.Mapping, 0, len(r.GetMappings())+len(r.GetParts()))
	for _, m := range r.GetMappings() {
		all = append(all, mappingOf(m))
	}
	for _, m := range r.GetParts() {
		all = append(all, partOf(m))
	}
	return all, r.GetOtherLun(), err
}

// Zero zeroes what of a volume is not ready, or tells how far that is.
func (c Calls) Zero(
	ctx context.Context, node string, ref sharedlun.Ref, cred sharedlun.Credential, v sharedlun.Volume, discard bool,
) (sharedlun.Progress, error) {
	var r *agentv1.ZeroVolumeResponse
	err := c.group(ctx, sharedlun.DeviceTimeout, node, "ZeroVolume", func(ctx context.Context, s agentv1.SharedGroupServiceClient) (err error) {
		r, err = s.ZeroVolume(ctx, &agentv1.ZeroVolumeRequest{Group: refOf(ref), Volume: toVolume(v), Discard: discard, Credential: credentialOf(cred)})
		return err
	})
	return sharedlun.Progress{Done: r.GetDone(), DoneBytes: r.GetDoneBytes(), Total: r.GetTotalBytes()}, err
}

// Copy fills a volume that is a copy of another one, or tells how far that is. All copies of the group together copy at most so many bytes per second on the node.
func (c Calls) Copy(
	ctx context.Context, node string, ref sharedlun.Ref, cred sharedlun.Credential, v sharedlun.Volume, discard bool, bytesPerSecond int64,
) (sharedlun.Progress, error) {
	var r *agentv1.CopyVolumeResponse
	err := c.group(ctx, sharedlun.DeviceTimeout, node, "CopyVolume", func(ctx context.Context, s agentv1.SharedGroupServiceClient) (err error) {
		r, err = s.CopyVolume(ctx, &agentv1.CopyVolumeRequest{
			Group: refOf(ref), Volume: toVolume(v), Discard: discard, Credential: credentialOf(cred), BytesPerSecond: bytesPerSecond,
		})
		return err
	})
	return sharedlun.Progress{Done: r.GetDone(), DoneBytes: r.GetDoneBytes(), Total: r.GetTotalBytes()}, err
}

// Format makes the first filesystem of a volume, or tells whether it is there.
func (c Calls) Format(
	ctx context.Context, node string, ref sharedlun.Ref, cred sharedlun.Credential, v sharedlun.Volume, fsType string,
) (done bool, err error) {
	var r *agentv1.FormatVolumeResponse
	err = c.group(ctx, sharedlun.DeviceTimeout, node, "FormatVolume", func(ctx context.Context, s agentv1.SharedGroupServiceClient) (err error) {
		r, err = s.FormatVolume(ctx, &agentv1.FormatVolumeRequest{Group: refOf(ref), Volume: toVolume(v), FsType: fsType, Credential: credentialOf(cred)})
		return err
	})
	return r.GetDone(), err
}
