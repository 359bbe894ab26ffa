package linear

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestVolume_parts: the devices of a volume have names of their own, and none is taken for another one.
func TestVolume_parts(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range []Volume{volume, {Group: groupUUID, UUID: uuidA, New: true}, {Group: groupUUID, UUID: uuidA, Source: true}} {
		got, ok := VolumeOf(v.uuid())
		if !ok || got != v || seen[v.name()] {
			t.Errorf("%s is read as %+v, %t", v.uuid(), got, ok)
		}
		seen[v.name()] = true
	}
	if _, ok := VolumeOf(volume.uuid() + "-source-new"); ok {
		t.Error("a device that is both is ours")
	}
}

// TestLoad_source: what a volume is copied from cannot be written to.
func TestLoad_source(t *testing.T) {
	k := &kernel{info: others}
	v := Volume{Group: groupUUID, UUID: uuidA, Source: true}
	if err := with(t, k).Load(t.Context(), v, []Segment{{"8:16", 0, 8}}, nil); err != nil {
		t.Fatal(err)
	}
	name := "quarry-" + uuidA + "-source"
	want := "create NAME --uuid quarry-" + groupUUID + "-" + uuidA + "-source --notable;clear NAME;load --readonly NAME;resume --nolockfs NAME;mknodes NAME"
	if got := strings.Join(k.told, ";"); got != strings.ReplaceAll(want, "NAME", name) {
		t.Errorf("%s", got)
	}
}

// TestDuplicate: all of it is copied, what is told is synchronised, each part is asked for before, and it stops with the context.
func TestDuplicate(t *testing.T) {
	const count = copySync + copyAtOnce + 512
	content := bytes.Repeat([]byte("quarry-!"), count/8)
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	var told []int64
	asked := int64(0)
	pace := func(_ context.Context, bytes int64) error {
		asked += bytes
		return nil
	}
	if err := duplicate(t.Context(), bytes.NewReader(content), out, count, pace, func(at int64) { told = append(told, at) }); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(out.Name())
	if err != nil || !bytes.Equal(got, content) || asked != count || len(told) != 2 || told[0] != copySync || told[1] != count {
		t.Errorf("%d bytes, asked for %d, told %v, %v", len(got), asked, told, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, pace := range map[string]func(context.Context, int64) error{
		"without a pace": nil, "with one": func(ctx context.Context, _ int64) error { return ctx.Err() },
	} {
		if err := duplicate(ctx, bytes.NewReader(content), out, count, pace, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := duplicate(t.Context(), bytes.NewReader(content[:copyAtOnce]), out, count, nil, nil); err == nil {
		t.Error("a device that is shorter was copied whole")
	}
}
