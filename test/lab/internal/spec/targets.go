package spec

import (
	"fmt"
	"slices"
)

// WithTarget gives the storage node with one more target, or with a change of
// one that it has. serial gives the serial of each new LUN.
func (s Storage) WithTarget(name string, wish TargetWish, serial func() string) (Storage, error) {
	if !targetNamePattern.MatchString(name) {
		return s, fmt.Errorf("target %q: want up to 63 lower-case letters, digits, dots and dashes, with a letter or digit in front", name)
	}
	i := s.target(name)
	t := Target{Name: name, Portals: 1, Slot: s.freeSlot()}
	if i >= 0 {
		t = s.Targets[i]
	}
	t, err := t.with(wish, serial)
	switch {
	case err != nil:
		return s, fmt.Errorf("target %s: %w", name, err)
	case t.Slot >= MaxTargets:
		return s, fmt.Errorf("target %s: %d targets are there, and the address plan has room for no more", name, len(s.Targets))
	}
	s.Targets = slices.Clone(s.Targets)
	if i >= 0 {
		s.Targets[i] = t
	} else {
		s.Targets = append(s.Targets, t)
	}
	return s, nil
}

func (s Storage) target(name string) int {
	return slices.IndexFunc(s.Targets, func(t Target) bool { return t.Name == name })
}

func (s Storage) freeSlot() int {
	for slot := 0; ; slot++ {
		if !slices.ContainsFunc(s.Targets, func(t Target) bool { return t.Slot == slot }) {
			return slot
		}
	}
}

// Target gives one of the targets.
func (s Storage) Target(name string) (Target, error) {
	if i := s.target(name); i >= 0 {
		return s.Targets[i], nil
	}
	return Target{}, fmt.Errorf("the storage node has no target %q", name)
}

// WithoutTarget gives the storage node without a target.
func (s Storage) WithoutTarget(name string) (Storage, error) {
	if _, err := s.Target(name); err != nil {
		return s, err
	}
	s.Targets = slices.DeleteFunc(slices.Clone(s.Targets), func(t Target) bool { return t.Name == name })
	return s, nil
}

// change gives the storage node with another target in the place of one.
func (s Storage) change(name string, change func(*Target) error) (Storage, error) {
	t, err := s.Target(name)
	if err != nil {
		return s, err
	}
	if err := change(&t); err != nil {
		return s, fmt.Errorf("target %s: %w", name, err)
	}
	s.Targets = slices.Clone(s.Targets)
	s.Targets[s.target(name)] = t
	return s, nil
}

// WithStopped gives the storage node with a target that takes no sessions, or
// takes them again.
func (s Storage) WithStopped(name string, stopped bool) (Storage, error) {
	return s.change(name, func(t *Target) error {
		t.Stopped = stopped
		return nil
	})
}

// WithCut gives the storage node with a path of a target cut or healed.
func (s Storage) WithCut(name string, portal int, cut bool) (Storage, error) {
	return s.change(name, func(t *Target) error {
		if portal < 1 || portal > t.Portals {
			return fmt.Errorf("portal %d: it has 1 to %d", portal, t.Portals)
		}
		t.Cut = slices.DeleteFunc(slices.Clone(t.Cut), func(n int) bool { return n == portal })
		if cut {
			t.Cut = append(t.Cut, portal)
			slices.Sort(t.Cut)
		}
		return nil
	})
}

// WithWiped gives the storage node with other, empty disks behind the LUNs of a
// target.
func (s Storage) WithWiped(name string, serial func() string) (Storage, error) {
	return s.change(name, func(t *Target) error {
		t.LUNs = slices.Clone(t.LUNs)
		for i, l := range t.LUNs {
			t.LUNs[i] = LUN{Serial: serial(), Bytes: l.Bytes}
		}
		return nil
	})
}

// WithDevice gives the storage node with the device of the LUN that has the
// serial.
func (s Storage) WithDevice(serial, device string) Storage {
	s.Targets = slices.Clone(s.Targets)
	for i := range s.Targets {
		s.Targets[i].LUNs = slices.Clone(s.Targets[i].LUNs)
		for n := range s.Targets[i].LUNs {
			if l := &s.Targets[i].LUNs[n]; l.Serial == serial {
				l.Device = device
			}
		}
	}
	return s
}

// LUNs lists those of all targets.
func (s Storage) LUNs() []LUN {
	var out []LUN
	for _, t := range s.Targets {
		out = append(out, t.LUNs...)
	}
	return out
}
