// Package netns lets a process of the agent work in another network namespace than its pod's.
package netns

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Enter makes this process work in another network namespace, by starting the program again in it, with the arguments given. It
// returns only when the process is there already, or cannot go there.
//
// A mount over the network keeps its connection in the network namespace of whoever mounts. In that of a pod the mount would die with the pod.
func Enter(namespace string, argv []string) error {
	inside, err := same(namespace, "/proc/self/ns/net")
	if err != nil || inside {
		return err
	}
	// The namespace is that of this thread alone, until the new program makes it that of the process.
	runtime.LockOSThread()
	f, err := os.Open(namespace)
	if err != nil {
		return fmt.Errorf("network namespace: %w", err)
	}
	defer f.Close()
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace %s: %w", namespace, err)
	}
	return fmt.Errorf("start again in network namespace %s: %w", namespace, unix.Exec("/proc/self/exe", argv, os.Environ()))
}

func same(a, b string) (bool, error) {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	if err := errors.Join(errA, errB); err != nil {
		return false, fmt.Errorf("network namespace: %w", err)
	}
	return os.SameFile(infoA, infoB), nil
}
