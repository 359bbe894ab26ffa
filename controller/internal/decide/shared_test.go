package decide

import (
	"strings"
	"testing"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestDevice_Identity(t *testing.T) {
	whole := Device{WWN: "0x5", Serial: "S", SizeBytes: 1 << 30}
	id, certain := whole.Identity()
	if !certain || id != (DiskIdentity{"0x5", "S", 1 << 30}) {
		t.Errorf("%+v, %t", id, certain)
	}
	for name, edit := range map[string]func(*Device){
		"no WWN": func(d *Device) { d.WWN = "" }, "no serial number": func(d *Device) { d.Serial = "" }, "no size": func(d *Device) { d.SizeBytes = 0 },
	} {
		d := whole
		edit(&d)
		if _, certain := d.Identity(); certain {
			t.Errorf("%s: certain", name)
		}
	}
}

// TestNode_WithShared: a disk that another node sees is refused whatever else is said of it, and the report itself stays as it is.
func TestNode_WithShared(t *testing.T) {
	n := Node{Name: "n1", Devices: []Device{
		{Path: "a", Digest: "x", WWN: "0x5", Serial: "S"},
		{Path: "b", Digest: "x", Wipeable: true, Refusals: []v1alpha1.Refusal{{Reason: v1alpha1.RefusalFilesystem}}},
		{Path: "c", Digest: "x"},
	}}
	got := n.WithShared(func(d Device) string { return map[string]string{"a": "n2", "b": "n3"}[d.Path] })
	for i, other := range []string{"n2", "n3"} {
		d := got.Devices[i]
		last := d.Refusals[len(d.Refusals)-1]
		if d.Takeable() || d.Wipeable || !d.RefusedFor(v1alpha1.RefusalSharedDisk) || !strings.Contains(last.Message, "Node "+other+" sees the same disk") {
			t.Errorf("%+v", d)
		}
	}
	if !got.Devices[2].Clean() || !n.Devices[0].Clean() || !n.Devices[1].Wipeable {
		t.Error("more was changed than what is shared")
	}
	if !got.Devices[0].Blank() || got.Devices[1].Blank() {
		t.Error("what is on a disk does not depend on who sees it")
	}
}
