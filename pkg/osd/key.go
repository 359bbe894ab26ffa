package osd

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
)

// Key opens one encrypted OSD. It prints without its secret.
type Key struct{ secret []byte }

// NewKey takes the 32 bytes of a key.
func NewKey(secret []byte) (Key, error) {
	if len(secret) != KeyBytes {
		return Key{}, fmt.Errorf("the key of an encrypted OSD has %d bytes instead of %d", len(secret), KeyBytes)
	}
	if bytes.Equal(secret, make([]byte, KeyBytes)) {
		return Key{}, errors.New("the key of an encrypted OSD is nothing but zeros")
	}
	return Key{bytes.Clone(secret)}, nil
}

// IsZero reports whether it is no key.
func (k Key) IsZero() bool { return len(k.secret) == 0 }

// Equal reports whether two keys are the same.
func (k Key) Equal(o Key) bool { return subtle.ConstantTimeCompare(k.secret, o.secret) == 1 }

// Digest tells the key of the disk of an OSD from others, in hexadecimal. Nobody finds 32 random bytes by it.
func (k Key) Digest(uuid string) string {
	return fmt.Sprintf("%x", sha256.Sum256(append([]byte("quarry-osd-key-v1\n"+uuid+"\n"), k.secret...)))
}

// Reveal returns the secret.
func (k Key) Reveal() []byte { return bytes.Clone(k.secret) }

// String says that it is one, and not which.
func (k Key) String() string {
	if k.IsZero() {
		return "no key"
	}
	return "a key"
}

// GoString says the same.
func (k Key) GoString() string { return k.String() }
