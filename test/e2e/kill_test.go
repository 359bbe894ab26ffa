//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// killDir is on the node and, at the same path, in the agent's container.
const killDir = "/run/quarry-kill"

// killer stands in front of LVM: it counts the commands that change something and kills the agent, its parent, right before or right
// after one of them, once.
const killer = `#!/bin/sh
cd ` + killDir + `
case "$1" in pvcreate|vgcreate|vgextend|vgreduce|vgremove) ;; *) exec /usr/sbin/lvm "$@" ;; esac
count=$(( $(cat count) + 1 )); echo $count > count; echo "$*" >> log
if [ "$(cat before)" = $count ]; then echo 0 > before; kill -9 $PPID; exit 1; fi
/usr/sbin/lvm "$@"; code=$?
if [ "$(cat after)" = $count ]; then echo 0 > after; kill -9 $PPID; fi
exit $code
`

// TestAgentKilledBetweenCommands kills the agent of a node before and after each command that prepares and removes two disks. The
// Cluster must end up Running, and gone with its disks clean, every time.
func TestAgentKilledBetweenCommands(t *testing.T) {
	turn(t, 15, 20)
	for _, node := range nodes {
		onNode(t, node, "mkdir -p "+killDir+" && cat > "+killDir+"/lvm <<'END'\n"+killer+"END\nchmod +x "+killDir+"/lvm")
		arm(t, node, "before", 0)
	}
	useKiller(t)
	// Two pvcreate and one vgcreate bring the Cluster up; the fourth command, vgremove, takes it down.
	for command := 1; command <= 4; command++ {
		for _, when := range []string{"before", "after"} {
			t.Run(fmt.Sprintf("%s command %d", when, command), func(t *testing.T) { killAt(t, lease(t), when, command) })
		}
	}
}

func killAt(t *testing.T, node, when string, command int) {
	t.Helper()
	arm(t, node, when, command)
	before := agentPod(t, node)
	name := fmt.Sprintf("killed-%s-%d", when, command)
	create(t, newCluster(name, node))
	c := waitReady(t, name, 2*time.Minute)
	// A disk that udev has not looked at again since the kill is taken a moment later than the other.
	eventually(t, limitReady, "both disks are taken", func(ctx context.Context) (err error) {
		if c, err = getCluster(ctx, name); err == nil && c.Status.DeviceCount != 2 {
			err = fmt.Errorf("%d devices: %s", c.Status.DeviceCount, c.Status.Message)
		}
		return err
	})
	checkGroupOnDisk(t, node, c)
	devices := devicesOf(t, name)[node]
	if err := kube.Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	waitGone(t, name)
	for _, device := range devices {
		checkClean(t, node, device)
	}
	if armed := strings.Fields(onNode(t, node, "cat "+killDir+"/before "+killDir+"/after")); armed[0] != "0" || armed[1] != "0" {
		t.Errorf("the agent was not killed; commands were:\n%s", onNode(t, node, "cat "+killDir+"/log"))
	}
	replaceAgent(t, node, before)
}

func arm(t *testing.T, node, when string, command int) {
	t.Helper()
	onNode(t, node, fmt.Sprintf("cd %s; echo 0 > count; echo 0 > before; echo 0 > after; : > log; echo %d > %s", killDir, command, when))
}

// useKiller runs the agents with the killer in the place of LVM, and with what is beside it in killDir in the place of more programs.
func useKiller(t *testing.T, programs ...string) {
	t.Helper()
	daemonSet := []string{"kubectl", "-n", agentNamespace}
	settle := func() {
		lab(t, append(daemonSet, "rollout", "status", "daemonset/quarry-agent", "--timeout=180s")...)
	}
	// All of it is one revision of the DaemonSet, which is undone in one step.
	patch := []string{`{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--lvm-binary=` + killDir + `/lvm"}`}
	replace := func(name, host, inside, kind string) {
		patch = append(patch, `{"op": "add", "path": "/spec/template/spec/containers/0/volumeMounts/-", "value": {"name": "`+name+`", "mountPath": "`+inside+`"}}`,
			`{"op": "add", "path": "/spec/template/spec/volumes/-", "value": {"name": "`+name+`", "hostPath": {"path": "`+host+`", "type": "`+kind+`"}}}`)
	}
	replace("kill", killDir, killDir, "Directory")
	for _, p := range programs {
		replace("kill-"+p, killDir+"/"+p, "/usr/sbin/"+p, "File")
	}
	lab(t, append(daemonSet, "patch", "daemonset/quarry-agent", "--type=json", "-p", "["+strings.Join(patch, ",")+"]")...)
	settle()
	t.Cleanup(func() {
		lab(t, append(daemonSet, "rollout", "undo", "daemonset/quarry-agent")...)
		settle()
	})
}

// replaceAgent gives the node a new agent pod, so that the next kill does not meet the kubelet's back-off of this one.
func replaceAgent(t *testing.T, node string, old *corev1.Pod) {
	t.Helper()
	if err := kube.Delete(t.Context(), old, client.GracePeriodSeconds(1)); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	eventually(t, time.Minute, node+" has a new agent", func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := kube.List(ctx, pods, client.InNamespace(agentNamespace)); err != nil {
			return err
		}
		for _, p := range pods.Items {
			if p.Spec.NodeName != node || p.UID == old.UID || !strings.HasPrefix(p.Name, "quarry-agent-") {
				continue
			}
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
					return nil
				}
			}
		}
		return fmt.Errorf("not ready")
	})
}
