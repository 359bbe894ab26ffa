package disk

import (
	"context"

	"quarry.storage/quarry/agent/internal/apply"
	"quarry.storage/quarry/pkg/osd"
)

// SealOSD writes the start of the disk of an encrypted OSD to a clean device.
func (a Adapter) SealOSD(ctx context.Context, path, uuid string, start []byte, verify apply.Verify) error {
	return refused(a.Tool.SealOSD(ctx, path, uuid, start, a.verifier(ctx, verify)))
}

// FinishOSD writes the headers of an encrypted OSD with the word that its making ended.
func (a Adapter) FinishOSD(ctx context.Context, path, uuid string, headers []byte, verify apply.Verify) error {
	return refused(a.Tool.FinishOSD(ctx, path, uuid, headers, a.verifier(ctx, verify)))
}

// Headers reads the start of the disk of an encrypted OSD.
func (a Adapter) Headers(ctx context.Context, path, uuid string) ([]byte, error) {
	start, err := a.Tool.Headers(ctx, path, uuid)
	return start, refused(err)
}

// Label reads the label at the start of a device.
func (a Adapter) Label(ctx context.Context, path string) (osd.Label, error) {
	return a.Tool.Label(ctx, path)
}
