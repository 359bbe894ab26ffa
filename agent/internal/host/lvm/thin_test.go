package lvm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quarry.storage/quarry/agent/internal/host/run"
)

// TestLVM_Report_kernelTransactions: of an active pool the kernel is asked for its transaction id. Where it differs from LVM's, LVM is asked once
// more: a command may have come in between.
func TestLVM_Report_kernelTransactions(t *testing.T) {
	report := func(transaction int) run.Step {
		// A pool that is not ours is not looked into.
		foreign := strings.Replace(string(recorded(t, "report-volumes.json")), "quarry.storage/pool", "somebodys", 1)
		doc := strings.Replace(foreign, `"transaction_id":"4"`, fmt.Sprintf(`"transaction_id":"%d"`, transaction), 1)
		return run.Step{Result: run.Result{Stdout: []byte(doc)}}
	}
	status := func(line string) run.Step { return run.Step{Result: run.Result{Stdout: []byte(line + "\n")}} }
	kernel := func(transaction string) run.Step {
		return status("other-pool-tpool: 0 8 thin-pool 9 1/2 1/2 - rw -\nvgq-pool-tpool: 0 409600 thin-pool " + transaction + " 117/1024 640/3200 - rw discard_passdown error_if_no_space - 256 ")
	}
	inactive := report(4)
	inactive.Result.Stdout = []byte(strings.ReplaceAll(string(inactive.Result.Stdout), `"lv_active_locally":"1"`, `"lv_active_locally":"0"`))
	for name, c := range map[string]struct {
		steps []run.Step
		want  string
		blind bool
	}{
		"the same":                           {steps: []run.Step{report(4), kernel("4")}, want: "4"},
		"less":                               {steps: []run.Step{report(4), kernel("0"), report(4)}, want: "0"},
		"LVM has changed the pool meanwhile": {steps: []run.Step{report(4), kernel("5"), report(5)}, want: "unknown"},
		"the kernel has given the pool up":   {steps: []run.Step{report(4), kernel("Fail")}, want: "unknown"},
		"there is no pool":                   {steps: []run.Step{report(4), status("No devices found")}, want: "unknown"},
		"nothing was ever in the pool":       {steps: []run.Step{report(0)}, want: "unknown"},
		"the pool is not active":             {steps: []run.Step{inactive}, want: "unknown"},
		"the kernel cannot be asked":         {steps: []run.Step{report(4), {Err: errors.New("broken")}}, want: "unknown", blind: true},
	} {
		l, fake := newLVM(t, c.steps...)
		vgs, _, err := l.Report(t.Context(), []string{"/dev/a"})
		if err != nil || fake.Left() != 0 {
			t.Fatalf("%s: %v, %d calls left", name, err, fake.Left())
		}
		pool, got := vgs[0].Volumes[2], "unknown"
		if id := pool.Thin.KernelTransactionID; id != nil {
			got = fmt.Sprint(*id)
		}
		if got != c.want || pool.UsageUnknown != c.blind || c.blind && pool.DataPermyriad+pool.MetadataPermyriad > 0 {
			t.Errorf("%s: the kernel's is %s, want %s; %+v", name, got, c.want, pool)
		}
	}
	l, _ := newLVM(t, report(4), kernel("3"), run.Step{Err: errors.New("broken")})
	if _, _, err := l.Report(t.Context(), []string{"/dev/a"}); err == nil {
		t.Error("the second report failed, and nobody said so")
	}
}

// TestLVM_Report_looksInto: a pool of ours that is seen to be active is looked into once, and again until all of its volumes are found or after it
// was inactive. Of one that cannot be looked into nothing is known.
func TestLVM_Report_looksInto(t *testing.T) {
	device := filepath.Join(t.TempDir(), "disk")
	report := run.Step{Result: run.Result{Stdout: recorded(t, "report-volumes.json")}}
	inactive := run.Step{Result: run.Result{Stdout: []byte(strings.ReplaceAll(string(report.Result.Stdout), `"lv_active_locally":"1"`, `"lv_active_locally":"0"`))}}
	status := run.Step{Result: run.Result{Stdout: []byte("vgq-pool-tpool: 0 409600 thin-pool 4 117/1024 640/3200 - rw - - - 256\n")}}
	where := run.Step{Result: run.Result{Stdout: fmt.Appendf(nil, `{"report":[{"pvseg":[{"pv_name":%q,"pe_start":"0","vg_extent_size":"4096",`+
		`"pvseg_start":"0","pvseg_size":"512","lv_name":"[pool_tmeta]","seg_start":"0"}]}]}`, device)}}
	emptied := recordedMetadata(t, "none")
	binary.LittleEndian.PutUint64(emptied[48:], 4) // its transaction
	binary.LittleEndian.PutUint32(emptied, ^crc32.Checksum(emptied[4:4096], crc32.MakeTable(crc32.Castagnoli))^160774)

	l, fake := newLVM(t, report, status, where, report, status, where, report, status, where, report, status, inactive, report, status, where)
	for _, c := range []struct {
		name     string
		metadata []byte
		damage   string
		unknown  bool
	}{
		{name: "it cannot be read", unknown: true},
		{name: "nothing is there", metadata: emptied, damage: "its metadata lacks volumes that LVM recorded: 1 of transaction 0, 2 of transaction 1, 3 of transaction 2, 4 of transaction 3"},
		{name: "all are found", metadata: recordedMetadata(t, "four")},
		{name: "no second look"},
		{name: "inactive"},
		{name: "active again", metadata: emptied, damage: "its metadata lacks volumes that LVM recorded: 1 of transaction 0, 2 of transaction 1, 3 of transaction 2, 4 of transaction 3"},
	} {
		must(t, os.WriteFile(device, c.metadata, 0o600))
		vgs, _, err := l.Report(t.Context(), []string{"/dev/a"})
		must(t, err)
		if pool := vgs[0].Volumes[2]; pool.Damage != c.damage || pool.UsageUnknown != c.unknown {
			t.Errorf("%s: %q, %+v", c.name, pool.Damage, pool)
		}
	}
	if fake.Left() != 0 {
		t.Errorf("%d calls left", fake.Left())
	}
}

// TestLVM_RepairPool: devices that a killed repair left go first, LVM is told what the metadata has to tell, and what was damaged is not any more, or
// still is, if the repair fails: also where only the kernel told it, while the pool was active.
func TestLVM_RepairPool(t *testing.T) {
	devices := run.Step{Result: run.Result{Stdout: []byte("fast--1-lvol0_pmspare\nfast--1-po--ol_tmeta\nfast--1-po--ol_tdata\nother-lvol0_pmspare\nfast--1-other_tmeta\n")}}
	g := Owned{Name: "fast-1", Devices: []string{"/dev/a"}, Tag: tag}
	want := PoolMetadata{TransactionID: 7, SizeBytes: 1 << 30, ChunkBytes: 64 << 10, Devices: []PoolDevice{{ID: 1}, {ID: 5, TransactionID: 3}}}
	broken := run.Step{Err: &run.Error{ExitCode: 5, Stderr: "  Repair of thin metadata volume of thin pool g/p failed (status:1). Manual repair required!\n"}}
	full := run.Step{Err: &run.Error{ExitCode: 5, Stderr: "  Volume group \"g\" has insufficient free space (0 extents): 1 required.\n"}}
	for name, c := range map[string]struct {
		steps []run.Step
		want  error
	}{
		"well":                    {[]run.Step{devices, {}, {}, {}}, nil},
		"it finds too little":     {[]run.Step{devices, {}, {}, broken}, ErrDamaged},
		"there is no room":        {[]run.Step{devices, {}, {}, full}, ErrNoSpace},
		"a device does not go":    {[]run.Step{devices, broken}, broken.Err},
		"nobody tells of devices": {[]run.Step{broken}, broken.Err},
	} {
		l, fake := newLVM(t, c.steps...)
		if !errors.Is(c.want, ErrNoSpace) { // The other was active, and begun anew.
			l.damaged.note(g, "po-ol", ErrDamaged)
		}
		if err := l.RepairPool(t.Context(), g, "po-ol", want); !errors.Is(err, c.want) || fake.Left() != 0 {
			t.Errorf("%s: %v, %d calls left", name, err, fake.Left())
		}
		groups := []VG{{Name: g.Name, Tags: []string{tag}, Volumes: []LV{{Name: "po-ol", ThinPool: true}}}}
		if l.damaged.tell(groups); (groups[0].Volumes[0].Damage == "") != (c.want == nil) {
			t.Errorf("%s: told is %q", name, groups[0].Volumes[0].Damage)
		}
		repairCalls(t, name, fake.Calls())
	}
	for _, bad := range []PoolMetadata{{}, {TransactionID: 1, SizeBytes: 1 << 20}, {TransactionID: 1, ChunkBytes: 64 << 10}} {
		l, _ := newLVM(t)
		if err := l.RepairPool(t.Context(), g, "pool", bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// repairCalls checks the calls of a repair, as far as it came.
func repairCalls(t *testing.T, name string, calls []run.Command) {
	t.Helper()
	var last []string
	for _, call := range calls {
		last = append(last, call.Args[len(call.Args)-1])
	}
	if len(last) > 1 && last[1] != "fast--1-lvol0_pmspare" || len(last) > 2 && last[2] != "fast--1-po--ol_tmeta" {
		t.Errorf("%s: %q", name, last)
	}
	if len(calls) < 4 {
		return
	}
	line := strings.Join(calls[3].Args, " ")
	for _, part := range []string{"lvconvert", `"t7 1:0 5:3 ","--transaction-id","7","--data-block-size","128","--nr-data-blocks","16384"]}`, "--repair fast-1/po-ol"} {
		if !strings.Contains(line, part) {
			t.Errorf("%s: %s lacks %s", name, line, part)
		}
	}
}
