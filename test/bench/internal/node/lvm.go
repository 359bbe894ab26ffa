package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// lvmBinary is the one LVM of all contenders.
const lvmBinary = "/usr/sbin/lvm"

// reportTime is what the agent reads times in. It is added to Debian's configuration for the agent's sake.
const reportTime = "\nreport {\n\ttime_format=\"%s\"\n}\n"

// lvm runs bare LVM commands.
type lvm struct {
	// dir is the directory of the configuration; Debian's own when it is empty.
	dir string
	// devices are all that the commands see; everything on the node when it is empty.
	devices []string
}

func (l lvm) run(ctx context.Context, command string, args ...string) error {
	argv := []string{command}
	for _, d := range l.devices {
		argv = append(argv, "--devices", d)
	}
	cmd := exec.CommandContext(ctx, lvmBinary, append(argv, args...)...)
	cmd.Env = append([]string{"LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, l.env()...)
	cmd.Dir = "/"
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("lvm %s: %w: %s", strings.Join(cmd.Args[1:], " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (l lvm) env() []string {
	env := []string{"LVM_SUPPRESS_FD_WARNINGS=1"}
	if l.dir != "" {
		env = append(env, "LVM_SYSTEM_DIR="+l.dir)
	}
	return env
}

// useDebian replaces the configuration in a directory by the one that Debian installs.
func useDebian(dir string) error {
	text, err := os.ReadFile("/etc/lvm/lvm.conf")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "lvm.conf"), append(text, reportTime...), 0o600)
}

// copyPrivate makes a directory with the agent's configuration, narrowed to one device: what the agent does with --devices.
func copyPrivate(from, to, device string) error {
	text, err := os.ReadFile(filepath.Join(from, "lvm.conf"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	const section = "\ndevices {\n"
	narrow := strings.Replace(string(text), section, section+fmt.Sprintf("\tfilter=[ \"a|^%s$|\", \"r|.*|\" ]\n", device), 1)
	narrow = strings.ReplaceAll(narrow, `"`+from+"/", `"`+to+"/")
	if narrow == string(text) {
		return fmt.Errorf("the agent's configuration in %s has no section for devices", from)
	}
	return os.WriteFile(filepath.Join(to, "lvm.conf"), []byte(narrow), 0o600)
}
