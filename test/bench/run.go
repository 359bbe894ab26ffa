package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"quarry.storage/quarry/test/bench/internal/measure"
	"quarry.storage/quarry/test/bench/internal/node"
	"quarry.storage/quarry/test/bench/internal/table"
)

const usage = `usage:
  bench [flags] prepare|volumes|rows|count|load   measure inside a node, as root; everything on the disks is lost
  bench [flags] shared|io                         measure on an iSCSI target with three LUNs, on which everything is lost
  bench [flags] pod                               look at the memory of the agent's pod until standard input ends
  bench claims                                    take over what the test of a hundred claims prints, from standard input
  bench moves                                     take over what the journey of a volume between nodes prints, from standard input
  bench ceph                                      take over what the journey of claims on Ceph prints, from standard input
  bench [flags] table REPORT.json...              write the page from reports
`

func run(ctx context.Context) error {
	var cfg node.Config
	var disks, when, portals, page string
	flag.Usage = func() { fmt.Fprint(os.Stderr, usage); flag.PrintDefaults() }
	flag.StringVar(&disks, "disks", "", "spare disks, separated by commas: /dev/ubdd,/dev/ubde")
	flag.StringVar(&cfg.Agent, "agent", "", "the agent's binary")
	flag.StringVar(&cfg.LVMd, "lvmd", "", "the binary of TopoLVM's lvmd")
	flag.StringVar(&cfg.Dir, "dir", "/var/lib/quarry-bench", "directory for configurations and logs, made anew")
	flag.StringVar(&when, "when", "idle", "what the node does meanwhile, for pod")
	flag.StringVar(&cfg.Target.IQN, "target", "", "name of the iSCSI target, for shared and io")
	flag.StringVar(&portals, "portals", "", "its portals, separated by commas: 10.99.0.211:3260")
	flag.StringVar(&page, "page", "", "the page before, for table: what was not measured is taken from it")
	flag.DurationVar(&cfg.Budget, "budget", 4*time.Minute, "how long to go on with rounds")
	flag.IntVar(&cfg.Rounds, "rounds", 0, "at most so many rounds; 0 is as many as fit")
	flag.Parse()
	switch flag.Arg(0) {
	case "table":
		return table.Write(os.Stdout, page, flag.Args()[1:])
	case "claims":
		return answer(measure.ReadClaims(os.Stdin))
	case "moves":
		return answer(measure.ReadMoves(os.Stdin))
	case "ceph":
		return answer(measure.ReadCeph(os.Stdin))
	case "pod":
		return answer(node.Pod(os.Stdin, when))
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cfg.Self, cfg.Log, cfg.Disks, cfg.Target.Portals = self, os.Stderr, words(disks), words(portals)
	b, err := node.New(cfg)
	if err != nil {
		return err
	}
	work, known := map[string]func(context.Context) (measure.Report, error){
		"prepare": b.Prepare, "volumes": b.Volumes, "rows": b.Rows, "count": b.Count, "load": b.Load, "shared": b.Shared, "io": b.IO,
	}[flag.Arg(0)]
	if !known {
		flag.Usage()
		return fmt.Errorf("unknown measurement %q", flag.Arg(0))
	}
	return answer(work(ctx))
}

// words are those of a list with commas.
func words(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

func answer(r measure.Report, err error) error {
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}
