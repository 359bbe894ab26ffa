package reservation

import (
	"encoding/binary"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/pkg/sharedlun"
)

// fakeTarget keeps reservations of one LUN as SPC-4 says, per path.
type fakeTarget struct {
	keys       map[string]uint64
	holder     string
	kind       byte
	generation uint32

	unsupported, noCapabilities, persists, descriptor bool
	// oneHolder is a target without type 7; silent is one that does not tell its types.
	oneHolder, silent bool
	// attentions is how many events each command is told of first.
	attentions, told int
	persisted        bool
}

func sense(key, code byte, descriptor bool) []byte {
	if descriptor {
		return []byte{0x72, key, code, 0, 0, 0, 0, 0}
	}
	s := make([]byte, 18)
	s[0], s[2], s[12] = 0x70, key, code
	return s
}

func (f *fakeTarget) refuse(key, code byte) reply {
	return reply{status: statusCheckCondition, driver: driverSense, sense: sense(key, code, f.descriptor)}
}

func (f *fakeTarget) send(path string, c command) (reply, error) {
	if f.unsupported {
		return f.refuse(keyIllegalRequest, codeInvalidOperation), nil
	}
	if f.told < f.attentions {
		f.told++
		return f.refuse(keyUnitAttention, 0x2a), nil
	}
	f.told = 0
	if c.cdb[0] == opIn {
		data := f.in(c.cdb[1])
		if data == nil {
			return f.refuse(keyIllegalRequest, codeInvalidField), nil
		}
		return reply{data: data[:min(len(data), int(binary.BigEndian.Uint16(c.cdb[7:])))]}, nil
	}
	if c.cdb[0] != opOut || len(c.list) != listBytes || binary.BigEndian.Uint32(c.cdb[5:]) != listBytes {
		return f.refuse(keyIllegalRequest, codeInvalidOperation), nil
	}
	if c.cdb[1] != registerAction && c.cdb[2] == sharedlun.WriteExclusiveAllRegistrants && f.oneHolder {
		return f.refuse(keyIllegalRequest, codeInvalidField), nil
	}
	return reply{status: f.out(path, c)}, nil
}

func (f *fakeTarget) in(action byte) []byte {
	out := make([]byte, headerBytes)
	binary.BigEndian.PutUint32(out, f.generation)
	switch action {
	case capabilitiesAction:
		if f.noCapabilities {
			return nil
		}
		out[1] = headerBytes
		if f.persists {
			out[2] = 1
		}
		if !f.silent {
			// WE_RO, WE and all that are exclusive are there.
			out[3], out[4], out[5] = maskValid, 0x6a, 0x01
		}
		if !f.silent && !f.oneHolder {
			out[4] |= allRegistrants
		}
		return out
	case keysAction:
		for _, path := range slices.Sorted(maps.Keys(f.keys)) {
			out = binary.BigEndian.AppendUint64(out, f.keys[path])
		}
	case reservationAction:
		if f.kind != 0 {
			out = binary.BigEndian.AppendUint64(out, f.keys[f.holder])
			out = append(out, 0, 0, 0, 0, 0, f.kind, 0, 0)
		}
	default:
		return nil
	}
	binary.BigEndian.PutUint32(out[4:], uint32(len(out)-headerBytes))
	return out
}

func (f *fakeTarget) out(path string, c command) byte {
	key, next := binary.BigEndian.Uint64(c.list), binary.BigEndian.Uint64(c.list[8:])
	if f.keys[path] != key {
		return statusConflict
	}
	switch c.cdb[1] {
	case registerAction:
		return f.register(path, next, c.list[20]&persistFlag != 0)
	case reserveAction:
		if key == 0 || f.kind != 0 && (f.kind != c.cdb[2] || f.kind != allHold && f.holder != path) {
			return statusConflict
		}
		f.reserve(path, c.cdb[2])
	case preemptAction, preemptAbortAction:
		if key == 0 || !slices.Contains(slices.Collect(maps.Values(f.keys)), next) {
			return statusConflict
		}
		if f.holder != "" && f.keys[f.holder] == next {
			f.reserve(path, c.cdb[2])
		}
		maps.DeleteFunc(f.keys, func(p string, k uint64) bool { return k == next && p != path })
		f.generation++
	}
	return statusGood
}

const allHold = sharedlun.WriteExclusiveAllRegistrants

// reserve lets a path hold the reservation, or all.
func (f *fakeTarget) reserve(path string, kind byte) {
	if f.holder, f.kind = path, kind; kind == allHold {
		f.holder = ""
	}
}

func (f *fakeTarget) register(path string, next uint64, persist bool) byte {
	f.generation++
	f.keys[path] = next
	if next == 0 {
		delete(f.keys, path)
		if f.holder == path || len(f.keys) == 0 {
			f.holder, f.kind = "", 0
		}
	} else {
		f.persisted = persist
	}
	return statusGood
}

func (f *fakeTarget) write(path string) error {
	if f.kind != 0 && f.keys[path] == 0 {
		return unix.EBADE
	}
	return nil
}
