package ceph

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// hosts makes hosts that serve; a name may end in "-" for one that leaves, "!" for one that does not serve, "~" for one in maintenance.
func hosts(names ...string) []Host {
	var out []Host
	for _, n := range names {
		name := strings.TrimRight(n, "-!~")
		out = append(out, Host{Name: name, Answers: !strings.Contains(n, "!"), Serving: !strings.Contains(n, "!"), Leaving: strings.Contains(n, "-"), Maintenance: strings.Contains(n, "~")})
	}
	return out
}

// records makes records of monitors, each "name@host".
func records(texts ...string) []MonitorRecord {
	var out []MonitorRecord
	for _, text := range texts {
		name, host, _ := strings.Cut(text, "@")
		out = append(out, MonitorRecord{name, host})
	}
	return out
}

// quorum makes a map of monitors; a name may end in "!" for one that is not in the quorum.
func quorum(names ...string) *Quorum {
	q := &Quorum{MinRelease: 20}
	for _, n := range names {
		q.Monitors = append(q.Monitors, Monitor{Name: strings.TrimRight(n, "!"), In: !strings.HasSuffix(n, "!")})
	}
	return q
}

// at gives hosts n1, n2, … the addresses 10.0.0.1, 10.0.0.2, …
func at(all []Host) []Host {
	for i := range all {
		all[i].Address = "10.0.0." + strings.TrimPrefix(all[i].Name, "n")
	}
	return all
}

// listening has the monitors of a map listen at 10.0.0.1, 10.0.0.2, …, in their order.
func listening(q *Quorum) *Quorum {
	for i := range q.Monitors {
		q.Monitors[i].Address = fmt.Sprintf("10.0.0.%d", i+1)
	}
	return q
}

func lines(p Plan) string {
	var out []string
	for _, s := range p.Steps {
		out = append(out, s.String())
	}
	return strings.Join(out, "; ")
}

// check compares the steps of a plan, and wants it to wait for something that is told with the words, if there are any.
func check(t *testing.T, name string, p Plan, want, waits string) {
	t.Helper()
	if got := lines(p); got != want {
		t.Errorf("%s: %q, want %q (waits: %q)", name, got, want, p.Waits)
	}
	if told := strings.Join(p.Waits, " "); waits == "" && told != "" || !strings.Contains(told, waits) {
		t.Errorf("%s: waits %q, want %q", name, told, waits)
	}
	for _, s := range p.Steps {
		if s.Why == "" {
			t.Errorf("%s: %s has no reason", name, s)
		}
	}
}

func TestPlanMonitors(t *testing.T) {
	three := records("a@n1", "b@n2", "c@n3")
	for name, tt := range map[string]struct {
		count    int
		records  []MonitorRecord
		deployed []string
		hosts    []Host
		quorum   *Quorum
		formed   bool
		want     string
		waits    string
	}{
		"the first monitor":                        {0, nil, nil, hosts("n2", "n1", "n3"), nil, false, "StartMonitor z n1", ""},
		"the first one on a host that serves":      {0, nil, nil, hosts("n1!", "n2~", "n3"), nil, false, "StartMonitor z n3", ""},
		"no host for the first one":                {0, nil, nil, hosts("n1!"), nil, false, "", "No host"},
		"no record, but monitors that answer":      {0, nil, nil, hosts("n1"), quorum("a"), false, "", "no record"},
		"no record, but a workload":                {0, nil, []string{"a"}, hosts("n1"), nil, false, "", "no record"},
		"no record, but a cluster that was there":  {0, nil, nil, hosts("n1"), nil, true, "", "no record"},
		"killed before the first was deployed":     {0, records("a@n1"), nil, hosts("n1", "n2", "n3"), nil, false, "StartMonitor a n1", ""},
		"the first one does not answer yet":        {0, records("a@n1"), []string{"a"}, hosts("n1", "n2", "n3"), nil, false, "", "do not answer"},
		"the second":                               {0, records("a@n1"), []string{"a"}, hosts("n1", "n2", "n3"), quorum("a"), true, "StartMonitor z n2", ""},
		"the second is on its way":                 {0, records("a@n1", "b@n2"), []string{"a", "b"}, hosts("n1", "n2", "n3"), quorum("a"), true, "", "b on host n2 is not in the quorum"},
		"the third":                                {0, records("a@n1", "b@n2"), []string{"a", "b"}, hosts("n1", "n2", "n3"), quorum("a", "b"), true, "StartMonitor z n3", ""},
		"three are enough":                         {0, three, []string{"a", "b", "c"}, hosts("n1", "n2", "n3", "n4"), quorum("a", "b", "c"), true, "", ""},
		"one on two hosts":                         {0, records("a@n1"), []string{"a"}, hosts("n1", "n2"), quorum("a"), true, "", ""},
		"five when asked for":                      {5, three, []string{"a", "b", "c"}, hosts("n1", "n2", "n3", "n4", "n5"), quorum("a", "b", "c"), true, "StartMonitor z n4", ""},
		"five on four hosts are three":             {5, three, []string{"a", "b", "c"}, hosts("n1", "n2", "n3", "n4"), quorum("a", "b", "c"), true, "", ""},
		"no fourth while one is missing":           {5, three, []string{"a", "b", "c"}, hosts("n1", "n2", "n3", "n4", "n5"), quorum("a", "b", "c!"), true, "", "not in the quorum"},
		"one when asked for":                       {1, three, []string{"a", "b", "c"}, hosts("n1", "n2", "n3"), quorum("a", "b", "c"), true, "RemoveMonitor c n3", ""},
		"one of two when asked for":                {1, records("a@n1", "b@n2"), []string{"a", "b"}, hosts("n1", "n2", "n3"), quorum("a", "b"), true, "RemoveMonitor b n2", ""},
		"two stay where a host left":               {0, records("a@n1", "b@n2"), []string{"a", "b"}, hosts("n1", "n2"), quorum("a", "b"), true, "", ""},
		"the one that is missing goes first":       {1, three, []string{"a", "b", "c"}, hosts("n1", "n2", "n3"), quorum("a!", "b", "c"), true, "RemoveMonitor a n1", ""},
		"a host leaves, its successor comes first": {0, three, []string{"a", "b", "c"}, hosts("n1", "n2", "n3-", "n4"), quorum("a", "b", "c"), true, "StartMonitor z n4", ""},
		"the successor is on its way": {
			0, append(slices.Clone(three), records("d@n4")...), []string{"a", "b", "c", "d"}, hosts("n1", "n2", "n3-", "n4"), quorum("a", "b", "c"), true, "", "stays until monitor d",
		},
		"the successor is there": {
			0, append(slices.Clone(three), records("d@n4")...), []string{"a", "b", "c", "d"}, hosts("n1", "n2", "n3-", "n4"), quorum("a", "b", "c", "d"), true, "RemoveMonitor c n3", "",
		},
		"a host leaves, and there is no other":       {0, three, []string{"a", "b", "c"}, hosts("n1", "n2", "n3-"), quorum("a", "b", "c"), true, "RemoveMonitor c n3", ""},
		"a host that is dead leaves":                 {0, three, []string{"a", "b", "c"}, hosts("n1", "n2", "n3-", "n4"), quorum("a", "b", "c!"), true, "RemoveMonitor c n3", ""},
		"a host is gone from the Cluster":            {0, three, []string{"a", "b", "c"}, hosts("n1", "n2", "n4"), quorum("a", "b", "c!"), true, "RemoveMonitor c n3", ""},
		"a host leaves while another one is dead":    {0, three, []string{"a", "b", "c"}, hosts("n1", "n2", "n3-"), quorum("a", "b!", "c"), true, "", "stays until monitor b"},
		"the last monitor never goes":                {0, records("a@n1"), []string{"a"}, hosts("n1-"), quorum("a"), true, "", "0 of 0"},
		"all hosts leave":                            {0, records("a@n1", "b@n2"), []string{"a", "b"}, hosts("n1-", "n2-"), quorum("a", "b"), true, "RemoveMonitor a n1", ""},
		"a dead host that stays":                     {0, three, []string{"a", "b", "c"}, hosts("n1", "n2", "n3!", "n4"), quorum("a", "b", "c!"), true, "", "not in the quorum"},
		"a removal that was killed":                  {0, three, []string{"a", "b", "c"}, hosts("n1", "n2", "n3-"), quorum("a", "b"), true, "RemoveMonitor c n3", ""},
		"a workload that somebody deleted":           {0, three, []string{"a", "c"}, hosts("n1", "n2", "n3"), quorum("a", "b!", "c"), true, "StartMonitor b n2", ""},
		"a workload on a host that does not serve":   {0, three, []string{"a", "c"}, hosts("n1", "n2!", "n3"), quorum("a", "b!", "c"), true, "", "not in the quorum"},
		"a workload on a host in maintenance":        {0, three, []string{"a", "c"}, hosts("n1", "n2~", "n3"), quorum("a", "b!", "c"), true, "", "not in the quorum"},
		"one too many, in maintenance":               {1, three, []string{"a", "b", "c"}, hosts("n1", "n2", "n3~"), quorum("a", "b", "c!"), true, "", "Monitor c is one too many. It is removed after the maintenance of host n3"},
		"one too many, another in maintenance":       {1, three, []string{"a", "b", "c"}, hosts("n1~", "n2", "n3"), quorum("a", "b", "c"), true, "", "Monitor c is one too many. It is removed after the maintenance of host n1"},
		"one too many that is dead":                  {1, three, []string{"a", "b", "c"}, hosts("n1~", "n2", "n3"), quorum("a", "b", "c!"), true, "RemoveMonitor c n3", ""},
		"a monitor of somebody else":                 {0, three, []string{"a", "b", "c"}, hosts("n1", "n2", "n3-", "n4"), quorum("a", "b", "c", "q"), true, "", "q is on no record"},
		"one that is off the record":                 {0, records("a@n1", "b@n2"), []string{"a", "b"}, at(hosts("n1", "n2", "n3")), listening(quorum("a", "b", "c!")), true, "AdoptMonitor c n3 10.0.0.3", ""},
		"one that is off the record, and deployed":   {0, records("a@n1", "b@n2"), []string{"a", "b", "c"}, at(hosts("n1", "n2", "n3")), listening(quorum("a", "b", "c")), true, "AdoptMonitor c n3 10.0.0.3", ""},
		"one off the record whose host leaves":       {0, records("a@n1", "b@n2"), []string{"a", "b"}, at(hosts("n1", "n2", "n3-")), listening(quorum("a", "b", "c!")), true, "AdoptMonitor c n3 10.0.0.3", ""},
		"somebody else runs one on our host":         {0, records("a@n1", "b@n2"), []string{"a", "b"}, at(hosts("n1", "n2", "n3")), listening(quorum("a", "b", "c")), true, "", "c runs on host n3"},
		"one off the record, where another one is":   {0, records("a@n1", "d@n3"), []string{"a", "d"}, at(hosts("n1", "n2", "n3")), listening(quorum("a", "d", "c!")), true, "", "which has monitor d"},
		"one off the record at no address of ours":   {0, records("a@n1", "b@n2"), []string{"a", "b"}, at(hosts("n1", "n2")), listening(quorum("a", "b", "c!")), true, "", "has its address 10.0.0.3"},
		"one at no address that anybody knows":       {0, records("a@n1", "b@n2"), []string{"a", "b"}, hosts("n1", "n2", "n3"), quorum("a", "b", "c!"), true, "", "c is on no record"},
		"one whose name the Cluster gives to none":   {0, records("a@n1", "b@n2"), []string{"a", "b"}, at(hosts("n1", "n2", "n3")), listening(quorum("a", "b", "mon.3!")), true, "", "mon.3 has a name that Quarry gives to none"},
		"what is said is no quorum":                  {0, three, []string{"a", "b", "c"}, hosts("n1", "n2", "n3-"), quorum("a", "b!", "c!"), true, "", "1 of 2"},
		"no quorum is known":                         {0, three, []string{"a", "b", "c"}, hosts("n1", "n2", "n3-", "n4"), nil, true, "", "do not answer"},
		"the only one of a cluster that was there":   {0, records("a@n1"), nil, hosts("n1"), nil, true, "StartMonitor a n1", ""},
		"one even if three are asked for, on two":    {3, records("a@n1"), []string{"a"}, hosts("n1", "n2"), quorum("a"), true, "", ""},
		"a host in maintenance gets no monitor":      {0, records("a@n1", "b@n2"), []string{"a", "b"}, hosts("n1", "n2", "n3~"), quorum("a", "b"), true, "", "No host can run one more"},
		"leaving host in maintenance, no successor ": {0, three, []string{"a", "b", "c"}, hosts("n1", "n2", "n3-~", "n4~"), quorum("a", "b", "c"), true, "RemoveMonitor c n3", ""},
	} {
		w := Monitors{Count: tt.count, Records: tt.records, Next: "z", Deployed: &tt.deployed, Hosts: tt.hosts, Formed: tt.formed}
		p := PlanMonitors(w, Facts{Quorum: tt.quorum})
		check(t, name, p, tt.want, tt.waits)
		for _, s := range p.Steps {
			if s.First && (tt.formed || tt.quorum != nil) {
				t.Errorf("%s: %s makes another cluster", name, s)
			}
		}
	}
}

func TestPlanMonitors_unknownWorkloads(t *testing.T) {
	p := PlanMonitors(Monitors{Next: "a", Hosts: hosts("n1")}, Facts{})
	check(t, "nobody knows what is deployed", p, "", "cannot be read")
}

// TestPlanMonitors_joining: a monitor that the others do not know is not ended while it may join them, if they were no quorum then without it. One that was removed and joined all the same is removed once more.
func TestPlanMonitors_joining(t *testing.T) {
	two, three := records("a@n1", "b@n2"), records("a@n1", "b@n2", "c@n3")
	for name, tt := range map[string]struct {
		count   int
		records []MonitorRecord
		failing []string
		swept   []MonitorRecord
		hosts   []Host
		quorum  *Quorum
		want    string
		waits   string
	}{
		"it may join":                       {1, two, nil, nil, hosts("n1", "n2", "n3"), quorum("a"), "", "b on host n2 has not joined the others yet"},
		"it may join, and its host leaves":  {0, two, nil, nil, hosts("n1", "n2-"), quorum("a"), "", "b on host n2 has not joined the others yet"},
		"its pod fails":                     {1, two, []string{"b"}, nil, hosts("n1", "n2", "n3"), quorum("a"), "RemoveMonitor b n2", ""},
		"its host is away":                  {1, two, nil, nil, hosts("n1", "n2!", "n3"), quorum("a"), "RemoveMonitor b n2", ""},
		"it joined":                         {1, two, nil, nil, hosts("n1", "n2", "n3"), quorum("a", "b"), "RemoveMonitor b n2", ""},
		"two others bear it":                {2, three, nil, nil, hosts("n1", "n2", "n3"), quorum("a", "b"), "RemoveMonitor c n3", ""},
		"two others of which one is away":   {2, three, nil, nil, hosts("n1", "n2", "n3"), quorum("a", "b!"), "", "in the quorum"},
		"it was removed, and joined":        {0, records("a@n1", "b@n2"), nil, records("c@n3"), hosts("n1", "n2", "n3"), quorum("a", "b", "c"), "RemoveMonitor c n3", ""},
		"it was removed, joined and ended":  {0, records("a@n1", "b@n2"), nil, records("c@n3"), hosts("n1", "n2", "n3"), quorum("a", "b", "c!"), "RemoveMonitor c n3", ""},
		"another one was removed, and left": {0, three, nil, records("d@n3"), hosts("n1", "n2", "n3"), quorum("a", "b", "c"), "", ""},
	} {
		deployed := []string{"a", "b", "c"}
		w := Monitors{Count: tt.count, Records: tt.records, Next: "z", Deployed: &deployed, Failing: tt.failing, Swept: tt.swept, Hosts: tt.hosts, Formed: true}
		check(t, name, PlanMonitors(w, Facts{Quorum: tt.quorum}), tt.want, tt.waits)
	}
}

// TestPlanMonitors_first: exactly the first one makes the cluster.
func TestPlanMonitors_first(t *testing.T) {
	none := []string{}
	for name, tt := range map[string]struct {
		w    Monitors
		want bool
	}{
		"nothing is there":          {Monitors{Next: "a", Hosts: hosts("n1"), Deployed: &none}, true},
		"the record was written":    {Monitors{Records: records("a@n1"), Hosts: hosts("n1"), Deployed: &none}, true},
		"the cluster was there":     {Monitors{Records: records("a@n1"), Hosts: hosts("n1"), Deployed: &none, Formed: true}, false},
		"two are on record already": {Monitors{Records: records("a@n1", "b@n2"), Hosts: hosts("n1", "n2"), Deployed: &none}, false},
	} {
		if p := PlanMonitors(tt.w, Facts{}); len(p.Steps) != 1 || p.Steps[0].First != tt.want {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// TestTogether: plans that were made of the same facts do not take away twice.
func TestTogether(t *testing.T) {
	stop, replace := Step{Do: StopOSD, ID: 1, UUID: "u", Why: "w"}, Step{Do: ReplaceDaemon, Name: "osd.2", ID: -1, Why: "w"}
	start, out := Step{Do: StartOSD, ID: 3, UUID: "v", Why: "w"}, Step{Do: OutOSD, ID: 4, UUID: "x", Why: "w"}
	remove, add := Step{Do: RemoveMonitor, Name: "a", Why: "w"}, Step{Do: StartMonitor, Name: "b", Why: "w"}
	first := Step{Do: StartMonitor, Name: "b", First: true, Why: "w"}
	for name, tt := range map[string]struct {
		steps []Step
		want  string
		waits string
	}{
		"one of two":              {[]Step{stop, replace}, "StopOSD osd.1 (u)", "ReplaceDaemon osd.2 waits for StopOSD"},
		"what only adds":          {[]Step{start, stop, out}, "StartOSD osd.3 (v); StopOSD osd.1 (u); OutOSD osd.4 (x)", ""},
		"a monitor and an OSD":    {[]Step{remove, stop}, "RemoveMonitor a", "waits for RemoveMonitor a"},
		"a monitor more and less": {[]Step{add, remove}, "StartMonitor b", "waits for StartMonitor b"},
		"the first monitor":       {[]Step{first, start}, "StartMonitor b; StartOSD osd.3 (v)", ""},
	} {
		var plans []Plan
		for _, s := range tt.steps {
			plans = append(plans, Plan{Steps: []Step{s}})
		}
		check(t, name, Together(plans...), tt.want, tt.waits)
	}
}

// TestPlanMonitors_unmade: where the Ceph cluster exists, or may exist, without any record of that, no monitor makes another one under its FSID. One that is on record is started if it does exist, with the store that it has, and waits as long as nobody knows.
func TestPlanMonitors_unmade(t *testing.T) {
	const told = "It may exist."
	none := []string{}
	w := Monitors{Hosts: hosts("n1", "n2", "n3"), Next: "a", Deployed: &none, Unmade: told}
	check(t, "no monitor is on record", PlanMonitors(w, Facts{}), "", told)
	w.Records = records("a@n1")
	check(t, "nobody knows", PlanMonitors(w, Facts{}), "", told)
	for _, exists := range []bool{false, true} {
		if w.Exists, w.Unmade = exists, ""; exists {
			w.Unmade = told
		}
		p := PlanMonitors(w, Facts{})
		if len(p.Steps) == 0 || p.Steps[0].Do != StartMonitor || p.Steps[0].First == exists {
			t.Errorf("exists %t: %+v", exists, p)
		}
	}
	w.Records, w.Known, w.Exists, w.Unmade = nil, records("b@n2"), false, ""
	w.Hosts, w.Formed = at(w.Hosts), true
	if p := PlanMonitors(w, Facts{}); len(p.Steps) != 1 || p.Steps[0].Do != AdoptMonitor || p.Steps[0].Host != "n2" {
		t.Errorf("a person names one: %+v", p)
	}
}
