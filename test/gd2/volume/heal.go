package volume

import (
	"strings"
	"time"

	"quarry.storage/quarry/test/gd2/cluster"
	"quarry.storage/quarry/test/gd2/option"
)

// BrickHeal is what is not healed on a brick. What is not known is missing.
type BrickHeal struct {
	HostID   string         `json:"host-id"`
	Name     string         `json:"name"`
	Status   string         `json:"status"`
	Total    *int64         `json:"total-entries,omitempty"`
	Pending  *int64         `json:"entries-in-heal-pending,omitempty"`
	Split    *int64         `json:"entries-in-split-brain,omitempty"`
	Possibly *int64         `json:"entries-possibly-healing,omitempty"`
	Entries  *int64         `json:"entries,omitempty"`
	Files    []cluster.File `json:"file-gfid,omitempty"`
}

const notConnected = "Transport endpoint is not connected"

// HealInfo returns what is not healed: as a list, as "info-summary" or as "split-brain-info".
func HealInfo(c *cluster.Call, name, kind string) ([]BrickHeal, *cluster.Failure) {
	v, unlock, f := locked(c, name)
	if f != nil {
		return nil, f
	}
	defer unlock()
	if v.Subvols[0].Type == "Distribute" {
		return nil, cluster.Fail(400, "invalid operation for this volume type")
	}
	if v.State != cluster.Started {
		return nil, cluster.Fail(400, notStarted)
	}
	if kind != "" && kind != "info-summary" && kind != "split-brain-info" {
		return nil, cluster.Fail(500, "heal info operation failed")
	}
	heal(c, v)
	out := []BrickHeal{}
	for _, b := range v.Bricks() {
		out = append(out, entries(c, v, b, kind))
	}
	return out, nil
}

func entries(c *cluster.Call, v *cluster.Volume, b *cluster.Brick, kind string) BrickHeal {
	one := BrickHeal{HostID: b.PeerID, Name: b.Host + ":" + b.Path, Status: "Connected"}
	count := func(n int) *int64 {
		out := int64(n)
		return &out
	}
	if !online(c, b) {
		one.HostID, one.Status = "-", notConnected
		if kind == "info-summary" {
			one.Status = "Failed to process entries completely. (" + notConnected + ")totalNumberOfEntries0"
			return one
		}
		one.Entries = count(-1)
		return one
	}
	pending := v.Pending[b.ID]
	switch kind {
	case "info-summary":
		one.Total, one.Pending, one.Split, one.Possibly = count(len(pending)+v.SplitBrain), count(len(pending)), count(v.SplitBrain), count(0)
	case "split-brain-info":
		one.Entries = count(v.SplitBrain)
	default:
		one.Entries, one.Files = count(len(pending)+v.SplitBrain), pending
	}
	return one
}

// online reports whether a brick runs and can be reached.
func online(c *cluster.Call, b *cluster.Brick) bool {
	n := c.C.Node(b.PeerID)
	if n == nil {
		return false
	}
	_, ok := n.Brick(b.ID)
	return ok
}

func healing(v *cluster.Volume) bool {
	on, _ := option.Bool(v.Options[selfHeal])
	return on
}

const selfHeal = "cluster/replicate.self-heal-daemon"

// heal lets time work: what is pending is healed some time after all bricks are there.
func heal(c *cluster.Call, v *cluster.Volume) {
	if len(v.Pending) == 0 || c.W.HealBroken() || !healing(v) {
		return
	}
	for _, b := range v.Bricks() {
		if !online(c, b) {
			return
		}
	}
	switch now := c.Now(); {
	case v.Healed.IsZero():
		v.Healed = now.Add(c.W.HealTime())
	case !now.Before(v.Healed):
		v.Pending, v.Healed = map[string][]cluster.File{}, time.Time{}
	}
}

// Heal has a volume healed.
func Heal(c *cluster.Call, name, kind string) *cluster.Failure {
	if kind != "" && kind != "index" && kind != "full" {
		return cluster.Fail(400, "heal type can only be either index or full")
	}
	v, unlock, f := locked(c, name)
	if f != nil {
		return f
	}
	defer unlock()
	if v.State != cluster.Started {
		return cluster.Fail(400, notStarted)
	}
	if !healing(v) {
		return cluster.Fail(400, "self heal option is disabled for this volume")
	}
	c.Settle()
	if f := eachUp(c, v.Peers()); f != nil {
		return f
	}
	if c.W.HealBroken() {
		// The daemons end the connection over the first call that they do not understand.
		text := "remote procedure cannot decode params"
		if v.HealRefused {
			text = "connection is shut down"
		}
		v.HealRefused = true
		return cluster.FailStep("selfheal.Heal", text, v.Peers()...)
	}
	if kind == "full" {
		crawl(v)
	}
	heal(c, v)
	return nil
}

// Write has a client write files to a volume. Bricks that run remember them for those that do not.
func Write(c *cluster.Call, name string, files ...string) {
	v := c.C.Volumes[name]
	changed := []cluster.File{{Filename: "/", GfID: strings.Repeat("0", 8) + "-0000-0000-0000-000000000001"}}
	for _, f := range files {
		one := cluster.File{Filename: f, GfID: c.ID()}
		changed, v.Files = append(changed, one), append(v.Files, one)
	}
	for _, s := range v.Subvols {
		missing := false
		for _, b := range s.Bricks {
			missing = missing || !online(c, b)
		}
		for _, b := range s.Bricks {
			if missing && online(c, b) {
				v.Pending[b.ID] = append(v.Pending[b.ID], changed...)
				v.Healed = time.Time{}
			}
		}
	}
}
