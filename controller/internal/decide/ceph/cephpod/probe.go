package cephpod

import (
	_ "embed" // The program of the probes.

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quarry.storage/quarry/pkg/cephname"
)

// asks is a program that asks a daemon over its socket. It succeeds if the daemon answers and, where states are given, is in one of them. The program ceph asks the same, and takes many times the
// processor time for it, as it loads the libraries of a client first: where much is to be done, daemons were ended because that took too long.
//
//go:embed probe.py
var asks string

// asksIn is the variable of a daemon's container that has the program: events of the kubelet show the whole command of a probe.
const asksIn = "QUARRY_PROBE"

// interpreter starts the program without what is installed besides.
const interpreter = `/usr/bin/python3 -I -S -c "$` + asksIn + `" "$0" "$@"`

// takenUp marks a container whose daemon was taken up by Ceph. It goes with the container.
const takenUp = "/tmp/quarry-taken-up"

// always asks a daemon.
const always = "exec " + interpreter

// once asks a daemon until it was taken up.
const once = "[ -e " + takenUp + " ] || { " + interpreter + " && touch " + takenUp + "; }"

// asking is a probe that asks a daemon, as a script says.
func asking(d Daemon, script, question string, states ...string) corev1.ProbeHandler {
	command := []string{"/bin/sh", "-c", script, sockets + "/ceph-" + d.Kind + "." + d.ID + ".asok", question}
	return corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: append(command, states...)}}
}

// alive ends a daemon that answers nothing for minutes.
func alive(d Daemon) *corev1.Probe {
	p := probe(asking(d, always, "version"), 60, 5)
	if d.Kind == cephname.DaemonMonitor {
		// A monitor without a quorum listens, and says so only when it is asked.
		p = probe(corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(cephname.PortMonitor)}}, 10, 6)
	}
	p.InitialDelaySeconds = 120
	return p
}

// ready makes a pod count, for budgets above all, and for whoever removes another daemon of the kind. A monitor is asked for as long as it runs, for it may lose the quorum. All others are asked
// until Ceph has taken them up. Each question starts a program, so it is put twice a minute.
func ready(d Daemon) *corev1.Probe {
	var p *corev1.Probe
	switch d.Kind {
	case cephname.DaemonMonitor:
		p = probe(asking(d, always, "mon_status", "leader", "peon"), 30, 1)
	case cephname.DaemonOSD:
		p = probe(asking(d, once, "status", "active"), 30, 2)
	case cephname.DaemonMetadata:
		p = probe(asking(d, once, "status", "up:active", "up:standby", "up:standby-replay"), 30, 2)
	default:
		p = probe(asking(d, once, "version"), 30, 2)
	}
	p.InitialDelaySeconds = 10
	return p
}

func probe(h corev1.ProbeHandler, period, failures int32) *corev1.Probe {
	return &corev1.Probe{ProbeHandler: h, PeriodSeconds: period, TimeoutSeconds: 15, FailureThreshold: failures, SuccessThreshold: 1}
}
