package ceph

import (
	"slices"
	"testing"
)

// m and k are two machines.
const m, k = "4c4c4544-0051-3410-8051-b5c04f375931", "4c4c4544-0051-3410-8051-b5c04f375932"

func TestPlanFence(t *testing.T) {
	node := func(boot string, changes ...func(*Client)) []Client {
		c := Client{Node: "n1", Addresses: []string{"10.0.0.1"}, Boot: boot, Machine: m}
		for _, change := range changes {
			change(&c)
		}
		return []Client{c}
	}
	off := func(c *Client) { c.Off, c.Tainted = true, true }
	tainted := func(c *Client) { c.Tainted = true }
	nowhere := func(c *Client) { c.Addresses = nil }
	two := func(c *Client) { c.Addresses = append(c.Addresses, "fd00::1") }
	record := []Blocked{{Node: "n1", Address: "10.0.0.1", Boot: "one", Machine: m}}
	older := []Blocked{{Node: "n1", Address: "10.0.0.1", Boot: "one"}}
	begun := []Blocked{{Node: "n1", Address: "10.0.0.1", Boot: "one", Machine: m, Let: true}}
	other := func(c *Client) { c.Machine = k }
	twin := func(c *Client) { c.Machine = "" }
	listed, none := &[]string{"10.0.0.1"}, &[]string{}
	for name, tt := range map[string]struct {
		clients []Client
		records []Blocked
		blocked *[]string
		want    string
		waits   string
	}{
		"a node that works":                        {node("one"), nil, none, "", ""},
		"a taint of a node that answers":           {node("one", tainted), nil, none, "", ""},
		"a node that is off":                       {node("one", off), nil, none, "BlockClient 10.0.0.1 n1", ""},
		"of which nobody knows what Ceph lists":    {node("one", off), nil, nil, "BlockClient 10.0.0.1 n1", ""},
		"whose address another one has":            {append(node("one", off), Client{Node: "n9", Addresses: []string{"10.0.0.1"}}), nil, none, "", "10.0.0.1 is that of node n9 as well"},
		"whose address one has that is off":        {append(node("one", off), Client{Node: "n9", Addresses: []string{"10.0.0.1"}, Boot: "two", Off: true}), nil, none, "BlockClient 10.0.0.1 n1; BlockClient 10.0.0.1 n9", ""},
		"which somebody else blocked":              {node("one", off), nil, listed, "BlockClient 10.0.0.1 n1", ""},
		"both of its addresses":                    {node("one", off, two), nil, none, "BlockClient 10.0.0.1 n1; BlockClient fd00::1 n1", ""},
		"without an address":                       {node("one", off, nowhere), nil, none, "", "has no address"},
		"which never told of a boot":               {node("", off), nil, none, "BlockClient 10.0.0.1 n1", ""},
		"blocked":                                  {node("one", off), record, listed, "", "out of service"},
		"let in by somebody":                       {node("one", off), record, none, "BlockClient 10.0.0.1 n1", "out of service"},
		"nobody knows whether somebody did":        {node("one", off), record, nil, "", "out of service"},
		"back, with the taint":                     {node("two", tainted), record, listed, "", "out of service"},
		"off again after another boot":             {node("two", off), record, listed, "BlockClient 10.0.0.1 n1", ""},
		"back without a boot":                      {node("one"), record, listed, "", "booted anew"},
		"back without a boot, and let in":          {node("one"), record, none, "BlockClient 10.0.0.1 n1", "booted anew"},
		"back, and tells of no boot":               {node(""), record, listed, "", "booted anew"},
		"booted anew":                              {node("two"), record, listed, "UnblockClient 10.0.0.1 n1", ""},
		"no node's address":                        {nil, nil, listed, "", "no node has this address"},
		"booted anew, and the list cannot be read": {node("two"), record, nil, "UnblockClient 10.0.0.1 n1", ""},
		"another machine":                          {node("two", other), record, listed, "UnblockClient 10.0.0.1 n1", "another machine"},
		"another machine, and let in":              {node("two", other), record, none, "BlockClient 10.0.0.1 n1; UnblockClient 10.0.0.1 n1", "another machine"},
		"another machine that is off":              {node("two", other, off), record, listed, "BlockClient 10.0.0.1 n1; UnblockClient 10.0.0.1 n1", "another machine"},
		"booted anew, and another one's twin":      {node("two", twin), record, listed, "UnblockClient 10.0.0.1 n1", "same systemUUID"},
		"a twin that was not booted":               {node("one", twin), record, listed, "", "booted anew"},
		"a record of no machine, booted anew":      {node("two"), older, listed, "UnblockClient 10.0.0.1 n1", "another machine"},
		"a record of no machine, off still":        {node("one", off), older, listed, "BlockClient 10.0.0.1 n1", ""},
		"gone from Kubernetes":                     {nil, record, listed, "UnblockClient 10.0.0.1 n1", "approve UnblockClient"},
		"gone from Kubernetes, and let in":         {nil, record, none, "BlockClient 10.0.0.1 n1; UnblockClient 10.0.0.1 n1", "approve UnblockClient"},
		"begun to be let in":                       {node("two"), begun, listed, "UnblockClient 10.0.0.1 n1", ""},
		"begun, and it was not booted after all":   {node("one"), begun, none, "BlockClient 10.0.0.1 n1", ""},
		"begun, and Ceph has let it in":            {nil, begun, none, "UnblockClient 10.0.0.1 n1", ""},
		"begun, and out of service again":          {node("two", tainted), begun, none, "BlockClient 10.0.0.1 n1", ""},
		"begun, and off again":                     {node("one", off), begun, listed, "BlockClient 10.0.0.1 n1", ""},
		"begun, and another machine is off":        {node("two", other, off), begun, listed, "BlockClient 10.0.0.1 n1; UnblockClient 10.0.0.1 n1", ""},
		"somebody else's address":                  {node("one"), nil, listed, "", "that is node n1), and no record"},
	} {
		f := facts(nil, up(1))
		f.Blocked = tt.blocked
		p := PlanFence(Fence{Clients: tt.clients, Records: tt.records}, f)
		check(t, name, p, tt.want, tt.waits)
		for _, s := range p.Steps {
			byItself := s.Let || slices.Contains([]string{"booted anew", "booted anew, and the list cannot be read"}, name)
			if asked := s.Loses != ""; asked != (s.Do == UnblockClient && !byItself) {
				t.Errorf("%s: whether a person approves %s: %t", name, s, asked)
			}
		}
	}
	check(t, "nobody answers", PlanFence(Fence{Clients: node("one", off), Records: record}, Facts{}), "", "do not answer")
}

// TestMayUnblock_begun: what was begun goes on unless the node turns out to run in the boot that was to be over, and then it is blocked again.
func TestMayUnblock_begun(t *testing.T) {
	r := Blocked{Node: "n1", Address: "10.0.0.1", Boot: "one", Machine: m, Let: true}
	for name, tt := range map[string]struct {
		now   Client
		goes  bool
		block bool
	}{
		"booted anew":                 {Client{Node: "n1", Addresses: []string{"10.0.0.1"}, Boot: "two", Machine: m}, true, false},
		"Kubernetes does not know it": {Client{}, true, false},
		"in the boot of before":       {Client{Node: "n1", Addresses: []string{"10.0.0.1"}, Boot: "one", Machine: m}, false, true},
		"out of service":              {Client{Node: "n1", Addresses: []string{"10.0.0.1"}, Boot: "two", Machine: m, Tainted: true}, false, true},
	} {
		if got := MayUnblock(r.step(UnblockClient, ""), tt.now); (got == "") != tt.goes {
			t.Errorf("%s: unblock: %q", name, got)
		}
		back := r
		back.Let = false
		if got := MayBlock(back.step(BlockClient, ""), tt.now, []Blocked{r}); (got == "") != tt.block {
			t.Errorf("%s: block: %q", name, got)
		}
	}
}

// TestMayUnblock_gone: a person lets the address of a node go that Kubernetes does not know any more.
func TestMayUnblock_gone(t *testing.T) {
	if got := MayUnblock((Blocked{Node: "n1", Address: "10.0.0.1", Boot: "one"}).release("gone"), Client{}); got != "" {
		t.Errorf("a node that is gone: %q", got)
	}
}

// TestMayBlock: between the decision and the step a node may have come back.
func TestMayBlock(t *testing.T) {
	s := Step{Do: BlockClient, Host: "n1", Name: "10.0.0.1", Boot: "one", Machine: m}
	record := []Blocked{{Node: "n1", Address: "10.0.0.1", Boot: "one", Machine: m}}
	for name, tt := range map[string]struct {
		now     Client
		records []Blocked
		block   bool
		unblock bool
	}{
		"off":                   {Client{Addresses: []string{"10.0.0.1"}, Boot: "one", Machine: m, Off: true, Tainted: true}, nil, true, false},
		"back":                  {Client{Addresses: []string{"10.0.0.1"}, Boot: "one", Machine: m}, nil, false, false},
		"back, and on record":   {Client{Addresses: []string{"10.0.0.1"}, Boot: "one", Machine: m}, record, true, false},
		"booted anew":           {Client{Addresses: []string{"10.0.0.1"}, Boot: "two", Machine: m}, nil, false, true},
		"booted anew, tainted":  {Client{Addresses: []string{"10.0.0.1"}, Boot: "two", Machine: m, Tainted: true}, nil, false, false},
		"off after another one": {Client{Addresses: []string{"10.0.0.1"}, Boot: "two", Machine: m, Off: true, Tainted: true}, nil, false, false},
		"at another address":    {Client{Addresses: []string{"10.0.0.2"}, Boot: "one", Machine: m, Off: true, Tainted: true}, nil, false, false},
		"gone":                  {Client{}, nil, false, false},
	} {
		if got := MayBlock(s, tt.now, tt.records); (got == "") != tt.block {
			t.Errorf("%s: block: %q", name, got)
		}
		if got := MayUnblock(s, tt.now); (got == "") != tt.unblock {
			t.Errorf("%s: unblock: %q", name, got)
		}
		// What a person lets go is the address of a node that is gone: one that is back tells of its boot itself.
		back := tt.now
		back.Node = "n1"
		if got := MayUnblock(record[0].release("gone"), back); got == "" {
			t.Errorf("%s: an approval of before lets in a node that is back", name)
		}
	}
}

// TestMayUnblock_stranger: another boot of another machine, or of one that nobody knows, says nothing about the machine that is blocked. A person does.
func TestMayUnblock_stranger(t *testing.T) {
	for name, machines := range map[string][2]string{"another machine": {m, k}, "a machine that does not say": {m, ""}, "a record of no machine": {"", k}, "nobody knows": {"", ""}} {
		r := Blocked{Node: "n1", Address: "10.0.0.1", Boot: "one", Machine: machines[0]}
		now := Client{Node: "n1", Addresses: []string{"10.0.0.1"}, Boot: "two", Machine: machines[1]}
		if MayUnblock(r.step(UnblockClient, ""), now) == "" || MayUnblock(r.release(""), now) != "" {
			t.Errorf("%s: by itself %q, by a person %q", name, MayUnblock(r.step(UnblockClient, ""), now), MayUnblock(r.release(""), now))
		}
		if n := now.blocked("10.0.0.1"); n.Replaces(r) || n.covers(r) {
			t.Errorf("%s: the record of the machine of before is given up", name)
		}
	}
}
