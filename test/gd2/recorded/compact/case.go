package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// durations reads how long each answer took: the fourth column of the index.
func durations(index string) (map[string]json.Number, error) {
	f, err := os.Open(index)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := map[string]json.Number{}
	s := bufio.NewScanner(f)
	for s.Scan() {
		if c := strings.Split(s.Text(), "|"); len(c) > 4 {
			out[strings.TrimSpace(c[0])] = json.Number(strings.TrimSpace(c[3]))
		}
	}
	return out, s.Err()
}

// compact puts one case onto a line: what was asked, what came back, and how long it took.
func compact(file, name string, seconds json.Number) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	// The paths of the machine that was recorded were changed, but for those in this form.
	text = bytes.ReplaceAll(text, []byte("tmp%2Fgd2run%2F"), []byte("var%2Flib%2Fgd2%2F"))
	var in map[string]json.RawMessage
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
	delete(in, "status_line")
	delete(in, "case")
	out := map[string]any{"name": name}
	for k, v := range in {
		out[k] = v
	}
	if seconds != "" {
		out["seconds"] = seconds
	}
	line, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	return line, nil
}
