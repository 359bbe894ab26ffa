package backend

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// previous returns a Member with the flags of the pass before.
func previous(up, data, quiesce, destroy bool) *v1alpha1.Member {
	m := &v1alpha1.Member{}
	m.Status.Flags = &v1alpha1.MemberFlags{IsUp: up, HasData: data, ShouldQuiesce: quiesce, ShouldDestroy: destroy}
	return m
}

// deleted returns a Member that is being deleted.
func deleted(m *v1alpha1.Member) *v1alpha1.Member {
	m.DeletionTimestamp = new(metav1.Now())
	return m
}

func TestFlagsOf(t *testing.T) {
	empty := Facts{Up: true, Data: nodestate.DataAbsent}
	filled := Facts{Up: true, Data: nodestate.DataPresent}
	down, blind := Facts{}, Facts{Up: true}
	early := Facts{TooEarly: true}
	fresh := &v1alpha1.Member{}
	for name, c := range map[string]struct {
		member  *v1alpha1.Member
		facts   Facts
		quiesce bool
		volumes int
		want    string
	}{
		"an empty host that answers is online":                 {fresh, empty, false, 0, "online up"},
		"a host with volumes is online":                        {fresh, filled, false, 0, "online up data"},
		"a host without a Member":                              {nil, empty, false, 0, "online up"},
		"a host that does not answer has unknown data":         {fresh, down, false, 0, "offline data"},
		"a host that cannot be asked has unknown data":         {fresh, blind, false, 0, "online up data"},
		"maintenance quiesces":                                 {fresh, empty, true, 0, "quiesced up quiesce"},
		"maintenance quiesces a host that is down":             {fresh, down, true, 0, "quiesced data quiesce"},
		"leaving maintenance follows isUp":                     {previous(false, true, true, false), down, false, 0, "offline data"},
		"an empty host that is being removed":                  {deleted(fresh.DeepCopy()), empty, false, 0, "abandoned up destroy"},
		"a host with volumes that is being removed":            {deleted(fresh.DeepCopy()), filled, false, 0, "failed up data destroy"},
		"volumes of the API count too":                         {deleted(fresh.DeepCopy()), empty, false, 1, "failed up data destroy"},
		"a host that is down is never abandoned":               {deleted(fresh.DeepCopy()), down, false, 0, "failed data destroy"},
		"maintenance does not protect from removal":            {deleted(fresh.DeepCopy()), empty, true, 0, "abandoned up quiesce destroy"},
		"the latch is the deletion, whatever was":              {deleted(previous(true, true, false, false)), filled, false, 0, "failed up data destroy"},
		"no status sets the latch":                             {previous(true, true, false, true), filled, false, 0, "online up data"},
		"data that appears stops the removal":                  {deleted(previous(true, false, false, true)), filled, false, 0, "failed up data destroy"},
		"too early to say keeps what was observed":             {previous(true, false, false, false), early, false, 0, "online up"},
		"too early to say, and a status is older than volumes": {deleted(previous(true, false, false, false)), early, false, 1, "failed up data destroy"},
		"too early to say knows nothing of a new Member":       {fresh, early, false, 0, "offline data"},
		"too early to say keeps wishes as they are now":        {deleted(previous(true, false, true, false)), early, false, 0, "abandoned up destroy"},
	} {
		t.Run(name, func(t *testing.T) {
			f := FlagsOf(c.member, c.facts, c.quiesce, c.volumes)
			api := APIFlags(f)
			got := string(nodestate.Compute(f))
			for _, flag := range []struct {
				name string
				set  bool
			}{{"up", api.IsUp}, {"data", api.HasData}, {"quiesce", api.ShouldQuiesce}, {"destroy", api.ShouldDestroy}} {
				if flag.set {
					got += " " + flag.name
				}
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestLost(t *testing.T) {
	m := &v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{UID: "u1"}}
	for word, want := range map[string]bool{"": false, "u1": true, "u0": false, "true": false} {
		if m.Spec.Lost = word; Lost(m) != want {
			t.Errorf("%q: not %t", word, want)
		}
	}
	if Lost(nil) || Lost(&v1alpha1.Member{}) {
		t.Error("nobody is lost")
	}
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// departure returns a departure that began a while before noon, with edits.
func departure(ago time.Duration, edits ...func(*Departure)) Departure {
	d := Departure{
		Reason: v1alpha1.ReasonHostNotListed, Message: "Not listed.", Since: noon.Add(-ago), Started: noon.Add(-time.Hour), Now: noon,
		Delay: 5 * time.Minute,
	}
	for _, e := range edits {
		e(&d)
	}
	return d
}

func TestLeave(t *testing.T) {
	empty := func(d *Departure) { d.Empty = true }
	maintenance := func(d *Departure) { d.Maintenance, d.WasMaintenance = true, true }
	for name, c := range map[string]struct {
		in      Departure
		active  bool
		since   time.Duration
		delete  bool
		wake    time.Duration
		message string
	}{
		"a wanted host stays":              {in: Departure{Now: noon, Since: noon.Add(-time.Hour)}},
		"a host begins to leave":           {departure(0, empty, func(d *Departure) { d.Since = time.Time{} }), true, 0, false, 5 * time.Minute, "removed after 5m0s, unless"},
		"the delay runs":                   {departure(2*time.Minute, empty), true, 2 * time.Minute, false, 3 * time.Minute, "unless it is taken back"},
		"the delay is over":                {departure(5*time.Minute, empty), true, 5 * time.Minute, true, 0, "is being removed"},
		"no delay":                         {departure(0, empty, func(d *Departure) { d.Delay = 0 }), true, 0, true, 0, "is being removed"},
		"a new leader counts from its own": {departure(time.Hour, empty, func(d *Departure) { d.Started = noon.Add(-time.Minute) }), true, time.Hour, false, 4 * time.Minute, "unless"},
		"it holds data": {
			departure(time.Hour, func(d *Departure) { d.Holding = []string{"v1", "v2"} }), true, time.Hour, false, 0, "once its volumes are deleted: v1, v2",
		},
		"volumes are attached to it": {
			departure(time.Hour, func(d *Departure) { d.Holding, d.Attached = []string{"v1", "v2"}, true }), true, time.Hour, false, 0,
			"once its volumes are detached: v1, v2",
		},
		"nobody knows whether it holds data": {departure(time.Hour), true, time.Hour, false, 0, "once it is known to hold no data"},
		"a node that may have been used": {
			departure(time.Hour, func(d *Departure) { d.Unreported = true }), true, time.Hour, false, 0, "no data. The node may have been used before this Member was made",
		},
		"a backend that moves data away":     {departure(time.Hour, func(d *Departure) { d.MovesData = true }), true, time.Hour, true, 0, "is being removed"},
		"no delay runs while in maintenance": {departure(time.Hour, empty, maintenance), true, time.Hour, false, 0, "under maintenance"},
		"the delay begins anew after it":     {departure(time.Hour, empty, func(d *Departure) { d.WasMaintenance = true }), true, 0, false, 5 * time.Minute, "unless"},
		"a lost host goes at once":           {departure(0, func(d *Departure) { d.Lost, d.Holding = true, []string{"v1"} }), true, 0, true, 0, "lost"},
		"a lost host that is wanted goes":    {departure(0, func(d *Departure) { d.Lost, d.Reason = true, "" }), true, 0, true, 0, "lost"},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.in.Leave()
			if got.Active != c.active || got.Delete != c.delete || got.Wake != c.wake || !strings.Contains(got.Message, c.message) {
				t.Errorf("%+v", got)
			}
			if got.Active && (!got.Since.Equal(noon.Add(-c.since)) || got.Reason == "" || got.Message == "") {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestPrefer(t *testing.T) {
	o := Owner{Kind: "Cluster", Name: "fast"}
	m := func(name string) *v1alpha1.Member {
		return &v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.MemberSpec{Node: "n1"}}
	}
	for name, c := range map[string]struct {
		have, m *v1alpha1.Member
		want    string
	}{
		"the only one":                     {nil, m("a"), "a"},
		"the right name comes second":      {m("a"), m("fast.n1"), "fast.n1"},
		"the right name comes first":       {m("fast.n1"), m("z"), "fast.n1"},
		"the right name comes first, late": {m("fast.n1"), m("a"), "fast.n1"},
		"none has the right name":          {m("z"), m("a"), "a"},
		"none has it, the other way round": {m("a"), m("z"), "a"},
	} {
		if got := o.Prefer(c.have, c.m); got.Name != c.want {
			t.Errorf("%s: %s", name, got.Name)
		}
	}
}

func TestMemberName(t *testing.T) {
	owner := func(name string) Owner { return Owner{Kind: "Cluster", Name: name, UID: "u"} }
	if got := owner("fast").MemberName("n1.example.com"); got != "fast.n1.example.com" {
		t.Error(got)
	}
	// With a dot in the owner two pairs could have one name.
	a, b := owner("a.b").MemberName("c"), owner("a").MemberName("b.c")
	if a == b || !strings.HasPrefix(a, "a.b.c-") || len(a) != len("a.b.c-")+8 || b != "a.b.c" {
		t.Errorf("%s, %s", a, b)
	}
	if other := (Owner{Kind: "Nfs", Name: "a.b"}).MemberName("c"); other == a {
		t.Error("the kind does not count")
	}
	long := strings.Repeat("n", 200) + "." + strings.Repeat("m", 52)
	x, y := owner("fast").MemberName(long), owner("fast").MemberName(long+"x")
	if len(x) > 253 || len(y) > 253 || x == y || !strings.HasPrefix(x, "fast."+strings.Repeat("n", 200)) {
		t.Errorf("%d, %d: %s", len(x), len(y), x)
	}
	dotted := owner("fast").MemberName(strings.Repeat("n", 238) + "." + strings.Repeat("m", 14))
	if len(dotted) > 253 || strings.Contains(dotted, ".-") {
		t.Errorf("no valid name: %s", dotted)
	}
}

func TestOwner(t *testing.T) {
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u1"}}
	o := OwnerOf(c)
	m := &v1alpha1.Member{}
	m.Spec.Of = o.API()
	if o.Kind != "Cluster" || o.Name != "a" || !o.Owns(m) {
		t.Errorf("%+v", o)
	}
	if m.Spec.Of.UID = "u0"; o.Owns(m) {
		t.Error("the Member of an earlier owner of the name is owned")
	}
}

func TestMember_record(t *testing.T) {
	if (Member{}).Record() != nil || (Member{Object: &v1alpha1.Member{}}).Record() != nil {
		t.Error("a record out of nothing")
	}
	object := &v1alpha1.Member{}
	object.Spec.Group = &v1alpha1.MemberGroup{UUID: "A"}
	if r := (Member{Object: object}).Record(); r == nil || r.UUID != "A" {
		t.Errorf("%+v", r)
	}
	if v := (Volume{Name: "pv", Claim: "ns/c"}).String() + (Volume{Name: "pv"}).String(); v != "pv (claim ns/c)pv" {
		t.Error(v)
	}
}

func TestLostGroups(t *testing.T) {
	var many []string
	for i := range 64 {
		many = append(many, fmt.Sprint("g", i))
	}
	for name, c := range map[string]struct {
		annotation string
		status     []string
		want       []string
	}{
		"none":                                   {"", nil, nil},
		"in the status only":                     {"", []string{"A", "B"}, []string{"A", "B"}},
		"in the annotation only":                 {"A,B", nil, []string{"A", "B"}},
		"in both":                                {"A,B", []string{"B", "C"}, []string{"A", "B", "C"}},
		"what a person wrote":                    {" A ,,A," + strings.Repeat("x", 65), nil, []string{"A"}},
		"too many, of which the oldest one goes": {"old", many, many},
	} {
		t.Run(name, func(t *testing.T) {
			s := &v1alpha1.Cluster{}
			s.Annotations, s.Status.LostGroups = map[string]string{v1alpha1.AnnotationLostGroups: c.annotation}, c.status
			if got := LostGroups(s); !slices.Equal(got, c.want) {
				t.Errorf("%q", got)
			}
		})
	}
}

// TestHeir: a record of another member says that the group of a lost one was imported there once. Only a report says that it still is.
func TestHeir(t *testing.T) {
	const here, silent, asked = "moved", "member pool.n2 on node n2", "lost"
	member := func(node, uuid string, edits ...func(*HostHealth)) HostHealth {
		h := hostOf(node)
		h.Object = &v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "pool." + node, UID: types.UID("uid-" + node)}}
		h.Object.Spec.Group = &v1alpha1.MemberGroup{UUID: uuid}
		for _, e := range edits {
			e(&h)
		}
		return h
	}
	reports := func(h *HostHealth) { h.Facts.Recorded = true }
	unsure := func(h *HostHealth) { h.Facts.Unsure = true }
	early := func(h *HostHealth) { h.Facts = Facts{TooEarly: true} }
	lost := func(h *HostHealth) { h.Object.Spec.Lost = string(h.Object.UID) }
	begins := func(h *HostHealth) { h.Object.Spec.Group = nil; h.Decided.Record = &v1alpha1.MemberGroup{UUID: "G"} }
	nobody := func(h *HostHealth) { h.Object = nil }
	for name, c := range map[string]struct {
		others []HostHealth
		want   string
	}{
		"no other member has it on record":              {[]HostHealth{member("n2", "H", reports)}, asked},
		"another member reports it":                     {[]HostHealth{member("n2", "G", reports)}, here},
		"another member reports without it":             {[]HostHealth{member("n2", "G")}, asked},
		"another member is silent":                      {[]HostHealth{member("n2", "G", down)}, silent},
		"nobody knows yet whether another member is up": {[]HostHealth{member("n2", "G", early)}, silent},
		"another member cannot say":                     {[]HostHealth{member("n2", "G", unsure)}, silent},
		"another member is lost too":                    {[]HostHealth{member("n2", "G", down, lost)}, asked},
		"another member is declared lost, and has it":   {[]HostHealth{member("n2", "G", reports, lost)}, here},
		"it is too early to take the other's loss":      {[]HostHealth{member("n2", "G", early, lost)}, silent},
		"another member cannot say, and is lost":        {[]HostHealth{member("n2", "G", unsure, lost)}, silent},
		"one is silent, another one reports it":         {[]HostHealth{member("n2", "G", down), member("n3", "G", reports)}, here},
		"one is silent, another one reports without":    {[]HostHealth{member("n2", "G", down), member("n3", "G")}, silent},
		"it is seen and not on record yet":              {[]HostHealth{member("n2", "", begins)}, here},
		"it is seen where no Member is yet":             {[]HostHealth{member("n2", "", begins, nobody)}, here},
		"what a silent host would record is no report":  {[]HostHealth{member("n2", "", begins, down)}, asked},
	} {
		t.Run(name, func(t *testing.T) {
			gone := member("n1", "G", down, lost)
			moved, unsure := Heir(gone.Object, append(c.others, gone))
			got := unsure
			if got == "" {
				got = map[bool]string{true: here, false: asked}[moved]
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if moved, unsure := Heir(&v1alpha1.Member{}, []HostHealth{member("n2", "")}); moved || unsure != "" {
		t.Errorf("a member without a record: %v %q", moved, unsure)
	}
}
