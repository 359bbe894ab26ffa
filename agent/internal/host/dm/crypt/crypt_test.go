package crypt

import (
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/pkg/osd"
)

const uuid = "aaaaaaaa-bbbb-5ccc-8ddd-eeeeeeeeeeee"

var (
	disk = unix.Mkdev(8, 16)
	name = osd.MappingName(uuid)
	info = []string{dmsetup, "info", "--columns", "--noheadings", "--separator", " ", "--options", "name,uuid,tables_loaded,major,minor,open"}
)

func says(text string, argv ...string) run.Step {
	return run.Step{Argv: argv, Result: run.Result{Stdout: []byte(text)}}
}

func mapped(state, open string) run.Step {
	return says("vg-lv LVM-x Live 252 0 1\n"+name+" "+osd.MappingUUID(uuid)+" "+state+" 252 3 "+open+"\n", info...)
}

func on(number string) run.Step {
	return says("0 4161536 crypt aes-xts-plain64 0000 0 "+number+" 32768 1 sector_size:4096\n", dmsetup, "table", name)
}

var (
	remove = says("", dmsetup, "remove", name)
	busy   = run.Step{Argv: remove.Argv, Result: run.Result{ExitCode: 1, Stderr: []byte("device-mapper: remove ioctl on x  failed: Device or resource busy")}}
	broken = run.Step{Argv: info, Result: run.Result{ExitCode: 1, Stderr: []byte("/dev/mapper/control: open failed")}}
)

func TestClose(t *testing.T) {
	for label, tt := range map[string]struct {
		steps []run.Step
		want  error
	}{
		"closes it":                            {[]run.Step{mapped("Live", "0"), on("8:16"), remove}, nil},
		"one with a table beside the live one": {[]run.Step{mapped("Both", "0"), on("8:16"), remove}, nil},
		"there is none":                        {[]run.Step{says("No devices found\n", info...)}, nil},
		"there are others":                     {[]run.Step{says("vg-lv LVM-x Live 252 0 1\n", info...)}, nil},
		"an opening that was cut off":          {[]run.Step{mapped("None", "0"), remove}, nil},
		"one that was cut off before it lived": {[]run.Step{mapped("Inactive", "0"), remove}, nil},
		"its disk came back with a new number": {[]run.Step{mapped("Live", "0"), on("8:32"), remove}, nil},
		"two parts, the first of dm-crypt":     {[]run.Step{mapped("Live", "0"), says("0 8 crypt aes 00 0 8:32 0\n8 8 linear 8:32 0\n", dmsetup, "table", name)}, ErrOther},
		"no dm-crypt":                          {[]run.Step{mapped("Live", "0"), says("0 8 linear 8:16 0\n", dmsetup, "table", name)}, ErrOther},
		"another UUID":                         {[]run.Step{says(name+" CRYPT-LUKS2-x Live 252 3 0\n", info...)}, ErrOther},
		"nobody can tell":                      {[]run.Step{broken}, nil},
	} {
		fake := run.NewFake(tt.steps...)
		err := New(Config{Runner: fake}).Close(t.Context(), uuid, disk)
		if label == "nobody can tell" {
			if err == nil {
				t.Errorf("%s: no error", label)
			}
			continue
		}
		if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) || fake.Left() > 0 {
			t.Errorf("%s: %v, %d calls left", label, err, fake.Left())
		}
		for _, c := range fake.Calls() {
			if len(c.Env) != 1 || c.Env[0] != "DM_DISABLE_UDEV=1" || strings.Contains(strings.Join(c.Args, " "), "showkeys") {
				t.Errorf("%s: %+v", label, c)
			}
		}
	}
	if err := New(Config{Runner: run.NewFake()}).Close(t.Context(), "x", disk); err == nil || errors.Is(err, run.ErrUnscripted) {
		t.Errorf("no UUID: %v", err)
	}
}

// TestClose_open: who looks at the mapping is waited for; who keeps it is told of.
func TestClose_open(t *testing.T) {
	fake := run.NewFake(mapped("Live", "1"), on("8:16"), mapped("Live", "0"), on("8:16"), busy, mapped("Live", "0"), on("8:16"), remove)
	if err := New(Config{Runner: fake}).Close(t.Context(), uuid, disk); err != nil || fake.Left() > 0 {
		t.Errorf("%v, %d calls left", err, fake.Left())
	}
	for number, says := range map[string]string{"8:16": "", "8:32": "on device 8:32"} {
		var steps []run.Step
		for range 30 {
			steps = append(steps, mapped("Live", "1"), on(number))
		}
		err := New(Config{Runner: run.NewFake(steps...), Patience: time.Second}).Close(t.Context(), uuid, disk)
		if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), says) {
			t.Error(err)
		}
	}
}

func TestFind(t *testing.T) {
	m, err := New(Config{Runner: run.NewFake(mapped("Live", "1"), on("8:16"))}).Find(t.Context(), uuid, disk)
	if want := (Mapping{Path: "/dev/dm-3", Number: unix.Mkdev(252, 3)}); err != nil || m != want {
		t.Errorf("%+v, %v", m, err)
	}
	for label, tt := range map[string]struct {
		steps []run.Step
		want  error
	}{
		"none":           {[]run.Step{says("", info...)}, ErrNotFound},
		"one that is no": {[]run.Step{mapped("None", "0")}, ErrNotFound},
		"another disk":   {[]run.Step{mapped("Live", "0"), on("8:32")}, ErrOther},
	} {
		if _, err := New(Config{Runner: run.NewFake(tt.steps...)}).Find(t.Context(), uuid, disk); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", label, err)
		}
	}
}
