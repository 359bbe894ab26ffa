//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

const (
	// imageNext is another build of the image of Ceph, whose programs call themselves versionNext (dist/ceph-next.tar).
	imageNext   = "quay.io/ceph/ceph:v20.2.5"
	versionNext = "20.2.5"
	// imageOld has no programs in the lab, and is never to be asked for: Quarry works with no Ceph before 20.
	imageOld = "quay.io/ceph/ceph:v19.2.3"
	// imageNone is one that nobody has, of the version that runs.
	imageNone = "registry.invalid/ceph/ceph:v20.2.4"
)

// TestCephFSUpgrade changes what the daemons of a Ceph cluster are and where they run, while a pod writes: an image that does not start goes no further than to the first of them, they get another version and the one
// before again, monitors become fewer, and the host of the last one leaves. Nothing that was written is lost.
func TestCephFSUpgrade(t *testing.T) {
	needCeph(t)
	if _, err := tryLab("load", filepath.Join(repoRoot(), "dist", "ceph-next.tar")); err != nil {
		t.Fatalf("no other image of Ceph: %v", err)
	}
	c := newCephCluster(t, "changes", nodes...)
	// With two copies one of three hosts may leave.
	c.Spec.Ceph.Replicas, c.Spec.Ceph.Image = 2, v1alpha1.CephImage
	runCeph(t, c)
	before := c.Spec.Ceph.Image
	w := keepWriting(t, c, nodes[1], nodes[2])

	t.Run("TooOld", func(t *testing.T) { imageRefused(t, c, before) })
	t.Run("Broken", func(t *testing.T) { imageStops(t, c, w, before) })
	if t.Run("Upgrade", func(t *testing.T) { imageChanges(t, c, w, imageNext, versionNext) }) {
		t.Run("Back", func(t *testing.T) {
			imageChanges(t, c, w, before, strings.TrimPrefix(before[strings.LastIndexByte(before, ':')+1:], "v"))
		})
	}
	if t.Run("FewerMonitors", func(t *testing.T) { monitorsBecomeFewer(t, c, w) }) {
		t.Run("MonMoves", func(t *testing.T) { lastMonitorMoves(t, c, w) })
	}
	w.end(t)
}

func setImage(t *testing.T, c *v1alpha1.Cluster, image string) {
	t.Helper()
	update(t, c.Name, func(c *v1alpha1.Cluster) { c.Spec.Ceph.Image = image })
}

// imagesOf are the images that daemons of a Cluster have, each once.
func imagesOf(ctx context.Context, c *v1alpha1.Cluster) ([]string, error) {
	pods := &corev1.PodList{}
	if err := kube.List(ctx, pods, client.InNamespace(cephname.Namespace), client.MatchingLabels{cephname.LabelFSID: string(c.UID)}); err != nil {
		return nil, err
	}
	var out []string
	for _, p := range pods.Items {
		out = append(out, p.Spec.Containers[0].Image)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// imageRefused asks for a version that is too old. The Cluster says so, and no daemon gets it.
func imageRefused(t *testing.T, c *v1alpha1.Cluster, before string) {
	setImage(t, c, imageOld)
	eventually(t, 2*time.Minute, "the Cluster says that the version is too old", func(ctx context.Context) error {
		now, err := getCluster(ctx, c.Name)
		if err == nil && !strings.Contains(waitsOf(now), "Version 19.2.3 is older than") {
			err = fmt.Errorf("waits for %q", waitsOf(now))
		}
		return err
	})
	if images, err := imagesOf(t.Context(), c); err != nil || !slices.Equal(images, []string{before}) {
		t.Errorf("images %v, %v", images, err)
	}
	setImage(t, c, before)
}

// deployed are the daemons of a Cluster, such as mon.a, by the image that they are deployed with.
func deployed(ctx context.Context, c *v1alpha1.Cluster) (map[string][]string, error) {
	all := &appsv1.DeploymentList{}
	if err := kube.List(ctx, all, client.InNamespace(cephname.Namespace), client.MatchingLabels{cephname.LabelFSID: string(c.UID)}); err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, d := range all.Items {
		image := d.Spec.Template.Spec.Containers[0].Image
		out[image] = append(out[image], d.Labels[cephname.LabelDaemon]+"."+d.Labels[cephname.LabelID])
	}
	return out, nil
}

// firstWith waits until one daemon has an image, and the next one waits for it. It returns the one.
func firstWith(t *testing.T, c *v1alpha1.Cluster, image string) (first string) {
	t.Helper()
	eventually(t, 5*time.Minute, "one daemon has the image "+image+", and the next one waits", func(ctx context.Context) error {
		now, err := getCluster(ctx, c.Name)
		if err != nil {
			return err
		}
		have, err := deployed(ctx, c)
		if err != nil {
			return err
		}
		if len(have[image]) != 1 {
			return fmt.Errorf("%v; %s", have, waitsOf(now))
		}
		first = have[image][0]
		if !strings.Contains(waitsOf(now), "waits for image "+image+": "+first+" ") {
			return fmt.Errorf("%s has it; %s", first, waitsOf(now))
		}
		t.Log(waitsOf(now))
		return nil
	})
	return first
}

// imageStops gives the daemons an image that nobody has. One monitor gets it and does not start, so that no other daemon gets it, and the others serve. The image before mends that one.
func imageStops(t *testing.T, c *v1alpha1.Cluster, w *writer, before string) {
	setImage(t, c, imageNone)
	first := firstWith(t, c, imageNone)
	w.check(t)
	time.Sleep(30 * time.Second)
	have, err := deployed(t.Context(), c)
	if err != nil || len(have) != 2 || !slices.Equal(have[imageNone], []string{first}) || !strings.HasPrefix(first, cephname.DaemonMonitor+".") {
		t.Errorf("%s was the first, and by now %v have the images; %v", first, have, err)
	}
	eventually(t, 2*time.Minute, "the other monitors are the quorum", func(ctx context.Context) error {
		h, err := healthOf(ctx, c)
		if err == nil && (len(h.Quorum) != 2 || slices.Contains(h.Quorum, strings.TrimPrefix(first, cephname.DaemonMonitor+"."))) {
			err = fmt.Errorf("quorum %v", h.Quorum)
		}
		return err
	})
	setImage(t, c, before)
	eventually(t, 6*time.Minute, "every daemon has the image before", func(ctx context.Context) error {
		images, err := imagesOf(ctx, c)
		if err != nil {
			return err
		}
		have, err := deployed(ctx, c)
		if err == nil && (len(have) != 1 || !slices.Equal(images, []string{before})) {
			err = fmt.Errorf("%v; pods with %v", have, images)
		}
		return err
	})
	waitQuorum(t, c, 3)
}

// running are the versions that daemons run, by their kind, as "ceph versions" shows them.
type running map[string]map[string]int

// all reports whether all daemons of a kind run a version, and any whether one does.
func (r running) all(kind, version string) bool { return len(r[kind]) == 1 && r.any(kind, version) }

func (r running) any(kind, version string) bool {
	for name := range r[kind] {
		if strings.HasPrefix(name, "ceph version "+version+" ") {
			return true
		}
	}
	return false
}

// imageChanges gives all daemons another image. They get it in Ceph's order: none of a kind before all of the kinds before it run.
func imageChanges(t *testing.T, c *v1alpha1.Cluster, w *writer, image, version string) {
	kinds := []string{"mon", "mgr", "osd", "mds"}
	began, said := time.Now(), ""
	setImage(t, c, image)
	eventually(t, 2*limitCeph, "all daemons run version "+version, func(ctx context.Context) error {
		// Each question starts a program beside a monitor, which has other work.
		time.Sleep(5 * time.Second)
		var r running
		if err := askCeph(ctx, c, []question{{Prefix: "versions"}}, &r); err != nil {
			return err
		}
		now, err := getCluster(ctx, c.Name)
		if err != nil {
			return err
		}
		if s := fmt.Sprintf("%v; %s", r, waitsOf(now)); s != said {
			said = s
			t.Logf("after %.0f s: %s", time.Since(began).Seconds(), said)
		}
		for i, kind := range kinds[1:] {
			for _, earlier := range kinds[:i+1] {
				if r.any(kind, version) && !r.all(earlier, version) {
					t.Errorf("%s runs version %s before every %s: %v", kind, version, earlier, r)
				}
			}
		}
		if slices.ContainsFunc(kinds, func(kind string) bool { return !r.all(kind, version) }) || now.Status.Ceph.Version != version {
			return fmt.Errorf("%s; version %q in the status", said, now.Status.Ceph.Version)
		}
		return nil
	})
	waitCopies(t, c)
	if images, err := imagesOf(t.Context(), c); err != nil || !slices.Equal(images, []string{image}) {
		t.Errorf("images %v, %v", images, err)
	}
	w.check(t)
}

// waitQuorum waits until the Cluster has so many monitors, all of them on record and in the quorum, and returns the hosts that have them.
func waitQuorum(t *testing.T, c *v1alpha1.Cluster, want int) (hosts []string) {
	t.Helper()
	eventually(t, limitCeph, fmt.Sprintf("%d monitors are the quorum", want), func(ctx context.Context) error {
		found, err := monitorsOf(ctx, c)
		if err != nil {
			return err
		}
		hosts = slices.Sorted(maps.Keys(found))
		h, err := healthOf(ctx, c)
		if err == nil && (len(hosts) != want || len(h.Quorum) != want) {
			err = fmt.Errorf("on record on %v, quorum %v", hosts, h.Quorum)
		}
		return err
	})
	return hosts
}

// monitorsBecomeFewer leaves one monitor of three.
func monitorsBecomeFewer(t *testing.T, c *v1alpha1.Cluster, w *writer) {
	waitQuorum(t, c, 3)
	update(t, c.Name, func(c *v1alpha1.Cluster) { c.Spec.Ceph.Mons = 1 })
	waitQuorum(t, c, 1)
	w.check(t)
}

// lastMonitorMoves takes the host with the only monitor off the list. Another host gets one first. Daemons, the pod that writes, and volumes that are mounted
// afterwards find it.
func lastMonitorMoves(t *testing.T, c *v1alpha1.Cluster, w *writer) {
	old := waitQuorum(t, c, 1)[0]
	now, err := getCluster(t.Context(), c.Name)
	if err != nil {
		t.Fatal(err)
	}
	address := now.Status.Ceph.Monitors
	began := time.Now()
	setHosts(t, c.Name, slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return n == old })...)
	eventually(t, limitCeph, old+" is a member no more", func(ctx context.Context) error {
		members, err := membersOf(ctx, c.Name)
		for _, m := range members {
			if string(m.Spec.Node) == old {
				err = fmt.Errorf("%s: %s", m.Status.State, m.Status.Message)
			}
		}
		return err
	})
	t.Logf("%s left after %.0f s", old, time.Since(began).Seconds())
	if hosts := waitQuorum(t, c, 1); hosts[0] == old {
		t.Errorf("the monitor is on %v, as before", hosts)
	}
	if now, err = getCluster(t.Context(), c.Name); err != nil {
		t.Fatal(err)
	}
	if len(now.Status.Ceph.Monitors) != 1 || slices.Equal(now.Status.Ceph.Monitors, address) {
		t.Errorf("monitors %v, and %v before", now.Status.Ceph.Monitors, address)
	}
	waitCopies(t, c)
	w.check(t)
	shareVolume(t, c)
}
