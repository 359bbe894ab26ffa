package sharedgroup

import (
	"context"
	"fmt"
	"strings"

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

// prune drops the orders about volumes that are not in the group any more, by a report that is at least as new as what they were decided on. No volume has the UUID of one that
// was removed, and a late order to map it finds none on the LUN.
func (s *Service) prune(g sharedlun.Group) {
	there := map[string]bool{}
	for _, v := range g.Volumes {
		there[key(g.UUID, v.UUID)] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, o := range s.orders {
		if strings.HasPrefix(k, key(g.UUID, "")) && !there[k] && o.sequence <= g.Sequence {
			delete(s.orders, k)
		}
	}
}

// Map makes the device of a volume show exactly its ready part, if the LUN says that the volume is this node's. An order may come late: the LUN tells what
// holds now. Whoever takes the volume away marks it there first, and has it unmapped afterwards.
func (s *Service) Map(
	ctx context.Context, ref sharedlun.Ref, cred sharedlun.Credential, v sharedlun.Volume, sequence uint64,
) (sharedlun.Mapping, error) {
	if err := checkVolume(ref, v, sequence); err != nil {
		return sharedlun.Mapping{}, err
	}
	k := key(ref.UUID, v.UUID)
	s.watch(ref)
	unlock, err := s.lock(ctx, k)
	if err != nil {
		return sharedlun.Mapping{}, err
	}
	defer unlock()
	if err := s.newest(k, sequence, false); err != nil {
		return sharedlun.Mapping{}, err
	}
	w, err := s.wanted(ctx, ref, cred, v, sequence)
	if err != nil {
		return sharedlun.Mapping{}, err
	}
	defer s.cfg.Changing()()
	if err := s.bring(ctx, w); err != nil {
		return sharedlun.Mapping{}, unknown(err)
	}
	return s.readBack(ctx, w)
}

// wanted is the device of a volume as it is to be.
type wanted struct {
	ref    sharedlun.Ref
	cred   sharedlun.Credential
	volume sharedlun.Volume
	// number and bytes of the LUN's device, and the ranges on it.
	number string
	bytes  int64
	ranges []sharedlun.Range
}

// wanted looks at the LUN, and at the group on it.
func (s *Service) wanted(ctx context.Context, ref sharedlun.Ref, cred sharedlun.Credential, v sharedlun.Volume, sequence uint64) (wanted, error) {
	w := wanted{ref: ref, cred: cred}
	var err error
	if w.number, w.bytes, err = s.lun(ctx, ref); err != nil {
		return w, unknown(err)
	}
	found, err := s.look(ctx, ref)
	if err != nil {
		return w, err
	}
	group, err := decide.Same(ref, found)
	if err != nil {
		return w, err
	}
	if group.Sequence < sequence {
		return w, fmt.Errorf("%w: the volume group that this node sees is older than the one that the order was decided on: it is at sequence number %d, that was at %d. "+
			"The target shows an earlier state of the LUN", sharedlun.ErrUnread, group.Sequence, sequence)
	}
	if w.volume, err = decide.Mine(group, v, s.cfg.Node); err != nil {
		return w, err
	}
	w.ranges, err = decide.Shown(w.volume)
	return w, err
}

// bring makes the device what is wanted.
func (s *Service) bring(ctx context.Context, w wanted) error {
	k := key(w.ref.UUID, w.volume.UUID)
	have, err := s.mapped(ctx, w.ref.UUID, w.volume.UUID)
	if err != nil {
		return err
	}
	action, err := decide.Map(have, w.volume.UUID, w.ranges, w.number, w.bytes)
	switch {
	case err != nil:
		return err
	case s.zeroes(k, w.volume.ReadyBytes):
		// Whoever said that it is ready did not wait for the end.
		return fmt.Errorf("a part of volume %s that is ready is being zeroed: %w", w.volume.Name, sharedlun.ErrInUse)
	case action == decide.Keep:
		return s.mayWrite(ctx, w.ref.Lun, w.cred)
	case action == decide.Renew:
		// Its zeroing goes through a device that is removed, too. Whoever waits for it has it begun again.
		if err := s.end(ctx, k); err != nil {
			return err
		}
		if err := s.cfg.Devices.Remove(ctx, w.ref.UUID, w.volume.UUID); err != nil {
			return err
		}
	}
	return s.cfg.Devices.Load(ctx, w.ref.UUID, w.volume.UUID, w.number, w.ranges, s.sure(w.ref, w.cred, w.number))
}

// sure looks once more, when a table for the device with that number is loaded, whether that is the LUN, and whether this node may write to it. The number
// may have become another device's before the table had it.
func (s *Service) sure(ref sharedlun.Ref, cred sharedlun.Credential, number string) func(context.Context) error {
	return func(ctx context.Context) error {
		now, _, err := s.lun(ctx, ref)
		switch {
		case err != nil:
			return unread(err)
		case now != number:
			return fmt.Errorf("%w: the LUN was device %s, and is %s by now", sharedlun.ErrMoved, number, now)
		}
		return s.mayWrite(ctx, ref.Lun, cred)
	}
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

// readBack returns the device, if nothing is left to do.
func (s *Service) readBack(ctx context.Context, w wanted) (sharedlun.Mapping, error) {
	have, err := s.mapped(ctx, w.ref.UUID, w.volume.UUID)
	if err != nil {
		return sharedlun.Mapping{}, unknown(err)
	}
	if action, err := decide.Map(have, w.volume.UUID, w.ranges, w.number, w.bytes); err != nil || action != decide.Keep {
		return sharedlun.Mapping{}, fmt.Errorf("%w: the device of volume %s was made, and has another table: %+v", sharedlun.ErrUnknown, w.volume.Name, have)
	}
	return toMapping(*have), nil
}

// mapped is the device that a volume shows; nil when there is none.
func (s *Service) mapped(ctx context.Context, group, volume string) (*decide.Mapped, error) {
	all, err := s.cfg.Devices.List(ctx, group)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if m.VolumeUUID == volume && m.Part == sharedlun.PartShown {
			return &m, nil
		}
	}
	return nil, nil
}

func toMapping(m decide.Mapped) sharedlun.Mapping {
	return sharedlun.Mapping{VolumeUUID: m.VolumeUUID, Part: m.Part, Device: m.Path, Ranges: m.Ranges, InUse: m.InUse, Cut: m.Cut, Suspended: m.Suspended}
}

// Unmap removes the device of a volume, and ends its zeroing and the making of its filesystem before. It needs no LUN: a device whose LUN is gone is removed, too.
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
	unlock, err := s.lock(ctx, k)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.newest(k, sequence, true); err != nil {
		return err
	}
	defer s.cfg.Changing()()
	s.cancel(formatKey(k))
	if err := s.end(ctx, k); err != nil {
		return unknown(err)
	}
	var cut error
	if fenced {
		cut = s.cfg.Devices.Cut(ctx, ref.UUID, volume)
	}
	// It may wait for I/O that hangs until the device is cut.
	if err := s.end(ctx, formatKey(k)); err != nil {
		return unknown(err)
	}
	if err := s.cfg.Devices.Remove(ctx, ref.UUID, volume); err != nil {
		if cut != nil {
			// The caller must not conclude that the device returns errors, as one does that is in use.
			err = fmt.Errorf("%w: %w (its I/O did not end: %w)", sharedlun.ErrUnknown, err, cut)
		}
		return unknown(err)
	}
	return nil
}

// Mappings tells the devices of a group's volumes, those of zeroing and copying too, ordered by volume.
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
