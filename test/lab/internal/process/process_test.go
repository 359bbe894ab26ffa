package process

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"quarry.storage/quarry/test/lab/internal/state"
)

func TestParseStat(t *testing.T) {
	tests := map[string]struct {
		line    string
		want    stat
		wantErr bool
	}{
		"plain name": {
			line: "42 (etcd) S 1 42 42 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 9 0 12345 1000 200",
			want: stat{state: 'S', session: 42, start: 12345},
		},
		"name with spaces and parentheses": {
			line: "42 (a) b (c) Z 1 42 42 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 9 0 777 1000 200",
			want: stat{state: 'Z', session: 42, start: 777},
		},
		"cut off":        {line: "42 (etcd) S 1 42", wantErr: true},
		"without a name": {line: "42 etcd S", wantErr: true},
		"start time is no number": {
			line:    "42 (etcd) S 1 42 42 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 9 0 x 1000 200",
			wantErr: true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseStat(tt.line)
			if (err != nil) != tt.wantErr {
				t.Fatalf("parseStat error = %v, want error %v", err, tt.wantErr)
			}
			if got != tt.want {
				t.Errorf("parseStat = %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestTable_killEndsOnlyTheRecordedProcess(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() { waited <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	started, err := readStat(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}

	table := Table{Dir: t.TempDir()}
	recycled := Record{Name: "recycled", PID: cmd.Process.Pid, Start: started.start - 1}
	real := Record{Name: "real", PID: cmd.Process.Pid, Start: started.start}
	for _, r := range []Record{recycled, real} {
		if err := state.WriteJSON(table.file(r.Name), r); err != nil {
			t.Fatal(err)
		}
	}

	if table.Alive("recycled") {
		t.Error("a record with another start time counts as alive")
	}
	if err := table.Kill("recycled"); err != nil {
		t.Fatal(err)
	}
	if !table.Alive("real") {
		t.Fatal("killing a stale record ended the process that has its pid now")
	}
	if err := table.Kill("real"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-waited:
		if err == nil {
			t.Error("the recorded process ended by itself")
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the recorded process was not ended")
	}
	if err := table.Kill("real"); err != nil {
		t.Errorf("killing twice: %v", err)
	}
	if left, err := os.ReadDir(table.Dir); err != nil || len(left) != 0 {
		t.Errorf("records left: %v, %v", left, err)
	}
}
