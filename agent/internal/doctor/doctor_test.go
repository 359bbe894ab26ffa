package doctor

import (
	"slices"
	"strings"
	"testing"
)

// sound is a node that lacks nothing.
func sound() Facts {
	here := Part{Here: true}
	return Facts{
		Name: "n1", Release: "6.12", Version: "v1", InImage: true,
		Programs: []Program{{"lvm", Node, true}, {"thin_check", Lvm, true}, {"iscsiadm", Iscsi, true}},
		Parts: map[string]Part{
			"ceph": {Loadable: true}, "dm_crypt": here, "dm_mod": here, "dm_multipath": here, "dm_snapshot": here, "dm_thin_pool": here, "iscsi_tcp": {Loadable: true}, "nfsv4": here, "xfs": here,
		},
		Udev: Answer{Yes: true}, Clock: Answer{Yes: true},
		Initiator: Initiator{Name: "iqn.2026-01.org.example:n1", OfHost: true},
		Multipath: Multipath{Runs: true, FindMultipaths: "off", Overrides: "12"},
		Luns:      []Lun{{Device: "sda", Target: "iqn.2026-01.org.example:disk", Reservations: Answer{Yes: true}}},
	}
}

func TestJudge(t *testing.T) {
	if got := Judge(sound(), Types); !Works(got) || slices.ContainsFunc(got, func(f Finding) bool { return f.Level != Good }) {
		t.Errorf("a node that lacks nothing: %v", got)
	}
	enough := sound()
	if enough.Release = "5.17"; slices.ContainsFunc(Judge(enough, Types), func(f Finding) bool { return f.Level != Good }) {
		t.Errorf("a kernel that is new enough: %v", Judge(enough, Types))
	}
	for _, c := range []struct {
		what  string
		spoil func(f *Facts)
		topic string
		level Level
		text  string
	}{
		{"no initiator in the kernel", func(f *Facts) { f.Parts["iscsi_tcp"] = Part{} }, Iscsi, Problem, "no iSCSI initiator (iscsi_tcp)"},
		{"nobody can tell", func(f *Facts) { f.Parts["nfsv4"] = Part{Unread: "no modprobe"} }, Nfs, Unknown, "no modprobe"},
		{"a part that was not looked at", func(f *Facts) { delete(f.Parts, "ceph") }, Ceph, Problem, "no client of CephFS"},
		{"an old kernel", func(f *Facts) { f.Release = "5.15.0-91-generic" }, Ceph, Notice, "Kernel 5.15.0-91-generic mounts volumes of Ceph only if"},
		{"no encryption of disks", func(f *Facts) { f.Parts["dm_crypt"] = Part{} }, Ceph, Notice, "encryption of disks"},
		{"nobody can tell of encryption", func(f *Facts) { f.Parts["dm_crypt"] = Part{Unread: "no modprobe"} }, Ceph, Notice, "no modprobe"},
		{"no thin pools", func(f *Facts) { f.Parts["dm_thin_pool"] = Part{} }, Lvm, Notice, "thin pools"},
		{"nobody can tell of thin pools", func(f *Facts) { f.Parts["dm_thin_pool"] = Part{Unread: "no modprobe"} }, Lvm, Notice, "no modprobe"},
		{"no device-mapper", func(f *Facts) { f.Parts["dm_mod"] = Part{} }, Iscsi, Problem, "device-mapper"},
		{"an image without lvm", func(f *Facts) { f.Programs[0].Found = false }, Node, Problem, "lacks lvm"},
		{"an image without open-iscsi", func(f *Facts) { f.Programs[2].Found = false }, Iscsi, Problem, "lacks iscsiadm"},
		{"no udev", func(f *Facts) { f.Udev = Answer{} }, Node, Problem, "No udev"},
		{"udev unread", func(f *Facts) { f.Udev = Answer{Unread: "denied"} }, Node, Unknown, "denied"},
		{"a clock of its own", func(f *Facts) { f.Clock = Answer{} }, Node, Notice, "Nothing sets the clock"},
		{"a deaf iscsid", func(f *Facts) { f.Initiator.Reason, f.Initiator.Problem = "NoTools", "It does not answer." }, Iscsi, Problem, "NoTools: It does not answer."},
		{"an iscsid without a name", func(f *Facts) { f.Initiator.Name = "" }, Iscsi, Problem, "has no name"},
		{"another iscsiadm", func(f *Facts) { f.Initiator.OfHost, f.Initiator.HostTool = false, "/usr/sbin/iscsiadm" }, Iscsi, Notice, "/usr/sbin/iscsiadm"},
		{"no multipathd", func(f *Facts) { f.Multipath = Multipath{} }, Iscsi, Notice, "MultipathMissing"},
		{"multipathd without its target", func(f *Facts) { f.Parts["dm_multipath"] = Part{} }, Iscsi, Problem, "dm_multipath"},
		{"multipathd does not answer", func(f *Facts) { f.Multipath.Unread = "timeout" }, Iscsi, Unknown, "timeout"},
		{"a strict multipathd", func(f *Facts) { f.Multipath.FindMultipaths = "strict" }, Iscsi, Problem, "find_multipaths no"},
		{"writes held for ever", func(f *Facts) { f.Multipath.Overrides = "queue" }, Iscsi, Problem, "for ever"},
		{"writes held for ever by default", func(f *Facts) { f.Multipath.Overrides, f.Multipath.Defaults = "", "queue" }, Iscsi, Problem, "for ever"},
		{"an array outranks the defaults", func(f *Facts) {
			f.Multipath.Overrides, f.Multipath.Defaults, f.Multipath.Queueing = "", "12", []string{"NETAPP LUN"}
		}, Iscsi, Notice, "NETAPP LUN"},
		{"nothing is set", func(f *Facts) { f.Multipath.Overrides = "" }, Iscsi, Notice, "depends on the array"},
		{"errors at once", func(f *Facts) { f.Multipath.Overrides = "fail" }, Iscsi, Notice, "read-only"},
		{"errors at once, in a number", func(f *Facts) { f.Multipath.Overrides = "0" }, Iscsi, Notice, "read-only"},
		{"no reservations", func(f *Facts) { f.Luns[0].Reservations = Answer{} }, Iscsi, Notice, "NoReservations"},
		{"a target that does not answer", func(f *Facts) { f.Luns[0].Reservations = Answer{Unread: "timeout"} }, Iscsi, Unknown, "timeout"},
		{"sessions unread", func(f *Facts) { f.LunsUnread = "denied" }, Iscsi, Unknown, "denied"},
		{"a host that cannot be seen", func(f *Facts) { *f = Facts{Host: "process 1 is the pod's own"} }, Node, Unknown, "process 1 is the pod's own"},
	} {
		f := sound()
		c.spoil(&f)
		got := Judge(f, Types)
		if !slices.ContainsFunc(got, func(f Finding) bool {
			return f.Topic == c.topic && f.Level == c.level && strings.Contains(f.Text, c.text)
		}) {
			t.Errorf("%s: not found among %v", c.what, got)
		}
		if Works(got) != (c.level <= Notice) {
			t.Errorf("%s: works: %v", c.what, Works(got))
		}
	}
}

// TestJudge_asked: what a node lacks for another storage type is none of its problems.
func TestJudge_asked(t *testing.T) {
	f := sound()
	f.Parts = map[string]Part{"nfsv4": {Here: true}}
	f.Initiator.Problem, f.Multipath = "none", Multipath{}
	if got := Judge(f, []string{Nfs}); !Works(got) {
		t.Errorf("asked for NFS: %v", got)
	}
}

// TestJudge_said: what the kernel lacks is said once.
func TestJudge_said(t *testing.T) {
	f := sound()
	f.Parts["iscsi_tcp"] = Part{}
	f.Initiator.Reason, f.Initiator.Problem = "NoModules", "The kernel has no iSCSI initiator."
	count := 0
	for _, got := range Judge(f, []string{Iscsi}) {
		if got.Level == Problem {
			count++
		}
	}
	if count != 1 {
		t.Errorf("said %d times", count)
	}
}
