package config

import (
	"errors"
	"flag"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func pod(key string) string {
	return map[string]string{
		"NODE_NAME": "node-1", "KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443",
	}[key]
}

func TestParse_defaults(t *testing.T) {
	got, err := Parse(nil, pod)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		NodeName: "node-1", Listen: ":7443", Probe: ":8081", LVMDir: "/var/lib/quarry/lvm", SharedDir: "/var/lib/quarry/shared", LVMBinary: "/usr/sbin/lvm",
		SysDir: "/sys", DevDir: "/dev", UdevDir: "/run/udev", ProcDir: "/proc", KubeletDir: "/var/lib/kubelet", MinDeviceBytes: 1 << 30,
		APIServer: "https://[fd00::1]:443", TokenFile: secretDir + "/token", CAFile: secretDir + "/ca.crt",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

func TestParse_flags(t *testing.T) {
	got, err := Parse(strings.Fields("--node-name n2 --min-device-size 512Mi --allow-types ubd,loop --without-udev -v 4"), pod)
	if err != nil {
		t.Fatal(err)
	}
	if got.NodeName != "n2" || got.MinDeviceBytes != 512<<20 || !cmp.Equal(got.AllowTypes, []string{"ubd", "loop"}) || !got.WithoutUdev {
		t.Errorf("config %+v", got)
	}
	if got, err := Parse([]string{"--version"}, func(string) string { return "" }); err != nil || !got.ShowVersion {
		t.Errorf("version: %+v, %v", got, err)
	}
	if _, err := Parse([]string{"--help"}, pod); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("help: %v", err)
	}
}

func TestParse_refuses(t *testing.T) {
	for args, says := range map[string]string{
		"--node-name=":            "node name",
		"--node-name Node_1":      "node name",
		"--lvm-dir relative":      "lvm-dir",
		"--shared-dir relative":   "shared-dir",
		"--listen 7443":           "7443",
		"--api-server http://a":   "not https",
		"--min-device-size 0":     "not positive",
		"--min-device-size -1":    "not a size",
		"--min-device-size 1G":    "not a size",
		"--min-device-size 9e9Ti": "not a size",
		"--allow-types partition": "partition",
		"--allow-types loop,dm":   `"dm"`,
		"extra":                   "extra",
		"--unknown":               "unknown",
	} {
		if _, err := Parse(strings.Fields(args), pod); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "2Ki": 2 << 10, "3Mi": 3 << 20, "1Gi": 1 << 30, "4Ti": 4 << 40} {
		var s size
		if err := s.Set(text); err != nil || int64(s) != want || s.String() != text {
			t.Errorf("%s: %d, %q, %v", text, s, s.String(), err)
		}
	}
}
