package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"quarry.storage/quarry/test/lab/internal/cache"
	"quarry.storage/quarry/test/lab/internal/debian"
	"quarry.storage/quarry/test/lab/internal/progress"
)

const (
	trixieSlim = "docker.io/library/debian:trixie-slim"
	// forkySlim is Debian's next release, which moves: what is built on it is as new as the cache.
	forkySlim  = "docker.io/library/debian:forky-slim"
	distroless = "gcr.io/distroless/static-debian12:nonroot"
)

// bases are the images a Dockerfile may be based on, each with the function
// that gives its archive.
var bases = map[string]func(context.Context, *progress.Reporter) (string, error){
	trixieSlim: func(ctx context.Context, report *progress.Reporter) (string, error) {
		return ensureDebian(ctx, report, trixieSlim, "trixie")
	},
	forkySlim: func(ctx context.Context, report *progress.Reporter) (string, error) {
		return ensureDebian(ctx, report, forkySlim, "forky")
	},
	distroless: ensureDistroless,
}

// standardPath is the search path images of this kind set.
const standardPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// debianKey is where the bootstrapped Debian of a release is in the cache.
func debianKey(release string) string { return "image-debian-" + release + "-" + revision }

// ensureDebian bootstraps a release of Debian from the machine's own package archive.
func ensureDebian(ctx context.Context, report *progress.Reporter, name, release string) (string, error) {
	dir, err := cache.Ensure(debianKey(release), func(dir string) error {
		stop := report.While("bootstrapping %s", name)
		defer stop()
		layer := filepath.Join(dir, "layer.tar")
		log := filepath.Join(os.TempDir(), "quarry-lab-bootstrap-"+release+".log")
		if err := debian.Bootstrap(ctx, release, layer, log); err != nil {
			return err
		}
		a := archive{Name: name, Config: config{Env: []string{standardPath}, Cmd: []string{"bash"}}}
		if err := a.write(filepath.Join(dir, archiveName), layer); err != nil {
			return err
		}
		return os.Remove(layer)
	})
	return filepath.Join(dir, archiveName), err
}

// CachedBases lists the archives of big base images that were made before, and that every lab needs.
func CachedBases() []string {
	dir, ok := cache.Find(debianKey("trixie"))
	if !ok {
		return nil
	}
	return []string{filepath.Join(dir, archiveName)}
}

const certificates = "/etc/ssl/certs/ca-certificates.crt"

// ensureDistroless puts the equivalent of the distroless base together: no
// programs, an unprivileged user, certificates and time zones.
func ensureDistroless(_ context.Context, _ *progress.Reporter) (string, error) {
	hash, err := cache.HashFiles(certificates)
	if err != nil {
		return "", fmt.Errorf("certificates are not installed, run `lab deps`: %w", err)
	}
	dir, err := cache.Ensure("image-distroless-"+revision+"-"+hash, func(dir string) error {
		a := archive{Name: distroless, Config: config{
			Env:  []string{standardPath, "SSL_CERT_FILE=" + certificates},
			User: "65532", WorkingDir: "/home/nonroot",
		}}
		return a.compose(dir, distrolessLayer)
	})
	return filepath.Join(dir, archiveName), err
}

func distrolessLayer(l layerWriter) error {
	var errs []error
	for _, d := range []struct {
		name string
		mode int64
	}{{"etc", 0o755}, {"etc/ssl", 0o755}, {"etc/ssl/certs", 0o755}, {"home", 0o755}, {"home/nonroot", 0o755}, {"root", 0o700}, {"tmp", 0o1777}, {"usr", 0o755}, {"usr/share", 0o755}, {"var", 0o755}, {"var/run", 0o755}} {
		errs = append(errs, l.dir(d.name, d.mode))
	}
	bundle, err := os.ReadFile(certificates)
	errs = append(errs, err,
		l.file("etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n")),
		l.file("etc/group", 0o644, []byte("root:x:0:\nnobody:x:65534:\ntty:x:5:\nstaff:x:50:\nnonroot:x:65532:\n")),
		l.file("etc/nsswitch.conf", 0o644, []byte("hosts: files dns\n")),
		l.file(strings.TrimPrefix(certificates, "/"), 0o644, bundle),
		l.tree("/usr/share/zoneinfo"),
	)
	return errors.Join(errs...)
}

// tree copies a directory of the machine into the layer, at the same path.
func (l layerWriter) tree(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, "/")
		switch {
		case entry.IsDir():
			return l.dir(name, 0o755)
		case entry.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return l.link(name, target)
		default:
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return l.file(name, 0o644, content)
		}
	})
}
