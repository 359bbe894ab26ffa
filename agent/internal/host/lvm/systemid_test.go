package lvm

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"quarry.storage/quarry/agent/internal/host/run"
)

func newHost(t *testing.T, steps ...run.Step) (*LVM, *run.Fake) {
	t.Helper()
	fake := run.NewFake(steps...)
	l, err := New(Config{Runner: fake, Dir: filepath.Join(t.TempDir(), "lvm"), SystemID: "quarry-n1"})
	must(t, err)
	return l, fake
}

func says(id string) run.Step {
	return run.Step{
		Argv:   []string{DefaultBinary, "systemid", "--driverloaded", "n"},
		Result: run.Result{Stdout: []byte("  system ID: " + id + "\n")},
	}
}

// TestLVM_knowsItsHost: no command runs before LVM has said that it knows the host by its ID, and it is asked until it has, then no more.
func TestLVM_knowsItsHost(t *testing.T) {
	l, fake := newHost(t, says(""), says("quarry-n"), run.Step{Result: run.Result{ExitCode: 5}}, run.Step{}, says("quarry-n1"), run.Step{}, run.Step{})
	for name, call := range map[string]func() error{
		"report": func() error { _, _, err := l.Report(t.Context(), []string{"/dev/a"}); return err },
		"remove": func() error { return l.RemoveVG(t.Context(), "g", []string{"/dev/a"}) },
	} {
		if err := call(); !errors.Is(err, ErrSystemID) || !strings.Contains(err.Error(), "quarry-n1") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := l.RemoveVG(t.Context(), "g", []string{"/dev/a"}); err == nil {
		t.Error("removed while LVM could not be asked")
	}
	if _, err := l.Version(t.Context()); !errors.Is(err, ErrSystemID) {
		t.Errorf("version without an ID: %v", err)
	}
	for range 2 {
		must(t, l.RemoveVG(t.Context(), "g", []string{"/dev/a"}))
	}
	if calls := fake.Calls(); fake.Left() != 0 || len(calls) != 7 || calls[6].Args[0] != "vgremove" {
		t.Errorf("%d calls: %+v", len(calls), calls)
	}
}

// TestLVM_TakeOverVG: whose a group is, and whose it was, is written at once.
func TestLVM_TakeOverVG(t *testing.T) {
	l, fake := newHost(t, says("quarry-n1"), run.Step{})
	must(t, l.TakeOverVG(t.Context(), "g", "uid-a", "uid-b", []string{"/dev/a", "/dev/b"}))
	const want = "vgchange --devices /dev/a --devices /dev/b --deltag quarry.storage/cluster=uid-a --addtag quarry.storage/cluster=uid-b " +
		"--addtag quarry.storage/owner-before=uid-a g"
	calls := fake.Calls()
	if got := strings.Join(calls[len(calls)-1].Args, " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, owner := range []string{"a b", "a,b", "a\n", `a"`, strings.Repeat("a", 1024)} {
		for _, err := range []error{
			l.TakeOverVG(t.Context(), "g", owner, "uid-b", []string{"/dev/a"}), l.TakeOverVG(t.Context(), "g", "uid-a", owner, []string{"/dev/a"}),
		} {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("owner %.20q: %v", owner, err)
			}
		}
	}
	if n := len(fake.Calls()); n != len(calls) {
		t.Errorf("%d commands more", n-len(calls))
	}
}

func TestLVM_systemIDOfAGroup(t *testing.T) {
	l, fake := newHost(t, says("quarry-n1"), run.Step{}, run.Step{})
	must(t, l.StampVG(t.Context(), "g", []string{"/dev/a", "/dev/b"}), l.ImportVG(t.Context(), "g", "quarry-n2", []string{"/dev/a"}))
	for i, want := range []string{
		"vgchange --devices /dev/a --devices /dev/b --systemid quarry-n1 g",
		`vgchange --devices /dev/a --config local/extra_system_ids=["quarry-n2"] --systemid quarry-n1 g`,
	} {
		if got := strings.Join(fake.Calls()[i+1].Args, " "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for _, from := range []string{"", "-x", `a"]`, "a b", strings.Repeat("a", 129)} {
		if err := l.ImportVG(t.Context(), "g", from, []string{"/dev/a"}); !errors.Is(err, ErrInvalid) {
			t.Errorf("imported from %q: %v", from, err)
		}
	}
	nobody, none := newLVM(t)
	if err := nobody.StampVG(t.Context(), "g", []string{"/dev/a"}); !errors.Is(err, ErrInvalid) || len(none.Calls()) != 0 {
		t.Errorf("a host without an ID stamped a group: %v", err)
	}
}

// TestLVM_systemIDErrors: what LVM 2.03.16 writes.
func TestLVM_systemIDErrors(t *testing.T) {
	for stderr, want := range map[string]error{
		"  Cannot access VG g with system ID quarry-n2 with local system ID quarry-n1.": ErrForeign,
		"  Cannot access VG g with system ID quarry-n2 with unknown local system ID.":   ErrForeign,
		"  Volume Group system ID is already \"quarry-n1\".":                            ErrExists,
	} {
		l, _ := newLVM(t, run.Step{Result: run.Result{ExitCode: 5, Stderr: []byte(stderr)}})
		if err := l.RemoveVG(t.Context(), "g", []string{"/dev/a"}); !errors.Is(err, want) {
			t.Errorf("%q: %v", stderr, err)
		}
	}
}

func TestParseReport_systemID(t *testing.T) {
	vgs, _, err := parseReport(recorded(t, "report-duplicate.json"))
	must(t, err)
	if vgs[0].SystemID+vgs[1].SystemID != "quarry-n2" {
		t.Errorf("%+v", vgs)
	}
	without := strings.ReplaceAll(string(recorded(t, "report.json")), `, "vg_systemid":""`, "")
	if _, _, err := parseReport([]byte(without)); err == nil {
		t.Error("a report that does not say whose the group is was accepted")
	}
}

// TestLVM_autoactivation: LVM before 2.03.12 knows neither the option nor the column. It has done nothing when it says so, and is not asked again.
func TestLVM_autoactivation(t *testing.T) {
	document := strings.Replace(string(recorded(t, "report.json")), `"vg_name":"quarry-a"`, `"vg_autoactivation":"1", "vg_name":"quarry-a"`, 1)
	refused := func(text string, code int) run.Step {
		return run.Step{Result: run.Result{ExitCode: code, Stderr: []byte("  Volume Group Fields\n" + text)}}
	}
	told := func(doc string) run.Step { return run.Step{Result: run.Result{Stdout: []byte(doc)}} }
	has := func(cmd run.Command, text string) bool { return strings.Contains(strings.Join(cmd.Args, " "), text) }

	l, fake := newLVM(t, told(document), run.Step{}, refused("  Volume group autoactivation is already no.", 5), refused("  No space left.", 5))
	vgs, _, err := l.Report(t.Context(), []string{"/dev/a"})
	must(t, err)
	if !vgs[0].Autoactivated {
		t.Errorf("%+v", vgs[0])
	}
	must(t, l.StopAutoactivation(t.Context(), "g", []string{"/dev/a"}), l.StopAutoactivation(t.Context(), "g", []string{"/dev/a"}))
	if got := strings.Join(fake.Calls()[1].Args, " "); got != "vgchange --devices /dev/a --setautoactivation n g" {
		t.Error(got)
	}
	if err := l.StopAutoactivation(t.Context(), "g", []string{"/dev/a"}); err == nil {
		t.Error("a failure is told as success")
	}
	if err := l.StopAutoactivation(t.Context(), "-g", []string{"/dev/a"}); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}

	older, fake := newLVM(t, refused("  Unrecognised field: vg_autoactivation", 5), told(string(recorded(t, "report.json"))), run.Step{})
	vgs, _, err = older.Report(t.Context(), []string{"/dev/a"})
	must(t, err, older.CreateVG(t.Context(), "g", nil, []string{"/dev/a"}))
	if calls := fake.Calls(); vgs[0].Autoactivated || !has(calls[0], "vg_autoactivation") || has(calls[1], "vg_autoactivation") || has(calls[2], "autoactivation") {
		t.Errorf("%+v", calls)
	}
	older, fake = newLVM(t, refused("vgcreate: unrecognized option '--setautoactivation'", 3), run.Step{})
	must(t, older.CreateVG(t.Context(), "g", nil, []string{"/dev/a"}))
	if calls := fake.Calls(); !has(calls[0], "--setautoactivation n") || has(calls[1], "autoactivation") {
		t.Errorf("%+v", calls)
	}
}
