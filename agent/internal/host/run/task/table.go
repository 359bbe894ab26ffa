package task

import (
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// Task is what one process does.
type Task struct {
	// Kind says what is done, On what it is done to: two tasks on the same thing are never there at once.
	Kind, On string
	// For is whom the process may wait for, in words: "server nas" or "Ceph".
	For string
	// Volume is the volume that is mounted or unmounted, if one is.
	Volume string
	// Mounts is set when the task mounts the volume, Writes when it ends a mount, which writes what that one has not written yet.
	Mounts, Writes bool
	// Limit is how long the task may take.
	Limit time.Duration
	// Started is set by Run once the process was started.
	Started bool

	// killed is the time when the process was killed because it did not end.
	killed time.Time
}

// Why is the reason of a Refusal.
type Why string

// The reasons.
const (
	// Writing: an earlier mount of the volume is not unmounted to its end. What it has not written yet would replace what is written through a new one.
	Writing Why = "Writing"
	// Busy: another task works on the same thing.
	Busy Why = "Busy"
	// Waits: an earlier process on the same thing was killed, and still waits.
	Waits Why = "Waits"
	// Hanging: so many processes wait for the same server that another one would only wait, too.
	Hanging Why = "Hanging"
	// Full: there are as many processes as there may be. It says nothing about whom the task is for.
	Full Why = "Full"
)

// Refusal says why a task was not begun. Nothing was done.
type Refusal struct {
	Why Why
	// Message says it in a sentence without its full stop.
	Message string
}

// Error is the message.
func (r *Refusal) Error() string { return r.Message }

// Room is how many processes there may be at a time.
type Room struct {
	mu         sync.Mutex
	used, size int
}

// NewRoom makes room for so many processes.
func NewRoom(size int) *Room { return &Room{size: size} }

// Size is how many there may be.
func (r *Room) Size() int { return r.size }

// Take reports whether there is room for one more, and takes it.
func (r *Room) Take() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used >= r.size {
		return false
	}
	r.used++
	return true
}

// Give gives back what was taken.
func (r *Room) Give() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used--
}

// Table knows the tasks whose processes are not gone yet.
type Table struct {
	start Start
	log   logr.Logger
	room  *Room
	// hanging bounds the processes that were killed and still wait for one server.
	hanging int

	mu    sync.Mutex
	tasks map[string]*Task
}

// NewTable makes a Table. Its processes share the room with whoever else takes of it, and at most so many hang because of one server.
func NewTable(start Start, room *Room, hanging int, log logr.Logger) *Table {
	return &Table{start: start, log: log, room: room, hanging: hanging, tasks: map[string]*Task{}}
}

// Len is how many tasks are not gone yet.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.tasks)
}

// begin counts a task, or refuses it.
func (t *Table) begin(task *Task) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	hanging := 0
	for _, other := range t.tasks {
		if task.Mounts && other.Writes && other.Volume == task.Volume {
			return task.refuse(Writing, "an earlier mount of the volume on this node still has to write to %s", other.For)
		}
		if other.For == task.For && !other.killed.IsZero() {
			hanging++
		}
	}
	switch before := t.tasks[task.On]; {
	case before != nil && before.killed.IsZero():
		return task.refuse(Busy, "%s of it is in progress", before.Kind)
	case before != nil:
		return task.refuse(Waits, "a process of this node waits for %s since %s", task.For, before.killed.UTC().Format(time.RFC3339))
	case hanging >= t.hanging:
		return task.refuse(Hanging, "%d processes of this node wait for %s already", hanging, task.For)
	case !t.room.Take():
		return task.refuse(Full, "this node has %d processes for such work already", t.room.Size())
	}
	t.tasks[task.On] = task
	return nil
}

func (t *Task) refuse(why Why, format string, args ...any) error {
	return &Refusal{Why: why, Message: fmt.Sprintf("%s %s: %s", t.Kind, t.On, fmt.Sprintf(format, args...))}
}

func (t *Table) finish(task *Task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.tasks, task.On)
	t.room.Give()
}

// outlive waits for a process that the kernel does not let go.
func (t *Table) outlive(task *Task, p Process) {
	t.mu.Lock()
	task.killed = time.Now()
	t.mu.Unlock()
	p.Kill()
	t.log.Info("Waiting for a process that was killed", "task", task.Kind, "on", task.On, "for", task.For)
	go func() {
		<-p.Done()
		t.finish(task)
		t.log.Info("A process that was killed is gone", "task", task.Kind, "on", task.On, "for", task.For)
	}()
}
