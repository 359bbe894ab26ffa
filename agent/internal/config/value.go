package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// size is a flag's value in bytes, written with or without a binary suffix: "512Mi".
type size int64

var suffixes = []struct {
	suffix string
	factor int64
}{{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40}, {"", 1}}

// String writes the size with the largest suffix that divides it.
func (s *size) String() string {
	for i := len(suffixes) - 2; i >= 0; i-- {
		if f := suffixes[i]; s != nil && *s != 0 && int64(*s)%f.factor == 0 {
			return strconv.FormatInt(int64(*s)/f.factor, 10) + f.suffix
		}
	}
	if s == nil {
		return ""
	}
	return strconv.FormatInt(int64(*s), 10)
}

// Set reads a size.
func (s *size) Set(text string) error {
	for _, f := range suffixes {
		digits, ok := strings.CutSuffix(text, f.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/f.factor {
			return fmt.Errorf("%q is not a size like 1Gi", text)
		}
		*s = size(n * f.factor)
		return nil
	}
	return fmt.Errorf("%q is not a size like 1Gi", text)
}

// list is a flag's value of words separated by commas.
type list []string

// String writes the list.
func (l *list) String() string {
	if l == nil {
		return ""
	}
	return strings.Join(*l, ",")
}

// Set reads a list.
func (l *list) Set(text string) error {
	*l = nil
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			*l = append(*l, word)
		}
	}
	return nil
}
