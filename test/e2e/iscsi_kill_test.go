//go:build e2e

package e2e

import (
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

// reservationsKiller lets the agent die once for each kind of command with which it changes the reservations of a LUN, as soon as the target has carried it out: strace shows the commands that went
// to the kernel, and holds the agent for a moment after each, so that nobody gets to know of it. What strace shows of one thread may be in two lines. In a command that registers the new key is
// in bytes 8 to 15 of what is sent; where a key is taken off they are zero.
const reservationsKiller = `#!/bin/bash
cd ` + killDir + ` || exit
while [ -e armed ]; do
	pid=$(pgrep -o -x agent) || { sleep 0.1; continue; }
	unset sent; declare -A sent
	strace -f -qq -s 24 -p "$pid" -e trace=ioctl -e inject=ioctl:delay_exit=200000 2>&1 | while read -r line; do
		thread=${line#\[pid }; thread=${thread%%]*}
		case "$line" in
		*SG_IO*cmdp=\"\\x5f\\x00*dxferp=\"????????????????????????????????\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00*) kind=unregister ;;
		*SG_IO*cmdp=\"\\x5f\\x00*) kind=register ;;
		*SG_IO*cmdp=\"\\x5f\\x01*) kind=reserve ;;
		*"ioctl resumed"*) kind=${sent[$thread]}; sent[$thread]= ;;
		*) continue ;;
		esac
		case "$line" in
		*unfinished*) sent[$thread]=$kind ;;
		*" status=0,"*) [ -z "$kind" ] || grep -qxF "$kind" killed || { echo "$kind" >> killed; kill -9 "$pid"; } ;;
		esac
	done
done
`

// killedNode is the one initiator: were there two, another one would go on with each change.
const killedNode = "n2"

// TestIscsiAgentKilledBetweenSteps kills the agent before, and then after, each command of a kind: those that change the group on the LUN, and those that make and end sessions and devices; and once
// more after each kind of command that changes reservations. That goes from the first login to the last logout, with a volume that is made, used, grown, detached, attached again and deleted.
func TestIscsiAgentKilledBetweenSteps(t *testing.T) {
	turn(t, 9, 10)
	ownServer(t)
	for _, node := range nodes {
		onNode(t, node, "mkdir -p "+killDir+" && cd "+killDir+" && cat > lvm <<'END'\n"+changesKiller+"END\ncat > reservations <<'END'\n"+reservationsKiller+`END
			chmod +x lvm reservations; cp lvm dmsetup; cp lvm iscsiadm
			for p in dmsetup iscsiadm; do cp "/proc/$(pgrep -o -x agent)/root/usr/sbin/$p" $p.real; done`)
		setMode(t, node, "group", "off")
	}
	useKiller(t)
	replaceTools(t, "dmsetup", "iscsiadm")
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
			turn(t, uint64(9+10*i), 50)
			liveWithKills(t, m.kind, m.mode, m.want)
		})
	}
}

// replaceTools puts the killer in front of more programs of the agents, until the test ends: useKiller takes it back.
func replaceTools(t *testing.T, names ...string) {
	t.Helper()
	var patch []string
	for _, name := range names {
		patch = append(patch, `{"op": "add", "path": "/spec/template/spec/containers/0/volumeMounts/-", "value": {"name": "kill-`+name+`", "mountPath": "/usr/sbin/`+name+`"}}`,
			`{"op": "add", "path": "/spec/template/spec/volumes/-", "value": {"name": "kill-`+name+`", "hostPath": {"path": "`+killDir+"/"+name+`", "type": "File"}}}`)
	}
	lab(t, "kubectl", "-n", agentNamespace, "patch", "daemonset/quarry-agent", "--type=json", "-p", "["+strings.Join(patch, ",")+"]")
	lab(t, "kubectl", "-n", agentNamespace, "rollout", "status", "daemonset/quarry-agent", "--timeout=180s")
}

func setMode(t *testing.T, node, kind, mode string) {
	t.Helper()
	onNode(t, node, "cd "+killDir+"; rm -f armed; pkill -x strace || true; : > log; echo "+kind+" > kind; echo "+mode+" > mode; : > killed")
	if kind == "reservations" && mode != "off" {
		onNode(t, node, "cd "+killDir+"; touch armed; setsid ./reservations > /dev/null 2>&1 < /dev/null &")
	}
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
	remove(t, i)
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
