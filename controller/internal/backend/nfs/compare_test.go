package nfs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/nfs"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// compared is an Nfs with volumes, on a share that a test changes.
type compared struct {
	*testing.T
	agents  *agents
	backend *Backend
	nfs     *v1alpha1.Nfs
	world   backend.World
	now     time.Time
	view    backend.View
}

// volumeOf is a bound PersistentVolume of a volume that was made.
func volumeOf(owner, name, shareID string) backend.Volume {
	a := sharedvolume.Attributes{Server: "nas", Path: "/export", Directory: "dir-" + name, OnDelete: sharedvolume.Delete, ShareID: shareID}
	return backend.Volume{Name: "pv-" + name, Claim: "team/" + name, Handle: owner + "/" + name, Attributes: a.Map(), Expected: true, Bound: true}
}

func newCompared(t *testing.T, names ...string) *compared {
	c := &compared{
		T: t, nfs: object(), now: time.Now(),
		agents: &agents{online: []string{"n1"}, reports: map[string]sharedvolume.Seen{"n1": fine}},
	}
	c.nfs.Status.ShareID = fine.ID
	c.backend = &Backend{Agents: c.agents, Now: func() time.Time { return c.now }}
	for _, name := range names {
		c.world.Volumes = map[string][]backend.Volume{"": append(c.world.Volumes[""], volumeOf(string(c.nfs.UID), name, fine.ID))}
		c.agents.records = append(c.agents.records, sharedvolume.Directory{
			ID: sharedvolume.ID{Owner: string(c.nfs.UID), Name: name}, Directory: "dir-" + name, State: sharedvolume.Made, ShareID: fine.ID,
		})
	}
	return c
}

// after observes once some time has passed, and returns the condition, which the status has from then on.
func (c *compared) after(d time.Duration) metav1.Condition {
	c.Helper()
	c.now = c.now.Add(d)
	var err error
	if c.view, err = c.backend.Observe(c.Context(), c.nfs, c.world, c.view); err != nil {
		c.Fatal(err)
	}
	for _, f := range c.view.Whole(nil).Facts {
		if f.Type == v1alpha1.ConditionVolumesPresent {
			c.nfs.Status.Conditions = []metav1.Condition{f}
			return f
		}
	}
	c.Fatal("nothing is said of the volumes")
	return metav1.Condition{}
}

func (c *compared) want(got metav1.Condition, status metav1.ConditionStatus, says ...string) {
	c.Helper()
	for _, text := range says {
		if !strings.Contains(got.Message, text) {
			c.Errorf("the message lacks %q: %s", text, got.Message)
		}
	}
	if got.Status != status {
		c.Errorf("%s, want %s: %s", got.Status, status, got.Message)
	}
}

func TestCompare_volumesThatAreGone(t *testing.T) {
	c := newCompared(t, "a", "b", "c")
	c.want(c.after(0), metav1.ConditionTrue, "Every volume")
	if !c.agents.asked[0].share.HasVolumes {
		t.Error("the agent is not told that volumes exist")
	}
	// Each page has one record.
	if got := c.agents.listed; len(got) != 3 {
		t.Errorf("asked %v", got)
	}
	c.after(nfs.Every)
	if got := c.agents.listed; len(got) != 3 {
		t.Errorf("compared again after %v: %v", nfs.Every, got)
	}
	whole := c.agents.records
	c.agents.records = whole[:1:1]
	// What is deleted meanwhile goes before its PersistentVolume: nothing is said of it before the next look.
	c.want(c.after(time.Minute), metav1.ConditionTrue)
	c.want(c.after(nfs.Every), metav1.ConditionFalse, "pv-b (claim team/b): the share has no record of it, its directory was \"dir-b\"", "pv-c", "delete the claims")
	c.agents.records = []sharedvolume.Directory{whole[0], whole[1], whole[2]}
	c.agents.records[1].Problem = "directory \"dir-b\" of volume b is gone from the share"
	// What is missing is looked for at every look.
	got := c.after(nfs.Every)
	c.want(got, metav1.ConditionFalse, "pv-b (claim team/b): directory \"dir-b\" of volume b is gone")
	if strings.Contains(got.Message, "pv-c") {
		t.Error(got.Message)
	}
	c.agents.records[1].Problem = ""
	c.agents.records[1].State = sharedvolume.Removing
	c.want(c.after(nfs.Every), metav1.ConditionFalse, "is removing")
	c.agents.records = whole
	c.want(c.after(nfs.Every), metav1.ConditionTrue)
}

// TestCompare_whatWasSaidStands while nobody can look, and is looked at anew once somebody can.
func TestCompare_whatWasSaidStands(t *testing.T) {
	c := newCompared(t, "a", "b")
	c.after(0)
	records := c.agents.records
	c.agents.reports["n1"], c.agents.records = down, nil
	c.want(c.after(time.Minute), metav1.ConditionTrue)
	c.agents.reports["n1"] = fine
	c.want(c.after(nfs.Every), metav1.ConditionTrue)
	c.want(c.after(nfs.Every), metav1.ConditionFalse, "pv-a", "pv-b")
	c.agents.listErr = &decide.Fault{Kind: decide.FaultUnavailable, Message: "no answer"}
	c.want(c.after(nfs.Every), metav1.ConditionFalse, "pv-a", "pv-b")
	c.agents.listErr, c.agents.records = nil, records
	c.want(c.after(nfs.Every), metav1.ConditionTrue)
	// Another controller knows nothing yet, and cannot look.
	c.view, c.agents.listErr = nil, errors.New("no answer")
	c.want(c.after(nfs.Every), metav1.ConditionTrue)
	c.view, c.nfs.Status.Conditions = nil, nil
	c.want(c.after(nfs.Every), metav1.ConditionUnknown, "no answer")
	// The cause is the one of now.
	c.agents.listErr = errors.New("a stray file")
	c.want(c.after(nfs.Every), metav1.ConditionUnknown, "a stray file")
	c.agents.listErr = nil
	c.want(c.after(nfs.Every), metav1.ConditionTrue)
	// What was found does not stand for ever.
	c.agents.listErr = errors.New("a stray file")
	c.want(c.after(time.Minute), metav1.ConditionTrue)
	c.want(c.after(15*time.Minute), metav1.ConditionUnknown, "a stray file")
	// The time of what failed does not count: the next round comes as soon as ever.
	c.agents.page = func() { c.now = c.now.Add(7 * time.Second) }
	for range 20 {
		c.after(nfs.Every)
	}
	c.agents.page, c.agents.listErr = nil, nil
	c.want(c.after(nfs.Every), metav1.ConditionTrue)
	c.agents.records = nil
	c.after(time.Minute)
	c.want(c.after(nfs.Every), metav1.ConditionFalse)
}

// TestCompare_agentsThatAreAway say nothing of a share: what was found stands, and the round goes on where it was.
func TestCompare_agentsThatAreAway(t *testing.T) {
	c := newCompared(t, "a", "b", "c")
	c.agents.page = func() { c.now = c.now.Add(2 * time.Second) }
	c.after(0)
	if got := len(c.agents.listed); got != 2 {
		t.Fatalf("%d pages", got)
	}
	c.agents.errs = map[string]error{"n1": errors.New("restarted")}
	c.after(nfs.Every)
	c.agents.errs = nil
	c.want(c.after(nfs.Every), metav1.ConditionTrue)
	if got := len(c.agents.listed); got != 3 {
		t.Errorf("%d pages: the round began anew", got)
	}
}

// TestCompare_severalOwners: one that cannot be read keeps none of the others from being looked for, and one that vanishes in a round does not end it.
func TestCompare_severalOwners(t *testing.T) {
	const first, last = "00000000-0000-4000-8000-000000000001", "ffffffff-0000-4000-8000-000000000001"
	c := newCompared(t, "b")
	own := c.world.Volumes[""]
	c.world.Volumes[""] = append(own, volumeOf(first, "a", fine.ID), volumeOf(last, "c", fine.ID))
	for owner, name := range map[string]string{first: "a", last: "c"} {
		c.agents.records = append(c.agents.records, sharedvolume.Directory{
			ID: sharedvolume.ID{Owner: owner, Name: name}, Directory: "dir-" + name, State: sharedvolume.Made,
		})
	}
	slices.SortFunc(c.agents.records, func(a, b sharedvolume.Directory) int { return strings.Compare(a.Name, b.Name) })
	c.agents.fails = map[string]error{first: errors.New("a dead server")}
	c.agents.records[2].Problem = "directory \"dir-c\" is gone"
	c.want(c.after(0), metav1.ConditionUnknown, "a dead server")
	c.want(c.after(nfs.Every), metav1.ConditionFalse, "pv-c")
	// Each page takes long: a round takes several looks. The owner that it would go on with has no volumes any more.
	c.agents.page = func() { c.now = c.now.Add(4 * time.Second) }
	c.agents.fails = nil
	c.after(2 * time.Minute)
	for range 20 {
		if c.agents.listed[len(c.agents.listed)-1].Owner == string(c.nfs.UID) {
			break
		}
		c.after(nfs.Every)
	}
	c.world.Volumes[""] = own
	for range 4 {
		c.after(10 * time.Minute)
	}
	c.want(c.after(nfs.Every), metav1.ConditionTrue)
	c.agents.records = nil
	for range 4 {
		c.after(time.Hour)
	}
	c.want(c.after(time.Hour), metav1.ConditionFalse, "pv-b")
}

// TestCompare_otherIdentity: volumes of another identity are missing, whatever the share has that is there now.
func TestCompare_otherIdentity(t *testing.T) {
	const earlier = "6d1f8f3e-0000-4000-8000-00000000000a"
	c := newCompared(t, "a")
	c.world.Volumes[""] = append(c.world.Volumes[""], volumeOf(string(c.nfs.UID), "b", earlier), volumeOf("6d1f8f3e-0000-4000-8000-000000000009", "a", fine.ID))
	c.agents.records = append(c.agents.records, sharedvolume.Directory{
		ID: sharedvolume.ID{Owner: string(c.nfs.UID), Name: "b"}, Directory: "dir-b", State: sharedvolume.Made,
	})
	c.agents.refuse = map[string]*decide.Fault{earlier: {Kind: decide.FaultPrecondition, Reason: sharedvolume.ReasonOtherShare, Message: "the share carries another identity"}}
	// The Nfs of before, with another UID, has its own records.
	c.after(0)
	c.want(c.after(nfs.Every), metav1.ConditionFalse, "pv-b (claim team/b): the share carries another identity")
	asked := map[string]bool{}
	for _, s := range c.agents.listed {
		asked[s.Owner+" "+s.ID] = true
	}
	if len(asked) != 3 {
		t.Errorf("asked %v", asked)
	}
}

// TestCompare_takesSeveralLooks: a share with many volumes, or a slow one, takes no more than a while of each look, and is looked at less often.
func TestCompare_takesSeveralLooks(t *testing.T) {
	var names []string
	for i := range 9 {
		names = append(names, fmt.Sprintf("v%d", i))
	}
	c := newCompared(t, names...)
	c.agents.page = func() { c.now = c.now.Add(2 * time.Second) }
	c.agents.records[7].Problem = "gone"
	c.want(c.after(0), metav1.ConditionUnknown, "Nobody knows yet whether 7 volumes")
	pages := func(want int) {
		t.Helper()
		if got := len(c.agents.listed); got != want {
			t.Errorf("%d pages, want %d", got, want)
		}
	}
	pages(2)
	for range 4 {
		c.want(c.after(nfs.Every), metav1.ConditionUnknown)
	}
	pages(9)
	// The round took 18 seconds. As a volume may be missing, the next one begins after ten times as long.
	c.after(nfs.Every)
	c.after(160 * time.Second)
	pages(9)
	for range 3 {
		c.want(c.after(nfs.Every), metav1.ConditionUnknown)
	}
	c.want(c.after(nfs.Every), metav1.ConditionFalse, "pv-v7")
	c.agents.records[7].Problem = ""
	c.after(nfs.Every)
	pages(18)
	c.after(3 * time.Minute)
	for range 4 {
		c.after(nfs.Every)
	}
	pages(27)
	c.want(c.after(nfs.Every), metav1.ConditionTrue)
	c.after(10 * time.Minute)
	pages(27)
	c.after(6 * time.Minute)
	pages(29)
}

func TestCompare_withoutVolumes(t *testing.T) {
	c := newCompared(t)
	c.want(c.after(0), metav1.ConditionTrue, "No volume is known to be missing")
	if len(c.agents.listed) != 0 || c.agents.asked[0].share.HasVolumes {
		t.Errorf("asked %v, %+v", c.agents.listed, c.agents.asked)
	}
	// One that is about to be deleted may be gone already.
	v := volumeOf(string(c.nfs.UID), "a", fine.ID)
	v.Expected = false
	c.world.Volumes = map[string][]backend.Volume{"": {v}}
	c.want(c.after(nfs.Every), metav1.ConditionTrue)
	// One that was made by hand says nothing.
	v.Expected, v.Attributes = true, nil
	c.world.Volumes = map[string][]backend.Volume{"": {v}}
	c.want(c.after(nfs.Every), metav1.ConditionFalse, "does not say where it is")
}
