package ceph_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	runner "quarry.storage/quarry/controller/internal/ceph"
	"quarry.storage/quarry/controller/internal/ceph/cephtest"
	"quarry.storage/quarry/controller/internal/csi/ceph"
	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephvolume"
)

func TestSnapshots_outliveTheirVolume(t *testing.T) {
	s := newSuite(t)
	s.create(pvc)
	one := s.snapshot(handle(pvc))
	again := s.snapshot(handle(pvc))
	if one.GetSnapshotId() != again.GetSnapshotId() || !one.GetReadyToUse() || one.GetSizeBytes() != gib || one.GetSourceVolumeId() != handle(pvc) || one.GetCreationTime() == nil {
		t.Errorf("%v, %v", one, again)
	}
	if err := s.remove(handle(pvc)); err != nil {
		t.Fatal(err)
	}
	_, err := s.CreateVolume(t.Context(), request(pvc))
	wantCode(t, "the name of a volume whose snapshots are left", err, codes.FailedPrecondition)
	_, err = s.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "second", SourceVolumeId: handle(pvc)})
	wantCode(t, "a snapshot of a deleted volume", err, codes.NotFound)
	if v := s.create(pvc2, fromSnapshot(one.GetSnapshotId()), sized(2*gib)); v.GetCapacityBytes() != 2*gib {
		t.Errorf("%v", v)
	}
	r, err := s.ListSnapshots(t.Context(), &csi.ListSnapshotsRequest{SourceVolumeId: handle(pvc)})
	if err != nil || len(r.GetEntries()) != 1 {
		t.Errorf("%v, %v", r, err)
	}
	for range 2 {
		if err := s.removeSnapshot(one.GetSnapshotId()); err != nil {
			t.Error(err)
		}
	}
	if got := s.left(); got != pvc2+" 2147483648" {
		t.Errorf("left is %s", got)
	}
}

func TestCopies_areReadyWhenWhole(t *testing.T) {
	s := newSuite(t)
	s.ceph.Volumes.Looks = 6
	s.create(pvc)
	_, err := s.CreateVolume(t.Context(), request(pvc2, fromVolume(handle(pvc)), sized(2*gib)))
	wantCode(t, "while it is copied", err, codes.Aborted)
	r, err := s.ControllerGetVolume(t.Context(), &csi.ControllerGetVolumeRequest{VolumeId: handle(pvc2)})
	if err != nil || !r.GetStatus().GetVolumeCondition().GetAbnormal() {
		t.Errorf("%v, %v", r, err)
	}
	_, err = s.CreateVolume(t.Context(), request(pvc2))
	wantCode(t, "an empty volume of the name", err, codes.AlreadyExists)
	if v := s.create(pvc2, fromVolume(handle(pvc)), sized(2*gib)); v.GetCapacityBytes() != 2*gib {
		t.Errorf("%v", v)
	}
	if strings.Contains(s.left(), "@") {
		t.Errorf("the snapshot that the copy was made from is left: %s", s.left())
	}
	s.create(pvc2, fromVolume(handle(pvc)), sized(2*gib))
	one := s.snapshot(handle(pvc)).GetSnapshotId()
	_, err = s.CreateVolume(t.Context(), request(pvc2, fromSnapshot(one)))
	wantCode(t, "another source", err, codes.AlreadyExists)
	_, err = s.CreateVolume(t.Context(), request("pvc-11111111-2222-4333-8444-55555555555a", fromSnapshot(one), sized(1), func(r *csi.CreateVolumeRequest) { r.CapacityRange.LimitBytes = gib / 2 }))
	wantCode(t, "less than the source", err, codes.OutOfRange)
}

// TestCopies_areWaitedFor: a copy that is whole soon is returned by the call that began it, and one that is not is waited for by another call.
func TestCopies_areWaitedFor(t *testing.T) {
	s := patient(t, time.Minute)
	s.ceph.Volumes.Looks = 3
	s.create(pvc)
	v, err := s.CreateVolume(t.Context(), request(pvc2, fromVolume(handle(pvc)), sized(2*gib)))
	if err != nil || v.GetVolume().GetCapacityBytes() != 2*gib || strings.Contains(s.left(), "@") {
		t.Errorf("%v, %v, left is %s", v, err, s.left())
	}
	s = patient(t, 200*time.Millisecond)
	s.ceph.Volumes.Looks = 1000
	s.create(pvc)
	begun := time.Now()
	_, err = s.CreateVolume(t.Context(), request(pvc2, fromVolume(handle(pvc))))
	wantCode(t, "while it is copied", err, codes.Aborted)
	if took := time.Since(begun); took < 200*time.Millisecond {
		t.Errorf("it waited %s", took)
	}
	_, err = s.CreateVolume(t.Context(), request(pvc2))
	wantCode(t, "an empty volume of the name", err, codes.AlreadyExists)
}

// TestCopies_areLookedAtSeldom: of many copies that take long only a few are waited for, and these are looked at less and less often. The other calls are to come again at once.
func TestCopies_areLookedAtSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls, waiting, most = 50, 4, 8
		c := v1alpha1.Cluster{}
		c.Name, c.UID, c.Spec.StorageType = "shared", types.UID(owner), v1alpha1.StorageTypeCephFS
		m := cephtest.New(t, owner, "n0", "n1", "n2")
		m.Servers, m.Volumes = []string{"m"}, cephtest.NewVolumes()
		known := &cache{clusters: []v1alpha1.Cluster{c}}
		b := ceph.New(ceph.Config{Reader: known, Live: &server{cache: known}, Log: logr.Discard(), Patience: 20 * time.Second, Connect: func(context.Context, string) (runner.Runner, error) { return m, nil }})
		wish := frame.Wish{Name: pvc, Parameters: map[string]string{v1alpha1.ParameterCluster: owner}, Size: volume.Range{Required: gib}}
		if _, err := b.CreateVolume(t.Context(), wish); err != nil {
			t.Fatal(err)
		}
		m.Volumes.Looks = 1 << 20
		// What is asked while the calls begin is no look.
		var begun atomic.Bool
		var looks atomic.Int64
		m.Fail = func(args []string) error {
			if begun.Load() && slices.Contains(args, "info") {
				looks.Add(1)
			}
			return nil
		}
		took := make(chan time.Duration, calls)
		for i := range calls {
			one := wish
			one.Name, one.Source = fmt.Sprintf("pvc-11111111-2222-4333-8444-%012d", i), &frame.Source{Handle: handle(pvc)}
			go func() {
				from := time.Now()
				if _, err := b.CreateVolume(t.Context(), one); err == nil || !strings.Contains(err.Error(), "is being copied") {
					t.Errorf("%s: %v", one.Name, err)
				}
				took <- time.Since(from)
			}()
		}
		synctest.Wait()
		begun.Store(true)
		waited := 0
		for range calls {
			if <-took >= 20*time.Second {
				waited++
			}
		}
		if n := looks.Load(); waited != waiting || n < waiting || n > waiting*most {
			t.Errorf("%d calls waited, and looked %d times", waited, n)
		}
	})
}

func TestCopies_thatFail(t *testing.T) {
	s := newSuite(t)
	s.ceph.Volumes.Looks = 1000
	s.create(pvc)
	_, err := s.CreateVolume(t.Context(), request(pvc2, fromVolume(handle(pvc))))
	wantCode(t, "while it is copied", err, codes.Aborted)
	s.ceph.Volumes.All[pvc2].State = "failed"
	s.ceph.Volumes.Looks = 0
	s.create(pvc2, fromVolume(handle(pvc)))
	if got := s.ceph.Volumes.All[pvc2].State; got != "complete" {
		t.Error(got)
	}
}

// TestCopies_thatDoNotFit: no copy is begun that fills the disks. What Ceph gave up for want of room is removed, and begun anew only where there is room for all that it may have.
func TestCopies_thatDoNotFit(t *testing.T) {
	s := newSuite(t)
	s.create(pvc, sized(50*gib))
	copied := func(bytes int64) error {
		_, err := s.CreateVolume(t.Context(), request(pvc2, fromVolume(handle(pvc)), sized(bytes)))
		return err
	}
	s.ceph.Volumes.All[pvc].Used, s.ceph.Volumes.AvailableBytes = 10*gib, 11*gib
	wantCode(t, "what is in it does not fit", copied(50*gib), codes.ResourceExhausted)
	if got := s.left(); strings.Contains(got, pvc2) || strings.Contains(got, "@") {
		t.Errorf("left is %s", got)
	}
	// It is as large as the snapshot turns out not to be.
	s.ceph.Volumes.All[pvc].Used, s.ceph.Volumes.Looks = gib, 1000
	wantCode(t, "what is in it fits", copied(50*gib), codes.Aborted)
	s.ceph.Volumes.All[pvc2].State, s.ceph.Volumes.All[pvc2].Errno = "failed", 28
	for range 2 {
		wantCode(t, "Ceph found no room", copied(50*gib), codes.ResourceExhausted)
		if got := s.left(); strings.Contains(got, pvc2) || strings.Contains(got, "@") {
			t.Errorf("left is %s", got)
		}
	}
	s.ceph.Volumes.AvailableBytes, s.ceph.Volumes.Looks = 100*gib, 0
	s.create(pvc2, fromVolume(handle(pvc)), sized(50*gib))
	s.ceph.Volumes.AvailableBytes = 0
	if err := copied(50 * gib); err != nil {
		t.Errorf("a copy that is whole: %v", err)
	}
	// A snapshot may be far smaller than its volume is now.
	one := s.snapshot(handle(pvc)).GetSnapshotId()
	s.ceph.Volumes.All[pvc].Used, s.ceph.Volumes.AvailableBytes = 40*gib, gib
	s.create("pvc-11111111-2222-4333-8444-55555555555b", fromSnapshot(one), sized(50*gib))
}

// TestCopies_tightForAnHour: that there was no room for a copy counts for an hour.
func TestCopies_tightForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := v1alpha1.Cluster{}
		c.Name, c.UID, c.Spec.StorageType = "shared", types.UID(owner), v1alpha1.StorageTypeCephFS
		m := cephtest.New(t, owner, "n0", "n1", "n2")
		m.Servers, m.Volumes = []string{"m"}, cephtest.NewVolumes()
		known := &cache{clusters: []v1alpha1.Cluster{c}}
		b := ceph.New(ceph.Config{Reader: known, Live: &server{cache: known}, Log: logr.Discard(), Connect: func(context.Context, string) (runner.Runner, error) { return m, nil }})
		wish := frame.Wish{Name: pvc, Parameters: map[string]string{v1alpha1.ParameterCluster: owner}, Size: volume.Range{Required: 50 * gib}}
		if _, err := b.CreateVolume(t.Context(), wish); err != nil {
			t.Fatal(err)
		}
		m.Volumes.AvailableBytes, m.Volumes.Looks = 20*gib, 1<<20
		wish.Name, wish.Source = pvc2, &frame.Source{Handle: handle(pvc)}
		copied := func() string {
			_, err := b.CreateVolume(t.Context(), wish)
			return fmt.Sprint(err)
		}
		for range 2 {
			if got := copied(); !strings.Contains(got, "is being copied") {
				t.Fatal(got)
			}
			m.Volumes.All[pvc2].State, m.Volumes.All[pvc2].Errno = "failed", 122
			if got := copied(); !strings.Contains(got, "there is no room") {
				t.Fatal(got)
			}
			time.Sleep(time.Hour)
		}
	})
}

// TestCopies_deleted: a copy is deleted while it is made, and so is what it is made of; nothing is left.
func TestCopies_deleted(t *testing.T) {
	for name, order := range map[string][]string{"the copy first": {pvc2, pvc}, "the source first": {pvc, pvc2}} {
		s := newSuite(t)
		s.ceph.Volumes.Looks = 1000
		s.create(pvc)
		_, err := s.CreateVolume(t.Context(), request(pvc2, fromVolume(handle(pvc))))
		wantCode(t, name, err, codes.Aborted)
		for _, v := range order {
			if err := s.remove(handle(v)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := s.left(); got != "" {
			t.Errorf("%s: left is %s", name, got)
		}
	}
	s := newSuite(t)
	s.create(pvc)
	one := s.snapshot(handle(pvc)).GetSnapshotId()
	s.ceph.Volumes.Looks = 1000
	if _, err := s.CreateVolume(t.Context(), request(pvc2, fromSnapshot(one))); status.Code(err) != codes.Aborted {
		t.Fatal(err)
	}
	wantCode(t, "a snapshot that is copied", s.removeSnapshot(one), codes.Aborted)
	// A copy that never began leaves its snapshot.
	s.ceph.Volumes.All[pvc].Snapshots[cephvolume.CopyName(cephvolume.Name("never"))] = gib
	if err := s.remove(handle(pvc)); err != nil || strings.Contains(s.left(), "@copy-") {
		t.Errorf("%v, left is %s", err, s.left())
	}
}

// TestKilledAnywhere cuts every command off, before and after it was performed, and repeats the call.
func TestKilledAnywhere(t *testing.T) {
	calls := map[string]func(s *suite) error{
		"create": func(s *suite) error { _, err := s.CreateVolume(s.t.Context(), request(pvc2)); return err },
		"copy": func(s *suite) error {
			_, err := s.CreateVolume(s.t.Context(), request(pvc2, fromVolume(handle(pvc)), sized(2*gib)))
			return err
		},
		"grow": func(s *suite) error {
			_, err := s.ControllerExpandVolume(s.t.Context(), &csi.ControllerExpandVolumeRequest{VolumeId: handle(pvc), CapacityRange: &csi.CapacityRange{RequiredBytes: 5 * gib}})
			return err
		},
		"snapshot": func(s *suite) error {
			_, err := s.CreateSnapshot(s.t.Context(), &csi.CreateSnapshotRequest{Name: snap, SourceVolumeId: handle(pvc)})
			return err
		},
		"delete": func(s *suite) error { return s.remove(handle(pvc)) },
	}
	want := map[string]string{
		"create": pvc + " 1073741824, " + pvc2 + " 1073741824", "copy": pvc + " 1073741824, " + pvc2 + " 2147483648", "grow": pvc + " 5368709120",
		"snapshot": pvc + " 1073741824, " + pvc + "@snap-" + snap[9:], "delete": "",
	}
	for name, call := range calls {
		for cut := 0; ; cut++ {
			reached := killed(t, name, want[name], call, cut, false)
			if killed(t, name, want[name], call, cut, true); !reached {
				break
			}
		}
	}
}

// killed cuts one command off, and repeats the call until it succeeds. It reports whether there were so many commands.
func killed(t *testing.T, name, want string, call func(*suite) error, cut int, after bool) bool {
	t.Helper()
	s := newSuite(t)
	s.create(pvc)
	before, n := len(s.ceph.Changes()), 0
	fail := func() error {
		if n++; n == cut+1 {
			return errCut
		}
		return nil
	}
	if after {
		s.late = fail
	} else {
		s.ceph.Fail = func([]string) error { return fail() }
	}
	err := call(s)
	reached := n > cut
	for tries := 0; err != nil && tries < 20; tries++ {
		if c := status.Code(err); c != codes.Aborted && c != codes.Unavailable {
			t.Fatalf("%s, cut at command %d (after it: %t): %v", name, cut, after, err)
		}
		err = call(s)
	}
	left := strings.Split(s.left(), ", ")
	slices.Sort(left)
	if got := strings.Join(left, ", "); err != nil || got != want {
		t.Errorf("%s, cut at command %d (after it: %t) of %q: left is %s, want %s; %v", name, cut, after, s.ceph.Changes()[before:], got, want, err)
	}
	return reached
}
