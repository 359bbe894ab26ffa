package lvm

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"quarry.storage/quarry/agent/internal/host/run"
)

// TestLVM_Report_kernelTransactions: of an active pool the kernel is asked for its transaction id. Where it differs from LVM's, LVM is asked once
// more: a command may have come in between.
func TestLVM_Report_kernelTransactions(t *testing.T) {
	report := func(transaction int) run.Step {
		doc := strings.Replace(string(recorded(t, "report-volumes.json")), `"transaction_id":"4"`, fmt.Sprintf(`"transaction_id":"%d"`, transaction), 1)
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
