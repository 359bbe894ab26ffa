package lvm

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"quarry.storage/quarry/agent/internal/host/run"
)

// systemIDForm are the IDs that LVM keeps as they are. It cuts longer ones, leaves out other characters, and takes none that begins with
// "localhost", all without an error.
var systemIDForm = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}$`)

// hostID is the system ID that LVM is to know this host by.
type hostID struct {
	want  string
	mu    sync.Mutex
	known bool
}

// checkHost asks LVM, until it has said so once, whether it knows this host by its system ID. With another one, or none, LVM would make
// groups that are another host's, or nobody's, and call our own foreign.
func (l *LVM) checkHost(ctx context.Context) error {
	l.host.mu.Lock()
	defer l.host.mu.Unlock()
	if l.host.want == "" || l.host.known {
		return nil
	}
	res, err := l.runner.Run(ctx, run.Command{Path: l.binary, Args: []string{"systemid", "--driverloaded", "n"}, Env: l.env})
	if err != nil {
		return fmt.Errorf("system ID: %w", classify(err))
	}
	for line := range strings.Lines(string(res.Stdout)) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "system ID:"); ok {
			if id = strings.TrimSpace(id); id != l.host.want {
				return fmt.Errorf("%w: LVM knows this host by the system ID %q, not %q", ErrSystemID, id, l.host.want)
			}
			l.host.known = true
			return nil
		}
	}
	return fmt.Errorf("%w: lvm systemid: no ID in %q", ErrSystemID, res.Stdout)
}

// StampVG gives the group, which stands on groupDevices now and carries no system ID, that of this host. Nothing that is in it changes, and
// active volumes stay active. One that carries it already is ErrExists, one of another host ErrForeign, and one that lacks a device
// ErrPartial.
func (l *LVM) StampVG(ctx context.Context, name string, groupDevices []string) error {
	if err := l.setSystemID(ctx, name, groupDevices); err != nil {
		return fmt.Errorf("stamp vg %q: %w", name, err)
	}
	return nil
}

// ImportVG gives the group, which stands on groupDevices now and carries the system ID of the host from, that of this host. A group of any
// other host is ErrForeign.
func (l *LVM) ImportVG(ctx context.Context, name, from string, groupDevices []string) error {
	if !systemIDForm.MatchString(from) {
		return fmt.Errorf("import vg %q: %w: system ID %q", name, ErrInvalid, from)
	}
	if err := l.setSystemID(ctx, name, groupDevices, "--config", fmt.Sprintf("local/extra_system_ids=[%q]", from)); err != nil {
		return fmt.Errorf("import vg %q: %w", name, err)
	}
	return nil
}

func (l *LVM) setSystemID(ctx context.Context, name string, groupDevices []string, options ...string) error {
	if err := validName(name); err != nil {
		return err
	}
	if l.host.want == "" {
		return fmt.Errorf("%w: this host has no system ID", ErrInvalid)
	}
	_, err := l.run(ctx, groupDevices, "vgchange", append(options, "--systemid", l.host.want, name)...)
	return err
}
