//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// hostLeaves takes a host off the list: its OSDs are emptied one after the other, and leave clean disks.
func hostLeaves(t *testing.T, c *v1alpha1.Cluster, w *writer, host string) {
	m, err := memberOf(t.Context(), c.Name, host)
	if err != nil {
		t.Fatal(err)
	}
	update(t, c.Name, func(c *v1alpha1.Cluster) {
		c.Spec.Hosts = slices.DeleteFunc(c.Spec.Hosts, func(h v1alpha1.HostName) bool { return string(h) == host })
	})
	said, states := "", []v1alpha1.MemberState(nil)
	eventually(t, limitCeph, host+" is a member no more", func(ctx context.Context) error {
		all, err := membersOf(ctx, c.Name)
		if err != nil {
			return err
		}
		for _, m := range all {
			if string(m.Spec.Node) == host {
				if m.Status.Message != said {
					said = m.Status.Message
					t.Logf("%s: %s", m.Status.State, said)
				}
				// The removal is asked for once its delay of nothing is over. From then on each change counts.
				asked := len(states) > 0 || m.Status.State != "online" && m.Status.State != "quiesced"
				if asked && (len(states) == 0 || states[len(states)-1] != m.Status.State) {
					states = append(states, m.Status.State)
				}
				return fmt.Errorf("%s: %s", m.Status.State, said)
			}
		}
		return nil
	})
	// It still has copies of what was written, and then disks to give back. It may be gone before anybody saw the second.
	if want := []v1alpha1.MemberState{"failed", "abandoned"}; !slices.Equal(states, want) && !slices.Equal(states, want[:1]) {
		t.Errorf("states %v, want %v", states, want)
	}
	for _, o := range m.Spec.Ceph.OSDs {
		noLabel(t, host, string(o.Path))
		checkClean(t, host, string(o.Path))
	}
	if out := inCeph(t, c, "osd", "tree"); strings.Contains(out, "host "+host) {
		t.Errorf("Ceph still knows the host:\n%s", out)
	}
	waitCopies(t, c)
	w.check(t)
}

// hostComes puts a host on the list: so many of its disks become OSDs, and a pod on it reads and writes.
func hostComes(t *testing.T, c *v1alpha1.Cluster, w *writer, host string, own int) {
	before, err := mapOf(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	update(t, c.Name, func(c *v1alpha1.Cluster) { c.Spec.Hosts = append(c.Spec.Hosts, v1alpha1.HostName(host)) })
	eventually(t, limitCeph, "the OSDs of "+host+" are up", func(ctx context.Context) error {
		m, err := memberOf(ctx, c.Name, host)
		if err != nil {
			return err
		}
		now, err := mapOf(ctx, c)
		if err != nil {
			return err
		}
		up, in := now.count()
		if m.Spec.Ceph == nil || len(m.Spec.Ceph.OSDs) != own || len(now.OSDs) != len(before.OSDs)+own || up != len(now.OSDs) || in != up {
			return fmt.Errorf("%s: %s; %d OSDs, %d up, %d in", m.Status.State, m.Status.Message, len(now.OSDs), up, in)
		}
		return nil
	})
	waitCopies(t, c)
	p := waitPod(t, pod(t, c.Name+"-comes", host, "cd /data0; cat kept*.sum | md5sum -c - && date > comes && sync", w.claim), corev1.PodSucceeded)
	remove(t, p)
	w.check(t)
}
