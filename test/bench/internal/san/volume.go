package san

import (
	"context"
	"errors"
	"fmt"

	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// change makes one change of the group, on the state that the last one left.
func (c *Client) change(ctx context.Context, req *agentv1.ChangeSharedGroupRequest) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req.Group, req.Mandate, req.Sequence = c.ref(), c.mandate(), c.group.GetSequence()
	resp, err := c.groups().ChangeSharedGroup(ctx, req)
	if err != nil {
		return fmt.Errorf("%T: %w", req.GetChange(), err)
	}
	c.group = resp.GetGroup()
	return nil
}

// volume is a volume as the last change left it.
func (c *Client) volume(name string) (*agentv1.SharedVolume, error) {
	for _, v := range c.group.GetVolumes() {
		if v.GetName() == name {
			return v, nil
		}
	}
	return nil, fmt.Errorf("group %s has no volume %s", c.group.GetName(), name)
}

// Create makes a volume that no node has yet.
func (c *Client) Create(ctx context.Context, name string, bytes int64) error {
	return c.change(ctx, &agentv1.ChangeSharedGroupRequest{Change: &agentv1.ChangeSharedGroupRequest_Create{
		Create: &agentv1.ChangeSharedGroupRequest_CreateVolume{Name: name, SizeBytes: bytes},
	}})
}

// Remove removes a volume that no node has.
func (c *Client) Remove(ctx context.Context, name string) error {
	v, err := c.volume(name)
	if err != nil {
		return err
	}
	return c.change(ctx, &agentv1.ChangeSharedGroupRequest{Change: &agentv1.ChangeSharedGroupRequest_Remove{
		Remove: &agentv1.ChangeSharedGroupRequest_RemoveVolume{Name: name, Uuid: v.GetUuid()},
	}})
}

// CreateMapped makes a volume and its device on this node: all that the controller asks for but the zeroing.
func (c *Client) CreateMapped(ctx context.Context, name string, bytes int64) (*agentv1.Mapping, error) {
	if err := c.Create(ctx, name, bytes); err != nil {
		return nil, err
	}
	v, err := c.volume(name)
	if err != nil {
		return nil, err
	}
	hold := &agentv1.ChangeSharedGroupRequest_HoldVolume{Name: name, Uuid: v.GetUuid(), Node: c.cfg.Node}
	ready := &agentv1.ChangeSharedGroupRequest_ReadyVolume{Name: name, Uuid: v.GetUuid(), ReadyBytes: v.GetSizeBytes()}
	for _, req := range []*agentv1.ChangeSharedGroupRequest{
		{Change: &agentv1.ChangeSharedGroupRequest_Hold{Hold: hold}}, {Change: &agentv1.ChangeSharedGroupRequest_Ready{Ready: ready}},
	} {
		if err := c.change(ctx, req); err != nil {
			return nil, err
		}
	}
	if v, err = c.volume(name); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := c.groups().MapVolume(ctx, &agentv1.MapVolumeRequest{
		Group: c.ref(), Volume: v, Sequence: c.group.GetSequence(), Credential: c.credential(),
	})
	if err != nil {
		return nil, fmt.Errorf("map volume %s: %w", name, err)
	}
	return resp.GetMapping(), nil
}

// RemoveMapped takes a volume from this node, and removes it.
func (c *Client) RemoveMapped(ctx context.Context, name string) error {
	v, err := c.volume(name)
	if err != nil {
		return err
	}
	leave := &agentv1.ChangeSharedGroupRequest_LeaveVolume{Name: name, Uuid: v.GetUuid(), Node: c.cfg.Node}
	if err := c.change(ctx, &agentv1.ChangeSharedGroupRequest{Change: &agentv1.ChangeSharedGroupRequest_Leave{Leave: leave}}); err != nil {
		return err
	}
	if err := c.unmap(ctx, v.GetUuid()); err != nil {
		return err
	}
	release := &agentv1.ChangeSharedGroupRequest_ReleaseVolume{Name: name, Uuid: v.GetUuid(), Node: c.cfg.Node}
	if err := c.change(ctx, &agentv1.ChangeSharedGroupRequest{Change: &agentv1.ChangeSharedGroupRequest_Release{Release: release}}); err != nil {
		return err
	}
	return c.Remove(ctx, name)
}

func (c *Client) unmap(ctx context.Context, uuid string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := c.groups().UnmapVolume(ctx, &agentv1.UnmapVolumeRequest{Group: c.ref(), VolumeUuid: uuid, Sequence: c.group.GetSequence()})
	if err != nil {
		return fmt.Errorf("unmap volume %s: %w", uuid, err)
	}
	return nil
}

// removeAll removes the volumes that a measurement left which failed.
func (c *Client) removeAll(ctx context.Context) error {
	seen, err := c.groups().GetSharedGroup(ctx, &agentv1.GetSharedGroupRequest{Group: c.ref()})
	if err != nil {
		return fmt.Errorf("read the group: %w", err)
	}
	c.group = seen.GetGroup()
	var errs []error
	for _, v := range seen.GetGroup().GetVolumes() {
		errs = append(errs, c.RemoveMapped(ctx, v.GetName()))
	}
	return errors.Join(errs...)
}
