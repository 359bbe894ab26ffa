//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// canary is beside the share of the test, on the same disk of the server. Nothing may change there, nor in what others have on the share.
const canary = "escapes-canary"

// hostileDirectories lead out of a share, or to what is not a volume's, each in its own way.
var hostileDirectories = []string{
	"../" + canary, "a/../../" + canary, "..", "/export/" + canary, "./" + canary, "a//b", "a/", ".", ".quarry", ".quarry/volumes/x",
	".hidden", "a/.b", "a\nb", "a\x00b", "a\u202eb", " a", "${pv.name}/../../" + canary, strings.Repeat("a/", 40) + "a", strings.Repeat("a", 300), "lost+found/x",
}

// hostileIDs are not the names of volumes.
var hostileIDs = []string{
	"", ".", "..", "../" + canary, "/", "/etc", "a/b", "a\\b", ".hidden", "-a", "a-", "A", "a b", "a\nb", "a\x00b", "ä", "a%2f..", "$(reboot)",
	strings.Repeat("a", 65), strings.Repeat("../", 20) + "etc",
}

// TestNfsEscapes tries to reach what is outside of the volumes of a share, through the API and through the agent itself.
func TestNfsEscapes(t *testing.T) {
	turn(t, 16, 20)
	useServer(t)
	const name = "escapes"
	n := share(t, name, func(n *v1alpha1.Nfs) { n.Spec.OnDelete = v1alpha1.DirectoryDelete })
	export(t, canary)
	onServer(t, strings.NewReplacer("SHARE", n.Spec.Path, "CANARY", canary).Replace(`mkdir -p /export/CANARY/deep SHARE/foreign
		echo alive | tee /export/CANARY/file /export/CANARY/deep/file SHARE/foreign/file
		ln -sfn ../CANARY SHARE/link; ln -sfn /export/CANARY SHARE/absolute`))
	before := surroundings(t, n)
	t.Run("templates that meet symbolic links", func(t *testing.T) { refusedClaims(t, n) })
	t.Run("the agent itself", func(t *testing.T) { refusedCalls(t, n) })
	t.Run("PersistentVolumes", func(t *testing.T) { refusedVolumes(t, n) })
	if diff := cmp.Diff(before, surroundings(t, n)); diff != "" {
		t.Errorf("outside of the volumes something was changed (-before +after):\n%s", diff)
	}
	discard(t, fill(t, n, "well", "echo well > /data0/file"))
}

// surroundings lists all that is outside of volumes: names, owners, modes, times of change, contents. The exports of the tests that run
// beside this one appear at any time and are left out.
func surroundings(t *testing.T, n *v1alpha1.Nfs) string {
	t.Helper()
	listed := onServer(t, fmt.Sprintf(`cd /export; find %[1]s %[2]s/foreign %[2]s/link %[2]s/absolute -printf '%%p %%y %%m %%u %%g %%C@ %%l\n' | sort
		find %[1]s %[2]s/foreign -type f -exec sha256sum {} + | sort; ls -A %[2]s | grep -v '^.quarry$'
		ls -A . | sed 's/^/export: /'`, canary, n.Name))
	var kept []string
	for line := range strings.Lines(listed) {
		name, isExport := strings.CutPrefix(strings.TrimSpace(line), "export: ")
		if _, ofTest := server.exports.Load(name); !isExport || !ofTest {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// refusedClaims: a template is followed below the share only, and never through a symbolic link or into what is there already.
func refusedClaims(t *testing.T, n *v1alpha1.Nfs) {
	for i, template := range []string{"link/${pv.name}", "absolute/deep", "link", "foreign", "lost+found/${pv.name}"} {
		setSpec(t, n, func(s *v1alpha1.NfsSpec) { s.SubDir = template })
		c := claim(t, fmt.Sprintf("hostile-%d", i), n.Name, "1Mi", shared)
		waitEvent(t, "PersistentVolumeClaim", c.Name, strings.Split(template, "/")[0])
		remove(t, c)
	}
	setSpec(t, n, func(s *v1alpha1.NfsSpec) { s.SubDir = "" })
}

// refusedCalls: what a CSI controller that was taken over could ask of an agent.
func refusedCalls(t *testing.T, n *v1alpha1.Nfs) {
	call := agentCaller(t, "n1")
	share := map[string]any{"server": n.Spec.Server, "path": n.Spec.Path, "owner_uid": n.UID}
	with := func(key string, value any) map[string]any {
		changed := map[string]any{}
		for k, v := range share {
			changed[k] = v
		}
		changed[key] = value
		return changed
	}
	refused := func(method string, request map[string]any, code string) {
		t.Helper()
		text, err := json.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := call("quarry.agent.v1.SharedDirectoryService/"+method, string(text)); err == nil || !strings.Contains(err.Error(), "Code: "+code) {
			t.Errorf("%s %.200s: %s %v, want %s", method, text, out, err, code)
		}
	}
	for _, directory := range hostileDirectories {
		refused("EnsureDirectory", map[string]any{"share": share, "volume": "v", "directory": directory, "on_delete": "ON_DELETE_DELETE"}, "InvalidArgument")
	}
	for _, id := range hostileIDs {
		refused("EnsureDirectory", map[string]any{"share": share, "volume": id, "directory": "d", "on_delete": "ON_DELETE_DELETE"}, "InvalidArgument")
		refused("RemoveDirectory", map[string]any{"share": share, "volume": id, "on_delete": "ON_DELETE_DELETE"}, "InvalidArgument")
	}
	for _, directory := range []string{"link", "link/x", "absolute/deep", "foreign"} {
		refused("EnsureDirectory", map[string]any{"share": share, "volume": "v", "directory": directory, "on_delete": "ON_DELETE_DELETE"}, "AlreadyExists")
	}
	for key, value := range map[string]any{
		"owner_uid": "../../" + canary, "path": "/export/../etc", "server": "10.99.0.10:/export/data", "mount_options": []string{"suid"},
	} {
		refused("GetShare", map[string]any{"share": with(key, value), "prepare": true}, "InvalidArgument")
	}
	if out, err := call("quarry.agent.v1.SharedDirectoryService/ListDirectories", fmt.Sprintf(`{"share": {"server": %q, "path": %q, "owner_uid": %q}}`,
		n.Spec.Server, n.Spec.Path, n.UID)); err != nil || strings.Contains(out, `"directory"`) {
		t.Errorf("records are left: %s, %v", out, err)
	}
}

// refusedVolumes: what a person who may write PersistentVolumes could have mounted or deleted.
func refusedVolumes(t *testing.T, n *v1alpha1.Nfs) {
	// Each has a handle of its own: the kubelet takes two volumes of one handle for one, and tells the pods of one only.
	handles := 0
	good := func() string {
		handles++
		return fmt.Sprintf("%s/pvc-00000000-0000-4000-8000-%012d", n.UID, handles)
	}
	attributes := func(directory string) map[string]string {
		return sharedvolume.Attributes{
			Server: n.Spec.Server, Path: n.Spec.Path, Directory: directory, OnDelete: sharedvolume.Delete, ShareID: n.Status.ShareID,
		}.Map()
	}
	volumes := map[string]corev1.CSIPersistentVolumeSource{
		"up":       {VolumeHandle: good(), VolumeAttributes: attributes("../" + canary)},
		"link":     {VolumeHandle: good(), VolumeAttributes: attributes("link")},
		"foreign":  {VolumeHandle: good(), VolumeAttributes: attributes("foreign")},
		"records":  {VolumeHandle: good(), VolumeAttributes: attributes(".quarry")},
		"handle":   {VolumeHandle: string(n.UID) + "/../" + canary, VolumeAttributes: attributes(canary)},
		"no-attrs": {VolumeHandle: good()},
	}
	pods := map[string]*corev1.Pod{}
	for what, source := range volumes {
		source.Driver = v1alpha1.DriverNFS
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
			Name: "hostile-" + what, Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": v1alpha1.DriverNFS},
		}}
		v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}
		v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		v.Spec.StorageClassName, v.Spec.CSI, v.Spec.PersistentVolumeReclaimPolicy = n.Name, &source, corev1.PersistentVolumeReclaimDelete
		createObject(t, v)
		c := claim(t, "hostile-"+what, n.Name, "1Mi", shared, func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = v.Name })
		pods[what] = pod(t, "hostile-"+what, "n1", "rm -rf /data0/*; echo mounted", c)
	}
	for what, p := range pods {
		waitEvent(t, "Pod", p.Name, "MountVolume")
		remove(t, p)
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "hostile-" + what}}
		remove(t, c)
		waitRefusedOrGone(t, "hostile-"+what)
		// A person gives it up: the provisioner keeps an object whose volume it may not delete.
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`))
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "hostile-" + what}}
		if err := kube.Patch(t.Context(), v, patch); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	}
}

// waitRefusedOrGone waits for what comes of the deletion of a volume with a hostile description: the driver finds nothing of that name, or
// refuses to work on it, and a person deletes the object.
func waitRefusedOrGone(t *testing.T, name string) {
	t.Helper()
	eventually(t, limitPod, "volume "+name+" is gone, or its deletion is refused", func(ctx context.Context) error {
		v := &corev1.PersistentVolume{}
		err := kube.Get(ctx, client.ObjectKey{Name: name}, v)
		if apierrors.IsNotFound(err) {
			return nil
		}
		var events corev1.EventList
		if err := errors.Join(err, kube.List(ctx, &events, client.MatchingFields{"involvedObject.name": name})); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Reason == "VolumeFailedDelete" {
				return nil
			}
		}
		return fmt.Errorf("it is %s", v.Status.Phase)
	})
}
