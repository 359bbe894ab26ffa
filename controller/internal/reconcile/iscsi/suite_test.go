package iscsi

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/apitest"
	backendiscsi "quarry.storage/quarry/controller/internal/backend/iscsi"
	"quarry.storage/quarry/controller/internal/backend/iscsi/iscsitest"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/reconcile/storage"
	"quarry.storage/quarry/controller/internal/reconcile/storage/work"
	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/controller/internal/san/fleet"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

func TestMain(m *testing.M) { apitest.Main(m) }

const (
	namespace = "default"
	iqn       = "iqn.2026-01.lab.quarry:disk"
	portal    = "10.0.0.1:3260"
)

const (
	// pause is how long what a pass began may go on before the next one.
	pause = 10 * time.Millisecond
	// patience is how long something may take to come true, beside 200 passes at least: a busy machine has few passes in this time, a quick one many.
	patience = time.Minute
)

// suite is a controller between a real API server and a model of a target and its initiators.
type suite struct {
	t      *testing.T
	client client.Client
	san    *iscsitest.SAN
	lun    *iscsitest.LUN
	r      *storage.Reconciler
	driver backend.DriverState
	// events are those of all lives of the controller.
	events *events.FakeRecorder
	// ahead is how far the controller's clock is ahead, in nanoseconds. What a pass began reads it beside the test.
	ahead atomic.Int64
	lives int
}

func newSuite(t *testing.T, nodes ...string) *suite {
	t.Helper()
	c := apitest.Mirror(t, apitest.Client(t), &v1alpha1.IscsiList{}, &v1alpha1.ClusterList{}, &v1alpha1.NfsList{}, &v1alpha1.MemberList{}, &v1alpha1.StorageNodeList{},
		&corev1.NodeList{}, &corev1.PersistentVolumeList{}, &storagev1.StorageClassList{}, &storagev1.VolumeAttachmentList{}, &corev1.SecretList{},
		&corev1.PodList{}, &coordinationv1.LeaseList{})
	s := &suite{t: t, client: c, driver: backend.DriverState{Ready: true}, events: events.NewFakeRecorder(1000)}
	s.san, s.lun = iscsitest.New(iqn)
	s.san.Granted = s.granted
	s.restart()
	t.Cleanup(func() {
		s.r.Work.Close()
		s.cleanUp()
		for _, v := range s.san.Violations() {
			t.Errorf("violated: %s", v)
		}
	})
	for _, n := range nodes {
		s.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n, Labels: map[string]string{"kept": "yes"}}})
		s.san.AddNode(n)
	}
	return s
}

// granted reports whether the API server has the key of a node on record.
func (s *suite) granted(node string, key uint64, boot string) bool {
	var list v1alpha1.MemberList
	if err := s.client.List(context.Background(), &list); err != nil {
		s.t.Error(err)
	}
	for _, m := range list.Items {
		if r := m.Spec.Reservation; string(m.Spec.Node) == node && r != nil && r.Key == fmt.Sprintf("%016x", key) && r.BootID == boot && !r.Fenced {
			return true
		}
	}
	return false
}

// State is that of the CSI driver.
func (s *suite) State(context.Context, string) (backend.DriverState, error) { return s.driver, nil }

func (s *suite) now() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }

// leap sets the controller's clock forward.
func (s *suite) leap(by time.Duration) { s.ahead.Add(int64(by)) }

// restart replaces the controller by one that remembers nothing.
func (s *suite) restart() {
	if s.r != nil {
		s.r.Work.Close()
	}
	s.lives++
	leases := san.KubernetesLeases{Client: s.client, Namespace: namespace, Now: s.now}
	live := iscsitest.Kubelets{Reader: s.client, SAN: s.san}
	b := backendiscsi.New(backendiscsi.Config{
		Agents: s.san, Records: leases, Client: s.client, Live: live, Namespace: namespace, Now: s.now, Random: rand.Uint64,
		Groups: san.New(san.Config{
			Self: fmt.Sprintf("engine/%d", s.lives), Nodes: s.san, Maker: s.san, Fleet: fleet.Fleet{Live: live, Reader: s.client, Agents: s.san}, Leases: leases,
			Processes: san.Pods{Live: s.client, Namespace: namespace}, Doubt: time.Millisecond, Pause: time.Millisecond, Now: s.now,
		}),
	})
	s.r = New(storage.Config{
		Client: s.client, Live: s.client, Records: s.client, Recorded: s.client, Work: work.New(context.Background(), s.now), Events: s.events, Drivers: s, Now: s.now,
		CapacityEvery: time.Nanosecond, Profiles: func(v1alpha1.Storage) (backend.Profile, bool) { return b.Profile(), true },
	}, b)
}

// told checks that people were told of something, and forgets what they were told.
func (s *suite) told(reason string, parts ...string) {
	s.t.Helper()
	var all []string
	for {
		select {
		case e := <-s.events.Events:
			all = append(all, e)
			continue
		default:
		}
		break
	}
	for _, e := range all {
		if strings.Contains(e, " "+reason+" ") && !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(e, p) }) {
			return
		}
	}
	s.t.Errorf("no event %s says %q: %s", reason, parts, strings.Join(all, "\n"))
}

func (s *suite) create(o client.Object) {
	s.t.Helper()
	if err := s.client.Create(context.Background(), o); err != nil {
		s.t.Fatal(err)
	}
}

// add creates an Iscsi.
func (s *suite) add(name string, edit func(*v1alpha1.IscsiSpec), initiators ...string) {
	s.t.Helper()
	i := &v1alpha1.Iscsi{ObjectMeta: metav1.ObjectMeta{Name: name}}
	i.Spec.Targets, i.Spec.IQN, i.Spec.RemovalDelay = []v1alpha1.PortalAddress{"10.0.0.1"}, iqn, &metav1.Duration{}
	for _, n := range initiators {
		i.Spec.Initiators = append(i.Spec.Initiators, v1alpha1.HostName(n))
	}
	if edit != nil {
		edit(&i.Spec)
	}
	s.create(i)
}

func (s *suite) get(name string) *v1alpha1.Iscsi {
	s.t.Helper()
	i := &v1alpha1.Iscsi{}
	if err := s.client.Get(context.Background(), types.NamespacedName{Name: name}, i); err != nil {
		s.t.Fatal(err)
	}
	return i
}

// edit changes the Iscsi san.
func (s *suite) edit(change func(*v1alpha1.Iscsi)) {
	s.t.Helper()
	i := s.get("san")
	change(i)
	if err := s.client.Update(context.Background(), i); err != nil {
		s.t.Fatal(err)
	}
}

func (s *suite) delete(o client.Object) {
	s.t.Helper()
	if err := s.client.Delete(context.Background(), o); err != nil {
		s.t.Fatal(err)
	}
}

func (s *suite) deleteIscsi(name string) {
	s.t.Helper()
	s.delete(&v1alpha1.Iscsi{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

func (s *suite) reconcile(name string) error {
	_, err := s.r.Reconcile(context.Background(), ctrl.Request{NamespacedName: types.NamespacedName{Name: name}})
	return err
}

// until reconciles again and again until the check has nothing to complain about. The controller's clock runs ahead, so that nothing waits for long.
func (s *suite) until(name string, check func(*v1alpha1.Iscsi) string) *v1alpha1.Iscsi {
	s.t.Helper()
	complaint := ""
	for pass, end := 0, time.Now().Add(patience); pass < 200 || time.Now().Before(end); pass++ {
		if err := s.reconcile(name); err != nil {
			complaint = "reconcile: " + err.Error()
		} else {
			i := s.get(name)
			if complaint = check(i); complaint == "" {
				return i
			}
		}
		s.leap(2 * time.Second)
		time.Sleep(pause)
	}
	s.t.Fatalf("iscsi %s: %s", name, complaint)
	return nil
}

func (s *suite) untilGone(name string) {
	s.t.Helper()
	var i v1alpha1.Iscsi
	for pass, end := 0, time.Now().Add(patience); pass < 200 || time.Now().Before(end); pass++ {
		err := s.reconcile(name)
		if e := s.client.Get(context.Background(), types.NamespacedName{Name: name}, &i); apierrors.IsNotFound(e) && err == nil {
			return
		}
		s.leap(2 * time.Second)
		time.Sleep(pause)
	}
	s.t.Fatalf("iscsi %s is still there: %s; calls %v", name, i.Status.Message, s.san.Calls())
}

// member returns the Member of a node, of the Iscsi san.
func (s *suite) member(node string) *v1alpha1.Member {
	s.t.Helper()
	m := &v1alpha1.Member{}
	if err := s.client.Get(context.Background(), types.NamespacedName{Name: "san." + node}, m); err != nil {
		s.t.Fatal(err)
	}
	return m
}

func (s *suite) label(node, key string) string {
	s.t.Helper()
	n := &corev1.Node{}
	if err := s.client.Get(context.Background(), types.NamespacedName{Name: node}, n); err != nil {
		s.t.Fatal(err)
	}
	return n.Labels[key]
}

func hasPhase(p v1alpha1.Phase) func(*v1alpha1.Iscsi) string {
	return func(i *v1alpha1.Iscsi) string {
		if i.Status.Phase != p {
			return fmt.Sprintf("phase %s, want %s: %s", i.Status.Phase, p, i.Status.Message)
		}
		return ""
	}
}

// hasCondition checks a condition's reason, and that its message has all the parts.
func hasCondition(kind string, status metav1.ConditionStatus, reason string, parts ...string) func(*v1alpha1.Iscsi) string {
	return func(i *v1alpha1.Iscsi) string {
		is := meta.FindStatusCondition(i.Status.Conditions, kind)
		if is == nil || is.Status != status || is.Reason != reason {
			return fmt.Sprintf("condition %s is %+v, want %s %s; message: %s", kind, is, status, reason, i.Status.Message)
		}
		for _, p := range parts {
			if !strings.Contains(is.Message, p) {
				return fmt.Sprintf("message %q lacks %q", is.Message, p)
			}
		}
		return ""
	}
}

// cleanUp removes what the test left on the API server.
func (s *suite) cleanUp() {
	ctx := context.Background()
	var all v1alpha1.IscsiList
	var members v1alpha1.MemberList
	if err := s.client.List(ctx, &all); err != nil {
		s.t.Error(err)
	}
	if err := s.client.List(ctx, &members); err != nil {
		s.t.Error(err)
	}
	for i := range all.Items {
		all.Items[i].Finalizers = nil
		_ = s.client.Update(ctx, &all.Items[i])
	}
	for i := range members.Items {
		members.Items[i].Finalizers = nil
		_ = s.client.Update(ctx, &members.Items[i])
	}
	var volumes corev1.PersistentVolumeList
	if err := s.client.List(ctx, &volumes); err != nil {
		s.t.Error(err)
	}
	for i := range volumes.Items {
		s.deleteVolume(volumes.Items[i].Name)
	}
	for _, o := range []client.Object{
		&v1alpha1.Iscsi{}, &v1alpha1.Member{}, &corev1.Node{}, &corev1.PersistentVolume{}, &storagev1.StorageClass{}, &storagev1.VolumeAttachment{},
	} {
		if err := s.client.DeleteAllOf(ctx, o, client.GracePeriodSeconds(0)); err != nil {
			s.t.Error(err)
		}
	}
	for _, o := range []client.Object{&corev1.Secret{}, &coordinationv1.Lease{}} {
		if err := s.client.DeleteAllOf(ctx, o, client.InNamespace(namespace), client.GracePeriodSeconds(0)); err != nil {
			s.t.Error(err)
		}
	}
}

// hasLabel checks the label of the Iscsi san on a node.
func (s *suite) hasLabel(node, want string) func(*v1alpha1.Iscsi) string {
	return func(i *v1alpha1.Iscsi) string {
		if got := s.label(node, v1alpha1.LabelInitiatorPrefix+i.Name); got != want {
			return fmt.Sprintf("the label of %s is %q, want %q; %s", node, got, want, i.Status.Message)
		}
		return ""
	}
}

func lacks(text, part string) string {
	if strings.Contains(text, part) {
		return ""
	}
	return fmt.Sprintf("%q lacks %q", text, part)
}

// volume makes the volume v1 with its PersistentVolume, held and mapped on a node.
func (s *suite) volume(node string) {
	s.t.Helper()
	s.san.SetVolume(s.lun, sharedlun.Volume{Name: "v1", UUID: "uuid-v1", SizeBytes: 1 << 20, ReadyBytes: 1 << 20, HeldBy: node}, node)
	s.create(&corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv-v1"},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "san", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: v1alpha1.DriverISCSI, VolumeHandle: iscsitest.GroupUUID + "/v1"},
			},
		},
	})
}

// attach records that the volume v1 is attached to a node, as Kubernetes does.
func (s *suite) attach(node string) {
	s.t.Helper()
	pv := "pv-v1"
	s.create(&storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "attach-v1"},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: v1alpha1.DriverISCSI, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv}},
	})
}

// deleteVolume deletes a PersistentVolume, for good.
func (s *suite) deleteVolume(name string) {
	s.t.Helper()
	v := &corev1.PersistentVolume{}
	if err := s.client.Get(context.Background(), types.NamespacedName{Name: name}, v); err != nil {
		s.t.Fatal(err)
	}
	// Nothing in a test takes the protection of Kubernetes off.
	v.Finalizers = nil
	if err := s.client.Update(context.Background(), v); err != nil {
		s.t.Fatal(err)
	}
	if err := client.IgnoreNotFound(s.client.Delete(context.Background(), v)); err != nil {
		s.t.Fatal(err)
	}
}
