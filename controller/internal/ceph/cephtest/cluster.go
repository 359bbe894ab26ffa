// Package cephtest is a Ceph cluster for tests: a small model that understands the commands that package ceph runs, and no other. What it prints has no
// field that a real Ceph does not print; a test of package ceph holds it to recorded answers.
package cephtest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"quarry.storage/quarry/controller/internal/ceph"
)

// Version is that of the Ceph whose answers were recorded.
const Version = "20.2.4"

// OSD is one of the cluster.
type OSD struct {
	ID     int
	UUID   string
	Host   string
	Up, In bool
	New    bool
	// Destroyed: somebody ran "osd destroy", which leaves the number, and no UUID.
	Destroyed bool
	// AutoOut: the monitors marked it out by themselves.
	AutoOut  bool
	KB, Used int64
	// Holds: placement groups have copies on it, which Ceph knows of one that is up. Needed: some would have too few without it.
	Holds, Needed bool
}

// Start has the daemon of an OSD run on a host. One that the monitors marked out by themselves is in again.
func (o *OSD) Start(host string, bytes int64) {
	o.Up, o.New, o.Host, o.Holds, o.KB = true, false, host, true, bytes>>10
	if o.AutoOut {
		o.In, o.AutoOut = true, false
	}
}

// Pool is one of the cluster.
type Pool struct {
	Name          string
	Size, MinSize int
	Bulk          bool
	// Groups is how many placement groups it has, and Scale who chooses that.
	Groups int
	Scale  string
	// Domain is osd for one whose copies may share a host.
	Domain string
}

// Cluster is the model. Its fields may be changed between two commands.
type Cluster struct {
	FSID string
	// Monitors of the map, and whether each is in the quorum.
	Monitors map[string]bool
	// Addresses of monitors, where anybody asks for them.
	Addresses map[string]string
	// Managers and Servers (of metadata): the first serves, the others stand by.
	Managers, Servers []string
	OSDs              []OSD
	Pools             []Pool
	// Hosts of the CRUSH map.
	Hosts []string
	Flags []string
	NoOut map[string]bool
	// Groups are placement groups by their state.
	Groups                          map[string]int
	Degraded, Misplaced, Recovering int64
	Release                         string
	// Versions of daemons that run another one than Version, by kind, a dot, and name.
	Versions map[string]string
	Health   string
	// Options that were set, by whom they are for, a dot, and the name.
	Options map[string]string
	// Single: the size of a pool may become one.
	Single bool
	// Volumes is the filesystem; nil in a cluster without one.
	Volumes *Volumes
	// Users by entity, whether keys of kind aes may be made, and the addresses on the blocklist.
	Users   map[string]User
	AES     bool
	Blocked []string
	// Modules that were switched on, and those that no manager has.
	Modules map[string]bool
	Lacks   []string
	// Starting: the active manager knows no command of its modules yet.
	Starting  bool
	Dashboard Dashboard
	// Fail is called before each command; an error of it is that of the Runner.
	Fail func(args []string) error

	mu    sync.Mutex
	t     testing.TB
	calls [][]string
	// input is what the command reads that is performed.
	input []byte
}

var _ ceph.Runner = &Cluster{}

// New makes a cluster with three monitors, two managers, no pool, and an OSD on each of the hosts.
func New(t testing.TB, fsid string, hosts ...string) *Cluster {
	c := &Cluster{
		t: t, FSID: fsid, Monitors: map[string]bool{"a": true, "b": true, "c": true}, Managers: []string{"x", "y"}, NoOut: map[string]bool{},
		Groups: map[string]int{"active+clean": 1}, Release: "tentacle", Health: "HEALTH_OK",
	}
	for i, h := range hosts {
		c.OSDs = append(c.OSDs, OSD{ID: i, UUID: UUID(i), Host: h, Up: true, In: true, KB: 2 << 20, Used: 27 << 10, Holds: true})
		c.Hosts = append(c.Hosts, h)
	}
	return c
}

// UUID is that of the OSD with a number in clusters that New makes.
func UUID(id int) string { return fmt.Sprintf("aaaaaaaa-bbbb-5ccc-8ddd-%012d", id) }

// Changes returns the commands so far that change something, each on one line.
func (c *Cluster) Changes() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, call := range c.calls {
		if line := strings.Join(call, " "); !reads(line) {
			out = append(out, line)
		}
	}
	return out
}

// Run runs a command. One that the model does not know fails the test.
func (c *Cluster) Run(ctx context.Context, cmd ceph.Command) (ceph.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	args := cmd.Args
	if _, ok := ctx.Deadline(); !ok {
		c.t.Errorf("ceph %q: its context has no deadline", args)
	}
	if c.Fail != nil {
		if err := c.Fail(args); err != nil {
			return ceph.Result{}, err
		}
	}
	if !c.hasQuorum() {
		return ceph.Result{}, fmt.Errorf("%w: connect: %w", ceph.ErrUnreachable, syscall.ETIMEDOUT)
	}
	if c.silent(strings.Join(args, " ")) {
		// The real one waits.
		<-ctx.Done()
		return ceph.Result{}, ctx.Err()
	}
	c.secret(args, cmd.Input)
	c.calls, c.input = append(c.calls, args), cmd.Input
	answer, errno, said := c.do(args)
	if errno != 0 {
		return ceph.Result{ExitCode: errno, Stderr: []byte(said + "\n")}, nil
	}
	out := []byte("\n")
	if answer != nil {
		b, err := json.Marshal(answer)
		if err != nil {
			return ceph.Result{}, err
		}
		out = append(out, b...)
	}
	return ceph.Result{Stdout: out, Stderr: []byte(said)}, nil
}

// silent reports whether nobody is there who would perform a command.
func (c *Cluster) silent(line string) bool {
	return byManager(line) && len(c.Managers) == 0 || byServer(line) && len(c.Servers) == 0
}

func (c *Cluster) hasQuorum() bool {
	in := 0
	for _, up := range c.Monitors {
		if up {
			in++
		}
	}
	return in > len(c.Monitors)/2
}

// do performs a command: a read if there is an answer, else a change.
func (c *Cluster) do(args []string) (answer any, errno int, said string) {
	line := strings.Join(args, " ")
	if read, ok := c.reads()[line]; ok {
		return read(), 0, ""
	}
	acts := c.acts()
	if c.Volumes != nil {
		maps.Copy(acts, c.volumeActs())
	}
	for prefix, act := range acts {
		if rest, ok := strings.CutPrefix(line+" ", prefix+" "); ok {
			return act(strings.Fields(rest))
		}
	}
	c.t.Errorf("ceph %s: the model does not know the command", line)
	return nil, 22, "Error EINVAL: invalid command"
}

// byManager reports whether the manager performs a command.
func byManager(line string) bool {
	return line == "osd df" || strings.HasPrefix(line, "dashboard ") || byServer(line) || strings.HasPrefix(line, "osd purge") || strings.HasPrefix(line, "osd safe-to-destroy") || strings.HasPrefix(line, "osd ok-to-stop")
}

// byServer reports whether the manager works on the filesystem to perform a command: without a metadata server it waits.
func byServer(line string) bool {
	return strings.HasPrefix(line, "fs subvolume") || strings.HasPrefix(line, "fs clone")
}

// reads reports whether a command changes nothing.
func reads(line string) bool {
	words := strings.Fields(line)
	last := words[len(words)-1]
	if byServer(line) || words[0] == "osd" && last == "ls" {
		return slices.ContainsFunc(words[2:min(len(words), 4)], func(w string) bool { return w == "ls" || w == "info" || w == "status" })
	}
	return strings.HasPrefix(line, "osd safe-to-destroy") || strings.HasPrefix(line, "osd ok-to-stop") || last == "df" || slices.Contains([]string{"quorum_status", "status", "dump", "tree", "metadata", "ac-user-show"}, last) || strings.HasPrefix(line, "config-key exists") || strings.HasPrefix(line, "mon ok-to-rm")
}

func (c *Cluster) find(id string) *OSD {
	for i := range c.OSDs {
		if fmt.Sprint(c.OSDs[i].ID) == id {
			return &c.OSDs[i]
		}
	}
	return nil
}
