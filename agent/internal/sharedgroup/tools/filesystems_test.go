package tools

import (
	"errors"
	"testing"

	"quarry.storage/quarry/agent/internal/host/fs"
	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/agent/internal/sharedgroup/decide"
)

// TestFilesystems_Content: formats that contradict each other are remains; what cannot be read is none.
func TestFilesystems_Content(t *testing.T) {
	const device = "/dev/absent"
	for code, want := range map[int]decide.VolumeContent{8: {Unknown: true}, 4: {}, 2: {}} {
		blkid := run.Step{
			Argv:   []string{"/usr/sbin/blkid", "-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export", device},
			Result: run.Result{ExitCode: code},
		}
		got, err := Filesystems{FS: fs.New(run.NewFake(blkid))}.Content(t.Context(), device)
		if got != want || (err == nil) != want.Unknown || errors.Is(err, fs.ErrSeveral) {
			t.Errorf("blkid ends with %d: %+v, %v", code, got, err)
		}
	}
}
