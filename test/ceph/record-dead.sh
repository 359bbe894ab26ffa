# The part of record.sh about an OSD that dies: its process ends, nobody marks it out, and Ceph does after its own interval. It is read by record.sh, and
# works with its functions on the cluster that is up by then.
stat_has() { ceph osd stat -f json | grep -q "$1"; }
new_osd 3 n3 scratch
start_osd 3 n3
until_true 90 'stat_has "\"num_up_osds\":4"'
until_true 120 'ceph status -f json | grep -q "\"state_name\":\"active+clean\",\"count\":17"'
sleep 8
ceph config set mon mon_osd_down_out_interval 30
end osd 3
until_true 90 'stat_has "\"num_up_osds\":3"'
sleep 6
facts dying
rec dying safe_to_destroy_3 osd safe-to-destroy 3
until_true 180 'ceph osd dump -f json | grep -q autoout'
rec leaving osd_dump osd dump
rec leaving safe_to_destroy_3 osd safe-to-destroy 3
rec leaving status status
# Without a format the command ends with another exit code than 0 while the OSD is not safe to destroy.
until_true 180 'ceph osd safe-to-destroy 3 2> /dev/null'
facts dead
rec dead safe_to_destroy_3 osd safe-to-destroy 3
rec dead ok_to_stop_3 osd ok-to-stop 3
# Its disk comes back: Ceph takes it in again by itself.
resume_osd 3 n3
until_true 90 'stat_has "\"num_up_osds\":4"'
sleep 6
facts returned
rec returned safe_to_destroy_3 osd safe-to-destroy 3
# Copies of one pool may share a host, and those of another one are two on each of two hosts.
ceph osd crush rule create-replicated disks default osd
rec disks osd_crush_rule_dump osd crush rule dump
ceph osd pool create disks 1 1 replicated disks
rec disks osd_dump osd dump
