package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"quarry.storage/quarry/test/lab/internal/network"
	"quarry.storage/quarry/test/lab/internal/state"
)

// Command is a process to start.
type Command struct {
	Name string
	Path string
	Args []string
	// Env is added to the environment.
	Env []string
	Dir string
	// Log receives standard output and error.
	Log string
	// Files become descriptors 3, 4 and so on.
	Files []*os.File
}

// Ensure starts a process in the lab's network namespace unless it runs
// already. The process is its own session, so that it survives the end of the
// lab command.
func (t Table) Ensure(c Command) error {
	if t.Alive(c.Name) {
		return nil
	}
	// What an ended process left behind would be in the way of the new one.
	if err := t.Kill(c.Name); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.Log), 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Dir = c.Dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = c.Files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := network.Inside(t.Namespace, cmd.Start); err != nil {
		return fmt.Errorf("start %s: %w", c.Name, err)
	}
	// Waiting in the background lets Alive see an early death as one: without
	// it the child would stay a zombie until this command ends.
	go cmd.Wait() //nolint:errcheck // the record and the log tell how it went
	started, err := readStat(cmd.Process.Pid)
	if err != nil {
		return fmt.Errorf("start %s: it ended at once, see %s", c.Name, c.Log)
	}
	return state.WriteJSON(t.file(c.Name), Record{Name: c.Name, PID: cmd.Process.Pid, Start: started.start})
}
