package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// stat is the part of /proc/PID/stat that tells one process from another.
type stat struct {
	state   byte
	session int
	// start is when the process started, in clock ticks since boot. Together
	// with the pid it names a process for good: a recycled pid has another.
	start uint64
}

// readStat reads a process's stat; one that has ended and only waits to be
// collected counts as gone.
func readStat(pid int) (stat, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	s, err := parseStat(string(b))
	if err == nil && (s.state == 'Z' || s.state == 'X') {
		err = os.ErrProcessDone
	}
	return s, err
}

// parseStat takes a /proc/PID/stat line apart. The command name in it may
// contain spaces and parentheses, so the fields are counted from its last
// closing parenthesis.
func parseStat(line string) (stat, error) {
	i := strings.LastIndexByte(line, ')')
	if i < 0 {
		return stat{}, fmt.Errorf("stat line %q: no command name", line)
	}
	fields := strings.Fields(line[i+1:])
	const stateField, sessionField, startField = 0, 3, 19
	if len(fields) <= startField {
		return stat{}, fmt.Errorf("stat line %q: too short", line)
	}
	session, err := strconv.Atoi(fields[sessionField])
	if err != nil {
		return stat{}, fmt.Errorf("stat line %q: %w", line, err)
	}
	start, err := strconv.ParseUint(fields[startField], 10, 64)
	if err != nil {
		return stat{}, fmt.Errorf("stat line %q: %w", line, err)
	}
	return stat{state: fields[stateField][0], session: session, start: start}, nil
}
