package template

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

var epoch = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// threshold builds one from words such as "min 3 freeMax 2Ti".
func threshold(words string) v1alpha1.GlusterThreshold {
	var h v1alpha1.GlusterThreshold
	fields := strings.Fields(words)
	for i := 0; i+1 < len(fields); i += 2 {
		var n int32
		_, _ = fmt.Sscan(fields[i+1], &n)
		q := resource.MustParse(fields[i+1])
		switch fields[i] {
		case "nodes":
			h.Nodes = &n
		case "min":
			h.MinNodes = &n
		case "max":
			h.MaxNodes = &n
		case "freeMin":
			h.FreeStorageMin = &q
		case "freeMax":
			h.FreeStorageMax = &q
		default:
			panic(fields[i])
		}
	}
	return h
}

func bytesOf(s string) uint64 { return size(resource.MustParse(s)) }

// nodes builds n nodes with one capacity that have some space free together, each as much as the others.
func nodes(n int, capacity, free string) []Node {
	var all []Node
	for i := range n {
		one := Node{
			Name: fmt.Sprintf("n%d", i), Created: epoch.Add(time.Duration(i) * time.Hour), State: nodestate.Online, Joined: true,
			Data: nodestate.DataPresent, Space: &gluster.Space{Total: bytesOf(capacity), Free: bytesOf(free) / uint64(n)},
		}
		if i == n-1 {
			one.Space.Free += bytesOf(free) % uint64(n)
		}
		if one.Space.Free > one.Space.Total {
			panic("more is free than there is")
		}
		all = append(all, one)
	}
	return all
}

func (d Decision) String() string {
	out := d.Reason
	if d.Create > 0 {
		out += fmt.Sprintf(" +%d", d.Create)
	}
	if d.Remove != "" {
		out += " -" + d.Remove
	}
	if d.Sized {
		out += " sized"
	}
	return out
}

// TestReconcile_rows has the rows of A14 by their numbers.
func TestReconcile_rows(t *testing.T) {
	const all = "min 3 max 5 freeMin 1Ti freeMax 3Ti"
	for name, row := range map[string]struct {
		threshold, capacity string
		nodes               []Node
		want                string
	}{
		"1: three of three are missing":                       {"nodes 3", "1Ti", nil, "NodesMissing +3"},
		"2: one is missing":                                   {"nodes 3", "1Ti", nodes(2, "1Ti", "1Ti"), "NodesMissing +1"},
		"3: two too many, one goes":                           {"nodes 3", "1Ti", nodes(5, "1Ti", "1Ti"), "NodesSurplus -n4"},
		"3: as many as wanted":                                {"nodes 3", "1Ti", nodes(3, "1Ti", "1Ti"), "TemplateSized sized"},
		"3: none are wanted":                                  {"nodes 0", "1Ti", nodes(2, "1Ti", "1Ti"), "NodesSurplus -n1"},
		"3: none are wanted, none are there":                  {"nodes 0", "1Ti", nil, "TemplateSized sized"},
		"4: the floor comes first":                            {all, "1Ti", nodes(1, "1Ti", "100Gi"), "NodesMissing +2"},
		"5: one more for the space":                           {all, "1Ti", nodes(3, "1Ti", "500Gi"), "SpaceShort +1"},
		"6: six for the space, and two may be":                {all, "200Gi", nodes(3, "200Gi", "0"), "SpaceShort +2"},
		"7: no room to grow":                                  {all, "1Ti", nodes(5, "1Ti", "0"), "CannotGrow"},
		"8: more free than wanted":                            {all, "1Ti", nodes(5, "1Ti", "3584Gi"), "SpaceAmple -n4"},
		"9: more free than wanted, and the least nodes":       {all, "1Ti", nodes(3, "2Ti", "5Ti"), "CannotShrink sized"},
		"10: exactly the least":                               {all, "1Ti", nodes(4, "1Ti", "1Ti"), "TemplateSized sized"},
		"10: exactly the most":                                {all, "1Ti", nodes(4, "1Ti", "3Ti"), "TemplateSized sized"},
		"11: a most alone is made":                            {"max 4", "1Ti", nil, "NodesMissing +4"},
		"11: and no more":                                     {"max 4", "1Ti", nodes(4, "1Ti", "4Ti"), "TemplateSized sized"},
		"12: space alone is made":                             {"freeMax 2Ti", "1Ti", nil, "SpaceShort +2"},
		"12: and no more":                                     {"freeMax 2Ti", "1Ti", nodes(2, "1Ti", "2Ti"), "TemplateSized sized"},
		"13: space before the most":                           {"max 4 freeMax 2Ti", "1Ti", nil, "SpaceShort +2"},
		"14: the most before the space":                       {"max 1 freeMax 2Ti", "1Ti", nil, "SpaceShort +1"},
		"14: and no more":                                     {"max 1 freeMax 2Ti", "1Ti", nodes(1, "1Ti", "1Ti"), "TemplateSized sized"},
		"15: a least alone":                                   {"min 3", "1Ti", nil, "NodesMissing +3"},
		"15: more than the least stay":                        {"min 3", "1Ti", nodes(4, "1Ti", "4Ti"), "TemplateSized sized"},
		"16: no most":                                         {"freeMin 2Ti", "1Ti", nil, "SpaceShort +2"},
		"17: too much is free":                                {"min 3 freeMax 2Ti", "1Ti", nodes(4, "1Ti", "2560Gi"), "SpaceAmple -n3"},
		"17: and the least nodes":                             {"min 3 freeMax 2Ti", "1Ti", nodes(3, "1Ti", "2560Gi"), "CannotShrink sized"},
		"18: one more":                                        {"freeMin 1Ti freeMax 1536Gi", "1Ti", nodes(3, "1Ti", "900Gi"), "SpaceShort +1"},
		"18: which is not taken back":                         {"freeMin 1Ti freeMax 1536Gi", "1Ti", nodes(4, "1Ti", "1924Gi"), "CannotShrink sized"},
		"18: nor where nodes are larger than the space":       {"freeMax 2Ti", "1536Gi", nodes(2, "1536Gi", "3Ti"), "CannotShrink sized"},
		"the most was lowered, whatever is free":              {"max 3 freeMin 1Ti", "1Ti", nodes(4, "1Ti", "0"), "NodesSurplus -n3"},
		"a floor of nothing":                                  {"min 0", "1Ti", nil, "TemplateSized sized"},
		"many nodes for much space, a part of them at a time": {"freeMin 1Pi", "1Ti", nil, "SpaceShort +16"},
		"nothing wanted is no reason to grow":                 {"", "1Ti", nil, "InvalidSpec"},
		"nor are nodes without room":                          {"freeMin 1Ti", "0", nil, "InvalidSpec"},
		"j, b: a number and bounds":                           {"nodes 3 min 2", "1Ti", nil, "InvalidSpec"},
		"e: equal bounds":                                     {"min 3 max 3", "1Ti", nil, "InvalidSpec"},
		"h: equal sizes":                                      {"freeMin 1Ti freeMax 1024Gi", "1Ti", nil, "InvalidSpec"},
		"k: a negative number":                                {"nodes -1", "1Ti", nil, "InvalidSpec"},
		"k: a negative size":                                  {"freeMin -1Gi", "1Ti", nil, "InvalidSpec"},
	} {
		t.Run(name, func(t *testing.T) {
			d := Template{Threshold: threshold(row.threshold), Capacity: bytesOf(row.capacity), Nodes: row.nodes}.Reconcile()
			if d.String() != row.want {
				t.Errorf("got %q, want %q: %s", d, row.want, d.Message)
			}
		})
	}
}

// TestReconcile_whileOthers has rows 19 to 21 and what keeps the numbers as they are.
func TestReconcile_whileOthers(t *testing.T) {
	const all = "min 3 max 9 freeMin 1Ti freeMax 3Ti"
	edit := func(n []Node, edits ...func([]Node)) []Node {
		for _, e := range edits {
			e(n)
		}
		return n
	}
	state := func(i int, s nodestate.State) func([]Node) { return func(n []Node) { n[i].State = s } }
	silent := func(i int) func([]Node) { return func(n []Node) { n[i].Space = nil } }
	fresh := func(i int) func([]Node) {
		return func(n []Node) {
			n[i].Joined, n[i].Space, n[i].State, n[i].Data = false, nil, nodestate.Offline, nodestate.DataUnknown
		}
	}
	empty := func(i int) func([]Node) { return func(n []Node) { n[i].Data = nodestate.DataAbsent } }
	for name, row := range map[string]struct {
		threshold string
		nodes     []Node
		condemned string
		want      string
	}{
		"19: one does not report, no growth":                 {all, edit(nodes(3, "1Ti", "0"), silent(1)), "", "SizingFrozen"},
		"19: nor is one removed":                             {all, edit(nodes(6, "1Ti", "6Ti"), silent(1)), "", "SizingFrozen"},
		"19: nor is the floor made":                          {all, edit(nodes(2, "1Ti", "0"), silent(1)), "", "SizingFrozen"},
		"19: a silent node that is condemned does not count": {all, edit(nodes(4, "1Ti", "2Ti"), silent(3), state(3, nodestate.Failed)), "", "SizingWaits"},
		"19: one that says nonsense":                         {all, edit(nodes(3, "1Ti", "0"), func(n []Node) { n[0].Space.Free = bytesOf("2Ti") }), "", "SizingFrozen"},
		"19: one without a size":                             {all, edit(nodes(3, "1Ti", "0"), func(n []Node) { n[0].Space = &gluster.Space{} }), "", "SizingFrozen"},
		"20: one is being made, its space counts":            {all, edit(nodes(4, "1Ti", "500Gi"), fresh(3)), "", "SizingWaits"},
		"20: and one more is still short":                    {"min 3 max 9 freeMin 2Ti", edit(nodes(4, "1Ti", "500Gi"), fresh(3)), "", "SpaceShort +1"},
		"20: none is removed while one is being made":        {all, edit(nodes(6, "1Ti", "6Ti"), fresh(5)), "", "SizingWaits"},
		"21: one at a time":                                  {all, edit(nodes(6, "1Ti", "6Ti"), state(0, nodestate.Failed)), "", "SizingWaits"},
		"21: also of other templates":                        {all, nodes(6, "1Ti", "6Ti"), "other-1", "SizingWaits"},
		"21: also for a lower number":                        {"nodes 3", edit(nodes(6, "1Ti", "0"), state(0, nodestate.Abandoned)), "", "SizingWaits"},
		"a node that is condemned is replaced":               {"nodes 3", edit(nodes(3, "1Ti", "0"), state(0, nodestate.Failed)), "", "NodesMissing +1"},
		"maintenance freezes growth":                         {all, edit(nodes(3, "1Ti", "0"), state(0, nodestate.Quiesced)), "", "SizingFrozen"},
		"maintenance freezes removal":                        {all, edit(nodes(6, "1Ti", "6Ti"), state(0, nodestate.Quiesced)), "", "SizingFrozen"},
		"a node that is down freezes growth":                 {all, edit(nodes(3, "1Ti", "0"), state(0, nodestate.Offline)), "", "SizingFrozen"},
		"a node that is down freezes removal":                {"nodes 3", edit(nodes(6, "1Ti", "0"), state(0, nodestate.Offline)), "", "SizingFrozen"},
		"a fixed number is made whatever is away":            {"nodes 4", edit(nodes(3, "1Ti", "0"), state(0, nodestate.Quiesced)), "", "NodesMissing +1"},
		"one that never served goes first":                   {"nodes 3", edit(nodes(4, "1Ti", "0"), fresh(1)), "", "NodesSurplus -n1"},
		"then an empty one":                                  {"nodes 3", edit(nodes(4, "1Ti", "0"), empty(2)), "", "NodesSurplus -n2"},
		"then the one with the least in use":                 {"nodes 3", edit(nodes(4, "1Ti", "400Gi"), func(n []Node) { n[1].Space.Free++ }), "", "NodesSurplus -n1"},
		"a made one is waited for":                           {"nodes 3", edit(nodes(3, "1Ti", "0"), fresh(1)), "", "SizingWaits"},
		"a larger node takes more away than was asked for":   {"min 1 freeMin 1Ti freeMax 2Ti", nodes(2, "3Ti", "3584Gi"), "", "CannotShrink sized"},
	} {
		t.Run(name, func(t *testing.T) {
			d := Template{Threshold: threshold(row.threshold), Capacity: bytesOf("1Ti"), Nodes: row.nodes, Condemned: row.condemned}.Reconcile()
			if d.String() != row.want {
				t.Errorf("got %q, want %q: %s", d, row.want, d.Message)
			}
		})
	}
}

func TestGetFreeSpace(t *testing.T) {
	huge := nodes(3, "1Ti", "1Ti")
	for i := range huge {
		huge[i].Space = &gluster.Space{Free: 1<<63 + 1<<62, Total: 1<<63 + 1<<62}
	}
	free, err := Template{Capacity: 1, Nodes: huge}.GetFreeSpace()
	if err != nil || free != 1<<64-1 {
		t.Errorf("sizes beyond 64 bits wrap: %d, %v", free, err)
	}
	if text := Text(free); text != "8Ei or more" {
		t.Error(text)
	}
}
