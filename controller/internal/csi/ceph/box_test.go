//go:build cephbox

package ceph_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	runner "quarry.storage/quarry/controller/internal/ceph"
	"quarry.storage/quarry/controller/internal/csi/ceph"
	"quarry.storage/quarry/controller/internal/csi/frame/frametest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// inBox runs the program ceph of an unpacked image of Ceph.
type inBox struct{ root string }

func (b inBox) Run(ctx context.Context, cmd runner.Command) (runner.Result, error) {
	args := append([]string{b.root, "/usr/bin/ceph", "--connect-timeout", "20", "-f", "json"}, cmd.Args...)
	c := exec.CommandContext(ctx, "chroot", args...)
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	err := c.Run()
	if failed, ended := errors.AsType[*exec.ExitError](err); ended && failed.ExitCode() > 0 {
		return runner.Result{Stdout: out.Bytes(), Stderr: said.Bytes(), ExitCode: failed.ExitCode()}, nil
	}
	return runner.Result{Stdout: out.Bytes(), Stderr: said.Bytes()}, err
}

// TestSanityReal runs csi-sanity against the real Ceph that test/ceph/record.sh brings up, without a kernel that mounts: the cases of the controller service. No suite runs it. Root
// runs it so, where ROOT is an unpacked image of Ceph:
//
//	CGO_ENABLED=0 go test -c -tags cephbox -o /tmp/sanity.test ./controller/internal/csi/ceph
//	test/ceph/record.sh ROOT /tmp/sanity.test sanity
func TestSanityReal(t *testing.T) {
	root := os.Getenv("CEPH_BOX")
	if root == "" {
		t.Fatal("it needs a Ceph that runs in the unpacked image that CEPH_BOX names: test/ceph/record.sh has one")
	}
	c := v1alpha1.Cluster{}
	c.Name, c.UID, c.Spec.StorageType = "shared", types.UID(owner), v1alpha1.StorageTypeCephFS
	c.Status.Ceph = &v1alpha1.CephStatus{FSID: owner, Monitors: []string{"10.99.0.1:3300"}}
	known := &cache{clusters: []v1alpha1.Cluster{c}}
	served := frametest.Serve(t, ceph.Driver(), ceph.New(ceph.Config{
		Reader: known, Live: &server{cache: known}, Log: logr.Discard(), Patience: 20 * time.Second,
		Connect: func(context.Context, string) (runner.Runner, error) { return inBox{root}, nil },
	}), known)
	frametest.Sanity{
		Parameters: map[string]string{v1alpha1.ParameterCluster: owner}, IDs: &ids{}, Size: 64 << 20, Larger: 128 << 20, Node: "node-1", Least: 40,
		NotRun: map[string]string{
			"already existing name and different source volume ID": "Ceph keeps snapshots with their volumes: the handles of two of one name differ, and only a command for each volume, which a call beside it outdates, would find the name",
		},
	}.Run(t, served)
}
