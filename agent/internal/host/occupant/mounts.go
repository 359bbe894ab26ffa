package occupant

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/pkg/refusal"
)

// mounts are those of all mount namespaces that a process is in.
type mounts struct {
	// read are the namespaces, each with the root that its mounts are seen from, that were read already.
	read map[string]bool
	// nodes are the mounts, by the kernel's number, on which a device node can be and be looked at; false for the others.
	nodes map[int]bool
}

// point is one mount.
type point struct {
	id                         int
	number, root, path, fstype string
	options                    []string
}

// local are filesystems that are on no block device, or show another number than that, and of which nevertheless neither a server nor a
// program has to answer for what is on them.
var local = []string{"devtmpfs", "tmpfs", "ramfs", "rootfs", "overlay", "aufs", "btrfs", "bcachefs", "zfs", "ubifs"}

// hasNodes reports whether a device node can be on the mount and be looked at.
func (p point) hasNodes() bool { return !p.mayHang() && !slices.Contains(p.options, "nodev") }

// mayHang reports whether looking at what is on the mount could take for ever.
func (p point) mayHang() bool {
	onDevice := !strings.HasPrefix(p.number, "0:") && !strings.HasPrefix(p.fstype, "fuse")
	return !onDevice && !slices.Contains(local, p.fstype)
}

// mounted reads the mounts that a process sees, unless another one sees the same, and finds those of a device node.
func (s *search) mounted(m *mounts, pid string) {
	dir := s.place(pid)
	ns, err := os.Readlink(filepath.Join(dir, "ns", "mnt"))
	if err != nil {
		s.failOf(pid, fmt.Errorf("mounts: %w", err))
		return
	}
	root, err := os.Readlink(filepath.Join(dir, "root"))
	if err != nil {
		s.failOf(pid, fmt.Errorf("mounts: %w", err))
		return
	}
	key := ns + " " + root
	if m.read[key] {
		return
	}
	points, err := readMounts(filepath.Join(dir, "mountinfo"))
	if errors.Is(err, unix.EINVAL) {
		// The process has ended, and the kernel has taken its mounts away first.
		return
	}
	if err != nil {
		s.failOf(pid, fmt.Errorf("mounts: %w", err))
		return
	}
	for _, p := range points {
		m.nodes[p.id] = p.hasNodes()
		if p.root != "/" && p.hasNodes() {
			s.node(points, p, pid)
		}
	}
	// Through a process that ended meanwhile nothing was seen. Another one that sees the same is asked.
	if _, err := os.Lstat(dir); err == nil {
		m.read[key] = true
	}
}

// node looks whether a mount of a part of a filesystem is one of a device node, and of which.
func (s *search) node(points []point, p point, pid string) {
	place := filepath.Join(s.place(pid), "root") + p.path
	s.at.Store(place)
	if p.fstype == "devtmpfs" {
		// There is one on the host, in which the node has the same name.
		if d, ok, err := s.number(filepath.Join(s.dev, p.root), false); err == nil {
			if ok {
				s.use(d, s.seenBy(p, pid))
			}
			return
		}
	}
	if behindServer(points, p.path) {
		// Whoever opens the node is found all the same.
		return
	}
	d, ok, err := s.number(place, false)
	if err != nil {
		s.failOf(pid, fmt.Errorf("mount %s: %w", p.path, err))
		return
	}
	if ok {
		s.use(d, s.seenBy(p, pid))
	}
}

func (s *search) seenBy(p point, pid string) string {
	if pid == "1" {
		return refusal.NodeMountedAt(p.path, "")
	}
	return refusal.NodeMountedAt(p.path, s.name(pid))
}

// readMounts reads a mount table. The fields are described in proc(5).
func readMounts(table string) ([]point, error) {
	f, err := os.Open(table)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []point
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		end := slices.Index(fields, "-")
		if end < 6 || len(fields) < end+3 {
			return nil, fmt.Errorf("%s: unexpected line %q", table, lines.Text())
		}
		id, err := strconv.Atoi(fields[0])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", table, err)
		}
		out = append(out, point{
			id: id, number: fields[2], root: unescape(fields[3]), path: unescape(fields[4]), options: strings.Split(fields[5], ","), fstype: fields[end+1],
		})
	}
	return out, lines.Err()
}

// escapes are how the kernel writes characters that would end a field.
var escapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`, `\043`, "#")

func unescape(s string) string { return escapes.Replace(s) }
