package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"quarry.storage/quarry/test/lab/internal/network"
	"quarry.storage/quarry/test/lab/internal/node"
	"quarry.storage/quarry/test/lab/internal/remote"
	"quarry.storage/quarry/test/lab/internal/spec"
)

// dialPatience is how long a node may take to accept a command.
const dialPatience = 5 * time.Second

// Exec runs a command in a node and returns its exit code. It needs nothing of
// Kubernetes.
func (c *Cluster) Exec(ctx context.Context, name string, request remote.Request, streams remote.Streams) (int, error) {
	desc, err := c.running()
	if err != nil {
		return 0, err
	}
	index, err := desc.Lab.Index(name)
	if err != nil {
		return 0, err
	}
	if err := c.checkStorage(name); err != nil {
		return 0, err
	}
	if !c.processes.Alive(name) {
		return 0, fmt.Errorf("node %s does not run: `lab node start %s`; its console is in %s", name, name, c.dir.ComponentLog(name))
	}
	conn, err := c.dialNode(ctx, index)
	if err != nil {
		return 0, fmt.Errorf("node %s does not take commands (yet), its console is in %s: %w", name, c.dir.ComponentLog(name), err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	return remote.Run(conn, request, streams)
}

func (c *Cluster) dialNode(ctx context.Context, index int) (conn net.Conn, err error) {
	dialer := net.Dialer{Timeout: dialPatience}
	address := net.JoinHostPort(spec.ManagementIP(index), strconv.Itoa(spec.ExecPort))
	err = network.Inside(c.Namespace(), func() (err error) {
		conn, err = dialer.DialContext(ctx, "tcp", address)
		return err
	})
	return conn, err
}

// capture runs a command in a node that has to succeed and returns what it
// printed.
func (c *Cluster) capture(ctx context.Context, name string, args ...string) (string, error) {
	return c.captureWith(ctx, name, nil, args...)
}

// captureWith is capture for a command that reads something.
func (c *Cluster) captureWith(ctx context.Context, name string, in io.Reader, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	code, err := c.Exec(ctx, name, remote.Request{Args: args}, remote.Streams{Stdin: in, Stdout: &stdout, Stderr: &stderr})
	if err == nil && code != 0 {
		err = fmt.Errorf("node %s: %s: exit code %d: %s", name, strings.Join(args, " "), code, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), err
}

// Load imports an image archive into the container runtime of the named nodes,
// or of all, at the same time.
func (c *Cluster) Load(ctx context.Context, archive string, nodes []string) error {
	desc, err := c.withKubernetes()
	if err != nil {
		return err
	}
	archive, err = filepath.Abs(archive)
	if err != nil {
		return err
	}
	if len(nodes) == 0 {
		nodes = desc.Lab.NodeNames()
	}
	errs := make([]error, len(nodes))
	var imports sync.WaitGroup
	for i, name := range nodes {
		imports.Go(func() {
			// The node reads the file itself, past its overlay, which may
			// remember an older one of this name.
			_, errs[i] = c.capture(ctx, name, c.dir.Binary(), "node", "load", node.MachineView+archive)
		})
	}
	imports.Wait()
	return errors.Join(errs...)
}
