// Package device decides which disks of a node of Kubernetes a GlusterNode gets. A disk is put on record first, allocated to the server three minutes later, and registered with
// glusterd2 last; before each of these everything is looked at again. What nobody knows waits. It is pure.
package device

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Settled is for how long a disk has to be on record before the server gets it. It is longer than any step of a storage, which lasts two minutes at most: one that chose the disk
// before the record was there has taken it by then, or its Member says so.
const Settled = 3 * time.Minute

// Facts is what the decision is made on. With Live all of it, but for Agent, is what the API server itself says; otherwise what a cache does.
type Facts struct {
	Node *v1alpha1.GlusterNode
	// Host is the one node of Kubernetes that the affinity matches; empty when it is not exactly one, or nobody knows. Labels are its labels.
	Host   string
	Labels map[string]string
	// Held says why the node gets no other disk now; empty when nothing keeps it.
	Held string
	// Agent is what the agent of the host reports. Of users of a disk it remembers what it found before, but for disks that are Looked: these it opened exclusively at this moment, and
	// looked for users then.
	Agent  decide.Node
	Looked map[v1alpha1.DevicePath]bool
	// Live: all of this is of this moment. Otherwise a cache said it, which may be late.
	Live bool
	// Registered: glusterd2 has every disk of the node, so that nobody looked which Clusters choose them, and none is registered. Absent are those that it is known not to have.
	Registered bool
	Absent     map[v1alpha1.DevicePath]bool
	// Clusters and Members are all that there are, Others the records of all other GlusterNodes. Without a Host nobody looked.
	Clusters []v1alpha1.Cluster
	Members  []v1alpha1.Member
	Others   []disk.Record
	// Pod is what is known of the pod of the server.
	Pod Pod
	// Seen is since when this process knows of a record, allocated or not; none of one that it sees for the first time.
	Seen map[v1alpha1.DevicePath]time.Time
	// Missing is since when this process has seen without a break that a disk was not there.
	Missing map[v1alpha1.DevicePath]time.Time
	// Tried is when this process last told glusterd2 of a disk in vain.
	Tried map[v1alpha1.DevicePath]time.Time
	Now   time.Time
}

// Decide decides about the devices of a node.
func Decide(f Facts) Decision {
	var d Decision
	records := slices.Clone(f.Node.Spec.Devices)
	for _, path := range f.devices() {
		v := f.judge(path, &d)
		if v.record != nil {
			if i := slices.IndexFunc(records, func(r v1alpha1.GlusterDevice) bool { return r.Device == v.Device }); i >= 0 {
				records[i] = *v.record
			} else {
				records = append(records, *v.record)
			}
			d.Records = records
		}
		if v.withdrawn {
			records = slices.DeleteFunc(records, func(r v1alpha1.GlusterDevice) bool { return r.Device == v.Device })
			d.Records = records
		}
		d.Verdicts = append(d.Verdicts, v)
		if v.record != nil || v.withdrawn {
			// One at a time: the next device is judged with this one on record.
			break
		}
	}
	d.oneAtATime(f.Tried)
	if !f.Pod.Workload && d.blocked() {
		d.rest()
	}
	return d
}

// devices are those of the spec. What the server has comes first: it is looked at in each pass.
func (f Facts) devices() []v1alpha1.DevicePath {
	var has, others []v1alpha1.DevicePath
	for _, s := range f.Node.Spec.Storage {
		switch r := f.record(s.Device); {
		case s.Device == "":
		case r != nil && r.Allocated:
			has = append(has, s.Device)
		default:
			others = append(others, s.Device)
		}
	}
	return append(has, others...)
}

// judge decides about one device.
func (f Facts) judge(path v1alpha1.DevicePath, d *Decision) Verdict {
	r := f.record(path)
	v := Verdict{Device: path}
	if r != nil && r.Allocated {
		v.has, v.sight = true, f.look(*r)
	}
	if !strings.HasPrefix(string(path), byID) {
		return no(v, v1alpha1.ReasonDeviceRefused, "a device is named by a path below %s, as others may mean another disk after the next boot", byID)
	}
	if one := f.elsewhere(); one != nil {
		v.misplaced = true
		return no(v, v1alpha1.ReasonDeviceConflict, "device %s is on record on node %s, and nodeAffinity matches %s", one.Device, one.Node, f.Host)
	}
	switch {
	case f.Host == "":
		return unknown(v, v1alpha1.ReasonPending, "which node of Kubernetes it is on is not known")
	case r != nil && r.Allocated:
		return f.keep(v, *r, d)
	case !f.Agent.Up():
		return unknown(v, v1alpha1.ReasonAgentUnreachable, "the agent of node %s is not heard: %s", f.Host, orNothing(f.Agent.Problem))
	case f.Agent.LVMError != "":
		return unknown(v, v1alpha1.ReasonPending, "LVM cannot be run on node %s: %s", f.Host, f.Agent.LVMError)
	case r != nil && f.owner(*r) != "":
		return f.withdraw(v, *r)
	case f.Held != "":
		return unknown(v, v1alpha1.ReasonPending, "%s", f.Held)
	case r != nil:
		return f.give(v, *r, d)
	}
	return f.offer(v, path, d)
}

// offer puts a disk on record that is on none.
func (f Facts) offer(v Verdict, path v1alpha1.DevicePath, d *Decision) Verdict {
	one, there := f.Agent.Device(string(path))
	if !there {
		return no(v, v1alpha1.ReasonDeviceNotFound, "the agent of node %s reports no such device", f.Host)
	}
	if reason, why := f.against(one, nil); why != "" {
		return no(v, reason, "%s", why)
	}
	if !f.Looked[path] {
		return f.await(v, one)
	}
	v.record = &v1alpha1.GlusterDevice{
		Device: path, Node: v1alpha1.HostName(f.Host), Path: v1alpha1.DevicePath(one.Path), WWN: one.WWN, Serial: one.Serial, Size: one.SizeBytes, Recorded: metav1.NewTime(f.Now),
	}
	d.Wake = Settled
	return no(v, v1alpha1.ReasonStepTaken, "%s is put on record", disk.Describe(one))
}

// elsewhere is a record about another node than the one that the affinity matches; nil if there is none, or nobody knows.
func (f Facts) elsewhere() *v1alpha1.GlusterDevice {
	for i := range f.Node.Spec.Devices {
		if r := &f.Node.Spec.Devices[i]; f.Host != "" && string(r.Node) != f.Host {
			return r
		}
	}
	return nil
}

// byID is where names are that go with a disk.
const byID = "/dev/disk/by-id/"

// give gives a disk that is on record to the server, once nobody said no for long enough.
func (f Facts) give(v Verdict, r v1alpha1.GlusterDevice, d *Decision) Verdict {
	one, reason, why := f.find(r)
	if why != "" {
		return no(v, reason, "%s", why)
	}
	if reason, why := f.against(one, &r); why != "" {
		return no(v, reason, "%s", why)
	}
	if !f.settled(r, d) {
		return no(v, v1alpha1.ReasonPending, "%s", unsettled)
	}
	if !f.Looked[r.Device] {
		return f.await(v, one)
	}
	r.Allocated = true
	v.record = &r
	return no(v, v1alpha1.ReasonStepTaken, "%s is allocated to the server", disk.Describe(one))
}

// unsettled says that a record is too young.
const unsettled = "is known to be on record for less than three minutes, in which whoever chose it before may say so"

// settled reports whether this process knows of a record for long enough, and the record says so, too: its time may have been restored with it, or be of another clock.
func (f Facts) settled(r v1alpha1.GlusterDevice, d *Decision) bool {
	since, known := f.Seen[r.Device]
	if r.Recorded.After(since) {
		since = r.Recorded.Time
	}
	if !known || since.After(f.Now) {
		since = f.Now
	}
	left := Settled - f.Now.Sub(since)
	if left > 0 && (d.Wake == 0 || left < d.Wake) {
		d.Wake = left
	}
	return left <= 0
}

// keep looks at a disk that the server has. What is on record stays so while nobody can look.
func (f Facts) keep(v Verdict, r v1alpha1.GlusterDevice, d *Decision) Verdict {
	v.Allocated = gluster.Yes
	if v.rival = f.holder(r); v.rival != "" {
		// Whoever wrote that the disk is allocated did not know of it, as in a restore. A server that has it keeps it: bricks may be there.
		return no(v, v1alpha1.ReasonDeviceConflict, "%s. No server gets it newly, and glusterd2 makes no bricks on it: take away the record that is wrong", v.rival)
	}
	has := slices.Contains(f.Pod.Has, string(r.Path))
	if v.granted = f.Registered && has || f.settled(r, d); !has {
		if !v.granted {
			return no(v, v1alpha1.ReasonPending, "%s", unsettled)
		}
		if v = f.admit(v, r); !v.granted {
			if !f.Pod.Workload && v.undecided() {
				v.Message += ". The server is not made meanwhile"
			}
			return v
		}
	}
	if !f.Agent.Up() {
		v.Reason, v.Message = v1alpha1.ReasonAgentUnreachable, fmt.Sprintf("the agent of node %s is not heard: %s", f.Host, orNothing(f.Agent.Problem))
		return v
	}
	one, reason, why := f.find(r)
	if why != "" {
		return no(v, reason, "%s", why)
	}
	if v.sight == shown && f.Pod.stale(one) && !mounted(one, r) {
		v.sight = stale
	}
	return f.register(v, one, r)
}

// register says whether glusterd2 may be told of a disk that the server has.
func (f Facts) register(v Verdict, one decide.Device, r v1alpha1.GlusterDevice) Verdict {
	if f.Registered {
		v.Reason, v.Message = v1alpha1.ReasonPending, cmp.Or(f.waits(one, r), "glusterd2 had it when it was looked at")
		return v
	}
	if v.Reason, v.Message = f.against(one, &r); v.Message != "" {
		return v
	}
	if v.Message = f.waits(one, r); v.Message == "" && !v.granted {
		v.Message = unsettled
	}
	if v.Message != "" {
		v.Reason = v1alpha1.ReasonPending
	}
	v.Register = v.Message == ""
	return v
}

// waits says why glusterd2 is not told of a disk yet, or by the pod that runs now; empty when it is.
func (f Facts) waits(d decide.Device, r v1alpha1.GlusterDevice) string {
	switch {
	case f.Held != "":
		return f.Held
	case f.Pod.Started.IsZero():
		return "the server does not run"
	case mounted(d, r):
		// The agent sees this very disk in the pod.
		return ""
	case d.Since.IsZero():
		return fmt.Sprintf("the agent of node %s does not tell since when the disk is there", f.Host)
	case f.Pod.Made.IsZero():
		return "this controller did not see the pod of the server begin, so that nobody knows whether the disk was there before: delete the pod when no volume needs it"
	case !d.Since.Before(f.Pod.Made):
		return "the disk was plugged in after the server started, which does not have it before its pod is replaced: delete the pod when no volume needs it"
	}
	return ""
}

func (f Facts) record(path v1alpha1.DevicePath) *v1alpha1.GlusterDevice {
	for i := range f.Node.Spec.Devices {
		if r := &f.Node.Spec.Devices[i]; r.Device == path {
			return r
		}
	}
	return nil
}

func orNothing(problem string) string {
	if problem == "" {
		return "nothing is known of it yet"
	}
	return strings.TrimSuffix(problem, ".")
}
