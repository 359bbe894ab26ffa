package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// Init is process 1 of a node. It builds the root file system, starts the
// agent, adopts orphans until the agent ends, and powers the node off. It only
// returns when it could not power off.
func Init(configPath string) error {
	// It returns when the agent has ended, or could not be started.
	fmt.Println("lab: node init:", bootstrap(configPath))
	unix.Sync()
	return unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func bootstrap(configPath string) error {
	// The kernel starts init with hardly an environment.
	if err := os.Setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"); err != nil {
		return err
	}
	if err := os.Setenv("HOME", "/root"); err != nil {
		return err
	}
	config, err := Load(configPath)
	if err != nil {
		return err
	}
	if err := buildRoot(config); err != nil {
		return fmt.Errorf("build the root file system: %w", err)
	}
	if err := personalize(config); err != nil {
		return fmt.Errorf("write the node's own files: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// The agent is a process of its own because process 1 has to wait for any
	// child, and the agent for those it started.
	agent := exec.Command(self, "node", "agent", configPath)
	agent.Stdout, agent.Stderr = os.Stdout, os.Stderr
	if err := agent.Start(); err != nil {
		return err
	}
	return reapUntil(agent.Process.Pid)
}

// reapUntil collects ended children until the one with the given pid ends.
func reapUntil(pid int) error {
	for {
		var status unix.WaitStatus
		ended, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("wait for children: %w", err)
		case ended == pid:
			return fmt.Errorf("the node agent ended with status %d", status.ExitStatus())
		}
	}
}
