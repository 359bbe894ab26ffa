package iscsi

import (
	"context"
	"fmt"

	"quarry.storage/quarry/agent/internal/csi"
	"quarry.storage/quarry/pkg/sharedlun"
)

// seen refuses a volume of which the LUN does not say that pods may see it, and one on which a program still works that makes a filesystem. Whatever is on
// one that was used stays, even if nothing seems to be there.
func (s *Source) seen(ctx context.Context, id sharedlun.ID, a sharedlun.Attached, on sharedlun.Volume) error {
	if on.Used {
		// That is asked after the LUN was read: nothing begins on a volume that is used.
		making, err := s.cfg.Groups.Making(ctx, a.Ref, a.UUID)
		if err == nil && making {
			err = fmt.Errorf("volume %s: %w: its first filesystem is being made on this node", id, sharedlun.ErrBusy)
		}
		return err
	}
	return fmt.Errorf("volume %s: %w: the LUN does not say that it may be used. The controller has its first filesystem made when it attaches the volume", id, csi.ErrUnavailable)
}

// FirstUse is never called: the controller has the first filesystem of a volume made, and no volume is new here.
func (s *Source) FirstUse(_ context.Context, v csi.Volume, _ csi.From, _ csi.Access) (fsType string, err error) {
	return "", fmt.Errorf("volume %s: %w: no filesystem is made on this node by itself", v.Handle, csi.ErrPrecondition)
}
