// Package epoch keeps, in files of this node, the epochs of writers that the node has promised to leave groups to. A file that cannot be read is an
// error: only one that is not there says that nothing was promised.
package epoch

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

// Files are the promises below one directory, which outlives the agent and the node's boots.
type Files struct {
	// Dir is made when the first promise is.
	Dir string
}

// file is the name of the file in the directory of an owner. It holds the epoch as a decimal number, and a newline: a file that was cut off has none.
const file = "epoch"

var ownerForm = regexp.MustCompile(`^[0-9a-fA-F-]{1,64}$`)

// Promised is the highest epoch that was promised for an owner's group; 0 when none was.
func (f Files) Promised(ownerUID string) (uint64, error) {
	if !ownerForm.MatchString(ownerUID) {
		return 0, fmt.Errorf("epoch of owner %q: no UID", ownerUID)
	}
	path := filepath.Join(f.Dir, ownerUID, file)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("epoch: %w", err)
	}
	digits, whole := bytes.CutSuffix(text, []byte("\n"))
	n, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil || !whole || n == 0 {
		return 0, fmt.Errorf("epoch: %s holds %.100q, no number: remove it once no other node writes to the group", path, text)
	}
	return n, nil
}

// Promise remembers an epoch, unless a higher one is. It has reached the disk when the call returns: the file, its name, and those of the
// directories above.
func (f Files) Promise(ownerUID string, epoch uint64) error {
	have, err := f.Promised(ownerUID)
	if err != nil {
		return err
	}
	dir := filepath.Join(f.Dir, ownerUID)
	if have >= epoch {
		// The call that wrote it may have been cut off before it was on the disk.
		return f.sync(dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("epoch: %w", err)
	}
	path := filepath.Join(dir, file)
	if err := write(path+".new", strconv.FormatUint(epoch, 10)+"\n"); err != nil {
		return fmt.Errorf("epoch: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("epoch: %w", err)
	}
	return f.sync(dir)
}

func write(path, text string) error {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = out.WriteString(text)
	return errors.Join(err, out.Sync(), out.Close())
}

// sync makes the names in a directory of an owner last, and those of the directories above that may be new.
func (f Files) sync(dir string) error {
	for _, d := range []string{dir, f.Dir, filepath.Dir(f.Dir)} {
		opened, err := os.Open(d)
		if err == nil {
			err = errors.Join(opened.Sync(), opened.Close())
		}
		if err != nil {
			return fmt.Errorf("epoch: %w", err)
		}
	}
	return nil
}
