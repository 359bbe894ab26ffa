#!/bin/sh
# LVM runs this in the place of thin_repair, as "thin_repair.sh LOCK WANTED [OPTION]... -i IN -o OUT": it repairs the metadata of a thin pool into
# OUT, and fails unless OUT is clean and tells exactly WANTED, which is "t" and the transaction id, then the volumes, each as its number, a colon
# and the transaction in which it was made, each with a blank behind it. Where it fails, LVM leaves the pool's metadata as it is.
#
# LVM gives the number of a removed volume to the next one. By its number alone, a removed volume that the search finds would be taken for that one.
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
dump=$(thin_dump --skip-mappings "$out")
found=$(echo "$dump" | sed -n -e 's/.*<superblock .*transaction="\([0-9]*\)".*/t\1/p' \
	-e 's/.*<device dev_id="\([0-9]*\)".* transaction="\([0-9]*\)".*/\1:\2/p' | tr '\n' ' ')
if [ "$found" != "$wanted" ]; then
	echo "what can be repaired does not tell what LVM recorded: found \"$found\" (transaction, volumes), not \"$wanted\"" >&2
	exit 1
fi

# Where thin_repair finds volumes and nothing of what was kept about them, it makes that up: all were made in the last transaction, and are copies
# of that time. In a pool of one volume that may be what LVM recorded, of whatever volume the blocks were.
last=${wanted%% *} last=$((${last#t} - 1))
made_up=$(echo "$dump" | sed -n "s/.*<device .* transaction=\"$last\" creation_time=\"\([1-9][0-9]*\)\" snap_time=\"\1\".*/x/p")
if [ "$(echo "$wanted" | wc -w)" = 2 ] && [ -n "$made_up" ]; then
	echo "nothing of what was kept about the volume is found: its blocks may be those of a removed one" >&2
	exit 1
fi
