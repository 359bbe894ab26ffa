package image

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"quarry.storage/quarry/test/lab/internal/build"
	"quarry.storage/quarry/test/lab/internal/cache"
	"quarry.storage/quarry/test/lab/internal/spec"
)

const (
	// Busybox is the small image tests run shells in.
	Busybox = "docker.io/library/busybox:stable"

	busyboxProgram = "/bin/busybox"
	archiveName    = "image.tar"
)

// EnsurePause gives the archive of the sandbox image.
func EnsurePause(ctx context.Context) (string, error) {
	checkout, err := build.Checkout()
	if err != nil {
		return "", err
	}
	source, err := os.ReadFile(filepath.Join(checkout, "test", "lab", "pause", "main.go"))
	if err != nil {
		return "", err
	}
	dir, err := cache.Ensure("image-pause-"+revision+"-"+cache.Hash(string(source)), func(dir string) error {
		if err := build.GoProgram(ctx, checkout, "./test/lab/pause", dir); err != nil {
			return err
		}
		program, err := os.ReadFile(filepath.Join(dir, "pause"))
		if err != nil {
			return err
		}
		a := archive{Name: spec.PauseImage, Config: config{Entrypoint: []string{"/pause"}, User: "65535:65535"}}
		return a.compose(dir, func(l layerWriter) error { return l.file("pause", 0o755, program) })
	})
	return filepath.Join(dir, archiveName), err
}

// EnsureBusybox gives the archive of the busybox image, made of Debian's
// static busybox.
func EnsureBusybox(ctx context.Context) (string, error) {
	hash, err := cache.HashFiles(busyboxProgram)
	if err != nil {
		return "", fmt.Errorf("busybox is not installed, run `lab deps`: %w", err)
	}
	dir, err := cache.Ensure("image-busybox-"+revision+"-"+hash, func(dir string) error {
		program, err := os.ReadFile(busyboxProgram)
		if err != nil {
			return err
		}
		applets, err := exec.CommandContext(ctx, busyboxProgram, "--list").Output()
		if err != nil {
			return fmt.Errorf("list the applets of busybox: %w", err)
		}
		a := archive{Name: Busybox, Config: config{
			Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
			Cmd: []string{"sh"},
		}}
		return a.compose(dir, func(l layerWriter) error { return busyboxLayer(l, program, strings.Fields(string(applets))) })
	})
	return filepath.Join(dir, archiveName), err
}

func busyboxLayer(l layerWriter, program []byte, applets []string) error {
	for _, d := range []struct {
		name string
		mode int64
	}{{"bin", 0o755}, {"etc", 0o755}, {"root", 0o700}, {"tmp", 0o1777}, {"usr", 0o755}, {"usr/bin", 0o755}, {"var", 0o755}} {
		if err := l.dir(d.name, d.mode); err != nil {
			return err
		}
	}
	if err := l.file("etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")); err != nil {
		return err
	}
	if err := l.file("etc/group", 0o644, []byte("root:x:0:\nnogroup:x:65534:\n")); err != nil {
		return err
	}
	if err := l.file("bin/busybox", 0o755, program); err != nil {
		return err
	}
	for _, applet := range applets {
		if applet == "busybox" {
			continue
		}
		if err := l.link("bin/"+applet, "busybox"); err != nil {
			return err
		}
	}
	return nil
}

// compose makes the archive in a directory from a layer put together by fill.
func (a archive) compose(dir string, fill func(layerWriter) error) error {
	layer := filepath.Join(dir, "layer.tar")
	if err := writeLayer(layer, fill); err != nil {
		return err
	}
	if err := a.write(filepath.Join(dir, archiveName), layer); err != nil {
		return err
	}
	return os.Remove(layer)
}
