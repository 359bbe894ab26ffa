// Package direct times single requests to block devices that no cache answers. Two devices that show the same bytes are asked in turns, so that what
// the machine does besides meets both. It does not know what lies between a device and its bytes.
package direct

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// alignment is what devices want of the memory, the place and the length of a request that no cache holds.
const alignment = 4096

// Extents are some bytes of a device, one after the other.
type Extents struct {
	file   *os.File
	start  int64
	length int64
}

// Open opens bytes of a device for requests past every cache.
func Open(path string, start, length int64) (*Extents, error) {
	return open(path, start, length, unix.O_DIRECT)
}

func open(path string, start, length int64, flags int) (*Extents, error) {
	if start < 0 || length <= 0 || start%alignment != 0 || length%alignment != 0 {
		return nil, fmt.Errorf("bytes %d to %d of %s are not whole blocks of %d", start, start+length, path, alignment)
	}
	f, err := os.OpenFile(path, os.O_RDWR|flags, 0)
	if err != nil {
		return nil, err
	}
	end, err := f.Seek(0, io.SeekEnd)
	if err == nil && end < start+length {
		err = fmt.Errorf("%s has %d bytes, and not %d from %d", path, end, length, start)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Extents{file: f, start: start, length: length}, nil
}

// Close closes the device. Every request was answered before.
func (e *Extents) Close() {
	e.file.Close()
}

// Work is a kind of requests.
type Work struct {
	// Bytes is the length of each, Requests their number.
	Bytes, Requests int
	Write           bool
	// Sequential requests follow each other from a place at random; others each have a place at random.
	Sequential bool
}

// offsets are the places of the requests, multiples of their length.
func (w Work) offsets(length int64) []int64 {
	places := length / int64(w.Bytes)
	out := make([]int64, w.Requests)
	at := rand.Int64N(places)
	for i := range out {
		out[i] = at % places * int64(w.Bytes)
		if at++; !w.Sequential {
			at = rand.Int64N(places)
		}
	}
	return out
}

// Pair is one place in two devices: what is written through one is read through the other.
type Pair struct {
	first, second *Extents
	buffer        []byte
}

// NewPair takes two devices that show the same bytes, and fills these with what compresses to nothing smaller. most is the length of the longest request.
func NewPair(first, second *Extents, most int) (*Pair, error) {
	if first.length != second.length {
		return nil, fmt.Errorf("%d bytes are compared with %d", first.length, second.length)
	}
	buffer, err := unix.Mmap(-1, 0, most, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("memory for requests: %w", err)
	}
	p := &Pair{first: first, second: second, buffer: buffer}
	return p, errors.Join(p.fill(), p.same())
}

// fill writes all bytes once, so that no request meets a block that the storage has never kept.
func (p *Pair) fill() error {
	for at := int64(0); at < p.first.length; at += int64(len(p.buffer)) {
		p.scribble()
		if err := p.first.request(p.buffer[:min(int64(len(p.buffer)), p.first.length-at)], at, true); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
	}
	return nil
}

func (p *Pair) scribble() {
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(rand.Uint32())
	}
	_, _ = rand.NewChaCha8(seed).Read(p.buffer) // It never fails.
}

// same makes sure that both devices show what was written through the first: a ratio of two things would mean nothing.
func (p *Pair) same() error {
	n := min(int64(len(p.buffer)), p.first.length)
	for _, at := range []int64{0, p.first.length - n} {
		if err := p.first.request(p.buffer[:n], at, false); err != nil {
			return err
		}
		before := string(p.buffer[:n])
		if err := p.second.request(p.buffer[:n], at, false); err != nil {
			return err
		}
		if before != string(p.buffer[:n]) {
			return errors.New("the two devices show different bytes")
		}
	}
	return nil
}

// Run makes the requests of some work through both devices, each to the same place right after the other, in changing order. It returns the median of the time that a
// request took through the second, and how much more one took through the first.
func (p *Pair) Run(w Work) (more, second time.Duration, err error) {
	if w.Bytes <= 0 || w.Bytes%alignment != 0 || w.Bytes > len(p.buffer) || int64(w.Bytes) > p.first.length {
		return 0, 0, fmt.Errorf("requests of %d bytes cannot be made", w.Bytes)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var times [2][]time.Duration
	for i, at := range w.offsets(p.first.length) {
		for turn := range 2 {
			which := (i + turn) % 2
			began := time.Now()
			if err := [...]*Extents{p.first, p.second}[which].request(p.buffer[:w.Bytes], at, w.Write); err != nil {
				return 0, 0, err
			}
			times[which] = append(times[which], time.Since(began))
		}
	}
	more, second = compared(times[0], times[1])
	return more, second, nil
}

// compared sums up the times of requests, which are in the order of the places. What is more is the median of what is more at each place: its two requests met the same
// moment of the machine. A request that met something else, and took many times as long, says nothing about the device.
func compared(first, second []time.Duration) (more, past time.Duration) {
	var mores []time.Duration
	for i := range first {
		mores = append(mores, first[i]-second[i])
	}
	return median(mores), median(second)
}

// median is that of some times, which it sorts; with an even number the mean of the two in the middle. None is 0.
func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	n := len(times)
	if n == 0 {
		return 0
	}
	return (times[(n-1)/2] + times[n/2]) / 2
}

// Close gives the memory back.
func (p *Pair) Close() {
	_ = unix.Munmap(p.buffer) // It is what was mapped.
}

// request is one system call: a device that takes a part of it only is an error.
func (e *Extents) request(buffer []byte, at int64, write bool) error {
	call, what := unix.Pread, "read"
	if write {
		call, what = unix.Pwrite, "write"
	}
	n, err := call(int(e.file.Fd()), buffer, e.start+at)
	if err == nil && n != len(buffer) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return fmt.Errorf("%s %d bytes at %d of %s: %w", what, len(buffer), e.start+at, e.file.Name(), err)
	}
	return nil
}
