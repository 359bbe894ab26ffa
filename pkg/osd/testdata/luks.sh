#!/bin/sh
# Records the headers that cryptsetup writes, as luks-made.gz and luks-ready.gz: those of an encrypted OSD before its making ended, and after. A person then adds a
# passphrase (luks-added.gz), and changes the key (luks-changed.gz). The
# arguments of cryptsetup are those of agent/internal/host/ceph/luks.go.
set -eu
cd "$(dirname "$0")"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
img=$tmp/img
truncate -s 32M "$img"
head -c 32 /dev/zero >"$tmp/key"
cryptsetup luksFormat --batch-mode --disable-locks --type luks2 --uuid aaaaaaaa-bbbb-5ccc-8ddd-eeeeeeeeeeee --label quarry-osd \
  --subsystem 11111111-2222-4333-8444-555555555555 --cipher aes-xts-plain64 --key-size 512 --hash sha256 --sector-size 4096 --pbkdf pbkdf2 \
  --pbkdf-force-iterations 1000 --luks2-metadata-size 16k --luks2-keyslots-size 16352k --offset 32768 --key-file - "$img" <"$tmp/key"
echo '{"type":"quarry-osd","keyslots":[],"size":"2147483648"}' | cryptsetup token import --disable-locks --token-id 0 --json-file - "$img"
head -c 32768 "$img" | gzip -9n >luks-made.gz
echo '{"type":"quarry-ready","keyslots":[]}' | cryptsetup token import --disable-locks --token-id 1 --json-file - "$img"
head -c 32768 "$img" | gzip -9n >luks-ready.gz
echo escrow >"$tmp/escrow"
cryptsetup luksAddKey --batch-mode --disable-locks --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file "$tmp/key" "$img" "$tmp/escrow"
head -c 32768 "$img" | gzip -9n >luks-added.gz
cryptsetup luksChangeKey --batch-mode --disable-locks --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file "$tmp/key" "$img" "$tmp/escrow"
head -c 32768 "$img" | gzip -9n >luks-changed.gz
