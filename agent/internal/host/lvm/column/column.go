// Package column reads the reports of LVM strictly: the document, and the columns of its rows. It does not know which columns there are.
package column

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// chatter is a line that LVM writes into the middle of the document when the metadata on a device is damaged, whatever it is told about
// what to say. It is no text of a report: no name holds a space.
const chatter = "Retrying metadata scan."

// Decode reads the one document of a report. Anything behind it is an error.
func Decode(doc []byte, into any) error {
	var said []byte
	for line := range bytes.Lines(doc) {
		if string(bytes.TrimSpace(line)) != chatter {
			said = append(said, line...)
		}
	}
	dec := json.NewDecoder(bytes.NewReader(said))
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("parse: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("parse: text after the document")
	}
	return nil
}

// Row is one row of a report, by the names of its columns; LVM writes every value as a string.
type Row map[string]string

// Reader converts rows.
type Reader struct {
	// Err is the first error.
	Err error
}

// Fail keeps an error, unless there is one.
func (p *Reader) Fail(err error) {
	if p.Err == nil {
		p.Err = err
	}
}

// Text is a field that has to be there; it may be empty.
func (p *Reader) Text(r Row, key string) string {
	v, ok := r[key]
	if !ok {
		p.Fail(fmt.Errorf("field %s is missing", key))
	}
	return v
}

// ID is a field that has to be there and must not be empty.
func (p *Reader) ID(r Row, key string) string {
	v := p.Text(r, key)
	if v == "" {
		p.Fail(fmt.Errorf("field %s is empty", key))
	}
	return v
}

// Number is a number that is not negative and has that many bits at most.
func (p *Reader) Number(r Row, key string, bits int) int64 {
	v := p.Text(r, key)
	n, err := strconv.ParseInt(v, 10, bits)
	if err != nil || n < 0 {
		p.Fail(fmt.Errorf("field %s is %q, not a number", key, v))
		return 0
	}
	return n
}

// Flag is a column of an option --binary: "0" or "1".
func (p *Reader) Flag(r Row, key string) bool {
	switch v := p.Text(r, key); v {
	case "0":
		return false
	case "1":
		return true
	default:
		p.Fail(fmt.Errorf("field %s is %q, neither 0 nor 1", key, v))
		return false
	}
}

// List is a field of texts with commas between, ordered.
func (p *Reader) List(r Row, key string) []string {
	text := p.Text(r, key)
	if text == "" {
		return nil
	}
	out := strings.Split(text, ",")
	slices.Sort(out)
	return out
}

// Optional is a number that is empty where it has no meaning: zero then.
func (p *Reader) Optional(r Row, key string) int64 {
	if p.Text(r, key) == "" {
		return 0
	}
	return p.Number(r, key, 64)
}

// Permyriad is a percentage with two decimals, in hundredths of a percent; zero when it is empty.
func (p *Reader) Permyriad(r Row, key string) int32 {
	v := p.Text(r, key)
	if v == "" {
		return 0
	}
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || f < 0 || f > 100 {
		p.Fail(fmt.Errorf("field %s is %q, not a percentage", key, v))
		return 0
	}
	return int32(f*100 + 0.5)
}

// Known is a flag for which LVM reports -1 where it does not know, or where there is nothing to know: false then.
func (p *Reader) Known(r Row, key string) bool {
	if p.Text(r, key) == "-1" {
		return false
	}
	return p.Flag(r, key)
}
