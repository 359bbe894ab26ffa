package ceph

import (
	"cmp"
	"strings"
	"testing"

	"quarry.storage/quarry/pkg/cephname"
)

func TestReplicas(t *testing.T) {
	for _, tt := range []struct{ spec, hosts, want, least int }{
		{0, 0, 1, 1}, {0, 1, 1, 1}, {0, 2, 2, 1}, {0, 3, 3, 2}, {0, 9, 3, 2}, {2, 9, 2, 1}, {1, 3, 1, 1}, {4, 4, 4, 2}, {5, 5, 5, 3},
	} {
		got, err := Replicas(tt.spec, tt.hosts)
		if err != nil || got != tt.want || MinSize(got) != tt.least {
			t.Errorf("%d asked for, %d hosts: %d copies, %d to serve, %v", tt.spec, tt.hosts, got, MinSize(got), err)
		}
		if (Risk(got) == "") != (got >= 3) {
			t.Errorf("%d copies: risk %q", got, Risk(got))
		}
	}
	for _, spec := range []int{-1, 6} {
		if n, err := Replicas(spec, 3); err == nil {
			t.Errorf("%d replicas are %d", spec, n)
		}
	}
}

func TestPlanPools(t *testing.T) {
	degraded := func(f *Facts) { f.Groups.Clean-- }
	// Two hosts are half full, and the third one is small.
	filled := func(f *Facts) {
		for i := range 2 {
			f.Map.OSDs[i].UsedBytes = 5 * gib
		}
		f.Map.OSDs[2].UsedBytes, f.Map.OSDs[2].TotalBytes = 0, gib
	}
	for name, tt := range map[string]struct {
		replicas int
		pools    []Pool
		served   bool
		change   func(*Facts)
		want     string
		loses    string
		waits    string
	}{
		"the first":                               {3, nil, false, nil, "CreatePool meta 3", "", ""},
		"the second":                              {3, []Pool{{"meta", 3, 2}}, false, nil, "CreatePool data 3", "", ""},
		"both are there":                          {3, []Pool{{"meta", 3, 2}, {"data", 3, 2}, {".mgr", 3, 2}}, true, nil, "", "", ""},
		"too few hosts":                           {4, nil, false, nil, "", "", "there are 3"},
		"too few OSDs are up":                     {3, nil, false, func(f *Facts) { f.Map.OSDs[0].Up = false }, "", "", "there are 2"},
		"one that is gone":                        {3, []Pool{{"meta", 3, 2}}, true, nil, "", "", "is gone"},
		"all that are gone":                       {3, nil, true, nil, "", "", "is gone"},
		"the size grows":                          {3, []Pool{{"meta", 2, 1}, {"data", 2, 1}}, true, nil, "SetSize meta 3", "", ""},
		"the size grows, and the hosts do not":    {4, []Pool{{"meta", 3, 2}, {"data", 3, 2}}, true, nil, "", "", "there are 3 places"},
		"the size grows, and fills a host":        {3, []Pool{{"meta", 2, 1}, {"data", 2, 1}}, true, filled, "", "", "Pool meta keeps 2 copies: 3 would need 16106127360 bytes, and 11650098770 of them have room below 85 percent with no two copies in one place. The smallest, host n3, has 1073741824 bytes. Add disks there, or set spec.ceph.replicas to 2."},
		"the size grows, and a size is unknown":   {3, []Pool{{"meta", 2, 1}, {"data", 2, 1}}, true, func(f *Facts) { f.Map.OSDs[2].TotalBytes = 0 }, "", "", "how full osd.3 is cannot be read"},
		"an OSD is new":                           {3, []Pool{{"meta", 2, 1}, {"data", 2, 1}}, true, func(f *Facts) { f.Map.OSDs = append(f.Map.OSDs, OSD{ID: 4, New: true, In: true}) }, "SetSize meta 3", "", ""},
		"the size grows, and copies are made yet": {3, []Pool{{"meta", 2, 1}, {"data", 2, 1}}, true, degraded, "", "", "Pool meta keeps 2 copies, and gets no more before it is known that every placement group is clean."},
		"the size grows, and nobody knows more":   {3, []Pool{{"meta", 2, 1}, {"data", 2, 1}}, true, func(f *Facts) { f.Groups = nil }, "", "", "gets no more before"},
		"copies are being made":                   {3, []Pool{{"meta", 3, 1}, {"data", 2, 1}}, true, degraded, "", "", "until every copy is there"},
		"copies are made":                         {3, []Pool{{"meta", 3, 1}, {"data", 2, 1}}, true, nil, "SetMinSize meta 2", "", ""},
		"nobody knows whether they are":           {3, []Pool{{"meta", 3, 1}, {"data", 2, 1}}, true, func(f *Facts) { f.Groups = nil }, "", "", "until every copy is there"},
		"fewer copies: min_size first":            {2, []Pool{{"meta", 3, 2}, {"data", 3, 2}}, true, nil, "SetMinSize meta 1", "Placement groups of pool meta serve with 1 copies, not 2.", ""},
		"fewer copies: the size":                  {2, []Pool{{"meta", 3, 1}, {"data", 3, 2}}, true, nil, "SetSize meta 2", "1 of 3 copies of everything in pool meta.", ""},
		"fewer copies, while some are missing":    {2, []Pool{{"meta", 3, 1}, {"data", 3, 2}}, true, degraded, "", "", "where it belongs"},
		"fewer copies, where a host is gone":      {2, []Pool{{"meta", 3, 1}, {"data", 3, 2}}, true, func(f *Facts) { f.Groups = &Groups{Total: 8, Clean: 3, Short: 5, Undersized: 5} }, "SetSize meta 2", "1 of 3 copies of everything in pool meta.", ""},
		"fewer copies, and one is being made":     {2, []Pool{{"meta", 3, 1}, {"data", 3, 2}}, true, func(f *Facts) { f.Groups = &Groups{Total: 8, Clean: 3, Short: 5, Undersized: 4} }, "", "", "where it belongs"},
		"min_size of all copies":                  {3, []Pool{{"meta", 3, 3}, {"data", 3, 2}}, true, nil, "SetMinSize meta 2", "Placement groups of pool meta serve with 2 copies, not 3.", ""},
		"fewer copies, and nobody knows":          {2, []Pool{{"meta", 3, 1}, {"data", 3, 2}}, true, func(f *Facts) { f.Groups = nil }, "", "", "where it belongs"},
		"somebody made it less safe":              {3, []Pool{{"meta", 3, 1}, {"data", 3, 2}}, true, nil, "SetMinSize meta 2", "", ""},
		"a number that cannot be":                 {0, nil, false, nil, "", "", "not possible"},
		"no map":                                  {3, nil, false, func(f *Facts) { f.Map = nil }, "", "", "do not answer"},
		"no quorum":                               {3, nil, false, func(f *Facts) { f.Quorum = nil }, "", "", "do not answer"},
		"an empty list of groups is not clean ":   {3, []Pool{{"meta", 3, 1}, {"data", 3, 2}}, true, func(f *Facts) { f.Groups = &Groups{} }, "", "", "until every copy is there"},
	} {
		f := facts(tt.pools, up(1), up(2), up(3))
		if tt.change != nil {
			tt.change(&f)
		}
		p := PlanPools(Pools{Names: []string{"meta", "data"}, Replicas: tt.replicas, Served: tt.served, Grouping: Grouping{Bulk: []string{"data"}}}, f)
		check(t, name, p, tt.want, tt.waits)
		if len(p.Steps) > 0 && p.Steps[0].Bulk != (p.Steps[0].Do == CreatePool && p.Steps[0].Name == "data") {
			t.Errorf("%s: bulk %t", name, p.Steps[0].Bulk)
		}
		if len(p.Steps) > 0 && p.Steps[0].Loses != tt.loses {
			t.Errorf("%s: loses %q, want %q", name, p.Steps[0].Loses, tt.loses)
		}
	}
}

func TestPlanFlags(t *testing.T) {
	for name, tt := range map[string]struct {
		host  string
		set   []string
		flags map[string][]string
		all   []string
		want  string
		waits string
	}{
		"maintenance begins":                  {"n1~", nil, nil, nil, "SetNoOut n1", ""},
		"maintenance goes on":                 {"n1~", []string{"n1"}, map[string][]string{"n1": {"noout"}}, nil, "", ""},
		"the flag got lost":                   {"n1~", []string{"n1"}, nil, nil, "SetNoOut n1", ""},
		"maintenance ends":                    {"n1", []string{"n1"}, map[string][]string{"n1": {"noout"}}, nil, "UnsetNoOut n1", ""},
		"the flag is gone, the record is not": {"n1", []string{"n1"}, nil, nil, "UnsetNoOut n1", ""},
		"the same, and the host leaves":       {"n1-", []string{"n1"}, nil, nil, "UnsetNoOut n1", ""},
		"the flag of somebody else":           {"n1", nil, map[string][]string{"n1": {"noout"}}, nil, "", "somebody else"},
		"the flag of somebody else meanwhile": {"n1~", nil, map[string][]string{"n1": {"noout"}}, nil, "", ""},
		"the host leaves instead":             {"n1~-", []string{"n1"}, map[string][]string{"n1": {"noout"}}, nil, "UnsetNoOut n1", ""},
		"a host without OSDs":                 {"n9~", nil, nil, nil, "", ""},
		"a flag of a host that is not listed": {"n1", nil, map[string][]string{"n7": {"noout"}, "rack1": {"noout"}}, nil, "", "set for the OSDs of host n7, which the Cluster does not have"},
		"a flag for all":                      {"n1", nil, nil, []string{"noout", "sortbitwise"}, "", "noout is set for all"},
	} {
		f := facts(nil, up(1))
		f.Map.HostFlags, f.Map.Flags, f.Map.Hosts = tt.flags, tt.all, []string{"n1", "n7"}
		check(t, name, PlanFlags(Flags{Hosts: hosts(tt.host), Set: tt.set}, f), tt.want, tt.waits)
	}
	check(t, "nobody knows", PlanFlags(Flags{Hosts: hosts("n1~")}, Facts{}), "", "do not answer")
}

// TestPlanUpkeep: a quorum that ends with the hosts in maintenance is told, and a metadata server on such a host hands over to one that stands by elsewhere.
func TestPlanUpkeep(t *testing.T) {
	// servers are metadata servers, each on the host of its number; a name may end in "+" for the one that serves, "!" for one that does not run.
	servers := func(names ...string) *[]Daemon {
		out := []Daemon{{Kind: cephname.DaemonManager, Name: "h2", Running: true}}
		for _, n := range names {
			out = append(out, Daemon{Kind: cephname.DaemonMetadata, Name: strings.TrimRight(n, "+!"), Active: strings.HasSuffix(n, "+"), Running: !strings.HasSuffix(n, "!")})
		}
		return &out
	}
	for name, tt := range map[string]struct {
		hosts   []Host
		mons    *Quorum
		servers *[]Daemon
		lately  bool
		want    string
		waits   string
	}{
		"no maintenance":               {hosts("n1", "n2", "n3"), quorum("a", "b", "c"), servers("h1+", "h2"), false, "", ""},
		"one of three":                 {hosts("n1~", "n2", "n3"), quorum("a", "b", "c"), servers("h2+", "h3"), false, "", ""},
		"two of three":                 {hosts("n1~", "n2~", "n3"), quorum("a", "b", "c"), nil, false, "", "With n1 and n2 in maintenance 1 of 3 monitors is left: nothing is served once they are off."},
		"one, and another one is dead": {hosts("n1~", "n2", "n3"), quorum("a", "b", "c!"), nil, false, "", "With n1 in maintenance 1 of 3 monitors is left: nothing is served once it is off."},
		"the only one":                 {hosts("n1~", "n2", "n3"), quorum("a"), nil, false, "", "With n1 in maintenance 0 of 1 monitors are left"},
		"a host without a monitor":     {hosts("n1", "n2", "n3", "n4~"), quorum("a", "b", "c"), nil, false, "", ""},
		"the one that serves":          {hosts("n1~", "n2", "n3"), quorum("a", "b", "c"), servers("h1+", "h2"), false, "FailOver h1 n1", ""},
		"just now":                     {hosts("n1~", "n2", "n3"), quorum("a", "b", "c"), servers("h1+", "h2"), true, "", ""},
		"two stand by, one rests too":  {hosts("n1~", "n2~", "n3"), quorum("a", "b", "c"), servers("h1+", "h2", "h3"), false, "", "1 of 3 monitors is left: nothing is served once they are off. Metadata server h1 on n1 serves, whose host is in maintenance"},
		"none stands by":               {hosts("n1~", "n2", "n3"), quorum("a", "b", "c"), servers("h1+"), false, "", "h1 on n1 serves, whose host is in maintenance, and none stands by on another host that stays: volumes hang from when n1 is off until it is back."},
		"the other one is dead":        {hosts("n1~", "n2", "n3"), quorum("a", "b", "c"), servers("h1+", "h2!"), false, "", "none stands by"},
		"so is the host of the other":  {hosts("n1~", "n2~", "n3"), quorum("a", "b", "c"), servers("h1+", "h2"), false, "", "1 of 3 monitors is left: nothing is served once they are off. Metadata server h1 on n1 serves, whose host is in maintenance, and none stands by"},
		"the other one is nobody's":    {hosts("n1~", "n2", "n3"), quorum("a", "b", "c"), servers("h1+", "h9"), false, "", "none stands by"},
		"nobody knows which serve":     {hosts("n1~", "n2", "n3"), quorum("a", "b", "c"), nil, false, "", ""},
		"no quorum":                    {hosts("n1~", "n2~", "n3"), nil, servers("h1+", "h3"), false, "", ""},
	} {
		w := Upkeep{Wanted: 2, Hosts: tt.hosts, Monitors: records("a@n1", "b@n2", "c@n3"), Servers: map[string]string{"h1": "n1", "h2": "n2", "h3": "n3"}, Lately: tt.lately}
		check(t, name, PlanUpkeep(w, Facts{Quorum: tt.mons, Daemons: tt.servers}), tt.want, tt.waits)
	}
	for wanted, says := range map[int]bool{1: true, 2: false} {
		w := Upkeep{Wanted: wanted, Hosts: hosts("n1~", "n2", "n3"), Servers: map[string]string{"h1": "n1"}}
		p := PlanUpkeep(w, Facts{Quorum: quorum("a", "b", "c"), Daemons: servers("h1+")})
		if len(p.Waits) != 1 || strings.HasSuffix(p.Waits[0], "until it is back. With spec.ceph.mds: 2 one stands by.") != says {
			t.Errorf("%d wanted: %q", wanted, p.Waits)
		}
	}
}

// TestPlanBudget: a drain takes an OSD only if Ceph does without it, and the OSDs of one host at a time.
func TestPlanBudget(t *testing.T) {
	second := func(o *OSD) { o.ID, o.UUID, o.Host = 4, "uuid-4", "n1" }
	whole := []OSD{up(1), up(4, second), up(2), up(3)}
	begun := []OSD{up(1, down), up(4, second), up(2), up(3)}
	two := []OSD{up(1, down), up(4, second), up(2, down), up(3), up(5, func(o *OSD) { o.Host = "n2" })}
	unclean := func(f *Facts) { f.Groups.Clean-- }
	for name, tt := range map[string]struct {
		hosts  []string
		osds   []OSD
		change func(*Facts)
		rest   map[string]Answer
		want   Budget
	}{
		"all is well":                             {nil, whole, nil, nil, Budget{Most: 1}},
		"groups are not clean":                    {nil, whole, unclean, nil, Budget{}},
		"groups are unknown":                      {nil, whole, func(f *Facts) { f.Groups = nil }, map[string]Answer{"n1": Yes}, Budget{}},
		"there are no groups":                     {nil, whole, func(f *Facts) { f.Groups.Total, f.Groups.Clean = 0, 0 }, nil, Budget{}},
		"OSDs are unknown":                        {nil, whole, func(f *Facts) { f.Map = nil }, map[string]Answer{"n1": Yes}, Budget{}},
		"every copy is needed":                    {nil, whole, func(f *Facts) { f.Map.Pools = []Pool{{"data", 1, 1}} }, nil, Budget{}},
		"a drain has begun":                       {nil, begun, unclean, map[string]Answer{"n1": Yes}, Budget{Free: []int{1, 4}}},
		"a drain has begun, and the rest may not": {nil, begun, unclean, map[string]Answer{"n1": No}, Budget{Free: []int{1}}},
		"a drain has begun, and nobody knows":     {nil, begun, unclean, nil, Budget{Free: []int{1}}},
		"the only OSD of a host is dead":          {nil, []OSD{up(1, down), up(2), up(3)}, unclean, map[string]Answer{"n1": Yes}, Budget{Free: []int{1}}},
		"of two hosts OSDs are away":              {nil, two, unclean, map[string]Answer{"n1": Yes, "n2": Yes}, Budget{Free: []int{1, 2, 4}}},
		"the first of which may not":              {nil, two, unclean, map[string]Answer{"n1": No, "n2": Yes}, Budget{Free: []int{1, 2, 5}}},
		"an OSD is out and dead":                  {nil, []OSD{up(1, down, out), up(4, second), up(2), up(3)}, nil, map[string]Answer{"n1": Yes}, Budget{Most: 1, Free: []int{1}}},
		"an OSD never ran":                        {nil, []OSD{up(1, neverRan), up(4, second), up(2), up(3)}, nil, map[string]Answer{"n1": Yes}, Budget{Most: 1, Free: []int{1}}},
		"maintenance":                             {[]string{"n1~", "n2~", "n3~"}, whole, nil, map[string]Answer{"n1": Yes}, Budget{Most: 1}},
		"maintenance while copies are made":       {[]string{"n1~", "n2", "n3"}, whole, unclean, map[string]Answer{"n1": Yes}, Budget{Free: []int{1, 4}}},
		"maintenance, and it may not":             {[]string{"n1~", "n2", "n3"}, whole, unclean, map[string]Answer{"n1": No}, Budget{}},
		"maintenance while another one is away":   {[]string{"n1~", "n2", "n3"}, []OSD{up(1), up(4, second), up(2, down), up(3), up(5, func(o *OSD) { o.Host = "n2" })}, unclean, map[string]Answer{"n1": Yes, "n2": No}, Budget{Free: []int{2}}},
	} {
		names := tt.hosts
		if names == nil {
			names = []string{"n1", "n2", "n3"}
		}
		f := facts(twice, tt.osds...)
		if tt.change != nil {
			tt.change(&f)
		}
		if got := PlanBudget(hosts(names...), tt.rest, f); !got.Equal(tt.want) {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}

// TestPlaces_shared: where copies may share a host each OSD is a place, also for those that leave.
func TestPlaces_shared(t *testing.T) {
	on := func(host string) func(*OSD) { return func(o *OSD) { o.Host = host } }
	for name, tt := range map[string]struct {
		share       bool
		osds        []OSD
		pool, leave string
	}{
		"hosts keep them apart":   {false, []OSD{up(1), up(2, on("n1")), up(3, on("n1"))}, "", ""},
		"disks keep them apart":   {true, []OSD{up(1), up(2, on("n1")), up(3, on("n1"))}, "CreatePool data 2", "OutOSD osd.1 (uuid-1) n1"},
		"a disk that is down":     {true, []OSD{up(1), up(2, on("n1"), down), up(3, on("n1"))}, "CreatePool data 2", ""},
		"a disk that is out":      {true, []OSD{up(1), up(2, on("n1"), out), up(3, on("n1"))}, "CreatePool data 2", ""},
		"one disk":                {true, []OSD{up(1)}, "", ""},
		"a disk that is nowhere":  {true, []OSD{up(1), up(2, on(""))}, "", ""},
		"too few would be left":   {true, []OSD{up(1), up(2, on("n1"))}, "CreatePool data 2", ""},
		"each on a host, as well": {true, []OSD{up(1), up(2), up(3)}, "CreatePool data 2", "OutOSD osd.1 (uuid-1) n1"},
	} {
		first := func(p Plan, do Action) string {
			for _, s := range p.Steps {
				if s.Do == do {
					return s.String()
				}
			}
			return ""
		}
		if got := first(PlanPools(Pools{Names: []string{"data"}, Replicas: 2, ShareHost: tt.share}, facts(nil, tt.osds...)), CreatePool); got != tt.pool {
			t.Errorf("%s: %q is made", name, got)
		}
		disks := []Disk{disk(1, leaving), disk(2), disk(3)}
		for i := range tt.osds {
			disks[i].Host = cmp.Or(tt.osds[i].Host, "n1")
		}
		w := OSDs{Disks: disks[:len(tt.osds)], Hosts: hosts("n1", "n2", "n3"), ShareHost: tt.share}
		if got := first(PlanOSDs(w, facts(twice, tt.osds...)), OutOSD); got != tt.leave {
			t.Errorf("%s: %q is marked out", name, got)
		}
	}
}
