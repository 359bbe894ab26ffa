package device

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Verdict is what is decided about one device.
type Verdict struct {
	Device v1alpha1.DevicePath
	// Allocated says whether the server has it. Reason and Message say why it does not, what is wrong with it, or why glusterd2 is not told of it.
	Allocated       gluster.Answer
	Reason, Message string
	// Register: glusterd2 may be told of it now.
	Register bool
	// has: by the record the server has it. sight is how the agent shows it then. misplaced: a record is about another node than the affinity matches.
	has, misplaced bool
	sight          sight
	// rival says who else has a disk that the server has by the record. granted: nobody does, others had time to say so, and the agent looked: a server that does not have the disk yet gets it.
	// away: it is known for long enough that the disk is not there.
	rival         string
	granted, away bool
	// look is the path of the disk at which the agent has to look before anything else is done with it; empty when nothing waits for that.
	look string
	// record that is to be written; nil when none is. withdrawn: the record there is is taken off. asks: the API server itself has to say the same before that.
	record          *v1alpha1.GlusterDevice
	withdrawn, asks bool
}

func no(v Verdict, reason, format string, args ...any) Verdict {
	v.Allocated, v.Reason, v.Message = gluster.No, reason, fmt.Sprintf(format, args...)
	return v
}

func unknown(v Verdict, reason, format string, args ...any) Verdict {
	v.Allocated, v.Reason, v.Message = gluster.Unknown, reason, fmt.Sprintf(format, args...)
	return v
}

// Decision is what is decided about all devices of a node.
type Decision struct {
	Verdicts []Verdict
	// Records are those of the node with what is to be written; nil when nothing is.
	Records []v1alpha1.GlusterDevice
	// Wake is when the node must be looked at again; 0 when nothing waits for its time.
	Wake time.Duration
}

// oneAtATime leaves one disk to be registered: the look at a second one would be older than what was done to the first. Those that glusterd2 was told of in vain come after
// the others, so that a disk that it refuses keeps none waiting.
func (d Decision) oneAtATime(tried map[v1alpha1.DevicePath]time.Time) {
	first := -1
	for i, v := range d.Verdicts {
		if v.Register && (first < 0 || tried[v.Device].Before(tried[d.Verdicts[first].Device])) {
			first = i
		}
	}
	for i := range d.Verdicts {
		if v := &d.Verdicts[i]; v.Register && i != first {
			v.Register, v.Reason, v.Message = false, v1alpha1.ReasonPending, "another disk is registered first"
		}
	}
}

// Condition is DevicesAllocated. What is wrong outranks what is not known.
func (d Decision) Condition() metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.ConditionDevicesAllocated, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDevicesAllocated, Message: "The disks of the node are on record, and its server has them.",
	}
	var told []string
	for _, v := range d.Verdicts {
		if v.Allocated == gluster.Yes {
			continue
		}
		told = append(told, fmt.Sprintf("%s: %s.", v.Device, v.Message))
		switch {
		case v.Allocated == gluster.No && c.Status != metav1.ConditionFalse:
			c.Status, c.Reason = metav1.ConditionFalse, v.Reason
		case v.Allocated == gluster.Unknown && c.Status == metav1.ConditionTrue:
			c.Status, c.Reason = metav1.ConditionUnknown, v.Reason
		}
	}
	if len(told) > 0 {
		c.Message = strings.Join(told, " ")
	}
	return c
}

// Registers reports whether glusterd2 may be told of a device now, or says why not. A device that was not judged in this pass may not.
func (d Decision) Registers(device v1alpha1.DevicePath) (may bool, reason, why string) {
	i := slices.IndexFunc(d.Verdicts, func(v Verdict) bool { return v.Device == device })
	if i < 0 {
		return false, v1alpha1.ReasonPending, "another device is put on record first"
	}
	return d.Verdicts[i].Register, d.Verdicts[i].Reason, d.Verdicts[i].Message
}

// Look is a disk that waits for the agent to look at it: the device, and its path there.
type Look struct {
	Device v1alpha1.DevicePath
	Path   string
}

// Looks returns the disks that wait for that. Those that the server has come first.
func (d Decision) Looks() []Look {
	var all []Look
	for _, v := range d.Verdicts {
		if v.look != "" {
			all = append(all, Look{v.Device, v.look})
		}
	}
	return all
}

// Asks reports whether a decision hangs on what the API server itself says at this moment.
func (d Decision) Asks() bool {
	return slices.ContainsFunc(d.Verdicts, func(v Verdict) bool { return v.asks })
}

// Withdrawn says which record is taken off, and why; empty when none is.
func (d Decision) Withdrawn() string {
	for _, v := range d.Verdicts {
		if v.withdrawn {
			return fmt.Sprintf("The record of %s is withdrawn: %s.", v.Device, v.Message)
		}
	}
	return ""
}

// Misplaced reports whether a disk is on record on another node than the affinity matches. No pod can have it there.
func (d Decision) Misplaced() bool {
	return slices.ContainsFunc(d.Verdicts, func(v Verdict) bool { return v.misplaced })
}

// Undecided reports whether nobody knows of a disk on record whether a server that is made now may have it.
func (d Decision) Undecided() bool {
	return slices.ContainsFunc(d.Verdicts, Verdict.undecided)
}

// blocked reports whether nobody knows of a disk on record whether a server that is made now may have it, whatever the agent sees at the others.
func (d Decision) blocked() bool {
	return slices.ContainsFunc(d.Verdicts, func(v Verdict) bool { return v.undecided() && v.look == "" })
}

// rest has the agent look at no disk that a server has: no server is made now, and it would have to look again then.
func (d Decision) rest() {
	for i := range d.Verdicts {
		if v := &d.Verdicts[i]; v.has {
			v.look = ""
		}
	}
}

// undecided reports whether nobody knows of a disk on record whether a server that is made now may have it.
func (v Verdict) undecided() bool { return v.has && !v.granted && !v.away && v.rival == "" }

// Missing are the disks that the server has and the agent does not show.
func (d Decision) Missing() []v1alpha1.DevicePath {
	var all []v1alpha1.DevicePath
	for _, v := range d.Verdicts {
		if v.sight == missing {
			all = append(all, v.Device)
		}
	}
	return all
}

// Contested reports whether somebody else has a disk too that the server has by the record.
func (d Decision) Contested(device v1alpha1.DevicePath) bool {
	return slices.ContainsFunc(d.Verdicts, func(v Verdict) bool { return v.Device == device && v.rival != "" })
}

// Fit says whether glusterd2 may put bricks on a disk that the server has: the agent shows it, the server has it as it is plugged in, and nobody else has it on record. What may be otherwise is
// Unknown. With No, why says what is wrong.
func (d Decision) Fit(device v1alpha1.DevicePath) (fit gluster.Answer, reason, why string) {
	i := slices.IndexFunc(d.Verdicts, func(v Verdict) bool { return v.Device == device })
	if i < 0 {
		return gluster.Unknown, "", ""
	}
	v := d.Verdicts[i]
	if v.rival != "" {
		return gluster.No, v.Reason, v.Message
	}
	switch v.sight {
	case shown:
		return gluster.Yes, "", ""
	case missing, another:
		return gluster.No, v.Reason, v.Message
	}
	return gluster.Unknown, "", ""
}
