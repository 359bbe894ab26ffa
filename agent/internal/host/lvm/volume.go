package lvm

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Owned says in which group a command works: its name, its devices, which are all that the command sees, and the tag that the
// group has to carry. LVM looks at the tag in the same process that makes the change, so that an older observation cannot
// lead to a change in a group that is somebody else's by now.
type Owned struct {
	Name    string
	Devices []string
	Tag     string
}

// NewVolume is a logical volume to make. It is thin when Pool is set, a thin copy when Source is, else linear.
type NewVolume struct {
	Name string
	Tags []string
	// SizeBytes has to be a multiple of the group's extent size. It is not used for a copy, which has the size of its source.
	SizeBytes int64
	// Pool and Source are names in the same group.
	Pool, Source string
	// Snapshot makes a copy that is read-only and not activated.
	Snapshot bool
}

// NewPool is a thin pool to make. Sizes have to be multiples of the group's extent size.
type NewPool struct {
	Name                                 string
	Tags                                 []string
	SizeBytes, MetadataBytes, ChunkBytes int64
}

// CreateLV makes a logical volume and activates it, unless it is a snapshot. The name must be free: ErrExists.
//
// Signatures that an earlier volume left at the place of a new linear one are wiped. LVM asks before it does, and --yes answers;
// nothing else is asked by this command, and what is wiped lies inside the new volume. A thin volume reads as zero by itself.
func (l *LVM) CreateLV(ctx context.Context, g Owned, v NewVolume) error {
	args, err := g.activating("")
	if err == nil {
		err = v.valid()
	}
	if err != nil {
		return fmt.Errorf("create lv: %w", err)
	}
	args = append(args, "-n", v.Name)
	for _, t := range v.Tags {
		args = append(args, "--addtag", t)
	}
	switch {
	case v.Source != "" && v.Snapshot:
		args = append(args, "-s", "-ky", "-pr", g.Name+"/"+v.Source)
	case v.Source != "":
		args = append(args, "-s", "-kn", "-prw", g.Name+"/"+v.Source)
	case v.Pool != "":
		args = append(args, "-Wn", "-V", size(v.SizeBytes), "--thinpool", v.Pool, g.Name)
	default:
		args = append(args, "-Wy", "-Zy", "--yes", "-L", size(v.SizeBytes), g.Name)
	}
	if _, err := l.run(ctx, g.Devices, "lvcreate", args...); err != nil {
		return fmt.Errorf("create lv %s/%s: %w", g.Name, v.Name, err)
	}
	return nil
}

// CreatePool makes a thin pool that hands out zeroes and fails writes when it is full, instead of holding them back.
func (l *LVM) CreatePool(ctx context.Context, g Owned, p NewPool) error {
	args, err := g.activating(" error_when_full=1")
	if err == nil {
		err = firstError(CheckName(p.Name), validTags(p.Tags), validSize(p.SizeBytes), validSize(p.MetadataBytes), validSize(p.ChunkBytes))
	}
	if err != nil {
		return fmt.Errorf("create thin pool: %w", err)
	}
	args = append(args, "--type", "thin-pool", "-n", p.Name)
	for _, t := range p.Tags {
		args = append(args, "--addtag", t)
	}
	args = append(args, "-Zy", "-L", size(p.SizeBytes), "--poolmetadatasize", size(p.MetadataBytes), "--chunksize", size(p.ChunkBytes), g.Name)
	if _, err := l.run(ctx, g.Devices, "lvcreate", args...); err != nil {
		return fmt.Errorf("create thin pool %s/%s: %w", g.Name, p.Name, err)
	}
	return nil
}

// ActivateLV makes the device node of a volume or thin pool with that tag, of a snapshot too. Nothing happens to a volume without the tag.
func (l *LVM) ActivateLV(ctx context.Context, g Owned, name, tag string) error {
	_, err := l.changeLV(ctx, g, name, tag, "-ay", "-K")
	return err
}

// DeactivateLV takes the device node of a volume with that tag away. One that is open stays: ErrInUse. Nothing happens to a
// volume without the tag.
func (l *LVM) DeactivateLV(ctx context.Context, g Owned, name, tag string) error {
	_, err := l.changeLV(ctx, g, name, tag, "-an")
	return err
}

// alone is what has to hold of a volume for which an answer is given: it is of a kind that we make, and LVM would take no other volume
// along with it, as it does, after a question, with the snapshots of a thick origin, the users of an external one and what is in a pool.
const alone = `(lv_layout=["linear"] || lv_layout=["thin" && "sparse"]) && lv_role!={"thickorigin"} && lv_role!={"extthinorigin"}`

// RemoveLV removes a volume with that tag, and takes its device node away before. One that is open stays: ErrInUse. LVM looks whether
// it is, asks whether an active volume may go, and the kernel refuses to let go of a device that was opened meanwhile. That one
// question is answered; no option skips it, so the answer to any other is no. A volume of which the first question may be another
// one stays, as does one without the tag: ErrNotFound.
func (l *LVM) RemoveLV(ctx context.Context, g Owned, name, tag string) error {
	return l.remove(ctx, "y\n", g, name, tag, alone)
}

// RemovePool removes an inactive thin pool with that tag that holds no volume. Otherwise it stays: ErrNotFound, or ErrInUse.
func (l *LVM) RemovePool(ctx context.Context, g Owned, name, tag string) error {
	return l.remove(ctx, "", g, name, tag, "thin_count=0")
}

func (l *LVM) remove(ctx context.Context, answer string, g Owned, name, tag, also string) error {
	args, err := g.pick(name, tag, also)
	if err != nil {
		return fmt.Errorf("lvremove: %w", err)
	}
	res, err := l.answer(ctx, answer, g.Devices, "lvremove", args...)
	if err != nil {
		return fmt.Errorf("lvremove %s/%s: %w", g.Name, name, err)
	}
	return confirmed(res.Stdout, "successfully removed", g, name)
}

// confirmed wants LVM to say that it did something: a volume that the criteria do not fit is passed over in silence.
func confirmed(out []byte, said string, g Owned, name string) error {
	if !bytes.Contains(out, []byte(said)) {
		return fmt.Errorf("lv %s/%s: %w: no volume of that name carries our tag and is free of others that depend on it", g.Name, name, ErrNotFound)
	}
	return nil
}

// changeLV runs lvchange on a volume if the group and the volume carry their tags.
func (l *LVM) changeLV(ctx context.Context, g Owned, name, tag string, args ...string) ([]byte, error) {
	picked, err := g.pick(name, tag)
	if err != nil {
		return nil, fmt.Errorf("lvchange: %w", err)
	}
	res, err := l.run(ctx, g.Devices, "lvchange", append(args, picked...)...)
	if err != nil {
		return nil, fmt.Errorf("lvchange %s/%s: %w", g.Name, name, err)
	}
	return res.Stdout, nil
}

// pick are the arguments that name a volume, and make LVM pass over it unless the group and the volume carry their tags and what else
// is said about it holds.
func (g Owned) pick(name, tag string, also ...string) ([]string, error) {
	if err := firstError(g.valid(), CheckName(name), CheckTag(tag)); err != nil {
		return nil, err
	}
	terms := append([]string{fmt.Sprintf(`vg_tags={"%s"}`, g.Tag), fmt.Sprintf(`lv_tags={"%s"}`, tag)}, also...)
	return []string{"-S", strings.Join(terms, " && "), g.Name + "/" + name}, nil
}

// activating are the arguments that let LVM activate volumes of a group with the tag only. A group without it gets no volume:
// LVM cannot wipe what it must not activate, and takes the volume back by itself. More settings of the section may follow.
func (g Owned) activating(more string) ([]string, error) {
	if err := g.valid(); err != nil {
		return nil, err
	}
	return []string{"--config", fmt.Sprintf(`activation{volume_list=["@%s"]%s}`, g.Tag, more)}, nil
}

func (g Owned) valid() error { return firstError(CheckName(g.Name), CheckTag(g.Tag)) }

func (v NewVolume) valid() error {
	err := firstError(CheckName(v.Name), validTags(v.Tags))
	switch {
	case err != nil:
		return err
	case v.Source != "":
		return CheckName(v.Source)
	case v.Snapshot:
		return fmt.Errorf("%w: a snapshot needs a source", ErrInvalid)
	case v.Pool != "":
		return firstError(CheckName(v.Pool), validSize(v.SizeBytes))
	}
	return validSize(v.SizeBytes)
}

func validTags(tags []string) error {
	for _, t := range tags {
		if err := CheckTag(t); err != nil {
			return err
		}
	}
	return nil
}

// validSize wants what LVM takes without rounding, which it does for neither kind of volume in the same way.
func validSize(bytes int64) error {
	if bytes <= 0 || bytes%512 != 0 {
		return fmt.Errorf("%w: size %d", ErrInvalid, bytes)
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func size(bytes int64) string { return strconv.FormatInt(bytes, 10) + "b" }

// Place is some extents on a device that carries a physical volume.
type Place struct {
	Device string
	// First is the number of the first extent.
	First, Count int64
}

// ExtendLV makes a volume, or the data of a pool, as large as given; the metadata of a pool too when metadataBytes is not zero. It
// never makes anything smaller, and leaves a filesystem alone. If places are given, LVM takes no extent outside of them: ErrNoSpace.
func (l *LVM) ExtendLV(ctx context.Context, g Owned, name string, sizeBytes, metadataBytes int64, places ...Place) error {
	if err := firstError(g.valid(), CheckName(name), validSize(sizeBytes), validPlaces(places)); err != nil {
		return fmt.Errorf("extend lv: %w", err)
	}
	args := []string{"-L", size(sizeBytes)}
	if metadataBytes > 0 {
		args = append(args, "--poolmetadatasize", size(metadataBytes))
	}
	args = append(args, g.Name+"/"+name)
	for _, p := range places {
		args = append(args, p.String())
	}
	if _, err := l.run(ctx, g.Devices, "lvextend", args...); err != nil {
		return fmt.Errorf("extend lv %s/%s: %w", g.Name, name, err)
	}
	return nil
}

// escaped keeps what is in a path from being read as the beginning of extents, or as that of a tag.
var escaped = strings.NewReplacer(`\`, `\\`, ":", `\:`, "@", `\@`)

// String is what LVM reads.
func (p Place) String() string {
	return fmt.Sprintf("%s:%d-%d", escaped.Replace(p.Device), p.First, p.First+p.Count-1)
}

func validPlaces(places []Place) error {
	for _, p := range places {
		if err := validDevice(p.Device); err != nil {
			return err
		}
		if p.First < 0 || p.Count <= 0 {
			return fmt.Errorf("%w: %d extents from %d", ErrInvalid, p.Count, p.First)
		}
	}
	return nil
}

// RetagLV takes a tag off a volume that has another one, and adds one in the same change of the metadata; each only if it is not empty. A volume
// without the other tag keeps its tags: ErrNotFound.
func (l *LVM) RetagLV(ctx context.Context, g Owned, name, tag, remove, add string) error {
	var args []string
	for _, change := range [][]string{{"--deltag", remove}, {"--addtag", add}} {
		if change[1] == "" {
			continue
		}
		if err := CheckTag(change[1]); err != nil {
			return fmt.Errorf("retag lv: %w", err)
		}
		args = append(args, change...)
	}
	if len(args) == 0 {
		return fmt.Errorf("retag lv: %w: no tag", ErrInvalid)
	}
	out, err := l.changeLV(ctx, g, name, tag, args...)
	if err != nil {
		return err
	}
	return confirmed(out, "changed", g, name)
}
