package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"quarry.storage/quarry/test/bench/internal/measure"
)

// CountedName is the name under which this program is LVM with a record of its commands.
const CountedName = "counted-lvm"

// record is one line of the record.
type record struct {
	measure.Command
	Began time.Time `json:"began"`
}

// Counted runs LVM with the arguments and writes down what was run, beside the path of the program. It answers the exit code.
func Counted(argv []string) (int, error) {
	began := time.Now()
	cmd := exec.Command(lvmBinary, argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	r := record{Began: began, Command: measure.Command{Milliseconds: time.Since(began).Seconds() * 1000}}
	if len(argv) > 1 {
		r.Name = argv[1]
	}
	line, err := json.Marshal(r)
	if err != nil {
		return 0, err
	}
	f, err := os.OpenFile(argv[0]+".record", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	_, err = f.Write(append(line, '\n'))
	return cmd.ProcessState.ExitCode(), err
}

// counted makes the means to count in a directory.
func (b *Bench) counted(name string) (path string, err error) {
	dir := filepath.Join(b.cfg.Dir, "count-"+name)
	path = filepath.Join(dir, CountedName)
	return path, errors.Join(os.MkdirAll(dir, 0o700), os.Symlink(b.cfg.Self, path))
}

func records(path string) ([]record, error) {
	text, err := os.ReadFile(path + ".record")
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []record
	for line := range strings.Lines(string(text)) {
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return nil, fmt.Errorf("record of commands: %w", err)
		}
		out = append(out, r)
	}
	return out, nil
}

// Count counts the LVM commands of each operation, with the machine at rest before.
func (b *Bench) Count(ctx context.Context) (measure.Report, error) {
	defer b.release(agentGroup, topoGroup)
	if err := b.countAgent(ctx); err != nil {
		return measure.Report{}, err
	}
	if err := b.countLVMd(ctx); err != nil {
		return measure.Report{}, err
	}
	return b.finish()
}

func (b *Bench) countAgent(ctx context.Context) error {
	path, err := b.counted("agent")
	if err != nil {
		return err
	}
	if err := b.clean(b.cfg.Disks); err != nil {
		return err
	}
	a, err := startAgent(ctx, b.cfg.Agent, filepath.Join(b.cfg.Dir, "agent"), path)
	if err != nil {
		return err
	}
	defer a.stop()
	c := measure.Contender{Who: measure.Quarry, Config: measure.Private}
	for _, disks := range [][]string{b.cfg.Disks, b.cfg.Disks[:1]} {
		if err := b.clean(b.cfg.Disks); err != nil {
			return err
		}
		if err := quiet(ctx, a.process); err != nil {
			return err
		}
		devices, err := a.identities(ctx, disks)
		if err != nil {
			return err
		}
		work := func() error { return a.ensure(ctx, agentGroup, devices) }
		if err := b.count(ctx, c, measure.Prepare(len(disks)), path, a.process, work); err != nil {
			return err
		}
	}
	for range 3 {
		create := func() error { return a.create(ctx, agentGroup, volumeName, volumeBytes) }
		if err := b.count(ctx, c, measure.Create, path, a.process, create); err != nil {
			return err
		}
		remove := func() error { return a.remove(ctx, agentGroup, volumeName) }
		if err := b.count(ctx, c, measure.Delete, path, a.process, remove); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bench) countLVMd(ctx context.Context) error {
	path, err := b.counted("lvmd")
	if err != nil {
		return err
	}
	if err := b.clean(b.cfg.Disks); err != nil {
		return err
	}
	bare := lvm{}
	if err := bare.run(ctx, "vgcreate", topoGroup, b.cfg.Disks[0]); err != nil {
		return err
	}
	d, err := startLVMd(ctx, b.cfg.LVMd, filepath.Join(b.cfg.Dir, "lvmd"), topoGroup, path, bare.env())
	if err != nil {
		return err
	}
	defer d.stop()
	c := measure.Contender{Who: measure.TopoLVM, Config: measure.Debian}
	for range 3 {
		create := func() error { return d.create(ctx, volumeName, volumeBytes) }
		if err := b.count(ctx, c, measure.Create, path, nil, create); err != nil {
			return err
		}
		remove := func() error { return d.remove(ctx, volumeName) }
		if err := b.count(ctx, c, measure.Delete, path, nil, remove); err != nil {
			return err
		}
	}
	return nil
}

// count tells the commands that began during some work from those that came after it.
func (b *Bench) count(ctx context.Context, c measure.Contender, operation, path string, p *process, work func() error) error {
	if err := quiet(ctx, p); err != nil {
		return err
	}
	before, err := records(path)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := work(); err != nil {
		return err
	}
	ended := time.Now()
	if err := quiet(ctx, p); err != nil {
		return err
	}
	after, err := records(path)
	if err != nil {
		return err
	}
	out := measure.Commands{Contender: c, Operation: operation, Milliseconds: ended.Sub(began).Seconds() * 1000}
	for _, r := range after[len(before):] {
		if r.Began.Before(ended) {
			out.During = append(out.During, r.Command)
		} else {
			out.After = append(out.After, r.Command)
		}
	}
	b.report.Commands = append(b.report.Commands, out)
	return nil
}
