package spec

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// DiskSet says how many data disks of which size every node gets beside its
// system disk.
type DiskSet struct {
	Count int   `json:"count"`
	Bytes int64 `json:"bytes"`
}

// maxDataDisks leaves room for disks that are plugged in later: the kernel has
// sixteen ubd devices and the system disk takes one.
const maxDataDisks = 10

var diskPattern = regexp.MustCompile(`^(?:(\d+)x)?(\d+)([KMGT])i?B?$`)

// ParseDisks reads a disk set such as "2x2G" (two disks of 2 GiB), "4G" (one
// disk) or "0" (none).
func ParseDisks(s string) (DiskSet, error) {
	if s == "" || s == "0" {
		return DiskSet{}, nil
	}
	m := diskPattern.FindStringSubmatch(s)
	if m == nil {
		return DiskSet{}, fmt.Errorf("disk %q: want COUNTxSIZE, for example 2x2G", s)
	}
	count := 1
	if m[1] != "" {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			return DiskSet{}, fmt.Errorf("disk %q: %w", s, err)
		}
		count = n
	}
	if count > maxDataDisks {
		return DiskSet{}, fmt.Errorf("disk %q: at most %d data disks per node", s, maxDataDisks)
	}
	size, err := ParseSize(m[2] + m[3])
	if err != nil {
		return DiskSet{}, err
	}
	return DiskSet{Count: count, Bytes: size}, nil
}

// ParseSize reads a binary size: a number followed by K, M, G or T.
func ParseSize(s string) (int64, error) {
	units := map[byte]uint{'K': 10, 'M': 20, 'G': 30, 'T': 40}
	trimmed := strings.TrimSuffix(strings.TrimSuffix(s, "B"), "i")
	if trimmed == "" {
		return 0, fmt.Errorf("size %q: want a number and K, M, G or T", s)
	}
	shift, ok := units[trimmed[len(trimmed)-1]]
	if !ok {
		return 0, fmt.Errorf("size %q: want a number and K, M, G or T", s)
	}
	n, err := strconv.ParseInt(trimmed[:len(trimmed)-1], 10, 64)
	if err != nil || n <= 0 || n > (1<<62)>>shift {
		return 0, fmt.Errorf("size %q: not a positive number in range", s)
	}
	return n << shift, nil
}
