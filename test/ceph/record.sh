#!/bin/bash
# Records what the commands of a real Ceph print, in one state after the other: three monitors, two managers, three OSDs on files, two metadata
# servers, all in a network of its own. The stand-in of controller/internal/ceph is held to these answers.
# Usage, as root: test/ceph/record.sh ROOT OUT [daemons|volumes|dashboard|dead|shared|sanity]
# ROOT is an unpacked image of Ceph (test/ceph/Dockerfile), and OUT the directory for the answers. It takes about six minutes. With "volumes" the
# answers about subvolumes, keys and blocklists are recorded in place of those about daemons, which takes three. With "dashboard" it is those about
# the dashboard, of a ROOT that has Debian's package ceph-mgr-dashboard, and of one that has not. With "dead" it is those about an OSD that dies,
# and with "shared" the rule that the first monitor makes if copies may share a host. With "sanity" OUT is the test of controller/internal/csi/ceph, built with
# the tag cephbox: it runs csi-sanity against the Ceph, and nothing is recorded.
set -eu
if [ "${4:-}" != inside ]; then
  exec unshare --net --pid --fork --mount --kill-child "$0" "$1" "$2" "${3:-daemons}" inside
fi
root=$1 out=$2 what=$3
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/run"
ip link set lo up
for i in 1 2 3 4; do ip addr add "10.99.0.$i/32" dev lo; done

c=/tmp/record fsid=7a1c6d1e-0000-4000-8000-000000000001
rm -rf "$root$c"
mkdir -p "$root$c"
filesystem=cephfs metadata=cephfs.meta data=cephfs.data
if [ "$what" = sanity ]; then
  binary=$out out=$root$c/out filesystem=quarry metadata=quarry-metadata data=quarry-data
fi
mkdir -p "$out"
box() { chroot "$root" "$@"; }
cat > "$root$c/ceph.conf" <<CONF
[global]
fsid = $fsid
mon_host = [v2:10.99.0.1:3300],[v2:10.99.0.2:3300],[v2:10.99.0.3:3300]
run_dir = $c
log_to_file = false
log_to_stderr = false
mon_cluster_log_to_file = false
admin_socket = $c/\$name.asok
keyring = $c/\$name.keyring
mon_data = $c/mon.\$id
mgr_data = $c/mgr.\$id
osd_data = $c/osd.\$id
mds_data = $c/mds.\$id
osd_pool_default_pg_num = 8
osd_pool_default_pg_autoscale_mode = off
osd_heartbeat_grace = 10
bluestore_block_size = 2147483648
bluestore_cache_autotune = false
bluestore_cache_size = 33554432
osd_mclock_skip_benchmark = true
mon_data_avail_warn = 2
mon_data_avail_crit = 1
CONF
if [ "$what" = shared ]; then echo "osd_crush_chooseleaf_type = 0" >> "$root$c/ceph.conf"; fi
export CEPH_CONF=$c/ceph.conf
# Without a manager some commands wait for ever.
ceph() { timeout -k 1 120 chroot "$root" /usr/bin/ceph --connect-timeout 20 "$@"; }
daemon() { # kind id: starts a daemon, and records its process in pid_KIND_ID.
  chroot "$root" "/usr/bin/ceph-$1" -f -i "$2" > "$root$c/$1.$2.log" 2>&1 &
  eval "pid_$1_$2=$!"
}
end() { eval "kill -9 \$pid_$1_$2"; }
until_true() { # seconds command: waits.
  for _ in $(seq "$1"); do if eval "$2"; then return; fi; sleep 1; done
  echo "never: $2" >&2
  exit 1
}

# What modules a manager could load are a hundred kilobytes of help, and what the machine is does not matter.
shorter='import json, sys
d = json.load(sys.stdin)
for m in d if isinstance(d, list) else [d] + d["standbys"]:
    if "available_modules" in m:
        m["available_modules"] = [{k: x[k] for k in ("name", "can_run", "error_string")} for x in m["available_modules"] if x["name"] in ("dashboard", "prometheus")]
    for key in "container_name", "cpu", "hostname", "kernel_description", "kernel_version", "mem_swap_kb", "mem_total_kb":
        m.pop(key, None)
json.dump(d, sys.stdout)'

# rec STATE NAME ARGS: what a command prints goes to STATE/NAME.json, and an exit code other than zero, with what was said, to STATE/NAME.exit.
rec() {
  local state=$1 name=$2 rc=0
  shift 2
  mkdir -p "$out/$state"
  ceph "$@" -f json > "$out/$state/$name.json" 2> "$out/$state/$name.stderr" || rc=$?
  if [ $rc != 0 ]; then { echo $rc; cat "$out/$state/$name.stderr"; } > "$out/$state/$name.exit"; fi
  rm -f "$out/$state/$name.stderr"
  case $name in
  mgr_dump* | *_metadata)
    box /usr/bin/python3 -c "$shorter" < "$out/$state/$name.json" > "$out/$state/$name.short"
    mv "$out/$state/$name.short" "$out/$state/$name.json"
    ;;
  esac
  if [ ! -s "$out/$state/$name.json" ]; then rm "$out/$state/$name.json"; fi
}
facts() { # state
  rec "$1" status status
  rec "$1" quorum_status quorum_status
  rec "$1" mon_metadata mon metadata
  rec "$1" mgr_dump mgr dump
  rec "$1" mgr_metadata mgr metadata
  rec "$1" mds_metadata mds metadata
  rec "$1" osd_metadata osd metadata
  rec "$1" osd_dump osd dump
  rec "$1" osd_tree osd tree
  rec "$1" osd_crush_rule_dump osd crush rule dump
  rec "$1" versions versions
  rec "$1" health_detail health detail
  rec "$1" df df
  rec "$1" osd_df osd df
  rec "$1" fs_dump fs dump
  rec "$1" fs_ls fs ls
  rec "$1" config_dump config dump
}

box /usr/bin/ceph-authtool --create-keyring $c/mon.keyring --gen-key -n mon. --cap mon 'allow *' > /dev/null
box /usr/bin/ceph-authtool --create-keyring $c/client.admin.keyring --gen-key -n client.admin --cap mon 'allow *' --cap osd 'allow *' --cap mds 'allow *' --cap mgr 'allow *' > /dev/null
box /usr/bin/ceph-authtool $c/mon.keyring --import-keyring $c/client.admin.keyring > /dev/null
box /usr/bin/monmaptool --create --fsid $fsid --addv a '[v2:10.99.0.1:3300]' --addv b '[v2:10.99.0.2:3300]' --addv c '[v2:10.99.0.3:3300]' $c/monmap > /dev/null
for id in a b c; do
  box /usr/bin/ceph-mon --mkfs -i $id --monmap $c/monmap --keyring $c/mon.keyring
  cp "$root$c/mon.keyring" "$root$c/mon.$id.keyring"
  daemon mon $id
done
until_true 60 '[ "$(ceph quorum_status -f json | grep -o "\"quorum\":\[0,1,2\]")" != "" ]'
if [ "$what" = shared ]; then
  rec shared osd_crush_rule_dump osd crush rule dump
  exit 0
fi
ceph config set mon auth_allow_insecure_global_id_reclaim false
ceph config set mon mon_allow_pool_delete true
for id in x y; do
  ceph auth get-or-create mgr.$id mon 'allow profile mgr' osd 'allow *' mds 'allow *' -o $c/mgr.$id.keyring
  mkdir -p "$root$c/mgr.$id"
  daemon mgr $id
done
if [ "$what" = dashboard ]; then
  . "$(dirname "$0")/record-dashboard.sh"
  exit 0
fi
new_osd() { # id host
  local uuid key
  uuid=$(cat /proc/sys/kernel/random/uuid) key=$(box /usr/bin/ceph-authtool --gen-print-key)
  echo "{\"cephx_secret\":\"$key\"}" > "$root$c/secret"
  rec "$3" osd_new osd new "$uuid" -i $c/secret
  rec "$3" osd_new_again osd new "$uuid"
  eval "uuid_$1=$uuid"
  rm -rf "$root$c/osd.$1"
  mkdir -p "$root$c/osd.$1"
  box /usr/bin/ceph-authtool $c/osd.$1.keyring --create-keyring -n osd.$1 --add-key "$key" > /dev/null
}
start_osd() { # id host
  eval "box /usr/bin/ceph-osd -i $1 --mkfs --osd-uuid \$uuid_$1" > /dev/null 2>&1
  resume_osd "$1" "$2"
}
resume_osd() { # id host
  chroot "$root" /usr/bin/ceph-osd -f -i "$1" --crush-location "root=default host=$2" > "$root$c/osd.$1.log" 2>&1 &
  eval "pid_osd_$1=$!"
}
for i in 0 1 2; do new_osd $i n$i scratch; start_osd $i n$i; done
for id in m n; do
  ceph auth get-or-create mds.$id mon 'profile mds' mgr 'profile mds' mds 'allow *' osd 'allow *' -o $c/mds.$id.keyring
  mkdir -p "$root$c/mds.$id"
done
until_true 90 'ceph osd stat -f json | grep -q "\"num_up_osds\":3"'
rec bare osd_dump osd dump
rec bare fs_dump fs dump
rec bare status status
ceph osd pool create $metadata 8
ceph osd pool create $data 8 --bulk
rec scratch pool_create osd pool create other --size=2 --bulk
rec scratch pool_create_again osd pool create other --size=2 --bulk
rec scratch pool_size osd pool set other size 3
rec scratch pool_size_again osd pool set other size 3
rec scratch pool_min_size osd pool set other min_size 2
rec scratch pool_bulk osd pool set other bulk false
rec scratch pool_bulk_again osd pool set other bulk false
rec scratch pool_size_one osd pool set other size 1
rec scratch pool_size_absent osd pool set absent size 3
rec scratch pool_dump osd dump
ceph osd pool delete other other --yes-i-really-really-mean-it
ceph fs new $filesystem $metadata $data
daemon mds m
daemon mds n
until_true 90 'ceph fs dump -f json 2>/dev/null | grep -q up:active && ceph status -f json | grep -q "\"state_name\":\"active+clean\",\"count\":17"'
sleep 8
judge() { # state
  for i in 0 1 2; do
    rec "$1" safe_to_destroy_$i osd safe-to-destroy $i
    rec "$1" ok_to_stop_$i osd ok-to-stop $i
  done
  rec "$1" osd_ok_to_stop_0_1 osd ok-to-stop 0 1
  rec "$1" mon_ok_to_stop_a mon ok-to-stop a
  rec "$1" mon_ok_to_rm_a mon ok-to-rm a
  rec "$1" mon_ok_to_rm_c mon ok-to-rm c
  rec "$1" mon_ok_to_add mon ok-to-add-offline
  rec "$1" mds_ok_to_stop_0 mds ok-to-stop 0
}
if [ "$what" = sanity ]; then
  ceph fs subvolumegroup create $filesystem quarry
  CEPH_BOX=$root "$binary" -test.v -test.run '^TestSanityReal$'
  # Ceph prints an empty line first.
  left=$(ceph fs subvolume ls $filesystem --group_name quarry -f json | tr -d '[:space:]')
  [ "$left" = "[]" ] || { echo "left: $left"; exit 1; }
  exit 0
fi
if [ "$what" = volumes ]; then
  . "$(dirname "$0")/record-volumes.sh"
  exit 0
fi
if [ "$what" = dead ]; then
  . "$(dirname "$0")/record-dead.sh"
  exit 0
fi
facts whole
judge whole
rec whole safe_to_destroy_absent osd safe-to-destroy 9
rec whole ok_to_stop_absent osd ok-to-stop 9
rec whole require_again osd require-osd-release tentacle
rec whole require_older osd require-osd-release squid --yes-i-really-mean-it
rec whole bad_command osd no-such-command
rec whole bad_config config set osd no_such_option 1
rec whole bad_value config set osd osd_max_backfills many
rec whole noout_group osd set-group noout n1
rec whole noout_group_dump osd dump
rec whole noout_unset osd unset-group noout n1
rec whole noout osd set noout
rec whole noout_dump osd dump
rec whole noout_gone osd unset noout
rec whole out_absent osd out 9
rec whole mon_ok_to_rm_absent mon ok-to-rm q
rec whole safe_to_destroy_all osd safe-to-destroy 0 1 2
rec whole noout_group_absent osd set-group noout n9
rec whole noout_unset_again osd unset-group noout n1
rec whole crush_rm_full osd crush rm n1
rec whole osd_out_up osd out 2
rec whole osd_in osd in 2
new_osd 3 n3 new
facts new
judge new

end osd 2
ceph osd down 2 --definitely-dead 2> /dev/null || ceph osd down 2
end mon c
until_true 60 'ceph quorum_status -f json | grep -q "\"quorum\":\[0,1\]"'
sleep 12
facts down
judge down
rec down purge_in_use osd purge 2 --yes-i-really-mean-it
facts purged_by_force
new_osd 2 n2 again
start_osd 2 n2
until_true 90 'ceph osd stat -f json | grep -q "\"num_up_osds\":3"'
start_osd 3 n3
until_true 90 'ceph osd stat -f json | grep -q "\"num_up_osds\":4"'
sleep 5
ceph osd out 3
until_true 120 'ceph osd safe-to-destroy 3 2> /dev/null'
facts out
rec out safe_to_destroy_3 osd safe-to-destroy 3
rec out ok_to_stop_3 osd ok-to-stop 3
rec out purge_up osd purge 3 --yes-i-really-mean-it
end osd 3
ceph osd down 3 --definitely-dead 2> /dev/null || ceph osd down 3
sleep 10
facts stopped
rec stopped safe_to_destroy_3 osd safe-to-destroy 3
rec stopped ok_to_stop_3 osd ok-to-stop 3
rec out purge osd purge 3 --yes-i-really-mean-it
rec out purge_again osd purge 3 --yes-i-really-mean-it
rec out crush_rm osd crush rm n3
rec out crush_rm_again osd crush rm n3
rec out mon_rm mon rm c
rec out mon_rm_again mon rm c
sleep 3
facts gone
end mgr x
end mgr y
sleep 32
rec nomgr status status
rec nomgr safe_to_destroy_0 osd safe-to-destroy 0
rec nomgr ok_to_stop_0 osd ok-to-stop 0
rec nomgr mgr_dump mgr dump
rec nomgr osd_dump osd dump
for log in "$root$c"/*.log; do if [ -s "$log" ]; then echo "$log" >&2; tail -2 "$log" >&2; fi; done
