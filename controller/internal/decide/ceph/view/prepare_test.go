package view

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/option"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// TestDashboard: the dashboard is served once the manager knows its commands, again when another manager serves, and not at all where its module was refused.
func TestDashboard(t *testing.T) {
	on, active := map[string]string{"module.dashboard": "on"}, &[]ceph.Daemon{{Kind: cephname.DaemonManager, Name: "y"}, {Kind: cephname.DaemonManager, Name: "x", Active: true}}
	told, none := Dashboard{Told: true, Manager: "x"}, map[string]string(nil)
	for name, test := range map[string]struct {
		off              bool
		options, refused map[string]string
		there            Dashboard
		commands         ceph.Answer
		daemons          *[]ceph.Daemon
		asks             bool
		manager, waits   string
	}{
		"nobody wants it":                 {true, none, none, Dashboard{}, ceph.Yes, active, false, "", ""},
		"nobody wants it any more":        {true, on, none, told, ceph.Yes, active, false, "", ""},
		"its module is not told yet":      {false, none, none, Dashboard{}, ceph.Yes, active, false, "", ""},
		"no manager has the module":       {false, on, map[string]string{"module.dashboard": "not supported"}, Dashboard{}, ceph.Unknown, active, false, "", ""},
		"the password was refused":        {false, on, map[string]string{"dashboard": "too weak"}, Dashboard{}, ceph.Yes, active, false, "", ""},
		"another module was refused":      {false, on, map[string]string{"module.prometheus": "x"}, Dashboard{}, ceph.Yes, active, true, "x", ""},
		"the manager starts anew":         {false, on, none, Dashboard{}, ceph.No, active, true, "", "waits until manager x"},
		"the manager was not asked":       {false, on, none, Dashboard{}, ceph.Unknown, active, true, "", "waits until manager x"},
		"the manager knows the commands":  {false, on, none, Dashboard{}, ceph.Yes, active, true, "x", ""},
		"the Secret is gone":              {false, on, none, Dashboard{Manager: "x"}, ceph.Yes, active, true, "x", ""},
		"it is served":                    {false, on, none, told, ceph.Unknown, active, false, "", ""},
		"the Service is gone":             {false, on, none, Dashboard{Told: true}, ceph.Unknown, active, false, "x", ""},
		"another manager serves it":       {false, on, none, Dashboard{Told: true, Manager: "y"}, ceph.Unknown, active, false, "x", ""},
		"no manager is active":            {false, on, none, Dashboard{Told: true, Manager: "y"}, ceph.Unknown, &[]ceph.Daemon{{Kind: cephname.DaemonManager, Name: "y"}}, false, "", ""},
		"nobody knows which one is":       {false, on, none, Dashboard{Told: true, Manager: "y"}, ceph.Unknown, nil, false, "", ""},
		"nor what the first one would do": {false, on, none, Dashboard{}, ceph.Yes, nil, true, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := &v1alpha1.Cluster{Spec: v1alpha1.ClusterSpec{Ceph: &v1alpha1.CephSpec{Dashboard: !test.off}}}
			o := Observation{Cluster: c, Workloads: &Workloads{Options: test.options, Refused: test.refused, Dashboard: test.there}, Ceph: &Told{Commands: test.commands}}
			if got := AsksDashboard(o); got != test.asks {
				t.Errorf("the manager is asked: %t", got)
			}
			p, manager := plan{}, ""
			(&View{seen: o}).dashboard(&p, ceph.Facts{Daemons: test.daemons})
			for _, s := range p.steps {
				if s.Does != v1alpha1.ActionServeDashboard || backend.Guards(s) == "" || s.Destroys() {
					t.Errorf("%s is no step that nothing waits for", s.Does)
				}
				manager += s.Text
			}
			if waits := strings.Join(p.waits, " "); manager != test.manager || !strings.Contains(waits, test.waits) || waits != "" && test.waits == "" {
				t.Errorf("manager %q, and it is waited for: %q", manager, waits)
			}
		})
	}
}

// TestOptions_modules: Ceph is told of modules as the spec wants them, and once more of one that it refused when all managers have it.
func TestOptions_modules(t *testing.T) {
	want := option.Wanted(map[string]string{"module.dashboard": "on", "module.prometheus": "on"})
	refused := map[string]string{"module.dashboard": "all mgr daemons do not support module 'dashboard'"}
	for name, test := range map[string]struct {
		spec    v1alpha1.CephSpec
		there   Workloads
		modules []string
		step    bool
	}{
		"both are wanted":                 {v1alpha1.CephSpec{Dashboard: true, Metrics: true}, Workloads{}, nil, true},
		"both are told":                   {v1alpha1.CephSpec{Dashboard: true, Metrics: true}, Workloads{Options: want, Metrics: true}, []string{"dashboard", "prometheus"}, false},
		"none is wanted any more":         {v1alpha1.CephSpec{}, Workloads{Options: want, Metrics: true}, nil, true},
		"the Service of one stayed":       {v1alpha1.CephSpec{}, Workloads{Dashboard: Dashboard{Manager: "x"}}, nil, true},
		"the Service of one is missing":   {v1alpha1.CephSpec{Dashboard: true, Metrics: true}, Workloads{Options: want}, []string{"dashboard", "prometheus"}, true},
		"one was refused":                 {v1alpha1.CephSpec{Dashboard: true, Metrics: true}, Workloads{Options: want, Metrics: true, Refused: refused}, []string{"prometheus"}, false},
		"and nobody knows who has it":     {v1alpha1.CephSpec{Dashboard: true, Metrics: true}, Workloads{Options: want, Metrics: true, Refused: refused}, nil, false},
		"and all managers have it now":    {v1alpha1.CephSpec{Dashboard: true, Metrics: true}, Workloads{Options: want, Metrics: true, Refused: refused}, []string{"dashboard"}, true},
		"an option of its name is no one": {v1alpha1.CephSpec{Dashboard: true, Metrics: true}, Workloads{Options: want, Metrics: true, Refused: map[string]string{"dashboard": "weak"}}, []string{"dashboard"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := &v1alpha1.Cluster{Spec: v1alpha1.ClusterSpec{Ceph: &test.spec}}
			p := plan{}
			(&View{seen: Observation{Cluster: c, Current: true, Workloads: &test.there, Ceph: &Told{Facts: ceph.Facts{Modules: test.modules}}}}).options(&p)
			if got := len(p.steps) > 0; got != test.step {
				t.Errorf("Ceph is told: %t", got)
			}
			for _, s := range p.steps {
				if strings.HasSuffix(s.Why, ": ") {
					t.Errorf("it is told why, and not what: %q", s.Why)
				}
			}
		})
	}
}

// TestFill_dashboard: what the manager said last stands while it is asked anew, and not once nobody can ask.
func TestFill_dashboard(t *testing.T) {
	const at = "https://10.0.0.1:8443/"
	before := &v1alpha1.CephStatus{Dashboard: at}
	for name, test := range map[string]struct {
		told   *Told
		before *v1alpha1.CephStatus
		asking string
		want   string
	}{
		"it is served":               {&Told{Facts: ceph.Facts{Dashboard: at}}, nil, "", at},
		"it is not any more":         {&Told{}, before, "", ""},
		"the controller starts anew": {nil, before, BeingAsked, at},
		"nobody can ask":             {&Told{Facts: ceph.Facts{Dashboard: at}}, before, "No pod runs.", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := &v1alpha1.Cluster{Status: v1alpha1.ClusterStatus{Ceph: test.before}}
			v := &View{seen: Observation{Cluster: c, Ceph: test.told, Current: test.asking == "", Asking: test.asking, Now: time.Unix(600, 0)}}
			if v.Fill(c); c.Status.Ceph.Dashboard != test.want {
				t.Errorf("%q", c.Status.Ceph.Dashboard)
			}
		})
	}
}

// TestClass: an option that no node takes is told, and not written into PersistentVolumes. Whether the network is encrypted is a matter of Ceph's own options.
func TestClass(t *testing.T) {
	for option, says := range map[v1alpha1.MountOption]string{"noatime": "", "ms_mode=secure": "ms_mode=secure", "ro": "nothing could be written"} {
		o := joined(v1alpha1.ClusterSpec{StorageClass: &v1alpha1.StorageClassSpec{MountOptions: []v1alpha1.MountOption{option}}})
		if got := New(o).Whole(nil).Class.Invalid; (got == "") != (says == "") || !strings.Contains(got, says) {
			t.Errorf("%s: %q", option, got)
		}
	}
}

// TestIgnored: what the spec asks for and does not get is told in the status. Nothing waits for it, so that Ceph is asked no more often.
func TestIgnored(t *testing.T) {
	mons := func(n int32) v1alpha1.ClusterSpec { return v1alpha1.ClusterSpec{Ceph: &v1alpha1.CephSpec{Mons: n}} }
	class := func(c v1alpha1.StorageClassSpec) v1alpha1.ClusterSpec {
		return v1alpha1.ClusterSpec{StorageClass: &c}
	}
	for name, tt := range map[string]struct {
		spec  v1alpha1.ClusterSpec
		hosts int
		says  string
	}{
		"as many monitors as hosts":   {mons(5), 5, ""},
		"more hosts than monitors":    {mons(3), 4, ""},
		"five monitors on four hosts": {mons(5), 4, "spec.ceph.mons asks for 5 monitors, each on a host of its own. With the hosts that stay the Cluster gets 3."},
		"five monitors on three":      {mons(5), 3, "gets 3."},
		"three monitors on two":       {mons(3), 2, "gets 1."},
		"nobody asks for a number":    {mons(0), 2, ""},
		"what the API server fills in": {
			class(v1alpha1.StorageClassSpec{FSType: "ext4", BindingMode: "WaitForFirstConsumer"}), 1, "",
		},
		"another filesystem":              {class(v1alpha1.StorageClassSpec{FSType: "xfs"}), 1, "spec.storageClass.fsType and mkfsOptions are not obeyed"},
		"options of mkfs":                 {class(v1alpha1.StorageClassSpec{MkfsOptions: []v1alpha1.MkfsOption{"-i 65536"}}), 1, "are not obeyed"},
		"another Ceph cluster to take up": {v1alpha1.ClusterSpec{Ceph: &v1alpha1.CephSpec{TakeUp: &v1alpha1.CephTakeUp{FSID: "f"}}}, 1, "spec.ceph.takeUp is not obeyed"},
	} {
		o := joined(tt.spec)
		for i := 2; i <= tt.hosts; i++ {
			m := o.World.Members[0].DeepCopy()
			m.Name, m.Spec.Node, m.Spec.Ceph = fmt.Sprintf("files.n%d", i), v1alpha1.HostName(fmt.Sprintf("n%d", i)), nil
			o.World.Members = append(o.World.Members, m)
		}
		v := New(o)
		v.Fill(o.Cluster)
		said := o.Cluster.Status.Ceph.Waits
		// Many waits leave room for them.
		for i := range 20 {
			v.plan.wait("Wait %d.", i)
		}
		if v.Fill(o.Cluster); len(o.Cluster.Status.Ceph.Waits) != 10 || len(v.plan.notes) > 0 && !slices.Contains(o.Cluster.Status.Ceph.Waits, v.plan.notes[0]) {
			t.Errorf("%q", o.Cluster.Status.Ceph.Waits)
		}
		if got := strings.Join(v.plan.notes, " "); !strings.Contains(got, tt.says) || (got == "") != (tt.says == "") || tt.says != "" && !slices.Contains(said, got) {
			t.Errorf("%s: told %q, in the status %q", name, got, said)
		}
		if slices.ContainsFunc(v.plan.waits, func(w string) bool { return slices.Contains(v.plan.notes, w) }) {
			t.Errorf("%s: something waits for it: %q", name, v.plan.waits)
		}
	}
}

// TestMoved: a monitor that is missing, and whose host has another address than the one that it was made for, is told with what to do.
func TestMoved(t *testing.T) {
	const says = "Host n1 has the address 10.0.0.9, and its monitor a was made for 10.0.0.1"
	for name, tt := range map[string]struct {
		address string
		change  func(*Observation)
		want    bool
	}{
		"the address is the same":     {"10.0.0.1", func(o *Observation) { o.Ceph.Quorum.Monitors[0].In = false }, false},
		"it is another one":           {"10.0.0.9", func(o *Observation) { o.Ceph.Quorum.Monitors[0].In = false }, true},
		"the monitor is in":           {"10.0.0.9", func(*Observation) {}, false},
		"it was, and Ceph is asked":   {"10.0.0.9", func(o *Observation) { o.Current, o.Asking = false, BeingAsked }, false},
		"the monitors do not answer":  {"10.0.0.9", func(o *Observation) { o.Current, o.Asking = false, "The monitors do not answer." }, true},
		"nobody knows an address":     {"", func(o *Observation) { o.Ceph.Quorum.Monitors[0].In = false }, false},
		"the host has no monitor now": {"10.0.0.9", func(o *Observation) { o.World.Members[0].Spec.Ceph.Monitor = nil }, false},
	} {
		o := joined(v1alpha1.ClusterSpec{})
		o.World.Members[0].Spec.Ceph.Monitor = &v1alpha1.MemberMonitor{Name: "a", Address: "10.0.0.1"}
		o.Addresses["n1"] = tt.address
		tt.change(&o)
		if got := slices.ContainsFunc(New(o).plan.waits, func(w string) bool { return strings.HasPrefix(w, says) }); got != tt.want {
			t.Errorf("%s: told %t, waits %q", name, got, New(o).plan.waits)
		}
	}
}
