package iscsi_test

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"quarry.storage/quarry/controller/internal/agents"
	"quarry.storage/quarry/controller/internal/decide/writer"
	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/pkg/sharedlun"
)

// fleet is what the API server says of the members.
type fleet struct {
	pool *agents.Pool

	mu      sync.Mutex
	members []san.Member
	// lists is how often the API server was asked.
	lists int
}

// Members returns them; one is up as long as its agent answers.
func (f *fleet) Members(context.Context, sharedlun.Ref) ([]san.Member, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists++
	out := slices.Clone(f.members)
	for i := range out {
		if !f.pool.Node(out[i].Node).Up() {
			out[i].Up, out[i].ReportedBootID = false, ""
		}
	}
	return out, nil
}

// set changes a member.
func (f *fleet) set(node string, change func(*san.Member)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.members {
		if f.members[i].Node == node {
			change(&f.members[i])
		}
	}
}

// leases keeps records as the API server does.
type leases struct {
	mu      sync.Mutex
	records map[string]writer.Record
	version int
	// made counts the records that were made.
	made int
	// loads and stores are how often the API server was asked, and written to.
	loads, stores int
}

func newLeases() *leases { return &leases{records: map[string]writer.Record{}} }

// Load returns a record.
func (l *leases) Load(_ context.Context, ownerUID string) (writer.Record, string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loads++
	r, ok := l.records[ownerUID]
	if !ok {
		return writer.Record{}, "", nil
	}
	return r, l.versionNow(), nil
}

// Store replaces the record of a version.
func (l *leases) Store(_ context.Context, ownerUID string, r writer.Record, version string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stores++
	if _, ok := l.records[ownerUID]; ok != (version != "") || ok && version != l.versionNow() {
		return "", san.ErrConflict
	}
	if version == "" {
		l.made++
	}
	l.version++
	l.records[ownerUID] = r
	return l.versionNow(), nil
}

func (l *leases) versionNow() string { return fmt.Sprintf("lease-%d/%d", l.made, l.version) }

// written is how often a record was written.
func (l *leases) written() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stores
}

// forget has a person delete the record.
func (l *leases) forget(ownerUID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.records, ownerUID)
}
