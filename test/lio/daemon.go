//go:build hostroot

package lio

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Daemon starts iscsid, if none runs.
func Daemon(t *testing.T) {
	t.Helper()
	if served() {
		return
	}
	Run(t, "modprobe", "iscsi_tcp")
	Run(t, "iscsid")
}

// served reports whether somebody has the socket of iscsid.
func served() bool {
	text, _ := os.ReadFile("/proc/net/unix")
	return strings.Contains(string(text), "@ISCSIADM_ABSTRACT_NAMESPACE")
}

// StopDaemon kills iscsid. Sessions go on.
func StopDaemon(t *testing.T) {
	t.Helper()
	out, _ := exec.Command("pgrep", "-x", "iscsid").Output()
	for pid := range strings.FieldsSeq(string(out)) {
		n, err := strconv.Atoi(pid)
		must(t, err)
		p, err := os.FindProcess(n)
		must(t, err)
		_ = p.Kill() // Two of them end together.
	}
	for range 100 {
		if !served() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("iscsid does not end")
}

// RestartDaemon kills iscsid, and starts one that has begun to take over the sessions that are there: one by one, each when its target answers.
func RestartDaemon(t *testing.T) {
	t.Helper()
	StopDaemon(t)
	Daemon(t)
	time.Sleep(2 * time.Second)
}
