// Package state lays out the files of one lab below its state directory and
// reads and writes its description. It knows where things are, not what they
// do.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"quarry.storage/quarry/test/lab/internal/spec"
)

// root holds the state of every lab of the machine.
const root = "/var/lib/quarry-lab"

// Dir is the state directory of one lab.
type Dir struct{ path string }

// For gives the state directory of the lab with the given name.
func For(lab string) Dir { return Dir{path: filepath.Join(root, lab)} }

// Path is the directory itself.
func (d Dir) Path() string { return d.path }

// Binary is the copy of the lab program that the lab's own processes run, so
// that rebuilding it never changes a running lab.
func (d Dir) Binary() string { return filepath.Join(d.path, "lab") }

// PKI holds keys and certificates.
func (d Dir) PKI() string { return filepath.Join(d.path, "pki") }

// Kubeconfig is the administrator's, usable from outside the namespace.
func (d Dir) Kubeconfig() string { return filepath.Join(d.path, "kubeconfig") }

// ComponentKubeconfig is the kubeconfig of a component inside the namespace.
func (d Dir) ComponentKubeconfig(name string) string {
	return filepath.Join(d.path, "pki", name+".kubeconfig")
}

// Records holds one record per started process.
func (d Dir) Records() string { return filepath.Join(d.path, "processes") }

// Etcd is the data directory of etcd.
func (d Dir) Etcd() string { return filepath.Join(d.path, "etcd") }

// UML holds the management sockets of the node kernels.
func (d Dir) UML() string { return filepath.Join(d.path, "uml") }

// Logs holds the logs; they outlive the lab until it comes up again.
func (d Dir) Logs() string { return filepath.Join(d.path, "logs") }

// ComponentLog is the log of a process on the machine's side.
func (d Dir) ComponentLog(name string) string { return filepath.Join(d.Logs(), name+".log") }

// NodeLogs holds the logs a node writes itself.
func (d Dir) NodeLogs(node string) string { return filepath.Join(d.Logs(), node) }

// Node holds the files of one node.
func (d Dir) Node(node string) string { return filepath.Join(d.path, "nodes", node) }

// NodeSpec is what a node's init reads to become that node.
func (d Dir) NodeSpec(node string) string { return filepath.Join(d.Node(node), "node.json") }

// Description is the record of the lab's shape.
type Description struct {
	Lab spec.Lab `json:"lab"`
	// Port is where the forwarder serves the API server on the machine.
	Port int `json:"port"`
	// Complete is set once the lab came up as a whole. A lab without it is
	// the remains of an interrupted start.
	Complete bool `json:"complete"`
}

func (d Dir) descriptionFile() string { return filepath.Join(d.path, "lab.json") }

// Load reads the lab's description; ok is false when there is none.
func (d Dir) Load() (desc Description, ok bool, err error) {
	err = ReadJSON(d.descriptionFile(), &desc)
	if errors.Is(err, fs.ErrNotExist) {
		return Description{}, false, nil
	}
	return desc, err == nil, err
}

// Save writes the lab's description.
func (d Dir) Save(desc Description) error { return WriteJSON(d.descriptionFile(), desc) }

// Clear removes everything but the logs, which are kept to be read after a
// lab went down.
func (d Dir) Clear() error {
	entries, err := os.ReadDir(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if p := filepath.Join(d.path, e.Name()); p != d.Logs() {
			errs = append(errs, os.RemoveAll(p))
		}
	}
	return errors.Join(errs...)
}

// ReadJSON reads a JSON file into v.
func ReadJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("parse %s: %w", path, err)
	}
	return nil
}

// WriteJSON replaces a JSON file in one step, so that a crash leaves the old
// content or the new.
func WriteJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(path, append(b, '\n'), 0o600)
}

// WriteFile replaces a file in one step.
func WriteFile(path string, content []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(content)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Close())
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(tmp.Name(), path)
}
