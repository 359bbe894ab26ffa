package view

import (
	"strings"
	"testing"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/cephpod"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// osdStep is a step about osd.7 on a disk of host n1; the monitors do not know the number of an OSD with the ID -1.
func osdStep(do ceph.Action, id int) ceph.Step {
	return ceph.Step{Do: do, Host: "n1", Path: "/dev/sdb", UUID: diskUUID, ID: id}
}

// monStep is a step about monitor b of host n1.
func monStep(do ceph.Action) ceph.Step { return ceph.Step{Do: do, Name: "b", Host: "n1", ID: -1} }

// poolStep is a step about a pool.
func poolStep(do ceph.Action) ceph.Step { return ceph.Step{Do: do, Name: "quarry-data", ID: -1} }

// clientStep is a step about the clients of node n1.
func clientStep(do ceph.Action) ceph.Step {
	return ceph.Step{Do: do, Name: "10.0.0.1", Host: "n1", ID: -1}
}

// hostStep is a step about host n1.
func hostStep(do ceph.Action) ceph.Step { return ceph.Step{Do: do, Host: "n1", ID: -1} }

// named are the steps that the rules about Ceph want, each with what a person is told that it is about.
var named = map[ceph.Action]struct {
	step ceph.Step
	says string
}{
	ceph.StartMonitor:  {monStep(ceph.StartMonitor), "Monitor b on host n1: "},
	ceph.RemoveMonitor: {monStep(ceph.RemoveMonitor), "Monitor b on host n1: "},
	ceph.AdoptMonitor:  {monStep(ceph.AdoptMonitor), "Monitor b on host n1: "},
	ceph.RegisterOSD:   {osdStep(ceph.RegisterOSD, -1), "The OSD on disk /dev/sdb of host n1: "},
	ceph.PrepareOSD:    {osdStep(ceph.PrepareOSD, 7), "osd.7 on disk /dev/sdb of host n1: "},
	ceph.StartOSD:      {osdStep(ceph.StartOSD, 7), "osd.7 on disk /dev/sdb of host n1: "},
	ceph.StopOSD:       {osdStep(ceph.StopOSD, 7), "osd.7 on disk /dev/sdb of host n1: "},
	ceph.OutOSD:        {osdStep(ceph.OutOSD, 7), "osd.7 on disk /dev/sdb of host n1: "},
	ceph.InOSD:         {osdStep(ceph.InOSD, 0), "osd.0 on disk /dev/sdb of host n1: "},
	ceph.PurgeOSD:      {osdStep(ceph.PurgeOSD, 7), "osd.7 on disk /dev/sdb of host n1: "},
	ceph.ZapOSD:        {osdStep(ceph.ZapOSD, -1), "The OSD on disk /dev/sdb of host n1: "},
	ceph.ReplaceOSD:    {osdStep(ceph.ReplaceOSD, 7), "osd.7 on disk /dev/sdb of host n1: "},
	ceph.KeepOSD:       {osdStep(ceph.KeepOSD, 7), "osd.7 on disk /dev/sdb of host n1: "},
	ceph.RemoveHost:    {hostStep(ceph.RemoveHost), "Host n1: "},
	ceph.SetNoOut:      {hostStep(ceph.SetNoOut), "Host n1: "},
	ceph.UnsetNoOut:    {hostStep(ceph.UnsetNoOut), "Host n1: "},
	ceph.CreatePool:    {poolStep(ceph.CreatePool), "Pool quarry-data: "},
	ceph.SetSize:       {poolStep(ceph.SetSize), "Pool quarry-data: "},
	ceph.SetMinSize:    {poolStep(ceph.SetMinSize), "Pool quarry-data: "},
	ceph.SetScale:      {poolStep(ceph.SetScale), "Pool quarry-data: "},
	ceph.SetGroups:     {poolStep(ceph.SetGroups), "Pool quarry-data: "},
	ceph.UnsetBulk:     {poolStep(ceph.UnsetBulk), "Pool quarry-data: "},
	ceph.FailOver:      {ceph.Step{Do: ceph.FailOver, Name: "h1", Host: "n1", ID: -1}, "Metadata server h1 on host n1: "},
	ceph.BlockClient:   {clientStep(ceph.BlockClient), "Clients at 10.0.0.1 of node n1: "},
	ceph.UnblockClient: {clientStep(ceph.UnblockClient), "Clients at 10.0.0.1 of node n1: "},
	ceph.ReplaceDaemon: {ceph.Step{Do: ceph.ReplaceDaemon, Name: "mgr.h1", Host: "n1", ID: -1}, "mgr.h1 on host n1: "},
	ceph.RequireRelease: {
		ceph.Step{Do: ceph.RequireRelease, Value: 20, ID: -1}, "OSDs before version 20: ",
	},
}

// shown wants a step to begin its reason with words, and to keep its digest whatever it says.
func shown(t *testing.T, name string, s Step, says string) {
	t.Helper()
	s.Why, s.Loses = "It is so.", "Everything."
	got := s.API()
	if got.Reason != says+s.Why || got.Host != s.On || got.Consent != s.Loses {
		t.Errorf("%s: %+v", name, got)
	}
	other := s
	if other.Why, other.Loses = "It is otherwise.", "Nothing."; other.Digest() != got.Digest || s.API().Digest != got.Digest {
		t.Errorf("%s: what it says is in its digest", name)
	}
}

// TestStep_named: whoever approves a plan is told of each step which OSD, monitor, daemon, pool, host or client it is about, and on which host.
func TestStep_named(t *testing.T) {
	v := bare(joined(v1alpha1.ClusterSpec{}))
	for _, do := range ceph.Actions {
		tt, is := named[do]
		action := ActionOf(do)
		if do == ceph.AdoptOSD && action != "" {
			continue // It is a step of a host, which TestStep_namedElse has.
		}
		if !is || action == "" {
			t.Errorf("nobody says what %s is about, or which action of the API it is (%q)", do, action)
			continue
		}
		s := v.whole(action, "", "")
		s.Ceph = tt.step
		shown(t, string(do), s, tt.says)
	}
}

// TestStep_namedElse: so is it of steps that the rules about Ceph do not know. Those of a host are shown with the host and its devices.
func TestStep_namedElse(t *testing.T) {
	v := bare(joined(v1alpha1.ClusterSpec{}))
	const whole = "The Ceph cluster: "
	daemon := func(kind, id string) func(*Step) {
		return func(s *Step) { s.Daemon = cephpod.Daemon{Kind: kind, ID: id, Node: "n1"} }
	}
	onHost := func(s *Step) { s.On, s.Devices = "n1", []decide.Device{{Path: "/dev/sdb"}} }
	for name, tt := range map[string]struct {
		action string
		change func(*Step)
		says   string
	}{
		"a manager":             {v1alpha1.ActionDeployDaemon, daemon(cephname.DaemonManager, "h1"), "mgr.h1 on host n1: "},
		"a metadata server":     {v1alpha1.ActionRemoveDaemon, daemon(cephname.DaemonMetadata, "h1"), "mds.h1 on host n1: "},
		"an OSD that is ended":  {v1alpha1.ActionRemoveDaemon, daemon(cephname.DaemonOSD, "7"), "osd.7 on host n1: "},
		"the tools":             {v1alpha1.ActionDeployDaemon, daemon(cephname.DaemonTools, "h1"), "tools.h1 on host n1: "},
		"what a monitor leaves": {v1alpha1.ActionRemoveDaemon, daemon(cephname.DaemonSweep, "b"), "The data of monitor b on host n1: "},
		"a number that only the Deployment knows": {v1alpha1.ActionStopOSD, func(s *Step) {
			s.Ceph, s.Daemon = osdStep(ceph.StopOSD, -1), cephpod.Daemon{Kind: cephname.DaemonOSD, ID: "7", Node: "n1"}
		}, "osd.7 on disk /dev/sdb of host n1: "},
		"a number that nobody knows": {v1alpha1.ActionZapOSD, func(s *Step) {
			s.Ceph, s.Daemon = osdStep(ceph.ZapOSD, -1), cephpod.Daemon{Kind: cephname.DaemonOSD, ID: "-1", Node: "n1"}
		}, "The OSD on disk /dev/sdb of host n1: "},
		"the dashboard":         {v1alpha1.ActionServeDashboard, func(s *Step) { s.Text = "h1" }, "Manager h1: "},
		"the first monitor":     {v1alpha1.ActionFormCeph, daemon(cephname.DaemonMonitor, "a"), "mon.a on host n1: "},
		"the quorum":            {v1alpha1.ActionFormCeph, nil, whole},
		"the keys":              {v1alpha1.ActionPrepareCeph, nil, whole},
		"the options":           {v1alpha1.ActionConfigureCeph, nil, whole},
		"the budget":            {v1alpha1.ActionSetBudget, nil, whole},
		"the filesystem":        {v1alpha1.ActionServeFilesystem, nil, whole},
		"all of it":             {v1alpha1.ActionTearDownCeph, nil, whole},
		"disks that are taken":  {v1alpha1.ActionTakeDisks, onHost, ""},
		"a disk that is wiped":  {v1alpha1.ActionWipeDevice, onHost, ""},
		"an OSD off the record": {v1alpha1.ActionAdoptOSD, func(s *Step) { onHost(s); s.Ceph = osdStep(ceph.AdoptOSD, 7) }, "osd.7 on disk /dev/sdb of host n1: "},
	} {
		s := v.whole(tt.action, "", "")
		if tt.change != nil {
			tt.change(&s)
		}
		shown(t, name, s, tt.says)
		if got := s.API().Devices; len(got) != len(s.Devices) || len(got) > 0 && !strings.Contains(got[0], "/dev/sdb") {
			t.Errorf("%s: devices %q", name, got)
		}
	}
}

// TestStep_digest: the digest of a step is the same in every process, so that an approval outlives the controller that offered it.
func TestStep_digest(t *testing.T) {
	const want = "273d4c1167c1089761ff4e8ac2a70e5c"
	s := Step{
		Does: v1alpha1.ActionReplaceOSD, Cluster: "files", UID: "u", FSID: "u", Member: "files.n1", Ceph: osdStep(ceph.ReplaceOSD, 7),
		Why: "It died.", Loses: "osd.7 is given up.",
	}
	if got := s.Digest(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
