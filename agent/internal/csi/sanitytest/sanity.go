// Package sanitytest runs the conformance suite of CSI against services that listen already. The suite brings its own test
// framework, which stays in here. A test binary can run it once.
package sanitytest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
)

// Config says what to test.
type Config struct {
	// Endpoint is the socket of identity and node service, ControllerEndpoint the one of the controller service.
	Endpoint, ControllerEndpoint string
	// KubeletDir is where the suite's paths have to be; it may not exist yet.
	KubeletDir string
	// Handle makes the handle of a volume that does not exist, of the volume's name.
	Handle func(name string) string
	// VolumeBytes is the size of volumes; they are expanded to ExpandBytes.
	VolumeBytes, ExpandBytes int64
	// Block tests raw devices instead of filesystems.
	Block bool
	// Parameters are those of the StorageClass and of the VolumeSnapshotClass.
	Parameters, SnapshotParameters map[string]string
	// Secrets are what the StorageClass names for staging.
	Secrets map[string]string
	// Focus are regular expressions on the names of what to run; everything when empty.
	Focus []string
	// Skip are regular expressions on the names of what not to run, each with the reason why.
	Skip map[string]string
}

// Run runs the suite.
func Run(t *testing.T, cfg Config) {
	t.Helper()
	dir, err := os.MkdirTemp(cfg.KubeletDir, "sanity")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Only empty directories are left when everything was unmounted.
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	c := sanity.NewTestConfig()
	c.Address, c.ControllerAddress = "unix://"+cfg.Endpoint, "unix://"+cfg.ControllerEndpoint
	c.TargetPath, c.StagingPath = filepath.Join(dir, "target"), filepath.Join(dir, "staging")
	c.TestVolumeSize, c.TestVolumeExpandSize = cfg.VolumeBytes, cfg.ExpandBytes
	c.TestVolumeParameters, c.TestSnapshotParameters = cfg.Parameters, cfg.SnapshotParameters
	c.IDGen = &ids{handle: cfg.Handle}
	if len(cfg.Secrets) > 0 {
		c.SecretsFile = secretsFile(t, cfg.Secrets)
	}
	if cfg.Block {
		c.TestVolumeAccessType = "block"
	}
	suite, report := ginkgo.GinkgoConfiguration()
	suite.FocusStrings = cfg.Focus
	for name, reason := range cfg.Skip {
		t.Logf("not run: %s: %s", name, reason)
		suite.SkipStrings = append(suite.SkipStrings, name)
	}
	report.Succinct, report.NoColor = true, true
	passed := 0
	ginkgo.ReportAfterEach(func(r ginkgo.SpecReport) {
		if r.State == types.SpecStatePassed {
			passed++
		}
	})
	gomega.RegisterFailHandler(ginkgo.Fail)
	context := sanity.GinkgoTest(&c)
	defer context.Finalize()
	ginkgo.RunSpecs(t, "CSI", suite, report)
	t.Logf("%d cases passed", passed)
	if passed == 0 {
		t.Error("no case of the suite was run")
	}
}

// secretsFile writes the secrets as the suite reads them.
func secretsFile(t *testing.T, secrets map[string]string) string {
	t.Helper()
	b, err := json.Marshal(map[string]any{"NodeStageVolumeSecret": secrets})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "secrets.yaml")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// ids makes handles in the form of this driver's.
type ids struct {
	handle func(name string) string
	n      atomic.Int64
}

var _ sanity.IDGenerator = (*ids)(nil)

// GenerateUniqueValidVolumeID makes the handle of a volume that does not exist.
func (g *ids) GenerateUniqueValidVolumeID() string {
	return g.handle(fmt.Sprintf("sanity-absent-%d", g.n.Add(1)))
}

// GenerateInvalidVolumeID makes something that is no handle.
func (g *ids) GenerateInvalidVolumeID() string { return "not/a-volume" }

// GenerateUniqueValidNodeID makes the name of a node that does not exist.
func (g *ids) GenerateUniqueValidNodeID() string {
	return fmt.Sprintf("sanity-absent-node-%d", g.n.Add(1))
}

// GenerateInvalidNodeID makes something that is no name of a node.
func (g *ids) GenerateInvalidNodeID() string { return "Not A Node" }
