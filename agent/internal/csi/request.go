package csi

import (
	"cmp"
	"context"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"quarry.storage/quarry/agent/internal/host/fs"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/pkg/csirpc"
)

// present refuses a request that lacks a required field. Fields come as name and value.
func present(fields ...string) error { return csirpc.Present(fields...) }

// begin checks the handle of a volume, locks the volume, and returns the context for work on it, which does not end with the caller's.
func (d *Driver) begin(ctx context.Context, handle string) (context.Context, func(), error) {
	if err := d.cfg.Source.Check(handle); err != nil {
		return nil, nil, err
	}
	unlock, err := d.cfg.Locks.TryLock(handle)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), workTimeout)
	return ctx, func() {
		cancel()
		unlock()
	}, nil
}

// access reads a volume capability that the driver offers.
func (d *Driver) access(c *csi.VolumeCapability) (Access, error) {
	asked, err := csirpc.ReadAccess(c)
	if err != nil {
		return Access{}, err
	}
	return d.cfg.Source.Accept(asked)
}

// AcceptDevice is the part of Accept that all sources of devices share: a raw device, or a filesystem that the agent handles.
func AcceptDevice(asked csirpc.Access) (Access, error) {
	a := Access{Access: asked}
	if a.Block {
		return a, nil
	}
	if a.FSType != "" && !fs.Supported(a.FSType) {
		return Access{}, fmt.Errorf("%w: %.100q", fs.ErrUnsupported, a.FSType)
	}
	var err error
	if a.Options, err = mount.ParseOptions(cmp.Or(a.FSType, fs.Ext4), asked.Flags); err != nil {
		return Access{}, err
	}
	a.Frozen = a.Options.ReadOnly
	return a, nil
}

// ReadOnly reports whether nothing is to be written.
func (a Access) ReadOnly() bool { return a.Frozen || a.Access.ReadOnly() }
