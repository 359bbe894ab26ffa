package shared

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/pkg/sharedlun"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// TestSetChange: every change there is reaches the wire, and each as another one.
func TestSetChange(t *testing.T) {
	kinds := map[reflect.Type]string{}
	fields := reflect.TypeFor[sharedlun.Change]()
	for i := range fields.NumField() {
		var c sharedlun.Change
		f := reflect.ValueOf(&c).Elem().Field(i)
		if f.Kind() == reflect.Bool {
			f.SetBool(true)
		} else {
			f.Set(reflect.New(f.Type().Elem()))
		}
		request := &agentv1.ChangeSharedGroupRequest{}
		setChange(request, c)
		name, kind := fields.Field(i).Name, reflect.TypeOf(request.GetChange())
		if kind == nil {
			t.Errorf("%s does not reach the wire", name)
		} else if other := kinds[kind]; other != "" {
			t.Errorf("%s and %s are one change on the wire", name, other)
		}
		kinds[kind] = name
	}
	if len(kinds) < 9 {
		t.Errorf("only %d changes", len(kinds))
	}
}

func TestSetChange_values(t *testing.T) {
	for name, c := range map[string]struct {
		change sharedlun.Change
		want   map[string]any
	}{
		"create": {
			sharedlun.Change{Create: &sharedlun.Create{
				Name: "a", SizeBytes: 7, Tags: []string{"t"}, HeldBy: "n", Origin: sharedlun.Origin{Name: "o", UUID: "p", Bytes: 6}, Snapshot: true,
			}},
			map[string]any{"name": "a", "size": int64(7), "tags": []string{"t"}, "node": "n", "of": "o p 6", "snapshot": true},
		},
		"copied": {sharedlun.Change{Copied: &sharedlun.Copied{Name: "a", UUID: "u", Bytes: 5}}, map[string]any{"name": "a", "uuid": "u", "copied": int64(5)}},
		"void":   {sharedlun.Change{Void: &sharedlun.Void{Name: "a", UUID: "u"}}, map[string]any{"name": "a", "uuid": "u", "void": true}},
		"leave":  {sharedlun.Change{Leave: &sharedlun.Hold{Name: "a", UUID: "u", Node: "n", ReadyBytes: 5}}, map[string]any{"name": "a", "uuid": "u", "node": "n", "ready": int64(5)}},
		"hold":   {sharedlun.Change{Hold: &sharedlun.Hold{Name: "a", UUID: "u", Node: "n"}}, map[string]any{"name": "a", "uuid": "u", "node": "n"}},
		"release": {
			sharedlun.Change{Release: &sharedlun.Release{Hold: sharedlun.Hold{Name: "a", UUID: "u", Node: "n"}, FencedBootID: "b"}},
			map[string]any{"name": "a", "uuid": "u", "node": "n", "boot": "b"},
		},
		"ready":  {sharedlun.Change{Ready: &sharedlun.Ready{Name: "a", UUID: "u", Bytes: 5}}, map[string]any{"name": "a", "uuid": "u", "ready": int64(5)}},
		"making": {sharedlun.Change{Making: &sharedlun.Hold{Name: "a", UUID: "u", Node: "n"}}, map[string]any{"name": "a", "uuid": "u", "node": "n", "making": true}},
		"used":   {sharedlun.Change{Used: &sharedlun.Hold{Name: "a", UUID: "u", Node: "n"}}, map[string]any{"name": "a", "uuid": "u", "node": "n", "used": true}},
		"grow":   {sharedlun.Change{Grow: &sharedlun.Grow{Name: "a", UUID: "u", SizeBytes: 5}}, map[string]any{"name": "a", "uuid": "u", "size": int64(5)}},
		"remove": {
			sharedlun.Change{Remove: &sharedlun.Remove{Name: "a", UUID: "u", Boots: []sharedlun.Boot{{Node: "n", ID: "b"}}}},
			map[string]any{"name": "a", "uuid": "u", "node": "n", "boot": "b"},
		},
		"forget": {
			sharedlun.Change{Forget: &sharedlun.Forget{Name: "a", UUID: "u", Boots: []sharedlun.Boot{{Node: "n", ID: "b"}}}},
			map[string]any{"name": "a", "uuid": "u", "node": "n", "boot": "b"},
		},
	} {
		r := &agentv1.ChangeSharedGroupRequest{}
		setChange(r, c.change)
		got := map[string]any{}
		switch x := r.GetChange().(type) {
		case *agentv1.ChangeSharedGroupRequest_Create:
			o := x.Create.GetOrigin()
			got = map[string]any{
				"name": x.Create.GetName(), "size": x.Create.GetSizeBytes(), "tags": x.Create.GetTags(), "node": x.Create.GetHeldBy(), "snapshot": x.Create.GetSnapshot(),
				"of": fmt.Sprint(o.GetName(), " ", o.GetUuid(), " ", o.GetBytes()),
			}
		case *agentv1.ChangeSharedGroupRequest_Copied:
			got = map[string]any{"name": x.Copied.GetName(), "uuid": x.Copied.GetUuid(), "copied": x.Copied.GetCopiedBytes()}
		case *agentv1.ChangeSharedGroupRequest_Leave:
			got = map[string]any{"name": x.Leave.GetName(), "uuid": x.Leave.GetUuid(), "node": x.Leave.GetNode(), "ready": x.Leave.GetReadyBytes()}
		case *agentv1.ChangeSharedGroupRequest_Hold:
			got = map[string]any{"name": x.Hold.GetName(), "uuid": x.Hold.GetUuid(), "node": x.Hold.GetNode()}
		case *agentv1.ChangeSharedGroupRequest_Release:
			got = map[string]any{
				"name": x.Release.GetName(), "uuid": x.Release.GetUuid(), "node": x.Release.GetNode(), "boot": x.Release.GetFencedBootId(),
			}
		case *agentv1.ChangeSharedGroupRequest_Ready:
			got = map[string]any{"name": x.Ready.GetName(), "uuid": x.Ready.GetUuid(), "ready": x.Ready.GetReadyBytes()}
		case *agentv1.ChangeSharedGroupRequest_Making:
			got = map[string]any{"name": x.Making.GetName(), "uuid": x.Making.GetUuid(), "node": x.Making.GetNode(), "making": true}
		case *agentv1.ChangeSharedGroupRequest_Void:
			got = map[string]any{"name": x.Void.GetName(), "uuid": x.Void.GetUuid(), "void": true}
		case *agentv1.ChangeSharedGroupRequest_Used:
			got = map[string]any{"name": x.Used.GetName(), "uuid": x.Used.GetUuid(), "node": x.Used.GetNode(), "used": true}
		case *agentv1.ChangeSharedGroupRequest_Grow:
			got = map[string]any{"name": x.Grow.GetName(), "uuid": x.Grow.GetUuid(), "size": x.Grow.GetSizeBytes()}
		case *agentv1.ChangeSharedGroupRequest_Remove:
			boot := x.Remove.GetBoots()[0]
			got = map[string]any{"name": x.Remove.GetName(), "uuid": x.Remove.GetUuid(), "node": boot.GetNode(), "boot": boot.GetBootId()}
		case *agentv1.ChangeSharedGroupRequest_Forget:
			boot := x.Forget.GetBoots()[0]
			got = map[string]any{"name": x.Forget.GetName(), "uuid": x.Forget.GetUuid(), "node": boot.GetNode(), "boot": boot.GetBootId()}
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestVolume(t *testing.T) {
	v := sharedlun.Volume{
		Name: "a", UUID: "u", SizeBytes: 100, Ranges: []sharedlun.Range{{Start: 1, Size: 60}, {Start: 90, Size: 40}}, HeldBy: "n1",
		Leaving: true, ReadyBytes: 60, Tags: []string{"t"}, CreatedUnix: 5, Readers: []sharedlun.Boot{{Node: "n2", ID: "b"}},
		MakingOn: "n3", Used: true, Origin: sharedlun.Origin{Name: "o", UUID: "p", Bytes: 6}, CopiedBytes: 4, Snapshot: true, Void: true,
	}
	wire := toVolume(v)
	if d := cmp.Diff(v, volumeOf(wire)); d != "" {
		t.Error(d)
	}
	// An agent of an earlier version takes the marks of copies for tags of the controller.
	wire.Origin, wire.CopiedBytes, wire.Snapshot, wire.Void = nil, 0, false, false
	wire.Tags = append(wire.Tags, v.Origin.Tag(), sharedlun.TagCopied+"4", sharedlun.TagSnapshot, sharedlun.TagVoid)
	if d := cmp.Diff(v, volumeOf(wire)); d != "" {
		t.Errorf("from an earlier agent: %s", d)
	}
}

func TestSeenOf(t *testing.T) {
	got := seenOf([]*agentv1.IscsiSession{
		{Portal: "a", State: agentv1.IscsiSession_STATE_UP},
		{Portal: "b", State: agentv1.IscsiSession_STATE_NONE},
		{Portal: "c", State: agentv1.IscsiSession_STATE_DOWN, Message: "why", Unserved: true},
		{Portal: "d", State: 99},
	}, []*agentv1.Lun{{Identity: &agentv1.LunIdentity{Wwid: "w", Serial: "s", SizeBytes: 9}, Number: 3, Device: "/dev/x", Paths: []*agentv1.LunPath{{Portal: "a", Device: "sdb", Session: 7, Up: true, Target: "t"}}}})
	want := sharedlun.Seen{
		Sessions: []sharedlun.Session{
			{Portal: "a", State: sharedlun.SessionUp},
			{Portal: "b", State: sharedlun.SessionNone},
			{Portal: "c", State: sharedlun.SessionDown, Message: "why", Unserved: true},
			{Portal: "d", State: sharedlun.SessionDown},
		},
		Luns: []sharedlun.Lun{{
			Identity: sharedlun.Identity{WWID: "w", Serial: "s", SizeBytes: 9}, Number: 3, Device: "/dev/x",
			Paths: []sharedlun.Path{{Portal: "a", Device: "sdb", Session: 7, Up: true, Target: "t"}},
		}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
