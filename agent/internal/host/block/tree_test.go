package block

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tree is a host's /sys, /dev and /run/udev below a temporary directory.
type tree struct {
	t    *testing.T
	root string
}

func newTree(t *testing.T) tree {
	t.Helper()
	tr := tree{t, t.TempDir()}
	for _, dir := range []string{"sys/class/block", "dev/disk/by-id", "dev/disk/by-path", "run/udev/data"} {
		tr.mkdir(dir)
	}
	return tr
}

func (tr tree) host() *Host {
	return New(Config{Sys: tr.root + "/sys", Dev: tr.root + "/dev", Udev: tr.root + "/run/udev"})
}

func (tr tree) mkdir(rel string) {
	tr.t.Helper()
	if err := os.MkdirAll(filepath.Join(tr.root, rel), 0o755); err != nil {
		tr.t.Fatal(err)
	}
}

// write makes files: path, then text, and so on.
func (tr tree) write(pairs ...string) {
	tr.t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		tr.mkdir(filepath.Dir(pairs[i]))
		if err := os.WriteFile(filepath.Join(tr.root, pairs[i]), []byte(pairs[i+1]), 0o644); err != nil {
			tr.t.Fatal(err)
		}
	}
}

func (tr tree) remove(rel string) {
	tr.t.Helper()
	if err := os.RemoveAll(filepath.Join(tr.root, rel)); err != nil {
		tr.t.Fatal(err)
	}
}

func (tr tree) link(rel, target string) {
	tr.t.Helper()
	tr.mkdir(filepath.Dir(rel))
	if err := os.Symlink(target, filepath.Join(tr.root, rel)); err != nil {
		tr.t.Fatal(err)
	}
}

// disk makes a disk of 1 GiB at a place below /sys/devices, and its node. It returns its directory.
func (tr tree) disk(place, name, number string) string {
	tr.t.Helper()
	dir := "sys/devices/" + place + "/block/" + name
	tr.write(
		dir+"/dev", number+"\n", dir+"/size", "2097152\n", dir+"/ro", "0\n", dir+"/removable", "0\n",
		dir+"/queue/logical_block_size", "512\n", dir+"/queue/physical_block_size", "4096\n", dir+"/queue/rotational", "1\n",
		"dev/"+name, "",
	)
	tr.mkdir(dir + "/holders")
	tr.mkdir(dir + "/slaves")
	tr.link("sys/class/block/"+name, filepath.Join(tr.root, dir))
	tr.link("sys/dev/block/"+number, filepath.Join(tr.root, dir))
	return dir
}

// partition adds a partition to a disk.
func (tr tree) partition(disk, name, number string) string {
	tr.t.Helper()
	dir := disk + "/" + name
	tr.write(dir+"/dev", number+"\n", dir+"/size", "2048\n", dir+"/ro", "0\n", dir+"/partition", "1\n", "dev/"+name, "")
	tr.mkdir(dir + "/holders")
	tr.link("sys/class/block/"+name, filepath.Join(tr.root, dir))
	tr.link("sys/dev/block/"+number, filepath.Join(tr.root, dir))
	return dir
}

// udev writes a record of the database, and the links it names.
func (tr tree) udev(number, node string, lines ...string) {
	tr.t.Helper()
	tr.write("run/udev/data/b"+number, strings.Join(append(lines, "I:1234", "G:systemd", "V:1"), "\n")+"\n")
	for _, l := range lines {
		if name, ok := strings.CutPrefix(l, "S:"); ok {
			tr.link("dev/"+name, filepath.Join(tr.root, "dev", node))
		}
	}
}

// list lists the devices, and wants each of them to be the same when it is read alone.
func (tr tree) list() map[string]Device {
	tr.t.Helper()
	devices, err := tr.host().List(tr.t.Context())
	if err != nil {
		tr.t.Fatal(err)
	}
	out := map[string]Device{}
	for _, d := range devices {
		out[d.Name] = d
		if d.Major == 0 {
			continue // Its number could not be read, so nobody can ask for it.
		}
		alone, err := tr.host().Device(d.Major, d.Minor)
		if diff := cmp.Diff(d, alone); diff != "" || err != nil {
			tr.t.Errorf("%s alone: %v (-listed +alone):\n%s", d.Name, err, diff)
		}
	}
	return out
}
