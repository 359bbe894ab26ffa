package child

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/host/run/task"
)

const key = "AQBDzQVrmkueLhAAX1mFwjHJGUCpFWeoSk/A1w=="

var attachment = Attachment{
	FSID: "7a1c6d1e-0000-4000-8000-000000000001", Filesystem: "quarry", Path: "/volumes/quarry/pvc/uuid", Monitors: []string{"10.0.0.1:3300", "[fd00::1]:3300"},
	User: "quarry-csi", Secret: key, Options: []string{"noatime", "sync"},
}

func TestParameters(t *testing.T) {
	var out []string
	for _, p := range parameters(attachment) {
		out = append(out, p.key+"="+p.value)
	}
	want := "source=quarry-csi@7a1c6d1e-0000-4000-8000-000000000001.quarry=/volumes/quarry/pvc/uuid mon_addr=10.0.0.1:3300/[fd00::1]:3300 ms_mode=prefer-crc secret=" + key + " sync="
	if got := strings.Join(out, " "); got != want {
		t.Errorf("%s", got)
	}
}

func TestAttributes(t *testing.T) {
	const always = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	for options, want := range map[string]int{
		"": always, "ro": always | unix.MOUNT_ATTR_RDONLY, "ro,rw": always, "noexec": always | unix.MOUNT_ATTR_NOEXEC,
		"strictatime,noatime": always | unix.MOUNT_ATTR_NOATIME, "noatime,relatime": always, "nodiratime": always | unix.MOUNT_ATTR_NODIRATIME,
	} {
		if got := attributes(strings.Split(options, ",")); got != want {
			t.Errorf("%s: %#x, want %#x", options, got, want)
		}
	}
}

// TestFailure carries every kind of error to the other side, without the key.
func TestFailure(t *testing.T) {
	for _, k := range kinds {
		var f task.Failure
		text, err := json.Marshal(kinds.Failure(hide(fmt.Errorf("option secret=%s: %w", key, k.Err), key)))
		if err := errors.Join(err, json.Unmarshal(text, &f)); err != nil {
			t.Fatal(err)
		}
		if err := (Response{Failure: &f}).Err(); !errors.Is(err, k.Err) || strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "(a secret key)") {
			t.Errorf("%s: %v", k.Name, err)
		}
	}
	if (Response{}).Err() != nil {
		t.Error("no error is one")
	}
}

func TestRefused(t *testing.T) {
	for errno, want := range map[unix.Errno]error{
		unix.EACCES: ErrRefused, unix.EPERM: ErrRefused, unix.ENOENT: os.ErrNotExist, unix.EINVAL: ErrKernel, unix.ETIMEDOUT: ErrUnreachable, unix.EIO: ErrUnreachable,
	} {
		if err := refused(attachment, errno, ""); !errors.Is(err, want) || strings.Contains(err.Error(), key) {
			t.Errorf("%v: %v", errno, err)
		}
	}
	if err := refused(attachment, unix.ENOMEM, ""); kinds.Failure(err).Kind != "" {
		t.Errorf("%v", err)
	}
}

// TestUnreadable: what the kernel says of a client that was shut out is told from what passes.
func TestUnreadable(t *testing.T) {
	for errno, out := range map[unix.Errno]bool{
		unix.EACCES: true, unix.ESHUTDOWN: true, unix.EIO: false, unix.ESTALE: false, unix.ENOENT: false, unix.ETIMEDOUT: false, unix.EPERM: false,
	} {
		if err := unreadable("a", errno); errors.Is(err, ErrShutOut) != out || !errors.Is(err, errno) {
			t.Errorf("%v: %v", errno, err)
		}
	}
}

func TestMain_refuses(t *testing.T) {
	for _, argv := range [][]string{nil, {"agent"}, {"agent", Command}, {"agent", Command, "nothing", "/proc/self/ns/net"}, {"agent", Command, TaskAttach, "/nonexistent"}} {
		if code := Main(argv, strings.NewReader(""), io.Discard); code != 1 {
			t.Errorf("%v: code %d", argv, code)
		}
	}
	var out bytes.Buffer
	if err := run([]string{"agent", Command, TaskAttach, "/proc/self/ns/net"}, strings.NewReader(`{"Secret":"`+key+`",`), &out); err == nil || strings.Contains(err.Error()+out.String(), key) {
		t.Errorf("%v, %s", err, out.String())
	}
}

// TestMount_here: where the kernel has no client of Ceph, or nobody answers, the failure has a kind and no key.
func TestMount_here(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: nobody else may begin a mount")
	}
	if known, err := os.ReadFile("/proc/filesystems"); err != nil || strings.Contains(string(known), "\tceph\n") {
		t.Skip("the kernel has a client of Ceph, which would wait for monitors")
	}
	r, err := attach(attachment)
	if err == nil || strings.Contains(err.Error(), key) || r.Failure != nil {
		t.Errorf("%+v, %v", r, err)
	}
}
