//go:build hostroot

package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/quiet"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

const (
	// runsVariable says how often each program runs; defaultRuns when it is not set.
	runsVariable = "QUARRY_TEST_RUNS"
	defaultRuns  = 10
	// bystanderQuiet is short, so that many tests for users fall between the programs.
	bystanderQuiet = 300 * time.Millisecond
)

// program is one that administrators run on disks.
type program struct {
	name string
	// use is what they run, and undo what the test runs before the disk is emptied. DEV stands for the disk, and NAME for a name of
	// its own. Neither may fail.
	use, undo string
	// never must not be printed: some programs only warn.
	never string
}

var programs = []program{
	{name: "mkfs.ext4", use: "mkfs.ext4 -q -F -E nodiscard DEV"},
	{name: "mkfs.xfs", use: "mkfs.xfs -q -f -K DEV"},
	{name: "cryptsetup", use: "echo -n secret | cryptsetup luksFormat --batch-mode --pbkdf pbkdf2 --pbkdf-force-iterations 1000 DEV -"},
	{name: "pvcreate", use: "pvcreate -q --devices DEV DEV", undo: "pvremove -q --devices DEV DEV"},
	// Under systemd's lock, as its documentation asks for: udev has a partition open while it looks at it, and the kernel reads no table
	// again then. Without the lock sgdisk warns in one run of sixty on a machine without an agent.
	{
		name: "sgdisk", use: "flock DEV sgdisk --new=1:2048:+64M DEV", undo: "udevadm settle; flock DEV sgdisk --zap-all DEV",
		never: "still using the old partition table",
	},
	// The array is stopped under the lock, for udev assembles one again that it sees the member of.
	{
		name: "mdadm", use: "mdadm --quiet --create /dev/md/NAME --run --force --level=1 --raid-devices=1 --metadata=1.2 DEV",
		undo: "udevadm settle; flock DEV sh -c 'mdadm --quiet --stop /dev/md/NAME && mdadm --quiet --zero-superblock DEV'",
	},
}

// watched counts the tests for users that the agent makes.
type watched struct {
	quiet.Devices
	tests atomic.Int64
}

func (w *watched) Exclusive(ctx context.Context, d plan.Device) (bool, error) {
	w.tests.Add(1)
	return w.Devices.Exclusive(ctx, d)
}

// TestRealBystanders: programs that take a disk for themselves, or change its partitions, work beside a watching agent, and none of them
// finds a disk busy.
func TestRealBystanders(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	runs := defaultRuns
	if text := os.Getenv(runsVariable); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%s: %v", runsVariable, err)
		}
		runs = n
	}
	n := newRealNode(t)
	if n.withoutDM {
		t.Skip("the kernel has no device-mapper")
	}
	counted := &watched{Devices: n.watch.Devices}
	n.watch.Devices, n.watch.Quiet = counted, bystanderQuiet
	n.start(t)
	t.Cleanup(n.stop)
	n.Reset(t)
	seen := n.follow(t)
	began := time.Now()
	var all sync.WaitGroup
	for i, path := range n.paths {
		all.Go(func() {
			for run := i; run < runs && !t.Failed(); run += len(n.paths) {
				for k := range programs {
					if (run+k)%4 == 0 {
						seen.awaitClean(t, path)
					}
					n.runBeside(t, programs[(run+k)%len(programs)], path)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d programs ran %d times each in %v, beside %d looks that changed something and %d tests for users. A disk that was given back became clean within %v.",
		len(programs), runs, time.Since(began).Round(time.Second), seen.looks.Load(), counted.tests.Load(), seen.longest.Round(time.Millisecond))
	if seen.looks.Load() < int64(runs) || counted.tests.Load() < int64(runs) {
		t.Error("the agent hardly watched")
	}
}

// sight is what the agent tells of the disks.
type sight struct {
	looks atomic.Int64
	mu    sync.Mutex
	// refusals are why each disk cannot be taken, by its path: none for one that is clean. longest is how long one took to become clean.
	refusals map[string][]string
	longest  time.Duration
}

// follow follows what the agent sees.
func (n *realNode) follow(t *testing.T) *sight {
	t.Helper()
	stream, err := agentv1.NewDeviceServiceClient(n.conn).WatchDevices(t.Context(), &agentv1.WatchDevicesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	s := &sight{}
	go func() {
		for {
			resp, err := stream.Recv()
			if err != nil {
				return
			}
			refusals := map[string][]string{}
			for _, d := range resp.GetDevices() {
				refusals[d.GetPath()] = []string{}
				for _, r := range d.GetRefusals() {
					refusals[d.GetPath()] = append(refusals[d.GetPath()], r.String())
				}
			}
			s.looks.Add(1)
			s.mu.Lock()
			s.refusals = refusals
			s.mu.Unlock()
		}
	}()
	return s
}

// cleanTime is how long a disk may take to become clean: until the last time that the agent makes udev look again (decision 0014), and as long as it waits for a
// udev that always has something to do, once before that and once before the test for users.
const cleanTime = 90 * time.Second

// awaitClean waits until the agent has tested a disk for users and found none: a disk that is given back becomes clean by itself.
func (s *sight) awaitClean(t *testing.T, path string) {
	t.Helper()
	began := time.Now()
	for {
		s.mu.Lock()
		refusals, seen := s.refusals[path]
		took := time.Since(began)
		clean := seen && len(refusals) == 0
		if clean {
			s.longest = max(s.longest, took)
		}
		s.mu.Unlock()
		switch {
		case clean:
			return
		case took > cleanTime:
			t.Errorf("%s does not become clean within %v: %v", path, cleanTime, refusals)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// runBeside runs a program on an empty disk, at some moment before or after the agent has tested it, and empties the disk again.
func (n *realNode) runBeside(t *testing.T, p program, path string) {
	time.Sleep(rand.N(4 * bystanderQuiet))
	device, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Error(err)
		return
	}
	words := strings.NewReplacer("DEV", device, "NAME", "beside-"+filepath.Base(device))
	for _, script := range []string{p.use, p.undo} {
		if script == "" {
			continue
		}
		cmd := exec.Command("sh", "-c", words.Replace(script))
		cmd.Env = append(os.Environ(), "LVM_SUPPRESS_FD_WARNINGS=1")
		out, err := cmd.CombinedOutput()
		if p.never != "" && strings.Contains(string(out), p.never) {
			err = errors.Join(err, errors.New("warned"))
		}
		if err != nil {
			t.Errorf("%s: %s: %v\n%s\n%s", p.name, cmd.Args[2], err, out, users(device))
			return
		}
	}
	if err := empty(device); err != nil {
		t.Errorf("after %s: %v", p.name, err)
	}
}

// empty zeroes both ends, as somebody does who wants the disk back. It takes nothing for itself.
func empty(device string) error {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Seek(0, 2)
	if err != nil {
		return err
	}
	zeroes := make([]byte, edge)
	_, first := f.WriteAt(zeroes, 0)
	_, last := f.WriteAt(zeroes, size-edge)
	return errors.Join(first, last, f.Sync())
}

// users tells which processes have the disk or a part of it open, for a message about a failure.
func users(device string) string {
	var out []string
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return err.Error()
	}
	for _, l := range links {
		if target, err := os.Readlink(l); err == nil && strings.HasPrefix(target, device) {
			process := strings.Split(l, "/")[2]
			name, err := os.ReadFile("/proc/" + process + "/comm")
			out = append(out, fmt.Sprintf("%s is open in process %s %s %v", target, process, strings.TrimSpace(string(name)), err))
		}
	}
	return strings.Join(out, "\n")
}
