package iscsi

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"quarry.storage/quarry/test/lab/internal/spec"
)

// record is the file in which the kernel keeps the reservations of a disk whose
// initiators asked for that ("activate persist through power loss").
func record(l spec.LUN) string { return filepath.Join(Records, "pr", "aptpl_"+l.Serial) }

// restore tells the kernel what it has written down about a disk: it does not
// read that by itself. That has to be done before the disk is served.
func (f tree) restore(l spec.LUN) error {
	text, err := os.ReadFile(record(l))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	registrations, err := registrations(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", record(l), err)
	}
	for _, r := range registrations {
		if err := os.WriteFile(f.at(backstoreDir(l)+"/pr/res_aptpl_metadata"), []byte(r), 0o600); err != nil {
			return fmt.Errorf("restore the registration %s: %w", r, err)
		}
	}
	return nil
}

// registrations reads the kernel's file: each registration stands between two
// lines. It is returned in the form in which the kernel takes it back.
func registrations(text string) ([]string, error) {
	var all, open []string
	inside := false
	for line := range strings.Lines(text) {
		line = strings.Trim(line, "\n\x00")
		switch {
		case strings.HasPrefix(line, "PR_REG_START:"):
			if inside {
				return nil, errors.New("a registration begins inside of another one")
			}
			inside, open = true, nil
		case strings.HasPrefix(line, "PR_REG_END:"):
			if !inside || len(open) == 0 {
				return nil, errors.New("a registration ends that has not begun, or has nothing in it")
			}
			all, inside = append(all, strings.Join(open, ",")), false
		case inside:
			open = append(open, strings.ReplaceAll(line, " ", ""))
		case line != "" && line != "No Registrations or Reservations":
			return nil, fmt.Errorf("line %q belongs to no registration", line)
		}
	}
	if inside {
		return nil, errors.New("the last registration has no end")
	}
	return all, nil
}
