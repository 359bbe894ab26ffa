package lvm

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestThinRepair: the script succeeds only if the tools do, and what was found is what LVM recorded. A number alone is not enough: the volume of a
// transaction before may be a removed one. What thin_repair 1.1 makes up for a volume of which it finds the blocks alone is not enough either.
func TestThinRepair(t *testing.T) {
	device := func(id, transaction, created, copied string) string {
		return `  <device dev_id="` + id + `" mapped_blocks="16" transaction="` + transaction + `" creation_time="` + created + `" snap_time="` + copied + `">` + "\n  </device>\n"
	}
	two := device("1", "0", "0", "0") + device("3", "4", "1", "1")
	for name, c := range map[string]struct {
		devices, wanted string
		repair, check   string
		want            string
	}{
		"all is found":                       {devices: two, wanted: "t5 1:0 3:4 "},
		"the volume of a transaction before": {devices: two, wanted: "t5 1:0 3:2 ", want: `found "t5 1:0 3:4 " (transaction, volumes), not "t5 1:0 3:2 "`},
		"a volume too few":                   {devices: two, wanted: "t5 1:0 2:1 3:4 ", want: "what can be repaired"},
		"another transaction of the pool":    {devices: two, wanted: "t6 1:0 3:4 ", want: "what can be repaired"},
		"nothing is left":                    {wanted: "t5 1:0 ", want: "what can be repaired"},
		"made up":                            {devices: device("1", "4", "1", "1"), wanted: "t5 1:4 ", want: "those of a removed one"},
		"one volume, never copied":           {devices: device("1", "4", "0", "0"), wanted: "t5 1:4 "},
		"one volume, copied since":           {devices: device("1", "4", "1", "2"), wanted: "t5 1:4 "},
		"one volume of before":               {devices: device("1", "2", "1", "1"), wanted: "t5 1:2 "},
		"the repair fails":                   {devices: two, wanted: "t5 1:0 3:4 ", repair: "exit 139", want: "code 139"},
		"what it wrote is not clean":         {devices: two, wanted: "t5 1:0 3:4 ", check: "exit 1", want: "code 1"},
	} {
		dir := t.TempDir()
		dump := `<superblock uuid="" time="2" transaction="5" flags="0" version="2" data_block_size="128" nr_data_blocks="64">` + "\n" + c.devices + "</superblock>\n"
		for tool, does := range map[string]string{
			"thin_repair": `[ "$*" = "--transaction-id 5 -i in -o out" ] || exit 2` + "\n" + c.repair,
			"thin_check":  `[ "$*" = "-q out" ] || exit 2` + "\n" + c.check,
			"thin_dump":   `[ "$*" = "--skip-mappings out" ] || exit 2` + "\ncat <<'END'\n" + dump + "END",
		} {
			must(t, os.WriteFile(filepath.Join(dir, tool), []byte("#!/bin/sh\n"+does+"\n"), 0o700))
		}
		script := filepath.Join(dir, "script")
		must(t, os.WriteFile(script, bytes.Replace(thinRepair, []byte("PATH="), []byte("PATH="+dir+":"), 1), 0o600))
		cmd := exec.Command("/bin/sh", script, filepath.Join(dir, "lock"), c.wanted, "--transaction-id", "5", "-i", "in", "-o", "out")
		out, err := cmd.CombinedOutput()
		said := string(out)
		if err != nil {
			said += strings.Replace(err.Error(), "exit status", "code", 1)
		}
		if (err == nil) != (c.want == "") || !strings.Contains(said, c.want) {
			t.Errorf("%s: %s", name, said)
		}
	}
}
