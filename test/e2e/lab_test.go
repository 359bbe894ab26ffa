//go:build e2e

package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/pkg/systemid"
)

// Namespaces that Quarry is installed in.
const (
	controllerNamespace = "quarry-system"
	agentNamespace      = "quarry-agents"
)

// nodes of the lab.
var nodes = []string{"n1", "n2", "n3"}

func labName() string {
	if name := os.Getenv("LAB_NAME"); name != "" {
		return name
	}
	return "quarry"
}

// repoRoot is where the Makefile stands; tests run in their package's folder.
func repoRoot() string {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		panic(err)
	}
	return root
}

// labCommand is a call of the lab's own command line, as a user types it.
func labCommand(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(repoRoot(), "bin", "lab"), append([]string{"--name", labName()}, args...)...)
	cmd.Dir = repoRoot()
	return cmd
}

// tryLab runs the lab's command and returns what it printed.
func tryLab(args ...string) (string, error) {
	cmd := labCommand(args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("lab %s: %w\n%s%s", strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}

func lab(t *testing.T, args ...string) string {
	t.Helper()
	out, err := tryLab(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// onNode runs a shell script in a node's own kernel.
func onNode(t *testing.T, node, script string) string {
	t.Helper()
	out, err := tryOnNode(node, script)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// asNode are the options that let a command of LVM on a node change the groups that name the node, as the agent's own configuration does.
func asNode(node string) string {
	return fmt.Sprintf(`--config 'global/system_id_source="lvmlocal" local/system_id=%q' `, systemid.Of(node))
}

func tryOnNode(node, script string) (string, error) {
	return tryLab("exec", node, "--", "bash", "-euo", "pipefail", "-c", script)
}

// disk is an image file that is, or was, plugged into a node.
type disk struct {
	node, image string
	// device is the kernel's path, as long as it is plugged in.
	device string
}

// kernelName of the device, as StorageNode shows it.
func (d *disk) kernelName() string { return filepath.Base(d.device) }

// newImage makes a sparse image file, outside the checkout, that goes with the test.
func newImage(t *testing.T, name string, size int64) string {
	t.Helper()
	// The name of a test may hold characters, such as a comma, that the kernel's disk driver does not take in a path.
	dir, err := os.MkdirTemp("", "quarry-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, name+".img")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(size); err != nil {
		t.Fatal(err)
	}
	return path
}

// plug attaches an image to a node and sees to it that it is unplugged at the end.
func plug(t *testing.T, node, image, bus string) *disk {
	t.Helper()
	d := &disk{node: node, image: image}
	d.device = lastLine(lab(t, "disk", "add", node, image, "--bus", bus))
	t.Cleanup(func() {
		if d.device != "" {
			d.unplug(t)
		}
	})
	return d
}

// unplug takes the disk out again. The node's kernel does not let go of a disk that somebody looks at, and the agent and udev look
// at every disk whenever anything changed; they are done within moments.
func (d *disk) unplug(t *testing.T) {
	t.Helper()
	var err error
	for range 50 {
		if _, err = tryLab("disk", "remove", d.node, d.device); err == nil {
			d.device = ""
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Error(err)
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// checksum sums up what an image file reads as. Most of it was never written, so only what is not zero counts, with where it is.
func checksum(t *testing.T, path string) string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	h := sha256.New()
	block, zero := make([]byte, 64<<10), make([]byte, 64<<10)
	for at := int64(0); ; {
		at, err = unix.Seek(int(file.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return hex.EncodeToString(h.Sum(nil))
		}
		if err != nil {
			t.Fatal(err)
		}
		// The same blocks, wherever the file system says that data begins.
		at -= at % int64(len(block))
		n, err := file.ReadAt(block, at)
		if err != nil && err != io.EOF {
			t.Fatal(err)
		}
		if !bytes.Equal(block[:n], zero[:n]) {
			fmt.Fprintln(h, at)
			h.Write(block[:n])
		}
		at += int64(len(block))
	}
}

// onHost runs a tool of this machine on an image file.
func onHost(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		t.Fatalf("%s is not installed: run make deps", name)
	}
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// write puts bytes into an image file.
func write(t *testing.T, path string, offset int64, data []byte) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(data, offset); err != nil {
		t.Fatal(err)
	}
}

// turn skips a journey unless it has its turn among so many: on two processors all of them take too long for one run. The number of the run is in
// QUARRY_TEST_TURN, which test/all takes from the commit; without it none is skipped.
func turn(t *testing.T, mine, of uint64) {
	t.Helper()
	text := os.Getenv("QUARRY_TEST_TURN")
	if text == "" {
		return
	}
	number, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		t.Fatalf("QUARRY_TEST_TURN: %v", err)
	}
	if of == 20 && mine == 4 {
		t.Fatal("in turn 4 of 20 test/all runs the journey of Ceph in place of all others: choose another one")
	}
	if number%of != mine {
		t.Skipf("it takes minutes, and it is the turn of number %d of %d journeys like it; this one is number %d: make e2e RUN=^%s$", number%of, of, mine, t.Name())
	}
}
