package service

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSupervise_startsAgainWhatEnds(t *testing.T) {
	logs := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Supervise(ctx, logs, "twice", "/bin/sh", "-c", "echo started")
	}()
	deadline := time.Now().Add(20 * time.Second)
	for {
		log, err := os.ReadFile(filepath.Join(logs, "twice.log"))
		if err == nil && strings.Count(string(log), "started\n") >= 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the log has %q, %v; want two starts", log, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("Supervise goes on after its context ended")
	}
}
