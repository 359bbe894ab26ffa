package tools

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quarry.storage/quarry/agent/internal/host/dm/linear"
	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/pkg/sharedlun"
)

// dmsetup plays the program on a node with the device of a volume and those of its copying.
type dmsetup struct{ told []string }

const group, volume = "EJOuKj-cD6h-GGXp-49EQ-tSM8-Xxrl-JtVpvn", "8AD8Uh-gR3m-AUdI-S0r1-Eqzm-EZDO-qI0cBB"

func (d *dmsetup) Run(_ context.Context, c run.Command) (run.Result, error) {
	switch c.Args[0] {
	case "info":
		base := "quarry-" + group + "-" + volume
		return run.Result{Stdout: []byte(base + " quarry-" + volume + " Live Active 254 3 1\n" + base + "-new quarry-" + volume + "-new Live Active 254 4 1\n" + base + "-source quarry-" + volume + "-source Live Active 254 5 1\n")}, nil
	case "table":
		const table = "0 2048 linear 8:16 0\n"
		if names := c.Args[1:]; len(names) > 1 {
			return run.Result{Stdout: []byte(strings.Join(names, ": "+table) + ": " + table)}, nil
		}
		return run.Result{Stdout: []byte(table)}, nil
	case "load":
		d.told = append(d.told, c.Args[len(c.Args)-1]+": "+strings.TrimSpace(string(c.Stdin)))
	}
	return run.Result{}, nil
}

// TestCut: what is zeroed of a volume, or copied, goes through devices of their own, which are cut, too.
func TestCut(t *testing.T) {
	sys, d := t.TempDir(), &dmsetup{}
	for _, number := range []string{"254:3", "254:4", "254:5"} {
		if err := os.MkdirAll(filepath.Join(sys, "dev/block", number, "holders"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	devices := Devices{DM: linear.New(linear.Config{Runner: d, Sys: sys, Dev: t.TempDir()})}
	if err := devices.Cut(t.Context(), group, volume); err != nil {
		t.Fatal(err)
	}
	if want := []string{"quarry-" + volume + ": 0 2048 error", "quarry-" + volume + "-new: 0 2048 error", "quarry-" + volume + "-source: 0 2048 error"}; !slices.Equal(d.told, want) {
		t.Errorf("%q, want %q", d.told, want)
	}
}

// TestList: what is zeroed or copied is told as that, so that nobody takes it for the device that a volume shows.
func TestList(t *testing.T) {
	sys := t.TempDir()
	for _, number := range []string{"254:3", "254:4", "254:5"} {
		if err := os.MkdirAll(filepath.Join(sys, "dev/block", number, "holders"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	all, err := Devices{DM: linear.New(linear.Config{Runner: &dmsetup{}, Sys: sys, Dev: t.TempDir()})}.List(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	var parts []sharedlun.Part
	for _, m := range all {
		if parts = append(parts, m.Part); m.VolumeUUID != volume || !m.Live || !m.Linear || !m.InUse || m.Lun != "8:16" {
			t.Errorf("%+v", m)
		}
	}
	if want := []sharedlun.Part{sharedlun.PartShown, sharedlun.PartNew, sharedlun.PartSource}; !slices.Equal(parts, want) {
		t.Errorf("%v, want %v", parts, want)
	}
}
