package measure

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// movesMark begins what the journey of a volume between nodes has to say: "IscsiMove: attach to Running after 3.2 s".
const movesMark = "IscsiMove: "

// What a journey times.
const (
	// AttachToRunning is from the making of the first pod of a new volume until it is Running.
	AttachToRunning = "attach to Running"
	// MoveToRunning is from the making of a pod on another node than the one before, which has ended, until it is Running.
	MoveToRunning = "move to Running"
)

// Move is one pod on a volume that moves between nodes.
type Move struct {
	// What is one of the constants.
	What    string  `json:"what"`
	Seconds float64 `json:"seconds"`
}

// ReadMoves finds the figures in the output of the journey; without any, it did not end well.
func ReadMoves(output io.Reader) (Report, error) {
	var r Report
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		_, figures, ok := strings.Cut(lines.Text(), movesMark)
		if !ok {
			continue
		}
		m, err := parseMove(figures)
		if err != nil {
			return Report{}, err
		}
		r.Moves = append(r.Moves, m)
	}
	if err := lines.Err(); err != nil {
		return Report{}, err
	}
	if len(r.Moves) == 0 {
		return Report{}, errors.New("the journey printed no figures")
	}
	return r, nil
}

func parseMove(figures string) (Move, error) {
	what, rest, ok := strings.Cut(figures, " after ")
	text, unit, unitOK := strings.Cut(strings.TrimSpace(rest), " ")
	seconds, err := strconv.ParseFloat(text, 64)
	if !ok || !unitOK || unit != "s" || err != nil || seconds < 0 || what != AttachToRunning && what != MoveToRunning {
		return Move{}, fmt.Errorf("the journey printed %q", figures)
	}
	return Move{What: what, Seconds: seconds}, nil
}

// MoveSeconds sums up how long one kind of moves took.
func MoveSeconds(moves []Move, what string) (s Spread, longest float64) {
	var values []float64
	for _, m := range moves {
		if m.What == what {
			values = append(values, m.Seconds)
			longest = max(longest, m.Seconds)
		}
	}
	return NewSpread(values), longest
}
