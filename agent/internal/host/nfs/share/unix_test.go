package share

import (
	"regexp"
	"syscall"
)

// unixStat is what the os package gives for a file.
type unixStat = syscall.Stat_t

// numbers are what differs between two runs: inodes and trees of records.
var numbers = regexp.MustCompile(`"inode":"[0-9]+"|"tree":"[0-9a-f.]+"`)
