package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// startTime reads when a process started, in clock ticks since boot. Together
// with the pid it names a process for good: a recycled pid has another one.
func startTime(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	state, start, err := parseStat(string(b))
	if err != nil {
		return 0, err
	}
	if state == 'Z' || state == 'X' {
		return 0, os.ErrProcessDone
	}
	return start, nil
}

// parseStat takes the state and start time out of a /proc/PID/stat line. The
// command name in it may contain spaces and parentheses, so the fields are
// counted from its last closing parenthesis.
func parseStat(line string) (state byte, start uint64, err error) {
	i := strings.LastIndexByte(line, ')')
	if i < 0 {
		return 0, 0, fmt.Errorf("stat line %q: no command name", line)
	}
	fields := strings.Fields(line[i+1:])
	const stateField, startField = 0, 19
	if len(fields) <= startField {
		return 0, 0, fmt.Errorf("stat line %q: too short", line)
	}
	start, err = strconv.ParseUint(fields[startField], 10, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("stat line %q: %w", line, err)
	}
	return fields[stateField][0], start, nil
}
