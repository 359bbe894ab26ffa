//go:build e2e

package e2e

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// changesKiller stands in front of LVM, of dmsetup and of iscsiadm. Of the commands that change a group, the devices of volumes, or sessions and their records it lets the agent, its
// parent, die before or after each: once for one that is made again, so that the next try goes on. A command is known by what it does to what: to which tag of which volume, for LVM. The epoch
// is another one at each try.
const changesKiller = `#!/bin/bash
cd ` + killDir + ` || exit
tool=${0##*/} real=` + killDir + `/${0##*/}.real of=node
case "$tool $*" in
lvm\ pvcreate*|lvm\ vgcreate*|lvm\ vgchange*|lvm\ vgremove*|lvm\ lvcreate*|lvm\ lvchange*|lvm\ lvextend*|lvm\ lvremove*)
	of=group real=/usr/sbin/lvm key="lvm $1 ${*: -1}"
	for word in "$@"; do case "$word" in quarry.storage/epoch*) ;; quarry.storage/*) key="$key $word" ;; esac; done ;;
lvm*) exec /usr/sbin/lvm "$@" ;;
dmsetup\ create*|dmsetup\ load*|dmsetup\ suspend*|dmsetup\ resume*|dmsetup\ remove*) key="dmsetup $1 $(printf '%s\n' "$@" | grep -m 1 ^quarry-)" ;;
iscsiadm*\ --login) key="iscsiadm login" ;;
iscsiadm*\ --logout) key="iscsiadm logout" ;;
iscsiadm*\ -o\ new*) key="iscsiadm new" ;;
iscsiadm*\ -o\ delete*) key="iscsiadm delete" ;;
*) exec "$real" "$@" ;;
esac
echo "$key" >> log
dies=; [ $of != "$(<kind)" ] || grep -qxF "$key" killed || { echo "$key" >> killed; dies=$(<mode); }
if [ "$dies" = before ]; then kill -9 $PPID; exit 1; fi
"$real" "$@"; code=$?
[ "$dies" != after ] || kill -9 $PPID
exit $code
`

// reservationsWatcher runs beside the target and tells what becomes of its reservations: the first key is registered, the LUN is reserved, no key is left. It ends after the last word that it
// waits for. Meanwhile all that the target says takes a while on its way: whoever made the change does not know yet that it is made.
const reservationsWatcher = `was=$2 last=$3
cd /sys/kernel/config/target/iscsi/$1/tpgt_1/lun/lun_0/disk/pr || exit
exec 9<> <(:) || exit
trap 'tc qdisc del dev vec0 root; rm -f /run/quarry-watched' EXIT
tc qdisc replace dev vec0 root netem delay 200ms
touch /run/quarry-watched
while [ -e /run/quarry-watched ]; do
	mapfile -t keys < res_pr_registered_i_pts; mapfile -t holder < res_holder
	now=unregister
	[[ "${keys[*]}" != *Key:* ]] || now=register
	[[ $now != register || "${holder[*]}" != *Initiator* ]] || now=reserve
	if [ $now != $was ]; then echo $now; fi
	[ $now = $was ] || [ $now != $last ] || exit 0
	was=$now
	read -rt 0.005 -u 9 || true
done
`

// reservationsKiller lets the agent die once for each word that it reads. It knows the process before it does, to be quick.
const reservationsKiller = `cd ` + killDir + ` || exit
while :; do
	pid=$(pgrep -o -x agent)
	if read -rt 1 kind; then
		case "$done" in *" $kind "*) continue ;; esac
		kill -9 $pid || kill -9 $(pgrep -o -x agent)
		echo "$kind" >> killed; done="$done $kind "
	elif [ $? -le 128 ]; then
		exit
	fi
done
`

// killAtReservations has the agent die as soon as the target has made each change of its reservations, from one to another, and before the agent knows. It returns once the target is watched.
func killAtReservations(t *testing.T, i *v1alpha1.Iscsi, from, to string) {
	t.Helper()
	words, told, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	watcher := labCommand("exec", "storage", "--", "bash", "-c", reservationsWatcher, "watcher", i.Spec.IQN, from, to)
	killer := labCommand("exec", killedNode, "--", "bash", "-c", reservationsKiller)
	watcher.Stdout, killer.Stdin = told, words
	for _, cmd := range []*exec.Cmd{killer, watcher} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Wait() }) // What it was to do is in the files of the node.
	}
	_, _ = words.Close(), told.Close() // The processes have them.
	t.Cleanup(func() { onServer(t, "rm -f /run/quarry-watched") })
	eventually(t, limitReady, "the target is watched", func(context.Context) error {
		_, err := tryLab("exec", "storage", "--", "test", "-e", "/run/quarry-watched")
		return err
	})
}

// killedNode is the one initiator: were there two, another one would go on with each change.
const killedNode = "n2"

// TestIscsiAgentKilledBetweenSteps kills the agent before, and then after, each command of a kind: those that change the group on the LUN, and those that make and end sessions and devices; and once
// more at each change of the reservations, which the agent does not know of yet. That goes from the first login to the last logout, with a volume that is made, used, grown, detached, attached again and deleted.
func TestIscsiAgentKilledBetweenSteps(t *testing.T) {
	turn(t, 9, 20)
	ownServer(t)
	for _, node := range nodes {
		onNode(t, node, "mkdir -p "+killDir+" && cd "+killDir+" && cat > lvm <<'END'\n"+changesKiller+`END
			chmod +x lvm; cp lvm dmsetup; cp lvm iscsiadm
			for p in dmsetup iscsiadm; do cp "/proc/$(pgrep -o -x agent)/root/usr/sbin/$p" $p.real; done`)
		setMode(t, node, "group", "off")
	}
	useKiller(t, "dmsetup", "iscsiadm")
	for i, m := range []struct {
		kind, mode string
		want       []string
	}{
		// Made, grown and deleted, with the group; the marks of a volume change in between.
		{"group", "before", []string{"lvm vgcreate", "lvm lvcreate", "lvm lvchange", "lvm lvextend", "lvm lvremove", "lvm vgremove"}},
		{"node", "before", []string{"iscsiadm new", "iscsiadm login", "iscsiadm logout", "iscsiadm delete", "dmsetup create", "dmsetup load", "dmsetup suspend", "dmsetup resume", "dmsetup remove"}},
		{"reservations", "after", []string{"register", "reserve", "unregister"}},
		{"group", "after", []string{"lvm vgcreate", "lvm lvcreate", "lvm lvchange", "lvm lvextend", "lvm lvremove", "lvm vgremove"}},
		{"node", "after", []string{"iscsiadm new", "iscsiadm login", "iscsiadm logout", "iscsiadm delete", "dmsetup create", "dmsetup load", "dmsetup suspend", "dmsetup resume", "dmsetup remove"}},
	} {
		t.Run(m.kind+"-"+m.mode, func(t *testing.T) {
			turn(t, uint64(9+20*i), 100)
			liveWithKills(t, m.kind, m.mode, m.want)
		})
	}
}

func setMode(t *testing.T, node, kind, mode string) {
	t.Helper()
	onNode(t, node, "cd "+killDir+"; : > log; echo "+kind+" > kind; echo "+mode+" > mode; : > killed")
}

// liveWithKills goes through the life of an Iscsi with one volume, while its agent is killed.
func liveWithKills(t *testing.T, kind, mode string, want []string) {
	patient(t, 3)
	name := kind + "-" + mode
	i := target(t, "kills-"+name, "--size", "128M")
	i.Spec.Initiators = []v1alpha1.HostName{killedNode}
	setMode(t, killedNode, kind, mode)
	t.Cleanup(func() { setMode(t, killedNode, kind, "off") })
	before := restartsOf(t, agentPod(t, killedNode))
	if kind == "reservations" {
		killAtReservations(t, i, "unregister", "reserve")
	}
	create(t, i)
	waitRunning(t, i, limitPod)
	c := claim(t, "killed-"+name, i.Name, "16Mi")
	volume := bound(t, c)
	first := waitPod(t, pod(t, "killed-first-"+name, killedNode, counting, c), corev1.PodRunning)
	waitSynced(t, first, 5)
	expand(t, c, first, "24Mi")
	synced := lastSynced(t, first)
	remove(t, first)
	checkCounted(t, c, killedNode, synced)
	remove(t, c)
	waitVolumeGone(t, volume)
	if kind == "reservations" {
		killAtReservations(t, i, "reserve", "unregister")
	}
	remove(t, i)
	if left := onNode(t, killedNode, "ls /etc/iscsi/nodes /var/lib/quarry/iscsi/nodes 2>/dev/null || true"); strings.Contains(left, i.Spec.IQN) {
		t.Errorf("records of the target are left: %s", left)
	}
	var died []string
	for line := range strings.Lines(onNode(t, killedNode, "cat "+killDir+"/killed")) {
		died = append(died, strings.TrimSpace(line))
	}
	killed := int(restartsOf(t, agentPod(t, killedNode)) - before)
	t.Logf("%s: the agent was killed %d times, and started anew %d times", name, len(died), killed)
	// An agent that was killed twice before the kubelet looked counts once.
	if killed < len(want) {
		t.Errorf("%d restarts of the agent for %q", killed, died)
	}
	for _, command := range want {
		if !slices.ContainsFunc(died, func(d string) bool { return strings.HasPrefix(d+" ", command+" ") }) {
			t.Errorf("it was not killed at %s, but at %q", command, died)
		}
	}
}
