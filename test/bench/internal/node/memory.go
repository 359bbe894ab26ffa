package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"quarry.storage/quarry/test/bench/internal/measure"
)

const (
	// lookEvery is how often memory is looked at under load.
	lookEvery = 50 * time.Millisecond
	// settleTime is how long an agent is left alone before it counts as idle.
	settleTime = 10 * time.Second
	// loadVolumes are made, and removed again, one after the other; one extent each.
	loadVolumes   = 100
	loadBytes     = 4 << 20
	agentBinary   = "agent"
	agentFlag     = "--node-name="
	benchNodeFlag = agentFlag + nodeName
)

// Load looks at the memory of an agent that was just started, and while it makes and removes a hundred volumes.
func (b *Bench) Load(ctx context.Context) (measure.Report, error) {
	defer b.release(agentGroup)
	if err := b.clean(b.cfg.Disks); err != nil {
		return measure.Report{}, err
	}
	a, err := startAgent(ctx, b.cfg.Agent, filepath.Join(b.cfg.Dir, "agent"), lvmBinary)
	if err != nil {
		return measure.Report{}, err
	}
	defer a.stop()
	time.Sleep(settleTime)
	pid := a.cmd.Process.Pid
	idle, err := memory(pid)
	if err != nil {
		return measure.Report{}, err
	}
	idle.Process, idle.When = "agent binary", "idle after start"
	devices, err := a.identities(ctx, b.cfg.Disks[:1])
	if err == nil {
		err = a.ensure(ctx, agentGroup, devices)
	}
	if err != nil {
		return measure.Report{}, err
	}
	stop := make(chan struct{})
	most := make(chan measure.Memory, 1)
	go func() { most <- watchMemory(pid, stop) }()
	err = load(ctx, a)
	close(stop)
	busy := <-most
	if err != nil {
		return measure.Report{}, err
	}
	busy.Process, busy.When = idle.Process, fmt.Sprintf("most while making and removing %d volumes", loadVolumes)
	b.report.Memory = append(b.report.Memory, idle, busy)
	return b.finish()
}

func load(ctx context.Context, a *agent) error {
	for i := range loadVolumes {
		if err := a.create(ctx, agentGroup, volumeName+strconv.Itoa(i), loadBytes); err != nil {
			return err
		}
	}
	for i := range loadVolumes {
		if err := a.remove(ctx, agentGroup, volumeName+strconv.Itoa(i)); err != nil {
			return err
		}
	}
	return nil
}

// watchMemory finds the most that a process holds until it is told to stop.
func watchMemory(pid int, stop <-chan struct{}) measure.Memory {
	var most measure.Memory
	for {
		if now, err := memory(pid); err == nil {
			most.ResidentKiB = max(most.ResidentKiB, now.ResidentKiB)
			most.AnonymousKiB = max(most.AnonymousKiB, now.AnonymousKiB)
			most.Samples++
		}
		select {
		case <-stop:
			return most
		case <-time.After(lookEvery):
		}
	}
}

// Pod looks at the memory of the agent of the node's pod until the input ends.
func Pod(until io.Reader, when string) (measure.Report, error) {
	pid, node, err := findPod()
	if err != nil {
		return measure.Report{}, err
	}
	stop := make(chan struct{})
	go func() {
		io.Copy(io.Discard, until) //nolint:errcheck // however it ends, it ended
		close(stop)
	}()
	most := watchMemory(pid, stop)
	if most.Samples == 0 {
		return measure.Report{}, fmt.Errorf("the agent, process %d, ended", pid)
	}
	most.Process, most.When = "pod on "+node, when
	return measure.Report{Memory: []measure.Memory{most}}, nil
}

// findPod finds the agent of the DaemonSet by its arguments.
func findPod() (pid int, node string, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, "", err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil {
			continue // it has ended
		}
		argv := strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
		i := slices.IndexFunc(argv, func(s string) bool { return strings.HasPrefix(s, agentFlag) && s != benchNodeFlag })
		if i > 0 && filepath.Base(argv[0]) == agentBinary {
			return pid, strings.TrimPrefix(argv[i], agentFlag), nil
		}
	}
	return 0, "", errors.New("no agent runs on this node")
}
