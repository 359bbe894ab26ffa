package osd

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/prep"
	"quarry.storage/quarry/pkg/osd"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

const uid = "7a1c6d1e-0000-4000-8000-000000000001"

// node remembers what it was asked for.
type node struct {
	kind  osd.Kind
	asked []prep.Spec
}

func (n *node) InspectOSD(_ context.Context, s prep.Spec) (osd.Verdict, error) {
	n.asked = append(n.asked, s)
	return osd.Verdict{Kind: n.kind, Message: "why", Making: "first", Stale: n.kind == osd.Ready}, nil
}

func (n *node) PrepareOSD(_ context.Context, s prep.Spec) error {
	n.asked = append(n.asked, s)
	return nil
}

func (n *node) ZapOSD(_ context.Context, s prep.Spec) error {
	n.asked = append(n.asked, s)
	return plan.ErrNotOurs
}

func served(n Node) *service {
	return &service{name: "n1", node: n, identities: func(in []*agentv1.DeviceIdentity, digest bool) ([]plan.Identity, error) {
		if digest {
			return nil, errors.New("what is written on the disk decides, not its digest")
		}
		return []plan.Identity{{Path: in[0].GetPath()}}, nil
	}}
}

func TestInspect_states(t *testing.T) {
	for kind, want := range map[osd.Kind]agentv1.OsdState{
		osd.Unknown: agentv1.OsdState_OSD_STATE_UNSPECIFIED, osd.Empty: agentv1.OsdState_OSD_STATE_EMPTY, osd.Ready: agentv1.OsdState_OSD_STATE_READY,
		osd.Unfinished: agentv1.OsdState_OSD_STATE_UNFINISHED, osd.Other: agentv1.OsdState_OSD_STATE_OTHER, 99: agentv1.OsdState_OSD_STATE_UNSPECIFIED,
	} {
		req := &agentv1.InspectOsdRequest{Device: &agentv1.DeviceIdentity{Path: "/dev/x"}, Osd: &agentv1.OsdIdentity{ClusterUid: uid, Uuid: uid, Fsid: uid}}
		if got, err := served(&node{kind: kind}).InspectOsd(t.Context(), req); err != nil || got.GetState() != want || got.GetMessage() != "why" || got.GetMaking() != "first" || got.GetStale() != (kind == osd.Ready) {
			t.Errorf("%s: %v, %v", kind, got, err)
		}
	}
}

func TestRequests(t *testing.T) {
	const container = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	n := &node{}
	s, device := served(n), &agentv1.DeviceIdentity{Path: "/dev/x"}
	want := &agentv1.OsdIdentity{ClusterUid: uid, Uuid: uid, Fsid: uid, Id: new(int32(0))}
	if _, err := s.PrepareOsd(t.Context(), &agentv1.PrepareOsdRequest{Device: device, Osd: want, ToolsContainer: container, Fresh: true}); err != nil {
		t.Fatal(err)
	}
	want.Id = nil
	if _, err := s.ZapOsd(t.Context(), &agentv1.ZapOsdRequest{Device: device, Osd: want, Making: "first"}); !errors.Is(err, plan.ErrNotOurs) {
		t.Errorf("the error of the node becomes %v", err)
	}
	spec := prep.Spec{Node: "n1", Device: plan.Identity{Path: "/dev/x"}, ClusterUID: uid, Want: osd.Wanted{UUID: uid, FSID: uid, ID: -1}}
	prepared := spec
	prepared.Want.ID, prepared.Tools, prepared.Fresh = 0, container, true
	zapped := spec
	zapped.Making = "first"
	if diff := cmp.Diff([]prep.Spec{prepared, zapped}, n.asked); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, err := s.PrepareOsd(t.Context(), &agentv1.PrepareOsdRequest{Device: device, Osd: want, ToolsContainer: container}); !errors.Is(err, plan.ErrInvalid) || len(n.asked) != 2 {
		t.Errorf("without a number: %v", err)
	}
}

// TestPrepare_encrypted: an encrypted OSD comes with its key, and no other one does.
func TestPrepare_encrypted(t *testing.T) {
	secret := bytes.Repeat([]byte("k"), osd.KeyBytes)
	for name, tt := range map[string]struct {
		encrypted bool
		key       []byte
		says      string
	}{
		"with its key": {true, secret, ""}, "without": {true, nil, "no key is given"}, "with a short one": {true, secret[1:], "31 bytes"},
		"zeroes": {true, make([]byte, osd.KeyBytes), "zeros"}, "in the clear, with a key": {false, secret, "a key is given for an OSD that is not"}, "in the clear": {false, nil, ""},
	} {
		valid := tt.says == ""
		n := &node{}
		_, err := served(n).PrepareOsd(t.Context(), &agentv1.PrepareOsdRequest{
			Device: &agentv1.DeviceIdentity{Path: "/dev/x"}, Osd: &agentv1.OsdIdentity{ClusterUid: uid, Uuid: uid, Fsid: uid, Id: new(int32(0)), Encrypted: tt.encrypted},
			ToolsContainer: strings.Repeat("0", 64), Key: tt.key,
		})
		if (err == nil) != valid || !valid && (!errors.Is(err, plan.ErrInvalid) || !strings.Contains(err.Error(), tt.says) || len(n.asked) > 0) {
			t.Errorf("%s: %v, %d calls", name, err, len(n.asked))
		}
		if valid && (n.asked[0].Want.Encrypted != tt.encrypted || !bytes.Equal(n.asked[0].Key.Reveal(), tt.key)) {
			t.Errorf("%s: %+v", name, n.asked[0])
		}
	}
}
