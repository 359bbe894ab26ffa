package debian

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Archive is where the machine gets Debian's packages from.
type Archive struct {
	URI        string
	Components []string
	// Keyring is the file its signatures are checked with.
	Keyring string
}

// keyring is Debian's own; it knows later releases too.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// Archives reads the machine's apt sources and gives its archive of Debian and
// its archive of security updates, which may be missing.
func Archives() (main, security Archive, err error) {
	files, err := filepath.Glob("/etc/apt/sources.list.d/*")
	if err != nil {
		return main, security, err
	}
	var found []source
	for _, path := range append(files, "/etc/apt/sources.list") {
		b, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return main, security, err
		}
		if strings.HasSuffix(path, ".sources") {
			found = append(found, parseDeb822(string(b))...)
		} else if strings.HasSuffix(path, ".list") {
			found = append(found, parseOneLine(string(b))...)
		}
	}
	release, err := codename()
	if err != nil {
		return main, security, err
	}
	for _, s := range found {
		archive := Archive{URI: s.uri, Components: s.components, Keyring: keyring}
		if slices.Contains(s.suites, release) && main.URI == "" {
			main = archive
		}
		if slices.Contains(s.suites, release+"-security") && security.URI == "" {
			security = archive
		}
	}
	if main.URI == "" {
		return main, security, fmt.Errorf("the machine's apt sources have no archive for its own release %s", release)
	}
	return main, security, nil
}

// codename is the name of the machine's own release.
func codename() (string, error) {
	b, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "VERSION_CODENAME="); ok {
			return strings.Trim(name, `"`), nil
		}
	}
	return "", errors.New("/etc/os-release names no release")
}

// source is one entry of apt's sources.
type source struct {
	uri        string
	suites     []string
	components []string
}

// parseDeb822 reads sources in paragraphs of fields.
func parseDeb822(text string) []source {
	var sources []source
	for paragraph := range strings.SplitSeq(text+"\n", "\n\n") {
		fields := map[string][]string{}
		lines := bufio.NewScanner(strings.NewReader(paragraph))
		for lines.Scan() {
			key, value, ok := strings.Cut(lines.Text(), ":")
			if ok && !strings.HasPrefix(key, "#") {
				fields[strings.ToLower(key)] = strings.Fields(value)
			}
		}
		if !slices.Contains(fields["types"], "deb") {
			continue
		}
		for _, uri := range fields["uris"] {
			sources = append(sources, source{uri: uri, suites: fields["suites"], components: fields["components"]})
		}
	}
	return sources
}

// parseOneLine reads sources of one line each.
func parseOneLine(text string) []source {
	var sources []source
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "deb" {
			continue
		}
		words = words[1:]
		if len(words) > 0 && strings.HasPrefix(words[0], "[") {
			end := slices.IndexFunc(words, func(w string) bool { return strings.HasSuffix(w, "]") })
			words = words[end+1:]
		}
		if len(words) >= 3 {
			sources = append(sources, source{uri: words[0], suites: words[1:2], components: words[2:]})
		}
	}
	return sources
}

// Bootstrap makes a minimal root file system of a release as a tar file. Its
// apt sources are the machine's archives.
func Bootstrap(ctx context.Context, release, tarFile, log string) error {
	main, security, err := Archives()
	if err != nil {
		return err
	}
	args := []string{
		"--variant=minbase", "--mode=root",
		// A mirror may keep a release that moves as it was on some day: its list is signed, and past its date. The option stays in the image.
		`--aptopt=Acquire::Check-Valid-Until "false"`,
		release, tarFile, sourceLine(main, release),
	}
	if security.URI != "" {
		args = append(args, sourceLine(security, release+"-security"))
	}
	out, err := os.Create(log)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.CommandContext(ctx, "mmdebstrap", args...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("mmdebstrap %s: %w; its output is in %s", release, err, log)
	}
	return nil
}
