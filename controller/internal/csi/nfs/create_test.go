package nfs_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedvolume"
)

func TestCreateVolume_recordsWhereItIs(t *testing.T) {
	s := newSuite(t)
	s.cache.nfs[0].Spec.SubDir = "${pvc.namespace}/${pvc.name}-${pv.name}"
	s.cache.nfs[0].Spec.OnDelete = v1alpha1.DirectoryArchive
	v := s.create(pvc)
	if v.GetVolumeId() != owner+"/"+pvc || v.GetCapacityBytes() != gib || len(v.GetAccessibleTopology()) > 0 {
		t.Errorf("volume is %v", v)
	}
	want := map[string]string{
		sharedvolume.KeyServer: "server", sharedvolume.KeyPath: "/export", sharedvolume.KeyMountOptions: "vers=4.1",
		sharedvolume.KeyDirectory: "team/claim-" + pvc, sharedvolume.KeyOnDelete: "archive", sharedvolume.KeyShareID: s.id,
	}
	if diff := cmp.Diff(want, v.GetVolumeContext()); diff != "" {
		t.Error(diff)
	}
	if _, err := sharedvolume.ParseAttributes(v.GetVolumeContext()); err != nil {
		t.Error(err)
	}
}

func TestCreateVolume_againKeepsWhatWasAgreedOn(t *testing.T) {
	s := newSuite(t)
	first := s.create(pvc)
	s.cache.nfs[0].Spec.SubDir = "elsewhere/${pv.name}"
	s.cache.nfs[0].Spec.OnDelete = v1alpha1.DirectoryRetain
	again := s.create(pvc)
	if diff := cmp.Diff(first.GetVolumeContext(), again.GetVolumeContext()); diff != "" {
		t.Error(diff)
	}
	s.wantShare(1, pvc)
	s.record(first)
	s.agents.asked()
	again = s.create(pvc)
	if diff := cmp.Diff(first.GetVolumeContext(), again.GetVolumeContext()); diff != "" {
		t.Error(diff)
	}
	if calls := s.agents.asked(); len(calls) != 1 {
		t.Errorf("calls are %v", calls)
	}
	larger := s.request(pvc)
	larger.CapacityRange.RequiredBytes = 2 * gib
	_, err := s.CreateVolume(t.Context(), larger)
	wantCode(t, err, codes.AlreadyExists)
}

// TestCreateVolume_sizeOfAnEarlierCall: the share records the size of the first call, the PersistentVolume outranks it, and where neither is there,
// nothing is known.
func TestCreateVolume_sizeOfAnEarlierCall(t *testing.T) {
	for name, c := range map[string]struct {
		older bool
		// persistent is the size of the PersistentVolume; 0 for none.
		persistent, required, limit, want int64
	}{
		"the same":                            {required: gib, want: gib},
		"none":                                {want: gib},
		"a range that holds it":               {required: gib / 2, limit: 2 * gib, want: gib},
		"more":                                {required: gib + 1},
		"less":                                {required: gib / 2, limit: gib - 1},
		"on record by an agent of before":     {older: true, required: 2 * gib, want: 2 * gib},
		"expanded since":                      {persistent: 3 * gib, required: gib, want: 3 * gib},
		"expanded since, and asked for":       {persistent: 3 * gib, required: 3 * gib, want: 3 * gib},
		"expanded since, and too little":      {persistent: 3 * gib, required: 4 * gib},
		"expanded since, and above the limit": {persistent: 3 * gib, required: gib, limit: 2 * gib},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			s.agents.older = c.older
			v := s.create(pvc)
			if c.persistent > 0 {
				v.CapacityBytes = c.persistent
				s.record(v)
			}
			s.agents.older = false
			r := s.request(pvc)
			if r.CapacityRange = nil; c.required+c.limit > 0 {
				r.CapacityRange = &csi.CapacityRange{RequiredBytes: c.required, LimitBytes: c.limit}
			}
			again, err := s.CreateVolume(t.Context(), r)
			if c.want == 0 {
				wantCode(t, err, codes.AlreadyExists)
			} else if err != nil || again.GetVolume().GetCapacityBytes() != c.want {
				t.Errorf("%v, %v, want %d bytes", again, err, c.want)
			}
			s.wantShare(1, pvc)
		})
	}
}

func TestCreateVolume_directoryOfAnother(t *testing.T) {
	s := newSuite(t)
	s.cache.nfs[0].Spec.SubDir = "${pvc.name}"
	s.share.Put("claim")
	_, err := s.CreateVolume(t.Context(), s.request(pvc))
	wantCode(t, err, codes.AlreadyExists)
	s.wantShare(0, "claim")
	s.share.Take("claim")
	s.create(pvc)
	_, err = s.CreateVolume(t.Context(), s.request("pvc-99999999-2222-4333-8444-555555555555"))
	wantCode(t, err, codes.AlreadyExists)
}

func TestCreateVolume_badInput(t *testing.T) {
	now := metav1.Now()
	for name, c := range map[string]struct {
		nfs  func(n *v1alpha1.Nfs)
		edit func(r *csi.CreateVolumeRequest)
		want codes.Code
		says string
	}{
		"a share that is not the one on record": {nfs: func(n *v1alpha1.Nfs) {
			n.Status.Conditions = []metav1.Condition{{
				Type: v1alpha1.ConditionShareReachable, Status: metav1.ConditionFalse, Reason: sharedvolume.ReasonOtherShare, Message: "another identity",
			}}
		}, want: codes.Unavailable, says: "another identity"},
		"a raw device": {edit: func(r *csi.CreateVolumeRequest) {
			r.VolumeCapabilities[0].AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
		}, want: codes.InvalidArgument, says: "volumeMode Block"},
		"another filesystem": {edit: func(r *csi.CreateVolumeRequest) {
			r.VolumeCapabilities[0].GetMount().FsType = "ext4"
		}, want: codes.InvalidArgument, says: "ext4"},
		"an option that weakens the node": {edit: func(r *csi.CreateVolumeRequest) {
			r.VolumeCapabilities[0] = shared("suid")
		}, want: codes.InvalidArgument, says: "suid"},
		"an unknown parameter": {edit: func(r *csi.CreateVolumeRequest) { r.Parameters["subDir"] = "../.." }, want: codes.InvalidArgument, says: "subDir"},
		"no Nfs": {edit: func(r *csi.CreateVolumeRequest) {
			delete(r.Parameters, v1alpha1.ParameterNfs)
		}, want: codes.InvalidArgument, says: "is missing"},
		"an Nfs that is none": {edit: func(r *csi.CreateVolumeRequest) {
			r.Parameters[v1alpha1.ParameterNfs] = other
		}, want: codes.InvalidArgument, says: "no Nfs"},
		"a path as UID": {edit: func(r *csi.CreateVolumeRequest) {
			r.Parameters[v1alpha1.ParameterNfs] = "../../etc"
		}, want: codes.InvalidArgument, says: "not a UID"},
		"a claim that leads out": {
			nfs:  func(n *v1alpha1.Nfs) { n.Spec.SubDir = "${pvc.name}" },
			edit: func(r *csi.CreateVolumeRequest) { r.Parameters["csi.storage.k8s.io/pvc/name"] = "../../etc" },
			want: codes.InvalidArgument, says: "not a name",
		},
		"a template without its values": {
			nfs:  func(n *v1alpha1.Nfs) { n.Spec.SubDir = "${pvc.namespace}" },
			edit: func(r *csi.CreateVolumeRequest) { delete(r.Parameters, "csi.storage.k8s.io/pvc/namespace") },
			want: codes.InvalidArgument, says: "${pvc.namespace}",
		},
		"a template that leads out":   {nfs: func(n *v1alpha1.Nfs) { n.Spec.SubDir = "../${pv.name}" }, want: codes.InvalidArgument, says: "Nfs media"},
		"an option that was let in":   {nfs: func(n *v1alpha1.Nfs) { n.Spec.MountOptions[0] = "dev" }, want: codes.InvalidArgument, says: "Nfs media"},
		"an Nfs that is deleted":      {nfs: func(n *v1alpha1.Nfs) { n.DeletionTimestamp = &now }, want: codes.FailedPrecondition, says: "being deleted"},
		"a size above all numbers":    {edit: func(r *csi.CreateVolumeRequest) { r.CapacityRange.RequiredBytes = 1 << 62 }, want: codes.OutOfRange},
		"content of another":          {edit: func(r *csi.CreateVolumeRequest) { r.VolumeContentSource = from(owner + "/" + pvc) }, want: codes.InvalidArgument},
		"a mark that is another's":    {nfs: func(n *v1alpha1.Nfs) { n.UID = other }, edit: func(r *csi.CreateVolumeRequest) { r.Parameters[v1alpha1.ParameterNfs] = other }, want: codes.FailedPrecondition, says: "no mark"},
		"an Nfs with an odd onDelete": {nfs: func(n *v1alpha1.Nfs) { n.Spec.OnDelete = "shred" }, want: codes.InvalidArgument, says: "shred"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			if c.nfs != nil {
				c.nfs(&s.cache.nfs[0])
			}
			r := s.request(pvc)
			if c.edit != nil {
				c.edit(r)
			}
			_, err := s.CreateVolume(t.Context(), r)
			wantCode(t, err, c.want)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("message is %v, want %q", err, c.says)
			}
			s.wantShare(0)
		})
	}
}

func from(handle string) *csi.VolumeContentSource {
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: handle}}}
}

func TestCreateVolume_throughTheAgentThatReachesTheShare(t *testing.T) {
	s := newSuite(t, "node-1", "node-2", "node-3")
	s.cache.nfs[0].Status.CheckedFrom = "node-3"
	s.create(pvc)
	if diff := cmp.Diff([]string{"EnsureDirectory node-3"}, s.agents.asked()); diff != "" {
		t.Error(diff)
	}
	s.agents.fail("node-3", &decide.Fault{Kind: decide.FaultUnavailable, Message: "cut off"})
	s.agents.fail("node-1", &decide.Fault{Kind: decide.FaultPrecondition, Reason: sharedvolume.ReasonRefused, Message: "not allowed"})
	s.create(pvc)
	if calls := s.agents.asked(); calls[0] != "EnsureDirectory node-3" || calls[len(calls)-1] != "EnsureDirectory node-2" {
		t.Errorf("calls are %v", calls)
	}
	s.create(pvc)
	if diff := cmp.Diff([]string{"EnsureDirectory node-2"}, s.agents.asked()); diff != "" {
		t.Errorf("the node that worked was forgotten: %s", diff)
	}
	s.agents.fail("node-2", &decide.Fault{Kind: decide.FaultPrecondition, Reason: sharedvolume.ReasonUnreachable, Message: "no answer"})
	_, err := s.CreateVolume(t.Context(), s.request(pvc))
	wantCode(t, err, codes.FailedPrecondition)
	if calls := s.agents.asked(); len(calls) != 3 || !strings.Contains(err.Error(), "no answer (and 2 other nodes failed, too)") {
		t.Errorf("calls are %v: %v", calls, err)
	}
	for _, n := range s.agents.Online() {
		s.agents.Forget(n)
	}
	_, err = s.CreateVolume(t.Context(), s.request(pvc))
	wantCode(t, err, codes.Unavailable)
}

// TestCreateVolume_whereNobodyElseWorks: an agent that has as many calls as it takes says nothing of the volume. One that works on this volume does.
func TestCreateVolume_whereNobodyElseWorks(t *testing.T) {
	s := newSuite(t, "node-1", "node-2")
	s.cache.nfs[0].Status.CheckedFrom = "node-1"
	s.agents.fail("node-1", &decide.Fault{Kind: decide.FaultBusy, Reason: sharedvolume.ReasonTooManyCalls, Message: "16 calls"})
	s.create(pvc)
	if diff := cmp.Diff([]string{"EnsureDirectory node-1", "EnsureDirectory node-2"}, s.agents.asked()); diff != "" {
		t.Error(diff)
	}
}

func TestCreateVolume_whatConcernsAllNodesIsAskedOnce(t *testing.T) {
	s := newSuite(t, "node-1", "node-2", "node-3")
	for _, f := range []*decide.Fault{
		{Kind: decide.FaultNoRoom, Reason: sharedvolume.ReasonNoSpace},
		{Kind: decide.FaultPrecondition, Reason: sharedvolume.ReasonOtherShare},
		{Kind: decide.FaultBusy},
		{Kind: decide.FaultInvalid},
	} {
		for _, n := range s.agents.Online() {
			s.agents.fail(n, f)
		}
		if _, err := s.CreateVolume(t.Context(), s.request(pvc)); err == nil {
			t.Errorf("%+v: no error", f)
		}
		if calls := s.agents.asked(); len(calls) != 1 {
			t.Errorf("%+v: calls are %v", f, calls)
		}
	}
}

func TestCreateVolume_diesAtEveryStep(t *testing.T) {
	dies := func(context.Context, string) error {
		return &decide.Fault{Kind: decide.FaultUnavailable, Message: "killed"}
	}
	for name, hook := range map[string]func(*spy){
		"before": func(a *spy) { a.hook(dies, nil) },
		"after":  func(a *spy) { a.hook(nil, dies) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t, "node-1")
			hook(s.agents)
			_, err := s.CreateVolume(t.Context(), s.request(pvc))
			wantCode(t, err, codes.Unavailable)
			s.agents.hook(nil, nil)
			s.create(pvc)
			s.wantShare(1, pvc)
		})
	}
}

func TestCreateVolume_aServerThatHangsEndsWithTheCall(t *testing.T) {
	s := newSuite(t)
	s.agents.hook(func(ctx context.Context, method string) error {
		<-ctx.Done()
		return &decide.Fault{Kind: decide.FaultUnavailable, Call: method, Message: ctx.Err().Error()}
	}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.CreateVolume(ctx, s.request(pvc)); err == nil {
		t.Error("no error")
	}
	s.agents.hook(nil, nil)
	for deadline := time.Now().Add(5 * time.Second); ; {
		if _, err := s.CreateVolume(t.Context(), s.request(pvc)); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the volume stays locked")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// A share that is exported from inside of another one does not know the volumes of that one.
func TestCreateVolume_keepsOutOfVolumesOfOtherShares(t *testing.T) {
	s := newSuite(t)
	const outer = "0f3b2c1d-1111-2222-3333-888888888888"
	for _, directory := range []string{"export", "export/team", "export/team/claim", "export/team/claim/x"} {
		s.cache.volumes = nil
		s.cache.nfs[0].Spec.SubDir = "${pvc.namespace}/${pvc.name}"
		other := s.record(&csi.Volume{
			VolumeId: outer + "/pvc-1", CapacityBytes: gib,
			VolumeContext: sharedvolume.Attributes{Server: "SERVER.", Path: "/", Directory: directory, OnDelete: sharedvolume.Delete}.Map(),
		})
		_, err := s.CreateVolume(t.Context(), s.request(pvc))
		wantCode(t, err, codes.AlreadyExists)
		if err == nil || !strings.Contains(err.Error(), other.Spec.CSI.VolumeHandle) {
			t.Errorf("%s: %v", directory, err)
		}
		s.wantShare(0)
	}
	s.cache.volumes[0].Spec.CSI.VolumeAttributes[sharedvolume.KeyDirectory] = "export/other"
	s.create(pvc)
}
