package removal

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// scene has a node "me" that is deleted and holds nothing, with two others.
func scene() *Facts {
	peers := []gluster.Peer{{ID: "me", Online: true}, {ID: "b", Online: true}, {ID: "c", Online: true}}
	return &Facts{
		Node:     &v1alpha1.GlusterNode{ObjectMeta: metav1.ObjectMeta{UID: "me", DeletionTimestamp: &metav1.Time{Time: now}}, Spec: v1alpha1.GlusterNodeSpec{Peer: "me"}},
		Standing: gluster.Standing{Flags: nodestate.Of(true, false, false, true)},
		Pool:     gluster.Pool{Peers: &peers, Volumes: &[]gluster.Volume{{Name: "v"}}, Snapshots: &[]gluster.Volume{}, Devices: &[]gluster.Device{}},
		Look:     Found, Workload: gluster.Yes, Claims: gluster.Yes,
		Others: []Peer{{ID: "c", State: nodestate.Online}, {ID: "b", State: nodestate.Failed}},
	}
}

func (d Decision) String() string {
	out := string(d.Step)
	if d.Via != "" {
		out += " via " + d.Via
	}
	if d.Step == Wait {
		out += " " + d.Reason
	}
	if d.Status == metav1.ConditionUnknown {
		out += "?"
	}
	return out
}

type edit func(*Facts)

func peers(all ...gluster.Peer) edit { return func(f *Facts) { f.Pool.Peers = &all } }
func gone(f *Facts) {
	peers(gluster.Peer{ID: "b", Online: true}, gluster.Peer{ID: "c", Online: true})(f)
	f.Look = NotFound
}

func left(f *Facts) {
	gone(f)
	f.Node.Annotations = map[string]string{v1alpha1.AnnotationPeerLeft: "me"}
}

func alone(f *Facts) {
	peers(gluster.Peer{ID: "me", Online: true})(f)
	f.Others = nil
}
func empty(f *Facts)     { f.Pool.Volumes = &[]gluster.Volume{} }
func silent(f *Facts)    { f.Pool, f.Look = gluster.Pool{}, Unclear }
func unloaded(f *Facts)  { f.Workload = gluster.No }
func unclaimed(f *Facts) { f.Claims = gluster.No }
func ending(f *Facts)    { f.Ending = &gluster.Ending{Workload: "n", Pod: "n-0", Since: now} }
func lost(f *Facts)      { f.Standing.Lost = true }
func refused(f *Facts)   { f.Standing.LostRefused = "The server of the node answers." }

func flags(up, data, quiesce, destroy bool) edit {
	return func(f *Facts) { f.Standing.Flags = nodestate.Of(up, data, quiesce, destroy) }
}

func TestDecide(t *testing.T) {
	down := peers(gluster.Peer{ID: "me"}, gluster.Peer{ID: "b", Online: true}, gluster.Peer{ID: "c", Online: true})
	for name, row := range map[string]struct {
		edits []edit
		want  string
	}{
		"not deleted":                            {[]edit{func(f *Facts) { f.Node.DeletionTimestamp = nil }}, "Wait StepWaits?"},
		"an external one":                        {[]edit{flags(false, true, false, true), func(f *Facts) { f.Node.Spec.External = &v1alpha1.GlusterExternal{} }}, "DropFinalizer"},
		"it holds data":                          {[]edit{flags(true, true, false, true)}, "Wait StepWaits"},
		"its deletion is not in the flags":       {[]edit{flags(true, false, false, false)}, "Wait StepWaits"},
		"data are seen after all":                {[]edit{left, unloaded, flags(true, true, false, true)}, "Wait StepWaits"},
		"lost, and refused":                      {[]edit{flags(true, true, false, true), func(f *Facts) { f.Standing.LostRefused = "It is online." }}, "Wait LostRefused"},
		"under maintenance it goes all the same": {[]edit{flags(true, false, true, true)}, "RemovePeer via c"},

		"one that stays is asked":                  {nil, "RemovePeer via c"},
		"or one that leaves, too":                  {[]edit{peers(gluster.Peer{ID: "me", Online: true}, gluster.Peer{ID: "b", Online: true}, gluster.Peer{ID: "c"})}, "RemovePeer via b"},
		"nobody else is online":                    {[]edit{peers(gluster.Peer{ID: "me", Online: true}, gluster.Peer{ID: "b"}, gluster.Peer{ID: "c"})}, "Wait PeerDown"},
		"the list is short of it, and says so":     {[]edit{gone}, "RecordLeft"},
		"the list is short of it, and it is found": {[]edit{gone, func(f *Facts) { f.Look = Found }}, "Wait PeerDown"},
		"the list is short of it, and no more":     {[]edit{gone, func(f *Facts) { f.Look = Unclear }}, "Wait PoolUnknown?"},
		"it is not found, and listed":              {[]edit{func(f *Facts) { f.Look = NotFound }}, "RemovePeer via c"},
		"it is not found, and there is no list":    {[]edit{func(f *Facts) { f.Look, f.Pool.Peers = NotFound, nil }}, "Wait PoolUnknown?"},
		"it is not found, and the list is empty":   {[]edit{peers(), func(f *Facts) { f.Look = NotFound }}, "Wait PoolUnknown?"},
		"nobody answers":                           {[]edit{silent}, "Wait PoolUnknown?"},
		"the server is down":                       {[]edit{down}, "Wait PeerDown"},
		"the server is down, and lost":             {[]edit{down, lost}, "RecordLeft"},
		"its server never ran":                     {[]edit{silent, func(f *Facts) { f.NeverRan = true }}, "RecordLeft"},
		"lost, and its successor is empty":         {[]edit{down, lost, func(f *Facts) { f.Unfilled = &Unfilled{Reason: "Healing", Message: "7 files."} }}, "Wait Healing"},
		"down, and its successor is empty":         {[]edit{down, func(f *Facts) { f.Unfilled = &Unfilled{Reason: "Healing", Message: "7 files."} }}, "Wait PeerDown"},
		"nobody answers, and it is lost":           {[]edit{silent, lost}, "RecordLeft"},

		"the last one, and there are volumes":      {[]edit{alone}, "Wait VolumesExist"},
		"the last one, and there are snapshots":    {[]edit{alone, empty, func(f *Facts) { f.Pool.Snapshots = &[]gluster.Volume{{Name: "s"}} }}, "Wait VolumesExist"},
		"the last one, and nobody knows":           {[]edit{alone, func(f *Facts) { f.Pool.Volumes = nil }}, "Wait PoolUnknown?"},
		"nor of snapshots":                         {[]edit{alone, empty, func(f *Facts) { f.Pool.Snapshots = nil }}, "Wait PoolUnknown?"},
		"the last one":                             {[]edit{alone, empty}, "RecordLeft"},
		"the last one beside a lost one":           {[]edit{alone, empty, peers(gluster.Peer{ID: "me", Online: true}, gluster.Peer{ID: "lost"})}, "RecordLeft"},
		"a stranger that is online is no lost one": {[]edit{alone, empty, peers(gluster.Peer{ID: "me", Online: true}, gluster.Peer{ID: "x", Online: true})}, "Wait PeerDown"},
		"one that is offline comes back":           {[]edit{empty, peers(gluster.Peer{ID: "me", Online: true}, gluster.Peer{ID: "b"}, gluster.Peer{ID: "c"})}, "Wait PeerDown"},

		"it left":                     {[]edit{left}, "DeleteWorkload"},
		"it left, and nobody answers": {[]edit{left, silent}, "DeleteWorkload"},
		"it was lost, answers, and no pool tells":  {[]edit{left, silent, refused}, "Wait LostRefused"},
		"it was lost, answers, and left":           {[]edit{left, refused}, "DeleteWorkload"},
		"the record is of another":                 {[]edit{left, silent, func(f *Facts) { f.Node.Annotations[v1alpha1.AnnotationPeerLeft] = "you" }}, "Wait PoolUnknown?"},
		"nobody knows of the workload":             {[]edit{left, func(f *Facts) { f.Workload = gluster.Unknown }}, "Wait Removing?"},
		"its pod was asked to end":                 {[]edit{left, ending}, "Wait Removing"},
		"its claims were asked to go":              {[]edit{left, unloaded, ending}, "Wait Removing"},
		"what was asked to go is gone":             {[]edit{left, unloaded, unclaimed, ending}, "DropFinalizer"},
		"the workload is gone":                     {[]edit{left, unloaded}, "DeleteClaims"},
		"nobody knows of the claims":               {[]edit{left, unloaded, func(f *Facts) { f.Claims = gluster.Unknown }}, "Wait Removing?"},
		"the claims are gone, the workload is not": {[]edit{left, unclaimed}, "DeleteWorkload"},
		"all is gone":                              {[]edit{left, unloaded, unclaimed}, "DropFinalizer"},
		"the last one is stopped":                  {[]edit{left, alone, func(f *Facts) { f.Look = Found }}, "DeleteWorkload"},
		"it is in the pool again":                  {[]edit{left, func(f *Facts) { *f = withPool(*f, scene()) }}, "RemovePeer via c"},
		"it is, and down":                          {[]edit{left, down, unloaded, func(f *Facts) { f.Look = Found }}, "Wait PeerDown"},
		"it is, and lost":                          {[]edit{left, down, lost, unloaded, func(f *Facts) { f.Look = Found }}, "DeleteClaims"},
	} {
		t.Run(name, func(t *testing.T) {
			f := scene()
			for _, e := range row.edits {
				e(f)
			}
			d := Decide(*f)
			if d.String() != row.want {
				t.Errorf("got %q, want %q: %s", d, row.want, d.Message)
			}
			if d.Message == "" || d.Reason == "" || d.Status == "" {
				t.Errorf("says too little: %+v", d)
			}
		})
	}
}

func withPool(f Facts, from *Facts) Facts {
	f.Pool, f.Look = from.Pool, from.Look
	return f
}

// removed is a node on its way out, as it really is.
type removed struct {
	*Facts
	t                              *testing.T
	rand                           *rand.Rand
	member, workload, claims, done bool
	order                          []string
}

// must checks that a step is right now.
func (r *removed) must(is bool, what string) {
	r.t.Helper()
	if !is {
		r.t.Fatalf("%s: %q", what, r.order)
	}
}

// fails now and then after the step was taken.
func (r *removed) fails() bool { return r.rand.IntN(3) == 0 }

// do takes a step.
func (r *removed) do(d Decision) {
	r.order = append(r.order, d.String())
	left := !r.member || len(r.Others) == 0
	switch d.Step {
	case RemovePeer:
		r.must(r.workload && r.Pool.Online("me") == gluster.Yes, "a server that does not run is removed")
		r.member = r.member && r.fails()
	case RecordLeft:
		r.must(left, "a member is taken for gone")
		r.Node.Annotations = map[string]string{v1alpha1.AnnotationPeerLeft: "me"}
	case DeleteWorkload:
		r.must(left && r.claims, "a member is stopped, or its claims went first")
		r.workload = r.workload && r.fails()
	case DeleteClaims:
		r.must(!r.workload, "claims go before the workload")
		r.claims = r.claims && r.fails()
	case DropFinalizer:
		r.must(left && !r.workload && !r.claims, "something is left behind")
		r.done = true
	}
}

// TestDecide_resumed removes a node in a pool that is asked at random moments, answers or not, and forgets half of what was done. The order is kept.
func TestDecide_resumed(t *testing.T) {
	for seed := range uint64(500) {
		r := removed{Facts: scene(), t: t, rand: rand.New(rand.NewPCG(seed, 3)), member: true, workload: true, claims: true} //nolint:gosec // No secret.
		if seed%5 == 0 {
			alone(r.Facts)
			empty(r.Facts)
		}
		for pass := 0; !r.done && pass < 500; pass++ {
			r.see()
			if d := Decide(*r.Facts); r.rand.IntN(4) > 0 { // Or it is killed before the step.
				r.do(d)
			}
		}
		if !r.done {
			t.Errorf("seed %d: the node is never gone: %q", seed, r.order)
		}
	}
}

// see fills in what one pass sees.
func (r *removed) see() {
	often := func() bool { return r.rand.IntN(5) > 0 }
	silent := len(r.Others) == 0 && !r.workload
	all := []gluster.Peer{}
	for _, o := range r.Others {
		all = append(all, gluster.Peer{ID: o.ID, Online: often()})
	}
	r.Look = NotFound
	if r.member {
		all, r.Look = append(all, gluster.Peer{ID: "me", Online: r.workload && often()}), Found
	}
	r.Pool.Peers = &all
	if silent || !often() {
		r.Pool.Peers = nil
	}
	if silent || !often() {
		r.Look = Unclear
	}
	r.Workload, r.Claims = gluster.Of(r.workload), gluster.Of(r.claims)
	if !often() {
		r.Workload = gluster.Unknown
	}
	if !often() {
		r.Claims = gluster.Unknown
	}
}

func TestGone(t *testing.T) {
	with, without := []gluster.Peer{{ID: "me"}, {ID: "b"}}, []gluster.Peer{{ID: "b"}}
	for name, row := range map[string]struct {
		peers *[]gluster.Peer
		look  Look
		want  gluster.Answer
	}{
		"listed and found":         {&with, Found, gluster.No},
		"listed, not found":        {&with, NotFound, gluster.No},
		"listed, unclear":          {&with, Unclear, gluster.No},
		"not listed, found":        {&without, Found, gluster.No},
		"not listed, not found":    {&without, NotFound, gluster.Yes},
		"not listed, unclear":      {&without, Unclear, gluster.Unknown},
		"no list, not found":       {nil, NotFound, gluster.Unknown},
		"an empty list, not found": {&[]gluster.Peer{}, NotFound, gluster.Unknown},
	} {
		if got := Gone(gluster.Pool{Peers: row.peers}, string(types.UID("ME")), row.look); got != row.want {
			t.Errorf("%s: got %s, want %s", name, got, row.want)
		}
	}
}

// TestDecide_leftovers: what a server may have written on disks of a node of Kubernetes is told when nothing else is left.
func TestDecide_leftovers(t *testing.T) {
	f := scene()
	for _, e := range []edit{left, unloaded, unclaimed} {
		e(f)
	}
	f.Node.Spec.Devices = []v1alpha1.GlusterDevice{{Path: "/dev/disk/by-id/a", Node: "n1", Allocated: true}, {Path: "/dev/disk/by-id/b", Node: "n1"}}
	if d := Decide(*f); d.Step != DropFinalizer || !strings.Contains(d.Message, "What glusterd2 wrote stays on /dev/disk/by-id/a of node n1. Clean it by hand") || strings.Contains(d.Message, "by-id/b") {
		t.Errorf("%+v", d)
	}
	f.Node.Spec.Devices = f.Node.Spec.Devices[1:]
	if d := Decide(*f); d.Message != "Nothing is left of the node." {
		t.Errorf("%+v", d)
	}
}
