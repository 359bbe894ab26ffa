// Package osdtest writes labels of BlueStore, for tests.
package osdtest

import (
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"maps"
	"slices"
	"strconv"
	"strings"

	"quarry.storage/quarry/pkg/osd"
)

// Block is a block as Ceph writes it for the label, with more pairs of keys and values.
func Block(l osd.Label, more map[string]string) []byte {
	pairs := map[string]string{}
	maps.Copy(pairs, more)
	for key, value := range map[string]string{"ceph_fsid": l.FSID, "whoami": l.ID} {
		if value != "" {
			pairs[key] = value
		}
	}
	if l.Ready {
		pairs["ready"] = "ready"
	}
	if l.Epoch > 0 {
		pairs["epoch"], pairs["multi"] = strconv.FormatInt(l.Epoch, 10), "yes"
	}
	le := binary.LittleEndian
	uuid, err := hex.DecodeString(strings.ReplaceAll(l.UUID, "-", ""))
	if err != nil {
		panic(err)
	}
	body := le.AppendUint64(uuid, uint64(l.SizeBytes))
	body = le.AppendUint32(body, uint32(l.Born.Unix()))
	body = le.AppendUint32(body, uint32(l.Born.Nanosecond()))
	body = counted(body, l.Description)
	body = le.AppendUint32(body, uint32(len(pairs)))
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		body = counted(counted(body, key), pairs[key])
	}
	out := append([]byte("bluestore block device\n"+l.UUID+"\n"), 2, 1)
	out = append(le.AppendUint32(out, uint32(len(body))), body...)
	out = le.AppendUint32(out, ^crc32.Checksum(out, crc32.MakeTable(crc32.Castagnoli)))
	return append(out, make([]byte, osd.BlockBytes-len(out))...)
}

func counted(b []byte, text string) []byte {
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(text))), text...)
}
