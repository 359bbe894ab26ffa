package debian

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Unpack puts the files of another release's packages below a directory. The
// machine's own packages and apt's state stay as they are; signatures are
// checked. Nothing of the packages is run.
func Unpack(ctx context.Context, release, dir string, packages ...string) error {
	main, _, err := Archives()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "quarry-apt-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.MkdirAll(filepath.Join(work, "lists", "partial"), 0o755); err != nil {
		return err
	}
	sources := filepath.Join(work, "sources.list")
	if err := os.WriteFile(sources, []byte(sourceLine(main, release)+"\n"), 0o644); err != nil {
		return err
	}
	options := []string{
		"-q", "-o", "Dir::Etc::SourceList=" + sources, "-o", "Dir::Etc::SourceParts=/dev/null",
		"-o", "Dir::State::Lists=" + filepath.Join(work, "lists"), "-o", "Dir::Cache=" + work,
		"-o", "Acquire::Languages=none",
		// The directory is root's own.
		"-o", "APT::Sandbox::User=root",
	}
	for _, args := range [][]string{{"update"}, append([]string{"download"}, packages...)} {
		if err := runIn(ctx, work, "apt-get", append(options, args...)...); err != nil {
			return err
		}
	}
	archives, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil {
		return err
	}
	for _, archive := range archives {
		if err := runIn(ctx, work, "dpkg-deb", "--extract", archive, dir); err != nil {
			return err
		}
	}
	return nil
}

// sourceLine is an archive's release as one line of apt's sources.
func sourceLine(a Archive, suite string) string {
	return fmt.Sprintf("deb [signed-by=%s] %s %s main", a.Keyring, a.URI, suite)
}

func runIn(ctx context.Context, dir, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, bytes.TrimSpace(out))
	}
	return nil
}
