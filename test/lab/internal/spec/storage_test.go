package spec

import (
	"net/netip"
	"testing"
)

func TestStorage_WithExport(t *testing.T) {
	before := NewStorage(384<<20, 4<<30)
	after, err := before.WithExport("mine", "rw,sync")
	if err != nil {
		t.Fatal(err)
	}
	if len(before.Exports) != 3 || len(after.Exports) != 4 {
		t.Fatalf("exports before %d, after %d; want 3 and 4", len(before.Exports), len(after.Exports))
	}
	if got, want := after.Exports[3].Line(), "/export/mine *(rw,sync,no_subtree_check,fsid=4)"; got != want {
		t.Errorf("Line() = %q, want %q", got, want)
	}
	changed, err := after.WithExport("mine", "ro")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := changed.Exports[3].Line(), "/export/mine *(ro,no_subtree_check,fsid=4)"; got != want {
		t.Errorf("Line() after a change of options = %q, want %q", got, want)
	}
	if after.Exports[3].Options != "rw,sync" {
		t.Error("WithExport changed the value it was called on")
	}
}

func TestStorage_WithExport_refusesWhatIsNoExport(t *testing.T) {
	tests := map[string]struct{ name, options string }{
		"no name":                        {"", "rw"},
		"name that leaves the directory": {"../etc", "rw"},
		"name with a slash":              {"a/b", "rw"},
		"name with a space":              {"a b", "rw"},
		"no options":                     {"a", ""},
		"options with a second client":   {"a", "rw) other(rw"},
		"options on two lines":           {"a", "rw\n/etc *(rw)"},
		"options with an empty word":     {"a", "rw,,sync"},
		"file system number":             {"a", "rw,fsid=0"},
		"file system number in front":    {"a", "fsid=0,rw"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if s, err := NewStorage(384<<20, 4<<30).WithExport(tt.name, tt.options); err == nil {
				t.Errorf("WithExport(%q, %q) = %+v", tt.name, tt.options, s.Exports)
			}
		})
	}
}

func TestStorage_Validate(t *testing.T) {
	if err := NewStorage(384<<20, 4<<30).Validate(); err != nil {
		t.Errorf("Validate() of a good one: %v", err)
	}
	for name, s := range map[string]Storage{
		"too little memory": NewStorage(64<<20, 4<<30),
		"too small a disk":  NewStorage(384<<20, 1<<20),
	} {
		if s.Validate() == nil {
			t.Errorf("%s: Validate(%+v) accepted it", name, s)
		}
	}
}

func TestLab_Index_ofTheStorageNode(t *testing.T) {
	index, err := Lab{Nodes: 1}.Index(StorageName)
	if err != nil || index != StorageIndex {
		t.Fatalf("Index(%s) = %d, %v; want %d", StorageName, index, err, StorageIndex)
	}
	if name := NodeName(StorageIndex); name != StorageName {
		t.Errorf("NodeName(%d) = %q, want %q", StorageIndex, name, StorageName)
	}
	for _, other := range []string{NodeIP(1), ControlPlane, APIServiceIP} {
		if NodeIP(StorageIndex) == other {
			t.Errorf("the storage node has the address %s of another", other)
		}
	}
	if _, err := netip.ParseAddr(NodeIP(StorageIndex)); err != nil {
		t.Error(err)
	}
}
