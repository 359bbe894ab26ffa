package cephpod

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
	"quarry.storage/quarry/pkg/osd"
)

const sealedUUID = "aaaaaaaa-bbbb-5ccc-8ddd-eeeeeeeeeeee"

// TestDeployment_encrypted: the container that begins has the key of the disk, and the daemon has not. An OSD in the clear is deployed as before.
func TestDeployment_encrypted(t *testing.T) {
	p := Of(&v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "files", UID: fsid}})
	plain := Daemon{Kind: cephname.DaemonOSD, ID: "7", Node: "n1", UUID: sealedUUID, Device: "/dev/x"}
	sealed := plain
	sealed.Encrypted = true
	named := sealed
	named.Secret = "ceph-files-osd-x-1"
	if i := p.volumes(named); !slices.ContainsFunc(i, func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == named.Secret }) {
		t.Errorf("volumes %+v", i)
	}
	d := p.Deployment(sealed)
	spec := d.Spec.Template.Spec
	of := func(name string) func(corev1.VolumeMount) bool {
		return func(m corev1.VolumeMount) bool { return m.Name == name }
	}
	if !slices.ContainsFunc(spec.InitContainers[0].VolumeMounts, of("disk")) || slices.ContainsFunc(spec.Containers[0].VolumeMounts, of("disk")) {
		t.Error("the key of the disk is mounted otherwise")
	}
	i := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == "disk" })
	if i < 0 || spec.Volumes[i].Secret.SecretName != cephname.DiskKey("files", sealedUUID) || *spec.Volumes[i].Secret.DefaultMode != 0o400 {
		t.Errorf("volumes %+v", spec.Volumes)
	}
	if Template(d) == Template(p.Deployment(plain)) {
		t.Error("it looks like one in the clear")
	}
	if begin := p.Deployment(plain).Spec.Template.Spec.InitContainers[0]; strings.Contains(begin.Command[2], "cryptsetup") || slices.ContainsFunc(begin.VolumeMounts, of("disk")) {
		t.Error("an OSD in the clear is opened")
	}
}

func TestDiskKey(t *testing.T) {
	p := Of(&v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "files", UID: fsid}})
	s, err := p.DiskKey(strings.NewReader(strings.Repeat("r", 40)), sealedUUID)
	if err != nil || s.Name != "ceph-files-osd-"+sealedUUID+"-7272727272" || s.Namespace != cephname.Namespace || s.Annotations[cephname.AnnotationOSD] != sealedUUID || s.Labels[cephname.LabelFSID] != fsid {
		t.Fatalf("%+v, %v", s, err)
	}
	if key, err := osd.NewKey(s.Data[cephname.KeyDisk]); err != nil || !bytes.Equal(key.Reveal(), bytes.Repeat([]byte("r"), osd.KeyBytes)) {
		t.Error(err)
	}
	if s.Immutable == nil || !*s.Immutable {
		t.Error("somebody may put another key in its place")
	}
	if _, err := p.DiskKey(strings.NewReader(strings.Repeat("r", 36)), sealedUUID); err == nil {
		t.Error("a key of too few random bytes")
	}
}

// TestOpenDisk: a Secret that is not used is told with what it lacks, and with what to do.
func TestOpenDisk(t *testing.T) {
	p := Of(&v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "files", UID: fsid}})
	for name, tt := range map[string]struct {
		change func(*corev1.Secret)
		says   []string
	}{
		"whole":                      {func(*corev1.Secret) {}, nil},
		"being deleted":              {func(s *corev1.Secret) { s.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, []string{"is being deleted"}},
		"no labels":                  {func(s *corev1.Secret) { s.Labels = nil }, []string{"lacks the label quarry.storage/ceph-fsid=" + fsid, "kubectl -n quarry-ceph label"}},
		"of another Ceph cluster":    {func(s *corev1.Secret) { s.Labels[cephname.LabelFSID] = sealedUUID }, []string{"lacks the label quarry.storage/ceph-fsid=" + fsid}},
		"the other label is missing": {func(s *corev1.Secret) { delete(s.Labels, cephname.LabelDaemon) }, []string{"lacks the label quarry.storage/ceph-daemon=disk-key"}},
		"no annotation":              {func(s *corev1.Secret) { s.Annotations = nil }, []string{"lacks the annotation quarry.storage/ceph-osd=" + sealedUUID, "kubectl -n quarry-ceph annotate"}},
		"no key":                     {func(s *corev1.Secret) { s.Data = nil }, []string{"has no key of 32 bytes", "restore"}},
		"a key that is in base64":    {func(s *corev1.Secret) { s.Data[cephname.KeyDisk] = bytes.Repeat([]byte("r"), 44) }, []string{"has no key of 32 bytes", "has 44 bytes"}},
		"a key that is all zeros":    {func(s *corev1.Secret) { s.Data[cephname.KeyDisk] = make([]byte, osd.KeyBytes) }, []string{"has no key of 32 bytes", "zeros"}},
		"labels of a person's tool":  {func(s *corev1.Secret) { s.Labels["velero.io/restore-name"] = "x" }, nil},
	} {
		s, err := p.DiskKey(strings.NewReader(strings.Repeat("r", 40)), sealedUUID)
		if err != nil {
			t.Fatal(err)
		}
		tt.change(s)
		key, err := p.OpenDisk(s.Name, sealedUUID, s)
		if (err != nil) != (len(tt.says) > 0) || key.IsZero() != (err != nil) {
			t.Errorf("%s: %v, %v", name, key, err)
			continue
		}
		for _, says := range tt.says {
			if !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), s.Name) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if _, err := p.OpenDisk("x", sealedUUID, nil); err == nil || !strings.Contains(err.Error(), "is gone: restore it") {
		t.Errorf("none: %v", err)
	}
}

// programs stand for those of the image: they say what the files of a directory say, and note what they were told.
const programs = `#!/bin/sh
here=$(dirname "$0")
echo "$(basename "$0") $*" >>"$here/told"
case "$(basename "$0") $1" in
"cryptsetup luksDump") cat "$here/header" ;;
"cryptsetup open") [ "$DM_DISABLE_UDEV" = 1 ] || exit 1; [ ! -e "$here/nokey" ] || exit 2; [ "$2" != --test-passphrase ] || exit 0; cp "$here/opened" "$here/info"; cp "$here/opens" "$here/table" ;;
"dmsetup info") cat "$here/info" ;;
"dmsetup table") cat "$here/table" ;;
"dmsetup remove") [ ! -e "$here/busy" ] || exit 1; : >"$here/info" ;;
"dmsetup mknodes") ;;
"stat -L") case "$4" in /dev/mapper/*) [ -e "$here/node" ] && cat "$here/node" ;; *) echo "8 10" ;; esac ;;
*) exit 9 ;;
esac
`

// TestOpenOSD runs what opens a disk, over stand-ins of its programs. A container that is killed at any time begins again.
func TestOpenOSD(t *testing.T) {
	name := osd.MappingName(sealedUUID)
	header := "LUKS header information\nVersion:       \t2\nUUID:          \t" + sealedUUID + "\nLabel:         \tquarry-osd\nSubsystem:     \t" + fsid + "\nFlags:       \t(no flags)\n"
	live := "vg-lv LVM-x Live 252 0\n" + name + " " + osd.MappingUUID(sealedUUID) + " Live 252 3\n"
	table := "0 4161536 crypt aes-xts-plain64 0000 0 8:16 32768 1 sector_size:4096\n"
	for label, tt := range map[string]struct {
		change map[string]string
		opens  bool
		told   string
		says   string
	}{
		"closed":                        {nil, true, "cryptsetup open", ""},
		"open already":                  {map[string]string{"info": live, "table": table, "node": "fc 3"}, true, "", ""},
		"open, with a table beside it":  {map[string]string{"info": strings.Replace(live, "Live 252 3", "Both 252 3", 1), "table": table, "node": "fc 3"}, true, "", ""},
		"open already, without a node":  {map[string]string{"info": live, "table": table}, true, "dmsetup mknodes " + name, ""},
		"an opening that was cut off":   {map[string]string{"info": strings.Replace(live, "Live 252 3", "None 252 3", 1)}, true, "dmsetup remove " + name, ""},
		"one with a table, not live":    {map[string]string{"info": strings.Replace(live, "Live 252 3", "Inactive 252 3", 1)}, true, "dmsetup remove " + name, ""},
		"another mapping of the name":   {map[string]string{"info": name + " CRYPT-LUKS2-x Live 252 3\n"}, false, "", "another mapping"},
		"it came back as another one":   {map[string]string{"info": live, "table": strings.Replace(table, "8:16", "8:32", 1)}, true, "dmsetup remove " + name, ""},
		"so it did, and is in use":      {map[string]string{"info": live, "table": strings.Replace(table, "8:16", "8:32", 1), "busy": "x"}, false, "dmsetup remove " + name, "somebody has it open"},
		"so it did, and has no key":     {map[string]string{"info": live, "table": strings.Replace(table, "8:16", "8:32", 1), "nokey": "x"}, false, "--test-passphrase", ""},
		"a mapping that is no dm-crypt": {map[string]string{"info": live, "table": "0 8 linear 8:16 0\n"}, false, "", "not of this disk"},
		"another disk was opened":       {map[string]string{"opens": strings.Replace(table, "8:16", "8:32", 1)}, false, "", "not of this disk"},
		"another OSD on the disk":       {map[string]string{"header": strings.Replace(header, sealedUUID, "22222222-bbbb-5ccc-8ddd-eeeeeeeeeeee", 1)}, false, "", "not OSD"},
		"another Ceph cluster":          {map[string]string{"header": strings.Replace(header, fsid, "22222222-bbbb-5ccc-8ddd-eeeeeeeeeeee", 1)}, false, "", "not OSD"},
		"an encrypted disk of others":   {map[string]string{"header": strings.Replace(header, "quarry-osd", "home", 1)}, false, "", "not OSD"},
		"no header":                     {map[string]string{"header": ""}, false, "", "not OSD"},
		"a key that does not open it":   {map[string]string{"nokey": "x"}, false, "", ""},
		"an opening that left no table": {map[string]string{"opened": strings.Replace(live, "Live 252 3", "None 252 3", 1), "opens": ""}, false, "", "not of this disk"},
	} {
		dir := t.TempDir()
		files := map[string]string{"header": header, "info": "No devices found\n", "table": "", "opened": live, "opens": table, "told": ""}
		for k, v := range tt.change {
			files[k] = v
		}
		for k, v := range files {
			if err := os.WriteFile(filepath.Join(dir, k), []byte(v), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, k := range []string{"cryptsetup", "dmsetup", "stat"} {
			if err := os.WriteFile(filepath.Join(dir, k), []byte(programs), 0o700); err != nil { //nolint:gosec // It is a program.
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", openOSD+"echo \"opens $DEVICE\"\n")
		cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin", "UUID=" + sealedUUID, "FSID=" + fsid, "DEVICE=/dev/disk/by-id/x"}
		out, err := cmd.CombinedOutput()
		told, readErr := os.ReadFile(filepath.Join(dir, "told"))
		if err := errors.Join(readErr); err != nil {
			t.Fatal(err)
		}
		opened := strings.Contains(string(out), "opens /dev/mapper/"+name+"\n")
		if opened != tt.opens || (err == nil) != tt.opens || !strings.Contains(string(told), tt.told) || !strings.Contains(string(out), tt.says) {
			t.Errorf("%s: %v\n%s\ntold %s", label, err, out, told)
		}
		if wrong := excess(label, string(told)); wrong != "" {
			t.Errorf("%s: %s\ntold %s", label, wrong, told)
		}
	}
}

// excess says what the programs were told that they must not be; empty for nothing.
func excess(label, told string) string {
	opened := strings.Count(told, "cryptsetup open --disable")
	switch {
	case opened > 1 || label == "open already" && opened > 0:
		return "it is opened too often"
	case label == "so it did, and has no key" && strings.Contains(told, "dmsetup remove"):
		return "the mapping is removed, which may have the last key"
	}
	return ""
}
