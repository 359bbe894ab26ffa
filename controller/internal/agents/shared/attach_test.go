package shared

import (
	"context"

	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Attach gives a volume to a node and has it mapped there, as drivers do.
func (s *site) Attach(ctx context.Context, ref sharedlun.Ref, name, node string) (sharedlun.Mapping, error) {
	var v sharedlun.Volume
	var sequence uint64
	err := s.Turn(ctx, ref, func(ctx context.Context, t *san.Turn) (err error) {
		v, err = t.Hold(ctx, name, node)
		sequence = t.Group.Sequence
		return err
	})
	if err != nil {
		return sharedlun.Mapping{}, err
	}
	s.mu.Lock()
	cred := s.granted[node].Credential
	s.mu.Unlock()
	return s.calls.Map(ctx, node, ref, cred, v, sequence)
}

// Remove removes a volume in a turn of its own.
func (s *site) Remove(ctx context.Context, ref sharedlun.Ref, name, uuid string) error {
	return s.Turn(ctx, ref, func(ctx context.Context, t *san.Turn) error { return t.Remove(ctx, name, uuid) })
}
