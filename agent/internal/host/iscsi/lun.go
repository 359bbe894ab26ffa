package iscsi

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"quarry.storage/quarry/pkg/sharedlun"
)

const (
	sectorBytes = 512
	// disk is the type of a SCSI device that is a disk.
	disk = "0"
	// serialPage is the number of the page with the serial number, pageHeader the bytes before the text.
	serialPage = 0x80
	pageHeader = 4
	mapPrefix  = "mpath-"
)

// Luns reads the LUNs that sessions show, as the kernel remembers them, ordered by number. Paths with the same identity are one LUN.
func (h *Host) Luns(sessions []Session) ([]sharedlun.Lun, error) {
	var out []sharedlun.Lun
	for _, s := range sessions {
		found, err := h.paths(s)
		if err != nil {
			return nil, fmt.Errorf("LUNs of the session with %s: %w", s.Portal, err)
		}
		for _, p := range found {
			i := slices.IndexFunc(out, func(o sharedlun.Lun) bool {
				return p.WWID != "" && o.WWID == p.WWID && o.Serial == p.Serial
			})
			if i < 0 {
				out = append(out, p)
				continue
			}
			out[i].Paths = append(out[i].Paths, p.Paths...)
			out[i].ReadOnly = out[i].ReadOnly || p.ReadOnly
			// The smaller one is what every path has.
			out[i].SizeBytes = min(out[i].SizeBytes, p.SizeBytes)
		}
	}
	for i := range out {
		if err := h.join(&out[i]); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(out, func(a, b sharedlun.Lun) int { return cmp.Compare(a.Number, b.Number) })
	return out, nil
}

// paths reads the disks of one session, each as a LUN of one path.
func (h *Host) paths(s Session) ([]sharedlun.Lun, error) {
	dirs, err := filepath.Glob(filepath.Join(s.dir, "target*", "*:*:*:*"))
	if err != nil {
		return nil, err
	}
	var out []sharedlun.Lun
	for _, dir := range dirs {
		l, err := h.path(s, dir)
		switch {
		case err != nil && gone(err):
			continue
		case err != nil:
			return nil, err
		case l != nil:
			out = append(out, *l)
		}
	}
	return out, nil
}

// path reads one device; nil when it is no disk, or has no node yet.
func (h *Host) path(s Session, dir string) (*sharedlun.Lun, error) {
	if kind, err := attribute(dir, "type"); err != nil || kind != disk {
		return nil, err
	}
	blocks, err := os.ReadDir(filepath.Join(dir, "block"))
	if err != nil || len(blocks) == 0 {
		return nil, err
	}
	name, base := blocks[0].Name(), filepath.Base(dir)
	l := &sharedlun.Lun{}
	if l.Number, err = strconv.ParseInt(base[strings.LastIndex(base, ":")+1:], 10, 64); err != nil {
		return nil, err
	}
	state, err := attribute(dir, "state")
	if err != nil {
		return nil, err
	}
	l.Paths = []sharedlun.Path{{Target: s.IQN, Portal: s.Portal, Device: name, Session: int64(s.ID), Up: s.Up && state == "running", Initiator: s.Initiator}}
	node := filepath.Join(dir, "block", name)
	if l.SizeBytes, err = sizeOf(node); err != nil {
		return nil, err
	}
	readOnly, err := attribute(node, "ro")
	if err != nil {
		return nil, err
	}
	l.ReadOnly = readOnly != "0"
	l.WWID, l.Serial, err = identity(dir)
	return l, err
}

// identity reads what the kernel remembers. A device without one of them has none.
func identity(dir string) (wwid, serial string, err error) {
	if wwid, err = attribute(dir, "wwid"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		// The kernel's word for a device without page 0x83 is an error of many kinds.
		wwid = ""
	}
	page, err := os.ReadFile(filepath.Join(dir, "vpd_pg80"))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if len(page) > pageHeader && page[1] == serialPage {
		serial = strings.Trim(string(page[pageHeader:]), " \x00\n")
	}
	return wwid, serial, err
}

func sizeOf(node string) (int64, error) {
	text, err := attribute(node, "size")
	if err != nil {
		return 0, err
	}
	sectors, err := strconv.ParseInt(text, 10, 64)
	return sectors * sectorBytes, err
}

// join finds the device that stands for all paths. A path that multipathd has not taken yet is one of the map that has the others.
func (h *Host) join(l *sharedlun.Lun) error {
	var maps []string
	for i := range l.Paths {
		p := &l.Paths[i]
		var err error
		if p.Map, err = h.mapOver(p.Device); err != nil {
			return fmt.Errorf("holders of %s: %w", p.Device, err)
		}
		if p.Map != "" && !slices.Contains(maps, p.Map) {
			maps = append(maps, p.Map)
		}
	}
	switch {
	case len(maps) == 1:
		l.Device = maps[0]
	case len(maps) == 0 && len(l.Paths) == 1:
		l.Device = l.Paths[0].Device
	}
	return nil
}

// mapOver is the multipath map that holds a path; empty when none does.
func (h *Host) mapOver(device string) (string, error) {
	holders, err := os.ReadDir(filepath.Join(h.cfg.Sys, "block", device, "holders"))
	if err != nil && !gone(err) {
		return "", err
	}
	for _, holder := range holders {
		uuid, err := attribute(filepath.Join(h.cfg.Sys, "block", holder.Name()), "dm/uuid")
		if err != nil && !gone(err) {
			return "", err
		}
		if strings.HasPrefix(uuid, mapPrefix) {
			return holder.Name(), nil
		}
	}
	return "", nil
}
