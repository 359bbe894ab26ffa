package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	agentv1 "quarry.storage/quarry/proto/agent/v1"
	"quarry.storage/quarry/test/bench/internal/pki"
)

const (
	// nodeName is what the agent is called in its certificate.
	nodeName = "bench"
	// ownerUID stands for the Cluster that owns the groups.
	ownerUID = "5e0bd1a4-0000-4000-8000-00000000be4c"
	// startTimeout is how long a server may take to answer for the first time.
	startTimeout = 30 * time.Second
	// callTimeout bounds one call.
	callTimeout = time.Minute
)

// agent is the real agent's binary, served over TCP with certificates on both sides as in production, without a kubelet.
type agent struct {
	*process
	conn *grpc.ClientConn
	// lvmDir holds its private configuration.
	lvmDir string
}

// startAgent starts the binary with its state below dir; lvmPath is the LVM that it runs.
func startAgent(ctx context.Context, binary, dir, lvmPath string) (_ *agent, err error) {
	ca, err := pki.New()
	if err != nil {
		return nil, err
	}
	api, err := pki.Serve(ca)
	if err != nil {
		return nil, err
	}
	defer api.Close()
	address, probe, err := freeAddresses()
	if err != nil {
		return nil, err
	}
	token, bundle := filepath.Join(dir, "token"), filepath.Join(dir, "ca.crt")
	if err := errors.Join(
		os.MkdirAll(dir, 0o700),
		os.WriteFile(token, []byte("token"), 0o600),
		os.WriteFile(bundle, ca.Bundle(), 0o600),
	); err != nil {
		return nil, err
	}
	a := &agent{lvmDir: filepath.Join(dir, "lvm")}
	a.process, err = start(filepath.Join(dir, "agent.log"), nil, binary,
		"--node-name="+nodeName, "--listen="+address, "--probe-listen="+probe, "--lvm-dir="+a.lvmDir, "--lvm-binary="+lvmPath,
		"--shared-dir="+filepath.Join(dir, "shared"),
		"--allow-types=ubd", "--min-device-size=64Mi", "--kubelet-dir=", "--api-server="+api.URL, "--token-file="+token, "--ca-file="+bundle)
	if err != nil {
		return nil, err
	}
	config, err := ca.Client(nodeName)
	if err == nil {
		a.conn, err = grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	}
	if err == nil {
		err = a.answers(ctx)
	}
	if err != nil {
		err = fmt.Errorf("start the agent: %w: %s", err, a.said())
		a.stop()
		return nil, err
	}
	return a, nil
}

// freeAddresses finds two addresses that nobody listens on.
func freeAddresses() (first, second string, err error) {
	one, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	defer one.Close()
	two, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	defer two.Close()
	return one.Addr().String(), two.Addr().String(), nil
}

// answers waits for the first answer.
func (a *agent) answers(ctx context.Context) error {
	ctx, cancel := a.alive(ctx, startTimeout)
	defer cancel()
	_, err := agentv1.NewDeviceServiceClient(a.conn).ListDevices(ctx, &agentv1.ListDevicesRequest{}, grpc.WaitForReady(true))
	return err
}

func (a *agent) stop() {
	if a.conn != nil {
		a.conn.Close()
	}
	a.process.stop()
}

// identities are the devices as the agent sees them now, which have to be clean.
func (a *agent) identities(ctx context.Context, devices []string) ([]*agentv1.DeviceIdentity, error) {
	resp, err := agentv1.NewDeviceServiceClient(a.conn).ListDevices(ctx, &agentv1.ListDevicesRequest{})
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	seen := map[string]*agentv1.Device{}
	for _, d := range resp.GetDevices() {
		seen["/dev/"+d.GetKernelName()] = d
	}
	var out []*agentv1.DeviceIdentity
	for _, name := range devices {
		d := seen[name]
		if d == nil || len(d.GetRefusals()) > 0 {
			return nil, fmt.Errorf("device %s is not clean: %v", name, d)
		}
		out = append(out, &agentv1.DeviceIdentity{
			Path: d.GetPath(), Wwn: d.GetWwn(), Serial: d.GetSerial(), SizeBytes: d.GetSizeBytes(), Digest: d.GetDigest(),
		})
	}
	return out, nil
}

// ensure makes the group.
func (a *agent) ensure(ctx context.Context, group string, devices []*agentv1.DeviceIdentity) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := agentv1.NewVolumeGroupServiceClient(a.conn).EnsureVolumeGroup(ctx, &agentv1.EnsureVolumeGroupRequest{
		Name: group, OwnerUid: ownerUID, Devices: devices,
	})
	if err != nil {
		return fmt.Errorf("ensure group %s: %w", group, err)
	}
	return nil
}

// create makes a linear volume.
func (a *agent) create(ctx context.Context, group, name string, bytes int64) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := agentv1.NewLogicalVolumeServiceClient(a.conn).CreateLogicalVolume(ctx, &agentv1.CreateLogicalVolumeRequest{
		Group: group, OwnerUid: ownerUID, Name: name, Id: volumeID(name), SizeBytes: bytes,
	})
	if err != nil {
		return fmt.Errorf("create %s/%s: %w", group, name, err)
	}
	return nil
}

// remove deletes a volume.
func (a *agent) remove(ctx context.Context, group, name string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := agentv1.NewLogicalVolumeServiceClient(a.conn).DeleteLogicalVolume(ctx, &agentv1.DeleteLogicalVolumeRequest{
		Group: group, OwnerUid: ownerUID, Name: name, Id: volumeID(name),
	})
	if err != nil {
		return fmt.Errorf("delete %s/%s: %w", group, name, err)
	}
	return nil
}

func volumeID(name string) string { return strings.Join([]string{nodeName, name}, "/") }
