package ceph

import (
	"encoding/json"
	"errors"
	"maps"
	"testing"

	"quarry.storage/quarry/controller/internal/ceph"
	"quarry.storage/quarry/controller/internal/ceph/cephtest"
	"quarry.storage/quarry/controller/internal/decide/ceph/view"
)

// TestConfigure_killed: an option is on record before Ceph has it. Whatever write the process ended before, one that is taken off the spec meanwhile is taken back, and so is one that was there before.
func TestConfigure_killed(t *testing.T) {
	killed := errors.New("killed")
	const old, changed, brief, added = "global.ms_async_op_threads", "osd.bluestore_cache_size", "mds.mds_cache_memory_limit", "mon.ms_async_op_threads"
	first, later := map[string]string{old: "1", changed: "1000000000"}, map[string]string{changed: "2000000000", brief: "300"}
	last := map[string]string{changed: "1000000000", added: "20"}
	ended := 0
	for number := 1; number < 9; number++ {
		b, _, _, s := keyed(t, nil)
		model := cephtest.New(t, fsid)
		b.Runner = func(string) ceph.Runner { return model }
		configured := func(b *Backend, options map[string]string) error {
			text, err := json.Marshal(options)
			s.Text = string(text)
			return errors.Join(err, b.configure(t.Context(), s))
		}
		if err := configured(b, first); err != nil || !maps.Equal(model.Options, first) {
			t.Fatalf("at first Ceph has %q: %v", model.Options, err)
		}
		err := configured(before(b, number, func() error { return killed }), later)
		if err == nil {
			break
		}
		if !errors.Is(err, killed) {
			t.Fatalf("write %d: %v", number, err)
		}
		ended++
		if err := configured(b, last); err != nil || !maps.Equal(model.Options, last) {
			t.Errorf("killed before write %d: Ceph has %q in the end: %v", number, model.Options, err)
		}
		w := &view.Workloads{}
		c, err := b.cluster(t.Context(), s)
		if err = errors.Join(err, b.files(t.Context(), c, w)); err != nil || !maps.Equal(w.Options, last) {
			t.Errorf("killed before write %d: on record is %q in the end: %v", number, w.Options, err)
		}
	}
	if ended != 2 {
		t.Errorf("%d writes: one before Ceph is told, and one afterwards", ended)
	}
}
