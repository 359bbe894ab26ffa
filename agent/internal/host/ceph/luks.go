package ceph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/pkg/osd"
)

const (
	cryptsetup = "/usr/sbin/cryptsetup"
	// dmsetup is for the pod of the OSD, which looks for a mapping with it.
	dmsetup = "/usr/sbin/dmsetup"
	// dmCrypt is the part of the kernel.
	dmCrypt = "dm_crypt"
	// fileBytes is how large the file is in which headers are made: the data of a disk begin in it. It takes no more room than what is written to it.
	fileBytes = 2 * osd.SealedBytes
	// iterations are few: the key is 32 random bytes, and no password that somebody could guess.
	iterations = 1000
)

// FindEncryption returns nil if the container with the programs runs on this node and can encrypt disks, ErrNoContainer if it does not run, and ErrNoEncryption if it cannot.
func (t *Tool) FindEncryption(ctx context.Context, container string) error {
	root, err := t.root(container)
	if err != nil {
		return err
	}
	defer root.Close()
	files, err := os.OpenRoot(path(root))
	if err != nil {
		return err
	}
	defer func() { _ = files.Close() }() // Nothing is written through it.
	for _, program := range []string{cryptsetup, dmsetup} {
		switch info, err := files.Stat(strings.TrimPrefix(program, "/")); {
		case errors.Is(err, os.ErrNotExist):
			return fmt.Errorf("%w: the image of Ceph has no %s", ErrNoEncryption, program)
		case err != nil:
			return fmt.Errorf("%s in the container: %w", program, err)
		case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
			return fmt.Errorf("%w: %s in the image of Ceph is no program", ErrNoEncryption, program)
		}
	}
	switch has, err := t.cfg.Kernel(ctx, dmCrypt); {
	case err != nil:
		return fmt.Errorf("whether the kernel has %s: %w", dmCrypt, err)
	case !has:
		return fmt.Errorf("%w: the kernel of the node has no %s", ErrNoEncryption, dmCrypt)
	}
	return nil
}

// Seal says for which encrypted OSD headers are made.
type Seal struct {
	// Container is the ID of the container with the programs.
	Container string
	// UUID of the OSD, and FSID of the Ceph cluster.
	UUID, FSID string
	// SizeBytes of the disk.
	SizeBytes int64
	// Key opens it.
	Key osd.Key
}

// Seal returns the start of the disk of an encrypted OSD, its headers and its key slot, as cryptsetup makes them in a file of the container. It touches no disk: cryptsetup begins with
// random data, which would make it one of nobody.
func (t *Tool) Seal(ctx context.Context, s Seal) ([]byte, error) {
	if !osd.ValidUUID(s.UUID) || !osd.ValidUUID(s.FSID) || s.SizeBytes <= 0 || s.Key.IsZero() {
		return nil, fmt.Errorf("seal OSD %q of %q: %d bytes, with %s", s.UUID, s.FSID, s.SizeBytes, s.Key)
	}
	token, err := json.Marshal(map[string]any{"type": osd.TokenMade, "keyslots": []string{}, "size": strconv.FormatInt(s.SizeBytes, 10)})
	if err != nil {
		return nil, err
	}
	out, err := t.inFile(ctx, s.Container, s.UUID, nil, osd.SlotsBytes, []run.Command{
		{Path: cryptsetup, Stdin: s.Key.Reveal(), Args: []string{
			"luksFormat", "--batch-mode", "--disable-locks", "--type", "luks2", "--uuid", s.UUID, "--label", osd.SealedLabel, "--subsystem", s.FSID,
			"--cipher", "aes-xts-plain64", "--key-size", "512", "--hash", "sha256", "--sector-size", strconv.Itoa(osd.SealedSector),
			"--pbkdf", "pbkdf2", "--pbkdf-force-iterations", strconv.Itoa(iterations),
			"--luks2-metadata-size", "16k", "--luks2-keyslots-size", "16352k", "--offset", strconv.Itoa(osd.SealedBytes / 512), "--key-file", "-",
		}},
		{Path: cryptsetup, Stdin: token, Args: []string{"token", "import", "--disable-locks", "--token-id", "0", "--json-file", "-"}},
	})
	if err != nil {
		return nil, fmt.Errorf("seal OSD %s: %w", s.UUID, err)
	}
	return out, nil
}

// Finish returns the headers of an encrypted OSD with the word that its making ended, given the start of its disk. It touches no disk.
func (t *Tool) Finish(ctx context.Context, container, uuid string, start []byte) ([]byte, error) {
	if !osd.ValidUUID(uuid) || len(start) != osd.SlotsBytes {
		return nil, fmt.Errorf("finish OSD %q: %d bytes", uuid, len(start))
	}
	token, err := json.Marshal(map[string]any{"type": osd.TokenReady, "keyslots": []string{}})
	if err != nil {
		return nil, err
	}
	out, err := t.inFile(ctx, container, uuid, start, osd.HeadersBytes, []run.Command{
		{Path: cryptsetup, Stdin: token, Args: []string{"token", "import", "--disable-locks", "--token-id", "1", "--json-file", "-"}},
	})
	if err != nil {
		return nil, fmt.Errorf("finish OSD %s: %w", uuid, err)
	}
	return out, nil
}

// inFile has commands work on a file of the container, and returns how that begins then. The file has nothing that is not on the disk, and opens with the key alone.
func (t *Tool) inFile(ctx context.Context, container, uuid string, start []byte, length int, commands []run.Command) ([]byte, error) {
	in, err := t.enter(ctx, container)
	if err != nil {
		return nil, err
	}
	defer in.leave()
	name := "tmp/quarry-luks-" + uuid
	if err := errors.Join(in.files.RemoveAll(name), in.create(name, start)); err != nil {
		return nil, fmt.Errorf("file in the container: %w", err)
	}
	defer in.files.RemoveAll(name) //nolint:errcheck // It goes with the container at the latest.
	for _, c := range commands {
		c.Root, c.Args = in.path, append(c.Args, "/"+name)
		if _, err := t.cfg.Runner.Run(ctx, c); err != nil {
			return nil, err
		}
	}
	f, err := in.files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := make([]byte, length)
	_, err = io.ReadFull(f, out)
	return out, err
}

// create makes a file of fileBytes that begins with some bytes.
func (in *inside) create(name string, start []byte) error {
	f, err := in.files.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(start)
	return errors.Join(err, f.Truncate(fileBytes), f.Close())
}

// Open says which encrypted OSD is opened.
type Open struct {
	// Container is the ID of the container with the programs.
	Container string
	// UUID of the OSD.
	UUID string
	// Device is the path of the disk, which the container has to see under the same path; Number is its device number.
	Device string
	Number uint64
	// Key opens it.
	Key osd.Key
}

// Open opens the disk of an encrypted OSD. The caller has looked at the disk, and closes the mapping, if any, before and after. A call that was killed may leave one.
func (t *Tool) Open(ctx context.Context, o Open) error {
	if !osd.ValidUUID(o.UUID) || !strings.HasPrefix(o.Device, "/dev/") || filepath.Clean(o.Device) != o.Device || o.Key.IsZero() {
		return fmt.Errorf("open OSD %q on %q with %s", o.UUID, o.Device, o.Key)
	}
	in, err := t.enter(ctx, o.Container)
	if err != nil {
		return fmt.Errorf("open OSD %s: %w", o.UUID, err)
	}
	defer in.leave()
	if err := t.sees(in, o.Device, o.Number); err != nil {
		return fmt.Errorf("open OSD %s: %w", o.UUID, err)
	}
	_, err = t.cfg.Runner.Run(ctx, run.Command{
		Path: cryptsetup, Root: in.path, Stdin: o.Key.Reveal(),
		// Udev's semaphores are those of another IPC namespace. The kernel's keyrings are the container's, and the mapping outlives that.
		Env:  []string{"DM_DISABLE_UDEV=1"},
		Args: []string{"open", "--batch-mode", "--disable-locks", "--disable-keyring", "--type", "luks2", "--key-file", "-", o.Device, osd.MappingName(o.UUID)},
	})
	if err != nil {
		return fmt.Errorf("open OSD %s on %s: %w", o.UUID, o.Device, err)
	}
	return nil
}
