package node

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/test/lab/internal/spec"
)

// personalize writes the files in which a node differs from the machine whose
// files it shares, and makes modprobe work.
func personalize(c Config) error {
	if err := unix.Sethostname([]byte(c.Name)); err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(c.Lab + "/" + c.Name))
	id := hex.EncodeToString(sum[:16])
	uuid := fmt.Sprintf("%s-%s-%s-%s-%s", id[:8], id[8:12], id[12:16], id[16:20], id[20:])
	files := map[string]string{
		"/etc/hostname":   c.Name + "\n",
		"/etc/machine-id": id + "\n",
		"/etc/hosts": fmt.Sprintf("127.0.0.1 localhost\n%s %s\n%s control-plane\n",
			c.IP, c.Name, spec.ControlPlane),
		"/etc/iscsi/initiatorname.iscsi": "InitiatorName=" + spec.IQN(c.Name) + "\n",
		"/etc/nvme/hostid":               uuid + "\n",
		"/etc/nvme/hostnqn":              "nqn.2014-08.org.nvmexpress:uuid:" + uuid + "\n",
	}
	for path, content := range files {
		if err := writeFile(path, content); err != nil {
			return err
		}
	}
	if err := resolveNothing(); err != nil {
		return err
	}
	if err := pretendFrequency(); err != nil {
		return err
	}
	return linkModules(c)
}

// resolver answers nothing, at once. The lab has no DNS, and cannot reach that of
// the machine: each look for a name would wait for it for 10 to 20 seconds.
const resolver = "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"

// resolveNothing has names not found, unless somebody has given the node a name
// server.
func resolveNothing() error {
	const path = "/etc/resolv.conf"
	own, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	machines, err := os.ReadFile(MachineView + path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !bytes.Equal(own, machines) {
		return nil
	}
	// It may be a link into what the node does not have.
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	return writeFile(path, resolver)
}

// linkModules lets modprobe find the kernel's modules.
func linkModules(c Config) error {
	release, err := kernelRelease()
	if err != nil {
		return err
	}
	link, target := filepath.Join("/lib/modules", release), filepath.Join(c.Modules, release)
	if current, err := os.Readlink(link); err == nil && current == target {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(link); err != nil {
		return err
	}
	return os.Symlink(target, link)
}

// pretendFrequency adds the line to /proc/cpuinfo without which the kubelet's
// machine information fails; a user-mode kernel does not have one.
func pretendFrequency() error {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return err
	}
	path := filepath.Join(runDir, "cpuinfo")
	if err := writeFile(path, string(info)+"cpu MHz\t\t: 3000.000\n"); err != nil {
		return err
	}
	return unix.Mount(path, "/proc/cpuinfo", "", unix.MS_BIND, "")
}

func writeFile(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), 0o644)
}
