package lvm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Moving is a pvmove that is under way, or that was cut off. The kernel goes on copying, and nobody takes the result over until somebody runs
// pvmove again.
type Moving struct {
	// FromUUID is the physical volume that the extents are moved off, Bytes how many are moved.
	FromUUID string
	Bytes    int64
}

// movePrefix is how the hidden volume is called that pvmove works with.
const movePrefix = "[pvmove"

// workName returns the name of a volume that pvmove works with, or has left, as commands want it; empty for any other volume. LVM gives such a name to
// nothing else, and shows what is left as hidden or not.
func workName(name string) string {
	bare := strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	number, ok := strings.CutPrefix(bare, "pvmove")
	if _, err := strconv.ParseUint(number, 10, 32); !ok || err != nil {
		return ""
	}
	return bare
}

// left takes in a volume of pvmove of which no extents are told. A move has left it if it stands on none: LVM has no name for the layout of that, or
// calls it an error. With any other layout a move is under way of which it is not known what it moves.
func (g *VG) left(name, layout string) {
	if layout == "unknown" || layout == "error" {
		g.Emptied = name
		return
	}
	g.Moving = &Moving{}
}

// moveTimeout bounds one move. A device that cannot be read in one place never gets done, and LVM would wait for ever.
const moveTimeout = 3 * time.Minute

// moving finds the pvmove of a group; nil when there is none. The extents of "pvmove --atomic" are those of images below its volume, which do not say
// what is moved.
func (p *fields) moving(segments, pvs []row, extentBytes int64) *Moving {
	var out *Moving
	for _, r := range segments {
		if !strings.HasPrefix(p.ID(r, "lv_name"), movePrefix) {
			continue
		}
		if out == nil {
			out = &Moving{}
		}
		from := p.Text(r, "move_pv")
		i := slices.IndexFunc(pvs, func(pv row) bool { return from != "" && pv["pv_name"] == from })
		if i < 0 {
			continue
		}
		out.FromUUID = p.ID(pvs[i], "pv_uuid")
		if p.ID(r, "pv_uuid") == out.FromUUID {
			out.Bytes += p.Number(r, "pvseg_size", 64) * extentBytes
		}
	}
	return out
}

// MovePV moves extents off a device to other devices of the group, which stands on groupDevices: the first ones that are allocated, and at most
// so many. With goOn, a move that was cut off is finished instead, whatever its extents are, and nothing is done where there is none. A move that does not get done is taken back: the extents that
// are not moved by then stay where they were.
func (l *LVM) MovePV(ctx context.Context, name string, groupDevices []string, device string, to []string, most int64, goOn bool) error {
	if err := CheckName(name); err != nil {
		return fmt.Errorf("move extents: %w", err)
	}
	if !goOn {
		l.dropMoveDevice(ctx, name)
	}
	what, err := l.toMove(ctx, groupDevices, device, most, goOn)
	switch {
	case err != nil:
		return fmt.Errorf("move extents off %s in vg %q: %w", device, name, err)
	case what == "":
		return nil
	}
	// LVM goes on with a move that it finds, whatever it is told. Where somebody else has finished it by now, a bare device would begin a move of all of it.
	args := append([]string{"--interval", "1", what}, to...)
	limited, cancel := context.WithTimeout(ctx, moveTimeout)
	defer cancel()
	_, err = l.run(limited, groupDevices, "pvmove", args...)
	if err == nil {
		return nil
	}
	if limited.Err() != nil && ctx.Err() == nil {
		_, back := l.run(ctx, groupDevices, "pvmove", "--abort")
		err = errors.Join(fmt.Errorf("it was not done after %s, and was taken back: the device may not be readable there: %w", moveTimeout, err), back)
	}
	return fmt.Errorf("move extents off %s in vg %q: %w", device, name, err)
}

// DropEmptied removes the volume that a pvmove left after it had moved everything. LVM removes none with which a move is under way, and none that is
// open.
func (l *LVM) DropEmptied(ctx context.Context, group string, groupDevices []string, name string) error {
	if err := CheckName(group); err != nil {
		return fmt.Errorf("drop what a move left: %w", err)
	}
	if workName(name) != name || name == "" {
		return fmt.Errorf("drop what a move left in vg %q: %q is no name of pvmove", group, name)
	}
	if _, err := l.run(ctx, groupDevices, "lvremove", "--yes", group+"/"+name); err != nil {
		return fmt.Errorf("drop %s, which a move left in vg %q: %w", name, group, err)
	}
	return nil
}

// dropMoveDevice removes the device of a pvmove that LVM's metadata does not know: pvmove was killed between the making of the device and its record.
// As long as it is there, LVM fails to make another one. The kernel removes no device that something stands on, and an absent one is no failure.
func (l *LVM) dropMoveDevice(ctx context.Context, group string) {
	_, _ = l.dmsetup(ctx, "remove", mapped(group)+"-pvmove0")
}

// toMove names extents of a device as pvmove wants them: the first ones that are allocated, at most so many; or, with goOn, those that a move has,
// which is empty when there is none.
func (l *LVM) toMove(ctx context.Context, groupDevices []string, device string, most int64, goOn bool) (string, error) {
	res, err := l.run(ctx, groupDevices, "pvs", "--reportformat", "json", "--segments", "-o", "pvseg_start,pvseg_size,lv_name", "-S", "lv_size>0", device)
	if err != nil {
		return "", err
	}
	var doc fullReport
	if err := json.Unmarshal(res.Stdout, &doc); err != nil {
		return "", fmt.Errorf("parse: %w", err)
	}
	p, moved := &fields{}, device
	var first, count int64
	for _, section := range doc.Report {
		for _, r := range section.Segments {
			start, size := p.Number(r, "pvseg_start", 64), p.Number(r, "pvseg_size", 64)
			if strings.HasPrefix(p.ID(r, "lv_name"), movePrefix) {
				moved += fmt.Sprintf(":%d-%d", start, start+size-1)
			}
			if count == 0 || start < first {
				first, count = start, min(size, most)
			}
		}
	}
	switch {
	case p.Err != nil:
		return "", p.Err
	case goOn && moved == device:
		return "", nil
	case goOn:
		return moved, nil
	case count == 0:
		return "", ErrNotFound
	}
	return fmt.Sprintf("%s:%d-%d", device, first, first+count-1), nil
}
