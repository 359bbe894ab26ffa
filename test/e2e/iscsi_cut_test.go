//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// partition keeps a node from everybody but the storage node, until the function that it returns is called: it goes on writing to its volumes.
func partition(t *testing.T, node string) (heal func()) {
	t.Helper()
	routes := []string{"10.99.0.1/32", "10.96.0.0/16"}
	for i, n := range nodes {
		if n != node {
			routes = append(routes, fmt.Sprintf("10.99.0.%d/32", 11+i), fmt.Sprintf("10.244.%d.0/24", 1+i))
		}
	}
	change := func(verb, filter string) string {
		// Routes that were there have another metric, and stay. With the filter the node takes no packet that it has no way to answer.
		return "for r in " + strings.Join(routes, " ") + "; do ip route " + verb + " blackhole $r metric 1; done; ip route flush cache; " +
			"echo " + filter + " > /proc/sys/net/ipv4/conf/vec0/rp_filter"
	}
	for i, n := range nodes {
		// The test is worth nothing if the addresses of the lab are others by now.
		if out := onNode(t, n, "ip -4 -o addr"); !strings.Contains(out, fmt.Sprintf(" 10.99.0.%d/", 11+i)) {
			t.Fatalf("addresses of %s: %s", n, out)
		}
	}
	onNode(t, node, "ip route show | grep ' via .* dev vec0 $' | grep -v default | while read -r r; do ip route del $r; ip route add $r metric 100; done; "+change("add", "1"))
	done := false
	heal = func() {
		if !done {
			done = true
			onNode(t, node, change("del", "0"))
		}
	}
	t.Cleanup(heal)
	return heal
}

// watchTables notes ten times a second, in the kernel of each node, which devices of volumes of a group there are.
func watchTables(t *testing.T, v *corev1.PersistentVolume) {
	t.Helper()
	group, _, _ := strings.Cut(v.Spec.CSI.VolumeHandle, "/")
	// It starts no process, so that it hardly costs the node anything.
	const watch = `touch /run/quarry-watch; setsid bash -c 'exec 9<> <(:) || exit
		while [ -e /run/quarry-watch ]; do
			m=; for f in /sys/block/dm-*/dm/uuid; do { read -r u < "$f"; } 2>/dev/null && case $u in *-new|*-source) ;; quarry-GROUP-*) m="$m $u";; esac; done
			echo "$EPOCHREALTIME$m"; read -rt 0.1 -u 9 || true
		done' > /run/quarry-tables 2>/dev/null < /dev/null &`
	for _, n := range nodes {
		onNode(t, n, strings.ReplaceAll(watch, "GROUP", group))
		t.Cleanup(func() { onNode(t, n, "rm -f /run/quarry-watch /run/quarry-tables") })
	}
}

// firstSeen returns when watchTables first saw a device on a node, and how often it looked.
func firstSeen(t *testing.T, node string) (at time.Time, looks int) {
	t.Helper()
	lines := bufio.NewScanner(strings.NewReader(onNode(t, node, "cat /run/quarry-tables")))
	for lines.Scan() {
		looks++
		stamp, devices, _ := strings.Cut(lines.Text(), " ")
		if devices == "" || !at.IsZero() {
			continue
		}
		seconds, err := strconv.ParseFloat(stamp, 64)
		if err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		at = time.UnixMicro(int64(seconds * 1e6))
	}
	return at, looks
}

// waitFenced waits until the Member of a node says that it is fenced, and returns the last time at which it surely was not.
func waitFenced(t *testing.T, i *v1alpha1.Iscsi, node string) (notYet time.Time) {
	t.Helper()
	eventually(t, limitPod, node+" is fenced", func(ctx context.Context) error {
		asked := time.Now()
		m, err := memberOf(ctx, i.Name, node)
		if err != nil {
			return err
		}
		if r := m.Spec.Reservation; r == nil || !r.Fenced {
			notYet = asked
			return fmt.Errorf("reservation %+v", m.Spec.Reservation)
		}
		return nil
	})
	return notYet
}

// printed returns the last number that a pod printed, read on its node, and 0 before the first.
func printed(t *testing.T, p *corev1.Pod) (last int) {
	t.Helper()
	out := strings.Fields(onNode(t, p.Spec.NodeName, "tail -n 1 /var/log/pods/"+p.Namespace+"_"+p.Name+"_*/main/0.log"))
	if len(out) == 0 {
		return 0
	}
	last, err := strconv.Atoi(out[len(out)-1])
	if err != nil {
		t.Fatalf("the last line of %s is %q", p.Name, out)
	}
	return last
}

// keepBack keeps back what a node writes to a volume from now on, and returns once something is kept back. The function that it returns sends that.
func keepBack(t *testing.T, target, node string, v *corev1.PersistentVolume) (release func()) {
	t.Helper()
	lab(t, "storage", "writes-delay", target, node, "1h")
	released := false
	release = func() {
		if !released {
			released = true
			lab(t, "storage", "writes-delay", target, node, "0s")
		}
	}
	t.Cleanup(release)
	group, _, _ := strings.Cut(v.Spec.CSI.VolumeHandle, "/")
	eventually(t, limitPod, "a write of "+node+" is late", func(context.Context) error {
		// Start, size, kind, and then the numbers of reads, writes and flushes that are kept back.
		status := onNode(t, node, "for f in $(grep -l '^quarry-"+group+"-' /sys/block/dm-*/dm/uuid); do d=${f%/dm/uuid}; dmsetup status /dev/${d##*/}; done")
		if f := strings.Fields(status); len(f) < 6 || f[2] != "delay" || f[4] == "0" && f[5] == "0" {
			return fmt.Errorf("the device says %q", status)
		}
		return nil
	})
	return release
}

// TestIscsiNetworkCut: a node loses everybody but its volume, and goes on writing. It keeps the volume until a person vouches that it is off, which is
// wrong here. The target refuses it from then on, also what it had written before and what comes late. The next node has all that it had synced, and it gets nothing back before it is booted.
func TestIscsiNetworkCut(t *testing.T) {
	turn(t, 14, 20)
	ownServer(t)
	i := lun(t, "cut", "--size", "256M")
	victim := spareNode(t, v1alpha1.DriverISCSI)
	heir := otherThan(victim)
	c := claim(t, "cut", i.Name, "32Mi")
	volume := bound(t, c)
	watchTables(t, volume)
	writer := waitPod(t, pod(t, "cut-writer", victim, counting, c), corev1.PodRunning)
	waitSynced(t, writer, 10)

	heal := partition(t, victim)
	before := printed(t, writer)
	lab(t, "kubectl", "delete", "pod", writer.Name, "--force", "--grace-period=0")
	next := pod(t, "cut-next", heir, counting, c)
	eventually(t, limitPod, victim+" writes on", func(context.Context) error {
		if now := printed(t, writer); now < before+20 {
			return fmt.Errorf("it wrote %d lines, %d before it was cut off", now, before)
		}
		return nil
	})
	// Long enough for somebody who attaches without asking. There is no event to wait for.
	time.Sleep(20 * time.Second)
	if at, err := attachedTo(t.Context(), volume); err != nil || len(at) != 1 || at[0] != victim {
		t.Errorf("nobody vouched for %s, and the volume is attached to %v; %v", victim, at, err)
	}
	release := keepBack(t, i.Name, victim, volume)
	back := outOfService(t, victim)
	notYet := waitFenced(t, i, victim)
	next = waitPod(t, next, corev1.PodRunning)
	if at, looks := firstSeen(t, heir); looks < 100 || at.IsZero() || at.Before(notYet) {
		t.Errorf("%s had the volume at %v, and %s was not fenced at %v; %d looks", heir, at, victim, notYet, looks)
	}
	waitSynced(t, next, printed(t, writer)+10)
	release()
	refuses(t, victim, volume)
	waitSynced(t, next, lastSynced(t, next)+10)
	synced := lastSynced(t, next)

	heal()
	stays(t, i, victim, volume)
	lab(t, "node", "kill", victim)
	lab(t, "node", "start", victim)
	back()
	waitRunning(t, i, limitPod)
	remove(t, next)
	checkCounted(t, c, victim, synced)
}

// refuses checks that the target takes no write of a node to a volume: neither through the volume's device, which the node may still have, nor to the LUN
// itself, which begins with the metadata of the group. What is written is what is there.
func refuses(t *testing.T, node string, v *corev1.PersistentVolume) {
	t.Helper()
	group, _, _ := strings.Cut(v.Spec.CSI.VolumeHandle, "/")
	out := onNode(t, node, `
		for f in $(grep -l '^quarry-`+group+`-' /sys/block/dm-*/dm/uuid); do d=${f%/dm/uuid}; echo "/dev/${d##*/}"; done >/run/devices
		for d in /dev/sd?; do
			if dd if="$d" bs=1M count=1 iflag=direct 2>/dev/null | grep -a '`+group+`' >/dev/null; then echo "$d" >>/run/devices; fi
		done
		while read -r d; do
			if dd if="$d" of=/run/block bs=4096 count=1 iflag=direct 2>/dev/null && dd if=/run/block of="$d" bs=4096 count=1 oflag=direct conv=notrunc 2>/dev/null
			then echo "written $d"; else echo "refused $d"; fi
		done </run/devices
		rm -f /run/block /run/devices`)
	t.Logf("writes of %s: %q", node, out)
	if !strings.Contains(out, "refused /dev/sd") || strings.Contains(out, "written") {
		t.Errorf("writes of %s: %q", node, out)
	}
}

// stays checks that a fenced node that answers again writes nothing, and is no initiator before it is booted.
func stays(t *testing.T, i *v1alpha1.Iscsi, node string, v *corev1.PersistentVolume) {
	t.Helper()
	eventually(t, limitPod, node+" is back, and said to be fenced", func(ctx context.Context) error {
		n := &corev1.Node{}
		if err := kube.Get(ctx, client.ObjectKey{Name: node}, n); err != nil {
			return err
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
				return errors.New("the node is not ready")
			}
		}
		m, err := memberOf(ctx, i.Name, node)
		if err != nil {
			return err
		}
		if !strings.Contains(m.Status.Message, "boot") {
			return fmt.Errorf("its Member says %q", m.Status.Message)
		}
		return nil
	})
	refuses(t, node, v)
	if m, err := memberOf(t.Context(), i.Name, node); err != nil || m.Spec.Reservation == nil || !m.Spec.Reservation.Fenced {
		t.Errorf("%s was not booted, and its Member says %+v; %v", node, m.Spec.Reservation, err)
	}
}
