package iscsi

import (
	"fmt"
	"path"
	"path/filepath"
	"strconv"

	"quarry.storage/quarry/test/lab/internal/spec"
)

// step is one change below the target's directory of configfs.
type step struct {
	do stepKind
	// path is relative to that directory, and so is the value of a link.
	path, value string
}

type stepKind string

const (
	makeDir  stepKind = "mkdir"
	write    stepKind = "write"
	makeLink stepKind = "link"
)

// unset is what LIO takes for a name or password that is not there.
const unset = "NULL"

func backstoreDir(l spec.LUN) string { return "core/iblock_0/" + l.Serial }

func targetDir(t spec.Target) string { return "iscsi/" + t.IQN() }

func groupDir(t spec.Target) string { return targetDir(t) + "/tpgt_1" }

func lunDir(n int) string { return "lun_" + strconv.Itoa(n) }

// backstore makes a disk one that can be served. These steps are for one that is
// not yet.
func backstore(l spec.LUN) []step {
	dir := backstoreDir(l)
	return []step{
		{makeDir, dir, ""},
		{write, dir + "/control", "udev_path=" + l.Device},
		{write, dir + "/enable", "1"},
		{write, dir + "/wwn/vpd_unit_serial", l.Serial},
	}
}

// served are the steps that serve a target over its backstores. Each of them
// may be there already.
func served(t spec.Target, initiators []string) []step {
	group := groupDir(t)
	steps := []step{{makeDir, targetDir(t), ""}, {makeDir, group, ""}}
	steps = append(steps, credentials(group, t)...)
	steps = append(steps,
		// Whoever knows the password may come, and write.
		step{write, group + "/attrib/generate_node_acls", "1"},
		step{write, group + "/attrib/cache_dynamic_acls", "1"},
		step{write, group + "/attrib/demo_mode_write_protect", "0"},
		step{write, group + "/attrib/authentication", digit(t.CHAP != nil)},
	)
	for n, l := range t.LUNs {
		dir := path.Join(group, "lun", lunDir(n))
		steps = append(steps,
			step{write, backstoreDir(l) + "/attrib/emulate_pr", digit(!t.NoReservations)},
			step{makeDir, dir, ""}, step{makeLink, dir + "/disk", backstoreDir(l)})
	}
	// The kernel restores reservations of those that have an entry of their
	// own before anybody logs in.
	for _, i := range initiators {
		acl := path.Join(group, "acls", i)
		steps = append(steps, step{makeDir, acl, ""})
		steps = append(steps, credentials(acl, t)...)
		for n := range t.LUNs {
			dir := path.Join(acl, lunDir(n))
			steps = append(steps, step{makeDir, dir, ""}, step{makeLink, dir + "/lun", path.Join(group, "lun", lunDir(n))})
		}
	}
	for _, a := range t.Addresses() {
		steps = append(steps, step{makeDir, fmt.Sprintf("%s/np/%s:%d", group, a, spec.PortalPort), ""})
	}
	return append(steps, step{write, group + "/enable", digit(!t.Stopped)})
}

// credentials are those of a portal group, for initiators without an entry, or
// of an entry.
func credentials(dir string, t spec.Target) []step {
	chap, mutual := t.CHAP, t.Mutual
	if chap == nil {
		chap = &spec.Credentials{User: unset, Password: unset}
	}
	if mutual == nil {
		mutual = &spec.Credentials{User: unset, Password: unset}
	}
	return []step{
		{write, filepath.Join(dir, "auth/userid"), chap.User},
		{write, filepath.Join(dir, "auth/password"), chap.Password},
		{write, filepath.Join(dir, "auth/userid_mutual"), mutual.User},
		{write, filepath.Join(dir, "auth/password_mutual"), mutual.Password},
	}
}

func digit(on bool) string {
	if on {
		return "1"
	}
	return "0"
}
