package newest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func state(change int64) State { return State{Name: "vg", Change: change} }

func TestRecord_newest(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "newest")
	for _, step := range []struct {
		what     string
		was, now State
		want     State
	}{
		{"the first state", State{}, state(4), state(4)},
		{"a newer one", state(4), state(7), state(7)},
		{"an earlier one of a report that began before the newer one was noted", state(4), state(5), state(7)},
		{"an earlier one that a person put back", state(7), state(6), state(6)},
		{"another name", state(6), State{Name: "other", Change: 7}, State{Name: "other", Change: 7}},
		{"it lacks a device", State{}, State{Name: "vg", Change: 7, Lacked: true}, State{Name: "vg", Change: 7, Lacked: true}},
		{"it is whole again", State{}, state(7), state(7)},
	} {
		// An agent that starts anew knows the same.
		if err := New(dir).Note("uuid", step.was, step.now); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		known, err := New(dir).Known()
		if diff := cmp.Diff(map[string]State{"uuid": step.want}, known); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", step.what, err, diff)
		}
	}
	r := New(dir)
	if err := r.Note("second", State{}, state(1)); err != nil {
		t.Fatal(err)
	}
	if err := r.Forget("uuid"); err != nil {
		t.Fatal(err)
	}
	known, err := r.Known()
	if diff := cmp.Diff(map[string]State{"second": state(1)}, known); diff != "" || err != nil {
		t.Errorf("after one was forgotten: %v\n%s", err, diff)
	}
}

// TestRecord_unreadable: what is noted and cannot be read is not the same as nothing.
func TestRecord_unreadable(t *testing.T) {
	r := New(t.TempDir())
	if known, err := r.Known(); len(known) > 0 || err != nil {
		t.Errorf("nothing is noted: %v, %v", known, err)
	}
	if err := os.WriteFile(r.File("cut-off.new"), []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if known, err := r.Known(); len(known) > 0 || err != nil {
		t.Errorf("a write that was cut off: %v, %v", known, err)
	}
	for _, uuid := range []string{"", "../uuid", "a/b", "u.new"} {
		if err := r.Note(uuid, State{}, state(1)); err == nil {
			t.Errorf("%q is taken for a UUID", uuid)
		}
	}
}

// TestRecord_broken: what is noted and broken is told as that, and only the state of a group that lacks no device takes its place.
func TestRecord_broken(t *testing.T) {
	r := New(t.TempDir())
	for _, text := range []string{"", "nothing vg", "7"} {
		if err := os.WriteFile(r.File("uuid"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		known, err := r.Known()
		if err != nil || known["uuid"].Broken == "" || len(known) != 1 {
			t.Errorf("a file that holds %q: %v, %v", text, known, err)
		}
		if err := r.Note("uuid", known["uuid"], State{Name: "vg", Change: 9, Lacked: true}); err == nil {
			t.Errorf("a file that holds %q is overwritten, and a device is missing", text)
		}
		if err := r.Note("uuid", known["uuid"], state(9)); err != nil {
			t.Error(err)
		}
		if known, err := r.Known(); err != nil || known["uuid"] != state(9) {
			t.Errorf("a file that held %q: %v, %v", text, known, err)
		}
	}
}
