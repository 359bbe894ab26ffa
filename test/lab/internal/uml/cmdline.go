// Package uml starts and steers user-mode Linux kernels: their command line and
// their management socket. It knows kernels and block devices, not Kubernetes.
package uml

import (
	"fmt"
	"strconv"
)

// Machine is one kernel to start.
type Machine struct {
	// ID names the kernel's management socket below Dir.
	ID     string
	Dir    string
	Memory int64
	// Init runs as process 1, with InitArgs.
	Init     string
	InitArgs []string
	// Disks maps unit numbers to image files; unit 0 is the system disk.
	Disks []Disk
	// Taps are the host's ends of the network interfaces vec0, vec1, …
	Taps []string
	// MACs are the hardware addresses of those interfaces.
	MACs []string
}

// Disk is one ubd block device.
type Disk struct {
	Unit  int
	Image string
}

// Args is the kernel's command line. The root is the machine's own file
// system, read-only: init puts a writable layer over it.
func (m Machine) Args() []string {
	args := []string{
		"umid=" + m.ID,
		"uml_dir=" + m.Dir,
		fmt.Sprintf("mem=%dM", m.Memory>>20),
		"root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro",
		"con=null", "con0=null,fd:1", "ssl=null",
		"panic=-1", "quiet",
		// Faster than tracing processes, in kernels that can; others do not know
		// the word. It protects the kernel from its processes less: here they are
		// all ours.
		"seccomp=auto",
		"init=" + m.Init,
	}
	for _, d := range m.Disks {
		args = append(args, DeviceName(d.Unit)+"="+d.Image)
	}
	for i, tap := range m.Taps {
		args = append(args, "vec"+strconv.Itoa(i)+":transport=tap,ifname="+tap+",mac="+m.MACs[i]+",depth=128,gro=1")
	}
	// The kernel hands everything after the dashes to init.
	return append(append(args, "--"), m.InitArgs...)
}

// MaxUnits is how many ubd devices the kernel has.
const MaxUnits = 16

// DeviceName is the kernel's name of a ubd unit, for example "ubda" for 0.
func DeviceName(unit int) string { return "ubd" + string(rune('a'+unit)) }

// FreeUnit finds the lowest unit not in use.
func FreeUnit(used []Disk) (int, error) {
	taken := make(map[int]bool, len(used))
	for _, d := range used {
		taken[d.Unit] = true
	}
	for unit := range MaxUnits {
		if !taken[unit] {
			return unit, nil
		}
	}
	return 0, fmt.Errorf("all %d ubd devices are in use", MaxUnits)
}
