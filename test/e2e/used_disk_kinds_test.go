//go:build e2e

package e2e

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const usedSize = 512 << 20

// usedDisk is one kind of disk that is not ours to take.
type usedDisk struct {
	name string
	// format writes it into the image, before it is plugged in.
	format func(t *testing.T, image string)
	// use does something with the plugged device, in the node's kernel; DEV stands for the device.
	use string
	// release undoes use, before the disk is unplugged.
	release string
	// reasons that must all be given.
	reasons []string
}

// tool formats an image with a program of this machine; the image is its last argument.
func tool(name string, args ...string) func(*testing.T, string) {
	return func(t *testing.T, image string) {
		onHost(t, name, append(args, image)...)
	}
}

// bytesAt writes marks that no tool of this machine makes.
func bytesAt(marks map[int64][]byte) func(*testing.T, string) {
	return func(t *testing.T, image string) {
		for offset, data := range marks {
			write(t, image, offset, data)
		}
	}
}

// formats of disks that nobody uses at the moment.
var formattedDisks = []usedDisk{
	{name: "ext4", format: tool("mkfs.ext4", "-q", "-F"), reasons: []string{v1alpha1.RefusalFilesystem}},
	{name: "ext2", format: tool("mkfs.ext2", "-q", "-F"), reasons: []string{v1alpha1.RefusalFilesystem}},
	{name: "xfs", format: tool("mkfs.xfs", "-q", "-f"), reasons: []string{v1alpha1.RefusalFilesystem}},
	{name: "btrfs", format: tool("mkfs.btrfs", "-q", "-f"), reasons: []string{v1alpha1.RefusalFilesystem}},
	{name: "vfat", format: tool("mkfs.vfat", "-I"), reasons: []string{v1alpha1.RefusalFilesystem}},
	{name: "iso9660", format: bytesAt(map[int64][]byte{32768: append([]byte("\x01CD001\x01"), make([]byte, 2041)...)}), reasons: []string{v1alpha1.RefusalFilesystem}},
	{name: "swap space, off", format: tool("mkswap"), reasons: []string{v1alpha1.RefusalSwap}},
	{name: "GPT", format: tool("sgdisk", "--new=1:2048:+64M"), reasons: []string{v1alpha1.RefusalPartitionTable}},
	{name: "GPT without partitions", format: tool("sgdisk", "--clear"), reasons: []string{v1alpha1.RefusalPartitionTable}},
	{name: "GPT of which only the backup is left", format: func(t *testing.T, image string) {
		onHost(t, "sgdisk", "--new=1:2048:+64M", image)
		write(t, image, 0, make([]byte, 1<<20))
	}, reasons: []string{v1alpha1.RefusalPartitionTable}},
	{name: "MBR", format: func(t *testing.T, image string) {
		onHost(t, "parted", "--script", image, "mklabel", "msdos", "mkpart", "primary", "1MiB", "64MiB")
	}, reasons: []string{v1alpha1.RefusalPartitionTable}},
	{name: "LUKS", format: func(t *testing.T, image string) {
		onHost(t, "bash", "-c", `echo -n secret | cryptsetup luksFormat --batch-mode --pbkdf pbkdf2 --pbkdf-force-iterations 1000 "$1" -`, "luks", image)
	}, reasons: []string{v1alpha1.RefusalEncrypted}},
	{
		name: "bcache", format: tool("make-bcache", "-B"),
		// udev gives a backing device to the kernel as soon as it sees one.
		use:     "for i in $(seq 50); do [ -e /sys/block/$(basename DEV)/bcache ] && break; sleep 0.1; done",
		release: "[ ! -e /sys/block/$(basename DEV)/bcache ] || echo 1 > /sys/block/$(basename DEV)/bcache/stop",
		reasons: []string{v1alpha1.RefusalBcache},
	},
	{name: "ZFS", format: bytesAt(zfsLabels()), reasons: []string{v1alpha1.RefusalZFS}},
	{name: "Ceph OSD", format: bytesAt(map[int64][]byte{0: []byte("bluestore block device\n8f54e1c2-3c3a-4a8b-9a30-1d4e3bd3a101\n")}), reasons: []string{v1alpha1.RefusalCeph}},
	{name: "unknown data at the start", format: bytesAt(map[int64][]byte{8192: []byte("a database without a filesystem")}), reasons: []string{v1alpha1.RefusalUnknownData}},
	{name: "unknown data at the end", format: bytesAt(map[int64][]byte{usedSize - 4096: []byte("metadata of something")}), reasons: []string{v1alpha1.RefusalUnknownData}},
	{name: "too small", format: func(t *testing.T, image string) { truncate(t, image, 32<<20) }, reasons: []string{v1alpha1.RefusalTooSmall}},
}

// disksInUse look empty, or are known, and something in the node holds them.
var disksInUse = []usedDisk{
	{
		name: "mounted filesystem", format: tool("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0"),
		use: "mkdir -p /run/held && mount -o ro DEV /run/held", release: "umount /run/held",
		reasons: []string{v1alpha1.RefusalMounted, v1alpha1.RefusalFilesystem},
	},
	{
		name: "swap space, on", format: tool("mkswap"), use: "swapon DEV", release: "swapoff DEV",
		reasons: []string{v1alpha1.RefusalSwap},
	},
	{
		name: "mounted partition", format: tool("sgdisk", "--new=1:2048:+64M"),
		use:     "for i in $(seq 50); do [ -b DEV1 ] && break; sleep 0.1; done; mkfs.ext4 -q DEV1 && mkdir -p /run/part && mount -o ro DEV1 /run/part",
		release: "umount /run/part", reasons: []string{v1alpha1.RefusalPartitionTable, v1alpha1.RefusalMounted},
	},
	{name: "LVM physical volume without a group", use: "pvcreate -q DEV", reasons: []string{v1alpha1.RefusalLVM}},
	{name: "LVM group of somebody else", use: "vgcreate -q theirs DEV && vgchange -q -an theirs", reasons: []string{v1alpha1.RefusalLVM}},
	{
		name:    "LVM group with a mounted volume",
		use:     "vgcreate -q busy DEV && lvcreate -q -y -L 64M -n data busy && mkfs.ext4 -q -E lazy_itable_init=0 /dev/busy/data && mkdir -p /run/lv && mount -o ro /dev/busy/data /run/lv",
		release: "umount /run/lv && udevadm settle && vgchange -q -an busy && udevadm settle && vgchange -q -an busy", reasons: []string{v1alpha1.RefusalLVM, v1alpha1.RefusalHeld},
	},
	{
		// udev starts a member that it is told of: the event of its making must be over before the stop.
		name: "RAID member, stopped", use: "mdadm --quiet --create /dev/md/s --run --force --level=1 --raid-devices=1 --metadata=1.2 DEV && " +
			"udevadm settle && mdadm --quiet --stop /dev/md/s && udevadm settle && ! test -e /dev/md/s",
		reasons: []string{v1alpha1.RefusalRAID},
	},
	{
		name: "RAID member at the end of the disk, running", use: "mdadm --quiet --create /dev/md/r --run --force --level=1 --raid-devices=1 --metadata=1.0 DEV",
		release: "mdadm --quiet --stop /dev/md/r", reasons: []string{v1alpha1.RefusalRAID, v1alpha1.RefusalHeld},
	},
	{
		name: "empty disk under a device-mapper device", use: fmt.Sprintf("dmsetup create above --table '0 %d linear DEV 0'", usedSize/512),
		release: "dmsetup remove above", reasons: []string{v1alpha1.RefusalHeld},
	},
	{
		name: "open LUKS device", format: func(t *testing.T, image string) {
			onHost(t, "bash", "-c", `echo -n secret | cryptsetup luksFormat --batch-mode --pbkdf pbkdf2 --pbkdf-force-iterations 1000 "$1" -`, "luks", image)
		}, use: "modprobe dm-crypt; echo -n secret | cryptsetup open --key-file - DEV opened", release: "cryptsetup close opened",
		reasons: []string{v1alpha1.RefusalEncrypted, v1alpha1.RefusalHeld},
	},
	{
		name:    "empty disk that a process holds exclusively",
		use:     `nohup python3 -c 'import os,time; os.open("DEV", os.O_RDONLY|os.O_EXCL); open("/run/holder","w").write("x"); time.sleep(600)' >/dev/null 2>&1 & echo $! > /run/holder.pid; for i in $(seq 50); do [ -e /run/holder ] && break; sleep 0.1; done`,
		release: "kill $(cat /run/holder.pid)", reasons: []string{v1alpha1.RefusalBusy},
	},
	{
		name:    "empty disk that a process has open",
		use:     `rm -f /run/reader; nohup sh -c 'exec 3<DEV; touch /run/reader; exec sleep 600' >/dev/null 2>&1 & echo $! > /run/reader.pid; for i in $(seq 50); do [ -e /run/reader ] && break; sleep 0.1; done`,
		release: "kill $(cat /run/reader.pid)", reasons: []string{v1alpha1.RefusalBusy},
	},
	{name: "empty disk below a loop device", use: "losetup -f DEV", release: "losetup -d $(losetup -n -O NAME -j DEV)", reasons: []string{v1alpha1.RefusalBusy}},
	{
		name: "empty disk whose node is bound into another mount namespace",
		use: `rm -f /tmp/bound-done; touch /run/bound; nohup unshare -m sh -c 'mount --bind DEV /run/bound; touch /tmp/bound-done; exec sleep 600' >/dev/null 2>&1 & echo $! > /run/bound.pid; ` +
			`for i in $(seq 50); do [ -e /tmp/bound-done ] && break; sleep 0.1; done`,
		release: "kill $(cat /run/bound.pid)", reasons: []string{v1alpha1.RefusalBusy},
	},
	{name: "empty disk that is read-only", use: "blockdev --setro DEV", release: "blockdev --setrw DEV", reasons: []string{v1alpha1.RefusalReadOnly}},
}

// zfsLabels crafts what libblkid and zpool look for: uberblocks in the first label.
func zfsLabels() map[int64][]byte {
	uberblock := make([]byte, 1024)
	binary.LittleEndian.PutUint64(uberblock, 0x00bab10c)
	binary.LittleEndian.PutUint64(uberblock[8:], 5000)
	return map[int64][]byte{128 << 10: bytes.Repeat(uberblock, 16)}
}
