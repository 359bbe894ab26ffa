package cephtest

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// User is one that authenticates.
type User struct {
	Key  string
	Caps map[string]string
}

// Key makes the key of a user: Ceph's form, of kind 1 (aes) or 2 (aes256k), with a secret that says what it is.
func Key(kind byte, secret string) string {
	length := map[byte]int{1: 16, 2: 32}[kind]
	body := []byte(fmt.Sprintf("%-*.*s", length, length, secret))
	return base64.StdEncoding.EncodeToString(append([]byte{kind, 0, 0x3f, 0xcd, 0x05, 0x6b, 0, 0, 0, 0, byte(length), 0}, body...))
}

// auth is a command on users. Arguments come as words: caps have spaces, so they end where the name of the next service begins.
func (c *Cluster) auth(args []string) (any, int, string) {
	if len(args) < 2 {
		return nil, einval, "Error EINVAL: invalid command"
	}
	entity := args[1]
	kind, caps := wanted(args[2:])
	u, there := c.Users[entity]
	switch {
	case !there && args[0] != "get-or-create":
		return nil, enoent, "Error ENOENT: failed to find " + entity + " in keyring"
	case kind == 0:
		return nil, einval, "Error EINVAL: invalid key type"
	case !there && kind == 1 && !c.AES:
		return nil, einval, "Error EINVAL: creating key with insecure key type (\"aes\") not allowed"
	case !there:
		u = User{Key: Key(kind, entity), Caps: caps}
	case args[0] == "caps":
		u.Caps = caps
	case args[0] == "get-or-create" && fmt.Sprint(u.Caps) != fmt.Sprint(caps):
		return nil, einval, "Error EINVAL: key for " + entity + " exists but cap mon does not match"
	}
	if c.Users == nil {
		c.Users = map[string]User{}
	}
	c.Users[entity] = u
	return []object{{"entity": entity, "key": u.Key, "caps": u.Caps}}, 0, ""
}

// wanted reads the kind of a key, 0 for one that does not exist, and the caps of a user.
func wanted(rest []string) (kind byte, caps map[string]string) {
	kind, caps = 2, map[string]string{}
	if i := slices.Index(rest, "--key-type"); i >= 0 && i+1 < len(rest) {
		kind = map[string]byte{"aes": 1, "aes256k": 2}[rest[i+1]]
		rest = slices.Delete(slices.Clone(rest), i, i+2)
	}
	service := ""
	for _, word := range rest {
		switch {
		case word == "mon" || word == "mds" || word == "osd":
			service = word
		case service != "":
			caps[service] = strings.TrimSpace(caps[service] + " " + word)
		}
	}
	return kind, caps
}

func (c *Cluster) ciphers(args []string) (any, int, string) {
	if !slices.Equal(args, []string{"aes,aes256k"}) {
		return nil, einval, "Error EINVAL: invalid ciphers"
	}
	c.AES = true
	return nil, 0, ""
}

// block adds an address to the blocklist, or takes one off. One that is not on it is no error.
func (c *Cluster) block(add bool) act {
	return func(args []string) (any, int, string) {
		at, err := netip.ParseAddr(args[0])
		if err != nil || add && len(args) != 2 {
			return nil, einval, "Error EINVAL: invalid command"
		}
		entry := netip.AddrPortFrom(at, 0).String() + "/0"
		c.Blocked = slices.DeleteFunc(c.Blocked, func(b string) bool { return b == entry })
		if add {
			c.Blocked = append(c.Blocked, entry)
		}
		return nil, 0, ""
	}
}

func (c *Cluster) blocklist() any {
	out := []object{}
	for _, b := range c.Blocked {
		out = append(out, object{"addr": b, "until": "2026-11-24T18:45:42.219420+0000"})
	}
	return out
}

// df knows the pool of the volumes.
func (c *Cluster) df() any {
	if c.Volumes == nil {
		return object{"pools": []object{}}
	}
	return object{"pools": []object{{"name": DataPool, "id": 3, "stats": object{"stored": 0, "max_avail": c.Volumes.AvailableBytes}}}}
}

// DataPool is the pool of the volumes.
const DataPool = "quarry-data"
