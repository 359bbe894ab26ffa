package iscsi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path"
	"slices"
	"strings"

	"quarry.storage/quarry/pkg/sharedlun"
)

// databases are where open-iscsi keeps its records, below the root of whoever serves sessions: which of them depends on its version.
var databases = []string{"var/lib/iscsi", "etc/iscsi"}

const (
	// nodes is the directory of the records of targets in such a place.
	nodes        = "nodes"
	defaultIface = "default"
	// draft is where a record is written before it replaces the old one: not among the records, where it would be taken for one.
	draft     = ".quarry-record"
	lastLine  = "# END RECORD"
	authKeys  = "node.session.auth."
	modeOwner = 0o600
)

// settings are those of our records. Nothing is started again at boot, and a login ends in time: twice ten seconds and what is between.
var settings = []setting{
	{"node.startup", "manual"},
	{"node.conn[0].startup", "manual"},
	{"node.leading_login", "No"},
	{"node.session.initial_login_retry_max", "2"},
	{"node.conn[0].timeo.login_timeout", "10"},
}

// shipped are the settings that records of ours ever had: one that an earlier version wrote is ours as well, and has credentials. Whoever changes settings leaves the earlier ones here.
var shipped = [][]setting{settings}

type setting struct{ key, value string }

// credentials are the settings of a login. A record has no others.
func credentials(c *sharedlun.Chap) []setting {
	if c == nil {
		return []setting{{authKeys + "authmethod", "None"}}
	}
	out := []setting{{authKeys + "authmethod", "CHAP"}, {authKeys + "username", c.Username}, {authKeys + "password", c.Password}}
	if c.MutualUsername != "" {
		out = append(out, setting{authKeys + "username_in", c.MutualUsername}, setting{authKeys + "password_in", c.MutualPassword})
	}
	return out
}

// edit brings a record to the settings and the credentials. All else stays as it is.
func edit(record string, c *sharedlun.Chap) string {
	set := slices.Concat(settings, credentials(c))
	var b strings.Builder
	for line := range strings.Lines(record) {
		key, _, _ := strings.Cut(line, "=")
		key = strings.TrimSpace(key)
		// chap_algs says what the host's administrator allows.
		auth := strings.HasPrefix(key, authKeys) && key != authKeys+"chap_algs"
		if auth || slices.ContainsFunc(set, func(s setting) bool { return s.key == key }) {
			continue
		}
		if strings.TrimSpace(line) == lastLine {
			write(&b, set)
			set = nil
		}
		b.WriteString(line)
	}
	write(&b, set)
	return b.String()
}

func write(b *strings.Builder, set []setting) {
	for _, s := range set {
		fmt.Fprintf(b, "%s = %s\n", s.key, s.value)
	}
}

// records finds the files that have the record of a portal, below the root; those of all portals of the target when none is named.
func (h *Host) records(root *os.Root, iqn, portal string) ([]string, error) {
	name := ""
	if portal != "" {
		at, err := netip.ParseAddrPort(portal)
		if err != nil {
			return nil, err
		}
		name = fmt.Sprintf("%s,%d", at.Addr(), at.Port())
	}
	var out []string
	for _, db := range databases {
		dir := path.Join(db, nodes, iqn)
		entries, err := fs.ReadDir(root.FS(), dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("records of %s: %w", iqn, err)
		}
		for _, e := range entries {
			if name != "" && e.Name() != name && !strings.HasPrefix(e.Name(), name+",") {
				continue
			}
			file := path.Join(dir, e.Name())
			if e.IsDir() {
				file = path.Join(file, cmp.Or(h.cfg.Iface, defaultIface))
			}
			if _, err := root.Stat(file); err == nil {
				out = append(out, file)
			} else if !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("record of %s: %w", iqn, err)
			}
		}
	}
	return out, nil
}

// portalRecords finds the records of a portal, and those of them that are ours.
func (h *Host) portalRecords(iqn, portal string) (all, own []string, err error) {
	err = h.atRoot(func(root *os.Root) error {
		if all, err = h.records(root, iqn, portal); err == nil {
			own, err = ownOnly(root, all)
		}
		return err
	})
	return all, own, err
}

// shown is what iscsiadm shows of the records that it has of a target, or of one portal of it; empty when it has none.
func (h *Host) shown(ctx context.Context, iqn, portal string) (string, error) {
	res, err := h.tool(ctx, h.node(iqn, portal)...)
	if exitCode(err) == codeNoObjects {
		return "", nil
	}
	return string(res.Stdout), err
}

// settled reports whether a record that iscsiadm shows has our settings.
func settled(text string) bool {
	lines := strings.Split(text, "\n")
	return !slices.ContainsFunc(settings, func(s setting) bool { return !slices.Contains(lines, s.key+" = "+s.value) })
}

// Recorded reports whether there is a record of a target that a logout has to remove, below the root of whoever serves sessions, or would serve them: a logout that was cut off leaves some, with their
// credentials. A record that shows that it is ours counts in both places, another one where iscsiadm has it. What cannot be read is an error.
func (h *Host) Recorded(ctx context.Context, iqn string) (bool, error) {
	pid, err := h.server()
	if err != nil {
		return false, err
	}
	place := "/"
	if pid != 0 && !h.ours(pid) {
		place = h.rootOf(pid)
	}
	root, err := os.OpenRoot(place)
	if err != nil {
		return false, err
	}
	defer func() { _ = root.Close() }() // Nothing was written to it.
	files, err := h.records(root, iqn, "")
	if err != nil || len(files) == 0 {
		return false, err
	}
	if own, err := ownOnly(root, files); err != nil || len(own) > 0 {
		return len(own) > 0, err
	}
	text, err := h.shown(ctx, iqn, "")
	return text != "", err
}

// forgetOwn removes the records of a target that are ours, and the directories that are empty then.
func (h *Host) forgetOwn(root *os.Root, iqn string) error {
	files, err := h.records(root, iqn, "")
	if err != nil {
		return err
	}
	own, err := ownOnly(root, files)
	if err != nil {
		return err
	}
	for _, db := range databases {
		// One that was being written has credentials, too.
		own = append(own, path.Join(db, draft))
	}
	for _, file := range own {
		if err := remove(root, file); err != nil {
			return err
		}
		for dir := path.Dir(file); strings.Contains(dir, "/"+nodes+"/") && root.Remove(dir) == nil; dir = path.Dir(dir) {
			// One that has somebody else's record in it stays.
		}
	}
	return nil
}

// ownOnly returns the records that show that they are ours: they have our settings as one block, which iscsiadm writes in different places.
func ownOnly(root *os.Root, files []string) ([]string, error) {
	var own []string
	for _, file := range files {
		text, err := root.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(shipped, func(set []setting) bool {
			var b strings.Builder
			write(&b, set)
			return strings.Contains(string(text), b.String())
		}) {
			own = append(own, file)
		}
	}
	return own, nil
}

// settle writes the settings and the credentials into records of a portal. They are in no argument of a process.
func (h *Host) settle(iqn, portal string, files []string, c *sharedlun.Chap) error {
	return h.atRoot(func(root *os.Root) error {
		for _, file := range files {
			if err := replace(root, file, c); err != nil {
				return fmt.Errorf("record of %s at %s: %w", iqn, portal, err)
			}
		}
		return nil
	})
}

func replace(root *os.Root, file string, c *sharedlun.Chap) error {
	text, err := root.ReadFile(file)
	if err != nil {
		return err
	}
	next := edit(string(text), c)
	if next == string(text) {
		return nil
	}
	place := path.Join(databases[0], draft)
	if !strings.HasPrefix(file, databases[0]+"/") {
		place = path.Join(databases[1], draft)
	}
	_ = root.Remove(place) // One that was left by an end in the middle.
	f, err := root.OpenFile(place, os.O_WRONLY|os.O_CREATE|os.O_EXCL, modeOwner)
	if err != nil {
		return err
	}
	_, err = f.WriteString(next)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = root.Rename(place, file)
	}
	if err != nil {
		_ = root.Remove(place) // The error says what happened.
	}
	return err
}

// atRoot works below the root of whoever serves sessions. Records are written one at a time.
func (h *Host) atRoot(do func(root *os.Root) error) error {
	pid, err := h.server()
	if err == nil && pid == 0 {
		err = errNoDaemon
	}
	if err != nil {
		return err
	}
	place := h.rootOf(pid)
	if h.ours(pid) {
		place = "/"
	}
	root, err := os.OpenRoot(place)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // Nothing was written to it.
	h.mu.Lock()
	defer h.mu.Unlock()
	return do(root)
}
