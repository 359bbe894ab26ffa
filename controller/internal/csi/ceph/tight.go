package ceph

import (
	"sync"
	"time"
)

// remembered is how long it counts that there was no room for a copy. Afterwards it is begun once more: what it has may be far less than it may have.
const remembered = time.Hour

// tight knows when Ceph gave up copies for want of room, by their names, as long as this process runs. The copy itself is removed, since it takes the room, and then nothing but this tells of it.
type tight struct{ names sync.Map }

// note keeps, or forgets, that there was no room for a copy.
func (t *tight) note(name string, full bool) {
	if full {
		t.names.Store(name, time.Now())
	} else {
		t.names.Delete(name)
	}
}

// has reports whether there was no room for a copy a while ago.
func (t *tight) has(name string) bool {
	at, is := t.names.Load(name)
	return is && time.Since(at.(time.Time)) < remembered
}
