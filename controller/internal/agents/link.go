package agents

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"

	"quarry.storage/quarry/controller/internal/decide"
)

// Bounds of the pause between two attempts to reach an agent.
const (
	minPause = 200 * time.Millisecond
	maxPause = 10 * time.Second
)

// link keeps one node connected and knows its last report.
type link struct {
	pool *Pool
	name string

	mu sync.Mutex
	// state is the last report. Its slices are replaced, never changed, so that copies may be handed out.
	state decide.Node
	// address and podUID of the agent that is dialled; empty when there is none.
	address, podUID string
	conn            *grpc.ClientConn
	// cancel ends the attempts to reach the present address.
	cancel context.CancelFunc
	// timer declares the node down when it is not stopped in time.
	timer *time.Timer
	// silent is since when each attempt to connect was left unanswered, silence for how long until the last one ended, and attempts how many there were; zero once one was answered, if only by a refusal.
	silent   time.Time
	silence  time.Duration
	attempts int
	// why is the last error, for the message. It is settled once an attempt to connect has failed: it must not change with
	// every attempt that fails in another way. What is wrong with an agent that said who it is outranks that once.
	why            string
	settled, spoke bool
	// cannotRun and cannotReport say what is wrong with LVM: when the session began, and when it reported last.
	cannotRun, cannotReport string
	// haveDevices and haveGroups are true once the present session has reported.
	haveDevices, haveGroups bool
	// heard is true once any session has reported devices.
	heard bool
	// forgotten is true once the node does not exist any more. What still comes in changes nothing that outlives the link.
	forgotten bool
}

func newLink(p *Pool, name string) *link {
	return &link{pool: p, name: name, state: decide.Node{Name: name, Agent: decide.AgentConnecting}}
}

// node returns the last report.
func (l *link) node() decide.Node {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// dial begins to reach the agent at an address.
func (l *link) dial(address, podUID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.address == address && l.podUID == podUID {
		return
	}
	l.hangUp()
	l.address, l.podUID = address, podUID
	ctx, cancel := context.WithCancel(l.pool.ctx)
	conn, err := l.pool.connect(l.name, address, func(began time.Time, err error) { l.tried(ctx, began, err) })
	if err != nil {
		cancel()
		l.why = err.Error()
		l.deadline(0)
		return
	}
	l.conn, l.cancel = conn, cancel
	switch l.state.Agent {
	case decide.AgentUp:
		l.deadline(l.pool.cfg.Patience)
	case decide.AgentMissing:
		l.state.Agent = decide.AgentConnecting
		l.deadline(l.pool.cfg.Grace)
	default:
		l.deadline(l.pool.cfg.Grace)
	}
	l.pool.work.Go(func() { l.run(ctx, conn) })
}

// leave forgets the address: the agent's pod is gone, or was never there.
func (l *link) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.address == "" && l.timer != nil {
		return
	}
	l.hangUp()
	l.deadline(l.pool.cfg.Absence)
}

// stop ends everything at once.
func (l *link) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hangUp()
	if l.timer != nil {
		l.timer.Stop()
	}
}

// forget ends everything at once, and drops what the node was known to hold.
func (l *link) forget() {
	l.stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgotten = true
	l.pool.holders.set(l.name, decide.Node{})
}

// update changes the state by what a call returned. It returns the other nodes for which that changes something.
func (l *link) update(change func(n *decide.Node)) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.change(change)
}

// change changes the state, and returns the other nodes for which that changes something. The caller holds the lock, so that the holders are
// told in the order of the changes.
func (l *link) change(change func(n *decide.Node)) (others []string) {
	change(&l.state)
	if l.forgotten {
		return nil
	}
	l.pool.holders.set(l.name, l.state)
	if !l.heard {
		// What an earlier process was told of its devices stands.
		return nil
	}
	return l.pool.sightings.set(l.name, l.state.Devices)
}

// hangUp ends the present connection. The caller holds the lock.
func (l *link) hangUp() {
	if l.cancel != nil {
		l.cancel()
	}
	if l.conn != nil {
		// Closing twice is the only error, and happens nowhere.
		_ = l.conn.Close()
	}
	l.address, l.podUID, l.conn, l.cancel = "", "", nil, nil
	l.haveDevices, l.haveGroups, l.settled, l.spoke = false, false, false, false
	l.heardOf()
}

// heardOf notes that the machine answers, or that nothing is known of it. The caller holds the lock.
func (l *link) heardOf() { l.silent, l.silence, l.attempts = time.Time{}, 0, 0 }

// tried takes in what became of an attempt to connect.
func (l *link) tried(ctx context.Context, began time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return
	case !unanswered(err):
		l.heardOf()
		return
	case l.silent.IsZero():
		l.silent = began
	}
	l.silence = time.Since(l.silent)
	l.attempts++
	if l.settled && l.away() {
		l.deadline(0)
	}
}

// away reports whether a node that was never reached is not just starting: its machine has left every attempt unanswered for a while, and more than one: a single one may be lost. The caller holds the lock.
func (l *link) away() bool {
	return l.state.Agent == decide.AgentConnecting && l.attempts > 1 && l.silence >= l.pool.cfg.Silence
}

// complete reports whether the present session has reported all that it watches. The caller holds the lock.
func (l *link) complete() bool { return l.haveGroups && (l.haveDevices || l.pool.cfg.GroupsOnly) }

// deadline arms the timer that declares the node down, unless it runs already. The caller holds the lock.
func (l *link) deadline(d time.Duration) {
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timer = time.AfterFunc(d, l.down)
}

// down declares the node down.
func (l *link) down() {
	l.mu.Lock()
	if l.pool.ctx.Err() != nil || l.complete() {
		l.mu.Unlock()
		return
	}
	before := l.state
	if l.address == "" {
		l.state.Agent, l.state.Problem = decide.AgentMissing, noAgent
	} else {
		l.state.Agent, l.state.Problem = decide.AgentUnreachable, "the agent does not answer: "+l.why
		if l.why == "" {
			l.state.Problem = "the agent has not answered yet"
		}
	}
	changed := before.Agent != l.state.Agent || before.Problem != l.state.Problem
	l.mu.Unlock()
	if changed {
		l.pool.publish(l.name)
	}
}

// run keeps a session with the agent until the context ends.
func (l *link) run(ctx context.Context, conn *grpc.ClientConn) {
	pause := minPause
	for {
		began := time.Now()
		spoke, err := l.session(ctx, conn)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > maxPause {
			pause = minPause
		}
		l.lost(ctx, spoke, err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		pause = min(2*pause, maxPause)
	}
}

// lost notes that a session ended. spoke: the agent had said who it is.
func (l *link) lost(ctx context.Context, spoke bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	had := l.complete()
	if !l.settled || spoke && !l.spoke {
		l.why, l.settled, l.spoke = explain(err), !had, spoke && !had
	}
	l.haveDevices, l.haveGroups = false, false
	if had {
		l.pool.cfg.Log.V(1).Info("Lost the connection to the agent", "node", l.name, "error", l.why)
		l.deadline(l.pool.cfg.Patience)
	} else if l.state.Agent == decide.AgentUnreachable || l.away() {
		l.deadline(0)
	}
}

// report changes the state within a session, and tells the subscribers once both watches have reported.
func (l *link) report(ctx context.Context, change func(n *decide.Node)) {
	l.mu.Lock()
	if ctx.Err() != nil {
		l.mu.Unlock()
		return
	}
	had := l.complete()
	changed := l.change(change)
	complete := l.complete()
	if complete && !had {
		l.state.Session = time.Now()
	}
	if complete {
		l.state.Agent, l.state.Problem, l.why, l.settled = decide.AgentUp, "", "", false
		l.spoke = false
		if l.timer != nil {
			l.timer.Stop()
		}
	}
	l.mu.Unlock()
	if complete {
		changed = append(changed, l.name)
	}
	l.pool.publish(changed...)
}
