package cephpod

import (
	"bytes"
	"encoding/base64"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
	"quarry.storage/quarry/pkg/cephvolume"
)

const fsid = "7a1c6d1e-0000-4000-8000-000000000001"

func TestKey(t *testing.T) {
	at := time.Unix(0x11223344, 5)
	key, err := Key(bytes.NewReader(bytes.Repeat([]byte{7}, 32)), at)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(key)
	want := append([]byte{2, 0, 0x44, 0x33, 0x22, 0x11, 5, 0, 0, 0, 32, 0}, bytes.Repeat([]byte{7}, 32)...)
	if err != nil || !bytes.Equal(raw, want) {
		t.Errorf("%x, %v", raw, err)
	}
	if _, c, err := cephvolume.ParseKey(key); err != nil || c != cephvolume.CipherAES256 {
		t.Errorf("%s, %v", c, err)
	}
	if _, err := Key(bytes.NewReader(nil), at); err == nil {
		t.Error("a key was made of nothing")
	}
}

// TestPassword: a password is made of what is random, and has nothing that a shell or a form takes for something else.
func TestPassword(t *testing.T) {
	password, err := Password(bytes.NewReader(bytes.Repeat([]byte{0xfb, 0xff, 0x01}, 6)))
	if err != nil || password != strings.Repeat("-_8B", 6) {
		t.Errorf("%q, %v", password, err)
	}
	if _, err := Password(bytes.NewReader(make([]byte, 17))); err == nil {
		t.Error("a password was made of too little")
	}
}

// TestDashboard: the Service selects the pod of one manager, by the labels that its Deployment gives it.
func TestDashboard(t *testing.T) {
	p := Plan{Cluster: "files", FSID: fsid}
	have := p.Deployment(Daemon{Kind: "mgr", ID: "h1234", Node: "n1"}).Spec.Template.Labels
	s := p.Dashboard("h1234")
	for k, v := range s.Spec.Selector {
		if have[k] != v {
			t.Errorf("the Service selects %s=%s, and the pod has %q", k, v, have[k])
		}
	}
	if len(s.Spec.Selector) != 3 || s.Spec.Ports[0].Port != 8443 || s.Name != "ceph-files-dashboard" {
		t.Errorf("%+v", s)
	}
	if secret := p.DashboardSecret("pw"); secret.Name != s.Name || string(secret.Data["password"]) != "pw" || secret.Labels["quarry.storage/ceph-fsid"] != fsid {
		t.Errorf("%+v", secret)
	}
}

func TestConfig(t *testing.T) {
	text := Config(fsid, []Monitor{{"b", "fd00::2"}, {"a", "10.0.0.1"}}, 3, 2, false)
	for _, line := range []string{"fsid = " + fsid, "mon_host = [v2:10.0.0.1:3300],[v2:[fd00::2]:3300]", "osd_pool_default_size = 3", "osd_pool_default_min_size = 2"} {
		if !slices.Contains(strings.Split(text, "\n"), line) {
			t.Errorf("%q is missing in\n%s", line, text)
		}
	}
	if Copies(text) != 3 || Copies("") != 0 || Copies("osd_pool_default_size = many\n") != 0 {
		t.Errorf("%d copies", Copies(text))
	}
	const shared = "osd_crush_chooseleaf_type = 0\n"
	if strings.Contains(text, shared) || !strings.HasSuffix(Config(fsid, nil, 3, 2, true), shared) {
		t.Error("copies share a host where they must not, or do not where they may")
	}
}

// TestConfig_outranks: what is in the configuration file outranks what Ceph is told, so that the schema takes no such option: it would be without effect, and CephConfigured would say that Ceph took it.
func TestConfig_outranks(t *testing.T) {
	types, err := os.ReadFile("../../../../../pkg/api/v1alpha1/ceph_types.go")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(Config(fsid, nil, 3, 2, true)) {
		name, _, is := strings.Cut(line, " = ")
		if is && !strings.Contains(string(types), "'"+name+"'") {
			t.Errorf("spec.ceph.config takes %s", name)
		}
	}
}

// TestDeployment: a daemon is bound to its node, only one that opens a disk is privileged, and none but a monitor sees the key of the administrator.
func TestDeployment(t *testing.T) {
	p := Of(&v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "files", UID: fsid}})
	for _, kind := range []string{cephname.DaemonMonitor, cephname.DaemonManager, cephname.DaemonOSD, cephname.DaemonMetadata, cephname.DaemonTools} {
		d := p.Deployment(Daemon{Kind: kind, ID: "7", Node: "n1", Address: "10.0.0.1", UUID: "u", Device: "/dev/x"})
		spec := d.Spec.Template.Spec
		if terms := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms; terms[0].MatchFields[0].Values[0] != "n1" {
			t.Errorf("%s: bound to %+v", kind, terms)
		}
		main := spec.Containers[0]
		if privileged := main.SecurityContext.Privileged != nil && *main.SecurityContext.Privileged; privileged != (kind == cephname.DaemonOSD) {
			t.Errorf("%s: privileged %t", kind, privileged)
		}
		admin := slices.ContainsFunc(main.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "admin" || m.Name == "keys" })
		if admin != (kind == cephname.DaemonMonitor) {
			t.Errorf("%s: sees the key of the administrator: %t", kind, admin)
		}
		if main.Resources.Limits.Memory().IsZero() || kind != cephname.DaemonTools && main.LivenessProbe == nil {
			t.Errorf("%s: %+v, probe %v", kind, main.Resources, main.LivenessProbe)
		}
		other := p
		other.Image = "another"
		if Template(d) == "" || Template(d) == Template(other.Deployment(Daemon{Kind: kind, ID: "7", Node: "n1", Address: "10.0.0.1", UUID: "u", Device: "/dev/x"})) {
			t.Errorf("%s: another image has the digest %q too", kind, Template(d))
		}
	}
	first, later := p.Deployment(Daemon{Kind: cephname.DaemonMonitor, ID: "a", First: true}), p.Deployment(Daemon{Kind: cephname.DaemonMonitor, ID: "a"})
	if Template(first) == Template(later) || !IsFirst(first) || IsFirst(later) {
		t.Error("the first monitor looks like any other")
	}
}

// TestMemory: a daemon keeps its caches below the limit that it is ended above, and an option of the spec outranks that.
func TestMemory(t *testing.T) {
	limited := func(memory string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}}
	}
	free := corev1.ResourceRequirements{}
	for name, tt := range map[string]struct {
		kind  string
		given *corev1.ResourceRequirements
		flag  string
		told  bool
	}{
		"a monitor":                      {cephname.DaemonMonitor, nil, "--default-mon_memory_target=858993456", false},
		"a monitor with more":            {cephname.DaemonMonitor, new(limited("5Gi")), "--default-mon_memory_target=4294967296", false},
		"a monitor without a limit":      {cephname.DaemonMonitor, &free, "", false},
		"a metadata server":              {cephname.DaemonMetadata, nil, "--default-mds_cache_memory_limit=536870912", false},
		"one that may have all":          {cephname.DaemonMetadata, &free, "", false},
		"a manager":                      {cephname.DaemonManager, nil, "", false},
		"an OSD":                         {cephname.DaemonOSD, nil, "", true},
		"an OSD without a limit":         {cephname.DaemonOSD, &free, "", false},
		"an OSD with too little":         {cephname.DaemonOSD, new(limited("512Mi")), "", false},
		"the least that Ceph takes":      {cephname.DaemonOSD, new(limited("1120Mi")), "", true},
		"the idle pod with the programs": {cephname.DaemonTools, nil, "", false},
	} {
		p := Plan{Cluster: "files", FSID: fsid, Image: "i", Resources: map[string]corev1.ResourceRequirements{}}
		if tt.given != nil {
			p.Resources[tt.kind] = *tt.given
		}
		main := p.Deployment(Daemon{Kind: tt.kind, ID: "7", Node: "n1", Address: "10.0.0.1"}).Spec.Template.Spec.Containers[0]
		flag := ""
		for _, arg := range main.Command {
			if strings.HasPrefix(arg, "--default-") {
				flag += arg
			}
		}
		told := slices.ContainsFunc(main.Env, func(e corev1.EnvVar) bool {
			return e.Name == "POD_MEMORY_LIMIT" && e.ValueFrom != nil && e.ValueFrom.ResourceFieldRef.Resource == "limits.memory"
		})
		if flag != tt.flag || told != tt.told {
			t.Errorf("%s: %q, told its limit: %t", name, flag, told)
		}
	}
}

// TestBudgeted: what is made is read as that, and anything else is made anew.
func TestBudgeted(t *testing.T) {
	p := Plan{Cluster: "files", FSID: "u"}
	for _, free := range [][]int{nil, {4}, {10, 2}} {
		away, got, ours := p.Budgeted(cephname.DaemonOSD, p.Budget(cephname.DaemonOSD, 1, free...))
		if slices.Sort(free); away != 1 || !slices.Equal(got, free) || !ours {
			t.Errorf("%v: %d, %v, %t", free, away, got, ours)
		}
	}
	for name, change := range map[string]func(*policyv1.PodDisruptionBudgetSpec){
		"another selector":     func(s *policyv1.PodDisruptionBudgetSpec) { s.Selector.MatchLabels = nil },
		"no selector":          func(s *policyv1.PodDisruptionBudgetSpec) { s.Selector = nil },
		"a share":              func(s *policyv1.PodDisruptionBudgetSpec) { s.MaxUnavailable = new(intstr.FromString("50%")) },
		"how many are to stay": func(s *policyv1.PodDisruptionBudgetSpec) { s.MaxUnavailable, s.MinAvailable = nil, s.MaxUnavailable },
		"names": func(s *policyv1.PodDisruptionBudgetSpec) {
			s.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: cephname.LabelID, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"a"}}}
		},
		"those alone": func(s *policyv1.PodDisruptionBudgetSpec) {
			s.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: cephname.LabelID, Operator: metav1.LabelSelectorOpIn, Values: []string{"1"}}}
		},
	} {
		b := p.Budget(cephname.DaemonOSD, 1)
		change(&b.Spec)
		if _, _, ours := p.Budgeted(cephname.DaemonOSD, b); ours {
			t.Errorf("%s is taken for ours", name)
		}
	}
}
