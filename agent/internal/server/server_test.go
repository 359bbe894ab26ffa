package server_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/agent/agenttest"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

func identity(t *testing.T, conn grpc.ClientConnInterface, path string) *agentv1.DeviceIdentity {
	t.Helper()
	resp, err := agentv1.NewDeviceServiceClient(conn).ListDevices(t.Context(), &agentv1.ListDevicesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(resp.GetDevices(), func(d *agentv1.Device) bool { return d.GetPath() == path })
	if i < 0 {
		t.Fatalf("no device %s", path)
	}
	d := resp.GetDevices()[i]
	return &agentv1.DeviceIdentity{Path: path, Wwn: d.GetWwn(), Serial: d.GetSerial(), SizeBytes: d.GetSizeBytes(), Digest: d.GetDigest()}
}

func TestServer_servesTheControllerOnly(t *testing.T) {
	a := agenttest.New(t, agenttest.Options{})
	stranger := agenttest.NewCA(t)
	base := func(certificates ...tls.Certificate) *tls.Config {
		return &tls.Config{RootCAs: a.CA.Pool(), ServerName: a.NodeName(), Certificates: certificates}
	}
	old := base(a.CA.ControllerCertificate(t))
	old.MaxVersion = tls.VersionTLS12
	for name, tt := range map[string]struct {
		config *tls.Config
		want   codes.Code
	}{
		"the controller":                        {base(a.CA.ControllerCertificate(t)), codes.OK},
		"another name":                          {base(a.CA.ClientCertificate(t, "somebody")), codes.PermissionDenied},
		"an agent's own certificate":            {base(a.CA.AgentCertificate(t, a.NodeName())), codes.Unavailable},
		"no certificate":                        {base(), codes.Unavailable},
		"the same name from another authority":  {base(stranger.ControllerCertificate(t)), codes.Unavailable},
		"the controller with an older protocol": {old, codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := grpc.NewClient("passthrough:///"+a.Addr(), grpc.WithTransportCredentials(credentials.NewTLS(tt.config)))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, err = agentv1.NewNodeServiceClient(conn).GetNode(t.Context(), &agentv1.GetNodeRequest{})
			if status.Code(err) != tt.want {
				t.Errorf("unary: %v, want %s", err, tt.want)
			}
			_, err = healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
			if status.Code(err) != tt.want {
				t.Errorf("health: %v, want %s", err, tt.want)
			}
			stream, err := agentv1.NewDeviceServiceClient(conn).WatchDevices(t.Context(), &agentv1.WatchDevicesRequest{})
			if err == nil {
				_, err = stream.Recv()
			}
			if status.Code(err) != tt.want {
				t.Errorf("stream: %v, want %s", err, tt.want)
			}
		})
	}
}

// TestServer_servesTheCSIDriversLess: their certificate makes volumes, and gets neither at a disk nor at a group.
func TestServer_servesTheCSIDriversLess(t *testing.T) {
	a := agenttest.New(t, agenttest.Options{})
	paths := a.AddDisks(0, "sdb", "sdc")
	a.AddGroup("vg", "uid", "sdc")
	disk := identity(t, a.Dial(t), paths[0])
	conn, err := grpc.NewClient("passthrough:///"+a.Addr(), grpc.WithTransportCredentials(credentials.NewTLS(a.CA.CSITLS(t, a.NodeName()))))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, groups := t.Context(), agentv1.NewVolumeGroupServiceClient(conn)
	devices, volumes := agentv1.NewDeviceServiceClient(conn), agentv1.NewLogicalVolumeServiceClient(conn)
	for name, call := range map[string]func() error{
		"wipe": func() error { _, err := devices.WipeDevice(ctx, &agentv1.WipeDeviceRequest{Device: disk}); return err },
		"list": func() error { _, err := devices.ListDevices(ctx, &agentv1.ListDevicesRequest{}); return err },
		"watch": func() error {
			stream, err := devices.WatchDevices(ctx, &agentv1.WatchDevicesRequest{})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
		"ensure a group": func() error {
			_, err := groups.EnsureVolumeGroup(ctx, &agentv1.EnsureVolumeGroupRequest{
				Name: "new", OwnerUid: "uid", Devices: []*agentv1.DeviceIdentity{disk},
			})
			return err
		},
		"remove a group": func() error {
			_, err := groups.RemoveVolumeGroup(ctx, &agentv1.RemoveVolumeGroupRequest{Name: "vg", OwnerUid: "uid"})
			return err
		},
		"ensure a pool": func() error {
			_, err := volumes.EnsureThinPool(ctx, &agentv1.EnsureThinPoolRequest{Group: "vg", OwnerUid: "uid", Name: "pool", SizeBytes: 1 << 30})
			return err
		},
	} {
		if err := call(); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), `certificate of "quarry:csi"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left := a.Groups(); len(left) != 1 || left[0].Name != "vg" {
		t.Errorf("groups: %v", left)
	}
	watch, err := groups.WatchVolumeGroups(ctx, &agentv1.WatchVolumeGroupsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := watch.Recv(); err != nil || len(r.GetGroups()) != 1 {
		t.Errorf("watch groups: %v, %v", r, err)
	}
	if _, err := volumes.ListLogicalVolumes(ctx, &agentv1.ListLogicalVolumesRequest{}); err != nil {
		t.Error(err)
	}
}

// TestServer_connectionEndsWithItsCertificate: a certificate that expired opens nothing, not even what it opened before.
func TestServer_connectionEndsWithItsCertificate(t *testing.T) {
	a := agenttest.New(t, agenttest.Options{})
	config := a.CA.For(2*time.Second).ControllerTLS(t, a.NodeName())
	conn, err := grpc.NewClient("passthrough:///"+a.Addr(), grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := agentv1.NewDeviceServiceClient(conn).WatchDevices(t.Context(), &agentv1.WatchDevicesRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { _, err := stream.Recv(); ended <- err }()
	select {
	case err := <-ended:
		if status.Code(err) != codes.Unavailable {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the connection outlives its certificate")
	}
	if _, err := agentv1.NewNodeServiceClient(conn).GetNode(t.Context(), &agentv1.GetNodeRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("a call with the expired certificate: %v", err)
	}
}

// TestServer_crowd: connections without a certificate keep the controller neither connected nor out, and a huge request is refused.
func TestServer_crowd(t *testing.T) {
	a := agenttest.New(t, agenttest.Options{})
	for range 100 {
		c, err := net.Dial("tcp", a.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	devices := agentv1.NewDeviceServiceClient(a.Dial(t))
	if _, err := devices.ListDevices(t.Context(), &agentv1.ListDevicesRequest{}); err != nil {
		t.Errorf("beside 100 connections: %v", err)
	}
	huge := &agentv1.DeviceIdentity{Path: "/dev/disk/by-id/" + strings.Repeat("x", 2<<20)}
	if _, err := devices.WipeDevice(t.Context(), &agentv1.WipeDeviceRequest{Device: huge}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a huge request: %v", err)
	}
}

func TestServer_oneCallPerGroupAndDevice(t *testing.T) {
	a := agenttest.New(t, agenttest.Options{})
	paths := a.AddDisks(0, "sdb", "sdc", "sdd")
	conn := a.Dial(t)
	b, c, d := identity(t, conn, paths[0]), identity(t, conn, paths[1]), identity(t, conn, paths[2])
	groups := agentv1.NewVolumeGroupServiceClient(conn)
	ensure := func(name string, devices ...*agentv1.DeviceIdentity) error {
		_, err := groups.EnsureVolumeGroup(t.Context(), &agentv1.EnsureVolumeGroupRequest{Name: name, OwnerUid: "uid", Devices: devices})
		return err
	}
	a.Pause()
	first := make(chan error, 1)
	go func() { first <- ensure("one", b) }()
	waitFor(t, func() bool { return a.Held() == 1 })
	waitFor(t, func() bool { return status.Code(ensure("one", c)) == codes.Aborted })
	if err := ensure("two", b); status.Code(err) != codes.Aborted {
		t.Errorf("the same device: %v", err)
	}
	second := make(chan error, 1)
	go func() { second <- ensure("three", d) }()
	a.Resume()
	if err := errors.Join(<-first, <-second); err != nil {
		t.Error(err)
	}
	if got := a.Groups(); len(got) != 2 {
		t.Errorf("groups: %v", got)
	}
}

func TestServer_changeGoesOnWithoutItsCaller(t *testing.T) {
	a := agenttest.New(t, agenttest.Options{})
	path := a.AddDisk(agenttest.Disk{Name: "sdb"})
	conn := a.Dial(t)
	id := identity(t, conn, path)
	a.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := agentv1.NewVolumeGroupServiceClient(conn).EnsureVolumeGroup(ctx, &agentv1.EnsureVolumeGroupRequest{
		Name: "vg", OwnerUid: "uid", Devices: []*agentv1.DeviceIdentity{id},
	})
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("error %v", err)
	}
	a.Resume()
	waitFor(t, func() bool { return len(a.Groups()) == 1 })
}

func TestServer_watchIsQuickAndQuiet(t *testing.T) {
	a := agenttest.New(t, agenttest.Options{})
	stream, err := agentv1.NewDeviceServiceClient(a.Dial(t)).WatchDevices(t.Context(), &agentv1.WatchDevicesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if first, err := stream.Recv(); err != nil || len(first.GetDevices()) != 0 {
		t.Fatalf("first: %v, %v", first, err)
	}
	begin := time.Now()
	a.AddDisk(agenttest.Disk{Name: "sdb"})
	resp, err := stream.Recv()
	if err != nil || len(resp.GetDevices()) != 1 {
		t.Fatalf("plugged: %v, %v", resp, err)
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("a plugged disk was seen after %s", took)
	}
	a.Unplug("sdb")
	if resp, err = stream.Recv(); err != nil || len(resp.GetDevices()) != 0 {
		t.Fatalf("unplugged: %v, %v", resp, err)
	}
	go func() {
		if err := a.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	}()
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("after the stop: %v", err)
	}
}

func TestServer_unreadableNodeIsInternal(t *testing.T) {
	a := agenttest.New(t, agenttest.Options{})
	conn := a.Dial(t)
	a.Break(errors.New("sysfs is gone"))
	_, err := agentv1.NewDeviceServiceClient(conn).ListDevices(t.Context(), &agentv1.ListDevicesRequest{})
	if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "sysfs is gone") {
		t.Errorf("error %v", err)
	}
	a.Break(nil)
	if _, err := agentv1.NewDeviceServiceClient(conn).ListDevices(t.Context(), &agentv1.ListDevicesRequest{}); err != nil {
		t.Errorf("after it healed: %v", err)
	}
}

func TestServer_failedStepIsRepeatable(t *testing.T) {
	a := agenttest.New(t, agenttest.Options{})
	paths := a.AddDisks(0, "sdb", "sdc")
	conn := a.Dial(t)
	devices := []*agentv1.DeviceIdentity{identity(t, conn, paths[0]), identity(t, conn, paths[1])}
	groups := agentv1.NewVolumeGroupServiceClient(conn)
	for n := 1; n <= 3; n++ {
		a.FailAt(1, errors.New("input/output error"))
		_, err := groups.EnsureVolumeGroup(t.Context(), &agentv1.EnsureVolumeGroupRequest{Name: "vg", OwnerUid: "uid", Devices: devices})
		if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "input/output error") {
			t.Errorf("failure %d: %v", n, err)
		}
		a.FailAt(2, errors.New("input/output error"))
		_, err = groups.EnsureVolumeGroup(t.Context(), &agentv1.EnsureVolumeGroupRequest{Name: "vg", OwnerUid: "uid", Devices: devices})
		if n < 3 && err == nil {
			t.Errorf("failure %d: no error", n)
		}
	}
	a.Disarm()
	if _, err := groups.EnsureVolumeGroup(t.Context(), &agentv1.EnsureVolumeGroupRequest{
		Name: "vg", OwnerUid: "uid", Devices: devices,
	}); err != nil {
		t.Error(err)
	}
	if got := a.Groups(); len(got) != 1 || len(got[0].Disks) != 2 {
		t.Errorf("groups: %v", got)
	}
}

func TestServer_logsRequestID(t *testing.T) {
	lines := make(chan string, 100)
	log := funcr.New(func(_, args string) { lines <- args }, funcr.Options{Verbosity: 1})
	a := agenttest.New(t, agenttest.Options{Log: log})
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-request-id", "reconcile-7")
	if _, err := agentv1.NewNodeServiceClient(a.Dial(t)).GetNode(ctx, &agentv1.GetNodeRequest{}); err != nil {
		t.Fatal(err)
	}
	select {
	case line := <-lines:
		for _, part := range []string{"reconcile-7", "GetNode", "node-1", `"code"="OK"`} {
			if !strings.Contains(line, part) {
				t.Errorf("line %s does not hold %s", line, part)
			}
		}
	case <-time.After(5 * time.Second):
		t.Error("nothing was logged")
	}
}

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen in time")
		}
	}
}
