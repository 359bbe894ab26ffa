//go:build sanity

package sanity

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	"google.golang.org/grpc"
)

var (
	nodeName   = flag.String("node", "", "name of the node that this runs on")
	kubelet    = flag.String("kubelet-dir", "/var/lib/kubelet", "directory of the kubelet")
	pod        = flag.String("pod", "", "UID of the pod of the CSI controller, on this node")
	parameters = flag.String("parameters", "", "parameters of the StorageClass, as JSON")
	access     = flag.String("access", "mount", "how volumes are used: mount or block")
	secrets    = flag.String("secrets", "", "file with the data of the Secret that the StorageClass names for staging, as JSON")
	focus      = flag.String("focus", "", "regular expression on the names of the cases that are meant; all when empty")
	skip       = flag.String("skip", "", "regular expression on the names of cases that are not meant; none when empty")
)

// sockets of the two services, as the kubelet and the sidecars see them.
func nodeSocket() string {
	return filepath.Join(*kubelet, "plugins", *driver, "csi.sock")
}

func controllerSocket() string {
	return filepath.Join(podDir(), "volumes", "kubernetes.io~empty-dir", "socket", "csi.sock")
}

// podDir is the kubelet's directory of a pod that exists: it tidies up those of pods that it does not know.
func podDir() string { return filepath.Join(*kubelet, "pods", *pod) }

// TestSanity runs every case of the suite that is meant and that the table does not name, and compares what was not run with the
// table. It can run once in a process.
func TestSanity(t *testing.T) {
	subject, ok := subjects[*driver]
	if !ok {
		t.Fatalf("there is no driver %q", *driver)
	}
	dirs := places(t)
	c := sanity.NewTestConfig()
	c.Address, c.ControllerAddress = "unix://"+nodeSocket(), "unix://"+controllerSocket()
	c.StagingPath, c.TargetPath = filepath.Join(dirs[0], "globalmount"), filepath.Join(dirs[1], "mount")
	c.TestVolumeSize, c.TestVolumeExpandSize, c.TestVolumeAccessType = subject.bytes, subject.grown, *access
	c.TestVolumeParameters, c.TestSnapshotParameters = classParameters(t, subject.wanted), snapshotParameters
	c.IDGen = &ids{subject: subject}
	if *secrets != "" {
		c.SecretsFile = stagingSecrets(t)
	}
	anew := &again{limit: patience, pause: time.Second}
	c.DialOptions = append(c.DialOptions, grpc.WithChainUnaryInterceptor(anew.intercept))
	c.ControllerDialOptions = append(c.ControllerDialOptions, grpc.WithChainUnaryInterceptor(anew.intercept))

	meant, err := newSelection(*focus, *skip)
	if err != nil {
		t.Fatal(err)
	}
	rows := table(*driver, *linear, meant)
	suite, report := ginkgo.GinkgoConfiguration()
	for _, r := range rows {
		if r.barred {
			suite.SkipStrings = append(suite.SkipStrings, regexp.QuoteMeta(r.name))
		}
	}
	if *focus != "" {
		suite.FocusStrings = append(suite.FocusStrings, *focus)
	}
	if *skip != "" {
		suite.SkipStrings = append(suite.SkipStrings, *skip)
	}
	report.NoColor, report.Succinct = true, true
	var done types.Report
	ginkgo.ReportAfterSuite("what was run", func(r types.Report) { done = r })
	gomega.RegisterFailHandler(ginkgo.Fail)
	context := sanity.GinkgoTest(&c)
	defer context.Finalize()
	ginkgo.RunSpecs(t, "CSI", suite, report)

	for _, complaint := range compare(rows, done.SpecReports, meant) {
		t.Error(complaint)
	}
	summary(t, rows, done)
	t.Logf("%d calls were made anew, since the driver said that its storage is unavailable", anew.repeated.Load())
	for _, left := range leftovers(t, subject, dirs) {
		t.Error("left behind: " + left)
	}
}

// summary prints what took place, and what did not with the reasons.
func summary(t *testing.T, rows []row, done types.Report) {
	t.Helper()
	passed := 0
	var slowest types.SpecReport
	for _, s := range done.SpecReports {
		if s.State == types.SpecStatePassed {
			passed++
		}
		if s.RunTime > slowest.RunTime {
			slowest = s
		}
	}
	if passed == 0 {
		t.Error("no case of the suite was run")
	}
	notRun := map[string]int{}
	for _, r := range rows {
		notRun[r.reason]++
	}
	for _, reason := range slices.Sorted(maps.Keys(notRun)) {
		t.Logf("%d cases not run: %s", notRun[reason], reason)
	}
	t.Logf("%s, access %s, linear %t, focus %q, skip %q: %d cases passed, %d not run, in %v; the slowest took %v: %s",
		*driver, *access, *linear, *focus, *skip, passed, len(rows), done.RunTime.Round(time.Millisecond), slowest.RunTime.Round(time.Millisecond), slowest.FullText())
}

// places makes the directories for staging and publishing, where the kubelet has its own, and removes them at the end.
func places(t *testing.T) []string {
	t.Helper()
	var dirs []string
	for _, parent := range []string{filepath.Join(*kubelet, "plugins", "kubernetes.io", "csi", *driver), podDir()} {
		if err := os.MkdirAll(parent, 0o750); err != nil {
			t.Fatal(err)
		}
		dir, err := os.MkdirTemp(parent, "sanity-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			// Only an empty directory is left when everything was unmounted and removed.
			if err := os.Remove(dir); err != nil {
				t.Error(err)
			}
		})
		dirs = append(dirs, dir)
	}
	return dirs
}

// snapshotParameters are what the snapshotter adds to those of the VolumeSnapshotClass, which has none.
var snapshotParameters = map[string]string{
	"csi.storage.k8s.io/volumesnapshot/name": "sanity", "csi.storage.k8s.io/volumesnapshot/namespace": "default",
	"csi.storage.k8s.io/volumesnapshotcontent/name": "sanity",
}

// stagingSecrets writes the Secret for staging as the suite reads it, and returns the file.
func stagingSecrets(t *testing.T) string {
	t.Helper()
	encoded, err := os.ReadFile(*secrets)
	if err != nil {
		t.Fatal(err)
	}
	// Decoded, they are the texts that the kubelet hands to the node service.
	data := map[string][]byte{}
	if err := json.Unmarshal(encoded, &data); err != nil {
		t.Fatalf("data of the Secret: %v", err)
	}
	texts := map[string]string{}
	for key, value := range data {
		texts[key] = string(value)
	}
	staged, err := json.Marshal(map[string]any{"NodeStageVolumeSecret": texts})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "secrets.yaml")
	if err := os.WriteFile(path, staged, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// classParameters are those of the StorageClass as the provisioner sends them: those of Kubernetes' own it takes out, and others it
// adds.
func classParameters(t *testing.T, wanted []string) map[string]string {
	t.Helper()
	given := map[string]string{}
	if err := json.Unmarshal([]byte(*parameters), &given); err != nil {
		t.Fatalf("parameters of the StorageClass %q: %v", *parameters, err)
	}
	for _, name := range wanted {
		if given[name] == "" {
			t.Fatalf("the StorageClass has no parameter %q: %v", name, given)
		}
	}
	send := map[string]string{
		"csi.storage.k8s.io/pvc/name": "sanity", "csi.storage.k8s.io/pvc/namespace": "default", "csi.storage.k8s.io/pv/name": "pvc-sanity",
	}
	for name, value := range given {
		if !strings.HasPrefix(name, "csi.storage.k8s.io/") && (!*linear || !slices.Contains(wanted[1:], name)) {
			send[name] = value
		}
	}
	return send
}
