package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of the messages of TopoLVM's lvmd (pkg/lvmd/proto in its module).
const (
	fieldName              = 1
	fieldRemoveDeviceClass = 2
	fieldCreateDeviceClass = 4
	fieldCreateSizeBytes   = 6
	deviceClass            = "bench"
)

// lvmdConfig is the configuration of lvmd. Its LVM is started without nsenter, which in a container comes before every command.
const lvmdConfig = `socket-name: %s
device-classes:
- name: %s
  volume-group: %s
  default: true
  spare-gb: 0
lvm-command-prefix: [%q]
`

// lvmd is TopoLVM's daemon behind its Unix socket.
type lvmd struct {
	*process
	conn *grpc.ClientConn
}

// startLVMd starts the binary for one group; env chooses LVM's configuration.
func startLVMd(ctx context.Context, binary, dir, group, lvmPath string, env []string) (*lvmd, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	socket, config := filepath.Join(dir, "lvmd.sock"), filepath.Join(dir, "lvmd.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, lvmdConfig, socket, deviceClass, group, lvmPath), 0o600); err != nil {
		return nil, err
	}
	p, err := start(filepath.Join(dir, "lvmd.log"), env, binary, "--config="+config)
	if err != nil {
		return nil, err
	}
	d := &lvmd{process: p}
	d.conn, err = grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err == nil {
		// It looked for its group before it began to serve, so an answer means that it works.
		ready, cancel := d.alive(ctx, startTimeout)
		defer cancel()
		err = d.conn.Invoke(ready, "/grpc.health.v1.Health/Check", &wire{}, &wire{}, grpc.ForceCodecV2(wireCodec{}), grpc.WaitForReady(true))
	}
	if err != nil {
		err = fmt.Errorf("start lvmd: %w: %s", err, d.said())
		d.stop()
		return nil, err
	}
	return d, nil
}

func (d *lvmd) stop() {
	if d.conn != nil {
		d.conn.Close()
	}
	d.process.stop()
}

func (d *lvmd) create(ctx context.Context, name string, bytes int64) error {
	m := text(text(nil, fieldName, name), fieldCreateDeviceClass, deviceClass)
	m = protowire.AppendVarint(protowire.AppendTag(m, fieldCreateSizeBytes, protowire.VarintType), uint64(bytes))
	return d.call(ctx, "/proto.LVService/CreateLV", m)
}

func (d *lvmd) remove(ctx context.Context, name string) error {
	return d.call(ctx, "/proto.LVService/RemoveLV", text(text(nil, fieldName, name), fieldRemoveDeviceClass, deviceClass))
}

func (d *lvmd) call(ctx context.Context, method string, m wire) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := d.conn.Invoke(ctx, method, &m, &wire{}, grpc.ForceCodecV2(wireCodec{})); err != nil {
		return fmt.Errorf("lvmd %s: %w", method, err)
	}
	return nil
}

// wire is a message as it goes over the wire. Two calls do not need the generated code of another project in our module.
type wire []byte

func text(m wire, field protowire.Number, value string) wire {
	return protowire.AppendString(protowire.AppendTag(m, field, protowire.BytesType), value)
}

// wireCodec passes messages on as they are.
type wireCodec struct{}

var errNotWire = errors.New("not a message of the wire")

// Marshal hands the message out.
func (wireCodec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*wire)
	if !ok {
		return nil, errNotWire
	}
	return mem.BufferSlice{mem.SliceBuffer(*m)}, nil
}

// Unmarshal takes it in.
func (wireCodec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*wire)
	if !ok {
		return errNotWire
	}
	*m = data.Materialize()
	return nil
}

// Name is that of protobuf, which the messages are.
func (wireCodec) Name() string { return "proto" }
