// Package marks is what tells of an OSD on a disk of the fake host: its labels in the clear, or its headers if it is encrypted.
package marks

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/pkg/osd"
)

// Marks are those of one disk.
type Marks struct {
	Labels  []osd.Found
	Headers []osd.Header
	// Key opens the encrypted disk.
	Key osd.Key
	// Mapped: the encrypted disk is open. Inner: an OSD was made in it. Moved: it was away while it was open, and is another device now.
	Mapped, Inner, Moved bool
}

// Unmarked reports whether there are none.
func (m Marks) Unmarked() bool { return len(m.Labels)+len(m.Headers) == 0 }

// Show adds the marks to what an observation shows of a disk.
func (m Marks) Show(out *plan.Device) {
	out.Labels, out.Headers = slices.Clone(m.Labels), slices.Clone(m.Headers)
	for _, f := range m.Labels {
		out.Signatures = append(out.Signatures, plan.Signature{Type: "ceph_bluestore", Offset: f.Offset, UUID: f.Label.UUID})
	}
	for _, h := range m.Headers {
		out.Signatures = append(out.Signatures, plan.Signature{Type: "crypto_LUKS", Offset: h.Offset, UUID: h.UUID})
	}
	for _, d := range m.Mapping(out.KernelName) {
		if !m.Moved {
			out.Holders = append(out.Holders, d.KernelName)
		}
	}
	if slices.ContainsFunc(m.Labels, func(f osd.Found) bool { return f.Offset > 0 }) {
		out.LabelDigest = fmt.Sprint(m.Labels)
	}
}

// Mapping is the device of the open encrypted disk of that name, if it is open.
func (m Marks) Mapping(name string) []plan.Device {
	if !m.Mapped {
		return nil
	}
	return []plan.Device{{KernelName: "dm-" + name, Path: "/dev/dm-" + name, Type: "dm", Mapping: osd.MappingUUID(m.Headers[0].UUID), Unreadable: []string{"content: not opened"}}}
}

// AtStart is what is in the first MiB; empty for nothing.
func (m Marks) AtStart() string {
	switch {
	case len(m.Headers) > 0:
		return fmt.Sprint(m.Headers)
	case len(m.Labels) > 0 && m.Labels[0].Offset == 0:
		return fmt.Sprint(m.Labels[0])
	}
	return ""
}

// WithoutEnds are the marks that are left once the first and the last MiB were zeroed.
func (m Marks) WithoutEnds() Marks {
	return Marks{Labels: slices.DeleteFunc(slices.Clone(m.Labels), func(f osd.Found) bool { return f.Offset == 0 })}
}

// Cleared are the first so many marks. It is an error if there is one of another OSD, or if the disk is open.
func (m Marks) Cleared(uuid string, left int) (Marks, error) {
	for _, f := range m.Labels {
		if f.Err != nil || f.Label.UUID != uuid {
			return m, fmt.Errorf("the label at %d is of %s", f.Offset, f.Label.UUID)
		}
	}
	for _, h := range m.Headers {
		if h.UUID != uuid || m.Mapped {
			return m, fmt.Errorf("the header at %d is of %s, open: %t", h.Offset, h.UUID, m.Mapped)
		}
	}
	return Marks{Labels: m.Labels[:min(left, len(m.Labels))], Headers: m.Headers[:min(left, len(m.Headers))]}, nil
}

// Sealing are the marks after each write to a disk that is encrypted for an OSD: a header that is not whole, and then both.
func Sealing(want osd.Wanted, key osd.Key, size int64) []Marks {
	drawn := make([]byte, 64)
	// It never fails.
	_, _ = rand.Read(drawn)
	first := osd.Header{UUID: want.UUID, FSID: want.FSID, Salt: hex.EncodeToString(drawn), Sequence: 4, SizeBytes: size}
	torn, second := osd.Header{UUID: want.UUID, FSID: want.FSID, Salt: first.Salt, Err: osd.ErrCut}, first
	second.Offset, second.Salt = osd.HeaderBytes, ""
	return []Marks{{Headers: []osd.Header{torn}}, {Headers: []osd.Header{first, second}, Key: key}}
}

// Finishing are the marks after each write of the word that the making ended: the second header, and then the first one.
func (m Marks) Finishing() ([]Marks, error) {
	if !m.Inner || len(m.Headers) != 2 {
		return nil, fmt.Errorf("%w: nothing was made in it", plan.ErrMismatch)
	}
	half, done := m, m
	done.Headers = slices.Clone(m.Headers)
	for i := range done.Headers {
		done.Headers[i].Ready, done.Headers[i].Sequence = true, 5
	}
	half.Headers = []osd.Header{m.Headers[0], done.Headers[1]}
	return []Marks{half, done}, nil
}

// Map opens an encrypted disk with a key, or closes it without one.
func (m *Marks) Map(key osd.Key) error {
	if !key.IsZero() && (len(m.Headers) == 0 || !m.Key.Equal(key)) {
		return errors.New("cryptsetup: no key available with this passphrase")
	}
	m.Mapped, m.Moved = !key.IsZero(), false
	return nil
}

// Label writes the label of an OSD in the clear, or one of its copies, as it is before the making ends, or after.
func (m *Marks) Label(want osd.Wanted, size int64, place int, ready bool) {
	l := osd.Label{UUID: want.UUID, SizeBytes: size, Born: time.Now().UTC(), Description: "main", Epoch: 2}
	if len(m.Labels) > 0 {
		l.Born = m.Labels[0].Label.Born
	}
	if ready {
		l.FSID, l.ID, l.Ready, l.Epoch = want.FSID, strconv.Itoa(want.ID), true, 15
	}
	f := osd.Found{Offset: osd.Places(size)[place], Label: l}
	if place < len(m.Labels) {
		m.Labels[place] = f
		return
	}
	m.Labels = append(m.Labels, f)
}
