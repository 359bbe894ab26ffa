// Package cluster brings a lab up and down and acts on its nodes. It puts the
// other packages together; the details of processes, networks, kernels and
// images are theirs.
package cluster

import (
	"fmt"

	"quarry.storage/quarry/test/lab/internal/process"
	"quarry.storage/quarry/test/lab/internal/progress"
	"quarry.storage/quarry/test/lab/internal/spec"
	"quarry.storage/quarry/test/lab/internal/state"
)

// Cluster is one lab of the machine, up or not.
type Cluster struct {
	name      string
	dir       state.Dir
	processes process.Table
	report    *progress.Reporter
}

// For gives the lab with the given name.
func For(name string, report *progress.Reporter) (*Cluster, error) {
	if err := spec.ValidateName(name); err != nil {
		return nil, err
	}
	dir := state.For(name)
	return &Cluster{
		name: name, dir: dir, report: report,
		processes: process.Table{Dir: dir.Records(), Namespace: spec.NetworkNamespace(name)},
	}, nil
}

// Kubeconfig is the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.dir.Kubeconfig() }

// Namespace is the name of the lab's network namespace.
func (c *Cluster) Namespace() string { return spec.NetworkNamespace(c.name) }

// running reads the description of a lab that has to be there.
func (c *Cluster) running() (state.Description, error) {
	desc, ok, err := c.dir.Load()
	if err != nil {
		return desc, err
	}
	if !ok {
		return desc, fmt.Errorf("lab %q is not up: run `lab up --name %s`", c.name, c.name)
	}
	return desc, nil
}

// withKubernetes is running for what needs Kubernetes.
func (c *Cluster) withKubernetes() (state.Description, error) {
	desc, err := c.running()
	if err == nil && desc.Lab.Bare {
		err = fmt.Errorf("lab %q is bare: it has no Kubernetes", c.name)
	}
	return desc, err
}
