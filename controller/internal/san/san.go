// Package san works on the volume group of a shared LUN through its writer. The controller and the CSI controller use it side by side: it takes the
// turn that decide/writer grants, makes changes one after the other, and gives the turn back once every change was answered. It does not know the wire, and
// decides nothing about who may write.
package san

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/writer"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Member is one node that may use the LUN.
type Member struct {
	Node string
	// Credential that the node was granted, for the boot BootID. ReportedBootID is the one that its agent reports now; empty when it does not answer.
	sharedlun.Credential
	BootID, ReportedBootID string
	// Stranger says why the node that answers may be another machine than the one of its record; empty when it is the same. What it says does not count then, so that it reports no boot.
	Stranger string
	// Previous are the keys of earlier boots that may still be registered.
	Previous []uint64
	// Up is true while the agent answers, its boot is the one that the key was granted for, and the node is not being removed. It says nothing of the LUN: that the
	// agent has lost it shows when it is asked for something.
	Up bool
	// TooEarly is true while it is not known yet whether the agent answers, or in which boot: the connection is being made. The node reports no boot then, and may run all the same.
	TooEarly bool
	// Maintenance is true while somebody asked for it: the node is not the writer, and gets no volume.
	Maintenance bool
	// Fenced is true once the key was taken off, until the node gets another one. It counts only as long as the keys on the LUN agree.
	Fenced bool
	// Registering is true from before the node is asked to register its key until it has answered that. Once a request had no answer, it stays true until the next
	// key.
	Registering bool
}

// Usable reports whether the node may be given a volume, or the group.
func (m Member) Usable() bool {
	return writer.Standing{Answers: m.Up, Admitted: m.Key != 0 || m.Unfenced, Fenced: m.Fenced, Maintenance: m.Maintenance}.MayChange()
}

// mayAnswer reports whether the agent answers, or it is not known yet whether it does.
func (m Member) mayAnswer() bool { return m.ReportedBootID != "" || m.TooEarly }

// earlier returns the keys of boots before the one that the node reports now, as far as they are on record.
func (m Member) earlier() []uint64 {
	out := slices.Clone(m.Previous)
	if m.Key != 0 && m.BootID != m.ReportedBootID {
		out = append(out, m.Key)
	}
	return out
}

// Nodes is what agents do with a shared group. Errors are decide.Faults. One that the agent itself gave, and by which it says that nothing of the request is
// under way, is a *Refusal.
type Nodes interface {
	// Contents reads the group, which is nil when the LUN has none of that owner, and the epoch that the node has promised.
	Contents(ctx context.Context, node string, ref sharedlun.Ref) (sharedlun.Contents, error)
	// Reservation reads the keys that are on the LUN. Of a target that is expected to have reservations, that it has none is an error.
	Reservation(ctx context.Context, node string, lun sharedlun.Identity, expected bool) (sharedlun.Reservation, error)
	// Change makes one change, decided on a sequence number.
	Change(ctx context.Context, node string, ref sharedlun.Ref, m sharedlun.Mandate, sequence uint64, c sharedlun.Change) (sharedlun.Group, error)
	// Promise makes a node refuse every change of an older epoch, and returns the epoch that it has promised: a higher one is no promise to the caller.
	Promise(ctx context.Context, node string, ref sharedlun.Ref, epoch uint64) (promised uint64, err error)
	// Map makes the device of a volume, or gives it its table.
	Map(ctx context.Context, node string, ref sharedlun.Ref, c sharedlun.Credential, v sharedlun.Volume, sequence uint64) (sharedlun.Mapping, error)
	// Unmap removes the device of a volume; on a node whose fence was seen, I/O that hangs in it ends first.
	Unmap(ctx context.Context, node string, ref sharedlun.Ref, volumeUUID string, sequence uint64, fenced bool) error
}

// Refusal is an error by which an agent says that it changed nothing, and that nothing of the request is under way.
type Refusal struct{ Err error }

// Error is what the agent said.
func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap is what the agent said.
func (r *Refusal) Unwrap() error { return r.Err }

// Fleet knows the members of a shared LUN. It asks the API server itself: that a node was fenced, and that it got a new key, must not be known
// late.
type Fleet interface {
	Members(ctx context.Context, ref sharedlun.Ref) ([]Member, error)
}

// Leases keeps the record of each group.
type Leases interface {
	// Load returns the record, and what tells its version: a name that no other record of the owner ever had, a slash, and what tells its states apart. There may be none: a zero record.
	Load(ctx context.Context, ownerUID string) (writer.Record, string, error)
	// Store replaces the record of a version, and returns the new one. ErrConflict says that there is another version.
	Store(ctx context.Context, ownerUID string, r writer.Record, version string) (string, error)
}

// ErrConflict means that somebody else wrote the record.
var ErrConflict = errors.New("somebody else wrote the record")

// Config of a San.
type Config struct {
	// Self names this process: its role, a slash, and what no other process ever had.
	Self  string
	Nodes Nodes
	// Maker makes and removes whole groups; nil in a process that does neither.
	Maker  Maker
	Fleet  Fleet
	Leases Leases
	// Timeout is when LVM is ended on the writer; default sharedlun.ChangeTimeout.
	Timeout time.Duration
	// Processes tells which other processes are gone; nil when nothing does. Their records are stale at once.
	Processes Processes
	// Patience is after which time without a change another process's record is stale; default sharedlun.Patience.
	Patience time.Duration
	// Doubt is how long another process leaves its record unchanged before it is asked whether that process is gone; default one second.
	Doubt time.Duration
	// Settle is how soon after a turn that left a change without an answer this process takes another one by itself, so that nobody waits for it; 0 when it does not: whoever asks it for changes repeats them.
	Settle time.Duration
	// Pause is between two looks at a record that another process has; default 200 ms.
	Pause time.Duration
	// Now returns the time.
	Now func() time.Time
}

// San works on shared groups. It is safe for concurrent use.
type San struct {
	cfg Config

	mu     sync.Mutex
	groups map[string]*memory
}

// memory is what a process remembers of a group between its turns.
type memory struct {
	// turn is held by the turn that goes on; waiting counts those that want one.
	turn    chan struct{}
	waiting int
	// unanswered is the node that a change of this process was sent to which has no answer; empty when all have one.
	unanswered string
	// settling is until when that is tried to be settled; zero while nobody does.
	settling time.Time
	// failed are the nodes that could not read the LUN as the writer, or were refused, and when.
	failed map[string]time.Time
	// late is the version over which this process's last write of the record that had no answer was made: as long as it is the record's version, that write may arrive.
	late string
	// version is the last one that was seen, since when.
	version string
	since   time.Time
	// asked is when it was asked last whether the process of that version is gone.
	asked time.Time
	// noted is how far the group had come when this process saw it last, and lease names the Lease that there was then. The record may not say it yet.
	noted writer.Mark
	lease string
}

// keep drops what was noted if the record is another one: a person who deletes a Lease decides that the LUN is taken as it is.
func (m *memory) keep(r writer.Record, version string) {
	lease, _, _ := strings.Cut(version, "/")
	if r.Zero() || m.lease != "" && m.lease != lease {
		m.noted = writer.Mark{}
	}
	m.lease = lease
}

// New makes a San.
func New(cfg Config) *San {
	if cfg.Timeout == 0 {
		cfg.Timeout = sharedlun.ChangeTimeout
	}
	if cfg.Patience == 0 {
		cfg.Patience = sharedlun.Patience
	}
	if cfg.Doubt == 0 {
		cfg.Doubt = time.Second
	}
	if cfg.Pause == 0 {
		cfg.Pause = 200 * time.Millisecond
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &San{cfg: cfg, groups: map[string]*memory{}}
}

// join returns the memory of a group, with one more that wants a turn: as long as one does, nobody drops it.
func (s *San) join(ownerUID string) *memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.groups[ownerUID]
	if m == nil {
		m = &memory{turn: make(chan struct{}, 1)}
		s.groups[ownerUID] = m
	}
	m.waiting++
	return m
}

// Drop drops what is remembered of groups whose owners are gone. What somebody works on stays, and so does what may still be on its way to the LUN or to the record: nothing else
// tells of it, even if the owner is wrongly taken for gone.
func (s *San) Drop(gone func(ownerUID string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid, m := range s.groups {
		select {
		case m.turn <- struct{}{}:
		default:
			continue
		}
		if m.waiting == 0 && m.unanswered == "" && m.late == "" && gone(uid) {
			delete(s.groups, uid)
		}
		<-m.turn
	}
}

// Answered reports whether an agent did what it was asked for, or said that it changed nothing and that nothing of the request is under way.
func Answered(err error) bool { return answered(err) }

// answered reports whether an agent made a change, or refused it. After any other error, whatever its code, the change may still be under way.
func answered(err error) bool {
	var r *Refusal
	return err == nil || errors.As(err, &r)
}

// unavailable is the error of what waits for somebody else.
func unavailable(format string, args ...any) error {
	return &decide.Fault{Kind: decide.FaultUnavailable, Call: "change the volume group of a shared LUN", Message: fmt.Sprintf(format, args...)}
}
