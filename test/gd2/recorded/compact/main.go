// Command compact writes recordings of glusterd2 in the form of testdata: one line for each case, one file for each run.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	from := flag.String("from", "", "directory with INDEX.md and cases/")
	to := flag.String("to", "test/gd2/recorded/testdata", "directory to write to")
	flag.Parse()
	if err := run(*from, *to); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(from, to string) error {
	seconds, err := durations(filepath.Join(from, "INDEX.md"))
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(from, "cases", "*.json"))
	if err != nil {
		return err
	}
	out := map[string]*bytes.Buffer{}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".json")
		line, err := compact(f, name, seconds[name])
		if err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
		if out[name[:1]] == nil {
			out[name[:1]] = &bytes.Buffer{}
		}
		out[name[:1]].Write(append(line, '\n'))
	}
	for run, text := range out {
		if err := os.WriteFile(filepath.Join(to, run+".jsonl"), text.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
