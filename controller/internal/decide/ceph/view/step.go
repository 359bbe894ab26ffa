package view

import (
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/cephpod"
	"quarry.storage/quarry/controller/internal/decide/ceph/noted"
	"quarry.storage/quarry/controller/internal/decide/ceph/osdrecord"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// Step is one change of a Cluster of type cephfs.
type Step struct {
	// Does is one of the constants v1alpha1.ActionXxx.
	Does string
	// Cluster is the name, UID the UID of the Cluster, FSID that of its Ceph cluster.
	Cluster, UID, FSID string
	// On is the host whose Member decides about the step; empty for one of the whole. Through is the host that a step of the whole runs on.
	On, Through string
	// Member is the name of the Member whose record the step is about.
	Member string
	// MemberUID is the UID that the Member has: the record of one that is made anew under the name is another's.
	MemberUID types.UID
	// Ceph is the step of a Ceph cluster; only that of its actions.
	Ceph ceph.Step
	// Daemon that is deployed or removed, or whose disk is prepared or given back.
	Daemon cephpod.Daemon
	// Purged: the disk to give back was on record as one of an OSD that is forgotten. One that is made anew is not, until it is.
	Purged bool
	// Making names the making of the OSD on the disk to give back, as it was seen; empty if the disk was seen clean.
	Making string
	// Encrypted: the disks that are taken are encrypted.
	Encrypted bool
	// Devices are taken, wiped, prepared or given back.
	Devices []decide.Device
	// Tools is the container with Ceph's programs.
	Tools string
	// Budget of the OSDs.
	Budget ceph.Budget
	// Text is what is written: the configuration file, or options.
	Text string
	// Loses says what is lost by it; empty when that is nothing that a person has to approve.
	Loses string
	// Why it is taken, one sentence.
	Why string
}

var _ backend.Step = Step{}

// Host returns the host of a step of a host.
func (s Step) Host() string { return s.On }

// Via returns the host that a step of the whole runs on.
func (s Step) Via() string { return s.Through }

// Action returns what the step does.
func (s Step) Action() string { return s.Does }

// Destroys reports whether the step loses what somebody wrote, so that a person approves it.
func (s Step) Destroys() bool { return s.Does == v1alpha1.ActionWipeDevice || s.Loses != "" }

// Takes returns the devices that are wiped, put on record or prepared.
func (s Step) Takes() []decide.Device {
	switch s.Does {
	case v1alpha1.ActionWipeDevice, v1alpha1.ActionTakeDisks, v1alpha1.ActionAdoptOSD, v1alpha1.ActionPrepareOSD:
		return s.Devices
	}
	return nil
}

// Vouches returns false: nobody vouches for anything.
func (s Step) Vouches() bool { return false }

// Apart reports whether a person can approve the step by itself: each step of the whole is possible now, whatever becomes of the others.
func (s Step) Apart() bool { return s.Loses != "" }

// Later returns false: only what is possible now is a step.
func (s Step) Later() bool { return false }

// Restores reports whether the step only keeps up what was approved before.
func (s Step) Restores() bool {
	return slices.Contains([]string{
		v1alpha1.ActionFormCeph, v1alpha1.ActionSetBudget, v1alpha1.ActionSetNoOut, v1alpha1.ActionUnsetNoOut, v1alpha1.ActionFailOver, v1alpha1.ActionBlockClient, v1alpha1.ActionUnblockClient,
	}, s.Does)
}

// Independent implements backend.Independent: one disk that fails holds up no other one of its host.
func (s Step) Independent() bool {
	return s.Does == v1alpha1.ActionPrepareOSD || s.Does == v1alpha1.ActionZapOSD
}

// Guards names what the step is about whatever else is under way: what is at an address, the OSDs of a host, the metadata server that serves, or the dashboard. Each is in a job of its own.
func (s Step) Guards() string {
	switch s.Does {
	case v1alpha1.ActionBlockClient, v1alpha1.ActionUnblockClient:
		return "address " + s.Ceph.Name
	case v1alpha1.ActionSetNoOut, v1alpha1.ActionUnsetNoOut:
		return "host " + s.Ceph.Host
	case v1alpha1.ActionSetBudget:
		return "budget"
	case v1alpha1.ActionFailOver:
		return "metadata server"
	case v1alpha1.ActionServeDashboard:
		// It guards nothing. But nothing may wait for it, and it was approved with the module.
		return "dashboard"
	}
	return ""
}

// rank orders the steps of the whole: each is possible now, whatever becomes of the others. Those come first of which nobody is ever asked, and those last of which a
// person always is.
func (s Step) rank() int {
	switch {
	case backend.Restores(s):
		return 0
	case !s.Destroys():
		return 1
	}
	return 2
}

// Digest identifies the step by what it does to what. The making of an OSD is left out: the agent compares it, and a disk that was cleared just before a process died has none any more.
func (s Step) Digest() string {
	c := s.Ceph
	out := []string{s.Does, s.UID, s.FSID, s.On, s.Through, s.Member, c.String(), string(c.Do), c.Path, fmt.Sprint(c.First, c.Fresh), s.Daemon.Kind, s.Daemon.ID, s.Daemon.Node, s.Daemon.UUID, s.Daemon.Image, s.Text}
	if s.Does == v1alpha1.ActionSetBudget {
		out = append(out, fmt.Sprint(s.Budget))
	}
	if c.Boot != "" {
		out = append(out, c.Boot)
	}
	if c.Let {
		out = append(out, "let in")
	}
	if c.Machine != "" {
		out = append(out, "machine "+c.Machine)
	}
	if s.Encrypted || s.Daemon.Encrypted {
		out = append(out, "encrypted")
	}
	if s.Does == v1alpha1.ActionZapOSD && s.Daemon.Secret != "" {
		out = append(out, "secret "+s.Daemon.Secret)
	}
	for _, d := range s.Devices {
		out = append(out, d.Path, d.Serial, d.WWN, fmt.Sprint(d.SizeBytes))
		if s.Does == v1alpha1.ActionWipeDevice {
			out = append(out, d.Digest)
		}
	}
	return backend.Digest(out)
}

// about names for a person what the step is about, and its host. It is empty for most steps of a host, which are shown with the host and its devices.
func (s Step) about() string {
	c, d := s.Ceph, s.Daemon
	if n, err := strconv.Atoi(d.ID); c.ID < 0 && d.Kind == cephname.DaemonOSD && err == nil {
		// The monitors do not know the number, and its Deployment does.
		c.ID = n
	}
	switch text := c.About(); {
	case text != "" || s.On != "":
		return text
	case d.Kind == cephname.DaemonSweep:
		return fmt.Sprintf("The data of monitor %s on host %s", d.ID, d.Node)
	case d.Kind != "":
		return fmt.Sprintf("%s.%s on host %s", d.Kind, d.ID, d.Node)
	case s.Does == v1alpha1.ActionServeDashboard:
		return "Manager " + s.Text
	}
	return "The Ceph cluster"
}

// API returns the step as it is shown. A step of the whole has no host there, which tells it from those of Members: its reason names what it is about. Neither the reason nor the consent is in the
// digest, so that other words ask nobody anew.
func (s Step) API() v1alpha1.PlanStep {
	out := v1alpha1.PlanStep{Host: s.On, Action: s.Does, Digest: s.Digest(), Reason: s.Why, Consent: s.Loses}
	if about := s.about(); about != "" {
		out.Reason = about + ": " + s.Why
	}
	for _, d := range s.Devices {
		out.Devices = append(out.Devices, disk.Describe(d))
	}
	return out
}

// ActionOf is the action of a step of a Ceph cluster, as the API names it.
func ActionOf(do ceph.Action) string { return actions[do] }

// actions are the actions of steps of Ceph clusters.
var actions = map[ceph.Action]string{
	ceph.StartMonitor: v1alpha1.ActionStartMonitor, ceph.RemoveMonitor: v1alpha1.ActionRemoveMonitor, ceph.RegisterOSD: v1alpha1.ActionRegisterOSD,
	ceph.PrepareOSD: v1alpha1.ActionPrepareOSD, ceph.StartOSD: v1alpha1.ActionStartOSD, ceph.StopOSD: v1alpha1.ActionStopOSD, ceph.OutOSD: v1alpha1.ActionOutOSD,
	ceph.InOSD: v1alpha1.ActionInOSD, ceph.PurgeOSD: v1alpha1.ActionPurgeOSD, ceph.ZapOSD: v1alpha1.ActionZapOSD, ceph.RemoveHost: v1alpha1.ActionRemoveHost,
	ceph.CreatePool: v1alpha1.ActionChangePool, ceph.SetSize: v1alpha1.ActionChangePool, ceph.SetMinSize: v1alpha1.ActionChangePool,
	ceph.SetScale: v1alpha1.ActionChangePool, ceph.SetGroups: v1alpha1.ActionChangePool, ceph.UnsetBulk: v1alpha1.ActionChangePool,
	ceph.SetNoOut: v1alpha1.ActionSetNoOut, ceph.UnsetNoOut: v1alpha1.ActionUnsetNoOut, ceph.ReplaceDaemon: v1alpha1.ActionReplaceDaemon,
	ceph.RequireRelease: v1alpha1.ActionRequireRelease, ceph.ReplaceOSD: v1alpha1.ActionReplaceOSD, ceph.KeepOSD: v1alpha1.ActionKeepOSD,
	ceph.AdoptMonitor: v1alpha1.ActionAdoptMonitor, ceph.AdoptOSD: v1alpha1.ActionAdoptOSD, ceph.FailOver: v1alpha1.ActionFailOver,
	ceph.BlockClient: v1alpha1.ActionBlockClient, ceph.UnblockClient: v1alpha1.ActionUnblockClient,
}

// stores are the monitors whose data a host has, by the record of its Member.
func stores(r v1alpha1.MemberCeph) []string {
	if r.Monitor == nil {
		return r.Swept
	}
	return slices.Concat(r.Swept, []string{r.Monitor.Name})
}

// sweepOne has a pod remove the data of a monitor, and tells of one that does not start.
func (v *View) sweepOne(p *plan, m *v1alpha1.Member, name, why string) {
	s := v.whole(v1alpha1.ActionRemoveDaemon, "", why)
	s.Member, s.Daemon = m.Name, cephpod.Daemon{Kind: cephname.DaemonSweep, ID: name, Node: string(m.Spec.Node)}
	p.step(s)
	if text := v.seen.Workloads.Sweeps[name]; text != "" {
		p.wait("On host %s %s", m.Spec.Node, text)
	}
}

// offRecord takes a disk off the record that nothing is to be done to. The key that goes is the one that is on record now.
func (v *View) offRecord(m *v1alpha1.Member, o v1alpha1.MemberOSD, why string) Step {
	s := v.whole(v1alpha1.ActionZapOSD, "", why)
	s.Member, s.Ceph = m.Name, ceph.Step{Do: ceph.ZapOSD, Host: string(m.Spec.Node), Path: string(o.Path), UUID: o.UUID, ID: -1}
	s.Daemon.Secret, s.Purged = o.Secret, o.Purged
	return s
}

// translate makes a step of the whole of one that the rules about Ceph want.
func (v *View) translate(p *plan, s ceph.Step) {
	host := ""
	switch s.Do {
	case ceph.PrepareOSD, ceph.ZapOSD:
		host = s.Host
	}
	out := v.whole(actions[s.Do], host, s.Why)
	out.Ceph, out.Loses = s, s.Loses
	if m := v.member(s.Host); m != nil {
		out.Member = m.Name
	}
	switch s.Do {
	case ceph.StartMonitor:
		out.Daemon = cephpod.Daemon{
			Kind: cephname.DaemonMonitor, ID: s.Name, Node: s.Host, Image: v.image(cephname.DaemonMonitor), Address: v.seen.Addresses[s.Host], First: s.First,
		}
		if r := record(v.member(s.Host)).Monitor; r != nil {
			out.Daemon.Address = r.Address
		}
	case ceph.StartOSD, ceph.StopOSD, ceph.PrepareOSD, ceph.ZapOSD:
		if !v.onDisk(p, s, &out) {
			return
		}
	case ceph.ReplaceDaemon:
		i := slices.IndexFunc(v.seen.Workloads.Daemons, func(x Workload) bool { return x.Kind+"."+x.ID == s.Name })
		d, ok := v.wanted(v.seen.Workloads.Daemons[i])
		if !ok {
			return
		}
		// Once the monitors were seen none is made that knows no other.
		d.Image, d.First = v.pods().Image, v.seen.Workloads.Daemons[i].First && !noted.Formed(v.seen.Cluster)
		out.Daemon = d
	}
	p.step(out)
}

// onDisk completes a step on the disk of an OSD. It reports whether the step can be taken: else the plan says what it waits for.
func (v *View) onDisk(p *plan, s ceph.Step, out *Step) bool {
	r := record(v.member(s.Host))
	i := slices.IndexFunc(r.OSDs, func(o v1alpha1.MemberOSD) bool { return o.UUID == s.UUID })
	if i < 0 {
		return false
	}
	d, there := osdrecord.Device(v.seen.Nodes[s.Host], r.OSDs[i])
	if !there && (s.Do == ceph.PrepareOSD || s.Do == ceph.ZapOSD && !r.OSDs[i].Replaced) {
		p.wait("Disk %s on %s is not there.", s.Path, s.Host)
		return false
	}
	out.Devices, out.Tools, out.Purged, out.Making = []decide.Device{d}, v.seen.Workloads.Tools[s.Host], r.OSDs[i].Purged, v.seen.Verdicts[s.UUID].Making
	if !there {
		out.Devices = nil
	}
	out.Daemon = cephpod.Daemon{
		Kind: cephname.DaemonOSD, ID: fmt.Sprint(s.ID), Node: s.Host, Image: v.image(cephname.DaemonOSD), UUID: s.UUID, Device: string(r.OSDs[i].Path),
		Encrypted: r.OSDs[i].Encrypted, Secret: r.OSDs[i].Secret,
	}
	if s.Do == ceph.StopOSD && s.ID < 0 {
		// The monitors do not know its number, and its Deployment does.
		out.Daemon.ID = v.numberOf(s.UUID)
	}
	return true
}
