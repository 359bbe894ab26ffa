package lvm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/host/run"
)

// dmsetup is where distributions install it, with LVM.
const dmsetup = "/usr/sbin/dmsetup"

// parts are the devices of a volume, or of a thin pool, by what is appended to its name.
var parts = []string{"", "-tpool", "_tdata", "_tmeta"}

// RefreshLV makes the device of an active volume or pool with that tag what LVM's metadata says, and lets go of it if it is suspended. LVM
// passes over one without the tag.
//
// What a killed command has loaded is dropped first. LVM resumes a device before it compares its table with the metadata, and a loaded table
// would be live for a moment: larger than the volume, over extents that may be another one's, and for a thin pool a size that cannot be taken
// back. Killed in between, the device is still suspended, so it is seen and tried again.
func (l *LVM) RefreshLV(ctx context.Context, g Owned, name, tag string) error {
	if err := firstError(g.valid(), validName(name)); err != nil {
		return fmt.Errorf("refresh lv: %w", err)
	}
	for _, part := range parts {
		if err := l.dropLoaded(ctx, mapped(g.Name)+"-"+mapped(name)+part); err != nil {
			return fmt.Errorf("refresh lv %s/%s: %w", g.Name, name, err)
		}
	}
	_, err := l.changeLV(ctx, g, name, tag, "--refresh")
	return err
}

// dropLoaded drops the table that is loaded for a device and not live; nothing happens when there is none, or no device.
func (l *LVM) dropLoaded(ctx context.Context, device string) error {
	if _, err := os.Lstat(filepath.Join(l.dev, "mapper", device)); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	_, err := l.dmsetup(ctx, "clear", device)
	return err
}

// dmsetup runs a command of device-mapper that does not wait for udev, which may be busy with other disks.
func (l *LVM) dmsetup(ctx context.Context, args ...string) (run.Result, error) {
	return l.runner.Run(ctx, run.Command{Path: dmsetup, Args: args, Env: []string{"DM_DISABLE_UDEV=1"}})
}

// ActivatePool makes the device of a thin pool with that tag. One of which the metadata is damaged is not activated: ErrDamaged, and reports
// tell it until the pool is active. holds says that volumes are in it: a pool that holds none yet may never have been active.
//
// LVM has the metadata checked, but not where its first block is zero, which is how a new pool begins. The kernel then makes empty metadata:
// the pool would count as empty, what is put into it would be written over what the volumes hold, and no repair would find them.
func (l *LVM) ActivatePool(ctx context.Context, g Owned, name, tag string, holds bool) error {
	err := firstError(g.valid(), validName(name), validTag(tag))
	if err == nil && holds {
		err = l.blankMetadata(ctx, g, name)
	}
	if err == nil {
		err = l.ActivateLV(ctx, g, name, tag)
	}
	if errors.Is(err, ErrDamaged) {
		l.damaged.note(g, name, err)
	}
	return err
}

// metadataBlock is the size of a block of the metadata of a thin pool; the first one tells where everything else is.
const metadataBlock = 4096

// blankMetadata fails with ErrDamaged if the metadata of a pool begins with zeroes.
func (l *LVM) blankMetadata(ctx context.Context, g Owned, name string) error {
	device, at, err := l.metadataAt(ctx, g, name)
	if err != nil {
		return fmt.Errorf("metadata of thin pool %s/%s: %w", g.Name, name, err)
	}
	first, err := readBlock(device, at)
	if err != nil {
		return fmt.Errorf("metadata of thin pool %s/%s: %w", g.Name, name, err)
	}
	if bytes.Equal(first, make([]byte, metadataBlock)) {
		return fmt.Errorf("thin pool %s/%s: %w: its first block, at byte %d of %s, is zero", g.Name, name, ErrDamaged, at, device)
	}
	return nil
}

// metadataAt tells on which device, and at which byte, the metadata of a pool begins.
func (l *LVM) metadataAt(ctx context.Context, g Owned, name string) (device string, at int64, err error) {
	res, err := l.run(ctx, g.Devices, "pvs", "--segments", "--reportformat", "json", "--units", "b", "--nosuffix",
		"-o", "pv_name,pe_start,vg_extent_size,pvseg_start,lv_name,seg_start",
		"-S", fmt.Sprintf(`vg_name="%s" && vg_tags={"%s"} && lv_name=~"_tmeta"`, g.Name, g.Tag))
	if err != nil {
		return "", 0, err
	}
	var doc struct {
		Report []struct {
			Segments []row `json:"pvseg"`
		} `json:"report"`
	}
	if err := json.Unmarshal(withoutChatter(res.Stdout), &doc); err != nil {
		return "", 0, fmt.Errorf("parse: %w", err)
	}
	p := &fields{}
	for _, section := range doc.Report {
		for _, r := range section.Segments {
			if unbracket(p.text(r, "lv_name")) == name+"_tmeta" && p.number(r, "seg_start", 64) == 0 {
				device = p.id(r, "pv_name")
				at = p.number(r, "pe_start", 64) + p.number(r, "pvseg_start", 64)*p.number(r, "vg_extent_size", 64)
			}
		}
	}
	if p.err == nil && device == "" {
		p.fail(errors.New("LVM does not tell where it begins"))
	}
	return device, at, p.err
}

// readBlock reads from a device what is on it: LVM and the kernel write through other devices, past what was read here before.
func readBlock(device string, at int64) ([]byte, error) {
	f, err := os.Open(device)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := unix.Fadvise(int(f.Fd()), at, metadataBlock, unix.FADV_DONTNEED); err != nil {
		return nil, fmt.Errorf("%s: %w", device, err)
	}
	block := make([]byte, metadataBlock)
	_, err = f.ReadAt(block, at)
	return block, err
}

// PoolMetadata is what LVM recorded of the metadata of a thin pool.
type PoolMetadata struct {
	TransactionID, SizeBytes, ChunkBytes int64
	// Devices are the volumes in the pool, ordered by number.
	Devices []PoolDevice
}

// PoolDevice is what LVM recorded of a volume in a thin pool.
type PoolDevice struct {
	// ID is its number in the metadata, TransactionID the pool's when it was made. The kernel keeps both with the volume.
	ID, TransactionID int64
}

const sector = 512

// RepairPool repairs the metadata of a thin pool of which nothing is active, into the spare that LVM keeps for that, and lets the two change
// places. What was there before is a volume afterwards: LVM appends _meta and a number to the name of the pool. What is found has to be clean, and to tell
// exactly what LVM recorded: otherwise nothing is changed, and the error is ErrDamaged. Killed at any moment and repeated, it does the same.
//
// thin_repair is told the numbers that stand in the first block of the metadata. Where that block is gone, it finds the volumes by them only, and makes
// empty metadata without.
func (l *LVM) RepairPool(ctx context.Context, g Owned, name string, want PoolMetadata) error {
	if err := firstError(g.valid(), validName(name)); err != nil {
		return fmt.Errorf("repair thin pool: %w", err)
	}
	if want.TransactionID <= 0 || want.ChunkBytes < sector || want.SizeBytes < want.ChunkBytes {
		return fmt.Errorf("repair thin pool %s/%s: %w: recorded is %+v", g.Name, name, ErrInvalid, want)
	}
	wanted := fmt.Sprintf("t%d ", want.TransactionID)
	for _, d := range want.Devices {
		wanted += fmt.Sprintf("%d:%d ", d.ID, d.TransactionID)
	}
	script := repairScript(l.dir)
	options := []string{
		script, script + ".lock", wanted, "--transaction-id", fmt.Sprint(want.TransactionID), "--data-block-size", fmt.Sprint(want.ChunkBytes / sector),
		"--nr-data-blocks", fmt.Sprint(want.SizeBytes / want.ChunkBytes),
	}
	settings := fmt.Sprintf(`global{thin_repair_executable="/bin/sh" thin_repair_options=["%s"]}`, strings.Join(options, `","`))
	err := l.dropRepair(ctx, g, name)
	if err == nil {
		_, err = l.run(ctx, g.Devices, "lvconvert", "--config", settings, "--repair", g.Name+"/"+name)
	}
	if err != nil {
		err = fmt.Errorf("repair thin pool %s/%s: %w", g.Name, name, err)
		l.damaged.stays(g, name, err)
		return err
	}
	l.damaged.forget(g, name)
	return nil
}

// dropRepair removes the devices that a repair left which was killed: those of the pool's metadata and of the spare. LVM would use them again, but
// may have been killed before it made their nodes. The kernel removes no device that is open.
func (l *LVM) dropRepair(ctx context.Context, g Owned, name string) error {
	res, err := l.dmsetup(ctx, "info", "--columns", "--noheadings", "--options", "name")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(res.Stdout)) {
		device := strings.TrimSpace(line)
		part, ours := strings.CutPrefix(device, mapped(g.Name)+"-")
		spare := strings.HasPrefix(part, "lvol") && strings.HasSuffix(part, "_pmspare")
		if !ours || !spare && part != mapped(name)+"_tmeta" {
			continue
		}
		if _, err := l.dmsetup(ctx, "remove", device); err != nil {
			return err
		}
	}
	return nil
}

// damages remembers, for the life of the agent, which thin pools could not be activated because of their metadata, and why.
type damages struct {
	mu   sync.Mutex
	pool map[[3]string]string
}

func (d *damages) note(g Owned, name string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pool == nil {
		d.pool = map[[3]string]string{}
	}
	d.pool[[3]string{g.Tag, g.Name, name}] = strings.Join(strings.Fields(err.Error()), " ")
}

// stays is for a pool that was not repaired. That the kernel worked with other metadata than LVM recorded is told of an active pool only, and this one is
// not active any more.
func (d *damages) stays(g Owned, name string, err error) {
	d.mu.Lock()
	_, known := d.pool[[3]string{g.Tag, g.Name, name}]
	d.mu.Unlock()
	if !known {
		d.note(g, name, err)
	}
}

// forget is for a pool whose metadata is another one now.
func (d *damages) forget(g Owned, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.pool, [3]string{g.Tag, g.Name, name})
}

// tell adds to a report what is remembered. A pool that is active was repaired.
func (d *damages) tell(vgs []VG) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, g := range vgs {
		for _, tag := range g.Tags {
			for i, v := range g.Volumes {
				key := [3]string{tag, g.Name, v.Name}
				if v.Active {
					delete(d.pool, key)
				}
				if text, ok := d.pool[key]; ok {
					g.Volumes[i].Damage = text
				}
			}
		}
	}
}

// mapped is a name as device-mapper has it: hyphens are doubled there, for one stands between group and volume.
func mapped(name string) string { return strings.ReplaceAll(name, "-", "--") }
