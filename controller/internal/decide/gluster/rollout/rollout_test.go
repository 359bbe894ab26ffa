package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// scene has three members of etcd and three servers, all well, of which the server b has an earlier template. The volume v has a copy on each.
func scene() *Facts {
	f := &Facts{Now: now}
	peers := []gluster.Peer{}
	sub := gluster.Subvolume{Kind: gluster.Replicate}
	pod := func(name, node string) {
		f.Pods = append(f.Pods, Pod{
			Name: name, Node: node, Current: gluster.Yes, Made: now.Add(-time.Hour), Ready: now.Add(-time.Hour), Claims: true, Machine: &Machine{Takes: gluster.Yes},
		})
	}
	for i := range 3 {
		pod(fmt.Sprintf("etcd-%d-0", i), "")
	}
	for _, n := range []string{"a", "b", "c"} {
		pod(n+"-0", n)
		f.Nodes = append(f.Nodes, Node{Name: n, Peer: n + "-id", State: nodestate.Online, Answers: gluster.Yes})
		peers = append(peers, gluster.Peer{ID: n + "-id", Online: true})
		sub.Bricks = append(sub.Bricks, gluster.Brick{ID: "brick-" + n, Peer: n + "-id", Path: "/" + n, Online: gluster.Yes, Size: &gluster.Size{Capacity: 100, Used: 50}})
	}
	f.pod("b-0").Current = gluster.No
	volumes := []gluster.Volume{{Name: "v", Started: true, Subvolumes: []gluster.Subvolume{sub}, SelfHeal: gluster.Yes, Heal: &gluster.Heal{}}}
	f.Pool = gluster.Pool{Peers: &peers, Volumes: &volumes, Named: &[]gluster.Named{}}
	return f
}

func (f *Facts) pod(name string) *Pod {
	return &f.Pods[slices.IndexFunc(f.Pods, func(p Pod) bool { return p.Name == name })]
}

func (f *Facts) volume() *gluster.Volume { return &(*f.Pool.Volumes)[0] }

func (f *Facts) sub() *gluster.Subvolume { return &f.volume().Subvolumes[0] }

type edit func(*Facts)

func TestDecide(t *testing.T) {
	pod := func(name string, change func(*Pod)) edit { return func(f *Facts) { change(f.pod(name)) } }
	node := func(i int, change func(*Node)) edit { return func(f *Facts) { change(&f.Nodes[i]) } }
	current := func(name string, is gluster.Answer) edit { return pod(name, func(p *Pod) { p.Current = is }) }
	idle := pod("b-0", func(p *Pod) { p.Idle, p.Ready = true, time.Time{} })
	asked := func(p *Pod) { p.Ended = now.Add(-time.Hour) }
	unready := func(p *Pod) { p.Ready = time.Time{} }
	unasked := func(p *Pod) { p.Machine = nil }
	closed := &Machine{Takes: gluster.No, Why: "Node m is cordoned"}
	for name, row := range map[string]struct {
		edits []edit
		want  string
	}{
		"all is well":                        {nil, "b-0"},
		"all are current":                    {[]edit{current("b-0", gluster.Yes)}, "PodsCurrent"},
		"nobody knows of one":                {[]edit{current("b-0", gluster.Unknown)}, "Pending?"},
		"one has none, all others are":       {[]edit{current("b-0", gluster.Yes), pod("a-0", func(p *Pod) { p.Missing = true })}, "Pending?"},
		"nobody knows of one, another waits": {[]edit{current("etcd-0-0", gluster.Unknown)}, "b-0"},
		"all are old: etcd first":            {[]edit{current("a-0", gluster.No), current("etcd-2-0", gluster.No), current("etcd-1-0", gluster.No)}, "etcd-1-0"},
		"all servers are old":                {[]edit{current("a-0", gluster.No), current("c-0", gluster.No)}, "a-0"},
		"something holds it":                 {[]edit{func(f *Facts) { f.Held = "The spec is not valid." }}, "RolloutWaits: The spec is not valid."},

		"a member of etcd is not ready":               {[]edit{pod("etcd-2-0", unready)}, "RolloutWaits: The pod etcd-2-0 is not ready."},
		"one has none":                                {[]edit{pod("etcd-2-0", func(p *Pod) { p.Missing = true })}, "RolloutWaits: The pod etcd-2-0 is not there."},
		"a server is not ready":                       {[]edit{pod("c-0", unready)}, "RolloutWaits: The pod c-0 is not ready."},
		"one is asked to end":                         {[]edit{pod("c-0", asked)}, "RolloutWaits: The pod c-0 was asked to end, and another one has to take its place."},
		"it was replaced, and is not yet":             {[]edit{pod("b-0", asked)}, "RolloutWaits: The pod b-0 was asked to end, and another one has to take its place."},
		"one is ready for a moment":                   {[]edit{pod("a-0", func(p *Pod) { p.Ready = now.Add(-time.Second) })}, "RolloutWaits: The pod a-0 has to be ready for 1m0s. after 59s"},
		"one is ready in the future":                  {[]edit{pod("a-0", func(p *Pod) { p.Ready = now.Add(time.Hour) })}, "RolloutWaits: The pod a-0 has to be ready for 1m0s. after 1m0s"},
		"it is not ready itself, and may run a brick": {[]edit{pod("b-0", unready)}, "RolloutWaits: The pod b-0 is not ready."},

		"a node is offline":           {[]edit{node(2, func(n *Node) { n.State = nodestate.Offline })}, "RolloutWaits: Node c is not online."},
		"a node is new":               {[]edit{node(2, func(n *Node) { n.State = "" })}, "RolloutWaits: Node c is not online."},
		"a node is being emptied":     {[]edit{node(2, func(n *Node) { n.State, n.Condemned = nodestate.Failed, true })}, "RolloutWaits: Node c is being removed."},
		"a brick is being moved":      {[]edit{node(2, func(n *Node) { n.Condemned, n.Moving = true, true })}, "RolloutWaits: A brick is being moved off node c."},
		"a server does not answer":    {[]edit{node(0, func(n *Node) { n.Answers = gluster.Unknown })}, "RolloutWaits: The server of node a does not answer."},
		"its own does not":            {[]edit{node(1, func(n *Node) { n.Answers = gluster.No })}, "RolloutWaits: The server of node b does not answer."},
		"glusterd2 says one is away":  {[]edit{func(f *Facts) { (*f.Pool.Peers)[0].Online = false }}, "RolloutWaits: glusterd2 does not say that node a is online."},
		"nobody speaks for the pool":  {[]edit{func(f *Facts) { f.Pool = gluster.Pool{} }}, "RolloutWaits: glusterd2 does not say that node a is online."},
		"the volumes are not told":    {[]edit{func(f *Facts) { f.Pool.Volumes = nil }}, "RolloutWaits: The pool does not tell its volumes."},
		"one is named and not listed": {[]edit{func(f *Facts) { f.Pool.Named = nil }}, "RolloutWaits: Nobody could list the PersistentVolumes that name volumes of the pool."},
		"another is in maintenance":   {[]edit{node(2, func(n *Node) { n.State = nodestate.Quiesced })}, "RolloutWaits: Node c is under maintenance."},
		"it is in maintenance itself": {[]edit{node(1, func(n *Node) { n.State = nodestate.Quiesced })}, "b-0"},
		"a volume is to be healed":    {[]edit{func(f *Facts) { f.volume().Heal.Pending = 3 }}, "RolloutWaits: Volume v has 3 files to heal."},
		"a volume without its bricks": {[]edit{func(f *Facts) { f.sub().Bricks[2].Online = gluster.No }}, "RolloutWaits: The brick /c of volume v does not run."},
		"a volume that is stopped":    {[]edit{func(f *Facts) { f.volume().Started, f.sub().Kind = false, gluster.Distribute }}, "b-0"},

		"its claim was deleted":         {[]edit{pod("b-0", func(p *Pod) { p.Claims = false })}, "RolloutWaits: A claim of the pod b-0, or of the one in its place, is not there or was deleted: its data would go with the pod, or no other one would start."},
		"its machine is cordoned":       {[]edit{pod("b-0", func(p *Pod) { p.Machine = closed })}, "RolloutWaits: The machine of the pod b-0 takes no pods: another one might not start. Node m is cordoned."},
		"nobody knows of its machine":   {[]edit{pod("b-0", func(p *Pod) { p.Machine = &Machine{Why: "it is broken."} })}, "RolloutWaits: Whether the machine of the pod b-0 takes pods is not known: it is broken."},
		"nobody asked for its machine":  {[]edit{pod("b-0", unasked)}, "RolloutWaits: Whether the machine of the pod b-0 takes pods is not known yet. ask b-0"},
		"one machine at a time":         {[]edit{pod("b-0", unasked), current("etcd-1-0", gluster.No), pod("etcd-1-0", func(p *Pod) { p.Machine = closed })}, "RolloutWaits: Whether the machine of the pod b-0 takes pods is not known yet. ask b-0"},
		"nobody asks while it is held":  {[]edit{pod("b-0", unasked), func(f *Facts) { f.Held = "Held." }}, "RolloutWaits: Held."},
		"nor while one is missed":       {[]edit{pod("b-0", unasked), pod("c-0", unready)}, "RolloutWaits: The pod c-0 is not ready."},
		"nor for one that cannot go":    {[]edit{pod("b-0", unasked), func(f *Facts) { f.sub().Kind = gluster.Distribute }}, "RolloutWaits: Volume v cannot do without node b: part of its data have no other copy. Delete the pod b-0 yourself when nobody uses the volume."},
		"nor for one that is idle":      {[]edit{idle, pod("b-0", unasked)}, "b-0 idle"},
		"which is no matter to another": {[]edit{current("c-0", gluster.No), pod("b-0", func(p *Pod) { p.Machine = closed })}, "c-0"},
		"one copy is on it":             {[]edit{func(f *Facts) { f.sub().Kind = gluster.Distribute }}, "RolloutWaits: Volume v cannot do without node b: part of its data have no other copy. Delete the pod b-0 yourself when nobody uses the volume."},
		"one copy is elsewhere":         {[]edit{func(f *Facts) { f.sub().Kind = gluster.Distribute; f.sub().Bricks = f.sub().Bricks[:1] }}, "b-0"},
		"the others are arbiters":       {[]edit{func(f *Facts) { f.sub().Bricks[0].Arbiter, f.sub().Bricks[2].Arbiter = true, true }}, "RolloutWaits: Volume v cannot do without node b: part of its data have no other copy. Delete the pod b-0 yourself when nobody uses the volume."},
		"two copies are on it":          {[]edit{func(f *Facts) { f.sub().Bricks[0].Peer = "b-id" }}, "RolloutWaits: Volume v cannot do without node b: part of its data have no other copy. Delete the pod b-0 yourself when nobody uses the volume."},
		"one copy, and etcd is old":     {[]edit{func(f *Facts) { f.sub().Kind = gluster.Distribute }, current("b-0", gluster.Yes), current("etcd-0-0", gluster.No)}, "etcd-0-0"},

		"nothing of it runs":                 {[]edit{idle}, "b-0 idle"},
		"nothing runs, and a brick is moved": {[]edit{idle, node(2, func(n *Node) { n.Condemned, n.Moving = true, true }), func(f *Facts) { f.Pool = gluster.Pool{} }}, "b-0 idle"},
		"it goes before one that runs":       {[]edit{idle, current("etcd-0-0", gluster.No)}, "b-0 idle"},
		"nothing runs, and it is ending":     {[]edit{idle, pod("b-0", asked)}, "RolloutWaits: The pod b-0 was asked to end, and another one has to take its place."},
		"nothing runs, a claim was deleted":  {[]edit{idle, pod("b-0", func(p *Pod) { p.Claims = false })}, "RolloutWaits: The pod b-0 is not ready."},
		"nothing runs, something holds it":   {[]edit{idle, func(f *Facts) { f.Held = "Held." }}, "RolloutWaits: Held."},
		"nothing runs of a current one":      {[]edit{idle, current("b-0", gluster.Yes)}, "PodsCurrent"},
	} {
		t.Run(name, func(t *testing.T) {
			f := scene()
			for _, e := range row.edits {
				e(f)
			}
			d := Decide(*f)
			if got := d.text(); got != row.want {
				t.Errorf("got %q, want %q: %s", got, row.want, d.Condition.Message)
			}
			d.sound(t, *f)
		})
	}
}

// text is a decision in a few words.
func (d Decision) text() string {
	out := d.Pod
	if d.Idle {
		out += " idle"
	}
	if out == "" {
		out = d.Condition.Reason
		if d.Condition.Status == metav1.ConditionUnknown {
			out += "?"
		}
	}
	if _, why, waits := strings.Cut(d.Condition.Message, "They are replaced one at a time. "); waits {
		out += ": " + why
	}
	if d.Ask != "" {
		out += " ask " + d.Ask
	}
	if d.Wake > 0 {
		out += " after " + d.Wake.String()
	}
	return out
}

// sound wants every node to have its condition, and one of the cluster that names what is old.
func (d Decision) sound(t *testing.T, f Facts) {
	t.Helper()
	for _, p := range f.Pods {
		c, told := d.Nodes[p.Node]
		if p.Node != "" && (!told || c.Message == "" || c.Reason == "" || (c.Status == metav1.ConditionFalse) != (p.Current == gluster.No && !p.Missing)) {
			t.Errorf("%s: %+v", p.Name, c)
		}
		if p.Current == gluster.No && !strings.Contains(d.Condition.Message, p.Name) {
			t.Errorf("%s is not named: %s", p.Name, d.Condition.Message)
		}
	}
	if d.Pod != "" && (d.Condition.Reason != v1alpha1.ReasonPodReplaced || f.pod(d.Pod).Current != gluster.No) {
		t.Errorf("%+v", d)
	}
}

func TestPod_restarting(t *testing.T) {
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, row := range map[string]struct {
		pod  Pod
		want bool
	}{
		"it runs":                        {Pod{Made: ago(time.Hour), Ready: ago(time.Hour)}, false},
		"it is new and ready":            {Pod{Made: ago(time.Second), Ready: ago(time.Second)}, false},
		"it is new":                      {Pod{Made: ago(time.Second)}, true},
		"it never comes up":              {Pod{Made: ago(Restart)}, false},
		"it was asked to end":            {Pod{Made: ago(time.Hour), Ready: ago(time.Hour), Ended: ago(time.Second)}, true},
		"it never ends: its host is off": {Pod{Made: ago(time.Hour), Ended: ago(Restart)}, false},
	} {
		if got := row.pod.Restarting(now); got != row.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestDecision_refused: a pod that is not let go is told where it was told that it is replaced.
func TestDecision_refused(t *testing.T) {
	d := Decide(*scene())
	d.Refused("No.")
	for _, c := range []metav1.Condition{d.Condition, d.Nodes["b"]} {
		if c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonRolloutWaits || !strings.HasSuffix(c.Message, "not replaced now: No.") {
			t.Errorf("%+v", c)
		}
	}
	if c := d.Nodes["a"]; c.Status != metav1.ConditionTrue {
		t.Errorf("%+v", c)
	}
}
