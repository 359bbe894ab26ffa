// Package device decides which disks of a node of Kubernetes a GlusterNode gets. A disk is put on record first, given to the server a minute later, and registered with
// glusterd2 last; before each of these everything is looked at again. What nobody knows waits. It is pure.
package device

import (
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

// Settled is for how long a disk has to be on record before the server gets it. A storage that chose it before the record was there has taken it by then, or its Member says so.
const Settled = time.Minute

// Facts is what the decision is made on. All of it is what the API server itself says, but for Agent.
type Facts struct {
	Node *v1alpha1.GlusterNode
	// Host is the one node of Kubernetes that the affinity matches; empty when it is not exactly one, or nobody knows. Labels are its labels.
	Host   string
	Labels map[string]string
	// Held says why the node gets no other disk now; empty when nothing keeps it.
	Held string
	// Agent is what the agent of the host reports.
	Agent decide.Node
	// Clusters and Members are all that there are, Others the records of all other GlusterNodes.
	Clusters []v1alpha1.Cluster
	Members  []v1alpha1.Member
	Others   []disk.Given
	// Began is when the pod of the server was made; zero when there is none. It has the disks that were there then, under the numbers that they had.
	Began time.Time
	Now   time.Time
}

// Verdict is what is decided about one device.
type Verdict struct {
	Device v1alpha1.DevicePath
	// Given says whether the server has it. Reason and Message say why it does not, or what is wrong with it.
	Given           gluster.Answer
	Reason, Message string
	// Register: glusterd2 may be told of it now.
	Register bool
	// has: by the record the server has it.
	has bool
	// record that is to be written; nil when none is.
	record *v1alpha1.GlusterDevice
}

// Decision is what is decided about all devices of a node.
type Decision struct {
	Verdicts []Verdict
	// Records are those of the node with what is to be written; nil when nothing is.
	Records []v1alpha1.GlusterDevice
	// Wake is when the node must be looked at again; 0 when nothing waits for its time.
	Wake time.Duration
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
		d.Verdicts = append(d.Verdicts, v)
		if v.record != nil {
			// One at a time: the next device is judged with this one on record.
			break
		}
	}
	return d
}

// devices are those of the spec. What the server has comes first: it is looked at in each pass.
func (f Facts) devices() []v1alpha1.DevicePath {
	var has, others []v1alpha1.DevicePath
	for _, s := range f.Node.Spec.Storage {
		switch r := f.record(s.Device); {
		case s.Device == "":
		case r != nil && r.Given:
			has = append(has, s.Device)
		default:
			others = append(others, s.Device)
		}
	}
	return append(has, others...)
}

// Condition is DevicesGiven. What is wrong outranks what is not known.
func (d Decision) Condition() metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.ConditionDevicesGiven, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDevicesGiven, Message: "The disks of the node are on record, and its server has them.",
	}
	var told []string
	for _, v := range d.Verdicts {
		if v.Given == gluster.Yes {
			continue
		}
		told = append(told, fmt.Sprintf("%s: %s.", v.Device, v.Message))
		switch {
		case v.Given == gluster.No && c.Status != metav1.ConditionFalse:
			c.Status, c.Reason = metav1.ConditionFalse, v.Reason
		case v.Given == gluster.Unknown && c.Status == metav1.ConditionTrue:
			c.Status, c.Reason = metav1.ConditionUnknown, v.Reason
		}
	}
	if len(told) > 0 {
		c.Message = strings.Join(told, " ")
	}
	return c
}

// Registers reports whether glusterd2 may be told of a device now, or says why not. A device that was not judged in this pass may not.
func (d Decision) Registers(device v1alpha1.DevicePath) (may bool, why string) {
	i := slices.IndexFunc(d.Verdicts, func(v Verdict) bool { return v.Device == device })
	if i < 0 {
		return false, "another device is put on record first"
	}
	return d.Verdicts[i].Register, d.Verdicts[i].Message
}

// Sound reports whether the disks that the server has are known to be those on record, as far as anybody can look.
func (d Decision) Sound() bool {
	return !slices.ContainsFunc(d.Verdicts, func(v Verdict) bool { return v.has && v.Given != gluster.Yes })
}

func no(v Verdict, reason, format string, args ...any) Verdict {
	v.Given, v.Reason, v.Message = gluster.No, reason, fmt.Sprintf(format, args...)
	return v
}

func unknown(v Verdict, reason, format string, args ...any) Verdict {
	v.Given, v.Reason, v.Message = gluster.Unknown, reason, fmt.Sprintf(format, args...)
	return v
}

// judge decides about one device.
func (f Facts) judge(path v1alpha1.DevicePath, d *Decision) Verdict {
	r := f.record(path)
	v := Verdict{Device: path, has: r != nil && r.Given}
	if !strings.HasPrefix(string(path), byID) {
		return no(v, v1alpha1.ReasonDeviceRefused, "a device is named by a path below %s, as others may mean another disk after the next boot", byID)
	}
	for _, one := range f.Node.Spec.Devices {
		if f.Host != "" && string(one.Node) != f.Host {
			return no(v, v1alpha1.ReasonDeviceConflict, "device %s is on record on node %s, and nodeAffinity matches %s", one.Device, one.Node, f.Host)
		}
	}
	switch {
	case f.Host == "":
		return unknown(v, v1alpha1.ReasonPending, "which node of Kubernetes it is on is not known")
	case r != nil && r.Given:
		return f.keep(v, *r)
	case !f.Agent.Up():
		return unknown(v, v1alpha1.ReasonAgentUnreachable, "the agent of node %s is not heard: %s", f.Host, orNothing(f.Agent.Problem))
	case f.Agent.LVMError != "":
		return unknown(v, v1alpha1.ReasonPending, "LVM cannot be run on node %s: %s", f.Host, f.Agent.LVMError)
	case f.Held != "":
		return unknown(v, v1alpha1.ReasonPending, "%s", f.Held)
	case r != nil:
		return f.give(v, *r, d)
	}
	one, there := f.Agent.Device(string(path))
	if !there {
		return no(v, v1alpha1.ReasonDeviceNotFound, "the agent of node %s reports no such device", f.Host)
	}
	if reason, why := f.against(one, nil); why != "" {
		return no(v, reason, "%s", why)
	}
	v.record = &v1alpha1.GlusterDevice{
		Device: path, Node: v1alpha1.HostName(f.Host), Path: v1alpha1.DevicePath(one.Path), WWN: one.WWN, Serial: one.Serial, Size: one.SizeBytes, Recorded: metav1.NewTime(f.Now),
	}
	d.Wake = Settled
	return no(v, v1alpha1.ReasonStepTaken, "%s is put on record", disk.Describe(one))
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
	since := r.Recorded.Time
	if since.After(f.Now) {
		since = f.Now
	}
	if left := Settled - f.Now.Sub(since); left > 0 {
		if d.Wake == 0 || left < d.Wake {
			d.Wake = left
		}
		return no(v, v1alpha1.ReasonPending, "is on record for less than a minute, in which whoever chose it before may say so")
	}
	r.Given = true
	v.record = &r
	return no(v, v1alpha1.ReasonStepTaken, "%s is given to the server", disk.Describe(one))
}

// keep looks at a disk that the server has. What is on record stays so while nobody can look.
func (f Facts) keep(v Verdict, r v1alpha1.GlusterDevice) Verdict {
	v.Given = gluster.Yes
	if !f.Agent.Up() {
		v.Message = fmt.Sprintf("the agent of node %s is not heard: %s", f.Host, orNothing(f.Agent.Problem))
		return v
	}
	one, reason, why := f.find(r)
	if why != "" {
		return no(v, reason, "%s", why)
	}
	if _, v.Message = f.against(one, &r); v.Message == "" {
		v.Message = f.waits(one)
	}
	v.Register = v.Message == ""
	return v
}

// waits says why glusterd2 is not told of a disk yet, or by the pod that runs now; empty when it is.
func (f Facts) waits(d decide.Device) string {
	switch {
	case f.Held != "":
		return f.Held
	case f.Began.IsZero():
		return "the server has no pod"
	case d.Since.IsZero():
		return fmt.Sprintf("the agent of node %s does not tell since when the disk is there", f.Host)
	case !d.Since.Before(f.Began):
		// The pod may have another disk by now under the number of the one that it began with.
		return "the disk was plugged in after the pod of the server was made: delete the pod when no volume needs it"
	}
	return ""
}

// find returns the disk that is on record, or why it cannot be used.
func (f Facts) find(r v1alpha1.GlusterDevice) (one decide.Device, reason, why string) {
	given := disk.Given{Device: r}
	var same []decide.Device
	for _, d := range f.Agent.Devices {
		if given.Same(d) {
			same = append(same, d)
		}
	}
	at, there := f.Agent.Device(string(r.Path))
	switch {
	case there && !given.Same(at):
		return one, v1alpha1.ReasonDeviceConflict, fmt.Sprintf("%s is another disk than the one on record, which is %s", disk.Describe(at), identity(r))
	case len(same) == 0:
		return one, v1alpha1.ReasonDeviceNotFound, fmt.Sprintf("the disk on record, %s, is not on node %s", identity(r), r.Node)
	case len(same) > 1:
		return one, v1alpha1.ReasonDeviceConflict, fmt.Sprintf("%d devices of node %s say that they are the disk on record, %s", len(same), r.Node, identity(r))
	case !there:
		return one, v1alpha1.ReasonDeviceConflict, fmt.Sprintf("the disk on record, %s, has another name now: %s", identity(r), same[0].Path)
	case at.SizeBytes < r.Size:
		return one, v1alpha1.ReasonDeviceConflict, fmt.Sprintf("%s is smaller than the disk on record, which has %s", disk.Describe(at), decide.Bytes(r.Size))
	}
	return at, "", ""
}

func identity(r v1alpha1.GlusterDevice) string {
	return strings.TrimSpace(strings.Join([]string{r.WWN, r.Serial}, " "))
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
