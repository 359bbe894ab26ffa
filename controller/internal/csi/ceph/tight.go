package ceph

import "sync"

// tight has the names of copies that Ceph gave up for want of room, as long as this process runs. The copy itself is removed, since it takes the room, and then nothing but this tells of it.
type tight struct{ names sync.Map }

// note keeps, or forgets, that there was no room for a copy.
func (t *tight) note(name string, full bool) {
	if full {
		t.names.Store(name, true)
	} else {
		t.names.Delete(name)
	}
}

func (t *tight) has(name string) bool {
	_, is := t.names.Load(name)
	return is
}
