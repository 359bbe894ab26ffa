package lvm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"quarry.storage/quarry/agent/internal/host/lvm/column"
	"quarry.storage/quarry/agent/internal/host/lvm/thin"
)

// ActivatePool makes the device of a thin pool with that tag. One of which the metadata is damaged is not activated: ErrDamaged, and reports
// tell it until the pool is active. holds says that volumes are in it: a pool that holds none yet may never have been active.
//
// LVM has the metadata checked, but not where its first block is zero, which is how a new pool begins. The kernel then makes empty metadata:
// the pool would count as empty, what is put into it would be written over what the volumes hold, and no repair would find them. Nor does it compare
// the volumes: metadata that is empty, and else in order, passes the check.
func (l *LVM) ActivatePool(ctx context.Context, g Owned, name, tag string, holds bool) error {
	err := firstError(g.valid(), CheckName(name), CheckTag(tag))
	if err == nil && holds {
		err = l.checkMetadata(ctx, g, name)
	}
	if err == nil {
		err = l.ActivateLV(ctx, g, name, tag)
	}
	if errors.Is(err, ErrDamaged) {
		l.damaged.note(g, name, err)
	}
	return err
}

// checkMetadata fails with ErrDamaged if the metadata of a pool begins with zeroes, or lacks volumes that LVM recorded. What else is wrong with it is
// found by LVM, which has it checked before it activates the pool: the metadata is not read in full here, but for that.
func (l *LVM) checkMetadata(ctx context.Context, g Owned, name string) error {
	pieces, err := l.metadataPieces(ctx, g.Devices, fmt.Sprintf(`vg_name="%s" && vg_tags={"%s"}`, g.Name, g.Tag), name)
	var first []byte
	if err == nil {
		first, err = thin.Block(pieces, 0)
	}
	if err != nil {
		return fmt.Errorf("metadata of thin pool %s/%s: %w", g.Name, name, err)
	}
	if bytes.Equal(first, make([]byte, thin.BlockBytes)) {
		return fmt.Errorf("thin pool %s/%s: %w: its first block, at byte %d of %s, is zero", g.Name, name, ErrDamaged, pieces[0].At, pieces[0].Device)
	}
	recorded, err := l.recorded(ctx, g, name)
	if err != nil {
		return fmt.Errorf("what LVM recorded of thin pool %s/%s: %w", g.Name, name, err)
	}
	kernel, err := thin.Read(pieces)
	if err != nil {
		return nil //nolint:nilerr // LVM's check tells what is wrong, and does not activate the pool.
	}
	if text := recorded.Lacks(kernel); text != "" {
		return fmt.Errorf("thin pool %s/%s: %w: %s", g.Name, name, ErrDamaged, text)
	}
	return nil
}

// metadataPieces tells on which devices the metadata of a pool lies, in its order, in the group that the criteria choose.
func (l *LVM) metadataPieces(ctx context.Context, devices []string, group, name string) ([]thin.Piece, error) {
	res, err := l.run(ctx, devices, "pvs", "--segments", "--reportformat", "json", "--units", "b", "--nosuffix",
		"-o", "pv_name,pe_start,vg_extent_size,pvseg_start,pvseg_size,lv_name,seg_start", "-S", group+` && lv_name=~"_tmeta"`)
	if err != nil {
		return nil, err
	}
	rows, err := reportRows(res.Stdout, "pvseg")
	if err != nil {
		return nil, err
	}
	p, starts := &fields{}, map[int64]thin.Piece{}
	for _, r := range rows {
		if unbracket(p.Text(r, "lv_name")) != name+"_tmeta" {
			continue
		}
		extent := p.Number(r, "vg_extent_size", 64)
		starts[p.Number(r, "seg_start", 64)] = thin.Piece{
			Device: p.ID(r, "pv_name"), At: p.Number(r, "pe_start", 64) + p.Number(r, "pvseg_start", 64)*extent, Bytes: p.Number(r, "pvseg_size", 64) * extent,
		}
	}
	var out []thin.Piece
	for at := int64(0); len(out) < len(starts); at += out[len(out)-1].Bytes {
		piece, ok := starts[at]
		if !ok || piece.Bytes <= 0 {
			break
		}
		out = append(out, piece)
	}
	if p.Err == nil && (len(out) == 0 || len(out) < len(starts)) {
		p.Fail(errors.New("LVM does not tell where all of it lies"))
	}
	return out, p.Err
}

// recorded is what LVM has recorded of a pool and the volumes in it.
func (l *LVM) recorded(ctx context.Context, g Owned, name string) (thin.Pool, error) {
	res, err := l.run(ctx, g.Devices, "lvs", "--segments", "--reportformat", "json", "-o", "lv_name,pool_lv,transaction_id,thin_id",
		"-S", fmt.Sprintf(`vg_name="%s" && vg_tags={"%s"} && (lv_name="%s" || pool_lv="%[3]s")`, g.Name, g.Tag, name))
	if err != nil {
		return thin.Pool{}, err
	}
	rows, err := reportRows(res.Stdout, "seg")
	if err != nil {
		return thin.Pool{}, err
	}
	p, found := &fields{}, false
	var out thin.Pool
	for _, r := range rows {
		transaction := p.Number(r, "transaction_id", 64)
		switch {
		case p.ID(r, "lv_name") == name:
			out.TransactionID, found = transaction, true
		default:
			out.Devices = append(out.Devices, thin.Device{ID: p.Number(r, "thin_id", 64), TransactionID: transaction})
		}
	}
	if p.Err == nil && !found {
		p.Fail(errors.New("LVM does not know the pool"))
	}
	return out, p.Err
}

// reportRows are the rows of a report of one kind.
func reportRows(doc []byte, kind string) ([]row, error) {
	var report struct {
		Report []map[string][]row `json:"report"`
	}
	if err := column.Decode(doc, &report); err != nil {
		return nil, err
	}
	var out []row
	for _, section := range report.Report {
		out = append(out, section[kind]...)
	}
	return out, nil
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
	if err := firstError(g.valid(), CheckName(name)); err != nil {
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
