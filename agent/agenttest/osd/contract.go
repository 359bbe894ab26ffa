// Package osd is what every node must do when disks are made OSDs and given back, whatever is behind the agent's server.
package osd

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/pkg/osd"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// Node is what the contract runs against.
type Node interface {
	// Conn is a connection with the controller's certificate to the agent as it runs now.
	Conn(t *testing.T) grpc.ClientConnInterface
	// Name of the node.
	Name() string
	// Disk is the stable path of a spare disk with room for a label at 1 GiB.
	Disk() string
	// Tools is the ID of a container with Ceph's programs. Between StopTools and Reset none runs.
	Tools() string
	StopTools(t *testing.T)
	// Reset empties the disk, by force, and lets the container run.
	Reset(t *testing.T)
	// Dirty writes data of no known format on the disk.
	Dirty(t *testing.T)
	// Foreign makes the disk the OSD of somebody else, which is ready.
	Foreign(t *testing.T, uuid, fsid string)
	// ZeroEnds zeroes the first and the last MiB of the disk.
	ZeroEnds(t *testing.T)
	// ShowPartition has the kernel show a partition that no table on the disk tells of.
	ShowPartition(t *testing.T)
	// Open lets a program have the disk open until it is closed.
	Open(t *testing.T) (closeIt func())
	// Steps counts the changes that the agent made so far.
	Steps() int
	// CutOff makes a call that prepares the disk, and lets the agent die in the making of the OSD. The agent runs again then.
	CutOff(t *testing.T, call func() error)
	// Crash lets the agent die before or after the n-th change from now; zero takes it back. Restart starts it again.
	Crash(n int, after bool)
	Restart(t *testing.T)
}

const (
	cluster = "7a1c6d1e-0000-4000-8000-000000000001"
	other   = "7a1c6d1e-0000-4000-8000-000000000002"
	// maxSteps is more than a call has.
	maxSteps = 50
)

// Contract runs all behaviours.
func Contract(t *testing.T, node Node) {
	for _, b := range []struct {
		name  string
		check func(*suite)
	}{
		{"an empty disk becomes an OSD once, and is given back clean", makesAndGivesBack},
		{"prepare survives death between any two steps", prepareSurvives},
		{"zap survives death between any two steps", zapSurvives},
		{"an OSD whose making was cut off is given back clean", zapsUnfinished},
		{"an OSD whose label the kernel takes for a table of partitions is given back clean", zapsPhantom},
		{"another OSD is left alone, even if both ends of its disk are zeroed", leavesForeign},
		{"an empty disk is not an OSD that ran", refusesRan},
		{"what is not clean, or not as described, is left alone", refusesOthers},
		{"a disk that a program has open is left alone", refusesOpen},
		{"nothing is done without Ceph's programs", refusesWithoutTools},
		{"an OSD without the label at its start is not taken for a whole one", refusesHeadless},
		{"an OSD that was made anew is not the one that was to be given back", refusesMadeAnew},
		{"bad requests are refused", refusesBadRequests},
	} {
		t.Run(b.name, func(t *testing.T) {
			node.Reset(t)
			b.check(&suite{T: t, Node: node})
		})
	}
	node.Reset(t)
}

// Encrypted runs the behaviours of encrypted OSDs. The node has to be able to encrypt disks.
func Encrypted(t *testing.T, node Node) {
	for _, b := range []struct {
		name  string
		check func(*suite)
	}{
		{"an empty disk becomes an encrypted OSD once, and is given back clean", makesAndGivesBack},
		{"prepare survives death between any two steps", prepareSurvives},
		{"zap survives death between any two steps", zapSurvives},
		{"an OSD whose making was cut off is given back clean", zapsUnfinished},
		{"another OSD is left alone", leavesForeign},
		{"an empty disk is not an OSD that ran", refusesRan},
		{"what is not clean, or not as described, is left alone", refusesOthers},
		{"a disk that a program has open is left alone", refusesOpen},
		{"nothing is done without Ceph's programs", refusesWithoutTools},
		{"an encrypted OSD is none in the clear, and the other way round", refusesOtherKind},
		{"an OSD that was made anew is not the one that was to be given back", refusesMadeAnew},
		{"bad requests are refused", refusesBadRequests},
	} {
		t.Run(b.name, func(t *testing.T) {
			node.Reset(t)
			b.check(&suite{T: t, Node: node, key: []byte("0123456789abcdef0123456789abcdef")})
		})
	}
	node.Reset(t)
}

// RefusesUnable wants a node that cannot encrypt disks to refuse before its first write.
func RefusesUnable(t *testing.T, node Node) {
	node.Reset(t)
	s := &suite{T: t, Node: node, key: []byte("0123456789abcdef0123456789abcdef")}
	s.clean()
	// Looking for the programs changes nothing.
	s.refused("prepare", s.prepare(s.request()), codes.FailedPrecondition, s.Steps())
	s.is(agentv1.OsdState_OSD_STATE_EMPTY)
}

// suite is one behaviour's view of the node.
type suite struct {
	*testing.T
	Node
	// key of the encrypted OSD; nil if it is in the clear.
	key []byte
}

func (s *suite) ctx() context.Context {
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	s.Cleanup(cancel)
	return ctx
}

func (s *suite) osds() agentv1.OsdServiceClient { return agentv1.NewOsdServiceClient(s.Conn(s.T)) }

// device is the disk as it is seen now.
func (s *suite) device() *agentv1.Device {
	s.Helper()
	resp, err := agentv1.NewDeviceServiceClient(s.Conn(s.T)).ListDevices(s.ctx(), &agentv1.ListDevicesRequest{})
	if err != nil {
		s.Fatalf("ListDevices: %v", err)
	}
	for _, d := range resp.GetDevices() {
		if d.GetPath() == s.Disk() {
			return d
		}
	}
	s.Fatalf("device %s is not listed", s.Disk())
	return nil
}

// clean waits until the disk can be taken.
func (s *suite) clean() {
	s.Helper()
	for deadline := time.Now().Add(20 * time.Second); len(s.device().GetRefusals()) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("the disk stays %v", s.device())
		}
	}
}

func (s *suite) identity() *agentv1.DeviceIdentity {
	s.Helper()
	d := s.device()
	return &agentv1.DeviceIdentity{Path: d.GetPath(), Wwn: d.GetWwn(), Serial: d.GetSerial(), SizeBytes: d.GetSizeBytes(), Digest: d.GetDigest()}
}

// wanted is the OSD of a Cluster on the disk.
func (s *suite) wanted(uid string) *agentv1.OsdIdentity {
	s.Helper()
	d := s.device()
	uuid, err := osd.UUID(uid, osd.Disk{WWN: d.GetWwn(), Serial: d.GetSerial(), SizeBytes: d.GetSizeBytes(), Node: s.Name()}, d.GetPath())
	if err != nil {
		s.Fatal(err)
	}
	return &agentv1.OsdIdentity{ClusterUid: uid, Uuid: uuid, Fsid: uid, Id: new(int32(7)), Encrypted: s.key != nil}
}

// request is one to prepare the disk as it is now.
func (s *suite) request() *agentv1.PrepareOsdRequest {
	s.Helper()
	return &agentv1.PrepareOsdRequest{Device: s.identity(), Osd: s.wanted(cluster), ToolsContainer: s.Tools(), Fresh: true, Key: s.key}
}

func (s *suite) prepare(req *agentv1.PrepareOsdRequest) error {
	_, err := s.osds().PrepareOsd(s.ctx(), req)
	return err
}

// zap gives back what the disk carries now.
func (s *suite) zap() error {
	s.Helper()
	return s.zapMaking(s.inspect().GetMaking())
}

func (s *suite) zapMaking(making string) error {
	s.Helper()
	id := s.identity()
	id.Digest = ""
	_, err := s.osds().ZapOsd(s.ctx(), &agentv1.ZapOsdRequest{Device: id, Osd: s.wanted(cluster), Making: making})
	return err
}

// inspect says what the disk is to the Cluster.
func (s *suite) inspect() *agentv1.InspectOsdResponse {
	s.Helper()
	resp, err := s.osds().InspectOsd(s.ctx(), &agentv1.InspectOsdRequest{Device: s.identity(), Osd: s.wanted(cluster)})
	if err != nil {
		s.Fatalf("InspectOsd: %v", err)
	}
	return resp
}

// is wants the disk to be that to the Cluster.
func (s *suite) is(want agentv1.OsdState) {
	s.Helper()
	resp := s.inspect()
	carries := want == agentv1.OsdState_OSD_STATE_READY || want == agentv1.OsdState_OSD_STATE_UNFINISHED
	if resp.GetState() != want || resp.GetMessage() == "" || (resp.GetMaking() != "") != carries {
		s.Fatalf("the disk is %v, want %s", resp, want)
	}
	if want == agentv1.OsdState_OSD_STATE_READY && resp.GetCarries() != s.wanted(cluster).GetUuid() {
		s.Fatalf("the disk is %v, and carries %s", resp, s.wanted(cluster).GetUuid())
	}
	if told := slices.Contains(resp.GetFsids(), s.wanted(cluster).GetFsid()); !resp.GetTellsFsids() || want == agentv1.OsdState_OSD_STATE_READY && !told {
		s.Fatalf("the disk is %v, and the agent does not tell of whose Ceph cluster its OSD is", resp)
	}
}

// must fails the test on an error.
func (s *suite) must(what string, err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// refused wants the code, and that nothing was changed since before.
func (s *suite) refused(what string, err error, want codes.Code, before int) {
	s.Helper()
	if got := status.Code(err); got != want {
		s.Errorf("%s: %v, want code %s", what, err, want)
	}
	if n := s.Steps() - before; n != 0 {
		s.Errorf("%s: refused after %d changes", what, n)
	}
}
