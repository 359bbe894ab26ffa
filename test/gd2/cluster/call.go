package cluster

import (
	"context"
	"fmt"
	"time"
)

// Failure is an answer that is not success.
type Failure struct {
	Status int     `json:"-"`
	Errors []Entry `json:"errors"`
}

// Entry is one error of a Failure.
type Entry struct {
	Code    int               `json:"code"`
	Message string            `json:"message"`
	Fields  map[string]string `json:"fields,omitempty"`
}

// Fail makes a Failure with a message.
func Fail(status int, format string, args ...any) *Failure {
	return &Failure{Status: status, Errors: []Entry{{Code: 1, Message: fmt.Sprintf(format, args...)}}}
}

// FailStep makes the Failure of a step that failed on some peers.
func FailStep(step, text string, peers ...string) *Failure {
	f := &Failure{Status: 500}
	for _, p := range peers {
		f.Errors = append(f.Errors, Entry{Code: 2, Message: "a txn step failed", Fields: map[string]string{"error": text, "peer-id": p, "step": step}})
	}
	return f
}

// Died is the panic of a call whose server ended meanwhile. Nobody gets an answer.
type Died struct{}

// Call is one request that a server works on. The World stands still but while the call waits.
type Call struct {
	W *World
	N *Node
	C *Cluster

	// client ends when nobody waits for the call any more.
	client context.Context
	life   int
	// queued says that the call waited for the store.
	queued bool
}

// Begin starts a call at a server, of a client that stays. It returns nil if the server does not run. End has to follow.
func (w *World) Begin(n *Node) *Call { return w.BeginFor(context.Background(), n) }

// BeginFor is Begin for a client that may go, which ends the context. The call goes on then.
func (w *World) BeginFor(ctx context.Context, n *Node) *Call {
	w.mu.Lock()
	w.started++
	for n.frozen {
		if w.wait(ctx, nil, time.Time{}) == ended {
			w.mu.Unlock()
			return nil
		}
	}
	if !n.running {
		w.mu.Unlock()
		return nil
	}
	w.busy++
	return &Call{W: w, N: n, C: n.cluster, client: ctx, life: n.life}
}

// End ends a call.
func (c *Call) End() {
	c.W.busy--
	c.W.touch()
	c.W.mu.Unlock()
}

// Now returns the time.
func (c *Call) Now() time.Time { return c.W.now() }

// Strange notes what no client of ours should ask.
func (c *Call) Strange(format string, args ...any) {
	c.W.strange = append(c.W.strange, fmt.Sprintf(format, args...))
}

// Forever is the limit of a wait without limit.
const Forever time.Duration = -1

// Wait lets the World go on until a condition holds or time is up, and reports whether the condition holds.
func (c *Call) Wait(limit time.Duration, cond func() bool) bool {
	w := c.W
	var up <-chan time.Time
	var until time.Time
	if limit != Forever {
		until = w.now().Add(limit)
		t := w.cfg.Clock.NewTimer(limit)
		defer t.Stop()
		up = t.C()
	}
	for late := false; ; {
		if c.N.life != c.life {
			panic(Died{})
		}
		if cond() || late {
			return cond()
		}
		w.busy--
		why := w.wait(c.client, up, until)
		w.busy++
		if why == ended {
			panic(Died{})
		}
		late = why == timeUp
	}
}

// Work lets time pass.
func (c *Call) Work(d time.Duration) { c.Wait(d, func() bool { return false }) }

const (
	storeTimeout = 5 * time.Second
	lockTimeout  = 5 * time.Second
	// settle is how long a transaction that waited for the store takes to go on.
	settle = 200 * time.Millisecond
)

const late = "context deadline exceeded"

// Read returns a Failure if the store cannot be read within its time.
func (c *Call) Read() *Failure {
	if c.C.reachable() || c.Wait(storeTimeout, c.C.reachable) {
		return nil
	}
	return Fail(500, late)
}

// ReadForever waits for the store, however long.
func (c *Call) ReadForever() {
	if !c.C.reachable() {
		c.Wait(Forever, c.C.reachable)
		c.queued = true
	}
}

// Lock takes a lock of the cluster, and returns what gives it back. It waits for the store however long, and for the lock five seconds.
func (c *Call) Lock(name string) (func(), *Failure) {
	c.ReadForever()
	free := func() bool { return !c.C.locks[name] }
	if !free() && !c.Wait(lockTimeout, free) {
		return nil, Fail(409, "could not obtain lock: another conflicting transaction may be in progress")
	}
	c.C.locks[name] = true
	return func() {
		delete(c.C.locks, name)
		c.W.touch()
	}, nil
}

// Settle is where a transaction begins its steps: later, if it waited for the store.
func (c *Call) Settle() {
	if c.queued {
		c.queued = false
		c.Work(settle)
	}
}
