package setup

import (
	"strings"
	"testing"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestParseCSI(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "ns")
	c, err := ParseCSI([]string{"--driver=" + v1alpha1.DriverLVM, "--csi-address=unix:///csi/csi.sock"})
	if err != nil || c.Address != "/csi/csi.sock" || c.Namespace != "ns" || c.AgentPort != 7443 {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := ParseCSI([]string{"--driver=" + v1alpha1.DriverNFS}); err != nil || c.Driver != v1alpha1.DriverNFS {
		t.Errorf("%+v, %v", c, err)
	}
	for arg, want := range map[string]string{
		"--driver=other": "not known", "--csi-address=csi.sock": "absolute", "--namespace=": "namespace is empty",
		"--agent-port=0": "not a port", "--nonsense": "not defined",
	} {
		if _, err := ParseCSI([]string{arg}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", arg, err)
		}
	}
}
