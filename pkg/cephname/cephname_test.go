package cephname

import (
	"strings"
	"testing"
)

func TestLetters(t *testing.T) {
	for n, want := range map[int]string{0: "a", 1: "b", 25: "z", 26: "aa", 27: "ab", 701: "zz", 702: "aaa"} {
		if got := Letters(n); got != want {
			t.Errorf("monitor %d is %q, not %q", n, got, want)
		}
	}
	seen := map[string]bool{}
	for n := range 2000 {
		if seen[Letters(n)] {
			t.Fatalf("two monitors are called %q", Letters(n))
		}
		seen[Letters(n)] = true
	}
}

func TestOnNode(t *testing.T) {
	if a, b := OnNode("node-1.example.com"), OnNode("node-2.example.com"); a == b || a[0] != 'h' || len(a) != 9 {
		t.Errorf("%q and %q", a, b)
	}
}

func TestAddress(t *testing.T) {
	for ip, want := range map[string]string{"10.0.0.1": "10.0.0.1:3300", "fd00::1": "[fd00::1]:3300"} {
		if got := Address(ip); got != want {
			t.Errorf("%s: %s", ip, got)
		}
	}
}

func TestNumber(t *testing.T) {
	for n := range 2000 {
		if got := Number(Letters(n)); got != n {
			t.Errorf("%d is %s, and that is %d", n, Letters(n), got)
		}
	}
	for _, name := range []string{"", "A", "a1", "mon-a", "aaaaaaaaa"} {
		if got := Number(name); got != -1 {
			t.Errorf("%q is number %d", name, got)
		}
	}
}

// TestService: whatever a Cluster is called, its Services have names that the API server takes, and no two Clusters the same.
func TestService(t *testing.T) {
	long := strings.Repeat("x", 63)
	for cluster, want := range map[string]string{
		"files": "ceph-files-metrics", long[:50]: "ceph-" + long[:50] + "-metrics", long[:51]: "ceph-3ecd502af72c4cf4-metrics", "a.b": "", long: "",
	} {
		got := Metrics(cluster)
		if want != "" && got != want || len(got) > 63 || strings.Contains(got, ".") || got == Dashboard(cluster) || got == Metrics(cluster+"c") {
			t.Errorf("%s: %s", cluster, got)
		}
	}
}
