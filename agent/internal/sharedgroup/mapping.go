package sharedgroup

import (
	"context"
	"fmt"

	"quarry.storage/quarry/agent/internal/sharedgroup/decide"
	"quarry.storage/quarry/pkg/sharedlun"
)

// order is the latest order to map or unmap a volume. After a start of the agent there is none: connections end with it, and with them the requests
// that are under way.
type order struct {
	sequence uint64
	unmapped bool
}

func key(group, volume string) string { return group + "/" + volume }

// newest refuses an order that is older than the latest one of the volume. After an order to unmap, one to map has to be decided on a later report:
// the same one may have been sent before.
func (s *Service) newest(k string, sequence uint64, unmap bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.orders[k]
	if sequence < last.sequence || sequence == last.sequence && last.unmapped && !unmap {
		return fmt.Errorf("%w: the order was decided on sequence number %d, another one of this volume on %d", sharedlun.ErrMoved, sequence, last.sequence)
	}
	s.orders[k] = order{sequence: sequence, unmapped: unmap}
	return nil
}

// Map makes the device of a volume have exactly its ranges, if the LUN says that the volume is this node's. An order may come late: the LUN tells what
// holds now. Whoever takes the volume away marks it there first, and has it unmapped afterwards.
func (s *Service) Map(ctx context.Context, ref sharedlun.Ref, v sharedlun.Volume, sequence uint64) (sharedlun.Mapping, error) {
	if err := checkVolume(ref, v, sequence); err != nil {
		return sharedlun.Mapping{}, err
	}
	k := key(ref.UUID, v.UUID)
	unlock, err := s.locks.lock(ctx, k)
	if err != nil {
		return sharedlun.Mapping{}, err
	}
	defer unlock()
	if err := s.newest(k, sequence, false); err != nil {
		return sharedlun.Mapping{}, err
	}
	number, bytes, err := s.lun(ctx, ref)
	if err != nil {
		return sharedlun.Mapping{}, unknown(err)
	}
	found, err := s.look(ctx, ref)
	if err != nil {
		return sharedlun.Mapping{}, err
	}
	group, err := decide.Same(ref, found)
	if err != nil {
		return sharedlun.Mapping{}, err
	}
	if err := decide.Mine(group, v, s.cfg.Node); err != nil {
		return sharedlun.Mapping{}, err
	}
	have, err := s.mapped(ctx, ref.UUID, v.UUID)
	if err != nil {
		return sharedlun.Mapping{}, unknown(err)
	}
	action, err := decide.Map(have, v, number, bytes)
	if err != nil {
		return sharedlun.Mapping{}, err
	}
	if action != decide.Keep {
		if s.zeroing(k) {
			return sharedlun.Mapping{}, fmt.Errorf("volume %s is being zeroed: %w", v.Name, sharedlun.ErrInUse)
		}
		// What was zeroed is not what will be there.
		s.forget(k)
		if err := s.load(ctx, action, ref.UUID, v, number); err != nil {
			return sharedlun.Mapping{}, unknown(err)
		}
	}
	return s.confirmed(ctx, ref.UUID, v, number, bytes)
}

func checkVolume(ref sharedlun.Ref, v sharedlun.Volume, sequence uint64) error {
	for _, err := range []error{ref.Check(), sharedlun.CheckUUID("volume", v.UUID), v.CheckTable()} {
		if err != nil {
			return err
		}
	}
	if sequence == 0 {
		return fmt.Errorf("%w: no sequence number", sharedlun.ErrInvalid)
	}
	return nil
}

// lun finds the LUN, with the number and the size of its device.
func (s *Service) lun(ctx context.Context, ref sharedlun.Ref) (number string, bytes int64, err error) {
	device, err := s.cfg.Luns.Device(ctx, ref.Lun)
	if err != nil {
		return "", 0, err
	}
	return s.cfg.Devices.Number(ctx, device)
}

func (s *Service) load(ctx context.Context, action decide.Action, group string, v sharedlun.Volume, number string) error {
	if action == decide.Renew {
		if err := s.cfg.Devices.Remove(ctx, group, v.UUID); err != nil {
			return err
		}
	}
	return s.cfg.Devices.Load(ctx, group, v.UUID, number, v.Ranges)
}

// confirmed reads the device back, and returns it if nothing is left to do.
func (s *Service) confirmed(ctx context.Context, group string, v sharedlun.Volume, number string, bytes int64) (sharedlun.Mapping, error) {
	have, err := s.mapped(ctx, group, v.UUID)
	if err != nil {
		return sharedlun.Mapping{}, unknown(err)
	}
	if action, err := decide.Map(have, v, number, bytes); err != nil || action != decide.Keep {
		return sharedlun.Mapping{}, fmt.Errorf("%w: the device of volume %s was made, and has another table: %+v", sharedlun.ErrUnknown, v.Name, have)
	}
	return toMapping(*have), nil
}

// mapped is the device of a volume; nil when there is none.
func (s *Service) mapped(ctx context.Context, group, volume string) (*decide.Mapped, error) {
	all, err := s.cfg.Devices.List(ctx, group)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if m.VolumeUUID == volume {
			return &m, nil
		}
	}
	return nil, nil
}

func toMapping(m decide.Mapped) sharedlun.Mapping {
	return sharedlun.Mapping{VolumeUUID: m.VolumeUUID, Device: m.Path, Ranges: m.Ranges, InUse: m.InUse}
}

// Unmap removes the device of a volume, and ends its zeroing before. It needs no LUN: a device whose LUN is gone is removed, too.
func (s *Service) Unmap(ctx context.Context, ref sharedlun.Ref, volume string, sequence uint64, fenced bool) error {
	for _, err := range []error{ref.Check(), sharedlun.CheckUUID("volume", volume)} {
		if err != nil {
			return err
		}
	}
	if sequence == 0 {
		return fmt.Errorf("%w: no sequence number", sharedlun.ErrInvalid)
	}
	k := key(ref.UUID, volume)
	unlock, err := s.locks.lock(ctx, k)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.newest(k, sequence, true); err != nil {
		return err
	}
	if err := s.endZeroing(ctx, k); err != nil {
		return unknown(err)
	}
	var cut error
	if fenced {
		cut = s.cfg.Devices.Cut(ctx, ref.UUID, volume)
	}
	if err := s.cfg.Devices.Remove(ctx, ref.UUID, volume); err != nil {
		if cut != nil {
			err = fmt.Errorf("%w (its I/O did not end: %w)", err, cut)
		}
		return unknown(err)
	}
	return nil
}

// Mappings tells the devices of a group's volumes, ordered by volume.
func (s *Service) Mappings(ctx context.Context, ref sharedlun.Ref) ([]sharedlun.Mapping, error) {
	if err := ref.Check(); err != nil {
		return nil, err
	}
	all, err := s.cfg.Devices.List(ctx, ref.UUID)
	if err != nil {
		return nil, unknown(err)
	}
	var out []sharedlun.Mapping
	for _, m := range all {
		out = append(out, toMapping(m))
	}
	return out, nil
}
