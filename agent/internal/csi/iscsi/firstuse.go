package iscsi

import (
	"context"
	"fmt"

	"quarry.storage/quarry/agent/internal/csi"
	"quarry.storage/quarry/pkg/sharedlun"
)

// seen refuses a volume of which the LUN does not say that pods may see it. Whatever is on one that was used stays, even if nothing seems to be there.
func seen(id sharedlun.ID, on sharedlun.Volume) error {
	if on.Used {
		return nil
	}
	return fmt.Errorf("volume %s: %w: the LUN does not say that it may be used. The controller has its first filesystem made when it attaches the volume", id, csi.ErrUnavailable)
}

// FirstUse is never called: the controller has the first filesystem of a volume made, and no volume is new here.
func (s *Source) FirstUse(_ context.Context, v csi.Volume, _ csi.From, _ csi.Access) (fsType string, err error) {
	return "", fmt.Errorf("volume %s: %w: no filesystem is made on this node by itself", v.Handle, csi.ErrPrecondition)
}
