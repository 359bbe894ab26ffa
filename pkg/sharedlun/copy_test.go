package sharedlun

import (
	"errors"
	"testing"
)

const originUUID = "aaaaaa-1234-5678-9abc-DEFG-hijk-LMNOPQ"

// TestOrigin_tag: what a tag says is what it was made of, and LVM takes it.
func TestOrigin_tag(t *testing.T) {
	o := Origin{Name: SnapshotName("snapshot-0f3b2c1d-1111-2222-3333-444455556666"), UUID: originUUID, Bytes: 1 << 42}
	if err := o.Check(); err != nil {
		t.Fatal(err)
	}
	if tag := o.Tag(); !tagForm.MatchString(tag) || !errors.Is(CheckTag(tag), ErrInvalid) {
		t.Errorf("tag %s: LVM has to take it, and the controller may not set it", tag)
	}
	v := Volume{Name: "v"}
	for _, tag := range []string{o.Tag(), TagCopied + "512", TagSnapshot} {
		if !v.Mark(tag) {
			t.Errorf("%s is no mark", tag)
		}
	}
	if v.Origin != o || v.CopiedBytes != 512 || !v.Snapshot || !v.Copying() {
		t.Errorf("%+v", v)
	}
	if v.ReadyBytes = 512; v.Copying() {
		t.Error("a copy that is whole is being made")
	}
}

// TestOrigin_unread: a tag that cannot be read says all the same that the volume is a copy, which never becomes whole.
func TestOrigin_unread(t *testing.T) {
	for _, text := range []string{"a/" + originUUID, "a/" + originUUID + "/x", "a/" + originUUID + "/-512", "a", "a/b/c/d"} {
		var v Volume
		if !v.Mark(TagCopyOf+text) || !v.Copying() || v.Origin.Check() == nil {
			t.Errorf("%s is read as %+v", text, v.Origin)
		}
	}
	g := Group{Volumes: []Volume{
		{Name: "a", UUID: originUUID}, {Name: "b", Origin: Origin{Name: "a", UUID: originUUID}}, {Name: "c", Origin: Origin{Name: "a", UUID: originUUID}, ReadyBytes: 1},
	}}
	if all := g.Copies(originUUID); len(all) != 1 || all[0].Name != "b" {
		t.Errorf("copies are %+v", all)
	}
}

func TestIsSnapshot(t *testing.T) {
	for name, want := range map[string]bool{SnapshotName("a"): true, SnapshotName("snap-a"): true, Name("a"): false, Name("snap-a"): false, Name("snapshot-x"): false} {
		if id := (ID{Group: originUUID, Name: name}); id.IsSnapshot() != want {
			t.Errorf("%s: %t", name, !want)
		}
	}
}
