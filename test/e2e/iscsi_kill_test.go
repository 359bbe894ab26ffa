//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// changesKiller stands in front of LVM. Of the commands that change a group it lets the agent, its parent, die before or after each: once for one that is made again,
// so that the next try goes on. A command is known by what it does to which tag of which volume; the epoch is another one at each try.
const changesKiller = `#!/bin/bash
cd ` + killDir + ` || exit
case "$1" in pvcreate|vgcreate|vgchange|vgremove|lvcreate|lvchange|lvextend|lvremove) ;; *) exec /usr/sbin/lvm "$@" ;; esac
key="$1 ${*: -1}"
for word in "$@"; do case "$word" in quarry.storage/epoch*) ;; quarry.storage/*) key="$key $word" ;; esac; done
echo "$key" >> log
dies=; grep -qxF "$key" killed || { echo "$key" >> killed; dies=$(<mode); }
if [ "$dies" = before ]; then kill -9 $PPID; exit 1; fi
/usr/sbin/lvm "$@"; code=$?
[ "$dies" != after ] || kill -9 $PPID
exit $code
`

// killedNode is the one initiator: were there two, another one would go on with each change.
const killedNode = "n2"

// TestIscsiAgentKilledBetweenSteps kills the agent before, and then after, each command that changes the group on the LUN: from the making of the group to its
// end, with a volume that is made, used, grown, detached, attached again and deleted.
func TestIscsiAgentKilledBetweenSteps(t *testing.T) {
	turn(t, 9, 10)
	ownServer(t)
	for _, node := range nodes {
		onNode(t, node, "mkdir -p "+killDir+" && cat > "+killDir+"/lvm <<'END'\n"+changesKiller+"END\nchmod +x "+killDir+"/lvm")
		setMode(t, node, "off")
	}
	useKiller(t)
	for i, mode := range []string{"before", "after"} {
		t.Run(mode, func(t *testing.T) {
			turn(t, uint64(9+10*i), 20)
			liveWithKills(t, mode)
		})
	}
}

func setMode(t *testing.T, node, mode string) {
	t.Helper()
	onNode(t, node, "cd "+killDir+"; : > log; echo "+mode+" > mode; : > killed")
}

// liveWithKills goes through the life of an Iscsi with one volume, while its agent is killed.
func liveWithKills(t *testing.T, mode string) {
	patient(t, 3)
	i := target(t, "kills-"+mode, "--size", "128M")
	i.Spec.Initiators = []v1alpha1.HostName{killedNode}
	setMode(t, killedNode, mode)
	t.Cleanup(func() { setMode(t, killedNode, "off") })
	before := restartsOf(t, agentPod(t, killedNode))
	create(t, i)
	waitRunning(t, i, limitPod)
	c := claim(t, "killed-"+mode, i.Name, "16Mi")
	volume := bound(t, c)
	first := waitPod(t, pod(t, "killed-first-"+mode, killedNode, counting, c), corev1.PodRunning)
	waitSynced(t, first, 5)
	expand(t, c, first, "24Mi")
	synced := lastSynced(t, first)
	remove(t, first)
	checkCounted(t, c, killedNode, synced)
	remove(t, c)
	waitVolumeGone(t, volume)
	remove(t, i)
	var commands []string
	for line := range strings.Lines(onNode(t, killedNode, "cat "+killDir+"/log")) {
		commands = append(commands, strings.Fields(line)[0])
	}
	slices.Sort(commands)
	killed := int(restartsOf(t, agentPod(t, killedNode)) - before)
	t.Logf("%s: %d commands that change the group, %d restarts of the agent", mode, len(commands), killed)
	// An agent that was killed twice before the kubelet looked counts once.
	if killed < len(slices.Compact(slices.Clone(commands))) {
		t.Errorf("%d restarts of the agent for %d commands", killed, len(commands))
	}
	// Made, grown and deleted, with the group; the marks of a volume change in between.
	for _, want := range []string{"vgcreate", "lvcreate", "lvchange", "lvextend", "lvremove", "vgremove"} {
		if !slices.Contains(commands, want) {
			t.Error(fmt.Sprintf("no %s among the commands", want), slices.Compact(commands))
		}
	}
}
