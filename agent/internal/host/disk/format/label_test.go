package format

import (
	"bytes"
	"testing"
)

// TestImage_unlabelled: only what a pvcreate leaves that was killed before it wrote the label holds nothing.
func TestImage_unlabelled(t *testing.T) {
	left := func(edit func(b []byte)) []byte {
		b := make([]byte, 4<<20)
		copy(b[firstArea:], "\x12\x34\x56\x78"+mdaMagic+"\x01\x00\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00\xf0\x0f\x00")
		edit(b)
		return b
	}
	for name, c := range map[string]struct {
		device []byte
		want   bool
	}{
		"the header":                       {left(func([]byte) {}), true},
		"an empty device":                  {make([]byte, 4<<20), false},
		"a device without room":            {make([]byte, 4096), false},
		"a header that names a group":      {left(func(b []byte) { b[firstArea+40] = 1 }), false},
		"a header with something behind":   {left(func(b []byte) { b[firstArea+511] = 1 }), false},
		"metadata of a group of before":    {left(func(b []byte) { b[firstArea+512] = 'g' }), false},
		"another magic":                    {left(func(b []byte) { b[firstArea+5] = 'X' }), false},
		"a label":                          {left(func(b []byte) { copy(b[512:], "LABELONE") }), false},
		"something at the end":             {left(func(b []byte) { b[len(b)-1] = 1 }), false},
		"something at the end of the head": {left(func(b []byte) { b[Edge-1] = 1 }), false},
	} {
		im, err := Load(bytes.NewReader(c.device), int64(len(c.device)))
		if err != nil {
			t.Fatal(err)
		}
		if got := im.Unlabelled(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		im.Free()
	}
}
