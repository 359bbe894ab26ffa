package iscsi

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/pkg/sharedlun"
)

const (
	iqn    = "iqn.2026-01.a:t"
	portal = "10.0.0.1:3260"
)

// node is a host in a directory.
type node struct {
	*testing.T
	dir    string
	serves bool
	// answers are those of iscsiadm, by the words that tell one call from another; calls are all.
	answers map[string]run.Result
	calls   []string
	dialed  error
	// lasts is true when a session is there after a login.
	lasts bool
	// place is where this iscsiadm has its records, below the root of iscsid.
	place string
}

func newNode(t *testing.T) (*node, *Host) {
	n := &node{T: t, dir: t.TempDir(), serves: true, answers: map[string]run.Result{}, place: "etc/iscsi"}
	for _, pid := range []string{"1", "50"} {
		n.link("net:[1]", "proc", pid, "ns/net")
		n.link("mnt:[1]", "proc", pid, "ns/mnt")
	}
	n.link("mnt:[2]", "proc/self/ns/mnt")
	n.file("iscsid\n", "proc/50/comm")
	n.file("## a comment\nInitiatorName=iqn.2026-01.a:n1\n", "proc/50/root/etc/iscsi/initiatorname.iscsi")
	n.file("", "sys/class/iscsi_transport/tcp/handle")
	h := New(Config{Runner: n, Sys: filepath.Join(n.dir, "sys"), Proc: filepath.Join(n.dir, "proc"), Dev: filepath.Join(n.dir, "dev"), NodeName: "n1", Dir: filepath.Join(n.dir, "own")})
	h.listens = func() (bool, error) { return n.serves, nil }
	h.probe = func(context.Context, string) error { return n.dialed }
	return n, h
}

func (n *node) path(parts ...string) string {
	n.Helper()
	path := filepath.Join(append([]string{n.dir}, parts...)...)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		n.Fatal(err)
	}
	return path
}

func (n *node) file(text string, parts ...string) {
	n.Helper()
	if err := os.WriteFile(n.path(parts...), []byte(text), 0o600); err != nil {
		n.Fatal(err)
	}
}

func (n *node) link(to string, parts ...string) {
	n.Helper()
	if err := os.Symlink(to, n.path(parts...)); err != nil {
		n.Fatal(err)
	}
}

// Run implements run.Runner.
func (n *node) Run(_ context.Context, cmd run.Command) (run.Result, error) {
	_, call, ok := strings.Cut(strings.Join(cmd.Argv(), " "), " -- ")
	if !ok {
		n.Errorf("unexpected: %q", cmd.Argv())
	}
	n.calls = append(n.calls, call)
	if strings.Contains(call, "--login") && n.lasts {
		n.file("", "dev/sdz")
		n.session("9", "10.0.0.1", "LOGGED_IN", [3]string{"0", "sdz", "serial"})
	}
	for words, res := range n.answers {
		if strings.Contains(call, words) {
			if res.ExitCode != 0 {
				return res, &run.Error{Argv: cmd.Argv(), ExitCode: res.ExitCode, Stderr: string(res.Stderr)}
			}
			return res, nil
		}
	}
	if strings.Contains(call, "-m node -T "+iqn) {
		return n.node(cmd, call)
	}
	return run.Result{}, nil
}

// record is a record as iscsiadm makes it.
const record = "node.name = x\nnode.startup = automatic\n# END RECORD\n"

// at is the path of the record of a target in a place.
func (n *node) at(place, iqn string) string {
	return filepath.Join(n.dir, "proc/50/root", place, "nodes", iqn, "10.0.0.1,3260,7/default")
}

// text is the record of the target in a place; empty when there is none.
func (n *node) text(place string) string {
	text, _ := os.ReadFile(n.at(place, iqn))
	return string(text)
}

// node does what iscsiadm does with the record of the target in its place: of one that is in another it knows nothing.
func (n *node) node(cmd run.Command, call string) (run.Result, error) {
	n.Helper()
	file := n.at(n.place, iqn)
	if strings.Contains(call, "-o new") {
		n.file(record, strings.TrimPrefix(file, n.dir))
		return run.Result{}, nil
	}
	text := n.text(n.place)
	if text == "" {
		return run.Result{}, &run.Error{Argv: cmd.Argv(), ExitCode: codeNoObjects}
	}
	if strings.Contains(call, "-o delete") {
		return run.Result{}, os.RemoveAll(filepath.Dir(filepath.Dir(file)))
	}
	return run.Result{Stdout: []byte(text)}, nil
}

// TestHost_served: the process that serves sessions is looked for once, as long as it is that one, and is looked for again after that.
func TestHost_served(t *testing.T) {
	n, h := newNode(t)
	serves := func(want int) {
		t.Helper()
		if pid, err := h.server(); pid != want || err != nil {
			t.Errorf("process %d serves, want %d; %v", pid, want, err)
		}
	}
	serves(50)
	n.link("net:[1]", "proc/40/ns/net")
	n.file("iscsid\n", "proc/40/comm")
	serves(50)
	// Its number is another program's by now.
	n.file("sh\n", "proc/50/comm")
	serves(40)
	if err := os.RemoveAll(n.path("proc/40")); err != nil {
		t.Fatal(err)
	}
	n.file("iscsid\n", "proc/50/comm")
	serves(50)
	// One in another network serves others.
	if err := os.Remove(n.path("proc/50/ns/net")); err != nil {
		t.Fatal(err)
	}
	n.link("net:[2]", "proc/50/ns/net")
	serves(1)
}

// session makes a session with a portal, and its disks as number, name and serial number.
func (n *node) session(id, address, state string, disks ...[3]string) {
	n.Helper()
	dir := "sys/class/iscsi_session/session" + id
	for name, text := range map[string]string{"targetname": iqn, "state": state, "ifacename": "default", "initiatorname": "iqn.2026-01.a:of-" + id} {
		n.file(text+"\n", dir, name)
	}
	connection := "sys/class/iscsi_connection/connection" + id + ":0"
	for name, text := range map[string]string{"persistent_address": address, "persistent_port": "3260", "state": "up"} {
		n.file(text+"\n", connection, name)
	}
	for _, d := range disks {
		scsi := filepath.Join(dir, "device/target"+id+":0:0", id+":0:0:"+d[0])
		for name, text := range map[string]string{
			"type": "0\n", "state": "running\n", "wwid": "naa." + d[2] + "\n", "vpd_pg80": "\x00\x80\x00\x04" + d[2], "block/" + d[1] + "/size": "2048\n",
			"block/" + d[1] + "/ro": "0\n",
		} {
			n.file(text, scsi, name)
		}
	}
}

func TestLuns(t *testing.T) { //nolint:gocyclo // one node, looked at in all its parts
	n, h := newNode(t)
	n.session("2", "10.0.0.2", "LOGGED_IN", [3]string{"0", "sdb", "aaaa"}, [3]string{"3", "sdd", "bbbb"})
	n.session("1", "10.0.0.1", "FAILED", [3]string{"0", "sda", "aaaa"})
	n.file("", "sys/block/sda/holders/dm-0")
	n.file("", "sys/block/sdb/holders/dm-0")
	n.file("mpath-3aaaa\n", "sys/block/dm-0/dm/uuid")
	sessions, err := h.Sessions(iqn)
	if err != nil || len(sessions) != 2 || sessions[0].Up || !sessions[1].Up || sessions[0].Message == "" {
		t.Fatalf("%+v, %v", sessions, err)
	}
	luns, err := h.Luns(sessions)
	if err != nil || len(luns) != 2 {
		t.Fatalf("%+v, %v", luns, err)
	}
	want := []sharedlun.Path{
		{Target: iqn, Portal: portal, Device: "sda", Session: 1, Map: "dm-0", Initiator: "iqn.2026-01.a:of-1"},
		{Target: iqn, Portal: "10.0.0.2:3260", Device: "sdb", Session: 2, Map: "dm-0", Up: true, Initiator: "iqn.2026-01.a:of-2"},
	}
	if l := luns[0]; l.Device != "dm-0" || l.Serial != "aaaa" || l.SizeBytes != 1<<20 || !slices.Equal(l.Paths, want) {
		t.Errorf("%+v", l)
	}
	if l := luns[1]; l.Device != "sdd" || l.Number != 3 || l.WWID != "naa.bbbb" {
		t.Errorf("%+v", l)
	}
	if other, err := h.Sessions("iqn.2026-01.a:other"); err != nil || len(other) != 0 {
		t.Errorf("%+v, %v", other, err)
	}
	// A fact that cannot be read is no fact.
	n.file("many", "sys/class/iscsi_session/session2/device/target2:0:0/2:0:0:0/block/sdb/size")
	if _, err := h.Luns(sessions); err == nil {
		t.Error("a size that cannot be read is one")
	}
}

func TestLogin(t *testing.T) {
	told := run.Result{Stdout: []byte("10.0.0.1:3260,7 " + iqn + "\n10.0.0.9:3260,1 iqn.2026-01.a:u\n")}
	secret := &sharedlun.Chap{Username: "u", Password: "s3cret", MutualUsername: "m", MutualPassword: "s4cret"}
	for name, c := range map[string]struct {
		answers map[string]run.Result
		dialed  error
		chap    *sharedlun.Chap
		reason  string
		calls   []string
	}{
		"at once":           {map[string]run.Result{"discovery": told}, nil, secret, "", []string{"discovery", portal + ",7 -o new", "--login"}},
		"ends at once":      {map[string]run.Result{"discovery": told}, nil, secret, sharedlun.ReasonTargetUnreachable, []string{"discovery", "-o new", "--login"}},
		"exists":            {map[string]run.Result{"discovery": told, "--login": {ExitCode: 15}}, nil, nil, "", []string{"discovery", "-o new", "--login"}},
		"discovery refused": {map[string]run.Result{"discovery": {ExitCode: 24}}, nil, nil, "", []string{"discovery", portal + " -o new", "--login"}},
		"no such target":    {map[string]run.Result{"discovery": {Stdout: []byte("10.0.0.1:3260,7 iqn.2026-01.a:u\n")}}, nil, nil, sharedlun.ReasonWrongTarget, []string{"discovery"}},
		"no target":         {map[string]run.Result{"discovery": {ExitCode: 21}}, nil, nil, sharedlun.ReasonWrongTarget, []string{"discovery"}},
		"nobody listens":    {nil, errors.New("refused"), nil, sharedlun.ReasonPortalUnreachable, nil},
		"wrong secret":      {map[string]run.Result{"discovery": told, "--login": {ExitCode: 24}}, nil, secret, sharedlun.ReasonWrongChap, []string{"discovery", "-o new", "--login"}},
		"no secret":         {map[string]run.Result{"discovery": told, "--login": {ExitCode: 24}}, nil, nil, sharedlun.ReasonWrongChap, []string{"discovery", "-o new", "--login"}},
		"target's secret":   {map[string]run.Result{"discovery": told, "--login": {ExitCode: 19}}, nil, secret, sharedlun.ReasonWrongChap, []string{"discovery", "-o new", "--login"}},
		"fatal":             {map[string]run.Result{"discovery": told, "--login": {ExitCode: 19}}, nil, nil, sharedlun.ReasonTargetUnreachable, []string{"discovery", "-o new", "--login"}},
		"no answer":         {map[string]run.Result{"discovery": told, "--login": {ExitCode: 8}}, nil, nil, sharedlun.ReasonTargetUnreachable, []string{"discovery", "-o new", "--login"}},
	} {
		t.Run(name, func(t *testing.T) {
			n, h := newNode(t)
			n.dialed, n.lasts, h.patience = c.dialed, name != "ends at once", 4*awaitPause
			if n.answers = c.answers; n.answers == nil {
				n.answers = map[string]run.Result{}
			}
			err := h.Login(t.Context(), iqn, portal, c.chap)
			var p *sharedlun.Problem
			if reason := ""; errors.As(err, &p) {
				reason = p.Reason
				if reason != c.reason || strings.Contains(p.Message, "cret ") || strings.Contains(p.Message, "s3cret") {
					t.Errorf("%v", err)
				}
			} else if err != nil || c.reason != "" {
				t.Errorf("%v, want %q", err, c.reason)
			}
			if len(n.calls) != len(c.calls) {
				t.Fatalf("calls %q, want %q", n.calls, c.calls)
			}
			for i, call := range n.calls {
				if !strings.Contains(call, c.calls[i]) || strings.Contains(call, "s3cret") {
					t.Errorf("call %q, want %q", call, c.calls[i])
				}
			}
		})
	}
}

// TestLogin_present: a session that is there gets its record, and new LUNs are looked for.
func TestLogin_present(t *testing.T) {
	n, h := newNode(t)
	n.session("4", "10.0.0.1", "LOGGED_IN")
	if err := h.Login(t.Context(), iqn, portal, &sharedlun.Chap{Username: "u", Password: "s3cret"}); err != nil {
		t.Fatal(err)
	}
	text, err := readRooted(filepath.Join(n.dir, "proc/50/root"), "etc/iscsi/nodes/"+iqn+"/10.0.0.1,3260,7/default")
	if err != nil || !strings.Contains(text, "node.session.auth.password = s3cret\n") || !strings.Contains(text, "node.startup = manual\n") {
		t.Errorf("%s, %v", text, err)
	}
	if len(n.calls) != 2 || !strings.Contains(n.calls[1], "-r 4 --rescan") {
		t.Errorf("%q", n.calls)
	}
	for name, want := range map[string]bool{iqn: true, iqn + "2": false} {
		if is, err := h.Recorded(t.Context(), name); err != nil || is != want {
			t.Errorf("records of %s: %v, %v", name, is, err)
		}
	}
	// That is a directory in which records are, and it cannot be read.
	other := filepath.Join(n.dir, "proc/50/root/etc/iscsi/nodes", iqn+"3")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if is, err := h.Recorded(t.Context(), iqn+"3"); err == nil {
		t.Errorf("a record that cannot be read: %v", is)
	}
}

func TestEdit(t *testing.T) {
	const made = "# BEGIN RECORD 2.1.8\nnode.name = x\nnode.startup = automatic\nnode.session.auth.authmethod = CHAP\nnode.session.auth.password_in = old\n" +
		"node.session.auth.chap_algs = SHA3-256\nnode.conn[0].timeo.login_timeout = 15\n# END RECORD\n"
	const head = "# BEGIN RECORD 2.1.8\nnode.name = x\nnode.session.auth.chap_algs = SHA3-256\nnode.startup = manual\nnode.conn[0].startup = manual\n" +
		"node.leading_login = No\nnode.session.initial_login_retry_max = 2\nnode.conn[0].timeo.login_timeout = 10\n"
	for name, c := range map[string]struct {
		chap *sharedlun.Chap
		want string
	}{
		"none":   {nil, "node.session.auth.authmethod = None\n"},
		"one":    {&sharedlun.Chap{Username: "u", Password: "p =#"}, "node.session.auth.authmethod = CHAP\nnode.session.auth.username = u\nnode.session.auth.password = p =#\n"},
		"mutual": {&sharedlun.Chap{Username: "u", Password: "p", MutualUsername: "v", MutualPassword: "q"}, "node.session.auth.authmethod = CHAP\nnode.session.auth.username = u\nnode.session.auth.password = p\nnode.session.auth.username_in = v\nnode.session.auth.password_in = q\n"},
	} {
		got := edit(made, c.chap)
		if want := head + c.want + "# END RECORD\n"; got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
		if again := edit(got, c.chap); again != got {
			t.Errorf("%s: again:\n%s", name, again)
		}
	}
}

func TestInitiator(t *testing.T) {
	n, h := newNode(t)
	got, err := h.Initiator(t.Context())
	if err != nil || got.Name != "iqn.2026-01.a:n1" || !got.OfHost || got.Problem != nil || got.Multipath {
		t.Errorf("%+v, %v", got, err)
	}
	n.file("0: 2 0 10000 1 1 5 @/org/kernel/linux/storage/multipathd\n", "proc/1/net/unix")
	n.serves = false
	if got, err = h.Initiator(t.Context()); err != nil || got.OfHost || !got.Multipath || got.Problem.Reason != sharedlun.ReasonNoTools {
		t.Errorf("%+v, %v", got, err)
	}
	n.serves = true
	n.answers["modprobe"] = run.Result{ExitCode: 1}
	if err := os.RemoveAll(n.path("sys/class/iscsi_transport/tcp")); err != nil {
		t.Fatal(err)
	}
	if got, err = h.Initiator(t.Context()); err != nil || got.Problem == nil || got.Problem.Reason != sharedlun.ReasonNoModules {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestForget(t *testing.T) {
	n, h := newNode(t)
	n.answers["-o delete"] = run.Result{ExitCode: codeNoObjects}
	if err := h.Forget(t.Context(), iqn); err != nil || len(n.calls) != 1 {
		t.Errorf("%v, %q", err, n.calls)
	}
	n.serves = false
	if err := h.Forget(t.Context(), iqn); err != nil || len(n.calls) != 1 {
		t.Errorf("%v, %q", err, n.calls)
	}
}

// readOnly is a root on a file system that is mounted for reading: it refuses to remove what is there and what is not.
type readOnly struct{ *os.Root }

func (readOnly) Remove(string) error { return unix.EROFS }

// TestRemove: what is not there needs no removal, also where nothing can be removed; what is there and stays is an error.
func TestRemove(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() }) // Nothing was written that matters.
	if err := root.WriteFile(draft, nil, modeOwner); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from eraser
		file string
		want error
	}{
		{readOnly{root}, "absent/" + draft, nil}, {readOnly{root}, draft + "2", nil}, {readOnly{root}, draft, unix.EROFS}, {root, draft, nil}, {root, draft, nil},
	} {
		if err := remove(c.from, c.file); !errors.Is(err, c.want) {
			t.Errorf("%s of %T: %v, want %v", c.file, c.from, err, c.want)
		}
	}
}

// TestForget_places: of a target, what iscsiadm has is removed, and what is ours in the place of another version. Neither of somebody else's in that place, nor of another target, anything changes,
// and such a record does not count.
func TestForget_places(t *testing.T) {
	ours := edit(record, &sharedlun.Chap{Username: "u", Password: "s3cret"})
	const here, there = "var/lib/iscsi", "etc/iscsi"
	for name, c := range map[string]struct {
		records map[string]string
		answers map[string]run.Result
		counts  bool
		broken  bool
		left    []string
	}{
		"none":                              {nil, nil, false, false, nil},
		"ours":                              {map[string]string{here: ours}, nil, true, false, nil},
		"cut off before it was ours":        {map[string]string{here: record}, nil, true, false, nil},
		"ours of another version":           {map[string]string{there: ours}, nil, true, false, nil},
		"ours of both":                      {map[string]string{here: ours, there: ours}, nil, true, false, nil},
		"somebody's of another version":     {map[string]string{there: record}, nil, false, false, []string{there}},
		"ours, and somebody's":              {map[string]string{here: ours, there: record}, nil, true, false, []string{there}},
		"iscsiadm does not say what it has": {map[string]string{there: record}, map[string]run.Result{"-m node": {ExitCode: 6}}, false, true, []string{there}},
	} {
		t.Run(name, func(t *testing.T) {
			n, h := newNode(t)
			n.place, n.answers = here, c.answers
			for place, text := range c.records {
				n.file(text, strings.TrimPrefix(n.at(place, iqn), n.dir))
			}
			n.file(ours, strings.TrimPrefix(n.at(there, iqn+"2"), n.dir))
			n.file(ours, "proc/50/root", there, draft)
			recorded := func(want bool) {
				t.Helper()
				if is, err := h.Recorded(t.Context(), iqn); is != want || (err != nil) != c.broken {
					t.Errorf("recorded: %v, %v", is, err)
				}
			}
			recorded(c.counts)
			for range 2 {
				if err := h.Forget(t.Context(), iqn); (err != nil) != c.broken {
					t.Fatal(err)
				}
			}
			recorded(false)
			for _, place := range []string{here, there} {
				_, err := os.Stat(filepath.Join(n.dir, "proc/50/root", place, "nodes", iqn))
				if left := slices.Contains(c.left, place); (err == nil) != left || left && n.text(place) != c.records[place] {
					t.Errorf("records in %s: %v", place, err)
				}
			}
			if _, err := os.Stat(filepath.Join(n.dir, "proc/50/root", there, draft)); (err == nil) != c.broken {
				t.Errorf("a record that was being written: %v", err)
			}
			if text, err := os.ReadFile(n.at(there, iqn+"2")); err != nil || string(text) != ours {
				t.Errorf("the record of another target: %s, %v", text, err)
			}
		})
	}
}

// TestLogin_upgraded: a record in the place of another version is none that iscsiadm has: it makes one, which gets the credentials. Somebody else's stays as it is.
func TestLogin_upgraded(t *testing.T) {
	for name, old := range map[string]string{"ours": edit(record, nil), "somebody's": record} {
		t.Run(name, func(t *testing.T) {
			n, h := newNode(t)
			n.place, n.lasts = "var/lib/iscsi", true
			n.answers["discovery"] = run.Result{Stdout: []byte("10.0.0.1:3260,7 " + iqn + "\n")}
			n.file(old, strings.TrimPrefix(n.at("etc/iscsi", iqn), n.dir))
			for range 2 {
				if err := h.Login(t.Context(), iqn, portal, &sharedlun.Chap{Username: "u", Password: "s3cret"}); err != nil {
					t.Fatal(err)
				}
			}
			made := slices.IndexFunc(n.calls, func(call string) bool { return strings.Contains(call, portal+",7 -o new") })
			if text := n.text(n.place); !strings.Contains(text, "password = s3cret") || made < 0 {
				t.Errorf("%s, %q", text, n.calls)
			}
			if text := n.text("etc/iscsi"); text != old && name != "ours" {
				t.Errorf("the old one: %s", text)
			}
		})
	}
}

// TestRecord_outside: a link out of the root of whoever serves sessions is not followed.
func TestRecord_outside(t *testing.T) {
	n, h := newNode(t)
	n.file("node.name = x\n", "outside/10.0.0.1,3260,7/default")
	n.link(filepath.Join(n.dir, "outside"), "proc/50/root/etc/iscsi/nodes", iqn)
	if _, _, err := h.portalRecords(iqn, portal); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if err := h.settle(iqn, portal, []string{"etc/iscsi/nodes/" + iqn + "/10.0.0.1,3260,7/default"}, nil); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
