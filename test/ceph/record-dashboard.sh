# Sourced by record.sh, once monitors and managers run: what commands about the dashboard say. An image without its module says but that.
services() { ceph mgr dump -f json | grep -q '"dashboard":"https:'; }
until_true 60 'ceph mgr dump -f json | grep -q "\"available\":true"'
until_true 60 'ceph mgr dump -f json | grep -q "\"name\":\"y\""'
# Both managers are on one host here, and listen at the same port.
ceph config set mgr mgr/dashboard/x/server_addr 10.99.0.1 --force
ceph config set mgr mgr/dashboard/y/server_addr 10.99.0.2 --force
rec dashboard enable mgr module enable dashboard
if [ -e "$out/dashboard/enable.exit" ]; then
  mkdir -p "$out/nodashboard"
  mv "$out/dashboard/enable.exit" "$out/nodashboard/"
  rec nodashboard show dashboard ac-user-show
  rec nodashboard mgr_dump mgr dump
  return
fi
until_true 60 'ceph dashboard ac-user-show 2> /dev/null'
printf abcdefghijklmnopqrstuvwx > "$root$c/password"
printf short > "$root$c/short"
rec dashboard mgr_dump_without_certificate mgr dump
rec dashboard key_absent config-key exists mgr/dashboard/key
rec dashboard certificate dashboard create-self-signed-cert
rec dashboard key config-key exists mgr/dashboard/key
rec dashboard show_none dashboard ac-user-show
rec dashboard create_weak dashboard ac-user-create u read-only -i $c/short
rec dashboard create_without_password dashboard ac-user-create u read-only
rec dashboard create_unknown_role dashboard ac-user-create u nonsense -i $c/password
rec dashboard set_password_absent dashboard ac-user-set-password u -i $c/password
rec dashboard create dashboard ac-user-create u read-only -i $c/password
rec dashboard create_again dashboard ac-user-create u administrator -i $c/password
rec dashboard set_password dashboard ac-user-set-password u -i $c/password
rec dashboard show dashboard ac-user-show
until_true 60 services
rec dashboard mgr_dump mgr dump
rec dashboard disable mgr module disable dashboard
rec dashboard disable_again mgr module disable dashboard
until_true 60 'ceph mgr dump -f json | grep -q "\"available\":true"'
sleep 5
rec dashboard show_off dashboard ac-user-show
