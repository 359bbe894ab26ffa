package disk

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/stateful/nodes"
	"quarry.storage/quarry/controller/internal/decide/stateful/replica"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func member(edits ...func(*v1alpha1.Member)) v1alpha1.Member {
	m := v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "fast.n1", UID: "u1"}}
	m.Spec.Group = &v1alpha1.MemberGroup{UUID: "A"}
	m.Status.Flags = &v1alpha1.MemberFlags{IsUp: true}
	m.Status.Devices = []v1alpha1.MemberDevice{{Path: "/dev/sda", State: v1alpha1.DevicePresent}}
	for _, edit := range edits {
		edit(&m)
	}
	return m
}

func reason(r string) func(*v1alpha1.Member) {
	return func(m *v1alpha1.Member) {
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: r})
	}
}

func leaving(r string) func(*v1alpha1.Member) {
	return func(m *v1alpha1.Member) {
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionLeaving, Status: metav1.ConditionTrue, Reason: r})
	}
}

func missing(m *v1alpha1.Member)    { m.Status.Devices[0].State = v1alpha1.DeviceMissing }
func maintained(m *v1alpha1.Member) { m.Spec.Maintenance = true }
func byNode(m *v1alpha1.Member) {
	m.Status.Maintenance = []v1alpha1.MaintenanceSource{v1alpha1.MaintenanceStorageNode}
}
func said(m *v1alpha1.Member)      { m.Spec.Lost = "u1" }
func deleted(m *v1alpha1.Member)   { m.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
func lost(m *v1alpha1.Member)      { said(m); deleted(m); leaving(v1alpha1.ReasonLost)(m) }
func lostOther(m *v1alpha1.Member) { m.Spec.Lost = "u2" }
func down(m *v1alpha1.Member)      { m.Status.Flags.IsUp = false }
func unheard(m *v1alpha1.Member)   { m.Status.Flags = nil }

func TestState(t *testing.T) {
	for name, c := range map[string]struct {
		member v1alpha1.Member
		ready  bool
		want   replica.DiskState
	}{
		"all is well with it and its disks":             {member(), false, replica.DiskFine},
		"its group is lost, it says":                    {member(reason(v1alpha1.ReasonVolumeGroupLost)), true, replica.DiskFailed},
		"something else is wrong":                       {member(reason(v1alpha1.ReasonVolumeGroupUnknown)), false, replica.DiskFine},
		"a device died, and the replica is not ready":   {member(missing), false, replica.DiskFailed},
		"a device died that holds nothing of it":        {member(missing), true, replica.DiskFine},
		"a person maintains it":                         {member(maintained, reason(v1alpha1.ReasonVolumeGroupLost)), false, replica.DiskSuspended},
		"a person maintains the node":                   {member(byNode, missing), false, replica.DiskSuspended},
		"a person said that it is lost, and it is down": {member(lost, down), false, replica.DiskLost},
		"lost, and its group is not seen":               {member(lost, reason(v1alpha1.ReasonVolumeGroupLost)), false, replica.DiskLost},
		"lost, and maintained":                          {member(lost, down, maintained), false, replica.DiskLost},
		"lost, and it reports":                          {member(lost), false, replica.DiskFine},
		"lost, and nobody knows whether it reports":     {member(lost, unheard), false, replica.DiskFine},
		"one of the same name was lost":                 {member(lostOther, deleted, leaving(v1alpha1.ReasonLost), down), false, replica.DiskFine},
		"a word that nobody took yet":                   {member(said, down), false, replica.DiskFine},
		"a word that nobody took yet, and no group":     {member(said, reason(v1alpha1.ReasonVolumeGroupLost)), false, replica.DiskFailed},
		"deleted for another reason before":             {member(said, deleted, leaving(v1alpha1.ReasonOwnerDeleted), down), false, replica.DiskFine},
		"deleted, and nobody said why":                  {member(said, deleted, down), false, replica.DiskFine},
		"it is to be deleted for the word":              {member(said, leaving(v1alpha1.ReasonLost), down), false, replica.DiskFine},
	} {
		got, doubtful := State(&c.member, Seen, c.ready)
		if got != c.want {
			t.Errorf("%s: %d", name, got)
		}
		// Maintenance gives nothing up, and makes no lost group serve.
		if want := got == replica.DiskSuspended; doubtful != want {
			t.Errorf("%s: doubtful %t", name, doubtful)
		}
	}
	if got, doubtful := State(&v1alpha1.Member{Spec: v1alpha1.MemberSpec{Maintenance: true}}, Seen, false); got != replica.DiskSuspended || doubtful {
		t.Errorf("maintained, and nothing is wrong: %d, %t", got, doubtful)
	}
	if got, _ := State(nil, Seen, false); got != replica.DiskFine {
		t.Errorf("nobody knows who holds it: %d", got)
	}
}

// TestState_stale: what was written before somebody switched the controller off, or by a leader of before, may be true no more. It gives nothing up, and
// nobody relies on what it says has failed.
func TestState_stale(t *testing.T) {
	for name, c := range map[string]struct {
		member   v1alpha1.Member
		want     replica.DiskState
		doubtful bool
	}{
		"all was well":                      {member(), replica.DiskFine, false},
		"its group was lost":                {member(reason(v1alpha1.ReasonVolumeGroupLost)), replica.DiskFine, true},
		"a device had died":                 {member(missing), replica.DiskFine, true},
		"a person said that it is lost":     {member(lost, down, reason(v1alpha1.ReasonVolumeGroupLost)), replica.DiskFine, true},
		"a person maintains it":             {member(maintained, reason(v1alpha1.ReasonVolumeGroupLost)), replica.DiskSuspended, true},
		"a person maintained the node":      {member(byNode, missing), replica.DiskSuspended, true},
		"lost, and maintained all the time": {member(lost, down, maintained), replica.DiskSuspended, true},
	} {
		if got, doubtful := State(&c.member, Stale, false); got != c.want || doubtful != c.doubtful {
			t.Errorf("%s: %d, want %d; doubtful %t", name, got, c.want, doubtful)
		}
	}
}

// TestState_silent: the controller wrote the status again, and the host did not say how its devices are. What was seen to be missing may be back. Without a host
// that answers, whoever calls it seen is wrong.
func TestState_silent(t *testing.T) {
	for name, c := range map[string]struct {
		member   v1alpha1.Member
		trust    Trust
		want     replica.DiskState
		doubtful bool
	}{
		"all was well":                            {member(down), Told, replica.DiskFine, false},
		"a device had died":                       {member(missing, down), Told, replica.DiskFine, true},
		"a device had died, and it is silent":     {member(missing, down), Seen, replica.DiskFine, true},
		"a device had died, and LVM does not run": {member(missing), Told, replica.DiskFine, true},
		"a device died, and nobody knows of it":   {member(missing, unheard), Seen, replica.DiskFine, true},
		"its group was lost":                      {member(reason(v1alpha1.ReasonVolumeGroupLost), down), Told, replica.DiskFine, true},
		"a person maintains the node":             {member(byNode, missing, down), Told, replica.DiskSuspended, true},
		"a person said that it is lost":           {member(lost, missing, down), Told, replica.DiskLost, false},
		"a word that nobody took yet":             {member(said, missing, down), Told, replica.DiskFine, true},
	} {
		if got, doubtful := State(&c.member, c.trust, false); got != c.want || doubtful != c.doubtful {
			t.Errorf("%s: %d, want %d; doubtful %t", name, got, c.want, doubtful)
		}
	}
}

func TestHolder(t *testing.T) {
	v := func(group string) *corev1.PersistentVolume {
		out := &corev1.PersistentVolume{}
		out.Spec.CSI = &corev1.CSIPersistentVolumeSource{VolumeAttributes: map[string]string{v1alpha1.AttributeGroupUUID: group}}
		return out
	}
	other := member(func(m *v1alpha1.Member) { m.Name, m.Spec.Group.UUID = "fast.n2", "B" })
	bare := member(func(m *v1alpha1.Member) { m.Name, m.Spec.Group = "fast.n3", nil })
	members := []v1alpha1.Member{bare, other, member()}
	if m := Holder(v("A"), members); m == nil || m.Name != "fast.n1" {
		t.Errorf("%+v", m)
	}
	for name, c := range map[string]*v1alpha1.Member{
		"a group that nobody has":   Holder(v("C"), members),
		"no group":                  Holder(v(""), append(members, member(func(m *v1alpha1.Member) { m.Spec.Group.UUID = "" }))),
		"a volume of others":        Holder(&corev1.PersistentVolume{}, members),
		"a group that several have": Holder(v("A"), append(members, member())),
	} {
		if c != nil {
			t.Errorf("%s is on %s", name, c.Name)
		}
	}
}

func givenUp(status metav1.ConditionStatus, earlier ...string) func(*v1alpha1.Member) {
	return func(m *v1alpha1.Member) {
		m.Generation, m.Spec.Group.UUID, m.Spec.Group.Earlier = 3, "B", earlier
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionGivenUpAbsent, Status: status, ObservedGeneration: 3})
	}
}

// TestOf_givenUp: a person gave up the group that a volume is in. The pod may be ready for a while on a disk that was pulled.
func TestOf_givenUp(t *testing.T) {
	away := member(givenUp(metav1.ConditionTrue, "Z", "A"))
	off := member(givenUp(metav1.ConditionTrue, "Z", "A"), func(m *v1alpha1.Member) { m.Name = "off" })
	records := func(m *v1alpha1.Member) { m.Name, m.Spec.Group.UUID = "fast.n2", "A" }
	v := &corev1.PersistentVolume{}
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{VolumeAttributes: map[string]string{v1alpha1.AttributeGroupUUID: "A"}}
	none := v.DeepCopy()
	none.Spec.CSI.VolumeAttributes = nil
	empty := member(givenUp(metav1.ConditionTrue, ""))
	trust := map[string]Trust{"fast.n1": Seen, "fast.n2": Seen, "silent": Told}
	silent := member(givenUp(metav1.ConditionTrue, "A"), func(m *v1alpha1.Member) { m.Name = "silent" })
	for name, c := range map[string]struct {
		members  []v1alpha1.Member
		want     replica.DiskState
		doubtful bool
	}{
		"its disks are away":                           {[]v1alpha1.Member{away}, replica.DiskLost, false},
		"its disks are back":                           {[]v1alpha1.Member{member(givenUp(metav1.ConditionFalse, "A"))}, replica.DiskFine, false},
		"the node does not say":                        {[]v1alpha1.Member{member(givenUp(metav1.ConditionUnknown, "A"))}, replica.DiskFine, true},
		"nothing is said yet":                          {[]v1alpha1.Member{member(func(m *v1alpha1.Member) { m.Spec.Group.UUID, m.Spec.Group.Earlier = "B", []string{"A"} })}, replica.DiskFine, true},
		"what is said is of an earlier record":         {[]v1alpha1.Member{member(givenUp(metav1.ConditionTrue, "A"), func(m *v1alpha1.Member) { m.Generation = 4 })}, replica.DiskFine, true},
		"another group was given up":                   {[]v1alpha1.Member{member(givenUp(metav1.ConditionTrue, "Z"))}, replica.DiskFine, false},
		"another Member records it":                    {[]v1alpha1.Member{away, member(records)}, replica.DiskFine, false},
		"another one records it, and lost it":          {[]v1alpha1.Member{away, member(records, reason(v1alpha1.ReasonVolumeGroupLost))}, replica.DiskFailed, false},
		"several record it":                            {[]v1alpha1.Member{away, member(records), member(records)}, replica.DiskFine, false},
		"two gave it up, and it is away":               {[]v1alpha1.Member{away, away}, replica.DiskLost, false},
		"two gave it up, and one says that it is back": {[]v1alpha1.Member{away, member(givenUp(metav1.ConditionFalse, "A"))}, replica.DiskFine, false},
		"nobody looks after its Members":               {[]v1alpha1.Member{off}, replica.DiskFine, true},
		"nobody looks after one of its Members":        {[]v1alpha1.Member{away, off}, replica.DiskFine, true},
		"its node is silent":                           {[]v1alpha1.Member{silent}, replica.DiskFine, true},
		"two gave it up, and one is silent":            {[]v1alpha1.Member{away, silent}, replica.DiskFine, true},
		"two gave it up, and one does not say":         {[]v1alpha1.Member{away, member(givenUp(metav1.ConditionUnknown, "A"))}, replica.DiskFine, true},
	} {
		for _, sound := range []bool{false, true} {
			if got, doubtful := Of(v, c.members, trust, sound); got != c.want || doubtful != c.doubtful {
				t.Errorf("%s, sound %t: %d, want %d; doubtful %t", name, sound, got, c.want, doubtful)
			}
		}
	}
	for _, v := range []*corev1.PersistentVolume{none, {}} {
		if got, _ := Of(v, []v1alpha1.Member{empty}, trust, false); got != replica.DiskFine {
			t.Errorf("no group is on record: %d", got)
		}
	}
}

// TestRoom_nowhere: where no node takes the replica there is no room, whoever publishes capacity.
func TestRoom_nowhere(t *testing.T) {
	if len(Room([]*corev1.PersistentVolumeClaim{{}}, nil, nodes.Nodes{}, nil)) > 0 {
		t.Error("there is room on no node")
	}
}

func TestRoom(t *testing.T) {
	claim := func(class, size string) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{}
		c.Spec.StorageClassName = &class
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
		return c
	}
	capacity := func(class, host, size string) storagev1.CSIStorageCapacity {
		out := storagev1.CSIStorageCapacity{StorageClassName: class, NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{"host": host}}}
		if size != "" {
			out.Capacity = new(resource.MustParse(size))
		}
		return out
	}
	node := func(host string, state replica.NodeState, closed bool) nodes.Node {
		return nodes.Node{Labels: map[string]string{"host": host}, State: state, Closed: closed}
	}
	all := nodes.Nodes{
		"n1": node("n1", replica.NodeFine, false), "n2": node("n2", replica.NodeFine, false), "n3": node("n3", replica.NodeFine, true), "n4": node("n4", replica.NodeUnreachable, false),
	}
	data := []*corev1.PersistentVolumeClaim{claim("fast", "10Gi")}
	for name, c := range map[string]struct {
		claims    []*corev1.PersistentVolumeClaim
		published []storagev1.CSIStorageCapacity
		want      bool
	}{
		"nobody publishes anything":           {data, nil, true},
		"somebody does, of another class":     {data, []storagev1.CSIStorageCapacity{capacity("slow", "n2", "1Gi")}, true},
		"another node has room":               {data, []storagev1.CSIStorageCapacity{capacity("fast", "n2", "10Gi")}, true},
		"it has too little":                   {data, []storagev1.CSIStorageCapacity{capacity("fast", "n2", "9Gi")}, false},
		"only its own node has room":          {data, []storagev1.CSIStorageCapacity{capacity("fast", "n1", "90Gi"), capacity("fast", "n2", "1Gi")}, false},
		"one that is cordoned":                {data, []storagev1.CSIStorageCapacity{capacity("fast", "n3", "90Gi")}, false},
		"one that is silent":                  {data, []storagev1.CSIStorageCapacity{capacity("fast", "n4", "90Gi")}, false},
		"nobody knows how much":               {data, []storagev1.CSIStorageCapacity{capacity("fast", "n2", "")}, false},
		"both claims, of one class, too much": {append(data, claim("fast", "1Gi")), []storagev1.CSIStorageCapacity{capacity("fast", "n2", "10Gi")}, false},
		"both claims, of two classes":         {append(data, claim("slow", "1Gi")), []storagev1.CSIStorageCapacity{capacity("fast", "n2", "10Gi"), capacity("slow", "n2", "1Gi")}, true},
		"no claims":                           {nil, []storagev1.CSIStorageCapacity{capacity("fast", "n2", "1Gi")}, true},
	} {
		takers, _ := all.Takers(&corev1.Pod{}, nil)
		if got := Room(c.claims, map[string]bool{"n1": true}, takers, c.published); len(got) > 0 != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
