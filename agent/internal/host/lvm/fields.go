package lvm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// row is one row of a report; LVM writes every value as a string.
type row map[string]string

// fields converts rows and keeps the first error.
type fields struct{ err error }

func (p *fields) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

// text is a field that has to be there; it may be empty.
func (p *fields) text(r row, key string) string {
	v, ok := r[key]
	if !ok {
		p.fail(fmt.Errorf("field %s is missing", key))
	}
	return v
}

// id is a field that has to be there and must not be empty.
func (p *fields) id(r row, key string) string {
	v := p.text(r, key)
	if v == "" {
		p.fail(fmt.Errorf("field %s is empty", key))
	}
	return v
}

func (p *fields) number(r row, key string, bits int) int64 {
	v := p.text(r, key)
	n, err := strconv.ParseInt(v, 10, bits)
	if err != nil || n < 0 {
		p.fail(fmt.Errorf("field %s is %q, not a number", key, v))
		return 0
	}
	return n
}

func (p *fields) flag(r row, key string) bool {
	switch v := p.text(r, key); v {
	case "0":
		return false
	case "1":
		return true
	default:
		p.fail(fmt.Errorf("field %s is %q, neither 0 nor 1", key, v))
		return false
	}
}

// list is a field of texts with commas between, ordered.
func (p *fields) list(r row, key string) []string {
	text := p.text(r, key)
	if text == "" {
		return nil
	}
	out := strings.Split(text, ",")
	slices.Sort(out)
	return out
}

// optional is a number that is empty where it has no meaning: zero then.
func (p *fields) optional(r row, key string) int64 {
	if p.text(r, key) == "" {
		return 0
	}
	return p.number(r, key, 64)
}

// permyriad is a percentage with two decimals, in hundredths of a percent; zero when it is empty.
func (p *fields) permyriad(r row, key string) int32 {
	v := p.text(r, key)
	if v == "" {
		return 0
	}
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || f < 0 || f > 100 {
		p.fail(fmt.Errorf("field %s is %q, not a percentage", key, v))
		return 0
	}
	return int32(f*100 + 0.5)
}

// known is a flag that LVM answers -1 for where it does not know, or where there is nothing to know: false then.
func (p *fields) known(r row, key string) bool {
	if p.text(r, key) == "-1" {
		return false
	}
	return p.flag(r, key)
}
