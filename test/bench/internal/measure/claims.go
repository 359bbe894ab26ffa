package measure

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

// claimsMark begins what the test of a hundred claims has to say.
const claimsMark = "HundredClaims: "

// ReadClaims finds the figures in the output of the test; without any, the test did not end well.
func ReadClaims(output io.Reader) (Report, error) {
	var r Report
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if _, figures, ok := strings.Cut(lines.Text(), claimsMark); ok {
			r.Claims = append(r.Claims, figures)
		}
	}
	if err := lines.Err(); err != nil {
		return Report{}, err
	}
	if len(r.Claims) == 0 {
		return Report{}, errors.New("the test printed no figures")
	}
	return r, nil
}
