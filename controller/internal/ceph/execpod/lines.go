package execpod

import (
	"bytes"
	"context"
	"fmt"
	"sync"
)

// lines cuts what is written into lines, up to a limit for each. A longer one ends the connection: half an answer must not be taken for a whole one. The
// connection may write to it after it was given up.
type lines struct {
	mu    sync.Mutex
	part  []byte
	limit int
	whole chan []byte
	end   context.CancelCauseFunc
}

// ahead is how many lines nobody has read yet at most. There is one for each command, and one that says that the program is ready.
const ahead = 4

func newLines(limit int, end context.CancelCauseFunc) *lines {
	return &lines{limit: limit, whole: make(chan []byte, ahead), end: end}
}

// Write takes p in. It never fails: a writer that fails makes the connection log what it could not write, and that may be a key.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(p)
	for {
		line, rest, complete := bytes.Cut(p, []byte("\n"))
		if len(l.part)+len(line) > l.limit {
			l.end(fmt.Errorf("the program printed more than %d bytes", l.limit))
			return n, nil
		}
		l.part = append(l.part, line...)
		if !complete {
			return n, nil
		}
		select {
		case l.whole <- l.part:
		default:
			l.end(fmt.Errorf("the program printed more than it was asked for"))
		}
		l.part, p = nil, rest
	}
}
