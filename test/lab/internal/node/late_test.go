package node

import (
	"testing"
	"time"
)

func TestDelayed(t *testing.T) {
	const plain = "0 65536 linear 8:0 2048\n65536 8192 linear 8:0 100352\n"
	const late = "0 65536 delay 8:0 2048 0 8:0 2048 1500\n65536 8192 delay 8:0 100352 0 8:0 100352 1500\n"
	const later = "0 65536 delay 8:0 2048 0 8:0 2048 60000\n65536 8192 delay 8:0 100352 0 8:0 100352 60000\n"
	for _, c := range []struct {
		from, to string
		by       time.Duration
	}{
		{plain, late, 1500 * time.Millisecond}, {late, later, time.Minute}, {later, plain, 0}, {plain, plain, 0},
	} {
		if got, err := delayed(c.from, c.by); err != nil || got != c.to {
			t.Errorf("%q by %s: %q, %v", c.from, c.by, got, err)
		}
	}
	for _, table := range []string{"0 8 error\n", "0 8 multipath 0 0 1 1\n", "0 8 linear 8:0\n"} {
		if got, err := delayed(plain+table, time.Second); err == nil {
			t.Errorf("%q: %q", table, got)
		}
	}
}
