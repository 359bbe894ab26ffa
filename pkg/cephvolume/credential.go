package cephvolume

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"

	"quarry.storage/quarry/pkg/cephname"
)

// SecretMonitors is the key of the Secret of the clients that has the monitors of now, as "10.0.0.1:3300", joined by commas.
const SecretMonitors = "monitors"

// Cipher is the kind of a key.
type Cipher string

// Ciphers that Ceph makes keys for. Kernels before 7.0 know the first one only.
const (
	CipherAES    Cipher = "aes"
	CipherAES256 Cipher = "aes256k"
)

// Key is a secret key of Ceph. It is written as a text without the key by all that formats values.
type Key struct{ secret string }

const hidden = "(a secret key)"

// String hides the key.
func (Key) String() string { return hidden }

// GoString hides the key.
func (Key) GoString() string { return hidden }

// Format hides the key, whatever the verb.
func (Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// Reveal returns the key itself. It is for the kernel and for the Secret, and goes into no command line, error, log or status.
func (k Key) Reveal() string { return k.secret }

// header is what begins a key: its kind, the time it was made, and the length of the secret.
const header = 2 + 8 + 2

// ParseKey reads a key as Ceph prints it. The error never has a part of it.
func ParseKey(text string) (Key, Cipher, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < header {
		return Key{}, "", fmt.Errorf("the key is not one of Ceph: %w", ErrInvalid)
	}
	kind, length := binary.LittleEndian.Uint16(raw), int(binary.LittleEndian.Uint16(raw[header-2:]))
	c := map[uint16]Cipher{1: CipherAES, 2: CipherAES256}[kind]
	if c == "" || length == 0 || len(raw) != header+length {
		return Key{}, "", fmt.Errorf("the key is of kind %d, with %d bytes: %w", kind, len(raw), ErrInvalid)
	}
	return Key{secret: text}, c, nil
}

// Credential is what a node mounts volumes with.
type Credential struct {
	// User without "client.".
	User   string
	Key    Key
	Cipher Cipher
	// Monitors of now; empty where the Secret has none.
	Monitors []string
}

var userForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$`)

// ParseCredential reads the Secret of the clients, as a call of the kubelet carries it.
func ParseCredential(secret map[string]string) (Credential, error) {
	if len(secret) == 0 {
		return Credential{}, fmt.Errorf("the call has no secret: the StorageClass names none with csi.storage.k8s.io/node-stage-secret-name: %w", ErrInvalid)
	}
	c := Credential{User: secret[cephname.KeyUser]}
	if !userForm.MatchString(c.User) {
		return Credential{}, fmt.Errorf("%s of the secret is no user: %w", cephname.KeyUser, ErrInvalid)
	}
	var err error
	if c.Key, c.Cipher, err = ParseKey(strings.TrimSpace(secret[cephname.KeySecret])); err != nil {
		return Credential{}, fmt.Errorf("%s of the secret: %w", cephname.KeySecret, err)
	}
	c.Monitors, err = parseMonitors(secret[SecretMonitors])
	return c, err
}
