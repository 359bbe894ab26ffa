// Package service keeps programs of a node running, with their logs in files.
// It does not know what the programs are for.
package service

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// restartDelay keeps a service that fails at once from taking the whole core.
const restartDelay = time.Second

// Supervise keeps a program running until the context ends. Its log is a file
// of the given directory.
func Supervise(ctx context.Context, logs, name, path string, args ...string) {
	for ctx.Err() == nil {
		err := runOnce(ctx, filepath.Join(logs, name+".log"), path, args)
		// The node's console is a file of the machine.
		fmt.Printf("lab: %s ended: %v\n", name, err)
		select {
		case <-ctx.Done():
		case <-time.After(restartDelay):
		}
	}
}

func runOnce(ctx context.Context, logFile, path string, args []string) error {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = log, log
	return cmd.Run()
}

// FlushLogs pushes the logs to the machine every second. Without it they stay
// in the node's memory for half a minute, and a power cut takes them along.
// A full fsync would make the machine's disk wait for every node.
func FlushLogs(ctx context.Context, logs string) {
	for ctx.Err() == nil {
		time.Sleep(time.Second)
		files, err := filepath.Glob(filepath.Join(logs, "*.log"))
		if err != nil {
			continue
		}
		for _, file := range files {
			f, err := os.Open(file)
			if err != nil {
				continue
			}
			_ = unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
			f.Close()
		}
	}
}
