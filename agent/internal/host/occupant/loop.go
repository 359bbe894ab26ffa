package occupant

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// loops finds loop devices that stand on a disk itself, or on a partition of it. The kernel shows them as holders of nothing.
func (s *search) loops(ctx context.Context) {
	links, err := filepath.Glob(filepath.Join(s.sys, "class", "block", "loop[0-9]*"))
	if err != nil {
		s.fail(fmt.Errorf("loop devices: %w", err))
		return
	}
	for _, link := range links {
		if ctx.Err() != nil {
			return
		}
		name := filepath.Base(link)
		text, err := os.ReadFile(filepath.Join(link, "loop", "backing_file"))
		if err != nil {
			// A loop device with nothing behind it has no such attribute, nor has a partition of one.
			s.fail(fmt.Errorf("loop device %s: %w", name, err))
			continue
		}
		file := strings.TrimSuffix(string(text), "\n")
		if file == "" {
			continue
		}
		s.at.Store(fmt.Sprintf("%s, on which the loop device %s stands,", file, name))
		d, ok, err := s.backing(filepath.Join(s.dev, name))
		if err != nil {
			s.fail(fmt.Errorf("loop device %s: %w", name, err))
			continue
		}
		if ok {
			s.use(d, "loop device "+name)
		}
	}
}
