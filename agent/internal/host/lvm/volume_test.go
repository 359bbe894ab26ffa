package lvm

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"quarry.storage/quarry/agent/internal/host/run"
)

const volumeTag = "quarry.storage/volume=n1/g/v"

var owned = Owned{Name: "g", Devices: []string{"/dev/a", "/dev/b"}, Tag: tag}

func TestLVM_volumeArgv(t *testing.T) {
	const (
		see   = "--devices /dev/a --devices /dev/b "
		guard = `--config activation{volume_list=["@` + tag + `"]} `
		pick  = `-S vg_tags={"` + tag + `"} && lv_tags={"` + volumeTag + `"}`
	)
	create := func(v NewVolume) func(context.Context, *LVM) error {
		v.Name, v.Tags = "v", []string{volumeTag}
		return func(ctx context.Context, l *LVM) error { return l.CreateLV(ctx, owned, v) }
	}
	tests := map[string]struct {
		call func(ctx context.Context, l *LVM) error
		says string
		want string
	}{
		"create a linear volume": {
			create(NewVolume{SizeBytes: 4 << 20}), "",
			"lvcreate " + see + guard + "-n v --addtag " + volumeTag + " -Wy -Zy --yes -L 4194304b g",
		},
		"create a thin volume": {
			create(NewVolume{SizeBytes: 4 << 20, Pool: "p"}), "",
			"lvcreate " + see + guard + "-n v --addtag " + volumeTag + " -Wn -V 4194304b --thinpool p g",
		},
		"create a copy": {
			create(NewVolume{Source: "s", Pool: "p"}), "",
			"lvcreate " + see + guard + "-n v --addtag " + volumeTag + " -s -kn -prw g/s",
		},
		"create a snapshot": {
			create(NewVolume{Source: "s", Snapshot: true}), "",
			"lvcreate " + see + guard + "-n v --addtag " + volumeTag + " -s -ky -pr g/s",
		},
		"create a pool": {
			func(ctx context.Context, l *LVM) error {
				return l.CreatePool(ctx, owned, NewPool{Name: "p", Tags: []string{"x"}, SizeBytes: 1 << 30, MetadataBytes: 4 << 20, ChunkBytes: 64 << 10})
			}, "",
			"lvcreate " + see + strings.Replace(guard, "]}", "] error_when_full=1}", 1) +
				"--type thin-pool -n p --addtag x -Zy -L 1073741824b --poolmetadatasize 4194304b --chunksize 65536b g",
		},
		"extend a volume": {
			func(ctx context.Context, l *LVM) error { return l.ExtendLV(ctx, owned, "v", 8<<20, 0) }, "",
			"lvextend " + see + "-L 8388608b g/v",
		},
		"extend a pool": {
			func(ctx context.Context, l *LVM) error { return l.ExtendLV(ctx, owned, "p", 8<<20, 4<<20) }, "",
			"lvextend " + see + "-L 8388608b --poolmetadatasize 4194304b g/p",
		},
		"extend over some extents": {
			func(ctx context.Context, l *LVM) error {
				return l.ExtendLV(ctx, owned, "v", 8<<20, 0, Place{Device: "/dev/disk/by-path/pci-0:1@2", First: 7, Count: 2}, Place{Device: "/dev/b", Count: 1})
			}, "",
			"lvextend " + see + `-L 8388608b g/v /dev/disk/by-path/pci-0\:1\@2:7-8 /dev/b:0-0`,
		},
		"replace a tag": {
			func(ctx context.Context, l *LVM) error { return l.RetagLV(ctx, owned, "v", volumeTag, "u=0", "u=1") },
			"  Logical volume g/v changed.\n", "lvchange " + see + "--deltag u=0 --addtag u=1 " + pick + " g/v",
		},
		"activate": {
			func(ctx context.Context, l *LVM) error { return l.ActivateLV(ctx, owned, "v", volumeTag) }, "",
			"lvchange " + see + "-ay -K " + pick + " g/v",
		},
		"deactivate": {
			func(ctx context.Context, l *LVM) error { return l.DeactivateLV(ctx, owned, "v", volumeTag) }, "",
			"lvchange " + see + "-an " + pick + " g/v",
		},
		"take a tag off": {
			func(ctx context.Context, l *LVM) error { return l.RetagLV(ctx, owned, "v", volumeTag, "new", "") },
			"  Logical volume g/v changed.\n", "lvchange " + see + "--deltag new " + pick + " g/v",
		},
		"add a tag": {
			func(ctx context.Context, l *LVM) error { return l.RetagLV(ctx, owned, "v", volumeTag, "", "gone") },
			"  Logical volume g/v changed.\n", "lvchange " + see + "--addtag gone " + pick + " g/v",
		},
		"remove a volume": {
			func(ctx context.Context, l *LVM) error { return l.RemoveLV(ctx, owned, "v", volumeTag) },
			"  Logical volume \"v\" successfully removed.\n", "lvremove " + see + pick + " && " + alone + " g/v",
		},
		"remove a pool": {
			func(ctx context.Context, l *LVM) error { return l.RemovePool(ctx, owned, "p", volumeTag) },
			"  Logical volume \"p\" successfully removed.\n", "lvremove " + see + pick + " && thin_count=0 g/p",
		},
	}
	for name, tt := range tests {
		l, fake := newLVM(t, run.Step{Result: run.Result{Stdout: []byte(tt.says)}})
		if err := tt.call(t.Context(), l); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		args := fake.Calls()[0].Args
		if got := strings.Join(args, " "); got != tt.want {
			t.Errorf("%s:\n%s, want\n%s", name, got, tt.want)
		}
		if stdin := string(fake.Calls()[0].Stdin); stdin != "" && (name != "remove a volume" || stdin != "y\n") {
			t.Errorf("%s answers questions: %q", name, stdin)
		}
		forced := slices.ContainsFunc(args, func(a string) bool { return a == "-f" || a == "--force" || a == "-y" })
		if forced || slices.Contains(args, "--yes") && !slices.Contains(args, "-Wy") {
			t.Errorf("%s skips a question: %q", name, args)
		}
	}
}

func TestLVM_volumeRefusesBeforeAnyCommand(t *testing.T) {
	create := func(g Owned, v NewVolume) func(context.Context, *LVM) error {
		return func(ctx context.Context, l *LVM) error { return l.CreateLV(ctx, g, v) }
	}
	good := NewVolume{Name: "v", SizeBytes: 4 << 20}
	change := func(edit func(*NewVolume)) NewVolume {
		v := good
		edit(&v)
		return v
	}
	tests := map[string]func(context.Context, *LVM) error{
		"no devices":               create(Owned{Name: "g", Tag: tag}, good),
		"an option as a group":     create(Owned{Name: "-y", Devices: owned.Devices, Tag: tag}, good),
		"no tag":                   create(Owned{Name: "g", Devices: owned.Devices}, good),
		"a tag that ends a string": create(Owned{Name: "g", Devices: owned.Devices, Tag: `x"] y=["`}, good),
		"an option as a name":      create(owned, change(func(v *NewVolume) { v.Name = "--force" })),
		"an option as a pool":      create(owned, change(func(v *NewVolume) { v.Pool = "-f" })),
		"an option as a source":    create(owned, change(func(v *NewVolume) { v.Source = "-f" })),
		"a path as a source":       create(owned, change(func(v *NewVolume) { v.Source = "../x" })),
		"an option as a tag":       create(owned, change(func(v *NewVolume) { v.Tags = []string{"-f"} })),
		"no size":                  create(owned, change(func(v *NewVolume) { v.SizeBytes = 0 })),
		"a size of half a sector":  create(owned, change(func(v *NewVolume) { v.SizeBytes = 100 })),
		"a snapshot of nothing":    create(owned, change(func(v *NewVolume) { v.Snapshot = true })),
		"criteria in a tag": func(ctx context.Context, l *LVM) error {
			return l.RemoveLV(ctx, owned, "v", `x"} || lv_name!={"`)
		},
		"an option as a tag to take off": func(ctx context.Context, l *LVM) error { return l.RetagLV(ctx, owned, "v", volumeTag, "--yes", "") },
		"an option as a tag to add":      func(ctx context.Context, l *LVM) error { return l.RetagLV(ctx, owned, "v", volumeTag, "new", "--yes") },
		"no tag to change":               func(ctx context.Context, l *LVM) error { return l.RetagLV(ctx, owned, "v", volumeTag, "", "") },
		"an option as a place": func(ctx context.Context, l *LVM) error {
			return l.ExtendLV(ctx, owned, "v", 8<<20, 0, Place{Device: "--yes", Count: 1})
		},
		"no extents as a place": func(ctx context.Context, l *LVM) error {
			return l.ExtendLV(ctx, owned, "v", 8<<20, 0, Place{Device: "/dev/b"})
		},
		"growing to nothing": func(ctx context.Context, l *LVM) error { return l.ExtendLV(ctx, owned, "v", -1, 0) },
		"a pool without metadata": func(ctx context.Context, l *LVM) error {
			return l.CreatePool(ctx, owned, NewPool{Name: "p", SizeBytes: 4 << 20, ChunkBytes: 64 << 10})
		},
	}
	for name, call := range tests {
		l, fake := newLVM(t, run.Step{})
		if err := call(t.Context(), l); !errors.Is(err, ErrInvalid) || len(fake.Calls()) != 0 {
			t.Errorf("%s: %v after %d commands", name, err, len(fake.Calls()))
		}
	}
}

// TestLVM_volumeErrors has what LVM 2.03.16 said on a kernel with device-mapper.
func TestLVM_volumeErrors(t *testing.T) {
	tests := map[string]error{
		`  Logical Volume "v1" already exists in volume group "vgq"`:                                                           ErrExists,
		`  Logical volume pool already exists in Volume group vgq.`:                                                            ErrExists,
		`  Volume group "vgq" has insufficient free space (1022 extents): 25600 required.`:                                     ErrNoSpace,
		`  Insufficient free space: 25550 extents needed, but only 972 available`:                                              ErrNoSpace,
		"  Volume group \"vgx\" not found\n  Cannot process volume group vgx":                                                  ErrNotFound,
		`  Failed to find logical volume "vgq/v1"`:                                                                             ErrNotFound,
		`  Logical volume v1 not found in volume group vgq.`:                                                                   ErrNotFound,
		`  Snapshot origin LV s9 not found in Volume group vgq.`:                                                               ErrNotFound,
		`  Pool poolx not found in Volume group vgq.`:                                                                          ErrNotFound,
		"  Volume vgq/v2 is not active locally (volume_list activation filter?).\n  Aborting. Failed to wipe start of new LV.": ErrNotFound,
		`  Logical volume vgq/v1 contains a filesystem in use.`:                                                                ErrInUse,
		`  Logical volume vgq/v1 in use.`:                                                                                      ErrInUse,
		"Do you really want to remove active logical volume vgq/v1? [y/n]: [n]\n  Logical volume vgq/v1 not removed.":          ErrInUse,
	}
	for stderr, want := range tests {
		l, _ := newLVM(t, run.Step{Result: run.Result{ExitCode: 5, Stderr: []byte(stderr)}})
		if err := l.CreateLV(t.Context(), owned, NewVolume{Name: "v", SizeBytes: 4 << 20}); !errors.Is(err, want) {
			t.Errorf("%q: %v", stderr, err)
		}
	}
}

func TestLVM_silenceIsNoSuccess(t *testing.T) {
	for name, call := range map[string]func(context.Context, *LVM) error{
		"remove a volume": func(ctx context.Context, l *LVM) error { return l.RemoveLV(ctx, owned, "v", volumeTag) },
		"remove a pool":   func(ctx context.Context, l *LVM) error { return l.RemovePool(ctx, owned, "v", volumeTag) },
		"take a tag off":  func(ctx context.Context, l *LVM) error { return l.RetagLV(ctx, owned, "v", volumeTag, "new", "") },
	} {
		l, _ := newLVM(t, run.Step{Result: run.Result{Stdout: []byte("  {\n  }\n")}})
		if err := call(t.Context(), l); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
