// Package fslog reads what the kernel says about a mount that it does not make.
package fslog

import (
	"strings"

	"golang.org/x/sys/unix"
)

// lines is how many the kernel keeps of one mount at most, and some more.
const lines = 16

// Read returns what the kernel says about the failure of a mount, as an end of a sentence in parentheses with a blank before it; empty when it says nothing.
// context is the file descriptor that fsopen returned. What was read is gone from there.
func Read(context int) string {
	var said []string
	buffer := make([]byte, 1024)
	for range lines {
		n, err := unix.Read(context, buffer)
		if err != nil || n <= 0 {
			break
		}
		said = append(said, plain(string(buffer[:n])))
	}
	if len(said) == 0 {
		return ""
	}
	return " (" + strings.Join(said, "; ") + ")"
}

// plain takes the level off a line: "e NFS: …" begins with it and a space.
func plain(line string) string {
	line = strings.TrimSpace(line)
	if _, text, ok := strings.Cut(line, " "); ok {
		return text
	}
	return line
}
