package preflight

import (
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const gib = 1 << 30

func TestMemory(t *testing.T) {
	all := []Need{{"OSD", 2, 2 * gib}, {"monitor", 1, gib}, {"manager", 0, gib}}
	for name, tt := range map[string]struct {
		memory       int64
		needs        []Need
		reason, says string
	}{
		"just enough":                {5 * gib, all, "", ""},
		"one byte too little":        {5*gib - 1, all, v1alpha1.ReasonTooLittleMemory, "need 5Gi (2 OSD with 2Gi each, 1 monitor with 1Gi each), and pods can have"},
		"nobody knows":               {0, all, v1alpha1.ReasonHostUnread, "need 5Gi"},
		"nothing is to run":          {0, []Need{{"OSD", 0, gib}}, "", ""},
		"daemons without a resource": {0, []Need{{"OSD", 3, 0}}, "", ""},
	} {
		got := Memory(Machine{MemoryBytes: tt.memory}, tt.needs)
		if got.Reason != tt.reason || !strings.Contains(got.Message, tt.says) || got.IsZero() != (tt.reason == "") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestPlatform(t *testing.T) {
	for name, tt := range map[string]struct {
		m             Machine
		image, reason string
	}{
		"one that Ceph builds for":       {Machine{OS: "linux", Architecture: "arm64"}, v1alpha1.CephImage, ""},
		"one that it does not":           {Machine{OS: "linux", Architecture: "s390x"}, v1alpha1.CephImage, v1alpha1.ReasonWrongArchitecture},
		"by tag and digest":              {Machine{OS: "linux", Architecture: "s390x"}, "quay.io/ceph/ceph:v20@sha256:0", v1alpha1.ReasonWrongArchitecture},
		"another one's image":            {Machine{OS: "linux", Architecture: "s390x"}, "registry:5000/ceph", ""},
		"an image whose name begins so":  {Machine{OS: "linux", Architecture: "s390x"}, "quay.io/ceph/ceph-s390x:v20", ""},
		"another operating system":       {Machine{OS: "windows", Architecture: "amd64"}, "registry/ceph", v1alpha1.ReasonWrongArchitecture},
		"nobody knows the architecture":  {Machine{OS: "linux"}, v1alpha1.CephImage, v1alpha1.ReasonHostUnread},
		"nobody knows what system it is": {Machine{Architecture: "amd64"}, v1alpha1.CephImage, v1alpha1.ReasonHostUnread},
	} {
		if got := Platform(tt.m, tt.image); got.Reason != tt.reason {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestClocks(t *testing.T) {
	at := func(least, most time.Duration) Machine { return Machine{Clock: &Clock{least, most}} }
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		all          map[string]Machine
		reason, says string
	}{
		"alone":                             {map[string]Machine{"a": at(time.Hour, time.Hour)}, "", ""},
		"just what Ceph bears":              {map[string]Machine{"a": at(0, 0), "b": at(50*ms, 50*ms)}, "", ""},
		"more than that":                    {map[string]Machine{"a": at(0, 0), "b": at(51*ms, 60*ms)}, v1alpha1.ReasonClocksDiffer, "from that of b by 51ms at least; Ceph bears 50ms"},
		"behind":                            {map[string]Machine{"a": at(0, 0), "b": at(-time.Hour, -time.Hour)}, v1alpha1.ReasonClocksDiffer, "1h0m0s"},
		"perhaps more":                      {map[string]Machine{"a": at(0, 100*ms), "b": at(120*ms, 300*ms)}, "", ""},
		"one of two others is wrong":        {map[string]Machine{"a": at(0, 0), "b": at(0, 0), "c": at(time.Hour, time.Hour)}, "", ""},
		"it is the wrong one of three":      {map[string]Machine{"a": at(time.Hour, time.Hour), "b": at(0, 0), "c": at(ms, ms)}, v1alpha1.ReasonClocksDiffer, "2 of 2 other hosts, from that of b"},
		"two against two":                   {map[string]Machine{"a": at(0, 0), "b": at(0, 0), "c": at(time.Hour, time.Hour), "d": at(time.Hour, time.Hour)}, v1alpha1.ReasonClocksDiffer, "2 of 3"},
		"others that nobody could read":     {map[string]Machine{"a": at(0, 0), "b": {}, "c": {}}, "", ""},
		"its own that nobody could read":    {map[string]Machine{"a": {Problem: "GetNode: timed out"}, "b": at(0, 0)}, v1alpha1.ReasonHostUnread, "timed out"},
		"its own that nobody was asked for": {map[string]Machine{"b": at(0, 0)}, v1alpha1.ReasonHostUnread, "not asked yet"},
	} {
		got := Clocks("a", tt.all, Allowed(nil))
		if got.Reason != tt.reason || !strings.Contains(got.Message, tt.says) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestAllowedDrift(t *testing.T) {
	for name, tt := range map[string]struct {
		options map[string]string
		want    time.Duration
	}{
		"by default":        {nil, 50 * time.Millisecond},
		"of the monitors":   {map[string]string{"mon.mon_clock_drift_allowed": "0.5", "global.mon_clock_drift_allowed": "2"}, 500 * time.Millisecond},
		"of all":            {map[string]string{"global.mon_clock_drift_allowed": "2"}, 2 * time.Second},
		"no number":         {map[string]string{"mon.mon_clock_drift_allowed": "a lot"}, 50 * time.Millisecond},
		"not above nothing": {map[string]string{"mon.mon_clock_drift_allowed": "-1"}, 50 * time.Millisecond},
		"without an end":    {map[string]string{"mon.mon_clock_drift_allowed": "Inf"}, 50 * time.Millisecond},
	} {
		if got := Allowed(tt.options); got != tt.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestPort: the monitors of two Ceph clusters have hosts of their own.
func TestPort(t *testing.T) {
	member := func(of, node string, monitor bool) *v1alpha1.Member {
		m := &v1alpha1.Member{}
		m.Spec.Of, m.Spec.Node, m.Spec.Ceph = v1alpha1.MemberOwner{Kind: "Cluster", Name: of}, v1alpha1.HostName(node), &v1alpha1.MemberCeph{}
		if monitor {
			m.Spec.Ceph.Monitor = &v1alpha1.MemberMonitor{Name: "a", Address: "10.0.0.1"}
		}
		return m
	}
	others := []*v1alpha1.Member{member("one", "n1", true), member("one", "n2", false), {}}
	for node, want := range map[string]string{"n1": "has a monitor of Cluster one, and room for one (port 3300)", "n2": "", "n3": ""} {
		if got := Port(node, others); got != want {
			t.Errorf("%s: %q", node, got)
		}
	}
}
