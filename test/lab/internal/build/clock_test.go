package build

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// reader compares the clock with the kernel's, on several threads.
const reader = `package main

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

func kernel() int64 {
	var t syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 0, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}

func main() {
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			last := time.Now()
			for i := range 100000 {
				now := time.Now()
				if back := last.Sub(now); back > 20*time.Microsecond {
					fmt.Println("it went back by", back)
					os.Exit(1)
				}
				last = now
				if i%1000 > 0 {
					continue
				}
				time.Sleep(time.Millisecond)
				before, between := kernel(), time.Now().UnixNano()
				if after := kernel(); between < before-2e6 || between > after+2e6 {
					fmt.Println("it is not between", before, "and", after, "but", between)
					os.Exit(1)
				}
			}
		})
	}
	wg.Wait()
}
`

// TestClock: programs that are built with the clock tell the time of the kernel, and time does not go back.
func TestClock(t *testing.T) {
	dir := t.TempDir()
	with, err := overlay(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "reader.go")
	if err := os.WriteFile(program, []byte(reader), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := goBuild(t.Context(), dir, "-s -w", dir, "-overlay", with, program); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "reader")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestClock_otherRuntime: a version of Go that looks for the kernel's clock elsewhere is told apart from one that cannot be read.
func TestClock_otherRuntime(t *testing.T) {
	root := t.TempDir()
	t.Setenv("GOROOT", root)
	if _, err := overlay(t.Context(), t.TempDir()); err == nil || errors.Is(err, errOtherRuntime) {
		t.Errorf("without a runtime: %v", err)
	}
	source := filepath.Join(root, "src", "runtime")
	if err := os.MkdirAll(source, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(source, "vdso_linux.go"), []byte("package runtime\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := overlay(t.Context(), t.TempDir()); !errors.Is(err, errOtherRuntime) {
		t.Errorf("of another form: %v", err)
	}
}
