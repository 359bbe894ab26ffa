package randomtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// removePod takes the agent's pod away, and the agent with it.
func (w *world) removePod(h *host) {
	h.Kill()
	var list corev1.PodList
	must(w.t, w.api.List(w.t.Context(), &list, client.InNamespace(namespace)))
	for i := range list.Items {
		if list.Items[i].Spec.NodeName == h.name {
			w.remove(&list.Items[i])
		}
	}
	h.pod = false
}

// leave takes a node out of Kubernetes.
func (w *world) leave(h *host, _ *rand.Rand) {
	w.removePod(h)
	w.remove(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.name}})
	h.node = false
}

func (w *world) comeBack(h *host) {
	if !h.node {
		w.addNode(h)
	}
	if !h.pod {
		w.addPod(h)
		h.Restart(w.t)
	}
}

// makeCluster makes one of three Clusters, if it is not there.
func (w *world) makeCluster(r *rand.Rand) {
	name := string(rune('a' + r.IntN(3)))
	if slices.ContainsFunc(w.clusters(), func(c v1alpha1.Cluster) bool { return c.Name == name }) {
		return
	}
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.StorageType, c.Spec.Approval = v1alpha1.StorageTypeLVM, v1alpha1.ApprovalAutomatic
	if r.IntN(2) == 0 {
		c.Spec.RemovalDelay = &metav1.Duration{Duration: time.Duration(r.IntN(60)) * time.Second}
	}
	if r.IntN(3) == 0 {
		c.Spec.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"disks": "yes"}}
	} else {
		c.Spec.Hosts = w.someHosts(r)
	}
	if r.IntN(3) > 0 {
		c.Spec.LVM = &v1alpha1.LVMSpec{ThinPool: &v1alpha1.ThinPoolSpec{Percent: new(int32(50)), OverprovisionRatio: "3.0"}}
	}
	w.changeDevices(c, r)
	w.create(c)
}

func (w *world) someHosts(r *rand.Rand) []v1alpha1.HostName {
	var out []v1alpha1.HostName
	for _, h := range w.hosts {
		if r.IntN(3) > 0 {
			out = append(out, v1alpha1.HostName(h.name))
		}
	}
	return out
}

// change changes the spec of a Cluster, whether it exists or is still to be made.
func (w *world) change(c *v1alpha1.Cluster, how func(s *v1alpha1.ClusterSpec)) {
	if c.UID == "" {
		how(&c.Spec)
		return
	}
	edit(w, c, func(c *v1alpha1.Cluster) { how(&c.Spec) })
}

func (w *world) changeHosts(c *v1alpha1.Cluster, r *rand.Rand) {
	w.change(c, func(s *v1alpha1.ClusterSpec) {
		if s.HostSelector == nil {
			s.Hosts = w.someHosts(r)
		}
	})
}

// changeDevices leaves the Clusters room beside each other: one takes the small disks, another one the large ones. They take disks that appear
// later, and at once: with the pause of minAge most events would hit Clusters without disks.
func (w *world) changeDevices(c *v1alpha1.Cluster, r *rand.Rand) {
	limit := resource.MustParse("8Gi")
	w.change(c, func(s *v1alpha1.ClusterSpec) {
		var wipe []v1alpha1.WipeConsent
		if s.Devices != nil {
			wipe = s.Devices.Wipe
		}
		s.Devices = &v1alpha1.DeviceSelector{Wipe: wipe, Hotplug: true, MinAge: &metav1.Duration{}}
		switch r.IntN(3) {
		case 0:
			s.Devices.MinSize = &limit
		case 1:
			s.Devices.MaxSize = &limit
		}
	})
}

func (w *world) growPool(c *v1alpha1.Cluster, r *rand.Rand) {
	w.change(c, func(s *v1alpha1.ClusterSpec) {
		if s.LVM != nil && s.LVM.ThinPool != nil {
			s.LVM.ThinPool.Percent = new(min(95, *s.LVM.ThinPool.Percent+int32(r.IntN(20))))
		}
	})
}

func (w *world) maintain(c *v1alpha1.Cluster, r *rand.Rand) {
	w.change(c, func(s *v1alpha1.ClusterSpec) {
		s.Maintenance = nil
		if r.IntN(2) == 0 {
			s.Maintenance = w.someHosts(r)
		}
	})
}

func (w *world) maintainMember(r *rand.Rand) {
	if m, ok := pick(r, w.members()); ok {
		edit(w, &m, func(m *v1alpha1.Member) { m.Spec.Maintenance = !m.Spec.Maintenance })
	}
}

func (w *world) maintainNode(h *host, _ *rand.Rand) {
	edit(w, &v1alpha1.StorageNode{ObjectMeta: metav1.ObjectMeta{Name: h.name}}, func(n *v1alpha1.StorageNode) {
		n.Spec.Maintenance = !n.Spec.Maintenance
	})
}

func (w *world) changeApproval(c *v1alpha1.Cluster, r *rand.Rand) {
	w.change(c, func(s *v1alpha1.ClusterSpec) {
		s.Approval = []v1alpha1.Approval{v1alpha1.ApprovalAutomatic, v1alpha1.ApprovalManual}[r.IntN(2)]
	})
}

// consent lists a foreign disk under devices.wipe.
func (w *world) consent(c *v1alpha1.Cluster, r *rand.Rand) {
	s, ok := pick(r, w.spots(func(h *host, d string) bool {
		f, taken := w.foreign[spot{h.name, d}]
		return taken && !f.busy && !h.Member(d)
	}))
	if !ok {
		return
	}
	path := v1alpha1.DevicePath(w.hostOf(s.host).Path(s.disk))
	if !strings.HasPrefix(string(path), "/dev/disk/by-") {
		return
	}
	w.change(c, func(spec *v1alpha1.ClusterSpec) {
		if spec.Devices == nil {
			spec.Devices = &v1alpha1.DeviceSelector{}
		}
		spec.Devices.Wipe = []v1alpha1.WipeConsent{{Host: v1alpha1.HostName(s.host), Path: path}}
	})
}

// approve approves what the Cluster shows. What is wiped by that plan is nobody's any more. Here no person gives volumes up: a plan that
// forgets a missing disk and names volumes as lost with it, or gives a recorded group up, is not approved, so that no volume is ever lost.
func (w *world) approve(c *v1alpha1.Cluster, _ *rand.Rand) {
	p := c.Status.Plan
	if p == nil || p.Approved || slices.ContainsFunc(p.Steps, losesVolumes) {
		return
	}
	edit(w, c, func(c *v1alpha1.Cluster) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.AnnotationApprove, p.Digest)
	})
	for _, step := range p.Steps {
		if step.Action == v1alpha1.ActionWipeDevice {
			w.releaseWiped(step)
		}
	}
}

func losesVolumes(s v1alpha1.PlanStep) bool {
	return s.Action == v1alpha1.ActionForgetMissingDevice && len(s.Volumes) > 0 || s.Action == v1alpha1.ActionAdoptVolumeGroup
}

// releaseWiped takes the disks of a step that was approved out of the ledger of foreign disks. Those in use stay in it.
func (w *world) releaseWiped(step v1alpha1.PlanStep) {
	h := w.hostOf(step.Host)
	for _, device := range step.Devices {
		for _, d := range h.Disks() {
			at := spot{h.name, d}
			if f, ok := w.foreign[at]; ok && !f.busy && strings.HasPrefix(device, h.Path(d)) {
				delete(w.foreign, at)
			}
		}
	}
}

// shown says what a Cluster says of itself.
func shown(c *v1alpha1.Cluster) string {
	var out []string
	for _, x := range c.Status.Conditions {
		if x.Status != metav1.ConditionTrue {
			out = append(out, fmt.Sprintf("%s=%s %s: %s", x.Type, x.Status, x.Reason, x.Message))
		}
	}
	return fmt.Sprintf("%s %q %s", c.Status.Phase, c.Status.Message, strings.Join(out, "; "))
}
