// Package san works on the volume group of a shared LUN through its writer. The controller and the CSI controller use it side by side: it takes the
// turn that decide/writer grants, makes changes one after the other, and gives the turn back once every change was answered. It does not know the wire, and
// decides nothing about who may write.
package san

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/writer"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Member is one node that may use the LUN.
type Member struct {
	Node string
	// Key that the node was granted for its boot. Unfenced is true on a target without reservations: nobody has a key.
	Key      uint64
	Unfenced bool
	// Up is true while the agent answers, its boot is the one that the key was granted for, and the node is not being removed.
	Up bool
	// Fenced is true once the key was taken off, until the node gets another one.
	Fenced bool
}

// usable reports whether the node may be given a volume, or the group.
func (m Member) usable() bool { return m.Up && !m.Fenced && (m.Key != 0 || m.Unfenced) }

// Nodes is what agents do with a shared group. Errors are decide.Faults.
type Nodes interface {
	// Contents reads the group, which is nil when the LUN has none of that owner, and the epoch that the node has promised.
	Contents(ctx context.Context, node string, ref sharedlun.Ref) (sharedlun.Contents, error)
	// Change makes one change, decided on a sequence number.
	Change(ctx context.Context, node string, ref sharedlun.Ref, w sharedlun.Writer, sequence uint64, c sharedlun.Change) (sharedlun.Group, error)
	// Yield makes a node refuse every change of an older epoch, and returns the epoch that it has promised: a higher one is no promise to the caller.
	Yield(ctx context.Context, node string, ref sharedlun.Ref, epoch uint64) (promised uint64, err error)
	// Map makes the device of a volume, or gives it its table.
	Map(ctx context.Context, node string, ref sharedlun.Ref, v sharedlun.Volume, sequence uint64) (sharedlun.Mapping, error)
	// Unmap removes the device of a volume.
	Unmap(ctx context.Context, node string, ref sharedlun.Ref, volumeUUID string, sequence uint64) error
}

// Fleet knows the members of a shared LUN. It asks the API server itself: that a node was fenced, and that it got a new key, must not be known
// late.
type Fleet interface {
	Members(ctx context.Context, ref sharedlun.Ref) ([]Member, error)
}

// Leases keeps the record of each group.
type Leases interface {
	// Load returns the record, and what tells its version. There may be none: a zero record.
	Load(ctx context.Context, ownerUID string) (writer.Record, string, error)
	// Store replaces the record of a version, and returns the new one. ErrConflict says that there is another version.
	Store(ctx context.Context, ownerUID string, r writer.Record, version string) (string, error)
}

// ErrConflict means that somebody else wrote the record.
var ErrConflict = errors.New("somebody else wrote the record")

// Config of a San.
type Config struct {
	// Self names this process: its role, a slash, and what no other process ever had.
	Self   string
	Nodes  Nodes
	Fleet  Fleet
	Leases Leases
	// Timeout is when LVM is ended on the writer; default 60 s.
	Timeout time.Duration
	// Patience is after which time without a change another process's record is stale; default 3 min, longer than any change takes.
	Patience time.Duration
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
	// unanswered is true when a change of this process has no answer.
	unanswered bool
	// version is the last one that was seen, since when.
	version string
	since   time.Time
}

// New makes a San.
func New(cfg Config) *San {
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Minute
	}
	if cfg.Patience == 0 {
		cfg.Patience = 3 * time.Minute
	}
	if cfg.Pause == 0 {
		cfg.Pause = 200 * time.Millisecond
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &San{cfg: cfg, groups: map[string]*memory{}}
}

// remembered returns the memory of a group.
func (s *San) remembered(ownerUID string) *memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.groups[ownerUID]
	if m == nil {
		m = &memory{turn: make(chan struct{}, 1)}
		s.groups[ownerUID] = m
	}
	return m
}

// answered reports whether an agent refused a change, or made it. After any other error the change may still be under way.
func answered(err error) bool {
	var f *decide.Fault
	if !errors.As(err, &f) {
		return err == nil
	}
	return f.Kind != decide.FaultUnavailable && f.Kind != decide.FaultInternal
}

// unavailable is the error of what waits for somebody else.
func unavailable(format string, args ...any) error {
	return &decide.Fault{Kind: decide.FaultUnavailable, Call: "change the volume group of a shared LUN", Message: fmt.Sprintf(format, args...)}
}
