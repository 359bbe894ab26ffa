package reservation

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/pkg/sharedlun"
)

// Operation codes and pages of what tells a LUN from others (SPC-4, 6.6 and 7.8; SBC-3, 5.16).
const (
	opInquiry        = 0x12
	opServiceIn      = 0x9e
	actionCapacity   = 0x10
	pageSerial       = 0x80
	pageIdentity     = 0x83
	inquiryBytes     = 0x1000
	capacityBytes    = 32
	pageHeaderBytes  = 4
	designatorHeader = 4
	// qualifierShift is where in the first byte of a page the peripheral qualifier begins.
	qualifierShift = 5
)

// Identity is what the target says of a LUN right now.
type Identity struct {
	// WWIDs are all names of the LUN, in the kernel's words.
	WWIDs     []string
	Serial    string
	SizeBytes int64
}

// Is refuses a LUN that is not the recorded one.
func (i Identity) Is(recorded sharedlun.Identity) error { return recorded.Same(i.beside(recorded)) }

// Other returns sharedlun.ErrOtherLun for a LUN that says it is another one than the recorded one. What it does not say tells nothing: to be refused, a LUN need
// not say who it is, but whoever ends the work on it has to know. Its size is no name.
func (i Identity) Other(recorded sharedlun.Identity) error {
	seen := i.beside(recorded)
	if len(i.WWIDs) == 0 {
		seen.WWID = recorded.WWID
	}
	if i.Serial == "" {
		seen.Serial = recorded.Serial
	}
	return recorded.Named(seen)
}

// beside is the identity in the form of a recorded one: a LUN has several names, of which one is on record.
func (i Identity) beside(recorded sharedlun.Identity) sharedlun.Identity {
	seen := sharedlun.Identity{WWID: strings.Join(i.WWIDs, " "), Serial: i.Serial, SizeBytes: i.SizeBytes}
	if slices.Contains(i.WWIDs, recorded.WWID) {
		seen.WWID = recorded.WWID
	}
	return seen
}

// Identify asks the target behind a path which LUN it is. The kernel's own answer is as old as the device.
func (t *Tool) Identify(ctx context.Context, device string) (Identity, error) {
	names, err := t.page(ctx, device, pageIdentity)
	if err != nil {
		return Identity{}, err
	}
	serial, err := t.page(ctx, device, pageSerial)
	if err != nil {
		return Identity{}, err
	}
	c := command{name: "read capacity", room: capacityBytes, cdb: make([]byte, 16)}
	c.cdb[0], c.cdb[1], c.cdb[13] = opServiceIn, actionCapacity, capacityBytes
	capacity, err := t.do(ctx, device, c)
	if err != nil {
		return Identity{}, err
	}
	if len(capacity) < 12 {
		return Identity{}, fmt.Errorf("size of %s: %d bytes: %w", device, len(capacity), sharedlun.ErrUnread)
	}
	blocks, size := binary.BigEndian.Uint64(capacity)+1, binary.BigEndian.Uint32(capacity[8:])
	return Identity{WWIDs: designators(names), Serial: strings.Trim(string(serial), " \x00"), SizeBytes: int64(blocks) * int64(size)}, nil
}

// page reads what is in a page of the device's identity.
func (t *Tool) page(ctx context.Context, device string, number byte) ([]byte, error) {
	c := command{name: fmt.Sprintf("inquiry of page %#x", number), room: inquiryBytes, cdb: []byte{opInquiry, 1, number, inquiryBytes >> 8, 0, 0}}
	data, err := t.do(ctx, device, c)
	if err != nil {
		return nil, err
	}
	if len(data) < pageHeaderBytes || data[1] != number {
		return nil, fmt.Errorf("page %#x of %s: %d bytes: %w", number, device, len(data), sharedlun.ErrUnread)
	}
	if qualifier := data[0] >> qualifierShift; qualifier != 0 {
		// The target answers for a number under which nothing is, or nothing that works: what it says then is not a LUN's.
		return nil, fmt.Errorf("page %#x of %s: nothing is connected there (peripheral qualifier %d): %w", number, device, qualifier, sharedlun.ErrUnread)
	}
	length := int(binary.BigEndian.Uint16(data[2:]))
	return data[pageHeaderBytes:min(len(data), pageHeaderBytes+length)], nil
}

// designators are the names of the LUN itself, among those of page 0x83.
func designators(page []byte) []string {
	var out []string
	for len(page) > designatorHeader {
		length := int(page[3])
		if len(page) < designatorHeader+length {
			break
		}
		kind, association, text := page[1]&0x0f, page[1]>>4&3, page[designatorHeader:designatorHeader+length]
		page = page[designatorHeader+length:]
		if association != 0 || length == 0 {
			continue
		}
		switch kind {
		case 1:
			out = append(out, "t10."+strings.Trim(string(text), " \x00"))
		case 2:
			out = append(out, "eui."+hex.EncodeToString(text))
		case 3:
			out = append(out, "naa."+hex.EncodeToString(text))
		case 8:
			out = append(out, strings.Trim(string(text), " \x00"))
		}
	}
	return out
}
