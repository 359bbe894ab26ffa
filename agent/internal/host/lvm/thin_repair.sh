#!/bin/sh
# LVM runs this in the place of thin_repair, as "thin_repair.sh LOCK WANTED [OPTION]... -i IN -o OUT": it repairs the metadata of a thin pool into
# OUT, and fails unless OUT is clean and tells exactly WANTED, which is "t" and the transaction id, then the numbers of the volumes, each with a
# blank behind it. Where it fails, LVM leaves the pool's metadata as it is.
set -eu
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
lock=$1 wanted=$2
shift 2
for out; do :; done

# What an earlier run left behind that lost its LVM may still write to OUT. It holds the lock until it ends.
exec 9>"$lock"
flock -n 9 || { echo "another repair is under way" >&2; exit 1; }

thin_repair "$@"
thin_check -q "$out"
found=$(thin_dump --skip-mappings "$out" | sed -n \
	-e 's/.*<superblock .*transaction="\([0-9]*\)".*/t\1/p' -e 's/.*<device dev_id="\([0-9]*\)".*/\1/p' | tr '\n' ' ')
if [ "$found" != "$wanted" ]; then
	echo "what can be repaired does not tell what LVM recorded: found \"$found\" (transaction, volumes), not \"$wanted\"" >&2
	exit 1
fi
