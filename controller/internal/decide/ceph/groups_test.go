package ceph

import (
	"strings"
	"testing"
)

// TestLegacyGroups is the table, row by row.
func TestLegacyGroups(t *testing.T) {
	for _, row := range []struct{ disks, copies, want int }{
		{0, 1, 0},
		{1, 1, 50},
		{2, 2, 50},
		{3, 2, 75},
		{4, 2, 100},
		{10, 2, 250},
		// Beyond it: other copies than it knows, numbers that do not divide, and ones that cannot be.
		{3, 3, 50},
		{5, 3, 83},
		{1, 2, 25},
		{-1, 2, 0},
		{3, 0, 0},
	} {
		if got := LegacyGroups(row.disks, row.copies); got != row.want {
			t.Errorf("%d disks, %d copies: %d placement groups, not %d", row.disks, row.copies, got, row.want)
		}
	}
}

func TestGrouping(t *testing.T) {
	table := Grouping{Pools: []string{"meta", "data"}, Bulk: []string{"data"}, Scale: ScaleOff, Disks: 3}
	scaled := Grouping{Pools: table.Pools, Bulk: table.Bulk, Scale: ScaleOn}
	bulk := func(pools ...string) func(*Facts) { return func(f *Facts) { f.Map.Bulk = pools } }
	for name, tt := range map[string]struct {
		want         Grouping
		have         map[string]PoolGroups
		change       func(*Facts)
		steps, waits string
	}{
		"Ceph chooses, as it is wanted":            {Grouping{Pools: table.Pools, Scale: ScaleOn}, map[string]PoolGroups{"meta": {1, ScaleOn}, "data": {64, ScaleOn}}, nil, "", ""},
		"Ceph is to choose again":                  {Grouping{Pools: table.Pools, Scale: ScaleOn}, map[string]PoolGroups{"meta": {75, ScaleOn}, "data": {75, ScaleOff}}, nil, "SetScale data on", ""},
		"an option says that nobody chooses":       {Grouping{Pools: table.Pools, Scale: ScaleOff}, map[string]PoolGroups{"meta": {8, ScaleOff}, "data": {8, ScaleOff}}, nil, "", ""},
		"the table is to choose":                   {table, map[string]PoolGroups{"meta": {16, ScaleOn}, "data": {64, ScaleOn}}, nil, "SetScale meta off", ""},
		"the table chooses":                        {table, map[string]PoolGroups{"meta": {75, ScaleOff}, "data": {64, ScaleOff}}, nil, "SetGroups data 75", ""},
		"there are as many":                        {table, map[string]PoolGroups{"meta": {75, ScaleOff}, "data": {75, ScaleOff}}, nil, "", ""},
		"data move":                                {table, map[string]PoolGroups{"meta": {16, ScaleOff}, "data": {75, ScaleOff}}, func(f *Facts) { f.Groups.Clean-- }, "", "gets 75 once all"},
		"nobody knows whether data move":           {table, map[string]PoolGroups{"meta": {16, ScaleOff}, "data": {75, ScaleOff}}, func(f *Facts) { f.Groups = nil }, "", "gets 75 once all"},
		"nobody knows how many there are":          {table, nil, nil, "", "placement groups pool meta has cannot"},
		"nobody knows who chooses":                 {table, map[string]PoolGroups{"meta": {16, ""}, "data": {75, ScaleOff}}, nil, "", "cannot be read"},
		"copies come first":                        {table, map[string]PoolGroups{"meta": {16, ScaleOn}}, func(f *Facts) { f.Map.Pools[0].MinSize = 0 }, "SetMinSize meta 1", ""},
		"both pools have the flag":                 {scaled, map[string]PoolGroups{"meta": {64, ScaleOn}, "data": {64, ScaleOn}}, bulk("meta", "data"), "UnsetBulk meta", ""},
		"the pool of data alone has the flag":      {scaled, map[string]PoolGroups{"meta": {16, ScaleOn}, "data": {64, ScaleOn}}, bulk("data"), "", ""},
		"somebody took it off the data":            {scaled, map[string]PoolGroups{"meta": {16, ScaleOn}, "data": {64, ScaleOn}}, bulk(), "", ""},
		"the table chooses, and the flag is there": {table, map[string]PoolGroups{"meta": {75, ScaleOff}, "data": {75, ScaleOff}}, bulk("meta", "data"), "UnsetBulk meta", ""},
		"it goes before the table lets go":         {scaled, map[string]PoolGroups{"meta": {75, ScaleOff}, "data": {75, ScaleOff}}, bulk("meta", "data"), "UnsetBulk meta", ""},
		"it goes while data move":                  {scaled, map[string]PoolGroups{"meta": {64, ScaleOn}, "data": {64, ScaleOn}}, func(f *Facts) { bulk("meta")(f); f.Groups.Clean-- }, "UnsetBulk meta", ""},
		"the flag of a pool of somebody else":      {scaled, map[string]PoolGroups{"meta": {16, ScaleOn}, "data": {64, ScaleOn}}, bulk(".mgr", "other"), "", ""},
		"the pool of the manager is nobody's here": {Grouping{Scale: ScaleOff, Disks: 3}, nil, nil, "", ""},
	} {
		f := facts([]Pool{{"meta", 2, 1}, {"data", 2, 1}}, up(1), up(2), up(3))
		f.Map.Groups = tt.have
		if tt.change != nil {
			tt.change(&f)
		}
		p := PlanPools(Pools{Names: []string{"meta", "data"}, Replicas: 2, Served: true, Grouping: tt.want}, f)
		var steps []string
		for _, s := range p.Steps {
			steps = append(steps, s.String())
		}
		waits := strings.Join(p.Waits, " ")
		if got := strings.Join(steps, "; "); got != tt.steps || !strings.Contains(waits, tt.waits) || tt.waits == "" && len(p.Waits) > 0 {
			t.Errorf("%s: steps %q, waits %q", name, got, p.Waits)
		}
	}
}
