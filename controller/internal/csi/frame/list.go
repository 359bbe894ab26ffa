package frame

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"quarry.storage/quarry/pkg/csirpc"
)

// page reads which part of a list is wanted. A token is the handle of the first entry.
func page(limit int32, token string, handles Naming) (csirpc.Page, error) {
	p, err := csirpc.ReadPage(limit, token)
	if err != nil || token == "" {
		return p, err
	}
	if _, err := handles.Parse(token); err != nil {
		return p, csirpc.ErrToken
	}
	return p, nil
}

// ListVolumes lists all volumes of the driver.
func (d *controller) ListVolumes(ctx context.Context, req *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	p, err := page(req.GetMaxEntries(), req.GetStartingToken(), d.Volumes)
	if err != nil {
		return nil, err
	}
	found, next, err := csirpc.Cut(p, d.backend.Volumes(ctx, p.Start), func(v Volume) string { return v.Handle })
	if err != nil {
		return nil, err
	}
	resp := &csi.ListVolumesResponse{NextToken: next}
	for _, v := range found {
		resp.Entries = append(resp.Entries, &csi.ListVolumesResponse_Entry{
			Volume: d.message(v),
			Status: &csi.ListVolumesResponse_VolumeStatus{VolumeCondition: condition(v.Condition), PublishedNodeIds: v.Attached},
		})
	}
	return resp, nil
}
