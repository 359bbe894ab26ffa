# The part of record.sh about subvolumes, their snapshots and copies, keys of clients, and the blocklist. It is read by record.sh, and works with its
# functions on the cluster that is up by then.
v() { # name args: records a command on subvolumes.
  local name=$1
  shift
  rec volumes "$name" fs "$@"
}
mib=1048576
# Files of a subvolume are written by libcephfs: no kernel is asked to mount.
put() { # path mebibytes
  box /usr/bin/python3 - "$1" "$2" <<'PY'
import sys, rados
try:
    import cephfs
except ImportError:
    sys.exit("no cephfs module")
fs = cephfs.LibCephFS(conffile="/tmp/record/ceph.conf")
fs.mount()
fd = fs.open(sys.argv[1] + "/file", "w", 0o644)
for i in range(int(sys.argv[2])):
    fs.write(fd, b"x" * 1048576, i * 1048576)
fs.fsync(fd, 0)
fs.close(fd)
fs.unmount()
PY
}
complete() { until_true 60 "ceph fs clone status cephfs $1 --group_name quarry -f json | grep -q complete"; }

v group_ls_none subvolumegroup ls cephfs
v ls_no_group subvolume ls cephfs --group_name quarry
v create_no_group subvolume create cephfs v1 --size $((16 * mib)) --group_name quarry
v group_create subvolumegroup create cephfs quarry
v group_create_again subvolumegroup create cephfs quarry
v group_create_no_fs subvolumegroup create absent quarry
v group_ls subvolumegroup ls cephfs
v ls_empty subvolume ls cephfs --group_name quarry
v ls_no_fs subvolume ls absent --group_name quarry
v create subvolume create cephfs v1 --size $((16 * mib)) --group_name quarry --mode 0770
v info subvolume info cephfs v1 --group_name quarry
v create_again subvolume create cephfs v1 --size $((16 * mib)) --group_name quarry --mode 0770
v create_larger subvolume create cephfs v1 --size $((32 * mib)) --group_name quarry --mode 0770
v info_larger subvolume info cephfs v1 --group_name quarry
v create_bad_name subvolume create cephfs .v --size $((16 * mib)) --group_name quarry
v create_zero subvolume create cephfs v0 --size 0 --group_name quarry
v info_absent subvolume info cephfs v9 --group_name quarry
v info_no_group subvolume info cephfs v9 --group_name other
v info_no_fs subvolume info absent v9 --group_name quarry
v getpath subvolume getpath cephfs v1 --group_name quarry
v getpath_absent subvolume getpath cephfs v9 --group_name quarry
v ls subvolume ls cephfs --group_name quarry
v resize subvolume resize cephfs v1 $((64 * mib)) --group_name quarry --no_shrink
v resize_again subvolume resize cephfs v1 $((64 * mib)) --group_name quarry --no_shrink
v resize_smaller subvolume resize cephfs v1 $((16 * mib)) --group_name quarry --no_shrink
v resize_absent subvolume resize cephfs v9 $((16 * mib)) --group_name quarry --no_shrink
path=$(ceph fs subvolume getpath cephfs v1 --group_name quarry)
put "$path" 8
sleep 2
v info_used subvolume info cephfs v1 --group_name quarry
v metadata_set subvolume metadata set cephfs v1 quarry.source s0 --group_name quarry
v metadata_set_absent subvolume metadata set cephfs v9 quarry.source s0 --group_name quarry
v metadata_ls subvolume metadata ls cephfs v1 --group_name quarry
v metadata_get subvolume metadata get cephfs v1 quarry.source --group_name quarry
v metadata_get_absent subvolume metadata get cephfs v1 absent --group_name quarry
v metadata_ls_absent subvolume metadata ls cephfs v9 --group_name quarry
v snapshot_ls_empty subvolume snapshot ls cephfs v1 --group_name quarry
v snapshot_create subvolume snapshot create cephfs v1 s1 --group_name quarry
v snapshot_create_again subvolume snapshot create cephfs v1 s1 --group_name quarry
v snapshot_create_absent subvolume snapshot create cephfs v9 s1 --group_name quarry
v snapshot_ls subvolume snapshot ls cephfs v1 --group_name quarry
v snapshot_ls_absent subvolume snapshot ls cephfs v9 --group_name quarry
v snapshot_info subvolume snapshot info cephfs v1 s1 --group_name quarry
v snapshot_info_absent subvolume snapshot info cephfs v1 s9 --group_name quarry
v clone_status_original clone status cephfs v1 --group_name quarry
v clone_status_absent clone status cephfs v9 --group_name quarry
# Copies wait before they begin, so that what they are like then can be seen.
rec volumes clone_delay config set mgr mgr/volumes/snapshot_clone_delay 15
sleep 2
v clone subvolume snapshot clone cephfs v1 s1 c1 --group_name quarry --target_group_name quarry
v clone_again subvolume snapshot clone cephfs v1 s1 c1 --group_name quarry --target_group_name quarry
v clone_of_absent subvolume snapshot clone cephfs v1 s9 c2 --group_name quarry --target_group_name quarry
v clone_of_absent_volume subvolume snapshot clone cephfs v9 s9 c2 --group_name quarry --target_group_name quarry
v clone_status_pending clone status cephfs c1 --group_name quarry
v info_pending subvolume info cephfs c1 --group_name quarry
v getpath_pending subvolume getpath cephfs c1 --group_name quarry
v resize_pending subvolume resize cephfs c1 $((128 * mib)) --group_name quarry --no_shrink
v metadata_set_pending subvolume metadata set cephfs c1 quarry.source s1 --group_name quarry
v metadata_ls_pending subvolume metadata ls cephfs c1 --group_name quarry
v create_pending subvolume create cephfs c1 --size $((16 * mib)) --group_name quarry
v ls_pending subvolume ls cephfs --group_name quarry
v snapshot_info_pending subvolume snapshot info cephfs v1 s1 --group_name quarry
v snapshot_rm_pending subvolume snapshot rm cephfs v1 s1 --group_name quarry
v snapshot_create_pending subvolume snapshot create cephfs c1 s1 --group_name quarry
v rm_pending subvolume rm cephfs c1 --group_name quarry
v rm_force_pending subvolume rm cephfs c1 --group_name quarry --force
v clone_cancel clone cancel cephfs c1 --group_name quarry
v clone_status_canceled clone status cephfs c1 --group_name quarry
v info_canceled subvolume info cephfs c1 --group_name quarry
v rm_canceled subvolume rm cephfs c1 --group_name quarry
v rm_force_canceled subvolume rm cephfs c1 --group_name quarry --force
v clone_cancel_absent clone cancel cephfs c1 --group_name quarry
ceph config set mgr mgr/volumes/snapshot_clone_delay 0
sleep 2
v clone_2 subvolume snapshot clone cephfs v1 s1 c2 --group_name quarry --target_group_name quarry
v clone_status_2 clone status cephfs c2 --group_name quarry
complete c2
v clone_status_complete clone status cephfs c2 --group_name quarry
v clone_again_complete subvolume snapshot clone cephfs v1 s1 c2 --group_name quarry --target_group_name quarry
v clone_cancel_complete clone cancel cephfs c2 --group_name quarry
v info_complete subvolume info cephfs c2 --group_name quarry
v metadata_ls_complete subvolume metadata ls cephfs c2 --group_name quarry
v snapshot_ls_complete subvolume snapshot ls cephfs c2 --group_name quarry
v rm_with_snapshots subvolume rm cephfs v1 --group_name quarry
v rm_retain subvolume rm cephfs v1 --group_name quarry --retain-snapshots
v info_retained subvolume info cephfs v1 --group_name quarry
v getpath_retained subvolume getpath cephfs v1 --group_name quarry
v resize_retained subvolume resize cephfs v1 $((128 * mib)) --group_name quarry --no_shrink
v ls_retained subvolume ls cephfs --group_name quarry
v snapshot_ls_retained subvolume snapshot ls cephfs v1 --group_name quarry
v snapshot_info_retained subvolume snapshot info cephfs v1 s1 --group_name quarry
v metadata_ls_retained subvolume metadata ls cephfs v1 --group_name quarry
v snapshot_create_retained subvolume snapshot create cephfs v1 s2 --group_name quarry
v rm_retained subvolume rm cephfs v1 --group_name quarry --retain-snapshots
v rm_retained_plain subvolume rm cephfs v1 --group_name quarry
v clone_retained subvolume snapshot clone cephfs v1 s1 c3 --group_name quarry --target_group_name quarry
complete c3
v create_retained subvolume create cephfs v1 --size $((16 * mib)) --group_name quarry --mode 0770
v info_recreated subvolume info cephfs v1 --group_name quarry
v rm_retain_again subvolume rm cephfs v1 --group_name quarry --retain-snapshots
v snapshot_rm subvolume snapshot rm cephfs v1 s1 --group_name quarry
v snapshot_rm_again subvolume snapshot rm cephfs v1 s1 --group_name quarry
v snapshot_rm_last_info subvolume info cephfs v1 --group_name quarry
v snapshot_rm_absent subvolume snapshot rm cephfs c3 s9 --group_name quarry
v rm subvolume rm cephfs c3 --group_name quarry
v rm_again subvolume rm cephfs c3 --group_name quarry
v rm_no_group subvolume rm cephfs c3 --group_name other
v rm_no_fs subvolume rm absent c3 --group_name quarry
v group_rm_full subvolumegroup rm cephfs quarry
v ls_end subvolume ls cephfs --group_name quarry
rec volumes df df
v fs_ls ls

key() { # name args: records auth get-or-create.
  local name=$1 user=$2
  shift 2
  rec volumes "$name" auth get-or-create "$user" mon "allow r fsname=cephfs" mds "allow rw fsname=cephfs path=/volumes/quarry" osd "allow rw tag cephfs data=cephfs" "$@"
}
rec volumes auth_get_absent auth get client.quarry
key auth_create client.quarry
key auth_create_again client.quarry
rec volumes auth_create_other auth get-or-create client.quarry mon "allow r" mds "allow rw fsname=cephfs path=/volumes/quarry" osd "allow rw tag cephfs data=cephfs"
rec volumes auth_get auth get client.quarry
rec volumes auth_caps auth caps client.quarry mon "allow r fsname=cephfs" mds "allow rw fsname=cephfs path=/volumes/quarry" osd "allow rw tag cephfs data=cephfs"
key auth_create_aes_refused client.old --key-type aes
rec volumes ciphers mon set auth_allowed_ciphers aes,aes256k
rec volumes ciphers_again mon set auth_allowed_ciphers aes,aes256k
rec volumes mon_dump_ciphers mon dump
key auth_create_aes client.old --key-type aes
key auth_create_aes_again client.old --key-type aes
key auth_create_aes_on_other client.quarry --key-type aes
rec volumes auth_bad_type auth get-or-create client.bad mon "allow r" --key-type rot13
rec volumes health_aes health detail

rec volumes blocklist_ls_empty osd blocklist ls
rec volumes blocklist_add osd blocklist add 10.99.0.4 3600
rec volumes blocklist_add_again osd blocklist add 10.99.0.4 3600
rec volumes blocklist_add_bad osd blocklist add not-an-address 3600
rec volumes blocklist_range osd blocklist range add 10.99.0.4/32 3600
rec volumes blocklist_ls osd blocklist ls
rec volumes blocklist_rm osd blocklist rm 10.99.0.4
rec volumes blocklist_rm_again osd blocklist rm 10.99.0.4
rec volumes blocklist_range_rm osd blocklist range rm 10.99.0.4/32

# Without a metadata server, and without a manager, commands on subvolumes wait for ever: exit code 124 is that of timeout.
end mds m
end mds n
ceph mds fail cephfs:0 > /dev/null 2>&1 || true
sleep 5
rec volumes ls_no_mds fs subvolume ls cephfs --group_name quarry
end mgr x
end mgr y
sleep 32
rec volumes ls_no_mgr fs subvolume ls cephfs --group_name quarry
