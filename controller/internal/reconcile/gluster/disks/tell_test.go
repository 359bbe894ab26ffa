package disks

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/gluster/device"
	"quarry.storage/quarry/controller/internal/decide/gluster/node"
	"quarry.storage/quarry/controller/internal/decide/gluster/workload"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestTell: a disk that is not there gets no bricks, nor does one that the pod does not have. What nobody knows stays as it is.
func TestTell(t *testing.T) {
	const path = "/dev/disk/by-id/a"
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	n := &v1alpha1.GlusterNode{}
	n.Spec.Storage = []v1alpha1.GlusterStorage{{Device: path}}
	n.Spec.Devices = []v1alpha1.GlusterDevice{{Device: path, Path: path, Node: "n1", Serial: "S", Size: 1, Allocated: true}}
	inPod := workload.Disk(n.Spec.Devices[0])
	there := []decide.Device{{Path: path, Type: "disk", Serial: "S", SizeBytes: 1, Digest: "d", Since: now.Add(-time.Hour)}}
	decided := func(agent decide.AgentState, devices []decide.Device) *device.Decision {
		d := device.Decide(device.Facts{
			Node: n, Host: "n1", Agent: decide.Node{Name: "n1", Agent: agent, Devices: devices}, Pod: device.Pod{Workload: true, Has: []string{path}, Started: now, Made: now}, Now: now,
			Seen: map[v1alpha1.DevicePath]time.Time{path: now.Add(-time.Hour)},
		})
		return &d
	}
	for name, row := range map[string]struct {
		decision        *device.Decision
		has, pod        bool
		barred, unclear bool
		unfit           string
	}{
		"it is there":                  {decision: decided(decide.AgentUp, there), has: true, pod: true},
		"the pod does not have it":     {decision: decided(decide.AgentUp, there), pod: true, unfit: path + ": the disk is there, and the server has it once its pod is replaced"},
		"there is no pod":              {decision: decided(decide.AgentUp, there), unclear: true},
		"it is gone":                   {decision: decided(decide.AgentUp, nil), has: true, pod: true, barred: true, unfit: path + ": the disk on record, S of 1, is not on node n1"},
		"it is gone from the template": {decision: decided(decide.AgentUp, nil), pod: true, barred: true, unfit: path + ": the disk on record"},
		"the agent is silent":          {decision: decided(decide.AgentUnreachable, there), has: true, pod: true, barred: true, unclear: true},
		"nothing could be decided":     {has: true, pod: true, barred: true, unclear: true},
	} {
		f := node.Facts{Node: n, Unseen: []string{inPod}}
		if row.has {
			f.Devices, f.Unseen = f.Unseen, nil
		}
		Tell(&f, row.decision, row.pod)
		bar, barred := f.Barred[inPod]
		unfit, is := f.Unfit[inPod]
		if barred != row.barred || barred && (bar.Why == "" || bar.Reason == "") || slices.Contains(f.Unclear, inPod) != row.unclear || is != (row.unfit != "") || !strings.HasPrefix(unfit.Why, row.unfit) || is && unfit.Reason == "" {
			t.Errorf("%s: barred %+v, unclear %v, unfit %+v", name, f.Barred, f.Unclear, f.Unfit)
		}
		if known := row.decision != nil; f.Disks == nil || !known && f.Disks.Status != metav1.ConditionUnknown {
			t.Errorf("%s: %+v", name, f.Disks)
		}
	}
}
