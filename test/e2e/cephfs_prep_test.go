//go:build e2e

package e2e

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/osd"
)

// prepKiller kills the agent of a node while it makes an OSD, three times: at once, after a second and a half, and once the label of the OSD is on the disk. It notes what is at the start of the disk afterwards.
// The program that makes the OSD is killed with the agent, as the container runtime does a moment later.
const prepKiller = `touch /run/ceph-killer; nohup bash -c '
	label() { dd if="$1" bs=4096 count=1 iflag=direct 2>/dev/null; }
	n=0; while [ -e /run/ceph-killer ] && [ $n -lt 3 ]; do
		for p in $(pgrep -f "^/usr/bin/ceph-osd --foreground --mkfs"); do
			a=$(awk "/^PPid/ {print \$2}" /proc/$p/status); [ "${a:-1}" -gt 1 ] || continue
			d=$(tr "\0" "\n" </proc/$p/cmdline | sed -n "/^--bluestore-block-path/{n;p;}")
			case $n in
			1) sleep 1.5;;
			2) while [ -e /proc/$p ] && ! label "$d" | grep -aq "^bluestore block device"; do sleep 0.1; done;;
			esac
			[ -e /proc/$p ] || continue
			kill -9 "$a" $p
			for i in $(seq 50); do [ -e /proc/$p ] || break; sleep 0.1; done
			echo "$n $(label "$d" | base64 -w 0)" >> /run/ceph-killed
			n=$((n + 1)); sleep 1; break
		done
		sleep 0.05
	done' >/dev/null 2>&1 &`

// killInPrep has the agent of each node die in the making of OSDs.
func killInPrep(t *testing.T) {
	t.Helper()
	for _, node := range nodes {
		t.Cleanup(func() { _, _ = tryOnNode(node, "rm -f /run/ceph-killer /run/ceph-killed") }) // They are of this test alone.
		onNode(t, node, prepKiller)
	}
}

// killedInPrep wants that agents were killed on every node, that an OSD was left unfinished by it on one of them at least, and that all OSDs are up.
func killedInPrep(t *testing.T, c *v1alpha1.Cluster) {
	t.Helper()
	unfinished := 0
	for _, node := range nodes {
		out := onNode(t, node, "cat /run/ceph-killed || true; rm -f /run/ceph-killer")
		kills := 0
		for line := range strings.Lines(out) {
			kills++
			left := leftInPrep(t, strings.TrimSpace(line))
			if left == osd.Unfinished {
				unfinished++
			}
			t.Logf("%s: the agent was killed, and the disk is %s", node, left)
		}
		if kills == 0 {
			t.Errorf("the agent of %s was never killed in the making of an OSD", node)
		}
	}
	if unfinished == 0 {
		t.Error("no agent was killed between the first write of the making of an OSD and its end")
	}
	allUp(t, c)
}

// leftInPrep says what a disk was when the agent was killed, by what was at its start: a number, and the label if there was one.
func leftInPrep(t *testing.T, line string) osd.Kind {
	t.Helper()
	_, text, _ := strings.Cut(line, " ")
	block, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	switch l, err := osd.ParseLabel(block); {
	case errors.Is(err, osd.ErrNone):
		return osd.Empty
	case err != nil:
		return osd.Unknown
	case l.Ready:
		return osd.Ready
	}
	return osd.Unfinished
}
