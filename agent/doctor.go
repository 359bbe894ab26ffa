package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"quarry.storage/quarry/agent/internal/doctor"
	"quarry.storage/quarry/agent/internal/doctor/observe"
	"quarry.storage/quarry/agent/internal/host/iscsi"
	"quarry.storage/quarry/agent/internal/host/module"
	"quarry.storage/quarry/agent/internal/host/reservation"
	hostrun "quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/pkg/version"
)

// doctorCommand is the first argument of a look at the node: `agent doctor`.
const doctorCommand = "doctor"

// errNotStarted is what a look at the node does instead of starting iscsid.
var errNotStarted = errors.New("a look starts nothing")

// examine looks at the node, prints what it found and returns the exit code.
func examine(ctx context.Context, args []string, out, errOut io.Writer) int {
	types, code := topics(args, errOut)
	if types == nil {
		return code
	}
	host, _ := os.Hostname()
	name := cmp.Or(os.Getenv("NODE_NAME"), host)
	facts := observe.Look(ctx, observe.Config{
		Name: name, Version: version.Version, InPod: os.Getenv("KUBERNETES_SERVICE_HOST") != "",
		Modules: module.New(module.Config{Runner: hostrun.Real{}}),
		Initiator: iscsi.New(iscsi.Config{
			Runner: hostrun.Real{}, NodeName: name,
			// With one that can be started a host without iscsid is none to complain about.
			Start: func(hostrun.Command) (iscsi.Process, error) { return nil, errNotStarted },
		}),
		Reservations: reservation.New(), Clock: observe.Clock,
	})
	findings := doctor.Judge(facts, types)
	fmt.Fprintln(out, "node", facts.Name)
	for _, f := range findings {
		fmt.Fprintf(out, "%-7s %-8s %s\n", f.Topic, f.Level, f.Text)
	}
	if !doctor.Works(findings) {
		return exitFailure
	}
	return 0
}

// topics are the storage types to look for; nil, with the exit code, when there is nothing to look for.
func topics(args []string, errOut io.Writer) ([]string, int) {
	set := flag.NewFlagSet("agent "+doctorCommand, flag.ContinueOnError)
	set.SetOutput(errOut)
	text := set.String("for", strings.Join(doctor.Types, ","), "storage types that the node is to serve, separated by commas")
	switch err := set.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil, 0
	case err != nil:
		return nil, exitUsage
	case set.NArg() > 0:
		fmt.Fprintf(errOut, "agent %s: unexpected argument %q\n", doctorCommand, set.Arg(0))
		return nil, exitUsage
	}
	types := strings.Split(*text, ",")
	for _, t := range types {
		if !slices.Contains(doctor.Types, t) {
			fmt.Fprintf(errOut, "agent %s: storage type %q is none of %s\n", doctorCommand, t, strings.Join(doctor.Types, ", "))
			return nil, exitUsage
		}
	}
	return types, 0
}
