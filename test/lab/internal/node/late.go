package node

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// DelayWrites keeps back what this node writes to a LUN, for a time, through
// the devices that stand on it: those of volumes. Reads pass. Devices that are
// made later are not delayed. Zero lets all go on that is kept back, and delays
// nothing any more.
func DelayWrites(iqn string, by time.Duration) error {
	names, err := standingOn(iqn)
	if err != nil {
		return err
	}
	tables := map[string]string{}
	for _, name := range names {
		before, err := dmsetup("", "table", name)
		if err != nil {
			return err
		}
		if tables[name], err = delayed(before, by); err != nil {
			return fmt.Errorf("device %s: %w", name, err)
		}
	}
	if _, err := run("modprobe", "dm-delay"); err != nil {
		return err
	}
	for _, name := range names {
		if _, err := dmsetup(tables[name], "load", name); err != nil {
			return err
		}
		// What is kept back is sent with that. The filesystem is not frozen:
		// it may wait for a write that is kept back.
		if _, err := dmsetup("", "suspend", "--nolockfs", name); err != nil {
			return err
		}
		if _, err := dmsetup("", "resume", name); err != nil {
			return err
		}
	}
	return nil
}

// standingOn returns the names of the devices that stand on the LUNs of a
// target here.
func standingOn(iqn string) (names []string, err error) {
	links, err := filepath.Glob("/dev/disk/by-path/ip-*-iscsi-" + iqn + "-lun-*")
	if err != nil {
		return nil, err
	}
	for _, link := range links {
		disk, err := filepath.EvalSymlinks(link)
		if err != nil {
			return nil, err
		}
		holders, err := filepath.Glob(filepath.Join("/sys/block", filepath.Base(disk), "holders/dm-*"))
		if err != nil {
			return nil, err
		}
		for _, holder := range holders {
			names = append(names, "/dev/"+filepath.Base(holder))
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no device stands on a LUN of %s here", iqn)
	}
	return names, nil
}

// delayed turns a table of parts of disks into one of the same parts whose
// writes are late, or that are as they were.
func delayed(table string, by time.Duration) (string, error) {
	var out strings.Builder
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		switch {
		case len(f) == 5 && f[2] == "linear", len(f) == 9 && f[2] == "delay":
		default:
			return "", fmt.Errorf("its table has %q: want parts of disks", strings.TrimSpace(line))
		}
		// Start, size, kind, disk, place on it, and for delay also the time.
		if by == 0 {
			fmt.Fprintf(&out, "%s %s linear %s %s\n", f[0], f[1], f[3], f[4])
			continue
		}
		fmt.Fprintf(&out, "%s %s delay %[3]s %[4]s 0 %[3]s %[4]s %[5]d\n", f[0], f[1], f[3], f[4], by.Milliseconds())
	}
	return out.String(), nil
}

func dmsetup(in string, args ...string) (string, error) {
	cmd := exec.Command("dmsetup", args...)
	cmd.Stdin = strings.NewReader(in)
	return output(cmd)
}

func run(argv ...string) (string, error) { return output(exec.Command(argv[0], argv[1:]...)) }

func output(cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
