// Package doctor says what a node lacks for each storage type, and what to do about it. It is pure: what was seen of the node goes in, findings come out.
package doctor

import (
	"fmt"
	"strings"
)

// Level says how much a finding matters.
type Level int

// Levels, the least first.
const (
	// Good: it is as it should be.
	Good Level = iota
	// Notice: it works, and something is better changed.
	Notice
	// Unknown: nobody could tell. It counts like a problem.
	Unknown
	// Problem: as it is, the storage type does not work on the node, or not as it should.
	Problem
)

// String is the word in a report.
func (l Level) String() string {
	return [...]string{"ok", "notice", "unknown", "problem"}[l]
}

// Finding is one thing that was looked at.
type Finding struct {
	// Topic is a storage type, or Node for what all of them need.
	Topic string
	Level Level
	// Text says what was found, in a sentence, and what to do unless it is good.
	Text string
}

// Topics in the order of a report. Node is always looked at.
const (
	Node  = "node"
	Lvm   = "lvm"
	Iscsi = "iscsi"
	Nfs   = "nfs"
	Ceph  = "cephfs"
)

// Types are the storage types that can be asked for.
var Types = []string{Lvm, Iscsi, Nfs, Ceph}

// Judge says what is to be said of a node for some storage types.
func Judge(f Facts, types []string) []Finding {
	r := &report{topic: Node}
	r.node(f)
	for _, t := range types {
		r.topic = t
		switch t {
		case Lvm:
			r.lvm(f)
		case Iscsi:
			r.iscsi(f)
		case Nfs:
			r.part(f, "nfsv4", Problem, "the NFS client")
		case Ceph:
			r.part(f, "ceph", Problem, "the client of CephFS")
			r.mounts(f)
			r.part(f, "dm_crypt", Notice, "the encryption of disks that spec.ceph.encrypted asks for")
		}
	}
	return r.findings
}

// mounts tells of a kernel that may not mount volumes of Ceph: Linux takes the filesystem and the monitors of a mount as the agent names them since 5.17.
func (r *report) mounts(f Facts) {
	var major, minor int
	if n, _ := fmt.Sscanf(f.Release, "%d.%d", &major, &minor); n == 2 && (major < 5 || major == 5 && minor < 17) {
		r.say(Notice, fmt.Sprintf("Kernel %s mounts volumes of Ceph only if its maker gave it the client of Linux 5.17 or later.", f.Release), "Have a pod use a volume there before you rely on it.")
	}
}

// Works reports whether nothing is missing or unknown.
func Works(findings []Finding) bool {
	for _, f := range findings {
		if f.Level >= Unknown {
			return false
		}
	}
	return true
}

// report collects the findings of one topic after the other.
type report struct {
	topic    string
	findings []Finding
}

func (r *report) say(level Level, sentences ...string) {
	r.findings = append(r.findings, Finding{r.topic, level, strings.Join(sentences, " ")})
}
