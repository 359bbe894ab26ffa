package setup

import (
	"slices"
	"strings"
	"testing"

	"quarry.storage/quarry/controller/internal/reconcile/harborcluster/witness"
)

// TestParse_controllers: kinds that nobody uses are switched off, and a typo is no way to switch one off or on.
func TestParse_controllers(t *testing.T) {
	for arg, want := range map[string]string{
		"":                        "cluster harborcluster iscsi nfs pin statefulcluster",
		"*":                       "cluster harborcluster iscsi nfs pin statefulcluster",
		"*,-harborcluster":        "cluster iscsi nfs pin statefulcluster",
		"-harborcluster,*":        "cluster iscsi nfs pin statefulcluster",
		"pin":                     "pin",
		"-harborcluster,pin":      "pin",
		"*,-pin,-statefulcluster": "cluster harborcluster iscsi nfs",
		"*,-nfs,-iscsi":           "cluster harborcluster pin statefulcluster",
		"cluster,pin":             "cluster pin",
		"*,-cluster":              "harborcluster iscsi nfs pin statefulcluster",
		"*,glustercluster":        "cluster glustercluster harborcluster iscsi nfs pin statefulcluster",
		"glustercluster,-pin,*":   "cluster glustercluster harborcluster iscsi nfs statefulcluster",
		"*,-statefulclusters":     "error",
		"Cluster":                 "error",
		"clusters":                "error",
		"*, -harborcluster":       "error",
	} {
		args := []string{"--namespace=ns"}
		if arg != "" {
			args = append(args, "--controllers="+arg)
		}
		cfg, err := Parse(args)
		var run []string
		for _, name := range optional {
			if cfg.runs(name) {
				run = append(run, name)
			}
		}
		got := strings.Join(run, " ")
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: %s (%v), want %s", arg, got, err, want)
		}
	}
	if off := (Config{Controllers: []string{"*", "-nfs"}}).off(); !slices.Equal(off, []string{controllerGluster, controllerNfs}) {
		t.Errorf("off are %v", off)
	}
	if !(Config{}).runs(controllerPin) {
		t.Error("without a word, nothing runs")
	}
}

// What tests do without is never off in a controller that was started by its command line.
func TestParse_aKindSettles(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "quarry-system")
	c, err := Parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.settle() != witness.Settled || c.again {
		t.Errorf("settled after %s, again %v", c.settle(), c.again)
	}
}
